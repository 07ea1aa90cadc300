"""A model, or the fits of one to several sets of rows, on its way down the ladder."""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.normalised_chain import NormalisedChain
from torchsparcs.cutting.ladder import (
    Ladder,
    RefineConfig,
    Rung,
    Verdict,
    constant_loss,
    first_within,
    last_within,
    some_rows,
)
from torchsparcs.cutting.layers import as_good_as, chain_cuts
from torchsparcs.cutting.models import cut_model, size_of
from torchsparcs.cutting.teacher import Teacher
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Data, Pair, in_memory, is_pair, placed
from torchsparcs.training.deadline import Turn
from torchsparcs.training.loop import NonFiniteLossError
from torchsparcs.training.progress import cutting_progress
from torchsparcs.training.tasks import Evaluation, LossFunction, evaluate
from torchsparcs.training.train import train

SHRINK = 0.7  # of the parameters are left on the next rung
HASTE = 0.5  # of them, above the size that was asked for
LOOKED_AT = 2000  # training rows, at most, that a cut looks at
JUDGED_AT_ONCE = 4  # batches of the training: without gradients they take less memory


class Fit(NamedTuple):
    """The data that one model of a group is fine-tuned on, and the rows that its cuts look at."""

    data: Data
    looked_at: list[Pair]
    weights: Tensor | None = None


class Cuts(Protocol):
    """What can go of a model: how much there is of it, in which unit, and copies with less."""

    @property
    def unit(self) -> str: ...

    @property
    def stays(self) -> Sequence[str]:
        """Names of modules around what can go, that give something as wide as before."""

    def size(self, model: nn.Module) -> int: ...

    def cut(
        self, model: nn.Module, rows: Sequence[Pair], task: str | LossFunction, size: int
    ) -> Mapping[str, nn.Module]:
        """Copies of at most that size, by the way they were cut, the plain one first."""


class CompactCuts:
    """The compact networks inside a model, or the chain that it is."""

    unit = "parameters"
    stays: Sequence[str] = ()

    def size(self, model: nn.Module) -> int:
        return size_of(model)

    def cut(
        self, model: nn.Module, rows: Sequence[Pair], task: str | LossFunction, size: int
    ) -> Mapping[str, nn.Module]:
        if not isinstance(model, CompactChain):
            return {"plain": cut_model(model, rows, task, size)}
        inputs, targets = zip(*rows, strict=True)
        return chain_cuts(model, (torch.cat(inputs), torch.cat(targets)), task, size)


