"""From a spectral network, alone or inside any module, to the ordinary network it has become."""

import copy
import warnings
from collections.abc import Sequence
from typing import Any, TypedDict, TypeVar, Unpack, overload

import torch
from torch import Tensor, nn

from torchsparcs.blocks.spectral import made_plain, spectral_blocks
from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.direct import direct_space, fold_constants, keep_neurons, simplified
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.cutting.ladder import RefineConfig
from torchsparcs.cutting.model_ladder import refine_model
from torchsparcs.cutting.pruning import only_network
from torchsparcs.cutting.refinement import refine
from torchsparcs.cutting.units import block_cuts, without_silent_units
from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.network import SpectralModule, SpectralNetwork, spectral_modules
from torchsparcs.spectral.population import Population
from torchsparcs.spectral.sharing import is_shared_out
from torchsparcs.training.data import Data, Pair, batches_of
from torchsparcs.training.nests import called
from torchsparcs.training.tasks import LossFunction, check_data, evaluation_mode

Model = TypeVar("Model", bound=nn.Module)
Given = tuple[Data, Data, str | LossFunction, RefineConfig | None]


class _Options(TypedDict, total=False):
    keep: Sequence[Tensor] | None
    data: Data | None
    validation: Data | None
    task: str | LossFunction | None
    config: RefineConfig | None
    target: str | Sequence[str] | None
    max_parameters: int | None
    max_macs: int | None
    progress: bool


