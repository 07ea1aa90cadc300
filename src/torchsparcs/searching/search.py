"""From data to the front of score against size, in one run."""

import dataclasses
import math
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch

from torchsparcs.files.provenance import hardware, versions
from torchsparcs.parallel.engines import Engine, engine_of
from torchsparcs.parallel.executor import Executor
from torchsparcs.parallel.journal import opened
from torchsparcs.searching.chain_search import ChainResult, search_chain
from torchsparcs.searching.folded import FoldedData, counted_rows
from torchsparcs.searching.folds import MANY_ROWS
from torchsparcs.searching.front import on_the_front
from torchsparcs.searching.ladder import Ladder, Rung, is_worth_going_on, landing
from torchsparcs.searching.result import Attempt, Candidate, SearchResult
from torchsparcs.searching.strategies import STRATEGIES, SearchConfig, Strategy
from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.network import checked_widths
from torchsparcs.spectral.population import Population
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target
from torchsparcs.tables.streams import RowStream
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.devices import resolve_device, threads_for
from torchsparcs.training.history import History
from torchsparcs.training.progress import stage

__all__ = ["SearchConfig", "search"]

PILOT_WEIGHTS = tuple(10 ** (-exponent / 2) for exponent in range(2, 9))  # 0.1 down to 1e-4
PILOT_SHARE, REHEARSAL_SHARE = 0.3, 0.4  # of the steps of the training
PATH_RATIO = 5.0  # from one penalty weight to the next
LANDINGS = 2  # looks between the smallest network that is good enough and the next smaller one
LINEAR = 1e6  # a penalty weight under which nothing can be recruited


@overload
def search(
    X: Any,
    y: Any = None,
    *,
    network: None = None,
    widths: Sequence[int] | None = None,
    task: str = "auto",
    validation: Any = "auto",
    penalty_weights: Sequence[float] | str = "auto",
    max_parameters: int | None = None,
    sample_weight: Any = None,
    activation: str = "relu",
    config: SearchConfig | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    engine: str | Engine = "local",
    checkpoint: str | Path | None = None,
    resume: bool | Literal["auto"] = False,
    progress: bool = True,
) -> SearchResult: ...


@overload
def search(
    X: Any,
    y: Any,
    *,
    network: SpectralChain,
    task: str = "auto",
    validation: Any = "auto",
    max_parameters: int | None = None,
    config: TrainConfig | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    progress: bool = True,
) -> ChainResult: ...


