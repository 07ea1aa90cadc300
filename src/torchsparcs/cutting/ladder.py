"""The ladder: networks cut to a smaller size, refitted, fine-tuned and judged, rung by rung."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from torchsparcs.training.config import TrainConfig, check_amounts, check_counts
from torchsparcs.training.data import Data, Pair, batches_of, is_pair, placed
from torchsparcs.training.nests import rows_in, rows_of
from torchsparcs.training.tasks import (
    LossFunction,
    evaluate,
    gives_tensors,
    predict,
    resolve_task,
)

AT_ONCE = 64  # rows that a cut looks at
PASSED_OVER = 2  # rungs with too high a loss before it is given up


class Judged(Protocol):
    """What networks are worth on rows that they were not fitted to."""

    @property
    def loss(self) -> float: ...
    @property
    def score(self) -> float: ...


Network = TypeVar("Network")
Verdict = TypeVar("Verdict", bound=Judged)


class Family(Protocol[Network, Verdict]):
    """A kind of network: its cuts, its fine-tuning, its judges.

    They come in groups of fits: networks made in the same way and fitted to different rows, for
    cross-validation; the last of a group is the one that is kept. ``name`` is that of the step.
    """

    def size(self, network: Network) -> int:
        """The number of parameters that counts."""

    def cut(
        self, name: str, groups: list[list[Network]], sizes: list[int]
    ) -> list[dict[str, list[Network]]]:
        """The ways of each group to have at most so many parameters, the plain one first."""

    def tune(
        self, name: str, groups: list[list[Network]], tuning: TrainConfig
    ) -> list[list[Network] | None]:
        """The groups fine-tuned; None where that diverges. ``groups`` stay as they are."""

    def judge(self, groups: list[list[Network]]) -> list[Verdict]:
        """The verdict on each group."""


@dataclass(frozen=True)
class Rung(Generic[Network, Verdict]):
    """A group of networks at one size.

    Attributes:
        group: its number.
        cuts: how often it was cut.
        way: how it was cut the last time.
        networks: one for each fit; the last one is what is found there.
        passed_over: what else was judged at this step.
    """

    group: int
    cuts: int
    way: str
    networks: list[Network]
    judgement: Verdict
    parameters: int
    passed_over: tuple["Rung[Network, Verdict]", ...] = ()

    @property
    def network(self) -> Network:
        return self.networks[-1]

    @property
    def loss(self) -> float:
        return self.judgement.loss


class Ladder(Generic[Network, Verdict]):
    """The way down of the groups of one family."""

    def __init__(self, family: Family[Network, Verdict]):
        self.family, self.cuts = family, 0
        self._cut: list[tuple[int, str, list[Network]]] = []  # the last time, not yet fine-tuned

    def top(self, groups: list[list[Network]]) -> list[Rung[Network, Verdict]]:
        """The groups as they are."""
        return self._judged([(place, "", group) for place, group in enumerate(groups)], groups)

    def step(
        self, rungs: Sequence[Rung[Network, Verdict]], sizes: list[int], tuning: TrainConfig
    ) -> list[Rung[Network, Verdict]]:
        """Cut every group to its size in every way there is, fine-tune and judge.

        What diverges is left out.
        """
        self.cuts += 1
        groups = [rung.networks for rung in rungs]
        ways = self.family.cut(f"cut {self.cuts}", groups, sizes)
        self._cut = [
            (rung.group, way, networks)
            for rung, found in zip(rungs, ways, strict=True)
            for way, networks in found.items()
        ]
        tuned = self.family.tune(f"tuning {self.cuts}", [each[2] for each in self._cut], tuning)
        return self._judged(self._cut, tuned)

    def untuned(self) -> list[Rung[Network, Verdict]]:
        """The groups of the last step as they were cut, before any fine-tuning."""
        return self._judged(self._cut, [networks for _, _, networks in self._cut])

    def again(
        self, rung: Rung[Network, Verdict], tuning: TrainConfig
    ) -> list[Rung[Network, Verdict]]:
        """The group of ``rung``, of the last step, fine-tuned by another config."""
        cut = [each for each in self._cut if each[:2] == (rung.group, rung.way)]
        name = f"tuning {self.cuts} again"
        return self._judged(cut, self.family.tune(name, [each[2] for each in cut], tuning))

    def _judged(
        self, cut: list[tuple[int, str, list[Network]]], tuned: Sequence[list[Network] | None]
    ) -> list[Rung[Network, Verdict]]:
        """The rungs of those that were ``cut`` whose fine-tuning did not diverge."""
        pairs = zip(cut, tuned, strict=True)
        kept = [(group, way, after) for (group, way, _), after in pairs if after is not None]
        judgements = self.family.judge([networks for _, _, networks in kept]) if kept else []
        return [
            Rung(group, self.cuts, way, networks, judgement, self.family.size(networks[-1]))
            for (group, way, networks), judgement in zip(kept, judgements, strict=True)
        ]


def last_within(
    rungs: Iterable[Rung[Network, Verdict]],
    allowance: float,
    show: Callable[[str], None],
    *,
    unit: str = "parameters",
) -> Rung[Network, Verdict]:
    """The last of ``rungs`` whose loss is at most ``allowance`` higher than the lowest so far.

    A few that are not are passed over: smaller ones may have got rid of what was in the way.
    """
    best, limit, passed = None, math.inf, 0
    for rung in rungs:
        show(f"{rung.parameters:,} {unit}, loss {rung.loss:.4g}, allowed {limit:.4g}")
        if best is None or rung.loss <= limit:
            best, limit, passed = rung, min(limit, rung.loss + allowance), 0
        elif (passed := passed + 1) > PASSED_OVER:
            break
    assert best is not None
    return best


def first_within(
    rungs: Iterable[Rung[Network, Verdict]],
    largest: int,
    show: Callable[[str], None],
    *,
    unit: str = "parameters",
    besides: int = 0,
) -> Rung[Network, Verdict]:
    """The first of ``rungs`` that has at most ``largest`` of what counts; else a ValueError.

    Args:
        unit: what counts, by its name.
        besides: how many more there are that no rung counts, and that the budget did.
    """
    for rung in rungs:
        size, most = rung.parameters + besides, largest + besides
        show(f"{size:,} {unit}, loss {rung.loss:.4g}, allowed {most:,}")
        if rung.parameters <= largest:
            return rung
    raise ValueError(
        f"Expected a budget that can be reached. Got {most:,} {unit}: with a unit left in each "
        f"block there are {size:,}."
    )


@dataclass(frozen=True)
class RefineConfig:
    """The limits of a cut: how much loss for size, and its fine-tuning.

    Attributes:
        tolerance: what may be given up, as a share of the loss of one answer for all rows, the mean
            of the network's outputs; of the network's own loss where its outputs are several.
        slack: a cut block of a dense network that is cut by itself may cost that many times the
            tolerance before it is fine-tuned.
        rows: training rows used for least squares; at most 2,000 for convolutions and for several
            networks at once.
        epochs, lr, batch_size: of each fine-tuning.
        teaching: where plain blocks are cut, the share of each fine-tuning's loss that asks for
            what the model before the cuts says, and what its blocks give; zero for targets alone.
    """

    tolerance: float = 1e-3
    slack: float = 10.0
    rows: int = 20_000
    epochs: int = 10
    lr: float = 2e-3
    batch_size: int = 1024
    seed: int = 0
    teaching: float = 0.5

    def __post_init__(self) -> None:
        check_counts(self, "rows", "epochs", "batch_size")
        check_amounts(self, "tolerance", "slack", "lr", "teaching")
        if self.teaching > 1:
            raise ValueError(f"Expected teaching to be between 0 and 1. Got {self.teaching!r}.")

    def tuning(self, task: str | LossFunction, **options: Any) -> TrainConfig:
        """The config of a fine-tuning."""
        return TrainConfig(
            task=task,
            epochs=self.epochs,
            lr=self.lr,
            batch_size=self.batch_size,
            seed=self.seed,
            **options,
        )


def constant_loss(network: nn.Module, validation: Data, task: str | LossFunction) -> float:
    """The loss of predicting the network's mean output for every row.

    Where a loss of one's own takes other things than one tensor and another, it is the loss of the
    network itself: there is no mean of such answers.
    """
    if callable(task) and not gives_tensors(network, validation):
        return evaluate(network, validation, task).loss
    output, target, _ = predict(network, validation)
    constant = output.flatten(0, -2).mean(dim=0).expand_as(output)
    return resolve_task(task).loss(constant, target).item()


def some_rows(data: Data, count: int, seed: int, like: Tensor) -> list[Pair]:
    """At most ``count`` rows in small batches: drawn at random from memory, or a loader's first."""
    if is_pair(data):
        x, y = placed(data, None)
        order = torch.randperm(rows_of(x), generator=torch.Generator().manual_seed(seed))[:count]
        data = rows_in(x, order), rows_in(y, order)
    rows: list[Pair] = []
    for x, y in batches_of(data, AT_ONCE, like=like):
        rows.append((rows_in(x, slice(count)), rows_in(y, slice(count))))
        count -= rows_of(x)
        if count <= 0:
            break
    if not rows:
        raise ValueError("Expected data with at least one batch. Got none.")
    return rows