@overload
def extract(module: SpectralNetwork, **options: Unpack[_Options]) -> CompactNetwork: ...
@overload
def extract(module: SpectralChain, **options: Unpack[_Options]) -> CompactChain: ...
@overload
def extract(module: Model, **options: Unpack[_Options]) -> Model: ...
@torch.inference_mode(False)
@torch.enable_grad()
def extract(
    module: nn.Module,
    *,
    keep: Sequence[Tensor] | None = None,
    data: Data | None = None,
    validation: Data | None = None,
    task: str | LossFunction | None = None,
    config: RefineConfig | None = None,
    target: str | Sequence[str] | None = None,
    max_parameters: int | None = None,
    max_macs: int | None = None,
    progress: bool = True,
) -> nn.Module:
    """A copy of ``module`` in which every spectral network has become an ordinary one.

    That is a ``CompactNetwork``, and a ``CompactChain`` where the transfers were convolutions.
    Without data the copy computes exactly the same. The blocks of direct space are formed first;
    then neurons without input (their constant folded into later biases), neurons without output,
    empty layers and all-zero blocks go, and neurons move to the lowest layer that their sources
    allow. Every skip connection that is left has weights of its own now, so a network of which
    little was silent can have more parameters than the spectral one.

    >>> extract(SpectralNetwork([64, 200, 10]))  # nothing is recruited yet: a perceptron
    CompactNetwork(64 → 10: 650 parameters, 640 multiply-adds; cut from 64 → 200 → 10: ...)

    With data it goes on to cut what the validation loss does not miss: neurons, layers and skip
    connections, each refitted by least squares and fine-tuned. A model that ends in one spectral
    network, its head, has that cut on the features it receives, and the rest stays as it is. Where
    there are several, or something comes after one, they are cut together and the whole model is
    fine-tuned; a chain of convolutions then loses channels, and keeps its layers. The validation
    data have then been used for choosing; keep other data for the final score.

    Blocks that :func:`spectralize` gave eigenvalues where they stand, with an example, lose the
    units whose eigenvalue is zero, and are plain layers again; with data, what the loss allows.

    A model without any spectral network is cut in the same way, where data are given: its plain
    feed-forward blocks lose hidden units. These are found by tracing a call of the model, so that
    it may be anybody's: linear layers or convolutions that write units, others that read them, and
    between them what keeps the units apart, like an activation, batch normalisation or a gate. The
    model as it was is the teacher of each fine-tuning (``RefineConfig.teaching``).

    >>> x = torch.randn(50, 3)
    >>> plain = nn.Sequential(nn.Linear(3, 40), nn.Tanh(), nn.Linear(40, 1))
    >>> given = {"data": (x, x[:, :1]), "validation": (x, x[:, :1]), "task": "regression"}
    >>> extract(plain, **given, max_parameters=50, progress=False)
    Sequential(
      (0): Linear(in_features=3, out_features=9, bias=True)
      (1): Tanh()
      (2): Linear(in_features=9, out_features=1, bias=True)
    )

    Args:
        keep: which neurons of each hidden layer stay, (N_k,) bool each, as a pruning curve's
            ``masks`` gives them; the others are cut out in direct space. ``module`` must then be
            or have one ``SpectralNetwork``.
        data: training data, as for :func:`train`: a pair in memory, or a loader.
        validation: decides how far the cutting may go.
        task: what the network was trained for, as in ``TrainConfig``; a loss(output, target) where
            the model gives more than one tensor.
        config: how much loss may be given up for size.
        target: the plain blocks that are cut, in a model without spectral networks: names of
            modules in or around them, or patterns like ``"layers.*.mlp"``. By default all.
        max_parameters: of the result. It then has at most as many, whatever that costs.
        max_macs: multiply-adds of its linear layers and convolutions for one row, for a model
            without spectral networks.
        progress: say on the terminal what is being cut, while data are given.
    """
    _check_whole(module)
    blocks = spectral_blocks(module)
    networks = [
        part for part in module.modules() if isinstance(part, SpectralModule) and part not in blocks
    ]
    if not networks and not blocks and data is None:
        networks = spectral_modules(module)  # an error that says so
    if any(isinstance(network, Population) for network in networks):
        raise ValueError("Expected spectral networks. Got a Population; extract its members.")
    if keep is not None:
        only_network(module)
    given = [
        name
        for name, value in (("data", data), ("validation", validation), ("task", task))
        if value is not None
    ]
    if 0 < len(given) < 3 or (config is not None and not given):
        raise ValueError(
            "Expected data, validation and task all together, or none of them and no config. "
            f"Got only {', '.join(given) or 'config'}."
        )
    if config is not None and not isinstance(config, RefineConfig):
        raise ValueError(f"Expected a RefineConfig. Got {type(config).__name__}.")
    budget = _checked_budget(
        max_parameters, max_macs, is_plain=not networks or bool(blocks), has_data=bool(given)
    )
    if target is not None and (networks or blocks):
        raise ValueError(
            "Expected no target where spectral networks are what is cut. Got "
            f"{target!r}; extract them first, then cut plain blocks."
        )
    compact: dict[int, nn.Module] = {id(one): _exact(one, keep) for one in networks}
    whole = _replaced(module, compact)
    if blocks:
        whole = without_silent_units(*made_plain(whole))
    if data is None or validation is None or task is None:
        return whole
    if blocks or not networks:
        unit, largest = budget
        cuts = block_cuts(whole, data, validation, task, target, unit)
        return refine_model(
            whole,
            data,
            validation,
            task,
            config,
            cuts=cuts,
            teaching=(config or RefineConfig()).teaching,
            largest=largest,
            progress=progress,
        )
    if not any(p.requires_grad for network in networks for p in network.parameters()):
        raise ValueError(
            "Expected a spectral network that is not frozen, where data are given. All are: "
            "requires_grad_() frees them."
        )
    check_data(module, data, task)
    check_data(module, validation, task, name="validation data")
    own = sum(p.numel() for network in networks for p in network.parameters())
    besides = sum(p.numel() for p in module.parameters()) - own
    largest = None if max_parameters is None else max_parameters - besides
    options: dict[str, Any] = {"largest": largest, "besides": besides, "progress": progress}
    here, there = (_features(module, networks, part) for part in (data, validation))
    if here is not None and there is not None:
        (head,) = networks
        exact, given_all = compact[id(head)], (here, there, task, config)
        compact[id(head)] = _refined(head, exact, given_all, options)
        return _compared(_replaced(module, compact), module)
    model = refine_model(whole, data, validation, task, config, **options)
    return _compared(model, module)


def _check_whole(module: nn.Module) -> None:
    if any(map(is_shared_out, module.parameters())):
        raise ValueError(
            "Expected whole tensors. Got a model whose parameters are shared out over processes "
            "(fully_shard): load what get_model_state_dict(model, options=StateDictOptions("
            "full_state_dict=True)) of torch.distributed.checkpoint.state_dict gives into one that "
            "is built as this was, and extract that."
        )


