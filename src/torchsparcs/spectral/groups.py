"""Parameter groups for the optimizer, with a learning rate and a decay for each."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from torchsparcs.spectral.network import spectral_modules
from torchsparcs.spectral.norm import ChannelNorm


def parameter_groups(
    module: nn.Module,
    lr: float,
    *,
    eigenvalue_lr_scale: float = 30.0,
    transfer_weight_decay: float = 1.0,
) -> list[dict[str, Any]]:
    """Groups for any torch optimizer: transfers, hidden eigenvalues, output eigenvalues, the rest.

    The hidden eigenvalues (and the input's, where trained) learn ``eigenvalue_lr_scale`` times
    faster than everything else, and eigenvalues are never decayed, nor is a :class:`ChannelNorm`.
    The rest of the model, a CNN before a spectral head for instance, keeps the optimizer's own
    weight decay.

    The decay of the transfers is meant for AdamW, which keeps it apart from the gradient. With SGD
    or plain Adam use ``transfer_weight_decay=0``, and with SGD also ``eigenvalue_lr_scale=1``.

    >>> import torch
    >>> from torchsparcs import SpectralNetwork
    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), SpectralNetwork([288, 50, 10]))
    >>> groups = parameter_groups(model, lr=1e-3)
    >>> [group["name"] for group in groups]
    ['transfers', 'hidden_eigenvalues', 'output_eigenvalues', 'rest']
    >>> optimizer = torch.optim.AdamW(groups)
    """
    for name, value in (("lr", lr), ("eigenvalue_lr_scale", eigenvalue_lr_scale)):
        if not value >= 0:
            raise ValueError(f"Expected {name} >= 0. Got {value!r}.")
    networks = spectral_modules(module)
    transfers = [p for network in networks for p in network.transfer_parameters]
    hidden = [p for network in networks for p in network.penalised_eigenvalues]
    output = [network.output_eigenvalues for network in networks]
    spectral = _groups(
        ("transfers", transfers, lr, transfer_weight_decay),
        ("hidden_eigenvalues", hidden, lr * eigenvalue_lr_scale, 0.0),
        ("output_eigenvalues", output, lr, 0.0),
    )
    for group in spectral:
        if group["name"] == "hidden_eigenvalues":
            group["lr_scale"] = eigenvalue_lr_scale  # by which a lost one is noticed
    return [*spectral, *other_groups(module, lr, besides=[*transfers, *hidden, *output])]


def other_groups(
    module: nn.Module, lr: float, besides: Sequence[Tensor] = ()
) -> list[dict[str, Any]]:
    """Groups of what is not ``besides``: normalisation, which is not decayed, and the rest."""
    norms = [p for m in module.modules() if isinstance(m, ChannelNorm) for p in m.parameters()]
    known = {id(p) for p in (*besides, *norms)}
    rest = [p for p in module.parameters() if id(p) not in known]
    return _groups(("norms", norms, lr, 0.0), ("rest", rest, lr, None))


def _groups(*rows: tuple[str, Sequence[Tensor], float, float | None]) -> list[dict[str, Any]]:
    """Optimizer groups of (name, parameters, learning rate, decay); None is the optimizer's."""
    return [
        {"name": name, "params": parameters, "lr": lr}
        | ({} if decay is None else {"weight_decay": decay})
        for name, parameters, lr, decay in rows
        if parameters
    ]
