"""What is given with a network of one's own: its config, its rows and their folds, checked."""

import dataclasses
import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsparcs.fitting.folded import FoldedData, Rows
from torchsparcs.judging.default_scoring import scoring_for
from torchsparcs.judging.folds import Folds, folds_of, held_out, is_splitter, split_folds
from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.tables.target import Target
from torchsparcs.training.config import TrainConfig, Unstated
from torchsparcs.training.data import ARRAYS, Pair, placed
from torchsparcs.training.tasks import TASKS, check_data

EPOCHS, BATCH = 30, 128
HELD_OUT = 0.1
FEWEST_JUDGES = 5
FAR, OFF = 10, 3  # times as large or small as 1, and standard deviations from 0: hard to come to


def resolved_config(config: Any, task: str, seed: int | None, y: Any) -> TrainConfig:
    """``config`` with a task that has a name, and the seed; what contradicts it is refused.

    Whole numbers are classes, unless ``task`` or ``config`` says that they are not.
    """
    if config is not None and not isinstance(config, TrainConfig):
        raise ValueError(
            f"Expected a TrainConfig where a network is given. Got {type(config).__name__}."
        )
    asked = "multiclass" if task == "classification" else task
    if config is None:
        config = TrainConfig(epochs=EPOCHS, batch_size=BATCH)
    stated = None if isinstance(config.task, Unstated) else config.task
    if asked == "auto" and stated is not None:
        asked = stated
    if asked == "auto":
        if _is_one_hot(y):
            raise ValueError(
                "Expected classes as whole numbers. Got a column for each: take y.argmax(1), or "
                "say task='binary' or 'regression'."
            )
        asked = "multiclass" if _is_whole(y) else "regression"
    if asked not in TASKS:
        raise ValueError(
            f"Expected a task among auto, classification and {', '.join(TASKS)}. Got {asked!r}."
        )
    for name, given, other in (("task", asked, stated), ("seed", seed, config.seed or None)):
        if given is not None and other is not None and given != other:
            raise ValueError(
                f"Expected one {name}. Got {given!r} and, in the TrainConfig, {other!r}."
            )
    return dataclasses.replace(config, task=asked, seed=config.seed if seed is None else seed)


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


def folded_rows(
    network: SpectralNetwork | SpectralChain,
    data: Rows,
    config: TrainConfig,
    validation: Any,
    scoring: Any = "auto",
) -> FoldedData:
    """The rows as ``network`` takes them, on its device, and their folds."""
    X, targets, weight, groups = data
    if groups is not None and not is_splitter(validation):
        raise ValueError("Expected a splitter as the validation where groups are given.")
    task = str(config.task)
    x, y = _checked(network, (X, targets), task)
    weights = torch.ones(len(x)) if weight is None else torch.from_numpy(weight).float()
    if isinstance(validation, (tuple, list)):
        others = _checked(network, validation, task, "validation data")
        folds = held_out(torch.arange(len(x) + len(others[0])) >= len(x))
        weights = torch.cat([weights, torch.ones(len(others[0]))])
        x, y = torch.cat([x, others[0]]), torch.cat([y, others[1]])
    elif is_splitter(validation):
        folds = split_folds(validation, x.cpu().numpy(), y.cpu().numpy(), groups)
        if folds.source is not None:
            raise ValueError(
                "Expected splits in which every row judges at most once, for a network. Got others "
                f"from {validation!r}."
            )
    else:
        folds = _folds(validation, y, task, config.seed)
    outputs = network.channels if isinstance(network, SpectralChain) else network.widths
    aim = Target.of_outputs(task, outputs[-1])
    resolved = scoring_for(scoring, aim, y, weights.to(y.device), folds.judged.to(y.device))
    resolved = dataclasses.replace(resolved, loss=None)  # it is trained by its config
    return FoldedData(x, y, weights, folds, task, resolved).to(x.device)


