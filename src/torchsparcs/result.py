"""What a search found: the front, the rules that pick from it, predictions."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchsparcs import report as reports
from torchsparcs.compact import CompactNetwork
from torchsparcs.deployment import DeployedNetwork
from torchsparcs.direct import DirectSpace
from torchsparcs.evidence import Judgement
from torchsparcs.history import History
from torchsparcs.preprocessing import Preprocessing
from torchsparcs.runs import read_run, write_run
from torchsparcs.tasks import evaluation_mode, resolve_task

LEAST_TOLERANCE = 1e-3  # of a score: nobody pays parameters for less
ROUNDING = 1e-7  # of a score: what float32 does not resolve is no difference


@dataclass(frozen=True)
class Candidate:
    """A network of some size and what it is worth.

    Attributes:
        network: takes standardised inputs and gives raw outputs; ``SearchResult.predict`` goes
            from a table to labels or values.
        score: accuracy or R² on rows that networks made in the same way were not fitted to; the
            best of many candidates on the same rows, so a little flattering.
        standard_error: of the score.
        loss: on the same rows.
        penalty_weight: of the member it was cut from; 1e6 of the one that was kept linear.
        member: the index of that member in the history.
        answers: what was true and what was said of the rows that judged, see
            :class:`torchsparcs.evidence.Judgement`; None where that was not kept.
    """

    network: CompactNetwork
    score: float
    standard_error: float
    loss: float
    penalty_weight: float
    member: int
    answers: Tensor | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls, direct: DirectSpace, judgement: Judgement, penalty_weight: float, member: int
    ) -> "Candidate":
        """A network from direct space, on the CPU, and what its like were judged to be worth."""
        network = CompactNetwork.from_direct(direct, maximal=None, dtype=torch.float32)
        return cls(
            network.cpu(),
            score=judgement.score,
            standard_error=judgement.standard_error,
            loss=judgement.loss,
            penalty_weight=penalty_weight,
            member=member,
            answers=judgement.answers,
        )

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        return self.network.size.parameters

    @property
    def macs(self) -> int:
        """Multiply-adds for one row."""
        return self.network.size.macs

    @property
    def widths(self) -> tuple[int, ...]:
        """Neurons of each layer, inputs and outputs included."""
        return self.network.widths

    @property
    def architecture(self) -> str:
        """In one line, like ``41 of 64 → 6 → 10, skip 41 → 10``."""
        return self.network.architecture


class Attempt(NamedTuple):
    """A network that was judged on the way down, on the front or not.

    Attributes:
        member: that it was cut from.
        cut: how often that member had been cut by then; 0 as it was trained.
        neurons: in its hidden layers.
        macs: None in older folders.
    """

    member: int
    cut: int
    neurons: int
    parameters: int
    score: float
    standard_error: float
    loss: float
    macs: int | None = None

    @classmethod
    def of(cls, candidate: Candidate, cut: int) -> "Attempt":
        return cls(
            member=candidate.member,
            cut=cut,
            neurons=sum(candidate.widths[1:-1]),
            parameters=candidate.parameters,
            score=candidate.score,
            standard_error=candidate.standard_error,
            loss=candidate.loss,
            macs=candidate.macs,
        )


@dataclass(frozen=True)
class SearchResult:
    """The front, from the smallest network to the one with the best score.

    Attributes:
        front: candidates, each with a better score than all smaller ones.
        linear: the linear model, on the front or not.
        preprocessing: from a table to what the networks take, and back.
        history: of the population's training; ``history.member(candidate.member)`` is one's own.
        settings: everything that decided the outcome, as plain values.
        attempts: every network that was judged, in the order in which they were made; none of a
            front that was refitted.
    """

    front: tuple[Candidate, ...]
    linear: Candidate
    preprocessing: Preprocessing
    history: History
    settings: dict[str, Any]
    attempts: tuple[Attempt, ...] = ()

    def best(self) -> Candidate:
        """The best score."""
        return self.front[-1]

    @property
    def tolerance(self) -> float:
        """What :meth:`smallest` gives away by default."""
        return max(self.best().standard_error, LEAST_TOLERANCE)

    def smallest(self, tolerance: float | None = None) -> Candidate:
        """The smallest network whose score is within ``tolerance`` of the best one's.

        By default that is one standard error of the best score, and at least 0.001.
        """
        best = self.best()
        allowed = self.tolerance if tolerance is None else tolerance
        if not allowed >= 0:
            raise ValueError(f"Expected a tolerance >= 0. Got {tolerance!r}.")
        return next(found for found in self.front if found.score >= best.score - allowed)

    def within(self, max_parameters: int) -> Candidate:
        """The best score with at most ``max_parameters``."""
        fitting = [found for found in self.front if found.parameters <= max_parameters]
        if not fitting:
            raise ValueError(
                f"Expected a budget of at least {self.front[0].parameters} parameters, the "
                f"smallest network of the front. Got {max_parameters}."
            )
        return fitting[-1]

    def pick(self, rule: "str | int | Candidate" = "smallest") -> Candidate:
        """By a rule ("best", "smallest", "linear"), or the candidate of that place on the front."""
        if isinstance(rule, Candidate):
            return rule
        if rule == "linear":
            return self.linear
        if rule in ("best", "smallest"):
            return getattr(self, rule)()
        is_place = isinstance(rule, Integral) and not isinstance(rule, bool)
        if is_place and 0 <= int(rule) < len(self.front):
            return self.front[int(rule)]
        raise ValueError(
            f"Expected a pick among best, smallest, linear and 0 to {len(self.front) - 1}. "
            f"Got {rule!r}."
        )

    def outputs(self, X: Any, pick: "str | int | Candidate" = "smallest") -> Tensor:
        """What the network puts out for a table, raw, (rows, outputs)."""
        network = self.pick(pick).network
        parameter = next(network.parameters())
        inputs = self.preprocessing.inputs.transform(X, network.reads).to(parameter.device)
        with evaluation_mode(network):
            return network(inputs)

    def predict(self, X: Any, pick: "str | int | Candidate" = "smallest") -> np.ndarray:
        """Labels, or values in their own units."""
        return self.preprocessing.target.predict(self.outputs(X, pick))

    def predict_proba(self, X: Any, pick: "str | int | Candidate" = "smallest") -> np.ndarray:
        """The probability of each class, (rows, classes)."""
        return self.preprocessing.target.probabilities(self.outputs(X, pick))

    def score(self, X: Any, y: Any, pick: "str | int | Candidate" = "smallest") -> float:
        """Accuracy or R² on other data."""
        target = self.preprocessing.target
        output = self.outputs(X, pick)
        return resolve_task(target.task).score(output, target.transform(y).to(output.device)).item()

    def deployed(self, pick: "str | int | Candidate" = "smallest") -> DeployedNetwork:
        """The network with its preprocessing, an ``nn.Module`` from columns to answers."""
        return DeployedNetwork(self.pick(pick).network, self.preprocessing)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write everything into the folder ``path``; ``load_result`` reads it again.

        By force what an earlier search left there goes, its report.html with it.
        """
        write_run(self, path, force=force)

    def report(
        self,
        path: str | Path = "report.html",
        *,
        folder: str | Path | None = None,
        force: bool = False,
    ) -> Path:
        """Write the page about this search: one file, for any browser.

        ``folder`` is where this is saved, for the lines on the page that load it; by default the
        folder of the page, where a search is saved in it.
        """
        return reports.write_page(self, path, folder=folder, force=force)

    def __repr__(self) -> str:
        return (
            f"SearchResult({len(self.front)} candidates, {self.front[0].parameters:,} to "
            f"{self.front[-1].parameters:,} parameters, score {self.front[0].score:.4f} to "
            f"{self.front[-1].score:.4f})"
        )


def load_result(path: str | Path) -> SearchResult:
    """The result that :meth:`SearchResult.save` wrote into the folder ``path``."""
    return SearchResult(**read_run(path, Candidate, Attempt))


def on_the_front(
    candidates: Iterable[Candidate], max_parameters: int | None = None
) -> list[Candidate]:
    """Those with a better score than all that have no more parameters, by size.

    Better is more than rounding: two networks that get as many rows right, though not the same
    ones, are equally good.
    """
    judged = [found for found in candidates if not math.isnan(found.score)]
    if not judged:
        raise ValueError("Expected validation rows whose target varies. Got one value in all.")
    by_size = sorted(judged, key=lambda found: (found.parameters, -found.score))
    if max_parameters is not None and by_size[0].parameters > max_parameters:
        raise ValueError(
            f"Expected max_parameters of at least {by_size[0].parameters}, the smallest network "
            f"that was found. Got {max_parameters}."
        )
    front, best = [], -math.inf
    for found in by_size:
        if max_parameters is not None and found.parameters > max_parameters:
            break
        if found.score > best + ROUNDING:
            front.append(found)
            best = found.score
    return front