def search(
    X: Any,
    y: Any = None,
    *,
    network: SpectralChain | None = None,
    widths: Sequence[int] | None = None,
    task: str = "auto",
    validation: Any = "auto",
    penalty_weights: Sequence[float] | str = "auto",
    max_parameters: int | None = None,
    sample_weight: Any = None,
    activation: str = "relu",
    config: SearchConfig | TrainConfig | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    engine: str | Engine = "local",
    checkpoint: str | Path | None = None,
    resume: bool | Literal["auto"] = False,
    progress: bool = True,
) -> SearchResult | ChainResult:
    """The front of score against size for a table, from one population of spectral networks.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    >>> y = np.abs(x[:, 0])  # |x| = 2 max(x, 0) − x: one column, one neuron and a skip
    >>> result = search(x, y, config=SearchConfig(steps=300), progress=False)
    >>> result.smallest().architecture
    '1 of 3 → 1 → 1, skip 1 → 1'
    >>> result.predict(x).shape
    (300,)

    A short pilot finds the smallest penalty weight that recruits nothing. From there a path of
    weights goes down, one member of the population for each weight and each part of the data. The
    trained members are then cut, size by size, and fine-tuned together. Every candidate is scored
    on rows that networks made in the same way were not fitted to; it is itself fitted to all rows.
    Columns are standardised with all rows, and the same rows choose among many candidates, so the
    best score flatters a little: keep other rows for a final verdict.

    A network of your own, a ``SpectralCNN`` say, is trained once, then cut and fine-tuned rung by
    rung: ``search(images, labels, network=SpectralCNN([3, 32, 64, 64, 10]))``.

    Args:
        X: (rows, columns), an array, tensor or DataFrame; text is one-hot encoded, everything is
            standardised, and that travels with the result.
            A :class:`RowStream` or a memory map need not fit into memory: one pass learns from all
            rows how to standardise them, and draws those the search works on.
        y: (rows,), or (rows, outputs) for regression; a stream has its own.
        network: a :class:`SpectralChain` to be searched in place of dense networks for a table. X
            and y are then arrays or tensors as it takes them, classes are whole numbers from 0,
            and ``config`` is the :class:`TrainConfig` of its training. It stays as it is. Widths,
            penalty weights, activation, sample weights, engine and checkpoint are for tables.
        widths: of the hidden layers, the most that a network may use.
        task: "regression", "classification", or "auto" to tell by the target.
        validation: "auto" (three folds; from 10,000 rows a fifth held out; for a network a tenth),
            a share of the rows, a number of folds (not for a network), or a pair (X, y); with a
            pair no network is fitted to those rows.
        penalty_weights: "auto", or the path itself; the linear model is always added.
        max_parameters: nothing larger is kept; of a network, where all are, the smallest.
        sample_weight: (rows,), how much each row counts.
        activation: of the hidden neurons, a name from ``ACTIVATIONS``.
        config: how the search goes about it; the defaults suit most tables.
        seed: of everything that is drawn; the same seed and machine give the same networks.
        device: "auto" takes a GPU where there is one.
        engine: "local", this process (or, after ``init_process_group``, all of them), or "ray", a
            Ray cluster; every worker trains and cuts some of the networks, with the same outcome.
        checkpoint: a folder for what has been done. The same call with ``resume=True`` goes on
            from there and ends with the same networks, bit for bit, as a search that was never
            interrupted. It is yours to delete once the result is saved.
        resume: True needs work to go on with, False refuses it, ``"auto"`` takes what there is.
        progress: say on the terminal what is being done.
    """
    seed = _whole("seed", seed)
    if max_parameters is not None:
        max_parameters = _whole("max_parameters", max_parameters)
    if network is not None:
        for_tables = {
            "widths": widths is not None,
            "penalty_weights": not _is_auto(penalty_weights),
            "sample_weight": sample_weight is not None,
            "activation": activation != "relu",
            "engine": engine != "local",
            "checkpoint": checkpoint is not None,
            "resume": resume is not False,
        }
        if any(for_tables.values()):
            given = ", ".join(name for name, is_given in for_tables.items() if is_given)
            raise ValueError(f"Expected no {given} where a network is given: it is for tables.")
        return search_chain(
            network,
            (X, y),
            task=task,
            validation=validation,
            max_parameters=max_parameters,
            config=config,
            seed=seed,
            device=device,
            progress=progress,
        )
    config = config if config is not None else SearchConfig()
    if not isinstance(config, SearchConfig):
        raise ValueError(f"Expected a SearchConfig. Got {type(config).__name__}.")
    if not isinstance(activation, str):
        raise ValueError(f"Expected an activation by its name. Got {activation!r}.")
    on = resolve_device(device)
    preprocessing, X, y, weight, seen = _prepared(X, y, task, sample_weight, seed)
    outputs = preprocessing.target.outputs
    if max_parameters is not None and max_parameters < 2 * outputs:
        raise ValueError(
            f"Expected max_parameters of at least {2 * outputs}, for one column and "
            f"{outputs} outputs. Got {max_parameters}."
        )
    folded = FoldedData.of(preprocessing, X, y, weight, validation, seed).to(on)
    executor = Executor(engine_of(engine), device=None if device == "auto" else on)
    run = _Search(folded, outputs, widths, activation, config, seed, progress, executor)
    folder = None if checkpoint is None else Path(checkpoint)
    asked = {
        "widths": list(run.widths(STRATEGIES["asleep"])),
        "penalty_weights": "auto" if _is_auto(penalty_weights) else _checked_path(penalty_weights),
        "max_parameters": max_parameters,
        "activation": activation,
        "config": dataclasses.asdict(config),
        "seed": seed,
        "device": str(executor.place or on),
        "versions": versions(),
        "rows": "" if folder is None else folded.digest(),
    }
    with (
        opened(folder, asked, resume, executor.engine.ranks) as journal,
        threads_for(folded.rows, on),
    ):
        executor.journal = journal
        weights, way = run.plan(penalty_weights)
        linear, candidates = run.candidates(weights, STRATEGIES[way], max_parameters)
        seconds = journal.seconds
    settings = {
        "task": preprocessing.target.task,
        "widths": list(run.widths(STRATEGIES[way])),
        "activation": activation,
        "penalty_weights": weights,
        "way": way,
        "rows": folded.rows,
        "rows_seen": seen,
        "judged_rows": len(folded.folds.judged),
        "fits": folded.fits,
        "max_parameters": max_parameters,
        "seed": seed,
        "device": asked["device"],
        "seconds": seconds,
        "config": dataclasses.asdict(config),
        "hardware": hardware(on),
        "versions": versions(),
    }
    front = tuple(on_the_front(candidates, max_parameters))
    return SearchResult(front, linear, preprocessing, run.history, settings, run.attempts)


