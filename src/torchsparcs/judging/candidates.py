"""Candidates: networks and what they are worth, and which of them make a front."""

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from torch import Tensor

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.judging.calibration import cool_
from torchsparcs.judging.judgement import Judgement

ROUNDING = 1e-7  # of a score: what float32 does not resolve is no difference


@dataclass(frozen=True)
class Candidate:
    """A network of some size and what it is worth.

    Attributes:
        network: of a table, takes standardised inputs and gives raw outputs;
            ``SearchResult.predict`` goes from a table to labels or values.
        score: on rows that networks made in the same way were not fitted to, the larger the
            better: accuracy, R², or what ``scoring`` asked for; a loss is negative. It makes the
            front and the picks; as the best of many on the same rows it flatters.
        standard_error: of the score.
        loss: on the same rows; of classes at the temperature.
        penalty_weight: of the member it was cut from; None of a linear model, 0 where
            it was drawn as a plain network.
        member: the index of that member in the history; None where there is none, or the history
            is of one network.
        answers: targets and predictions of the rows that judged, see
            :class:`torchsparcs.judging.judgement.Judgement`; None where they were not kept.
        row_shape: of one row of inputs, where the network is no dense one.
        expected: the score to be expected on rows that nobody has seen, corrected for the choice
            among many, see :mod:`torchsparcs.judging.correction`; None in older folders.
        temperature: by which the outputs were divided, so that probabilities hold on new rows,
            see :mod:`torchsparcs.judging.calibration`; 1 where that was not needed.
        reliability: how often what it says comes true, see there; None where it was not kept.
        bytes: of flash that it takes as generated C on the chip of the search, predicted; None
            where that was not asked for.
        residuals: of a regression, as in :class:`torchsparcs.judging.judgement.Judgement`; None
            where they were not kept.
        int8_score: as ``score``, of the same networks in int8, each made whole by the rows that it
            was fitted to; None where that was not asked for.
        cost: of the columns that it reads, see :mod:`torchsparcs.searching.costs`; None where they
            have no prices.
        parts: as in :class:`torchsparcs.judging.judgement.Judgement`, while a search goes on.
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
    temperature: float = 1.0
    reliability: Tensor | None = field(default=None, compare=False, repr=False)
    residuals: Tensor | None = field(default=None, compare=False, repr=False)
    bytes: int | None = None
    int8_score: float | None = None
    cost: float | None = None
    parts: Tensor | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        network: CompactNetwork | CompactChain,
        judgement: Judgement,
        penalty_weight: float | None,
        member: int | None,
        row_shape: tuple[int, ...] | None = None,
    ) -> "Candidate":
        """``network``, on the CPU, and what networks like it were judged to be worth.

        It is given the temperature that they need.
        """
        if judgement.temperature != 1:
            assert isinstance(network, CompactNetwork)
            cool_(network, judgement.temperature)
        return cls(
            network.cpu(),
            judgement.score,
            judgement.standard_error,
            judgement.told_loss,
            penalty_weight,
            member,
            judgement.answers,
            row_shape,
            temperature=judgement.temperature,
            reliability=judgement.reliability,
            residuals=judgement.residuals,
            parts=judgement.parts,
        )

    def in_units(self, unit: float) -> "Candidate":
        """The same with scores that were counted in ``unit``; its parts, which were too, go."""
        expected = None if self.expected is None else self.expected * unit
        in_int8 = None if self.int8_score is None else self.int8_score * unit
        return replace(
            self,
            score=self.score * unit,
            standard_error=self.standard_error * unit,
            expected=expected,
            int8_score=in_int8,
            parts=None,
        )

    @property
    def told(self) -> float:
        """The score that is told: the one to be expected; of older folders the one that chose."""
        return self.score if self.expected is None else self.expected

    @property
    def told_in_int8(self) -> float | None:
        """The score that is told, with what int8 has changed on the rows that judged."""
        return None if self.int8_score is None else self.told + self.int8_score - self.score

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
        bytes: as in :class:`Candidate`.
    """

    member: int | None
    cut: int
    neurons: int
    parameters: int
    score: float
    standard_error: float
    loss: float
    macs: int | None = None
    bytes: int | None = None

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
            bytes=candidate.bytes,
        )

    def in_units(self, unit: float) -> "Attempt":
        """The same with scores that were counted in ``unit``."""
        return self._replace(score=self.score * unit, standard_error=self.standard_error * unit)


def on_the_front(
    candidates: Iterable[Candidate],
    limits: Mapping[str, int] | None = None,
    size: str = "parameters",
) -> list[Candidate]:
    """Keep what has a better score than all that are no larger, by size.

    Better is more than rounding: two networks that get as many rows right, though not the same
    ones, are equally good. Sizes, and ``limits`` by them, are attributes of candidates.
    """
    judged = [found for found in candidates if not math.isnan(found.score)]
    if not judged:
        raise ValueError("Expected validation rows whose target varies. Got one value in all.")
    for name, limit in (limits or {}).items():
        smallest = min(getattr(found, name) for found in judged)
        if smallest > limit:
            raise ValueError(
                f"Expected max_{name} of at least {smallest}, the smallest network that was found. "
                f"Got {limit}."
            )
        judged = [found for found in judged if getattr(found, name) <= limit]
    front, best = [], -math.inf
    for found in sorted(
        judged, key=lambda found: (getattr(found, size), -found.score, found.parameters)
    ):
        if found.score > best + ROUNDING:
            front.append(found)
            best = found.score
    return front


def corrected(
    front: Sequence[Candidate],
    expected: Mapping[Any, float],
    limit: int | None = None,
    size: str = "parameters",
) -> list[Candidate]:
    """The same front with the score to be expected of each.

    A network was chosen among all that are smaller than the next one of the front, the last among
    all there are: larger ones that it beats were there to be chosen as well.

    Args:
        expected: by size, as :func:`torchsparcs.judging.correction.expected_scores` gives them.
    """
    allowed = math.inf if limit is None else limit
    sizes = [getattr(found, size) for found in front]
    told = []
    for found, own, after in zip(front, sizes, [*sizes[1:], math.inf], strict=True):
        largest = max(
            each for each in expected if each <= own or (each < after and each <= allowed)
        )
        told.append(replace(found, expected=expected[largest]))
    return told


def is_same(one: Candidate, other: Candidate) -> bool:
    """Whether two candidates are one; read from files they are different objects."""
    numbers = ((each.parameters, each.score, each.loss) for each in (one, other))
    return one is other or operator.eq(*numbers)
