"""Work shared out over an engine, and kept step by step as it is done."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import pairwise, zip_longest
from typing import Any

import torch
from torch import Tensor

from torchsparcs.parallel.engine import Engine, RanksEngine
from torchsparcs.parallel.processes import ProcessesEngine, free_cores
from torchsparcs.parallel.ray_cluster import RayEngine
from torchsparcs.parallel.steps import Steps
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Data, Pair
from torchsparcs.training.deadline import NEVER, Deadline, Turn
from torchsparcs.training.devices import Ranks
from torchsparcs.training.history import History
from torchsparcs.training.loop import NonFiniteLossError
from torchsparcs.training.progress import stage
from torchsparcs.training.train import Training, train


def _here() -> Engine:
    ranks = Ranks.current()
    return RanksEngine(ranks) if ranks.world > 1 else Engine()


# By name; ``address`` is for those that are elsewhere.
ENGINES: dict[str, Callable[[str | None], Engine]] = {
    "auto": lambda address: _here(),
    "local": lambda address: _here(),
    "processes": lambda address: ProcessesEngine(max(2, free_cores())),
    "ray": RayEngine,
}


def engine_of(engine: str | Engine, address: str | None = None, *, is_long: bool = False) -> Engine:
    """The engine of that name, or the one given.

    "auto" is several processes where the work ``is_long`` and cores are free, else this one alone.
    """
    if isinstance(engine, Engine):
        return engine
    if not isinstance(engine, str) or engine not in ENGINES:
        raise ValueError(f"Expected an engine among {', '.join(ENGINES)}. Got {engine!r}.")
    if engine == "auto" and is_long and Ranks.current().world == 1 and free_cores() > 1:
        engine = "processes"
    return ENGINES[engine](address)


FEWEST = 2  # members of a part: a single one is multiplied by other kernels, which round otherwise


@dataclass
class Executor:
    """Who does the work, on which device if it matters, and where what is done is written down.

    ``deadline`` is that of the work at hand, whose owner looks after Ctrl-C; None for none.
    """

    engine: Engine = field(default_factory=Engine)
    steps: Steps = field(default_factory=Steps)
    device: torch.device | None = None
    deadline: Deadline | None = None

    @property
    def place(self) -> torch.device | str | None:
        """Where the work is done, None for wherever the work comes from."""
        return self.device or self.engine.device

    def turn(self, items: int) -> Turn:
        """The time that each of so many ``items`` has, from its own beginning."""
        whole = self.deadline or NEVER
        return Turn(whole, whole.left / math.ceil(items / self.engine.workers))

    def first(self, ask: Callable[[], Any]) -> Any:
        """What the first of several processes answers, for all of them."""
        return self.engine.ranks.first(ask)

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """``function`` of each of ``items``."""
        outcomes = dict(self.engine.map(function, items))
        return [outcomes[place] for place in range(len(items))]

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

        Parts that were kept under ``name`` are not trained again.
        """
        slices = _slices(population.members, self.engine.workers)
        names = [f"{name} {part.start}-{part.stop}" for part in slices]
        outcomes = [self.steps.recall(each) for each in names]
        todo = [place for place, outcome in enumerate(outcomes) if outcome is None]
        if todo and len(slices) == self.engine.ranks.world == 1:
            checkpoint = self.steps.path(name, ".checkpoint")
            history = train(
                population,
                data,
                config,
                weights=weights,
                checkpoint=checkpoint,
                resume="auto",
                progress=progress,
                _is_part=True,
                _deadline=self.deadline,
            )
            outcomes = [_outcome(population, history)]
            self.steps.keep(names[0], outcomes[0])
            if checkpoint is not None:
                checkpoint.unlink(missing_ok=True)
        elif todo:
            device = self.place or next(population.parameters()).device
            whole = Training(population, (data[0].cpu(), data[1].cpu()), config, None, weights)
            parts = [_sent(whole, slices[place]) for place in todo]
            text = f"training {len(todo)} parts on {self.engine.workers} workers"
            with stage(text, progress and self.engine.ranks.is_first):
                work = partial(_train_part, whole.data, device, self.deadline)
                for done, outcome in self.engine.map(work, parts):
                    outcomes[todo[done]] = outcome
                    self.steps.keep(names[todo[done]], outcome)
        for part, outcome in zip(slices, outcomes, strict=True):
            _replace_part_(population, part, outcome["parameters"])
        histories = [History(**outcome["history"]) for outcome in outcomes]
        seconds = [max(each) for each in zip_longest(*(h.seconds for h in histories), fillvalue=0)]
        history = replace(reduce(History.joined, histories), seconds=seconds)
        _check_losses(history, config)
        return history


def _slices(members: int, workers: int) -> list[slice]:
    """Parts of nearly equal size, one for each worker as far as there are members."""
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


def _sent(whole: Training, members: slice) -> Training:
    """A part as it is sent to a worker; data that all members share are sent apart, once."""
    part = whole.part(members)
    pairs = zip(part.data, whole.data, strict=True)
    is_shared = all(mine is its for mine, its in pairs)
    return part._replace(
        module=part.module.cpu(),
        data=() if is_shared else part.data,
        weights=None if part.weights is None else part.weights.cpu(),
    )


def _train_part(
    shared: Data, device: str | torch.device, deadline: Deadline | None, part: Training
) -> dict[str, Any]:
    """Train ``part`` on ``device``."""
    on_gpu = torch.device(device).type == "cuda"
    config = replace(part.config, capture=on_gpu and part.config.amp != "float16")
    population = part.module.to(device)
    data = part.data or shared
    history = train(
        population,
        data,
        config,
        weights=part.weights,
        progress=False,
        _is_part=True,
        _deadline=deadline,
    )
    return _outcome(population, history)


def _outcome(population: Any, history: History) -> dict[str, Any]:
    parameters = [parameter.detach().cpu() for parameter in population.parameters()]
    return {"parameters": parameters, "history": history.state_dict()}


@torch.no_grad()
def _replace_part_(population: Any, part: slice, parameters: list[Tensor]) -> None:
    for mine, its in zip(population.parameters(), parameters, strict=True):
        mine[part] = its.to(mine.device)
