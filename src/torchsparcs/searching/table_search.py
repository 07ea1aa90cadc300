"""The search of a table: populations trained under a path of penalties, cut size by size."""

import contextlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import reduce
from typing import Any, NamedTuple

import torch

from torchsparcs.compact.direct import DirectSpace, direct_space, parameter_count, simplified
from torchsparcs.cutting.ladder import Ladder
from torchsparcs.cutting.ladder import Rung as AnyRung
from torchsparcs.fitting.dense import DenseFamily, compact
from torchsparcs.fitting.fit_rows import Recipe
from torchsparcs.fitting.folded import MANY_ROWS, FoldedData, Judgement
from torchsparcs.fitting.last_fits import Judged, last_fits, sampled
from torchsparcs.judging.candidates import on_the_front
from torchsparcs.judging.correction import expected_scores
from torchsparcs.parallel.executor import Executor
from torchsparcs.results.result import Attempt, Candidate
from torchsparcs.results.sizes import Sizing
from torchsparcs.searching.clock import Clock
from torchsparcs.searching.finishing import LINEAR, LINEAR_DECAYS, PLAIN, Finishing
from torchsparcs.searching.strategies import STRATEGIES, SearchConfig, Strategy, checked_path
from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.network import SpectralNetwork, checked_widths
from torchsparcs.spectral.population import Population
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.deadline import OutOfTime
from torchsparcs.training.history import History
from torchsparcs.training.loop import NonFiniteLossError
from torchsparcs.training.step import VECTOR

PILOT_WEIGHTS = tuple(10 ** (-exponent / 2) for exponent in range(2, 9))  # 0.1 down to 1e-4
PILOT_SHARE = 0.25  # of the steps of a training
PATH_RATIO = 25.0  # from one penalty weight to the next
FEWEST_GROUPS = 3
FEW_ROWS = 300  # that need no wide networks
SMALLEST_CUT = 50  # parameters of a network that loses whole neurons
# What the stages of a search are expected to take; a time budget is shared out by it.
SHARES = {
    **{"linear": 0.03, "pilot": 0.1, "training": 0.2, "cutting": 0.2, "decays": 0.13},
    **{"fits": 0.08, "teacher": 0.05, "taught": 0.1, "deeper": 0.03, "single": 0.15, "last": 0.05},
}

Rung = AnyRung[DirectSpace, Judgement]


class Outcome(NamedTuple):
    """What a search gives to its result.

    Attributes:
        candidates: those that may be on the front.
        expected: by size, the score to be expected of the best that is no larger.
        linear: the best linear one, and the score to be expected of a choice among such.
        settings: those that only the search itself knows.
        budget: the most parameters that a network of the front may have.
        fits: the rows that judged, and of each candidate the networks that they judged, the own one
            last.
    """

    candidates: list[Candidate]
    expected: dict[int, float]
    linear: Candidate | None
    history: History
    attempts: tuple[Attempt, ...]
    settings: dict[str, Any]
    budget: int | None
    trained: SpectralNetwork | SpectralChain | None = None
    fits: tuple[FoldedData, list[list[DirectSpace]]] | None = None


