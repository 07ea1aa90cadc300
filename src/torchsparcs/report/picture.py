"""A network as a picture: columns of neurons, bands of connections between them.

A neuron of a compact network is as strong as ‖what comes in‖ · ‖what goes out‖, an input as
‖what goes out‖, a band as the Frobenius norm of its block. Layers with too many neurons to tell
apart are shown in groups of equal number, from the strongest to the weakest.
"""

from typing import Any

import torch
from torch import Tensor

from torchsparcs.compact.network import CompactNetwork

MOST_NEURONS = 144  # of a layer, shown one by one
GROUPS = 72  # at most, of a layer with more


def picture(network: CompactNetwork) -> dict[str, Any]:
    """Layers and bands of ``network``, as plain values."""
    sizes = (network.inputs_read, *network.widths[1:])
    incoming, outgoing = [torch.zeros(n) for n in sizes], [torch.zeros(n) for n in sizes]
    fan_in, fan_out = [torch.zeros(n) for n in sizes], [torch.zeros(n) for n in sizes]
    bands = []
    for target, source in network.connections:
        weight = network.block(target, source).weight.detach().float().cpu()
        is_there = weight != 0
        incoming[target] += weight.square().sum(dim=1)
        outgoing[source] += weight.square().sum(dim=0)
        fan_in[target] += is_there.sum(dim=1)
        fan_out[source] += is_there.sum(dim=0)
        strength = torch.linalg.vector_norm(weight).item()
        bands.append([source, target, rounded(strength), int(is_there.sum())])
    last = len(sizes) - 1
    layers = []
    for layer, width in enumerate(network.widths):
        strength = outgoing[layer].sqrt() if layer < last else torch.ones(width)
        strength = strength * incoming[layer].sqrt() if 0 < layer < last else strength
        index = torch.tensor(network.reads) if layer == 0 and network.reads else None
        layers.append(layer_of(width, strength, index, fan_in[layer], fan_out[layer]))
    return {"layers": layers, "bands": bands}


def layer_of(
    width: int,
    strength: Tensor,
    index: Tensor | None,
    fan_in: Tensor,
    fan_out: Tensor,
) -> dict[str, Any]:
    """One column: ``width`` places, of which those at ``index`` (n,) are at work.

    Where they are too many, ``size``, ``fan_in`` and ``fan_out`` are means of ``per`` neurons each.
    """
    there = torch.arange(len(strength)) if index is None else index
    columns = {"size": strength, "fan_in": fan_in, "fan_out": fan_out}
    if len(there) <= MOST_NEURONS:
        values = {name: rounded(column) for name, column in columns.items()}
        return {"width": width, "alive": len(there), "per": 1, "index": there.tolist(), **values}
    per = -(-len(there) // GROUPS)
    order = torch.argsort(strength, descending=True, stable=True)
    grouped = {
        name: [rounded(part.mean().item()) for part in column.float()[order].split(per)]
        for name, column in columns.items()
    }
    return {"width": width, "alive": len(there), "per": per, **grouped}


def rounded(values: Any) -> Any:
    """To four significant digits, whole where they are: what a picture can show."""
    if isinstance(values, Tensor):
        return [rounded(value) for value in values.tolist()]
    short = float(f"{values:.4g}")
    return int(short) if short.is_integer() else short
