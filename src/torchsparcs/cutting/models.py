"""Compact networks inside a model, cut together, what is cheapest to the loss first.

The price of a neuron is what its removal costs at the output of its network: an error e there costs
Σ_o F_o E[e_o²], up to a common factor. F_o is the squared gradient of the loss at output o, summed
over the places of a row (the Fisher information). The price of a channel of a chain comes from the
same gradients. So prices of different networks compare.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.cutting.channels import ChannelCutting
from torchsparcs.cutting.neurons import NeuronCutting
from torchsparcs.cutting.removal import cut_to_budget
from torchsparcs.training.data import Pair
from torchsparcs.training.nests import called, rows_of
from torchsparcs.training.tasks import LossFunction, Task, resolve_task, restored_mode

RIDGE = 1e-2  # of each source's mean square; with less, weights get too large to train on
SEEN = 20_000  # places, about, whose signals are kept

Compact = CompactNetwork | CompactChain


def compact_networks(model: nn.Module) -> dict[str, Compact]:
    """The compact networks inside ``model`` that are not frozen, by name."""
    return {
        name: part
        for name, part in model.named_modules()
        if isinstance(part, Compact) and any(p.requires_grad for p in part.parameters())
    }


def size_of(model: nn.Module) -> int:
    """Parameters of these networks."""
    return sum(network.parameter_count for network in compact_networks(model).values())


def cut_model(
    model: nn.Module, rows: Sequence[Pair], task: str | LossFunction, parameters: int
) -> nn.Module:
    """A copy whose compact networks have at most so many parameters, or as few as there can be.

    ``rows`` are those to look at, in batches.
    """
    networks, seen = compact_networks(model), measured(model, rows, task)
    cut_to_budget([one.cutting for one in seen.values()], parameters)
    memo: dict[int, Any] = {
        id(network): seen[name].left().train(network.training) for name, network in networks.items()
    }
    # a deep copy that finds the networks already copied copies all the rest
    return copy.deepcopy(model, memo)


class AtPlaces:
    """What arrived at a dense network at some places of ``rows`` rows, and what its outputs meant.

    Shape:
        - inputs (places, N₀), fisher (outputs,): F
    """

    def __init__(self, network: CompactNetwork, rows: int):
        self.network, self.rows, self.generator = network, rows, torch.Generator().manual_seed(0)
        self.parts: list[Tensor] = []
        self.fisher = torch.zeros(())

    @property
    def inputs(self) -> Tensor:
        return torch.cat(self.parts)

    def add(self, arrived: Tensor, gradient: Tensor, share: float) -> None:
        """Take in a call with so large a share of the rows."""
        places = arrived.double().reshape(-1, arrived.shape[-1])
        some = torch.randperm(len(places), generator=self.generator)[: int(SEEN * share) + 1]
        self.parts.append(places[some.to(places.device)])
        squares = gradient.double().reshape(-1, gradient.shape[-1]).square()
        self.fisher = self.fisher.to(squares) + squares.sum(dim=0) / self.rows

    def count_alike(self) -> None:
        self.fisher = torch.ones_like(self.fisher)

    @cached_property
    def cutting(self) -> NeuronCutting:
        direct = self.network.to_direct()
        return NeuronCutting(direct, self.inputs, fisher=self.fisher, ridge=RIDGE)

    def left(self) -> CompactNetwork:
        """The network after the cutting."""
        maximal, dtype = self.network.maximal, next(self.network.parameters()).dtype
        return CompactNetwork.from_direct(self.cutting.result(), maximal=maximal, dtype=dtype)


class AtRows:
    """What arrived at a chain, call by call, and the gradients of the loss at what it gave."""

    def __init__(self, network: CompactChain, rows: int):
        self.network, self.rows, self.parts = network, rows, list[Pair]()

    @property
    def fisher(self) -> Tensor:
        return torch.stack([gradient.square().sum() for _, gradient in self.parts]) / self.rows

    def add(self, arrived: Tensor, gradient: Tensor, share: float) -> None:
        self.parts.append((arrived, gradient))

    def count_alike(self) -> None:
        self.parts = [(arrived, torch.ones_like(gradient)) for arrived, gradient in self.parts]

    @cached_property
    def cutting(self) -> ChannelCutting:
        """The cutting, priced for each row of the model, of which the chain may see several."""
        calls = math.sqrt(sum(len(arrived) for arrived, _ in self.parts) / self.rows)
        parts = [(arrived, calls * gradient) for arrived, gradient in self.parts]
        return ChannelCutting(self.network, parts, _linearised)

    def left(self) -> CompactChain:
        """The chain after the cutting."""
        return self.cutting.result()


def _linearised(output: Tensor, gradient: Tensor) -> Tensor:
    """A loss that has this gradient, for each row."""
    return (output * gradient).sum() / len(output)


@torch.enable_grad()
def measured(
    model: nn.Module, rows: Sequence[Pair], task: str | LossFunction
) -> dict[str, AtPlaces | AtRows]:
    """What ``rows``, in batches, tell of each compact network of ``model``."""
    networks, resolved = compact_networks(model), resolve_task(task)
    generator, count = torch.Generator().manual_seed(0), sum(rows_of(x) for x, _ in rows)
    seen = {
        name: AtRows(network, count)
        if isinstance(network, CompactChain)
        else AtPlaces(network, count)
        for name, network in networks.items()
    }
    for x, y in rows:
        for name, arrived, output, gradient in felt_calls(
            model, networks, (x, y), resolved, generator
        ):
            gradient = torch.zeros_like(output) if gradient is None else gradient
            seen[name].add(arrived, gradient, rows_of(x) / count)
    for name, one in seen.items():
        if not one.parts:
            raise ValueError(f"Expected a model that uses all its networks. {name!r} is not used.")
    if not any(one.fisher.any() for one in seen.values()):  # the fit is exact
        for one in seen.values():
            one.count_alike()
    return seen


class Calls(NamedTuple):
    """What a model gave, and the calls of some modules: name, input and output."""

    output: Any
    made: list[tuple[str, Tensor, Tensor]]


def felt_calls(
    model: nn.Module,
    modules: Mapping[str, nn.Module],
    pair: Pair,
    task: Task,
    generator: torch.Generator,
) -> list[tuple[str, Tensor, Tensor, Tensor | None]]:
    """The calls of ``modules``: name, input, output, and what the loss of ``pair`` feels of it."""
    calls = calls_of(model, modules, pair[0])
    total = task.felt(calls.output, pair[1], generator) * rows_of(pair[0])
    slopes = torch.autograd.grad(total, [made[2] for made in calls.made], allow_unused=True)
    return [(*made, slope) for made, slope in zip(calls.made, slopes, strict=True)]


def calls_of(model: nn.Module, modules: Mapping[str, nn.Module], x: Any) -> Calls:
    """The calls of ``modules`` where ``model`` is given ``x``, in evaluation."""
    made: list[tuple[str, Tensor, Tensor]] = []

    def keep(name: str, _: nn.Module, inputs: tuple, named: dict, output: Tensor) -> Tensor:
        """Copies, since others may write into what a network was given and gave."""
        made.append((name, (*inputs, *named.values())[0].detach().clone(), output))
        return output.clone()

    hooks = [
        part.register_forward_hook(partial(keep, name), with_kwargs=True)
        for name, part in modules.items()
    ]
    try:
        with restored_mode(model):
            model.eval()
            return Calls(called(model, x), made)
    finally:
        for hook in hooks:
            hook.remove()
