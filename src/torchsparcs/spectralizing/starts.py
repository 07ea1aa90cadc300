"""Initial spectral parameters that compute what Linears did, up to rounding."""

from itertools import pairwise

import torch

from torchsparcs.spectral.activations import odd_slope
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.spectralizing.stacks import Stack


@torch.no_grad()
def start_from_(network: SpectralNetwork, stack: Stack, name: str) -> None:
    """Give ``network`` the function of ``stack``, or raise a ValueError that says what it lacks.

    ``network`` is fresh, and has the inputs, outputs, bias and activation of ``stack``.
    """
    if network.output_eigenvalues.is_meta:
        raise ValueError(f"Expected weights to keep at {name!r}. Got none on meta.")
    if not all(torch.isfinite(p).all() for linear in stack.layers for p in linear.parameters()):
        raise ValueError(f"Expected finite weights to keep at {name!r}. Got NaN or infinite ones.")
    if len(stack.layers) == 1:
        _start_as_perceptron_(network, stack, name)
    else:
        _start_as_stack_(network, stack, name)


def _start_as_perceptron_(network: SpectralNetwork, stack: Stack, name: str) -> None:
    """Set transfers with W = (−1)ᴮ φ_{B−1} ··· φ_0, hidden eigenvalues zero, the output's one.

    With W = U S Vᵀ of rank r, bias column included, and orthonormal Q_k (N_k, r), Q_0 = V,

        φ_k = Q_{k+1} S^{1/B} Q_kᵀ + (I − Q_{k+1} Q_{k+1}ᵀ) X_k,   k < B − 1,
        φ_{B−1} = (−1)ᴮ U S^{1/B} Q_{B−1}ᵀ.

    X_k is as it was drawn: neurons still read the input in all directions, and what they say
    beside Q_{k+1} is not heard. Where f(0) is not zero, each Q_k is orthogonal to (1, .., 1).
    """
    ((weight, bias),) = stack.affine_maps()
    whole = torch.cat([weight, bias[:, None]], dim=1) if network.bias else weight
    rank = int(torch.linalg.matrix_rank(whole))
    u, s, vh = (part.contiguous() for part in torch.linalg.svd(whole, full_matrices=False))
    bases = [vh[:rank].T]
    for width in network.widths[1:-1]:
        constant = bool(network.activation(network.transfers[0].new_zeros(1, width)).any())
        if width < rank + constant:
            raise ValueError(
                f"Expected hidden widths of at least {rank + constant}, to keep the weights of "
                f"{name!r}. Got {list(network.widths[1:-1])}."
            )
        drawn = torch.randn(width, rank + constant, dtype=torch.float64)
        drawn[:, :constant] = 1
        bases.append(torch.linalg.qr(drawn)[0][:, constant:])
    depth = len(network.transfers)
    root = s[:rank] ** (1 / depth)
    for (source, basis), transfer in zip(pairwise(bases), network.transfers, strict=False):
        drawn = transfer.detach().cpu().double()
        transfer.copy_(drawn + basis @ (root[:, None] * source.T - basis.T @ drawn))
    network.transfers[-1].copy_((-1) ** depth * (u[:, :rank] * root) @ bases[-1].T)


def _start_as_stack_(network: SpectralNetwork, stack: Stack, name: str) -> None:
    """Recruit all neurons of the stack: L_k = −k/κ in hidden layer k, where f(h) − f(−h) = κh.

    Then pre_k = φ_{k−1} z_{k−1} / κ and z_k = f(pre_k) − κ pre_k = f(−pre_k), so that with

        φ_{k−1} = −κ W_k,   φ_{B−1} = −W_B / (1 + (B−1)/κ)

    z_k is what layer k of the stack says. The biases of its later layers come from a constant
    neuron in each hidden layer, told u = −1 by the one below; in the last its eigenvalue is zero.
    Neurons to spare have eigenvalue zero, hear at random and are not heard.
    """
    kappa = _odd_slope(network, name)
    maps = stack.affine_maps()
    depth, constant = len(maps), stack.needs_constant
    _check_widths(network, [width + constant for width in stack.widths[1:-1]], constant, name)
    level, says = 0.0, 1.0  # eigenvalue and z of the constant neuron below, at first the bias
    for k, (weight, bias) in enumerate(maps):
        rows, columns = weight.shape
        is_last = k + 1 == depth
        transfer = network.transfers[k].detach().cpu().double()
        transfer[: rows + (constant and not is_last)] = 0
        transfer[:rows, :columns] = -weight / (1 + k / kappa) if is_last else -kappa * weight
        place = columns if k > 0 else -1  # of the constant below
        if constant or (k == 0 and network.bias):
            transfer[:rows, place] = (-1 if is_last else -kappa) * bias / says
        if not is_last:
            eigenvalues = torch.zeros(len(transfer), dtype=torch.float64)
            eigenvalues[:rows] = -(k + 1) / kappa
            if constant:
                transfer[rows, place] = -1 / says
                eigenvalues[rows] = 0.0 if k + 2 == depth else -(k + 1) / kappa
                pre = (eigenvalues[rows] - level).view(1, 1)
                level, says = float(eigenvalues[rows]), float(network.activation(pre)) + 1
            network.hidden_eigenvalues[k].copy_(eigenvalues)
        network.transfers[k].copy_(transfer)


def _check_widths(network: SpectralNetwork, least: list[int], constant: bool, name: str) -> None:
    hidden = list(network.widths[1:-1])
    if len(hidden) != len(least) or any(n < m for n, m in zip(hidden, least, strict=True)):
        reason = " and one constant for the later biases" if constant else ""
        raise ValueError(
            f"Expected hidden widths of at least {least}, all neurons of {name!r}{reason}, to keep "
            f"its weights. Got {hidden}."
        )


def _odd_slope(network: SpectralNetwork, name: str) -> float:
    """κ > 0 with f(h) − f(−h) = κh, or a ValueError."""
    kappa = odd_slope(network.activation)
    if kappa is None:
        raise ValueError(
            "Expected an activation with f(h) − f(−h) = κh, such as relu, gelu or silu, to keep "
            f"the weights of {name!r}. Got {network.activation_name}."
        )
    return kappa
