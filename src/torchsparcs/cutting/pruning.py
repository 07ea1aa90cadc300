"""Which neurons to cut: rankings, and the loss against what is kept. Nothing is changed here."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from torchsparcs.compact.direct import (
    DirectSpace,
    direct_space,
    fold_constants,
    is_used,
    keep_neurons,
    simplified,
)
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.spectral.network import SpectralModule, SpectralNetwork
from torchsparcs.training.data import Data
from torchsparcs.training.tasks import LossFunction, check_data, evaluate


def by_eigenvalue(network: SpectralNetwork, direct: DirectSpace) -> Tensor:
    """|λ|, the paper's spectral pruning, (H,)."""
    none = direct.weights.new_empty(0)
    return torch.cat([none, *(e.detach().abs() for e in network.hidden_eigenvalues)])


def by_path(network: SpectralNetwork, direct: DirectSpace) -> Tensor:
    """‖what comes in‖ · ‖what goes out‖ in direct space, (H,).

    It stays right in deep networks, where one eigenvalue no longer controls one neuron.
    """
    incoming = torch.linalg.vector_norm(direct.weights[: direct.hidden], dim=1)
    return incoming * torch.linalg.vector_norm(direct.outgoing, dim=0)


RANKINGS: dict[str, Callable[[SpectralNetwork, DirectSpace], Tensor]] = {
    "eigenvalue": by_eigenvalue,
    "path": by_path,
}


@dataclass(frozen=True)
class PrunedPoint:
    """A network cut down to its ``kept`` strongest hidden neurons, and what that costs.

    Inside a model loss and score are those of the model, the sizes those of the network alone.
    """

    kept: int
    loss: float
    score: float
    parameters: int
    macs: int


@dataclass(frozen=True)
class PruningCurve:
    """Validation loss against neurons kept, from none to all.

    Attributes:
        points: in ascending order of ``kept``; the last one is the whole network.
        order: hidden neurons from the strongest to the weakest, (H,), counted through the layers.
        hidden_widths: of the maximal network.
    """

    points: list[PrunedPoint]
    order: Tensor
    hidden_widths: tuple[int, ...]

    def smallest(self, tolerance: float = 0.05) -> PrunedPoint:
        """The fewest neurons, of the sizes tried, whose loss is within ``tolerance``.

        ``tolerance`` is a share of the whole network's loss.
        """
        if not tolerance >= 0:
            raise ValueError(f"Expected a tolerance >= 0. Got {tolerance!r}.")
        whole = self.points[-1]
        limit = whole.loss + tolerance * abs(whole.loss)
        return next(point for point in self.points if point.loss <= limit or point is whole)

    def within(
        self, *, max_parameters: int | None = None, max_macs: int | None = None
    ) -> PrunedPoint:
        """The lowest loss inside the budget, of the sizes tried."""
        inside = [
            point
            for point in self.points
            if (max_parameters is None or point.parameters <= max_parameters)
            and (max_macs is None or point.macs <= max_macs)
        ]
        if not inside:
            least = self.points[0]
            raise ValueError(
                f"Expected a budget of at least {least.parameters} parameters and {least.macs} "
                f"multiply-adds, the linear network. Got {max_parameters} and {max_macs}."
            )
        return min(inside, key=lambda point: point.loss)

    def masks(self, point: PrunedPoint) -> list[Tensor]:
        """Which neurons of each hidden layer stay at ``point``; what ``extract`` takes as keep."""
        mask = torch.zeros(len(self.order), dtype=torch.bool)
        mask[self.order[: point.kept].cpu()] = True
        return list(mask.split(list(self.hidden_widths)))


def only_network(model: nn.Module) -> SpectralNetwork:
    """The one spectral network that ``model`` is or has, with dense layers; else a ValueError."""
    networks = [part for part in model.modules() if isinstance(part, SpectralModule)]
    if len(networks) != 1 or not isinstance(networks[0], SpectralNetwork):
        kinds = ", ".join(type(one).__name__ for one in networks) or "none"
        raise ValueError(
            f"Expected one SpectralNetwork, or a model with one inside. Got {kinds} in a "
            f"{type(model).__name__}; extract(..., max_parameters=) cuts several together."
        )
    return networks[0]


def pruning_curve(
    model: nn.Module,
    validation: Data,
    task: str | LossFunction,
    *,
    rank: str = "path",
    points: int | Sequence[int] = 100,
) -> PruningCurve:
    """The validation loss of ``model`` with fewer and fewer of its network's hidden neurons.

    >>> x = torch.randn(50, 3)
    >>> curve = pruning_curve(SpectralNetwork([3, 8, 1]), (x, x.sum(1)), "regression")
    >>> curve.smallest(tolerance=0.05).kept
    0

    A neuron is cut out in direct space, row and column. Neurons that are already dead are never
    counted as kept.

    Args:
        model: a ``SpectralNetwork``, or any model with one inside.
        rank: ``"path"`` or ``"eigenvalue"``, see :data:`RANKINGS`.
        points: at most that many sizes are tried, spaced geometrically where there are more; or
            the sizes themselves, in neurons kept.
    """
    network = only_network(model)
    check_data(model, validation, task, name="validation data")
    if rank not in RANKINGS:
        raise ValueError(f"Expected a ranking among {', '.join(RANKINGS)}. Got {rank!r}.")
    if isinstance(points, int) and points < 2:
        raise ValueError(f"Expected at least two points. Got {points}.")
    direct = fold_constants(direct_space(network))
    strength = RANKINGS[rank](network, direct)
    alive = is_used(direct) & (direct.weights[: direct.hidden] != 0).any(dim=1)
    order = torch.argsort(torch.where(alive, strength, -1.0), descending=True, stable=True)
    dtype = network.output_eigenvalues.dtype
    place = nn.Sequential(network)
    whole: nn.Module = copy.deepcopy(model, {id(network): place})
    curve = []
    for kept in _sizes(int(alive.sum()), points):
        mask = torch.zeros_like(alive)
        mask[order[:kept]] = True
        compact = CompactNetwork.from_direct(
            simplified(keep_neurons(direct, mask)), maximal=None, dtype=dtype
        )
        place[0] = compact
        loss, score = evaluate(whole, validation, task)
        size = compact.size
        curve.append(PrunedPoint(kept, loss, score, size.parameters, size.macs))
    return PruningCurve(curve, order, network.widths[1:-1])


def _sizes(largest: int, points: int | Sequence[int]) -> list[int]:
    """0..largest thinned out geometrically to ``points`` numbers; or those given, and largest."""
    if not isinstance(points, int):
        return sorted({largest, *(min(max(size, 0), largest) for size in points)})
    if largest < points:
        return list(range(largest + 1))
    spaced = torch.logspace(math.log10(largest), 0, points - 1)
    return sorted({0, largest, *(round(size) for size in spaced.tolist())})