def _one_by_one(function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
    return [function(item) for item in items]


def _at_once(name: str, compute: Callable[[], list[nn.Module] | None]) -> list[nn.Module] | None:
    return compute()


def _any_time(items: int) -> None:
    return None


@dataclass
class ModelFamily(Generic[Verdict]):
    """Models with compact networks inside, or that are one; a group has one for each fit.

    Attributes:
        verdict: of the models of a group.
        task: what they are trained for.
        normalise: signals of a chain are normalised in the fine-tuning, which is folded into its
            layers again.
        step: does a piece of the work, given its name; a search keeps what comes of it.
        map: calls a function on items, one for each fit.
        turn: the time that each of so many fine-tunings has, None for any.
        cuts: what can go.
        teacher: what fine-tunings listen to beside the targets.
    """

    fits: Sequence[Fit]
    verdict: Callable[[list[nn.Module]], Verdict]
    task: str | LossFunction
    normalise: bool = False
    step: Callable[[str, Callable[[], list[nn.Module] | None]], list[nn.Module] | None] = _at_once
    map: Callable[[Callable[[Any], Any], list[Any]], list[Any]] = _one_by_one
    turn: Callable[[int], Turn | None] = _any_time
    cuts: Cuts = field(default_factory=CompactCuts)
    teacher: Teacher | None = None

    def size(self, network: nn.Module) -> int:
        return self.cuts.size(network)

    def cut(
        self, name: str, groups: list[list[nn.Module]], sizes: list[int]
    ) -> list[dict[str, list[nn.Module]]]:
        """The ways that are smaller than before, and that are open in all fits.

        Models that judge are no larger than the last one.
        """
        return [self._cut(group, size) for group, size in zip(groups, sizes, strict=True)]

    def _cut(self, models: list[nn.Module], size: int) -> dict[str, list[nn.Module]]:
        ways: dict[str, list[nn.Module]] = {}
        for model, fit in reversed([*zip(models, self.fits, strict=True)]):
            cuts = self.cuts.cut(model, fit.looked_at, self.task, size)
            before = ways or {way: [] for way in cuts}
            ways = {way: [cuts[way], *before[way]] for way in before if way in cuts}
            size = min(size, self.size(next(iter(ways.values()))[-1]))
        before_size = self.size(models[-1])
        return {way: cut for way, cut in ways.items() if self.size(cut[-1]) < before_size}

    def tune(
        self, name: str, groups: list[list[nn.Module]], tuning: TrainConfig
    ) -> list[list[nn.Module] | None]:
        return [
            self.step(f"{name} {place}", lambda group=group: self._tuned(group, tuning))  # type: ignore[misc]
            for place, group in enumerate(groups)
        ]

    def _tuned(self, models: list[nn.Module], tuning: TrainConfig) -> list[nn.Module] | None:
        pairs, turn = zip(models, self.fits, strict=True), self.turn(len(models))
        items = [(model, fit, tuning, self.normalise, turn, self.teacher) for model, fit in pairs]
        tuned = self.map(_tune, items)
        return None if None in tuned else tuned

    def judge(self, groups: list[list[nn.Module]]) -> list[Verdict]:
        return [self.verdict(models) for models in groups]


def _tune(
    item: tuple[nn.Module, Fit, TrainConfig, bool, Turn | None, Teacher | None],
) -> nn.Module | None:
    """A copy of the model fine-tuned; None where that diverges."""
    model, fit, tuning, normalise, turn, teacher = item
    until = None if turn is None else turn.begun()
    fitted: nn.Module = copy.deepcopy(model)
    if normalise and isinstance(model, CompactChain):
        fitted = NormalisedChain(model, torch.cat([x for x, _ in fit.looked_at]))
    trained = fitted
    if teacher is not None:
        trained, tuning = teacher.taught(fitted, tuning)
    try:
        train(trained, fit.data, tuning, weights=fit.weights, progress=False, _deadline=until)
    except NonFiniteLossError:
        return None
    return fitted.folded() if isinstance(fitted, NormalisedChain) else fitted


def descend(
    family: ModelFamily[Verdict],
    models: list[nn.Module],
    tuning: TrainConfig,
    *,
    constant: float,
    through: int | None = None,
    worth: Callable[[Verdict], Any] = lambda verdict: (verdict.score, -verdict.loss),
) -> Iterator[Rung[nn.Module, Verdict]]:
    """``models``, then some with at most 0.7 of the parameters, and so on, as small as it gets.

    What is cut is judged before and after its fine-tuning, and the better goes on. Where a layer of
    a chain might go, all ways are fine-tuned; without it is taken unless the judges notice. Where
    the score falls, half of the decay is tried as well, and stays where it is better: a smaller
    network needs less.

    Args:
        constant: the loss of a constant answer.
        through: one of the sizes on the way; halves lead there.
        worth: the larger the better, of what was judged.
    """
    ladder = Ladder(family)
    (rung,) = ladder.top([models])
    while True:
        yield rung
        aim = int(SHRINK * rung.parameters)
        if through is not None and through < rung.parameters:
            aim = max(through, int(HASTE * rung.parameters))
        tuned = ladder.step([rung], [aim], tuning)
        judged = [*ladder.untuned(), *tuned]
        if not judged:
            return  # nothing is smaller
        ways: dict[str, Rung[nn.Module, Verdict]] = {}
        for one in judged:
            known = ways.setdefault(one.way, one)
            if worth(one.judgement) >= worth(known.judgement):
                ways[one.way] = one
        found = [*ways.values()]
        limit = as_good_as(found[0].loss, constant)
        shorter = [each for each in found[1:] if each.loss <= limit]
        best = min(shorter, key=lambda each: each.parameters, default=found[0])
        if best.judgement.score < rung.judgement.score and tuning.weight_decay:
            less = dataclasses.replace(tuning, weight_decay=tuning.weight_decay / 2)
            for again in ladder.again(best, less):
                judged.append(again)
                if again.judgement.score > best.judgement.score:
                    best, tuning = again, less
        others = tuple(one for one in judged if one is not best)
        rung = dataclasses.replace(best, passed_over=others)


def model_rungs(
    model: nn.Module,
    data: Data,
    validation: Data,
    tuning: TrainConfig,
    *,
    rows: int = LOOKED_AT,
    normalise: bool = False,
    through: int | None = None,
    cuts: Cuts | None = None,
    teaching: float = 0.0,
) -> Iterator[Rung[nn.Module, Evaluation]]:
    """The rungs of one ``model``, fine-tuned on ``data`` and judged on ``validation``.

    A cut looks at ``rows`` of the data; the other options are those of :func:`descend`, and the
    share that ``model`` itself has in each fine-tuning, as its teacher.
    """
    batch = JUDGED_AT_ONCE * tuning.batch_size

    def verdict(models: list[nn.Module]) -> Evaluation:
        return evaluate(models[-1], validation, tuning.task, batch_size=batch)

    fit = Fit(data, some_rows(data, rows, tuning.seed, next(model.parameters())))
    cuts, constant = cuts or CompactCuts(), constant_loss(model, validation, tuning.task)
    teacher = Teacher(model, tuning.task, teaching, cuts.stays, constant) if teaching else None
    family = ModelFamily([fit], verdict, tuning.task, normalise, cuts=cuts, teacher=teacher)
    return descend(
        family,
        [model],
        tuning,
        constant=constant,
        through=through,
        worth=lambda judged: -judged.loss,
    )


def refine_model(
    model: nn.Module,
    data: Data,
    validation: Data,
    task: str | LossFunction,
    config: RefineConfig | None = None,
    *,
    normalise: bool = False,
    cuts: Cuts | None = None,
    teaching: float = 0.0,
    largest: int | None = None,
    besides: int = 0,
    progress: bool = True,
) -> nn.Module:
    """The last model on the way down whose validation loss is within the tolerance.

    With ``largest``, the first that is no larger, whatever its loss; ``besides`` is what a budget
    counts that no cut does.
    """
    config, cuts = config or RefineConfig(), cuts or CompactCuts()
    tuning = config.tuning(task, schedule="warm_cosine")
    like = next(model.parameters())
    if isinstance(model, CompactChain):
        data, validation = in_memory(data, like), in_memory(validation, like)
    data = placed(data, like) if is_pair(data) else data
    validation = placed(validation, like) if is_pair(validation) else validation
    allowance = config.tolerance * abs(constant_loss(model, validation, task))
    rows = min(config.rows, LOOKED_AT)
    with cutting_progress(progress) as show:
        rungs = model_rungs(
            model,
            data,
            validation,
            tuning,
            rows=rows,
            normalise=normalise,
            through=largest,
            cuts=cuts,
            teaching=teaching,
        )
        if largest is None:
            return last_within(rungs, allowance, show, unit=cuts.unit).network
        return first_within(rungs, largest, show, unit=cuts.unit, besides=besides).network
