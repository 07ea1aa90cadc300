"""The ladder: models cut to a smaller size, refitted, fine-tuned and judged, rung by rung."""

import contextlib
import copy
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.normalised_chain import NormalisedChain
from torchsparcs.cutting.layers import as_good_as, chain_cuts
from torchsparcs.cutting.models import cut_model, size_of
from torchsparcs.cutting.refinement import RefineConfig, constant_loss
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Data, Pair, batches_of, in_memory, is_pair, placed
from torchsparcs.training.loop import NonFiniteLossError
from torchsparcs.training.progress import cutting_progress
from torchsparcs.training.tasks import LossFunction, evaluate
from torchsparcs.training.train import train

SHRINK = 0.7  # of the parameters are left on the next rung
HASTE = 0.5  # of them, above the size that was asked for
LOOKED_AT = 2000  # training rows, at most, that a cut looks at
AT_ONCE = 64  # of them
JUDGED_AT_ONCE = 4  # batches of the training: without gradients they take less memory
PASSED_OVER = 2  # rungs with too high a loss before it is given up


class Judged(Protocol):
    """What models are worth on rows that they were not fitted to."""

    @property
    def loss(self) -> float: ...
    @property
    def score(self) -> float: ...


class Fit(NamedTuple):
    """The data that one model of a rung is fine-tuned on, and the rows that its cuts look at."""

    data: Data
    looked_at: list[Pair]
    weights: Tensor | None = None

    @classmethod
    def to(
        cls, data: Data, like: Tensor, rows: int, seed: int, weights: Tensor | None = None
    ) -> "Fit":
        """A fit to ``data``, whose cuts look at ``rows``, drawn at random or a loader's first."""
        some: Data = data
        if is_pair(data):
            x, y = (torch.as_tensor(part) for part in data)
            order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:rows]
            some = x[order.to(x.device)], y[order.to(y.device)]
        looked_at: list[Pair] = []
        for x, y in batches_of(some, AT_ONCE, like=like):
            looked_at.append((x[:rows], y[:rows]))
            rows -= len(x)
            if rows <= 0:
                break
        if not looked_at:
            raise ValueError("Expected data with at least one batch. Got none.")
        return cls(data, looked_at, weights)


class Rung(NamedTuple):
    """Models of about one size, one for each fit; the last one is what is found there."""

    models: list[nn.Module]
    judgement: Judged

    @property
    def model(self) -> nn.Module:
        return self.models[-1]

    @property
    def parameters(self) -> int:
        """How many the compact networks inside the model have."""
        return size_of(self.model)

    @property
    def loss(self) -> float:
        return self.judgement.loss


def _done_now(name: str, compute: Callable[[], list[nn.Module]]) -> list[nn.Module]:
    return compute()


