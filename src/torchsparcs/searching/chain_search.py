"""A chain searched: trained once, cut rung by rung, the front of all that were judged."""

import copy
import dataclasses
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsparcs.compact.chain import CompactChain
from torchsparcs.cutting.chain_refinement import Rung, rungs
from torchsparcs.cutting.extraction import extract
from torchsparcs.cutting.refinement import constant_loss
from torchsparcs.export.saving import save
from torchsparcs.files.provenance import hardware, versions
from torchsparcs.searching.folder import FORMAT, as_csv, cleared, write_json, write_text
from torchsparcs.searching.front import Front, on_the_front
from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import ARRAYS, Pair, placed
from torchsparcs.training.devices import resolve_device
from torchsparcs.training.history import History
from torchsparcs.training.progress import cutting_progress
from torchsparcs.training.tasks import TASKS, check_data, predict, resolve_task
from torchsparcs.training.train import train

EPOCHS, BATCH = 30, 128
HELD_OUT = 0.1
TUNING_SHARE = 6  # as many epochs of the training for one of a rung
FEWEST_JUDGES = 5
FAR, OFF = 10, 3  # times as large or small as 1, and standard deviations from 0: hard to come to
AT_ONCE = 512  # rows that are judged together
NOTHING = 0.05  # of the loss of a constant answer is next to nothing
GIVEN_UP = 0.5  # of what the best loss gains over a constant answer: lower rungs are not worth it


@dataclass(frozen=True)
class ChainCandidate:
    """A plain network of some size and what it is worth on the rows that judged.

    Attributes:
        macs: multiply-adds for one row.
    """

    network: CompactChain
    score: float
    standard_error: float
    loss: float
    macs: int

    @property
    def parameters(self) -> int:
        return self.network.parameter_count

    @property
    def architecture(self) -> str:
        """Channels layer by layer, active ones + linear ones."""
        return self.network.architecture