class TableSearch:
    """A search on the standardised rows of a table.

    ``folded`` are those that it works on, ``whole`` those of the last fits: others where they are
    many.
    """

    def __init__(
        self,
        folded: FoldedData,
        outputs: int,
        executor: Executor,
        *,
        hidden: Sequence[int] | None,
        penalty_weights: Sequence[float] | str,
        activation: str,
        config: SearchConfig,
        seed: int,
    ):
        self.folded, self.whole = sampled(folded, config.sample, seed)
        self.config, self.seed, self.executor = config, seed, executor
        self.outputs, self.hidden, self.activation = outputs, hidden, activation
        self.penalty_weights = checked_path(penalty_weights)
        self.steps = config.steps_for(self.folded.rows)
        self.smallest = 2 * outputs  # one column
        self.progress = False
        self.clock = Clock(executor, SHARES)
        self.sizing = Sizing()
        # what decides the outcome; bad widths are refused before anything is done
        self.asked = {
            "widths": [*self.widths],
            "penalty_weights": self.penalty_weights,
            "activation": activation,
            "config": asdict(config),
            "seed": seed,
        }

    @property
    def is_long(self) -> bool:
        """Whether it takes long enough for others to help, with the bits of one process.

        Members of other widths are rounded otherwise in a smaller population.
        """
        is_even = all(width % VECTOR == 0 for width in self.widths[1:-1])
        return is_even and self.folded.rows >= FEW_ROWS and self.steps >= SearchConfig.steps

    def check_budget(self, largest: int | None) -> None:
        """A ValueError where no network can have so few parameters."""
        if largest is not None and largest < self.smallest:
            raise ValueError(
                f"Expected max_parameters of at least {self.smallest}, for one column and "
                f"{self.outputs} output{'s' * (self.outputs > 1)}. Got {largest}."
            )

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of all layers."""
        hidden = self.hidden
        if hidden is None:
            hidden = _default_widths(self.folded.rows)
        elif isinstance(hidden, (str, int)):
            raise ValueError(f"Expected widths of hidden layers, like (64, 32). Got {hidden!r}.")
        inputs = self.folded.inputs.shape[1]
        return checked_widths([inputs, *hidden, self.outputs])

    def run(self, largest: int | None) -> Outcome:
        """Plan, train, cut and judge; nothing larger than ``largest`` is planned.

        The linear model comes first: whenever time is over, there is something to give.
        """
        folded, family = self.folded, DenseFamily(self.folded, self.executor)
        ladder = Ladder(family)
        finishing = Finishing(
            family,
            self.outputs,
            self.seed,
            widest=None if self.hidden is None else max(self.hidden, default=0),
            deepest=None if self.hidden is None else len(self.hidden),
            effort=min(self.config.steps, self.config.longest) / SearchConfig.steps,
            boosts=self.config.boosting,
            clock=self.clock,
        )
        like = self._nothing()
        with self.clock.stage("linear", "the linear model"):
            self.executor.deadline = None  # it is fitted whatever happens
            fitted = finishing.linear(like)
            if folded.task == "regression":
                (exact,) = ladder.top([family.least_squares(like)])
                fitted.append((replace(exact, group=LINEAR), Recipe(LINEAR_DECAYS[0])))
            linear = [rung for rung, _ in fitted]
        weights, history, rungs, finer = self.penalty_weights or [], History(), [], []
        with contextlib.suppress(OutOfTime):
            weights = self.penalty_weights or self._pilot_weights()
            groups, history = self._trained_groups(family, weights)
            rungs += ladder.top(groups)
            self._descend(ladder, rungs, largest)
            finer = finishing.run(rungs, fitted, largest)
        found = self._outcome([*linear, *rungs, *finer], linear, weights, history, largest)
        found.settings["taught_by_boosting"] = finishing.is_taught_by_boosting
        return found

    def _nothing(self) -> DirectSpace:
        """A network of the columns and outputs that connects none of them."""
        inputs = self.folded.inputs
        weights = inputs.new_zeros((self.outputs, inputs.shape[1]), dtype=torch.float64)
        layers = torch.zeros(0, dtype=torch.int64, device=inputs.device)
        return DirectSpace(weights, weights[:, 0], layers, self.activation)

    def _outcome(
        self,
        rungs: list[Rung],
        linear: list[Rung],
        weights: list[float],
        history: History,
        largest: int | None,
    ) -> Outcome:
        """What is found on ``rungs``, those of ``linear`` among them.

        What does not bear its score out cannot be on the front, but for the linear model.
        """
        chosen = max(linear, key=lambda rung: rung.judgement.score)
        alone = expected_scores([rung.judgement.parts for rung in linear], [0] * len(linear))[0]
        penalties = {LINEAR: None, PLAIN: 0.0, **dict(enumerate(weights * len(self.config.ways)))}
        candidates = [
            self.sizing.weighed(
                Candidate.of(
                    compact(rung.network),
                    rung.judgement,
                    penalties[rung.group],
                    None if rung.group in (LINEAR, PLAIN) else self.folded.final(rung.group),
                )
            )
            for rung in rungs
        ]
        judged = [*zip(candidates, rungs, strict=True)]
        trusted = [each for each in judged if each[1].judgement.is_borne_out or each[1] is chosen]
        place = [rung is chosen for _, rung in trusted].index(True)
        best = trusted[place][0]
        if self.clock.ended and largest is not None:
            smallest = min(one.parameters for one, _ in trusted)
            if smallest > largest:  # all there is
                warnings.warn(
                    f"Nothing of at most {largest} parameters was found in the time; what is given "
                    f"has {smallest}.",
                    stacklevel=2,
                )
                largest = smallest
        rows = self.folded
        if self.whole is not self.folded:
            family = DenseFamily(self.whole, self.executor)
            trusted = self._wanted(trusted, best)
            place = [one is best for one, _ in trusted].index(True)
            with (
                contextlib.suppress(OutOfTime),
                self.clock.stage("last", f"fitting {len(trusted)} networks to all rows"),
            ):
                fits = last_fits(family, trusted)
                trusted = [(self.sizing.weighed(one), rung) for one, rung in fits]
                best = trusted[place][0]
                alone = best.score  # nobody chose it by these rows
                rows = self.whole
        if self.sizing.is_int8:
            sizing, wanted = self.sizing.on_rows(rows), self._wanted(trusted, best)
            names = {id(one) for one, _ in wanted}
            trusted = [
                (sizing.judged(one, rung.networks) if id(one) in names else one, rung)
                for one, rung in trusted
            ]
            best = trusted[place][0]
        return Outcome(
            [one for one, _ in trusted],
            expected_scores(
                [rung.judgement.parts for _, rung in trusted],
                [self.sizing.size(one) for one, _ in trusted],
            ),
            replace(best, expected=alone),
            history.thinned(),
            tuple(Attempt.of(one, rung.cuts) for one, rung in judged),
            {"widths": self.asked["widths"], "penalty_weights": weights},
            largest,
            fits=(rows, [rung.networks for _, rung in trusted]),
        )

    def _wanted(self, judged: list[Judged], best: Candidate) -> list[Judged]:
        """Those of ``judged`` that are on the front, and the ``best`` linear model."""
        candidates = [one for one, _ in judged]
        limits = self.sizing.within_reach(candidates)
        front = on_the_front(candidates, limits, self.sizing.name)
        return [each for each in judged if any(each[0] is one for one in (*front, best))]

    # --- training ---

    def _pilot_weights(self) -> list[float]:
        """A path of weights down from the smallest that recruits nothing, by a short training."""
        first, steps = self.folded.judging_fits(1), self.steps * PILOT_SHARE
        asleep = STRATEGIES["asleep"]
        with self.clock.stage("pilot", "a short first training"):
            population, _ = self._trained("pilot", first, steps, PILOT_WEIGHTS, asleep)
        idle = [not any(counts) for counts in population.recruited]
        recruit_nothing = [w for w, is_idle in zip(PILOT_WEIGHTS, idle, strict=True) if is_idle]
        largest = min(recruit_nothing, default=PILOT_WEIGHTS[0] * math.sqrt(PATH_RATIO))
        return [largest / PATH_RATIO**step for step in range(1, self.config.path + 1)]

    def _trained_groups(
        self, family: DenseFamily, weights: list[float]
    ) -> tuple[list[list[DirectSpace]], History]:
        """Groups of fits for each strategy and penalty weight, and how they were trained.

        A strategy that diverges, or for which there is no time, is left out, unless all are.
        """
        groups: list[list[DirectSpace]] = []
        histories: list[History] = []
        failure: Exception | None = None
        for place, name in enumerate(self.config.ways):
            left = len(self.config.ways) - place
            more = " with input dropout" * (STRATEGIES[name].input_dropout > 0)
            with self.clock.stage("training", f"training{more}", left):
                try:
                    population, history = self._trained(
                        f"training {name}", self.folded, self.steps, weights, STRATEGIES[name]
                    )
                except (NonFiniteLossError, OutOfTime) as error:
                    failure = error
                    continue
                groups += self._simplified(family, name, population)
            histories.append(history)
        if failure is not None and not groups:
            raise failure
        return groups, reduce(History.joined, histories)

    def _trained(
        self,
        name: str,
        folded: FoldedData,
        steps: float,
        penalty_weights: Sequence[float],
        strategy: Strategy,
    ) -> tuple[Population, History]:
        """A population with a group of fits for each penalty weight, and how it was trained."""
        each = tuple(weight for weight in penalty_weights for _ in range(folded.fits))
        population = Population(
            self.widths,
            seeds=[self.seed] * len(each),
            activation=self.activation,
            device=folded.inputs.device,
        )
        recipe = self.config.recipe(strategy, folded, steps, each, self.seed)
        weights = folded.member_weights(len(penalty_weights))
        return population, self.executor.train(name, population, folded.pair, recipe, weights)

    # --- cutting ---

    def _simplified(
        self, family: DenseFamily, name: str, population: Population
    ) -> list[list[DirectSpace]]:
        """The members in direct space, those that judge no larger than the one they judge for."""
        members, fits = range(population.members), self.folded.fits
        directs = [simplified(direct_space(population.member(index))) for index in members]
        groups = [directs[start : start + fits] for start in range(0, len(directs), fits)]
        cut = family.cut(f"cut {name}", groups, [parameter_count(group[-1]) for group in groups])
        return [each["plain"] for each in cut]

    def _descend(self, ladder: Ladder, rungs: list[Rung], largest: int | None) -> None:
        """Append all groups at every size, spread over those down to the next one, to ``rungs``.

        Once they have all been cut, but for one, that with the highest loss leaves at every step,
        until few are left. What is smaller yet comes of single connections.
        """
        shrink, sizes = self.config.shrink, self._sizes(rungs, largest)
        left = list(rungs)
        for place, size in enumerate(sizes, 1):
            uncut = sum(rung.parameters <= size for rung in left)
            some = [math.floor(size * shrink ** (n / len(left))) for n in range(len(left))]
            tuning = self._tuning(0.5 + place / len(sizes))  # the small need it most
            if self.clock.is_over:
                return
            still = len(sizes) - place + 1
            with self.clock.stage("cutting", f"cutting to {size:,} parameters", still):
                found = ladder.step(left, some, tuning)
            if not found:
                return  # it diverges; what was found stays
            rungs += found
            left = found
            if uncut <= 1 and len(left) > FEWEST_GROUPS:
                worst = max(left, key=lambda rung: rung.loss)
                left = [rung for rung in left if rung is not worst]

    def _sizes(self, top: list[Rung], largest: int | None) -> list[int]:
        """Numbers of parameters from the largest member downwards."""
        shrink, networks = self.config.shrink, [each for rung in top for each in rung.networks]
        size = max(map(parameter_count, networks)) * shrink
        size = size if largest is None else min(size, largest)
        smallest = min(math.floor(size), max(SMALLEST_CUT, self.smallest))
        sizes = []
        while size > smallest:
            sizes.append(math.floor(size))
            size *= shrink
        return [*sizes, smallest]

    def _tuning(self, share: float) -> TrainConfig:
        """A fine-tuning, for that share of its usual length."""
        steps = self.steps * self.config.tune_share * share
        return self.config.tuning(self.folded, steps, self.seed)


def _default_widths(rows: int) -> tuple[int, int]:
    """Two hidden layers, wider where there is more to learn from."""
    if rows < FEW_ROWS:
        return (32, 16)
    return (128, 32) if rows < MANY_ROWS else (256, 64)