def _prepared(
    X: Any, y: Any, task: str, sample_weight: Any, seed: int
) -> tuple[Preprocessing, Any, Any, np.ndarray | None, int]:
    """The preprocessing, X, y and the weights of the rows to work on, and how many there were."""
    if isinstance(X, np.memmap) and sample_weight is None:
        X, y = RowStream.of((X, y if hasattr(y, "shape") else np.asarray(y))), None
    if isinstance(X, RowStream):
        if y is not None or sample_weight is not None:
            raise ValueError("Expected neither y nor sample weights beside a stream. Got some.")
        sample = X.sample(task, seed)
        return sample.preprocessing, sample.X, sample.y, None, sample.rows
    X, y, weight = counted_rows(X, y, sample_weight)
    preprocessing = Preprocessing(Inputs.fit(X, weight), Target.fit(y, task, weight))
    return preprocessing, X, y, weight, len(X)


class _Search:
    """One search on prepared rows."""

    def __init__(
        self,
        folded: FoldedData,
        outputs: int,
        hidden: Sequence[int] | None,
        activation: str,
        config: SearchConfig,
        seed: int,
        progress: bool,
        executor: Executor,
    ):
        self.folded, self.config, self.seed, self.executor = folded, config, seed, executor
        self.progress = progress and executor.engine.ranks.is_first
        self.outputs, self.hidden, self.activation = outputs, hidden, activation
        self.widths(STRATEGIES["asleep"])  # bad ones are refused before anything is done
        self.history = History()
        self.attempts: tuple[Attempt, ...] = ()
        self.steps = config.steps_for(folded.rows)

    def widths(self, way: Strategy) -> tuple[int, ...]:
        """Of all layers; ``way`` may leave hidden layers out."""
        hidden = self.hidden
        if hidden is None:
            hidden = way.widths or _default_widths(self.folded.rows)
        elif isinstance(hidden, (str, int)):
            raise ValueError(f"Expected widths of hidden layers, like (64, 32). Got {hidden!r}.")
        inputs = self.folded.inputs.shape[1]
        return checked_widths([inputs, *list(hidden)[: way.depth], self.outputs])

    def plan(self, weights: Sequence[float] | str) -> tuple[list[float], str]:
        """Penalty weights from the one that recruits nothing downwards, and the way to train."""
        ways = self.config.ways
        with stage("looking for the largest penalty that matters", self.progress):
            path = self._path_from_pilot() if _is_auto(weights) else _checked_path(weights)
        if len(ways) == 1:
            return path, ways[0]
        with stage("comparing ways to train", self.progress):
            steps = self.steps * REHEARSAL_SHARE
            some = path[2::2] or path[1:]
            judging = self.folded.judging_fits()
            losses = [
                STRATEGIES[way].handicap
                * min(self._rehearsal(way, judging, steps, some, STRATEGIES[way])[0])
                for way in ways
            ]
        return path, ways[losses.index(min(losses))]

    def _path_from_pilot(self) -> list[float]:
        first, steps = self.folded.judging_fits(1), self.steps * PILOT_SHARE
        _, idle = self._rehearsal("pilot", first, steps, PILOT_WEIGHTS, STRATEGIES["asleep"])
        recruit_nothing = [w for w, is_idle in zip(PILOT_WEIGHTS, idle, strict=True) if is_idle]
        largest = min(recruit_nothing, default=PILOT_WEIGHTS[0] * PATH_RATIO)
        return [largest / PATH_RATIO**step for step in range(self.config.path + 1)]

    def _rehearsal(
        self, name: str, folded: FoldedData, steps: float, weights: Sequence[float], way: Strategy
    ) -> tuple[list[float], list[bool]]:
        """Of each weight the loss, infinite where it diverged, and whether it recruits nothing."""
        population = self._population(len(weights) * folded.fits, way)
        each = tuple(weight for weight in weights for _ in range(folded.fits))
        recipe = self.config.recipe(way, folded, steps, each, self.seed)
        self._train(name, population, folded, recipe)
        judgements = self.executor.first(lambda: folded.judge(population))
        losses = [found.loss for found in judgements]
        return (
            [loss if math.isfinite(loss) else math.inf for loss in losses],
            [not any(counts) for counts in population.recruited[:: folded.fits]],
        )

    def candidates(
        self, weights: list[float], way: Strategy, largest: int | None
    ) -> tuple[Candidate, list[Candidate]]:
        """The linear model, and every group at every size whose network bears its score out."""
        folded, config = self.folded, self.config
        population = self._population(len(weights) * folded.fits, way)
        penalties = [LINEAR, *weights[1:]]
        each = tuple(weight for weight in penalties for _ in range(folded.fits))
        recipe = config.recipe(way, folded, self.steps, each, self.seed)
        history = self._train("training", population, folded, recipe, progress=self.progress)
        self.history = history.thinned()
        ladder = Ladder.of(population, folded, self.executor)
        rungs = ladder.top()
        linear = [rungs[0]]
        if folded.task == "regression":
            linear.append(ladder.least_squares())
        rungs += linear[1:]
        sizes = ladder.sizes(config.shrink, largest)
        planned, place = len(sizes), 0
        while place < len(sizes):
            size, place = sizes[place], place + 1
            tuning = self._tuning(way, 0.5 + min(1, place / planned))  # the small need it most
            with stage(f"cutting to {size:,} parameters", self.progress):
                rungs += ladder.step(size, config.shrink, tuning)
            if place == len(sizes) and size > 2 * self.outputs and is_worth_going_on(rungs, size):
                sizes.append(max(2 * self.outputs, math.floor(size * config.shrink)))
        rungs += self._landed(ladder, rungs, way, largest)
        best_linear = max(linear, key=lambda rung: rung.judgement.score)
        found = [
            Candidate.of(
                rung.direct,
                rung.judgement,
                penalty_weight=penalties[rung.group],
                member=(rung.group + 1) * folded.fits - 1,
            )
            for rung in rungs
        ]
        tried = zip(found, rungs, strict=True)
        self.attempts = tuple(Attempt.of(candidate, rung.cut) for candidate, rung in tried)
        place = next(place for place, rung in enumerate(rungs) if rung is best_linear)
        trusted = [
            candidate
            for candidate, rung in zip(found, rungs, strict=True)
            if rung.judgement.is_borne_out or rung is best_linear
        ]
        return found[place], trusted

    def _landed(
        self, ladder: Ladder, rungs: list[Rung], way: Strategy, largest: int | None
    ) -> list[Rung]:
        """Looks between the smallest network that is good enough and the next size below it."""
        found: list[Rung] = []
        shrink, smallest = self.config.shrink, 2 * self.outputs
        for _ in range(LANDINGS):
            judged = [*rungs, *found]
            place = landing(judged, smallest=smallest, largest=largest, shrink=shrink)
            if place is None:
                break
            above, below = place
            with stage(f"looking between {below:,.0f} and {above.parameters:,}", self.progress):
                new = ladder.between(above, below, self._tuning(way, 1.5))
            found += new
            if not any(below < rung.parameters < above.parameters for rung in new):
                break
        return found

    def _tuning(self, way: Strategy, share: float) -> TrainConfig:
        """A fine-tuning, for that share of its usual length."""
        steps = self.steps * self.config.tune_share * share
        return self.config.tuning(way, self.folded, steps, self.seed)

    def _population(self, members: int, way: Strategy) -> Population:
        population = Population(
            self.widths(way),
            seeds=[self.seed] * members,
            activation=self.activation,
            device=self.folded.inputs.device,
        )
        for eigenvalues in population.hidden_eigenvalues:
            eigenvalues.data.fill_(way.start)
        return population

    def _train(
        self,
        name: str,
        population: Population,
        folded: FoldedData,
        config: TrainConfig,
        progress: bool = False,
    ) -> History:
        weights = folded.member_weights(population.members // folded.fits)
        return self.executor.train(
            name, population, folded.pair, config, weights, progress=progress
        )


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError as error:
        raise ValueError(f"Expected {name} to be an integer. Got {value!r}.") from error


def _is_auto(weights: Any) -> bool:
    return isinstance(weights, str) and weights == "auto"


def _checked_path(weights: Any) -> list[float]:
    """Weights as given, from the largest down, the linear model's before them."""
    try:
        given = sorted((float(weight) for weight in weights), reverse=True)
    except (TypeError, ValueError):
        given = []
    if not given or not all(math.isfinite(weight) and weight > 0 for weight in given):
        raise ValueError(
            f"Expected penalty_weights to be 'auto' or positive numbers. Got {weights!r}."
        )
    return [given[0], *given]


def _default_widths(rows: int) -> tuple[int, int]:
    """Two hidden layers, wider where there is more to learn from."""
    return (128, 32) if rows < MANY_ROWS else (256, 64)
