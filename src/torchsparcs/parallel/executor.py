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
from torchsparcs.parallel.steps import CHECKPOINT, Span, Steps
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

    ``is_exact``: on a CPU the number of workers changes no bit, so that a population whose members
    would round otherwise in parts is trained by one worker.
    ``deadline`` is that of the work at hand, whose owner looks after Ctrl-C; None for none.
    """

    engine: Engine = field(default_factory=Engine)
    steps: Steps = field(default_factory=Steps)
    device: torch.device | None = None
    is_exact: bool = False
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

        Parts that were kept under ``name``, by however many workers, are not trained again.
        """
        whole = Training(population, data, config, None, weights)
        device = torch.device(self.place or next(population.parameters()).device)
        is_whole = self.is_exact and device.type == "cpu" and not population.is_tiled
        workers = 1 if is_whole else self.engine.workers
        parts = self._parts(name, population.members, workers)
        outcomes = {part: self.steps.recall(_named(name, part)) for part in parts}
        todo = [part for part, outcome in outcomes.items() if outcome is None]
        is_alone = self.engine.ranks.world == 1 and 1 in (workers, len(outcomes))
        begun = self.steps.spans(name, CHECKPOINT)
        here = [part for part in todo if is_alone or part in begun]
        for part in here:
            outcomes[part] = self.first(lambda: self._train_here(name, whole, part, progress))  # noqa: B023
            self._keep(name, part, outcomes[part])
        if sent := [part for part in todo if part not in here]:
            whole = whole._replace(data=(data[0].cpu(), data[1].cpu()))
            text = f"training {len(sent)} parts on {self.engine.workers} workers"
            with stage(text, progress and self.engine.ranks.is_first):
                work = partial(_train_part, whole.data, device, self.deadline)
                items = [_sent(whole, slice(*part)) for part in sent]
                for done, outcome in self.engine.map(work, items):
                    outcomes[sent[done]] = outcome
                    self._keep(name, sent[done], outcome)
        for part, outcome in outcomes.items():
            _replace_part_(population, slice(*part), outcome["parameters"])
        histories = [History(**outcome["history"]) for outcome in outcomes.values()]
        seconds = [max(each) for each in zip_longest(*(h.seconds for h in histories), fillvalue=0)]
        history = replace(reduce(History.joined, histories), seconds=seconds)
        _check_losses(history, config)
        return history

    def _parts(self, name: str, members: int, workers: int) -> list[Span]:
        """What is trained at once, in order: parts that are done or begun, the rest shared out."""
        known: list[Span] = []
        for part in (*self.steps.spans(name), *self.steps.spans(name, CHECKPOINT)):
            is_apart = all(part[1] <= start or stop <= part[0] for start, stop in known)
            if is_apart and part[0] < part[1] <= members:
                known.append(part)
        ends = [0, *(end for part in sorted(known) for end in part), members]
        gaps = [gap for gap in zip(ends[::2], ends[1::2], strict=True) if gap[0] < gap[1]]
        left = sum(stop - start for start, stop in gaps)
        for start, stop in gaps:
            known += _shared_out(start, stop, round(workers * (stop - start) / left))
        return sorted(known)

    def _train_here(self, name: str, whole: Training, part: Span, progress: bool) -> dict[str, Any]:
        """Train ``part`` in this process alone, from a checkpoint where there is one."""
        mine = whole if part == (0, whole.module.members) else whole.part(slice(*part))
        history = train(
            mine.module,
            mine.data,
            mine.config,
            weights=mine.weights,
            checkpoint=self.steps.path(_named(name, part), CHECKPOINT),
            resume="auto",
            progress=progress,
            _is_part=True,
            _deadline=self.deadline,
        )
        return _outcome(mine.module, history)

    def _keep(self, name: str, part: Span, outcome: dict[str, Any]) -> None:
        """Write down what came of a part, in the place of how far it was."""
        self.steps.keep(_named(name, part), outcome)
        checkpoint = self.steps.path(_named(name, part), CHECKPOINT)
        if checkpoint is not None and not self.steps.deadline.is_stopped:  # else nothing was kept
            self.first(lambda: checkpoint.unlink(missing_ok=True))


def _named(name: str, part: Span) -> str:
    return f"{name} {part[0]}-{part[1]}"


def _shared_out(start: int, stop: int, workers: int) -> list[Span]:
    """Parts of nearly equal size, one for each worker as far as there are members."""
    members = stop - start
    count = max(1, min(workers, members // FEWEST))
    return [*pairwise(start + members * place // count for place in range(count + 1))]


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