def _checked_budget(
    max_parameters: int | None, max_macs: int | None, *, is_plain: bool, has_data: bool
) -> tuple[str, int | None]:
    """What is counted, and how much of it there may be."""
    budgets = {"parameters": max_parameters, "macs": max_macs}
    asked = {unit: most for unit, most in budgets.items() if most is not None}
    if len(asked) > 1 or any(most < 1 for most in asked.values()):
        raise ValueError(
            f"Expected one budget, at least 1. Got max_parameters={max_parameters!r} and "
            f"max_macs={max_macs!r}."
        )
    if asked and not has_data:
        raise ValueError("Expected data, validation and task where there is a budget. Got none.")
    if max_macs is not None and not is_plain:
        raise ValueError(
            "Expected max_parameters for a model with spectral networks. Got max_macs; extract "
            "without a budget first, then cut the plain model."
        )
    return next(iter(asked.items()), ("parameters", None))


def _compared(result: nn.Module, module: nn.Module) -> nn.Module:
    """``result``, with a warning where it is no smaller than what it was made of."""
    now, before = (sum(p.numel() for p in one.parameters()) for one in (result, module))
    if now >= before:
        warnings.warn(
            f"The result has {now:,} parameters where the spectral model had {before:,}: the "
            "validation loss allowed no more cuts. Allow a larger tolerance, or more epochs of "
            "fine-tuning in smaller batches, in RefineConfig.",
            UserWarning,
            stacklevel=3,
        )
    return result


def _replaced(module: nn.Module, compact: dict[int, nn.Module]) -> nn.Module:
    """A copy of ``module`` with others for the networks whose ids are given."""
    if id(module) in compact:
        return compact[id(module)]
    # a deep copy that finds the networks already copied copies all the rest
    return copy.deepcopy(module, dict(compact))


def _exact(network: SpectralModule, keep: Sequence[Tensor] | None) -> CompactNetwork | CompactChain:
    is_free = any(p.requires_grad for p in network.parameters())
    if isinstance(network, SpectralChain):
        compact = CompactChain.of(network)
        return compact.train(network.training).requires_grad_(is_free)
    assert isinstance(network, SpectralNetwork)
    direct = direct_space(network)
    if keep is not None:
        expected = [(width,) for width in network.widths[1:-1]]
        masks = [torch.as_tensor(mask, device=direct.weights.device) for mask in keep]
        if [tuple(mask.shape) for mask in masks] != expected or any(
            mask.dtype != torch.bool for mask in masks
        ):
            raise ValueError(
                f"Expected boolean masks of {[*network.widths[1:-1]]}, one for each hidden layer. "
                f"Got {[(tuple(mask.shape), str(mask.dtype)) for mask in masks]}."
            )
        # constants first: what a dead neuron sends on is not lost with it
        direct = fold_constants(direct)
        if masks:
            direct = keep_neurons(direct, torch.cat(masks))
    dense = CompactNetwork.from_direct(
        simplified(direct), maximal=network.size, dtype=network.output_eigenvalues.dtype
    )
    return dense.train(network.training).requires_grad_(is_free)


def _refined(
    head: SpectralModule, exact: nn.Module, given: Given, options: dict[str, Any]
) -> nn.Module:
    """What ``head`` is exactly, cut as far as data, validation, task and config allow."""
    if isinstance(exact, CompactNetwork) and options["largest"] is None:
        return refine(exact, *given, progress=options["progress"]).train(head.training)
    normalise = isinstance(head, SpectralChain) and head.normalise
    refined = refine_model(exact, *given, normalise=normalise, **options)
    return refined.train(head.training)


def _features(module: nn.Module, networks: list[SpectralModule], data: Data) -> Data | None:
    """``data`` as they arrive at the head of ``module``, one network whose output is its own.

    None where there is no such head.
    """
    if len(networks) > 1:
        return None
    (head,) = networks
    if module is head:
        return data
    seen: list[tuple[Tensor, Tensor]] = []
    hook = head.register_forward_hook(
        # copies, since what comes after may write into them
        lambda _, inputs, named, output: seen.append(
            ((*inputs, *named.values())[0].clone(), output.clone())
        ),
        with_kwargs=True,
    )
    pairs: list[Pair] = []
    try:
        with evaluation_mode(module):
            for x, y in batches_of(data, 1024, like=head.output_eigenvalues):
                seen.clear()
                output = called(module, x)
                is_head = len(seen) == 1 and isinstance(output, Tensor)
                if not is_head or not torch.equal(seen[0][1].flatten(), output.flatten()):
                    return None
                pairs.append((seen[0][0], y))
    finally:
        hook.remove()
    if not pairs:
        raise ValueError("Expected data with at least one batch. Got none.")
    inputs, targets = zip(*pairs, strict=True)
    return torch.cat(inputs), torch.cat(targets)
