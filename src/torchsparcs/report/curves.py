"""The curves of a training: losses, scores, recruits and eigenvalues."""

from typing import Any

import torch
from torch import Tensor

from torchsparcs.report.architecture import GROUPS, MOST_NEURONS, rounded
from torchsparcs.training.history import History, spread

MOST_EPOCHS = 200  # of a curve
BINS = 30  # of a histogram


def training_curves(history: History) -> dict[str, Any]:
    """Losses, scores, recruits and eigenvalues of one training; what was not recorded is empty."""
    epochs = spread(history.epochs, MOST_EPOCHS)
    kept = history.thinned().snapshots
    names = sorted(kept[0][1], key=_in_order) if kept else []
    recruited = history.recruited
    return {
        "epochs": [epoch + 1 for epoch in epochs],
        "loss": _at(history.train_loss, epochs),
        "validation_loss": _at(history.validation_loss, epochs),
        "score": _at(history.validation_score, epochs),
        "recruited": [recruited[epoch] for epoch in epochs] if any(recruited) else [],
        "stops": [epoch for epoch, _ in kept] if names else [],
        "layers": [_layer([snapshot[name] for _, snapshot in kept]) for name in names],
    }


def _layer(snapshots: list[Tensor]) -> dict[str, Any]:
    """One hidden layer: eigenvalues and their histogram at every stop.

    Of a layer with many neurons that were recruited, ``values`` are the means of |λ| of ``per``
    recruits each, from the largest; else the eigenvalues of the neurons at ``index``.
    """
    values = torch.stack([snapshot.float().nan_to_num() for snapshot in snapshots])  # (stops, N)
    ever = (values != 0).any(dim=0).nonzero().squeeze(1)
    width = values.shape[1]
    layer: dict[str, Any] = {
        "width": width,
        "recruited": values.count_nonzero(dim=1).tolist(),
        "norm": rounded(torch.linalg.vector_norm(values, dim=1)),
        "histogram": _histogram(values),
    }
    if len(ever) <= MOST_NEURONS:
        eigenvalues = [rounded(stop) for stop in values[:, ever]]
        return {**layer, "per": 1, "index": ever.tolist(), "values": eigenvalues}
    per = -(-width // GROUPS)
    ranked = values.abs().sort(dim=1, descending=True).values
    recruits = [stop[:n] for stop, n in zip(ranked, layer["recruited"], strict=True)]
    means = [[rounded(p.mean().item()) for p in stop.split(per) if len(p)] for stop in recruits]
    return {**layer, "per": per, "index": [], "values": means}


def _histogram(values: Tensor) -> dict[str, Any]:
    """Counts of what is not zero, in bins that all stops share."""
    low, high = min(values.min().item(), 0.0), max(values.max().item(), 0.0)
    if low == high:
        low, high = -1.0, 1.0
    counts = [torch.histc(stop[stop != 0], bins=BINS, min=low, max=high) for stop in values]
    return {"from": low, "to": high, "counts": [count.int().tolist() for count in counts]}


def _in_order(name: str) -> list[tuple[bool, int, str]]:
    """A key that sorts layer 10 after layer 9; files do not keep the order of their tensors."""
    parts = name.split(".")
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def _at(values: list[float], places: list[int]) -> list[float]:
    return [rounded(values[place]) for place in places] if values else []
