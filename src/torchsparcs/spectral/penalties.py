"""Penalties on the eigenvalues: their value for a loss, and their proximal step.

The penalised eigenvalues are those of the hidden layers, and those of the input layer where they
are trained; never those of the output layer.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from torchsparcs.spectral.network import SpectralModule, spectral_modules
from torchsparcs.spectral.sharing import whole
from torchsparcs.spectral.step_sizes import threshold_of


class Penalty(NamedTuple):
    """One row of :data:`PENALTIES`; both functions take one layer's eigenvalues, (..., N).

    ``value`` is Ω, (...). ``shrink(eigenvalues, threshold)`` is the proximal map in the metric of
    the step, argmin_λ Σ (λᵢ − eigenvaluesᵢ)² / 2 thresholdᵢ + Ω(λ), (..., N).
    """

    value: Callable[[Tensor], Tensor]
    shrink: Callable[[Tensor, Tensor], Tensor]


def _soft_threshold(eigenvalues: Tensor, threshold: Tensor) -> Tensor:
    return eigenvalues.sign() * (eigenvalues.abs() - threshold).clamp_min(0)


def _group_shrink(eigenvalues: Tensor, threshold: Tensor) -> Tensor:
    """λᵢ = yᵢ r / (r + tᵢ) with r = ‖λ‖, the root of h(r) = ‖y / (r + t)‖ = 1, or 0 if h(0) < 1.

    Newton's method on 1/h, which is a straight line where the thresholds are equal (then one step
    is exact), starting left of the root.
    """
    eigenvalues, dtype = eigenvalues.double(), eigenvalues.dtype
    threshold, tiny = threshold.double(), torch.finfo(torch.float64).tiny
    norm = torch.linalg.vector_norm(eigenvalues, dim=-1, keepdim=True)
    radius = (norm - threshold.amax(dim=-1, keepdim=True)).clamp_min(0)
    for _ in range(6):
        ratio = eigenvalues / (radius + threshold).clamp_min(tiny)
        h = torch.linalg.vector_norm(ratio, dim=-1, keepdim=True)
        slope = (ratio.square() / (radius + threshold).clamp_min(tiny)).sum(dim=-1, keepdim=True)
        radius = (radius + (h - 1) * h.square() / slope.clamp_min(tiny)).clamp_min(0)
    return (eigenvalues * radius / (radius + threshold).clamp_min(tiny)).to(dtype)


def _l1(eigenvalues: Tensor) -> Tensor:
    return eigenvalues.abs().sum(dim=-1)


def _l2(eigenvalues: Tensor) -> Tensor:
    return torch.linalg.vector_norm(eigenvalues, dim=-1)


PENALTIES: dict[str, Penalty] = {
    "l1": Penalty(value=_l1, shrink=_soft_threshold),
    "l2": Penalty(value=_l2, shrink=_group_shrink),
    "l2_squared": Penalty(
        value=lambda eigenvalues: eigenvalues.square().sum(dim=-1),
        shrink=lambda eigenvalues, threshold: eigenvalues / (1 + 2 * threshold),
    ),
    "sparse_group": Penalty(
        value=lambda eigenvalues: _l1(eigenvalues) + _l2(eigenvalues),
        shrink=lambda eigenvalues, threshold: _group_shrink(
            _soft_threshold(eigenvalues, threshold), threshold
        ),
    ),
}


def eigenvalue_penalty(
    module: nn.Module, kind: str = "l1", *, layer_scales: Sequence[float] | None = None
) -> Tensor:
    """Ω summed over every layer of every spectral network inside ``module``.

    A scalar; for a population one number for each member. ``layer_scales``: factors on Ω of each
    penalised layer, from the input on.

    >>> from torchsparcs import SpectralNetwork
    >>> network = SpectralNetwork([2, 2, 1])
    >>> _ = network.hidden_eigenvalues[0].data.copy_(torch.tensor([3.0, -4.0]))
    >>> eigenvalue_penalty(network, "l1").item(), eigenvalue_penalty(network, "l2").item()
    (7.0, 5.0)
    """
    value, networks = _penalty(kind).value, spectral_modules(module)
    total = networks[0].output_eigenvalues.new_zeros(())  # made there: a captured step may not copy
    for network in networks:
        total = total.to(network.output_eigenvalues)
        for eigenvalues, scale in _scaled_layers(network, layer_scales):
            total = total + scale * value(whole(eigenvalues))
    return total


@torch.no_grad()
def shrink_eigenvalues_(
    module: nn.Module,
    optimizer: Optimizer,
    weight: float | Tensor,
    kind: str = "l1",
    *,
    layer_scales: Sequence[float] | None = None,
) -> None:
    """The proximal step for ``weight`` · Ω, to be taken right after ``optimizer.step()``.

    ``weight`` is a number, or for a population a tensor with one for each member; ``layer_scales``
    are factors on it for each penalised layer, from the input on.

    With η the eigenvalues' own learning rate the threshold is η·weight for SGD and
    η·weight / (√v̂ + ε) for Adam and AdamW, the length of the step that Adam itself would take; so
    it is for RAdam, NAdam, RMSprop, Adagrad and Lion. :func:`attach_penalty` has it taken by
    itself. Eigenvalues become exactly zero, and come back when the data ask for them. It replaces
    adding :func:`eigenvalue_penalty` to the loss.
    """
    shrink = _penalty(kind).shrink
    weight = _checked_weight(weight)
    _warn_of_coupled_decay(optimizer)
    _warn_of_flat_rates(optimizer)
    for network in spectral_modules(module):
        for eigenvalues, scale in _scaled_layers(network, layer_scales):
            if not eigenvalues.requires_grad:
                continue
            threshold = threshold_of(eigenvalues, optimizer, weight, scale)
            if threshold is not None:
                eigenvalues.copy_(shrink(eigenvalues, threshold))


def attach_penalty(
    module: nn.Module,
    optimizer: Optimizer,
    weight: float | Callable[[], float],
    kind: str = "l1",
    *,
    layer_scales: Sequence[float] | None = None,
) -> RemovableHandle:
    """Have ``optimizer`` take the proximal step after each of its own, whoever calls it.

    So it belongs to trainers of others as well: it is taken on real steps only, once for several
    batches of accumulated gradients, and not where a gradient scaler skips a step.

    >>> from torchsparcs import SpectralNetwork, parameter_groups
    >>> network = SpectralNetwork([3, 8, 1])
    >>> optimizer = torch.optim.AdamW(parameter_groups(network, lr=1e-2))
    >>> handle = attach_penalty(network, optimizer, 1e-3)
    >>> handle.remove()  # to end it

    Args:
        weight: the paper's ρ, or a function that gives it, for one that changes.
        kind, layer_scales: as for :func:`shrink_eigenvalues_`, which is what is called.
    """
    spectral_modules(module)
    _penalty(kind)
    inner: Any = optimizer
    while not isinstance(inner, Optimizer) or hasattr(inner, "optimizer"):  # of a trainer
        if not hasattr(inner, "optimizer"):
            raise ValueError(f"Expected an optimizer of torch. Got {type(optimizer).__name__}.")
        inner = inner.optimizer
    _checked_weight(weight() if callable(weight) else weight)

    def shrink(stepped: Optimizer, *_: Any) -> None:
        infinite = getattr(stepped, "found_inf", None)  # a fused one skips its step in the kernel
        if infinite is not None and infinite.item():
            return
        now = weight() if callable(weight) else weight
        shrink_eigenvalues_(module, stepped, now, kind, layer_scales=layer_scales)

    return inner.register_step_post_hook(shrink)


def _scaled_layers(
    network: SpectralModule, scales: Sequence[float] | None
) -> list[tuple[Tensor, float]]:
    """The penalised eigenvalues of each layer with the factor on their penalty."""
    layers = network.penalised_eigenvalues
    if scales is None:
        return [(eigenvalues, 1.0) for eigenvalues in layers]
    if len(scales) != len(layers):
        raise ValueError(
            f"Expected a factor for each of {len(layers)} penalised layers. Got {len(scales)}."
        )
    return list(zip(layers, scales, strict=True))


def _checked_weight(weight: float | Tensor) -> float | Tensor:
    if isinstance(weight, Tensor):
        if weight.device.type == "cpu" and not (weight >= 0).all():
            raise ValueError(f"Expected penalty weights >= 0. Got {weight.tolist()}.")
        return weight.unsqueeze(-1) if weight.dim() == 1 else weight
    if not (math.isfinite(weight) and weight >= 0):
        raise ValueError(f"Expected a penalty weight >= 0. Got {weight!r}.")
    return weight


def _warn_of_coupled_decay(optimizer: Optimizer) -> None:
    """Warn of a decay meant for AdamW that is added to the gradient and pulls transfers to zero."""
    for group in optimizer.param_groups:
        decoupled = isinstance(optimizer, torch.optim.AdamW) or group.get("decoupled_weight_decay")
        if group.get("name") == "transfers" and group["weight_decay"] >= 0.1 and not decoupled:
            warnings.warn(
                f"{type(optimizer).__name__} adds a weight decay of {group['weight_decay']} to the "
                "gradients of the transfers, where parameter_groups means the decoupled decay of "
                "AdamW. Use AdamW, or parameter_groups(..., transfer_weight_decay=0).",
                stacklevel=4,
            )


def _warn_of_flat_rates(optimizer: Optimizer) -> None:
    """Warn of a schedule that gave the eigenvalues the learning rate of the transfers."""
    groups = {group.get("name"): group for group in optimizer.param_groups}
    hidden, transfers = groups.get("hidden_eigenvalues"), groups.get("transfers")
    if hidden is None or transfers is None or hidden.get("lr_scale", 1.0) == 1:
        return
    if isinstance(hidden["lr"], float) and 0 < hidden["lr"] == transfers["lr"]:
        warnings.warn(
            f"Eigenvalues learn as fast as the transfers, where parameter_groups meant "
            f"{hidden['lr_scale']:g} times faster: OneCycleLR(max_lr=...) and the like set all "
            "groups alike. Give one number for each group, max_lr=[group['lr'] for group in "
            "optimizer.param_groups], or ask for eigenvalue_lr_scale=1.",
            stacklevel=4,
        )


def _penalty(kind: str) -> Penalty:
    if kind not in PENALTIES:
        raise ValueError(f"Expected a penalty among {', '.join(PENALTIES)}. Got {kind!r}.")
    return PENALTIES[kind]
