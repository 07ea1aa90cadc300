"""The slow reference: Φ, Λ and inv(Φ) formed whole, then both update rules as the paper says them.

Shares no code with ``torchsparcs.spectral.equations``.
"""

import math

import torch
from torch import Tensor

from torchsparcs import SpectralNetwork


def sizes(network: SpectralNetwork) -> list[int]:
    """Widths with the bias neuron counted."""
    return [network.widths[0] + network.bias, *network.widths[1:]]


def eigenvector_matrix(network: SpectralNetwork) -> Tensor:
    widths = sizes(network)
    rows = []
    for i, n_i in enumerate(widths):
        row = [network.output_eigenvalues.new_zeros(n_i, n_j) for n_j in widths]
        row[i] = torch.eye(n_i, dtype=network.output_eigenvalues.dtype)
        if i > 0:
            row[i - 1] = network.transfers[i - 1]
        rows.append(torch.cat(row, dim=1))
    return torch.cat(rows, dim=0)


def inverse_by_binomial(phi: Tensor, layers: int) -> Tensor:
    """Φ⁻¹ = Σ_{i=0}^{B} (−1)ⁱ C(B+1, i+1) Φⁱ  (the paper's eq. formula_inverse), B + 1 layers."""
    powers = [torch.linalg.matrix_power(phi, i) for i in range(layers)]
    return sum((-1) ** i * math.comb(layers, i + 1) * power for i, power in enumerate(powers))


def adjacency(network: SpectralNetwork) -> Tensor:
    phi = eigenvector_matrix(network)
    return phi @ torch.diag(torch.cat(network.eigenvalues)) @ torch.linalg.inv(phi)


def forward(network: SpectralNetwork, x: Tensor) -> Tensor:
    if network.bias:
        x = torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)
    return {"feedforward": feedforward, "iterated": iterated}[network.update](network, x)


def feedforward(network: SpectralNetwork, x: Tensor) -> Tensor:
    widths = sizes(network)
    a, activities = adjacency(network), [x]
    for i in range(1, len(widths)):
        start = sum(widths[:i])
        rows = a[start : start + widths[i], :start]
        pre = torch.cat(activities, dim=-1) @ rows.T
        activities.append(network.activation(pre))
    return pre


def iterated(network: SpectralNetwork, x: Tensor) -> Tensor:
    widths = sizes(network)
    a = adjacency(network)
    rest = x.new_zeros(*x.shape[:-1], sum(widths[1:]))
    state = a_state = torch.cat([x, rest], dim=-1)
    for _ in range(len(widths) - 1):
        state = a_state @ a.T
        a_state = network.activation(state)
    return state[..., -widths[-1] :]
