"""The sizes that a front can be drawn against: what a network costs where it will run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple

import torch

from torchsparcs.compact.direct import DirectSpace, layer_labels
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.export.folding import table_program
from torchsparcs.export.measuring import known_chip
from torchsparcs.export.predicting import predict_cost
from torchsparcs.fitting.dense import compact
from torchsparcs.fitting.folded import FoldedData
from torchsparcs.fitting.whole_numbers import WholeNumbers
from torchsparcs.judging.candidates import Candidate
from torchsparcs.tables.preprocessing import Inputs, Preprocessing

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
        is_int8: whether bytes are those of networks in int8.
        whole: the rows that these are fitted to; None where a network is searched.
    """

    name: str = "parameters"
    chip: str | None = None
    preprocessing: Preprocessing | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    is_int8: bool = False
    whole: WholeNumbers | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        name: Any,
        chip: str | None,
        preprocessing: Preprocessing | None,
        limits: Mapping[str, int | None],
        is_int8: Any = False,
    ) -> "Sizing":
        """As a call asks for it; bytes are those of ``DEFAULT_CHIP`` where no other is named."""
        if not isinstance(name, str) or name not in SIZES:
            raise ValueError(f"Expected a size among {', '.join(SIZES)}. Got {name!r}.")
        if not isinstance(is_int8, bool):
            raise ValueError(f"Expected int8 to be True or False. Got {is_int8!r}.")
        given = {each: limit for each, limit in limits.items() if limit is not None}
        if chip is None and (name == "bytes" or "bytes" in given or is_int8):
            chip = DEFAULT_CHIP
        if chip is not None:
            known_chip(chip)
        return cls(name, chip, preprocessing, given, is_int8)

    @classmethod
    def recorded(cls, settings: Mapping[str, Any], preprocessing: Preprocessing | None) -> "Sizing":
        """That of an earlier search, by its settings; older ones have parameters only."""
        limits = {each: settings.get(f"max_{each}") for each in SIZES}
        name, chip = settings.get("size", "parameters"), settings.get("chip")
        return cls.of(name, chip, preprocessing, limits, settings.get("int8", False))

    @property
    def settings(self) -> dict[str, Any]:
        """What a result keeps of it."""
        limits = {f"max_{name}": self.limits.get(name) for name in ("parameters", "bytes")}
        return {"size": self.name, "chip": self.chip, "int8": self.is_int8, **limits}

    @property
    def most_parameters(self) -> int | None:
        """No network within the limits has more."""
        limits = [self.limits[name] for name in ("parameters",) if name in self.limits]
        if "bytes" in self.limits:
            of_a_number = 1 if self.is_int8 else BYTES_OF_A_NUMBER
            limits.append(max(1, self.limits["bytes"] // of_a_number))
        return min(limits, default=None)

    def within_reach(self, candidates: Sequence[Candidate]) -> dict[str, int]:
        """The limits, raised to the smallest of ``candidates`` where none is within."""
        return {
            name: max(limit, min(SIZES[name].of(each) for each in candidates))
            for name, limit in self.limits.items()
        }

    def on_rows(self, folded: FoldedData) -> "Sizing":
        """The same where networks in int8 are fitted to the rows of ``folded``."""
        if not self.is_int8 or self.preprocessing is None:
            return self
        return replace(self, whole=WholeNumbers.of(self.preprocessing, folded))

    def weighed(self, candidate: Candidate) -> Candidate:
        """``candidate`` with its bytes, where they are asked for."""
        if self.chip is None or self.preprocessing is None:
            return candidate
        assert isinstance(candidate.network, CompactNetwork)
        return replace(candidate, bytes=self._bytes(candidate.network))

    def judged(self, candidate: Candidate, networks: Sequence[DirectSpace]) -> Candidate:
        """``candidate`` with its score in int8, where that is asked for.

        ``networks`` are the fits that judge it.
        """
        if self.whole is None:
            return candidate
        return replace(candidate, int8_score=self.whole.score(networks, candidate.temperature))

    def check_reach(self) -> None:
        """A ValueError where not even a network of one weight has so few bytes."""
        if self.preprocessing is None or "bytes" not in self.limits:
            return
        smallest, limit = None, self.limits["bytes"]
        for column in self._columns():
            for network in column._of_one_weight():
                taken = column._bytes(network)
                if taken <= limit:
                    return
                smallest = taken if smallest is None else min(smallest, taken)
        if smallest is not None:
            hint = "" if self.is_int8 else " Less may do with int8=True, or --int8."
            raise ValueError(
                f"Expected max_bytes of at least {smallest:,}, which a network of one weight takes "
                f"on {self.chip}. Got {limit:,}.{hint}"
            )

    def _columns(self) -> Iterator["Sizing"]:
        """The same for tables that have but one of the columns."""
        assert self.preprocessing is not None
        inputs, place, supplied = self.preprocessing.inputs, 0, 0
        for column in inputs.columns:
            own = slice(place, place + len(column.encoded_names))
            given = slice(supplied, supplied + len(column.supplied_names))
            place, supplied = own.stop, given.stop
            alone = replace(
                self.preprocessing, inputs=Inputs((column,), inputs.mean[own], inputs.scale[own])
            )
            whole = self.whole
            if whole is not None:
                encoded = whole.encoded[:, given]
                whole = replace(whole, preprocessing=alone, encoded=encoded)
            yield replace(self, preprocessing=alone, whole=whole)

    def _of_one_weight(self) -> Iterator[CompactNetwork]:
        """For each input the network that hears it alone, with a weight of 1."""
        assert self.preprocessing is not None
        inputs, outputs = len(self.preprocessing.inputs.mean), self.preprocessing.target.outputs
        layers = layer_labels((inputs, outputs), torch.device("cpu"))
        for weight in torch.eye(inputs, dtype=torch.float64):
            weights = torch.cat([weight[None], weight.new_zeros(outputs - 1, inputs)])
            yield compact(DirectSpace(weights, weights.new_zeros(outputs), layers, "relu"))

    def _bytes(self, network: CompactNetwork) -> int:
        assert self.preprocessing is not None
        assert self.chip is not None
        if self.whole is not None:
            return predict_cost(self.whole.small(network), self.chip).flash
        return predict_cost(table_program(network, self.preprocessing), self.chip).flash

    def size(self, candidate: Candidate) -> int:
        return SIZES[self.name].of(candidate)