def _folds(validation: Any, y: Tensor, task: str, seed: int) -> Folds:
    """The folds of a number of them; of a share, one fit that never sees the rows that judge."""
    if isinstance(validation, Integral) and not isinstance(validation, bool):
        return folds_of(validation, y, task == "multiclass", seed)
    share = HELD_OUT if isinstance(validation, str) and validation == "auto" else validation
    if not isinstance(share, Real) or isinstance(share, bool) or not 0 < float(share) <= 0.5:
        raise ValueError(
            "Expected validation to be 'auto', a share of the rows up to 0.5, a number of folds, a "
            f"splitter, or a pair (X, y). Got {validation!r}."
        )
    count = round(float(share) * len(y))
    if count < FEWEST_JUDGES:
        raise ValueError(
            f"Expected at least {FEWEST_JUDGES} rows to judge by. Got {len(y)} rows, of which "
            f"{count} are held out: give a larger share, or validation=(X, y)."
        )
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    is_judge = torch.zeros(len(y), dtype=torch.bool)
    is_judge[order[:count]] = True
    return held_out(is_judge)


def without_stopping(
    data: Pair, weights: Tensor | None, seed: int
) -> tuple[Pair, Tensor | None, Pair]:
    """The rows to train on, their weights, and others that say when to stop: a tenth, drawn.

    Rows that judge a network must not choose its epoch: the one with their lowest loss flatters.
    """
    rows = len(data[0])
    count = max(FEWEST_JUDGES, round(HELD_OUT * rows))
    if count > rows // 2:
        raise ValueError(
            f"Expected at least {2 * FEWEST_JUDGES} rows to train on, as some of them say when to "
            f"stop (patience). Got {rows}."
        )
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    order = order.to(data[0].device)
    stopping, others = order[:count], order[count:].sort().values
    fitted, stops = ((data[0][some], data[1][some]) for some in (others, stopping))
    return fitted, None if weights is None else weights[others], stops


def _checked(
    network: SpectralNetwork | SpectralChain, data: Any, task: str, name: str = "data"
) -> Pair:
    """``data`` on the device of ``network``; a ValueError where it cannot take them."""
    check_arrays(data)
    for what, part in zip(("inputs", "targets"), data, strict=True):
        if isinstance(part, np.ndarray) and part.dtype.kind not in "biuf":
            raise ValueError(f"Expected {what} that are numbers, classes from 0. Got {part.dtype}.")
    x, y = (torch.as_tensor(part) for part in data)
    pair = placed((x, y), network.output_eigenvalues)
    try:
        check_data(network, pair, task, name=name)
    except (RuntimeError, IndexError) as error:
        raise ValueError(
            f"Expected inputs as {network} takes them. Got rows of shape {tuple(x.shape[1:])} in "
            f"the {name}: {error}"
        ) from error
    if len(pair[1].unique()) < 2:
        raise ValueError(f"Expected targets that vary. Those of the {name} are all the same.")
    if pair[0].is_floating_point() and (size := pair[0].std().item()) > FAR:
        _warn(
            f"Expected inputs of about mean 0 and variance 1, like images / 255. Those of the "
            f"{name} have a standard deviation of {size:.3g}."
        )
    if task == "regression":
        mean, size = pair[1].double().mean().item(), pair[1].double().std().item()
        if abs(mean) > OFF * size or not 1 / FAR <= size <= FAR:
            _warn(
                f"Expected targets of about mean 0 and variance 1, near which a network starts. "
                f"Those of the {name} have mean {mean:.3g} and standard deviation {size:.3g}: "
                "standardise them, or train for long."
            )
    return pair


def check_arrays(data: Any) -> None:
    """A ValueError for anything but a pair of arrays or tensors."""
    if len(data) != 2 or not all(isinstance(part, ARRAYS) for part in data):
        kinds = " and ".join(type(part).__name__ for part in data)
        raise ValueError(f"Expected X and y as arrays or tensors for a network. Got {kinds}.")


def _warn(words: str) -> None:
    warnings.warn(words, UserWarning, stacklevel=7)  # who called search
