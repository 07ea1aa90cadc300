"""The sizes that a front can be drawn against: what a network costs where it will run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple

from torchsparcs.compact.network import CompactNetwork
from torchsparcs.export.folding import table_program
from torchsparcs.export.measuring import known_chip
from torchsparcs.export.predicting import predict_cost
from torchsparcs.searching.candidates import Candidate
from torchsparcs.tables.preprocessing import Preprocessing

DEFAULT_CHIP = "cortex-m4"
BYTES_OF_A_NUMBER = 4


class Size(NamedTuple):
    """A size of candidates and attempts: in which unit, and how much."""

    unit: str
    of: Callable[[Any], int]


SIZES = {
    "parameters": Size("parameters", attrgetter("parameters")),
    "macs": Size("MACs", attrgetter("macs")),
    "bytes": Size("bytes", attrgetter("bytes")),
}


@dataclass(frozen=True)
class Sizing:
    """What the front of a search is drawn against, and the most that a network may have.

    Attributes:
        name: a row of ``SIZES``.
        chip: whose flash bytes are; None where they are not asked for.
        preprocessing: which is in the generated code; None where a network is searched.
        limits: by the name of a size.
    """

    name: str = "parameters"
    chip: str | None = None
    preprocessing: Preprocessing | None = None
    limits: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        name: Any,
        chip: str | None,
        preprocessing: Preprocessing | None,
        limits: Mapping[str, int | None],
    ) -> "Sizing":
        """As a call asks for it; bytes are those of ``DEFAULT_CHIP`` where no other is named."""
        if not isinstance(name, str) or name not in SIZES:
            raise ValueError(f"Expected a size among {', '.join(SIZES)}. Got {name!r}.")
        given = {each: limit for each, limit in limits.items() if limit is not None}
        if chip is None and (name == "bytes" or "bytes" in given):
            chip = DEFAULT_CHIP
        if chip is not None:
            known_chip(chip)
        return cls(name, chip, preprocessing, given)

    @classmethod
    def recorded(cls, settings: Mapping[str, Any], preprocessing: Preprocessing | None) -> "Sizing":
        """That of an earlier search, by its settings; older ones have parameters only."""
        limits = {each: settings.get(f"max_{each}") for each in SIZES}
        name, chip = settings.get("size", "parameters"), settings.get("chip")
        return cls.of(name, chip, preprocessing, limits)

    @property
    def settings(self) -> dict[str, Any]:
        """What a result keeps of it."""
        limits = {f"max_{name}": self.limits.get(name) for name in ("parameters", "bytes")}
        return {"size": self.name, "chip": self.chip, **limits}

    @property
    def most_parameters(self) -> int | None:
        """No network within the limits has more."""
        limits = [self.limits[name] for name in ("parameters",) if name in self.limits]
        if "bytes" in self.limits:
            limits.append(max(1, self.limits["bytes"] // BYTES_OF_A_NUMBER))
        return min(limits, default=None)

    def within_reach(self, candidates: Sequence[Candidate]) -> dict[str, int]:
        """The limits, raised to the smallest of ``candidates`` where none is within."""
        return {
            name: max(limit, min(SIZES[name].of(each) for each in candidates))
            for name, limit in self.limits.items()
        }

    def weighed(self, candidate: Candidate) -> Candidate:
        """``candidate`` with its bytes, where they are asked for."""
        if self.chip is None or self.preprocessing is None:
            return candidate
        assert isinstance(candidate.network, CompactNetwork)
        program = table_program(candidate.network, self.preprocessing)
        return replace(candidate, bytes=predict_cost(program, self.chip).flash)

    def size(self, candidate: Candidate) -> int:
        return SIZES[self.name].of(candidate)
