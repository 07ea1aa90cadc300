"""Work shared out over an engine, and kept in a journal as it is done."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchsparcs.parallel.engines import Engine
from torchsparcs.parallel.journal import Journal
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Data, MemberData, Pair
from torchsparcs.training.history import History
from torchsparcs.training.loop import NonFiniteLossError
from torchsparcs.training.parts import config_of_part, data_of_part, joined, part_by_part
from torchsparcs.training.progress import stage
from torchsparcs.training.train import train_alone

FEWEST = 2  # members of a part: a single one is multiplied by other kernels, which round otherwise


class Part(NamedTuple):
    """Some members and how they are trained; ``data`` where each member has its own."""

    population: Any
    config: TrainConfig
    weights: Tensor | None
    data: Pair | None = None


@dataclass
class Executor:
    """Who does the work, on which device if it matters, and where what is done is written down."""

    engine: Engine = field(default_factory=Engine)
    journal: Journal = field(default_factory=Journal)
    device: torch.device | None = None

    @property
    def place(self) -> torch.device | str | None:
        """Where the work is done, None for wherever the work comes from."""
        return self.device or self.engine.device

    def first(self, ask: Callable[[], Any]) -> Any:
        """What the first of several processes answers, for all of them."""
        return self.engine.ranks.first(ask)

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """``function`` of each of ``items``."""
        return [found for _, found in sorted(self.engine.map(function, items), key=itemgetter(0))]

    def train(
        self,
        name: str,
        population: Any,
        data: Pair,
        config: TrainConfig,
        weights: Tensor | None = None,
        *,
        progress: bool = False,
    ) -> History:
        """Train the members in place, every worker some of them: the outcome is that of one.

        Parts that the journal has under ``name`` are not trained again.
        """
        slices = _slices(population.members, self.engine.workers)
        names = [f"{name} {part.start}-{part.stop}" for part in slices]
        outcomes = [self.journal.recall(each) for each in names]
        todo = [place for place, outcome in enumerate(outcomes) if outcome is None]
        if todo == [0] and len(slices) == 1:
            checkpoint = self.journal.path(name, ".checkpoint")
            whole = Part(population, config, weights)
            work = partial(_trained, data, whole, checkpoint=checkpoint, progress=progress)
            outcomes = [self.first(work)]
            self.journal.keep(names[0], outcomes[0])
            if checkpoint is not None and self.engine.ranks.is_first:
                checkpoint.unlink(missing_ok=True)
        elif todo:
            parts = [_part(population, data, config, weights, slices[place]) for place in todo]
            device = self.place or next(population.parameters()).device
            work = partial(_placed, (data[0].cpu(), data[1].cpu()), device)
            text = f"training {len(todo)} parts on {self.engine.workers} workers"
            with stage(text, progress and self.engine.ranks.is_first):
                for done, outcome in self.engine.map(work, parts):
                    outcomes[todo[done]] = outcome
                    self.journal.keep(names[todo[done]], outcome)
        for part, outcome in zip(slices, outcomes, strict=True):
            _replace_part_(population, part, outcome["parameters"])
        histories = [History(**outcome["history"]) for outcome in outcomes]
        seconds = [max(each) for each in zip(*(h.seconds for h in histories), strict=True)]
        history = replace(reduce(joined, histories), seconds=seconds)
        _check_losses(history, config)
        return history


def _slices(members: int, workers: int) -> list[slice]:
    """Of nearly equal size, one for each worker as far as there are members."""
    count = max(1, min(workers, members // FEWEST))
    ends = [members * place // count for place in range(count + 1)]
    return [slice(*pair) for pair in pairwise(ends)]


def _check_losses(history: History, config: TrainConfig) -> None:
    """A search goes on while the loss of any member is finite."""
    for epoch, losses in enumerate(history.train_loss, start=1):
        if not any(map(math.isfinite, losses)):
            raise NonFiniteLossError(
                f"The loss of all {len(losses)} members became {losses[0]} in epoch {epoch}. A "
                f"smaller learning rate (now {config.lr}) or scaled data may help."
            )


def _part(
    population: Any, data: Pair, config: TrainConfig, weights: Tensor | None, part: slice
) -> Part:
    whole = MemberData.of(data, population.members)
    own = None
    if whole.own_inputs or whole.own_targets:
        inputs, targets = data_of_part(data, population.members, part)
        own = (inputs.cpu(), targets.cpu())
    return Part(
        population.part(part).cpu(),
        config_of_part(config, part),
        weights if weights is None else (weights if weights.dim() == 1 else weights[part]).cpu(),
        own,
    )


def _placed(shared: Pair, device: str | torch.device, part: Part) -> dict[str, Any]:
    """:func:`_trained` on ``device``."""
    on_gpu = torch.device(device).type == "cuda"
    config = replace(part.config, capture=on_gpu and part.config.amp != "float16")
    return _trained(shared, part._replace(population=part.population.to(device), config=config))


def _trained(
    shared: Pair, part: Part, *, checkpoint: Path | None = None, progress: bool = False
) -> dict[str, Any]:
    """The parameters of the members of ``part`` and their history, once trained."""
    population, config, weights, own = part
    members = population.members

    def once(population: Any, data: Data, config: TrainConfig, _: None, *rest: Any) -> History:
        whole = population.members == members
        path = checkpoint if whole else None
        return train_alone(population, data, config, *rest, checkpoint=path, progress=progress)

    history = part_by_part(once, population, own or shared, config, None, weights)
    parameters = [parameter.detach().cpu() for parameter in population.parameters()]
    return {"parameters": parameters, "history": history.state_dict()}


@torch.no_grad()
def _replace_part_(population: Any, part: slice, parameters: list[Tensor]) -> None:
    for mine, its in zip(population.parameters(), parameters, strict=True):
        mine[part] = its.to(mine.device)