@dataclass(frozen=True)
class ChainResult(Front[ChainCandidate]):
    """The front, from the smallest network to the one with the best score.

    Attributes:
        front: candidates, each with a better score than all smaller ones.
        attempts: all that were judged, from the largest.
        trained: the spectral chain they were cut from.
        history: of its training.
        settings: everything that decided the outcome, as plain values.
    """

    front: tuple[ChainCandidate, ...]
    attempts: tuple[ChainCandidate, ...]
    trained: SpectralChain
    history: History
    settings: dict[str, Any]

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the front into the folder ``path``: networks/NN.safetensors, front.csv, front.json.

        ``load`` reads each network; the spectral one is networks/trained.safetensors.
        """
        folder = Path(path)
        cleared(folder, force=force)
        rows = []
        for place, found in enumerate(self.front):
            name = f"networks/{place:02d}.safetensors"
            save(found.network, folder / name)
            rows.append({**_numbers(found), "architecture": found.architecture, "network": name})
        save(self.trained, folder / "networks" / "trained.safetensors")
        write_text(folder / "front.csv", as_csv(rows))
        content = {"format": FORMAT, "front": rows, "settings": self.settings}
        write_json(folder / "front.json", content)  # the last: a folder that has one is whole

    def report(self, path: str | Path = "report.html", *, force: bool = False) -> Path:
        """Write the page about this search: one file, for any browser. Needs Matplotlib."""
        from torchsparcs.report import write_chain_page

        return write_chain_page(self, path, force=force)

    def __repr__(self) -> str:
        return (
            f"ChainResult({len(self.front)} candidates, {self.front[0].parameters:,} to "
            f"{self.front[-1].parameters:,} parameters, score {self.front[0].score:.4f} to "
            f"{self.front[-1].score:.4f})"
        )


def _numbers(found: ChainCandidate) -> dict[str, Any]:
    names = ("parameters", "macs", "score", "standard_error", "loss")
    return {name: getattr(found, name) for name in names}


def search_chain(
    chain: SpectralChain,
    data: tuple[Any, Any],
    *,
    task: str,
    validation: Any,
    max_parameters: int | None,
    config: Any,
    seed: int,
    device: str | torch.device,
    progress: bool,
) -> ChainResult:
    """The front of ``chain``, which itself stays as it is; :func:`search` with a network.

    One training, then :func:`candidates` judged on the rows held out. Ctrl-C between these ends it
    with what was found. Where no network is small enough the front is the smallest.
    """
    if not isinstance(chain, SpectralChain):
        raise ValueError(f"Expected a SpectralChain as the network. Got {type(chain).__name__}.")
    if max_parameters is not None and max_parameters < 1:
        raise ValueError(f"Expected max_parameters of at least 1. Got {max_parameters}.")
    config = _recipe(config, task, seed, data[1])
    task, on, start = str(config.task), resolve_device(device), time.perf_counter()
    trained = copy.deepcopy(chain).to(on)
    extract(trained)  # what cannot be is refused before the training
    whole = _checked(trained, data, task)
    fitted, judging = _split(trained, whole, validation, task, config.seed)
    try:
        history = train(trained, fitted, config, validation=judging, progress=progress)
    except KeyboardInterrupt:
        words = "The search was interrupted in its training; there is no network to show yet."
        raise KeyboardInterrupt(words) from None
    tuning = tuning_of(config, normalise=trained.normalise)
    attempts: list[ChainCandidate] = []
    try:
        with cutting_progress(progress) as show:
            for found in candidates(trained, fitted, judging, tuning, max_parameters):
                show(f"{found.parameters:,} parameters, score {found.score:.4f}")
                attempts.append(found)
    except KeyboardInterrupt:
        if not attempts:
            raise
        words = "The search was interrupted: these are the networks that it had found."
        warnings.warn(words, UserWarning, stacklevel=3)
    budget, smallest = max_parameters, min(found.parameters for found in attempts)
    if budget is not None and smallest > budget:
        words = f"No network has at most {budget:,} parameters: the smallest has {smallest:,}."
        warnings.warn(words, UserWarning, stacklevel=3)
        budget = smallest
    settings = {
        "task": task,
        "channels": list(trained.channels),
        "rows": len(fitted[0]),
        "judged_rows": len(judging[0]),
        "max_parameters": max_parameters,
        "config": dataclasses.asdict(config),
        "tuning": dataclasses.asdict(tuning),
        "seconds": time.perf_counter() - start,
        "hardware": hardware(on),
        "versions": versions(),
    }
    front = tuple(on_the_front(attempts, budget))
    return ChainResult(front, tuple(attempts), trained.cpu().eval(), history, settings)


def tuning_of(config: TrainConfig, *, normalise: bool) -> TrainConfig:
    """How a rung is fine-tuned after a training by ``config``: for a sixth of its epochs.

    It has half of its learning rate and decay. With normalisation nothing bursts, and it has all of
    the learning rate, with a quarter of the decay.
    """
    return dataclasses.replace(
        config,
        epochs=max(1, config.epochs // TUNING_SHARE),
        lr=config.lr if normalise else config.lr / 2,
        weight_decay=config.transfer_weight_decay / (4 if normalise else 2),
        schedule="warm_cosine",
        patience=None,
    )


def candidates(
    trained: SpectralChain,
    data: Pair,
    judging: Pair,
    tuning: TrainConfig,
    max_parameters: int | None = None,
) -> Iterator[ChainCandidate]:
    """What ``trained`` becomes on the way down, rung by rung 0.7 of the parameters.

    It ends where half of what the best network gains over a constant answer is lost, and not before
    ``max_parameters`` is reached. Where next to nothing is gained it goes on to the smallest.
    """
    task, cut = str(tuning.task), extract(trained)
    constant, best, is_reached = constant_loss(cut, judging, task), math.inf, False
    for rung in rungs(cut, data, judging, tuning, max_parameters, normalise=trained.normalise):
        best = min(best, rung.loss)
        gain = constant - best
        is_worth_it = gain < NOTHING * constant or rung.loss < constant - (1 - GIVEN_UP) * gain
        if is_reached and not is_worth_it:
            return
        is_reached = max_parameters is None or rung.parameters <= max_parameters
        yield _candidate(rung, judging, task)


def _recipe(config: Any, task: str, seed: int, y: Any) -> TrainConfig:
    """``config`` with a task that has a name, and the seed; what contradicts it is refused."""
    if config is None:
        config = TrainConfig(epochs=EPOCHS, batch_size=BATCH)
    if not isinstance(config, TrainConfig):
        raise ValueError(
            f"Expected a TrainConfig where a network is given. Got {type(config).__name__}."
        )
    own = None if config.task == TrainConfig.task else config.task  # a default says nothing
    asked: Any = "multiclass" if task == "classification" else task
    if asked == "auto":
        if own is None and _is_one_hot(y):
            raise ValueError(
                "Expected classes as whole numbers. Got a column for each: take y.argmax(1), or "
                "say task='binary' or 'regression'."
            )
        asked = own or ("multiclass" if _is_whole(y) else "regression")
    if asked not in TASKS:
        raise ValueError(
            f"Expected a task among auto, classification and {', '.join(TASKS)}. Got {asked!r}."
        )
    for name, given, of_config in (("task", asked, own), ("seed", seed or None, config.seed)):
        if given and of_config and given != of_config:
            raise ValueError(
                f"Expected one {name}. Got {given!r} and, in the TrainConfig, {of_config!r}."
            )
    return dataclasses.replace(config, task=asked, seed=seed or config.seed)


def _is_one_hot(y: Any) -> bool:
    """Whether each row has a single 1 and zeros: classes, in columns."""
    if not isinstance(y, ARRAYS) or y.ndim != 2 or y.shape[1] < 2:
        return False
    values = torch.as_tensor(y)
    return bool(((values == 0) | (values == 1)).all() and (values.sum(dim=1) == 1).all())


def _is_whole(y: Any) -> bool:
    """Whether targets are whole numbers, by their type."""
    if isinstance(y, Tensor):
        return not y.is_floating_point()
    return isinstance(y, np.ndarray) and y.dtype.kind in "biu"


def _checked(chain: SpectralChain, data: Any, task: str, name: str = "data") -> Pair:
    """``data`` on the device of ``chain``; a ValueError where it cannot take them."""
    if len(data) != 2 or not all(isinstance(part, ARRAYS) for part in data):
        kinds = " and ".join(type(part).__name__ for part in data)
        raise ValueError(f"Expected X and y as arrays or tensors for a network. Got {kinds}.")
    for what, part in zip(("inputs", "targets"), data, strict=True):
        if isinstance(part, np.ndarray) and part.dtype.kind not in "biuf":
            raise ValueError(f"Expected {what} that are numbers, classes from 0. Got {part.dtype}.")
    x, y = (torch.as_tensor(part) for part in data)
    pair = placed((x, y), chain.output_eigenvalues)
    try:
        check_data(chain, pair, task, name=name)
    except (RuntimeError, IndexError) as error:
        raise ValueError(
            f"Expected inputs as {chain} takes them. Got rows of shape {tuple(x.shape[1:])} in "
            f"the {name}: {error}"
        ) from error
    if len(pair[1].unique()) < 2:
        raise ValueError(f"Expected targets that vary. Those of the {name} are all the same.")
    if pair[0].is_floating_point() and (size := pair[0].std().item()) > FAR:
        warnings.warn(
            f"Expected inputs of about mean 0 and variance 1, like images / 255. Those of the "
            f"{name} have a standard deviation of {size:.3g}.",
            UserWarning,
            stacklevel=4,  # who called search
        )
    if task == "regression":
        _warn_of_scale(pair[1], name)
    return pair


def _warn_of_scale(targets: Tensor, name: str) -> None:
    mean, size = targets.double().mean().item(), targets.double().std().item()
    if abs(mean) > OFF * size or not 1 / FAR <= size <= FAR:
        warnings.warn(
            f"Expected targets of about mean 0 and variance 1, near which a network starts. Those "
            f"of the {name} have mean {mean:.3g} and standard deviation {size:.3g}: standardise "
            "them, or train for long.",
            UserWarning,
            stacklevel=5,  # who called search
        )


def _candidate(rung: Rung, judging: Pair, task: str) -> ChainCandidate:
    output, target, _ = predict(rung.network, judging, batch_size=AT_ONCE)
    scores = resolve_task(task).scores
    assert scores is not None  # of a named task
    each = scores(output, target).double().reshape(len(output), -1).mean(dim=1)
    return ChainCandidate(
        copy.deepcopy(rung.network).cpu(),
        rung.score,
        (each - each.mean()).square().sum().sqrt().item() / len(each),
        rung.loss,
        rung.network.macs(judging[0][:1]),
    )


def _split(
    chain: SpectralChain, data: Pair, validation: Any, task: str, seed: int
) -> tuple[Pair, Pair]:
    """Rows to be fitted to and rows that judge."""
    if isinstance(validation, (tuple, list)):
        return data, _checked(chain, validation, task, "validation data")
    x, y = data
    share = HELD_OUT if isinstance(validation, str) and validation == "auto" else validation
    if not isinstance(share, float) or not 0 < share <= 0.5:
        raise ValueError(
            "Expected validation to be 'auto', a share of the rows up to 0.5, or a pair (X, y), "
            f"where a network is given. Got {validation!r}."
        )
    count = round(share * len(x))
    if count < FEWEST_JUDGES:
        raise ValueError(
            f"Expected at least {FEWEST_JUDGES} rows to judge by. Got {len(x)} rows, of which "
            f"{count} are held out: give a larger share, or validation=(X, y)."
        )
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed)).to(x.device)
    held, kept = order.split([count, len(x) - count])
    return (x[kept], y[kept]), (x[held], y[held])
