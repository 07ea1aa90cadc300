"""How the member grew that a candidate was cut from: eigenvalues, loss and recruits by epoch."""

from typing import Any

import torch
from torch import Tensor

from torchsparcs.report.picture import GROUPS, MOST_NEURONS, rounded
from torchsparcs.training.history import MOST_STOPS, History, spread

MOST_EPOCHS = 200  # of a curve
BINS = 30  # of a histogram


def growth(history: History, member: int) -> dict[str, Any]:
    """Of one member of a population's ``history``; what was not recorded is empty."""
    own = history.member(member)
    epochs = spread(own.epochs, MOST_EPOCHS)
    kept = [own.snapshots[place] for place in spread(len(own.snapshots), MOST_STOPS)]
    names = sorted(kept[0][1], key=_in_order) if kept else []
    return {
        "epochs": [epoch + 1 for epoch in epochs],
        "loss": _at(own.train_loss, epochs),
        "validation_loss": _at(own.validation_loss, epochs),
        "score": _at(own.validation_score, epochs),
        "recruited": [own.recruited[epoch] for epoch in epochs] if any(own.recruited) else [],
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
        own = [rounded(stop) for stop in values[:, ever]]
        return {**layer, "per": 1, "index": ever.tolist(), "values": own}
    per = -(-width // GROUPS)
    ranked = values.abs().sort(dim=1, descending=True).values
    recruits = zip(ranked, layer["recruited"], strict=True)
    means = [_means(stop[:count], per) for stop, count in recruits]
    return {**layer, "per": per, "index": [], "values": means}


def _means(values: Tensor, per: int) -> list[float]:
    return [rounded(part.mean().item()) for part in values.split(per) if len(part)]


def _histogram(values: Tensor) -> dict[str, Any]:
    """Of what is not zero, in bins that all stops share; the zeros are counted."""
    low, high = min(values.min().item(), 0.0), max(values.max().item(), 0.0)
    if low == high:
        low, high = -1.0, 1.0
    counts = []
    for stop in values:
        found = torch.histc(stop[stop != 0], bins=BINS, min=low, max=high)
        counts.append([int(count) for count in found])
    return {"from": low, "to": high, "counts": counts}


def _in_order(name: str) -> list[tuple[bool, int, str]]:
    """Layer 10 comes after layer 9; files do not keep the order of the tensors in them."""
    parts = name.split(".")
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def _at(values: list[float], places: list[int]) -> list[float]:
    return [rounded(values[place]) for place in places] if values else []