@dataclass
class Ladder:
    """A model's way down, fitted to one set of rows or, for cross-validation, to several.

    Attributes:
        fits: one for each model of a rung.
        judge: gives the judgement of such models.
        constant: the loss of a constant answer.
        normalise: signals of a chain are normalised in the fine-tuning, which is folded into its
            layers again.
        step: does a piece of the work, given its name; a search keeps what comes of it.
    """

    fits: Sequence[Fit]
    judge: Callable[[list[nn.Module]], Judged]
    constant: float
    normalise: bool = False
    step: Callable[[str, Callable[[], list[nn.Module]]], list[nn.Module]] = _done_now

    def rungs(
        self, models: list[nn.Module], tuning: TrainConfig, through: int | None = None
    ) -> Iterator[Rung]:
        """``models``, then some with at most 0.7 of the parameters, and so on, as small as it gets.

        Each is cut from the one before and fine-tuned as ``tuning`` says. Where a layer of a chain
        might go, all ways are fine-tuned; without it is taken unless the judges notice. Where the
        score falls, half of the decay is tried as well, and stays where it is better: a smaller
        network needs less. One of the sizes on the way is ``through``, and halves lead there.
        """
        rung = Rung(models, self.judge(models))
        for place in itertools.count(1):
            yield rung
            size = rung.parameters
            aim = int(SHRINK * size)
            if through is not None and through < size:
                aim = max(through, int(HASTE * size))
            tried: list[tuple[Rung, list[nn.Module]]] = []
            for way, cut in self._cuts(rung.models, aim, tuning.task).items():
                if size_of(cut[-1]) < size:
                    with contextlib.suppress(NonFiniteLossError):  # another may do better
                        tried.append((self._tuned(f"rung {place} {way}", cut, tuning), cut))
            if not tried:
                return  # nothing is smaller, or all of it diverges
            limit = as_good_as(tried[0][0].loss, self.constant)
            shorter = [each for each in tried[1:] if each[0].loss <= limit]
            best, cut = min(shorter, key=lambda each: each[0].parameters, default=tried[0])
            if best.judgement.score < rung.judgement.score and tuning.weight_decay:
                less = dataclasses.replace(tuning, weight_decay=tuning.weight_decay / 2)
                with contextlib.suppress(NonFiniteLossError):
                    again = self._tuned(f"rung {place} less decay", cut, less)
                    if again.judgement.score > best.judgement.score:
                        best, tuning = again, less
            rung = best

    def _cuts(
        self, models: list[nn.Module], size: int, task: str | LossFunction
    ) -> dict[str, list[nn.Module]]:
        """Ways to have at most ``size`` parameters, by name, the plain one first.

        Models that judge are no larger than the last one, and a way is open where all have it.
        """
        ways: dict[str, list[nn.Module]] = {}
        for model, fit in reversed([*zip(models, self.fits, strict=True)]):
            if isinstance(model, CompactChain):
                inputs, targets = zip(*fit.looked_at, strict=True)
                looked_at = torch.cat(inputs), torch.cat(targets)
                found: dict[str, nn.Module] = {**chain_cuts(model, looked_at, task, size)}
            else:
                found = {"cut": cut_model(model, fit.looked_at, task, size)}
            first = ways or {way: [] for way in found}
            ways = {way: [found[way], *first[way]] for way in first if way in found}
            size = min(size, size_of(ways[next(iter(ways))][-1]))
        return ways

    def _tuned(self, name: str, cut: list[nn.Module], tuning: TrainConfig) -> Rung:
        """The models of ``cut``, which stay as they are, fine-tuned and judged."""

        def tune() -> list[nn.Module]:
            tuned: list[nn.Module] = []
            for model, fit in zip(cut, self.fits, strict=True):
                fitted: nn.Module = copy.deepcopy(model)
                if self.normalise and isinstance(model, CompactChain):
                    fitted = NormalisedChain(model, torch.cat([x for x, _ in fit.looked_at]))
                train(fitted, fit.data, tuning, weights=fit.weights, progress=False)
                tuned.append(fitted.folded() if isinstance(fitted, NormalisedChain) else fitted)
            return tuned

        models = self.step(name, tune)
        return Rung(models, self.judge(models))


class _Step(Protocol):
    @property
    def loss(self) -> float: ...
    @property
    def parameters(self) -> int: ...


Step = TypeVar("Step", bound=_Step)


def last_within(rungs: Iterable[Step], allowance: float, show: Callable[[str], None]) -> Step:
    """The last of ``rungs`` whose loss is at most ``allowance`` higher than the lowest so far.

    A few that are not are passed over: smaller ones may have got rid of what was in the way.
    """
    best, limit, passed = None, math.inf, 0
    for rung in rungs:
        show(f"{rung.parameters:,} parameters, loss {rung.loss:.4g}, allowed {limit:.4g}")
        if best is None or rung.loss <= limit:
            best, limit, passed = rung, min(limit, rung.loss + allowance), 0
        elif (passed := passed + 1) > PASSED_OVER:
            break
    assert best is not None
    return best


def model_rungs(
    model: nn.Module,
    data: Data,
    validation: Data,
    tuning: TrainConfig,
    *,
    rows: int = LOOKED_AT,
    normalise: bool = False,
) -> Iterator[Rung]:
    """The rungs of one ``model``, fine-tuned on ``data`` and judged on ``validation``."""
    batch = JUDGED_AT_ONCE * tuning.batch_size

    def judge(models: list[nn.Module]) -> Judged:
        return evaluate(models[-1], validation, tuning.task, batch_size=batch)

    fit = Fit.to(data, next(model.parameters()), rows, tuning.seed)
    ladder = Ladder([fit], judge, constant_loss(model, validation, tuning.task), normalise)
    return ladder.rungs([model], tuning)


def refine_model(
    model: nn.Module,
    data: Data,
    validation: Data,
    task: str | LossFunction,
    config: RefineConfig | None = None,
    *,
    normalise: bool = False,
    progress: bool = True,
) -> nn.Module:
    """The last model on the way down whose validation loss is within the tolerance."""
    config = config or RefineConfig()
    tuning = config.tuning(task, schedule="warm_cosine")
    like = next(model.parameters())
    if isinstance(model, CompactChain):
        data, validation = in_memory(data, like), in_memory(validation, like)
    data = placed(data, like) if is_pair(data) else data
    validation = placed(validation, like) if is_pair(validation) else validation
    allowance = config.tolerance * constant_loss(model, validation, task)
    rows = min(config.rows, LOOKED_AT)
    with cutting_progress(progress) as show:
        rungs = model_rungs(model, data, validation, tuning, rows=rows, normalise=normalise)
        return last_within(rungs, allowance, show).model
