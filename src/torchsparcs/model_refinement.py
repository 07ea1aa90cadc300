"""Networks inside a model cut together, what is cheapest to the loss first, and fine-tuned with it.

The price of a neuron is what its removal costs at the output of its network: an error e there costs
Σ_o F_o E[e_o²], up to a common factor. F_o is the squared gradient of the loss at output o, summed
over the places of a row (the empirical Fisher information). The price of a channel of a chain comes
from the same gradients. Prices of different networks compare.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchsparcs.channel_cutting import ChannelCutting
from torchsparcs.compact import CompactNetwork
from torchsparcs.compact_chain import CompactChain
from torchsparcs.config import TrainConfig
from torchsparcs.data import Data, Pair, batches_of, is_pair, placed
from torchsparcs.elimination import Cutting
from torchsparcs.epochs import NonFiniteLossError
from torchsparcs.progress import cutting_progress
from torchsparcs.refinement import RefineConfig, constant_loss, last_within
from torchsparcs.tasks import LossFunction, check_data, evaluate, resolve_task, restored_mode
from torchsparcs.training import train

SHRINK = 0.7  # of the parameters of the networks are left on the next rung
RIDGE = 1e-2  # of each source's mean square; with less, weights get too large to train on
LOOKED_AT = 2000  # rows, at most, that a cut looks at
AT_ONCE = 64  # rows
SEEN = 20_000  # places, about, whose signals are kept

Compact = CompactNetwork | CompactChain


class ModelRung(NamedTuple):
    """A model on the way down, and how it does on the validation data."""

    model: nn.Module
    loss: float
    score: float

    @property
    def parameters(self) -> int:
        """Of the networks that are cut."""
        return size_of(self.model)


def compact_networks(model: nn.Module) -> dict[str, Compact]:
    """Those inside ``model`` that are not frozen, by name."""
    return {
        name: part
        for name, part in model.named_modules()
        if isinstance(part, Compact) and any(p.requires_grad for p in part.parameters())
    }


def size_of(model: nn.Module) -> int:
    """Parameters of these networks."""
    return sum(
        network.parameter_count if isinstance(network, CompactChain) else network.size.parameters
        for network in compact_networks(model).values()
    )


def model_rungs(
    model: nn.Module, data: Data, validation: Data, tuning: TrainConfig, rows: int = LOOKED_AT
) -> Iterator[ModelRung]:
    """``model``, then one whose compact networks have 0.7 of the parameters, and so on.

    Each is cut from the one before with a look at ``rows``, and the whole of it fine-tuned as
    ``tuning`` says. Networks that are frozen stay as they are.
    """

    def judged(one: nn.Module) -> ModelRung:
        return ModelRung(one, *evaluate(one, validation, tuning.task, batch_size=tuning.batch_size))

    rung = judged(model)
    yield rung
    while rung.parameters:
        some = _some_rows(data, next(model.parameters()), rows, tuning.seed)
        smaller = cut_model(rung.model, some, tuning.task, int(SHRINK * rung.parameters))
        if size_of(smaller) >= rung.parameters:
            return
        try:
            train(smaller, data, tuning, progress=False)
        except NonFiniteLossError:
            return
        rung = judged(smaller)
        yield rung


def cut_model(
    model: nn.Module, rows: Sequence[Pair], task: str | LossFunction, parameters: int
) -> nn.Module:
    """A copy whose compact networks have at most so many parameters, or as few as there can be.

    ``rows`` are those to look at, in batches.
    """
    networks, seen = compact_networks(model), measured(model, rows, task)
    cuttings = {name: _cutting(network, seen[name]) for name, network in networks.items()}
    while sum(cutting.parameters for cutting in cuttings.values()) > parameters:
        cheapest = min(cuttings.values(), key=lambda one: one.rate)
        if cheapest.rate == math.inf:
            break
        cheapest.step()
    memo: dict[int, Any] = {
        id(network): _left(network, cuttings[name]).train(network.training)
        for name, network in networks.items()
    }
    # a deep copy that finds the networks already copied copies all the rest
    return copy.deepcopy(model, memo)


class Seen(NamedTuple):
    """What arrived at a network, and what its outputs meant to the loss.

    Shape:
        - inputs (places, N₀) of a dense network, (rows, ...) of a chain
        - felt (outputs,), F; of a chain (rows, ...), the gradients at its outputs
    """

    inputs: Tensor
    felt: Tensor


def _cutting(network: Compact, seen: Seen) -> Cutting | ChannelCutting:
    if isinstance(network, CompactChain):
        return ChannelCutting(network, (seen.inputs, seen.felt), _linearised)
    return Cutting(network.to_direct(), seen.inputs, importance=seen.felt, ridge=RIDGE)


def _linearised(output: Tensor, gradient: Tensor) -> Tensor:
    """A loss that has this gradient, for each row."""
    return (output * gradient).sum() / len(output)


def _left(network: Compact, cutting: Cutting | ChannelCutting) -> Compact:
    if isinstance(cutting, ChannelCutting):
        return cutting.result()
    assert isinstance(network, CompactNetwork)
    dtype = next(network.parameters()).dtype
    return CompactNetwork.from_direct(cutting.result(), maximal=network.maximal, dtype=dtype)


@torch.enable_grad()
def measured(model: nn.Module, rows: Sequence[Pair], task: str | LossFunction) -> dict[str, Seen]:
    """What ``rows``, in batches, tell of each compact network of ``model``."""
    networks, loss = compact_networks(model), resolve_task(task).loss
    generator = torch.Generator().manual_seed(0)
    count = sum(len(x) for x, _ in rows)
    inputs: dict[str, list[Tensor]] = {name: [] for name in networks}
    felt: dict[str, list[Tensor]] = {name: [] for name in networks}
    for x, y in rows:
        calls = _calls(model, networks, x)
        total = loss(calls.output, y) * len(x)
        outputs = [output for _, _, output in calls.made]
        gradients = torch.autograd.grad(total, outputs, allow_unused=True)
        for (name, arrived, output), gradient in zip(calls.made, gradients, strict=True):
            gradient = torch.zeros_like(output) if gradient is None else gradient
            if not isinstance(networks[name], CompactChain):
                places = arrived.double().reshape(-1, arrived.shape[-1])
                share = SEEN * len(x) // count + 1
                some = torch.randperm(len(places), generator=generator)[:share]
                arrived = places[some.to(places.device)]
                by_place = gradient.double().reshape(-1, output.shape[-1])
                gradient = by_place.square().sum(dim=0, keepdim=True)
            inputs[name].append(arrived)
            felt[name].append(gradient)
    for name, parts in inputs.items():
        if not parts:
            raise ValueError(f"Expected a model that uses all its networks. {name!r} is not used.")
    if not any(part.any() for parts in felt.values() for part in parts):
        # the fit is exact: all count alike
        felt = {name: [torch.ones_like(part) for part in parts] for name, parts in felt.items()}
    return {
        name: _seen(network, torch.cat(inputs[name]), torch.cat(felt[name]), count)
        for name, network in networks.items()
    }


def _seen(network: Compact, inputs: Tensor, felt: Tensor, count: int) -> Seen:
    """For one of ``count`` rows, each of which a network may have seen in several calls."""
    if isinstance(network, CompactChain):
        return Seen(inputs, felt * math.sqrt(len(inputs) / count))
    return Seen(inputs, felt.sum(dim=0) / count)


class _Calls(NamedTuple):
    """What a model gave, and the calls of its networks: name, input and output."""

    output: Tensor
    made: list[tuple[str, Tensor, Tensor]]


def _calls(model: nn.Module, networks: dict[str, Compact], x: Tensor) -> _Calls:
    made: list[tuple[str, Tensor, Tensor]] = []

    def keep(name: str, _: nn.Module, inputs: tuple, named: dict, output: Tensor) -> Tensor:
        """Copies, since others may write into what a network was given and gave."""
        made.append((name, (*inputs, *named.values())[0].detach().clone(), output))
        return output.clone()

    hooks = [
        part.register_forward_hook(partial(keep, name), with_kwargs=True)
        for name, part in networks.items()
    ]
    try:
        with restored_mode(model):
            model.eval()
            return _Calls(model(x), made)
    finally:
        for hook in hooks:
            hook.remove()


def _some_rows(data: Data, like: Tensor, count: int, seed: int) -> list[Pair]:
    """So many rows in small batches: drawn at random from memory, or the first of a loader."""
    if is_pair(data):
        x, y = (torch.as_tensor(part) for part in data)
        some = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:count]
        data = x[some.to(x.device)], y[some.to(y.device)]
    found: list[Pair] = []
    for x, y in batches_of(data, AT_ONCE, like=like):
        found.append((x[:count], y[:count]))
        count -= len(x)
        if count <= 0:
            break
    if not found:
        raise ValueError("Expected data with at least one batch. Got none.")
    return found


def refine_model(
    model: nn.Module,
    data: Data,
    validation: Data,
    task: str | LossFunction,
    config: RefineConfig | None = None,
    *,
    progress: bool = True,
) -> nn.Module:
    """The last model on the way down whose validation loss is within the tolerance."""
    check_data(model, data, task)
    check_data(model, validation, task, name="validation data")
    config = config or RefineConfig()
    tuning = config.tuning(task, schedule="warm_cosine")
    like = next(model.parameters())
    here, there = (placed(part, like) if is_pair(part) else part for part in (data, validation))
    allowance = config.tolerance * constant_loss(model, there, task)
    with cutting_progress(progress) as show:
        found = model_rungs(model, here, there, tuning, min(config.rows, LOOKED_AT))
        return last_within(found, allowance, show).model
