"""The result of a search: candidates, predictions, the folder and the page."""

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.searching.explanation import Explanations
from torchsparcs.searching.folded import Judgement
from torchsparcs.searching.folder import read_run, write_run
from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target
from torchsparcs.training.history import History
from torchsparcs.training.tasks import evaluation_mode, resolve_task

LEAST_TOLERANCE = 1e-3  # of a score: nobody pays parameters for less
ROUNDING = 1e-7  # of a score: what float32 does not resolve is no difference


@dataclass(frozen=True)
class Candidate:
    """A network of some size and what it is worth.

    Attributes:
        network: of a table, takes standardised inputs and gives raw outputs;
            ``SearchResult.predict`` goes from a table to labels or values.
        score: accuracy or R² on rows that networks made in the same way were not fitted to. It
            makes the front and the picks; as the best of many on the same rows it flatters.
        standard_error: of the score.
        loss: on the same rows.
        penalty_weight: of the member it was cut from; None of a linear model, 0 where
            it was drawn as a plain network.
        member: the index of that member in the history; None where there is none, or the history
            is of one network.
        answers: targets and predictions of the rows that judged, see
            :class:`torchsparcs.searching.folded.Judgement`; None where they were not kept.
        row_shape: of one row of inputs, where the network is no dense one.
        expected: the score to be expected on rows that nobody has seen, corrected for the choice
            among many, see :mod:`torchsparcs.searching.correction`; None in older folders.
    """

    network: CompactNetwork | CompactChain
    score: float
    standard_error: float
    loss: float
    penalty_weight: float | None
    member: int | None
    answers: Tensor | None = field(default=None, compare=False, repr=False)
    row_shape: tuple[int, ...] | None = field(default=None, repr=False)
    expected: float | None = None

    @classmethod
    def of(
        cls,
        network: CompactNetwork | CompactChain,
        judgement: Judgement,
        penalty_weight: float | None,
        member: int | None,
        row_shape: tuple[int, ...] | None = None,
    ) -> "Candidate":
        """``network``, on the CPU, and what networks like it were judged to be worth."""
        return cls(
            network.cpu(),
            judgement.score,
            judgement.standard_error,
            judgement.loss,
            penalty_weight,
            member,
            judgement.answers,
            row_shape,
        )

    @property
    def parameters(self) -> int:
        """Weights and biases; of a table's networks those that are not zero."""
        return self.network.parameter_count

    @cached_property
    def macs(self) -> int:
        """Multiply-adds for one row."""
        if isinstance(self.network, CompactNetwork):
            return self.network.size.macs
        assert self.row_shape is not None
        like = next(self.network.parameters())
        return self.network.macs(like.new_zeros(1, *self.row_shape))

    @property
    def widths(self) -> tuple[int, ...]:
        """Neurons or channels of each layer, inputs and outputs included."""
        network = self.network
        return network.widths if isinstance(network, CompactNetwork) else network.channels

    @property
    def architecture(self) -> str:
        """The layers in one line, like ``41 of 64 → 6 → 10, skip 41 → 10``."""
        return self.network.architecture


class Attempt(NamedTuple):
    """A network that was judged on the way down, on the front or not.

    Attributes:
        member: the one it was cut from, as in :class:`Candidate`.
        cut: how often that member had been cut by then; 0 as it was trained.
        neurons: in its hidden layers.
        macs: None in older folders.
    """

    member: int | None
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


