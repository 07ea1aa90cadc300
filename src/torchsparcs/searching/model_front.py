"""The front of a model: what is left of it at every size that is worth its loss."""

import copy
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypedDict, TypeVar

import torch
from torch import nn

from torchsparcs.cutting.extraction import extract
from torchsparcs.cutting.ladder import RefineConfig, Rung, constant_loss
from torchsparcs.cutting.model_ladder import LOOKED_AT, model_rungs
from torchsparcs.cutting.units import block_cuts, macs_of
from torchsparcs.export.saving import load, save
from torchsparcs.files.reading import read_as, read_json
from torchsparcs.results.folder import write_json
from torchsparcs.spectral.network import SpectralModule
from torchsparcs.training.data import Data
from torchsparcs.training.progress import cutting_progress
from torchsparcs.training.tasks import Evaluation, LossFunction, gives_tensors

Model = TypeVar("Model", bound=nn.Module)
Built = TypeVar("Built", bound=nn.Module)
FORMAT = 1
SIZES = ("parameters", "macs")
INDEX = "front.json"
FIGURES = ("parameters", "macs", "loss", "score")
GIVEN_UP = 0.5  # of what the best loss gains over a constant answer: smaller ones are not worth it


class _Row(TypedDict):
    file: Annotated[str, lambda name: re.fullmatch(r"\d+\.safetensors", name) is not None]
    parameters: Annotated[int, lambda number: number > 0]
    macs: Annotated[int, lambda number: number >= 0]
    loss: float
    score: float


class _Table(TypedDict):
    size: Annotated[str, lambda unit: unit in SIZES]
    points: Annotated[list[_Row], lambda rows: len(rows) > 0]


@dataclass(frozen=True)
class FrontPoint(Generic[Model]):
    """A model of the front.

    Attributes:
        parameters: of the whole model.
        macs: multiply-adds of its linear layers and convolutions for one row.
        loss, score: on the validation data, which chose it.
    """

    model: Model
    parameters: int
    macs: int
    loss: float
    score: float


