"""What networks answered on rows that they were not fitted to."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsparcs.files.visible import shortened
from torchsparcs.results.result import Candidate
from torchsparcs.tables.target import Target

MOST_SHOWN = 20  # classes of a confusion matrix
MOST_OUTPUTS = 6  # of a regression


def answers_of(
    candidate: Candidate, target: Target, *, is_accuracy: bool = True
) -> dict[str, Any] | None:
    """A confusion matrix, or pairs in their own units; None where nothing was kept.

    ``is_accuracy``: whether that is the score, which a matrix can be held against.
    """
    kept = candidate.answers
    if kept is None:
        return None
    if target.classes is None:
        return _pairs(kept, target)
    return _confusion(kept, target, candidate.score if is_accuracy else None)


def _confusion(counts: Tensor, target: Target, accuracy: float | None) -> dict[str, Any]:
    """True by predicted; of many classes those with most mistakes, and the rest as one."""
    labels = [shortened(label) for label in target.classes or ()]
    note = ""
    if len(labels) > MOST_SHOWN:
        wrong = counts.sum(dim=0) + counts.sum(dim=1) - 2 * counts.diagonal()
        worst = wrong.argsort(descending=True, stable=True)[: MOST_SHOWN - 1].sort().values
        place = torch.full((len(labels),), len(worst)).scatter(0, worst, torch.arange(len(worst)))
        mix = torch.nn.functional.one_hot(place).to(counts)
        others = len(labels) - len(worst)
        right = counts.diagonal().sum() - counts.diagonal()[worst].sum()
        counts = mix.T @ counts @ mix
        labels = [*(labels[i] for i in worst.tolist()), f"{others} others"]
        note = (
            f"The {len(worst)} classes with most mistakes; the other {others} are one row and "
            f"column, where {int(counts[-1, -1] - right):,} are mistakes among themselves."
        )
    share = counts.diagonal().sum().item() / max(int(counts.sum()), 1)
    if not note and accuracy is not None and abs(share - accuracy) > 1e-3:
        note = "Rows are counted once each here; the score counts them by their weights."
    return {"kind": "confusion", "labels": labels, "counts": counts.tolist(), "note": note}


def _pairs(pairs: Tensor, target: Target) -> dict[str, Any]:
    """(rows, outputs, 2) back in the units of the target."""
    scale, mean = np.array(target.scale)[:, None], np.array(target.mean)[:, None]
    values = (pairs.numpy() * scale + mean)[:, :MOST_OUTPUTS]
    outputs = [
        {
            "name": shortened(name),
            "true": _short(values[:, i, 0]),
            "predicted": _short(values[:, i, 1]),
        }
        for i, name in enumerate(target.names[:MOST_OUTPUTS])
    ]
    more = len(target.names) - len(outputs)
    note = f"{more} more outputs are not shown." if more > 0 else ""
    return {"kind": "pairs", "outputs": outputs, "note": note}


def _short(values: np.ndarray) -> list[float]:
    """Four digits beyond what the values have in common."""
    finite = np.where(np.isfinite(values), values, np.nan)
    spread = np.nanmax(finite) - np.nanmin(finite) if not np.isnan(finite).all() else 0.0
    digits = 4 - int(np.floor(np.log10(spread))) if spread > 0 else 4
    return [round(float(value), digits) for value in values]
