"""Networks inside a model cut together, what is cheapest to the loss first, and fine-tuned with it.

The price of a neuron is what its removal costs at the output of its network, to second order: an
error e there costs Σ_o F_o E[e_o²], with F_o the squared gradient of the loss at output o, summed
over the places of a row. So prices of different networks compare.
"""

import contextlib
import copy
import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from torchsparcs.compact import CompactNetwork
from torchsparcs.config import TrainConfig
from torchsparcs.data import Data, Pair, batches_of
from torchsparcs.elimination import Cutting
from torchsparcs.epochs import NonFiniteLossError
from torchsparcs.progress import cutting_progress
from torchsparcs.refinement import RefineConfig, constant_loss
from torchsparcs.tasks import LossFunction, check_data, evaluate, resolve_task, restored_mode
from torchsparcs.training import train

SHRINK = 0.7  # of the parameters of the networks are left on the next rung
RIDGE = 1e-2  # of each source's mean square; with less, weights get too large to train on
LOOKED_AT = 2000  # rows, at most, that a cut looks at
AT_ONCE = 64  # rows
SEEN = 20_000  # places, at most, whose signals are kept


class ModelRung(NamedTuple):
    """A model on the way down, and how it does on the validation data."""

    model: nn.Module
    loss: float
    score: float

    @property
    def parameters(self) -> int:
        """Of the networks that are cut."""
        return sum(network.size.parameters for network in compact_networks(self.model).values())


def compact_networks(model: nn.Module) -> dict[str, CompactNetwork]:
    """Those inside ``model``, by name."""
    return {name: part for name, part in model.named_modules() if isinstance(part, CompactNetwork)}


def model_rungs(
    model: nn.Module, data: Data, validation: Data, tuning: TrainConfig
) -> Iterator[ModelRung]:
    """``model``, then one whose compact networks have 0.7 of the parameters, and so on.

    Each is cut from the one before, and the whole of it fine-tuned as ``tuning`` says.
    """

    def judged(one: nn.Module) -> ModelRung:
        return ModelRung(one, *evaluate(one, validation, tuning.task, batch_size=tuning.batch_size))

    rung = judged(model)
    while True:
        yield rung
        smaller = cut_model(rung.model, data, tuning.task, int(SHRINK * rung.parameters))
        if ModelRung(smaller, 0.0, 0.0).parameters >= rung.parameters:
            return
        with contextlib.suppress(NonFiniteLossError):
            train(smaller, data, tuning, progress=False)
        rung = judged(smaller)


def cut_model(model: nn.Module, data: Data, task: str | LossFunction, parameters: int) -> nn.Module:
    """A copy whose compact networks have at most so many parameters, or as few as there can be."""
    networks = compact_networks(model)
    cuttings = {
        id(networks[name]): Cutting(
            networks[name].to_direct(), seen.inputs, importance=seen.importance, ridge=RIDGE
        )
        for name, seen in measured(model, data, task).items()
    }
    while sum(cutting.parameters for cutting in cuttings.values()) > parameters:
        cheapest = min(cuttings.values(), key=lambda one: one.rate)
        if cheapest.rate == math.inf:
            break
        cheapest.step()
    memo: dict[int, nn.Module] = {}
    for network in networks.values():
        small = CompactNetwork.from_direct(
            cuttings[id(network)].result(),
            maximal=network.maximal,
            dtype=next(network.parameters()).dtype,
        )
        memo[id(network)] = small.train(network.training)
    # a deep copy that finds the networks already copied copies all the rest
    return copy.deepcopy(model, memo)


class Seen(NamedTuple):
    """What arrived at a network, and what its outputs meant to the loss.

    Shape:
        - inputs (places, N₀)
        - importance (outputs,)
    """

    inputs: Tensor
    importance: Tensor


def measured(model: nn.Module, data: Data, task: str | LossFunction) -> dict[str, Seen]:
    """What some rows of ``data`` tell of each compact network of ``model``."""
    networks, loss = compact_networks(model), resolve_task(task).loss
    generator = torch.Generator().manual_seed(0)
    inputs: dict[str, list[Tensor]] = {name: [] for name in networks}
    felt: dict[str, Tensor | float] = dict.fromkeys(networks, 0.0)
    rows = 0
    for x, y in _some_rows(data, next(model.parameters())):
        rows += len(x)
        calls = _calls(model, networks, x)
        total = loss(calls.output, y) * len(x)
        outputs = [output for _, _, output in calls.made]
        gradients = torch.autograd.grad(total, outputs, allow_unused=True)
        for (name, arrived, output), gradient in zip(calls.made, gradients, strict=True):
            flat = arrived.detach().double().flatten(0, -2)
            count = math.ceil(SEEN * len(x) / LOOKED_AT)
            some = torch.randperm(len(flat), generator=generator)[:count]
            inputs[name].append(flat[some.to(flat.device)])
            gradient = torch.zeros_like(output) if gradient is None else gradient
            felt[name] = felt[name] + gradient.double().flatten(0, -2).square().sum(dim=0)
    for name, some_inputs in inputs.items():
        if not some_inputs:
            raise ValueError(f"Expected a model that uses all its networks. {name!r} is not used.")
    return {
        name: Seen(torch.cat(parts), torch.as_tensor(felt[name]) / rows)
        for name, parts in inputs.items()
    }


class _Calls(NamedTuple):
    """What a model gave, and the calls of its networks: name, input and output."""

    output: Tensor
    made: list[tuple[str, Tensor, Tensor]]


def _calls(model: nn.Module, networks: dict[str, CompactNetwork], x: Tensor) -> _Calls:
    made: list[tuple[str, Tensor, Tensor]] = []

    def keep(name: str, _: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        made.append((name, inputs[0], output))

    hooks = [part.register_forward_hook(partial(keep, name)) for name, part in networks.items()]
    try:
        with restored_mode(model), torch.enable_grad():
            model.eval()
            return _Calls(model(x), made)
    finally:
        for hook in hooks:
            hook.remove()


def _some_rows(data: Data, like: Tensor) -> Iterator[Pair]:
    """The first of them, in small batches."""
    left = LOOKED_AT
    for x, y in batches_of(data, AT_ONCE, like=like):
        yield x[:left], y[:left]
        left -= len(x)
        if left <= 0:
            return


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
    allowance = config.tolerance * constant_loss(model, validation, task)
    best, limit = model, math.inf
    try:
        with cutting_progress(progress) as show:
            for rung in model_rungs(model, data, validation, tuning):
                if not rung.loss <= limit:
                    break
                best, limit = rung.model, min(limit, rung.loss + allowance)
                show(f"{rung.parameters:,} parameters, loss {rung.loss:.4g}, allowed {limit:.4g}")
    except KeyboardInterrupt:
        raise KeyboardInterrupt("The cutting was interrupted; nothing was changed.") from None
    return best
