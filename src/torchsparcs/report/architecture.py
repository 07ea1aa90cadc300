"""A compact network as layers of neurons or channels, and bands of connections between them.

A neuron is as strong as ‖what comes in‖ · ‖what goes out‖, an input as ‖what goes out‖, a band as
the Frobenius norm of its block. Layers with too many neurons to tell apart are shown in groups of
equal number, from the strongest to the weakest.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.spectral.linear_maps import channel_weights

MOST_NEURONS = 144  # of a layer, shown one by one
MOST_EDGES = 90  # of a network whose connections are drawn one by one
GROUPS = 72  # at most, of a layer with more


def architecture(network: CompactNetwork | CompactChain) -> dict[str, Any]:
    """Layers and bands of ``network``, as plain values.

    Of a chain each layer has its map: the kind of the module that gives it, kernel and stride.
    """
    chain = network if isinstance(network, CompactChain) else None
    widths = network.widths if isinstance(network, CompactNetwork) else network.channels
    reads = network.reads if isinstance(network, CompactNetwork) else None
    sizes = (widths[0] if reads is None else len(reads), *widths[1:])
    incoming, outgoing, fan_in, fan_out = ([torch.zeros(n) for n in sizes] for _ in range(4))
    bands = []
    for target, source, weight in _blocks(network):
        norms = torch.linalg.vector_norm(weight, dim=2)
        incoming[target] += norms.square().sum(dim=1)
        outgoing[source] += norms.square().sum(dim=0)
        fan_in[target] += (norms != 0).sum(dim=1)
        fan_out[source] += (norms != 0).sum(dim=0)
        strength = torch.linalg.vector_norm(weight).item()
        bands.append([source, target, rounded(strength), int(weight.count_nonzero())])
    layers, last = [], len(sizes) - 1
    for depth, width in enumerate(widths):
        strength = outgoing[depth].sqrt() if depth < last else torch.ones(width)
        strength = strength * incoming[depth].sqrt() if 0 < depth < last else strength
        columns = {"size": strength, "fan_in": fan_in[depth], "fan_out": fan_out[depth]}
        index = list(range(width)) if reads is None or depth else list(reads)
        active = chain.active[depth - 1] if chain and 0 < depth < last else None
        layer = {"width": width, "alive": len(index), **_nodes(columns, index, active)}
        layers.append({**layer, "map": _map(chain.layers[depth - 1])} if chain and depth else layer)
    is_small = chain is None and sum(band[3] for band in bands) <= MOST_EDGES
    return {"layers": layers, "bands": bands, "edges": _edges(network) if is_small else None}


def _edges(network: CompactNetwork | CompactChain) -> list[list[float]]:
    """Source layer and place, target layer and place, and weight of every connection."""
    return [
        [source, column, target, row, rounded(weight[row, column].item())]
        for target, source, weight in _blocks(network)
        for row, column in weight.squeeze(2).nonzero().tolist()
    ]


def _blocks(network: CompactNetwork | CompactChain) -> Iterator[tuple[int, int, Tensor]]:
    """Target layer, source layer and weights (out, in, positions) of every connection."""
    if isinstance(network, CompactChain):
        for depth, layer in enumerate(network.layers):
            yield depth + 1, depth, channel_weights(layer).float().cpu().unsqueeze(2).flatten(2)
        return
    for target, source in network.connections:
        weight = network.block(target, source).weight.detach().float().cpu()
        yield target, source, weight.unsqueeze(2)


def _nodes(columns: dict[str, Tensor], index: list[int], active: int | None) -> dict[str, Any]:
    """What is drawn of a layer: one by one the neurons at ``index``, or means of groups of them.

    Of a chain the first ``active`` pass the activation; the node ``linear_from`` and those after it
    do not.
    """
    if len(index) <= MOST_NEURONS:
        values = {name: rounded(column) for name, column in columns.items()}
        return {"per": 1, "index": index, "linear_from": active, **values}
    per = -(-len(index) // GROUPS)
    border = len(index) if active is None else active
    kinds = [part for part in torch.arange(len(index)).tensor_split([border]) if len(part)]
    ranked = [kind[columns["size"][kind].argsort(descending=True, stable=True)] for kind in kinds]
    groups = [group for kind in ranked for group in kind.split(per)]
    means = {
        name: [rounded(column[group].mean().item()) for group in groups]
        for name, column in columns.items()
    }
    counts = [len(group) for group in groups]
    linear_from = None if active is None else -(-active // per)
    return {"per": per, "count": counts, "linear_from": linear_from, **means}


def _map(layer: nn.Module) -> dict[str, str]:
    sides = {name: getattr(layer, name, ()) for name in ("kernel_size", "stride")}
    texts = {name: " × ".join(map(str, sizes)) for name, sizes in sides.items()}
    return {"kind": type(layer).__name__, **texts}


def rounded(values: Any) -> Any:
    """To four significant digits, whole where they are: what a picture can show."""
    if isinstance(values, Tensor):
        return [rounded(value) for value in values.tolist()]
    if values is None:
        return None
    short = float(f"{values:.4g}")
    return int(short) if short.is_integer() else short
