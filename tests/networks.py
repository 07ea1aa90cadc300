"""Networks for tests: random parameters, some neurons switched off."""

import torch

from torchsparcs import SpectralNetwork


def randomised(network: SpectralNetwork, seed: int, dead: float = 0.0) -> SpectralNetwork:
    """Every trainable parameter drawn anew; a share ``dead`` of hidden eigenvalues exactly 0."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            fan_in = parameter.shape[-1] if parameter.dim() > 1 else 1
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(noise / fan_in**0.5)
        for eigenvalues in network.hidden_eigenvalues:
            keep = torch.rand(eigenvalues.shape, generator=generator) >= dead
            eigenvalues.mul_(keep)
    return network
