"""How relevant each input is, by trained input eigenvalues.

After "Automatic input feature relevance via spectral neural networks" (arXiv 2406.01183): in a
first layer w_ij = λ_j φ_ij whose eigenvectors φ stay as they were drawn, |λ_j| is all that the
network learns about input j itself.
"""

import math

import torch
from torch import Tensor, nn

from torchsparcs.spectral.linear import SpectralLinear
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.tasks import resolve_task
from torchsparcs.training.train import train

HIDDEN = 64
STEPS = 600  # about, of the training
BATCH = 128
WEIGHT = 3e-3  # of Σ|λ_j| in the loss
LR = 1e-2


def input_eigenvalues(
    inputs: Tensor, targets: Tensor, task: str, outputs: int, seed: int
) -> Tensor:
    """|λ| of each input after a training on these rows, (I,), the largest of them one.

    A layer of random eigenvectors behind the eigenvalues, ReLU and a linear map to the outputs; the
    eigenvalues start at one, and Σ|λ| in the loss takes those down that nothing holds.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first = SpectralLinear(inputs.shape[1], HIDDEN, train="eigenvalues")
        nn.init.ones_(first.input_eigenvalues)
        nn.init.zeros_(first.output_eigenvalues).requires_grad_(False)
        network = nn.Sequential(first, nn.ReLU(), nn.Linear(HIDDEN, outputs))
    own = resolve_task(task).loss

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return own(output, target) + WEIGHT * first.input_eigenvalues.abs().sum()

    steps = math.ceil(len(inputs) / BATCH)
    config = TrainConfig(
        task=loss,
        epochs=max(1, STEPS // steps),
        batch_size=BATCH,
        lr=LR,
        seed=seed,
        snapshot_every=STEPS,
    )
    train(network, (inputs, targets), config, progress=False)
    sizes = first.input_eigenvalues.detach().abs()
    return sizes / sizes.max().clamp_min(torch.finfo(sizes.dtype).tiny)