def on_the_front(
    candidates: Iterable[Candidate], max_parameters: int | None = None
) -> list[Candidate]:
    """Keep what has a better score than all that have no more parameters, by size.

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


def corrected(
    front: Sequence[Candidate], expected: Mapping[int, float], max_parameters: int | None = None
) -> list[Candidate]:
    """The same front with the score to be expected of each.

    A network was chosen among all that are smaller than the next one of the front, the last among
    all there are: larger ones that it beats were there to be chosen as well.

    Args:
        expected: by size, as :func:`torchsparcs.searching.correction.expected_scores` gives them.
    """
    allowed = math.inf if max_parameters is None else max_parameters
    most = [*(found.parameters - 1 for found in front[1:]), allowed]
    ends = [max(found.parameters, end) for found, end in zip(front, most, strict=True)]
    sizes = [max(size for size in expected if size <= end) for end in ends]
    pairs = zip(front, sizes, strict=True)
    return [replace(found, expected=expected[size]) for found, size in pairs]


def is_same(one: Candidate, other: Candidate) -> bool:
    """Whether two candidates are one; read from files they are different objects."""
    numbers = ((each.parameters, each.score, each.loss) for each in (one, other))
    return one is other or operator.eq(*numbers)


@dataclass(frozen=True)
class SearchResult(Explanations):
    """The front, from the smallest network to the one with the best score.

    Attributes:
        front: candidates, each with a better score than all smaller ones.
        linear: the linear model, on the front or not; None where a network was searched.
        preprocessing: from a table to what the networks take, and back; None where a network was
            searched, which takes tensors.
        history: of the population's training; :meth:`history_of` gives that of one candidate.
        settings: everything that decided the outcome, as plain values.
        attempts: every network that was judged, in the order in which they were made; none of a
            front that was refitted.
        trained: the spectral network as it was trained, where a network was searched.
    """

    front: tuple[Candidate, ...]
    linear: Candidate | None
    preprocessing: Preprocessing | None
    history: History
    settings: dict[str, Any]
    attempts: tuple[Attempt, ...] = ()
    trained: SpectralNetwork | SpectralChain | None = None

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
        """The candidate that a rule picks, or of that place on the front.

        The rules are "best" and "smallest", for a table also "linear".
        """
        if isinstance(rule, Candidate):
            return rule
        rules = {"best": self.best(), "smallest": self.smallest()}
        if self.linear is not None:
            rules["linear"] = self.linear
        if isinstance(rule, str) and rule in rules:
            return rules[rule]
        if isinstance(rule, Integral) and not isinstance(rule, bool):
            place = int(rule)
            if 0 <= place < len(self.front):
                return self.front[place]
        raise ValueError(
            f"Expected a pick among {', '.join(rules)} and 0 to {len(self.front) - 1}. "
            f"Got {rule!r}."
        )

    @property
    def target(self) -> Target:
        """What is predicted; where a network was searched, its outputs as they are."""
        if self.preprocessing is not None:
            return self.preprocessing.target
        return Target.of_outputs(self.settings["task"], self.front[0].widths[-1])

    @property
    def inputs(self) -> Inputs:
        """The encoding of the columns of a table."""
        if self.preprocessing is None:
            raise ValueError("Expected a search of a table. This is one of a network.")
        return self.preprocessing.inputs

    def history_of(self, candidate: Candidate) -> History:
        """The history of the member that ``candidate`` was cut from; empty where it was drawn."""
        if candidate.member is not None:
            return self.history.member(candidate.member)
        return self.history if self.preprocessing is None else History()

    def outputs(self, X: Any, pick: "str | int | Candidate" = "smallest") -> Tensor:
        """What the network puts out for a table, or for rows as it takes them, raw."""
        network = self.pick(pick).network
        like = next(network.parameters())
        if self.preprocessing is None:
            inputs = torch.as_tensor(X).to(like)
        else:
            assert isinstance(network, CompactNetwork)
            inputs = self.preprocessing.inputs.transform(X, network.reads).to(like.device)
        with evaluation_mode(network):
            return network(inputs)

    def predict(self, X: Any, pick: "str | int | Candidate" = "smallest") -> np.ndarray:
        """Labels, or values in their own units."""
        return self.target.predict(self.outputs(X, pick))

    def predict_proba(self, X: Any, pick: "str | int | Candidate" = "smallest") -> np.ndarray:
        """The probability of each class, (rows, classes)."""
        return self.target.probabilities(self.outputs(X, pick))

    def score(self, X: Any, y: Any, pick: "str | int | Candidate" = "smallest") -> float:
        """Accuracy or R² on other data."""
        target, output = self.target, self.outputs(X, pick)
        return resolve_task(target.task).score(output, target.transform(y).to(output.device)).item()

    def deployed(self, pick: "str | int | Candidate" = "smallest") -> DeployedNetwork:
        """The network with its preprocessing, an ``nn.Module`` from columns to answers."""
        network = self.pick(pick).network
        if self.preprocessing is None or not isinstance(network, CompactNetwork):
            raise ValueError(
                "Expected a search of a table, which has preprocessing to deploy. This is one of a "
                "network: take the candidate's own network, as in to_onnx(candidate.network, path)."
            )
        return DeployedNetwork(network, self.preprocessing)

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
        from torchsparcs.report.page import write_page  # a page is made of results, not they of it

        return write_page(self, path, folder=folder, force=force)

    def __repr__(self) -> str:
        first, last = self.front[0], self.front[-1]
        words = f"score {first.score:.4f} to {last.score:.4f}"
        if first.expected is not None and last.expected is not None:
            words = f"expected score {first.expected:.4f} to {last.expected:.4f}"
        return (
            f"SearchResult({len(self.front)} candidates, {first.parameters:,} to "
            f"{last.parameters:,} parameters, {words})"
        )


def load_result(path: str | Path) -> SearchResult:
    """The result that :meth:`SearchResult.save` wrote into the folder ``path``."""
    return SearchResult(**read_run(path, Candidate, Attempt))


ChainCandidate = Candidate
"""Its name where a network is searched."""
ChainResult = SearchResult
"""Its name where a network is searched."""
