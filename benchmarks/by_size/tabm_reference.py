"""TabM (Gorishniy, Kotelnikov, Babenko 2025), by its authors' package `tabm`: of any size.

32 MLPs that share weights, with the package's defaults for the network, learning rate and decay.
Whether columns are embedded piecewise linearly, and for how many epochs to train, is chosen on the
folds, which train side by side; then it is trained for as long on all training rows.
"""

import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from by_size.preparing import Split, folds, judged, point


class Settings(NamedTuple):
    embeddings: tuple[int, ...] = (0, 16)  # numbers for a column; 0: the column itself
    bins: int = 48
    rate: float = 2e-3
    decay: float = 3e-4
    batch: int = 256
    epochs: int = 100  # at most
    patience: int = 12
    network: tuple[tuple[str, int], ...] = ()  # in place of the package's defaults


def edges(column: Tensor, bins: int) -> Tensor:
    """Of the bins of a column (rows, 1); a constant one has one bin."""
    from rtdl_num_embeddings import compute_bins

    if (column == column[0]).all():
        return torch.stack([column[0, 0], column[0, 0] + 1])
    return compute_bins(column, bins)[0]


def made(split: Split, x: Tensor, embedding: int, settings: Settings) -> torch.nn.Module:
    """An untrained network, whose embeddings fit the rows ``x``."""
    from rtdl_num_embeddings import PiecewiseLinearEmbeddings
    from tabm import TabM

    embedded = None
    if embedding:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* just two bin edges")  # columns of two values
            most = min(settings.bins, len(x) - 1)
            bins = [edges(column, most) for column in x.cpu().split(1, 1)]
            embedded = PiecewiseLinearEmbeddings(bins, embedding, activation=False, version="B")
    options: dict[str, Any] = dict(settings.network)
    made = TabM.make(
        n_num_features=x.shape[1], d_out=split.classes or 1, num_embeddings=embedded, **options
    )
    return made.to(split.device)


def epochs(
    split: Split, rows: NDArray, embedding: int, settings: Settings
) -> Iterator[torch.nn.Module]:
    """The network after each epoch on these rows; each of its 32 has a loss of its own."""
    x = torch.from_numpy(split.x[rows].astype(np.float32)).to(split.device)
    y = torch.from_numpy(split.y[rows] if split.classes else split.y[rows].astype(np.float32))
    y = y.to(split.device)
    network = made(split, x, embedding, settings)
    descent = torch.optim.AdamW(
        network.parameters(), lr=settings.rate, weight_decay=settings.decay, foreach=True
    )
    while True:
        network.train()
        for batch in torch.randperm(len(x)).to(split.device).split(settings.batch):
            outputs = network(x[batch]).flatten(0, 1)  # (batch · members, outputs)
            target = y[batch].repeat_interleave(network.k)
            if split.classes:
                loss = F.cross_entropy(outputs, target)
            else:
                loss = F.mse_loss(outputs[:, 0], target)
            descent.zero_grad()
            loss.backward()
            descent.step()
        yield network.eval()


@torch.no_grad()
def outputs_of(network: torch.nn.Module, split: Split, x: NDArray) -> NDArray:
    """Values, or logarithms of probabilities, of the members' mean; one of two classes."""
    parts = torch.from_numpy(x.astype(np.float32)).to(split.device).split(2_000)
    members = torch.cat([network(part) for part in parts])  # (rows, members, outputs)
    if not split.classes:
        return members.mean(1).cpu().numpy()
    logs = members.double().log_softmax(-1).logsumexp(1)
    return (logs[:, 1:] - logs[:, :1] if split.classes == 2 else logs).cpu().numpy()


def tabm(split: Split, settings: Settings = Settings()) -> dict:  # noqa: B008
    """The better of both on the folds, trained on all training rows."""
    torch.manual_seed(split.seed)
    inner, tuned = folds(split), []
    for embedding in settings.embeddings:
        runs = [epochs(split, fit, embedding, settings) for fit, _ in inner]
        best, until = (-np.inf, -np.inf), 0
        for epoch, networks in enumerate(islice(zip(*runs, strict=True), settings.epochs), 1):
            score, loss = np.mean(
                [
                    judged(outputs_of(network, split, split.x[held]), split.y[held], split.classes)
                    for network, (_, held) in zip(networks, inner, strict=True)
                ],
                0,
            )
            if (score, -loss) > best:
                best, until = (float(score), -float(loss)), epoch
            if epoch - until == settings.patience:
                break
        tuned.append((best, until, embedding))
    (validation, _), until, embedding = max(tuned)
    everything = epochs(split, np.arange(len(split.y)), embedding, settings)
    network = next(islice(everything, until - 1, None))
    test = judged(outputs_of(network, split, split.x_test), split.y_test, split.classes)
    name = f"{until} epochs, {'embedded' if embedding else 'plain'} columns"
    size = sum(parameter.numel() for parameter in network.parameters())
    return {"points": [point(size, name, validation, test)], "device": split.device}
