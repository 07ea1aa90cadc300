"""From a spectral network, alone or inside any module, to the ordinary network it has become."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torchsparcs.compact import CompactNetwork
from torchsparcs.direct import direct_space, fold_constants, keep_neurons, simplified
from torchsparcs.network import SpectralNetwork, spectral_modules
from torchsparcs.refinement import RefineConfig, refine
from torchsparcs.tasks import Data, LossFunction


def extract(
    module: nn.Module,
    *,
    keep: Sequence[Tensor] | None = None,
    data: Data | None = None,
    validation: Data | None = None,
    task: str | LossFunction | None = None,
    config: RefineConfig | None = None,
) -> nn.Module:
    """A copy of ``module`` in which every ``SpectralNetwork`` has become a ``CompactNetwork``.

    Without data the copy computes exactly the same. The blocks of direct space are formed first;
    then neurons without input (their constant folded into later biases), neurons without output,
    empty layers and all-zero blocks go, and neurons move to the lowest layer that their sources
    allow.

    >>> extract(SpectralNetwork([64, 200, 10]))  # nothing is recruited yet: a perceptron
    CompactNetwork(64 → 10: 650 parameters, 640 multiply-adds; cut from 64 → 200 → 10: ...)

    With data and validation data it goes on to cut what the validation loss does not miss:
    neurons, layers and skip connections, each refitted by least squares and fine-tuned
    (:func:`torchsparcs.refinement.refine`).

    Args:
        keep: which neurons of each hidden layer stay, (N_k,) bool each, as a pruning curve's
            ``masks`` gives them; the others are cut out in direct space.
        data: training data, as for :func:`train`.
        validation: decides how far the cutting may go.
        task: what the network was trained for, as in ``TrainConfig``.
        config: how much loss may be given up for size.

    ``keep`` and data speak of one network: with them ``module`` must be a ``SpectralNetwork``.
    """
    networks = [part for part in spectral_modules(module) if isinstance(part, SpectralNetwork)]
    if len(networks) < len(spectral_modules(module)):
        raise ValueError("Expected spectral networks. Got a Population; extract its members.")
    if (keep is not None or data is not None) and not isinstance(module, SpectralNetwork):
        raise ValueError(
            "Expected a SpectralNetwork itself where keep or data are given. "
            f"Got a {type(module).__name__}; extract its spectral networks one by one."
        )
    if len({value is None for value in (data, validation, task)}) > 1:
        raise ValueError("Expected data, validation and task all together, or none of them.")
    compact = {id(network): _exact(network, keep) for network in networks}
    if not isinstance(module, SpectralNetwork):
        # a deep copy that finds the networks already copied copies all the rest
        return copy.deepcopy(module, dict(compact))
    result = compact[id(module)]
    if data is None or validation is None or task is None:
        return result
    return refine(result, data, validation, task, config).train(module.training)


def _exact(network: SpectralNetwork, keep: Sequence[Tensor] | None) -> CompactNetwork:
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
    compact = CompactNetwork.from_direct(
        simplified(direct), maximal=network.size, dtype=network.output_eigenvalues.dtype
    )
    return compact.train(network.training)