@dataclass(frozen=True)
class ModelFront(Generic[Model]):
    """Models cut from one, by size; none is as good as a smaller one. Printed, it is a table.

    Attributes:
        points: from the smallest to the largest, each with its ``model``, ``parameters``, ``macs``,
            ``loss`` and ``score``.
        size: "parameters" or "macs", by which they were cut.
    """

    points: tuple[FrontPoint[Model], ...]
    size: str

    def within(
        self, *, max_parameters: int | None = None, max_macs: int | None = None
    ) -> FrontPoint[Model]:
        """The one with the lowest loss of those that are no larger; else a ValueError."""
        limits = {"parameters": max_parameters, "macs": max_macs}
        asked = {unit: most for unit, most in limits.items() if most is not None}
        if not asked:
            raise ValueError("Expected max_parameters or max_macs. Got neither.")
        fitting = [
            point
            for point in self.points
            if all(getattr(point, unit) <= most for unit, most in asked.items())
        ]
        if not fitting:
            least = {unit: min(getattr(point, unit) for point in self.points) for unit in asked}
            wanted = ", ".join(f"{size:,} {unit}" for unit, size in least.items())
            raise ValueError(f"Expected a budget of at least {wanted}. Got {asked}.")
        return min(fitting, key=lambda point: point.loss)

    def save(self, folder: str | Path) -> None:
        """Write every model, and a table of them, into a folder that has no front yet."""
        where = Path(folder)
        if (where / INDEX).exists():
            raise ValueError(f"Expected a folder without a front. {where} has one already.")
        where.mkdir(parents=True, exist_ok=True)
        rows = []
        for place, point in enumerate(self.points):
            file = f"{place:02d}.safetensors"
            save(point.model, where / file)
            rows.append({"file": file, **{name: getattr(point, name) for name in FIGURES}})
        # last: a folder with a table has all that the table names
        write_json(where / INDEX, {"format": FORMAT, "size": self.size, "points": rows})

    @classmethod
    def load(cls, folder: str | Path, *, into: Built) -> "ModelFront[Built]":
        """The front that :meth:`save` wrote.

        Args:
            into: a model that is built as the uncut one was; copies of it become the points.
        """
        where = Path(folder)
        content = read_json(where / INDEX)
        version = content.get("format") if isinstance(content, dict) else None
        if version != FORMAT:
            raise ValueError(f"Expected a front of format {FORMAT} at {where}. Got {version!r}.")
        try:
            table = read_as(_Table, content, INDEX)
        except ValueError as error:
            raise ValueError(f"Expected a front at {where}. {error}") from error
        points = [
            FrontPoint(load(where / file, into=into), **figures)
            for file, figures in ((row.pop("file"), row) for row in table["points"])
        ]
        return ModelFront(tuple(points), table["size"])

    def __str__(self) -> str:
        lines = [f"{'parameters':>12} {'multiply-adds':>14} {'loss':>10} {'score':>10}"]
        lines += [
            f"{p.parameters:>12,} {p.macs:>14,} {p.loss:>10.4g} {p.score:>10.4g}"
            for p in self.points
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        first, last = self.points[0], self.points[-1]
        sizes = f"{getattr(first, self.size):,} to {getattr(last, self.size):,} {self.size}"
        return (
            f"ModelFront({len(self.points)} models, {sizes}, loss {last.loss:.4g} to "
            f"{first.loss:.4g})"
        )


def extract_front(
    model: Model,
    *,
    data: Data,
    validation: Data,
    task: str | LossFunction,
    config: RefineConfig | None = None,
    target: str | Sequence[str] | None = None,
    size: Literal["parameters", "macs"] = "parameters",
    smallest: int | None = None,
    progress: bool = True,
) -> ModelFront[Model]:
    """Every size of a model that is worth its loss: what :func:`extract` goes through on its way.

    Plain feed-forward blocks lose hidden units, rung by rung 0.7 of what is left, each refitted and
    fine-tuned with the model as its teacher, and judged. On the front is what has a lower loss than
    everything smaller.

    >>> _ = torch.manual_seed(0)
    >>> x = torch.rand(200, 3) * 2 - 1
    >>> y = x.abs().sum(dim=1, keepdim=True)
    >>> plain = nn.Sequential(nn.Linear(3, 40), nn.ReLU(), nn.Linear(40, 1))
    >>> given = {"data": (x, y), "validation": (x, y), "task": "regression", "progress": False}
    >>> front = extract_front(plain, **given, smallest=60)
    >>> front.within(max_parameters=120).parameters <= 120
    True

    Ctrl-C, after the first rung, ends it with the front so far.

    Args:
        model: any model whose blocks :func:`extract` can cut; it stays as it is. Blocks that
            :func:`spectralize` gave eigenvalues are plain again first, without what is silent.
        data, validation, task, config, target: as for :func:`extract`.
        size: what is priced, and counts for the front: parameters of the whole model, or the
            multiply-adds of a row.
        smallest: go down to that size. By default, until half of what the lowest loss gains over a
            constant answer is lost; over twice the model's own loss where its outputs are several,
            of which there is no constant answer.
        progress: say on the terminal what is being cut.
    """
    if size not in SIZES:
        raise ValueError(f"Expected size to be 'parameters' or 'macs'. Got {size!r}.")
    if smallest is not None and smallest < 1:
        raise ValueError(f"Expected a smallest size of at least 1. Got {smallest}.")
    config = config if config is not None else RefineConfig()
    if not isinstance(config, RefineConfig):
        raise ValueError(f"Expected a RefineConfig. Got {type(config).__name__}.")
    parts = [part for part in model.modules() if isinstance(part, SpectralModule)]
    whole: Any = extract(model) if parts else model
    cuts = block_cuts(whole, data, validation, task, target, size)
    constant = constant_loss(whole, validation, task)
    if callable(task) and not gives_tensors(whole, validation):
        constant += abs(constant)  # it was the loss of the model itself
    tuning = config.tuning(task, schedule="warm_cosine")
    rungs = model_rungs(
        whole,
        data,
        validation,
        tuning,
        rows=min(config.rows, LOOKED_AT),
        cuts=cuts,
        teaching=config.teaching,
    )
    found: list[FrontPoint[Any]] = []
    try:
        with cutting_progress(progress) as show:
            for rung in _worth_it(rungs, constant, smallest):
                show(f"{rung.parameters:,} {size}, loss {rung.loss:.4g}")
                if not math.isfinite(rung.loss):
                    continue
                small = copy.deepcopy(rung.network)
                parameters = sum(p.numel() for p in small.parameters())
                macs = macs_of(small, cuts.example)
                point = FrontPoint(small, parameters, macs, *rung.judgement)
                # what is smaller and no worse takes the place of those before it
                found = [*(one for one in found if one.loss < point.loss), point]
    except KeyboardInterrupt:
        if not found:
            raise
        words = "The cutting was interrupted: this is the front that it had found."
        warnings.warn(words, UserWarning, stacklevel=2)
    return ModelFront(tuple(reversed(found)), size)


def _worth_it(
    rungs: Iterator[Rung[nn.Module, Evaluation]], constant: float, smallest: int | None
) -> Iterator[Rung[nn.Module, Evaluation]]:
    """The rungs down to ``smallest``, or as long as they keep half of what the best has gained.

    The first is always there.
    """
    lowest = torch.inf
    for place, rung in enumerate(rungs):
        lowest = min(lowest, rung.loss)
        gained, kept = constant - lowest, constant - rung.loss
        if smallest is None and place and gained > 0 and kept < (1 - GIVEN_UP) * gained:
            return
        yield rung
        if smallest is not None and rung.parameters <= smallest:
            return
