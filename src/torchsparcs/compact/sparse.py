"""Linear maps that have only some of their weights."""

import operator
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

MOST_SPARSE = 2**25  # numbers that a block has room for, when it unfolds


class SparseLinear(nn.Module):
    """A linear map whose parameters are those weights and biases that are not zero.

    ``weight`` and ``bias`` are made anew whenever they are asked for: change ``values``.

    Args:
        places: theirs in the matrix (out_features, in_features + 1), counted row by row, whose
            last column is the bias; ascending.

    Shape:
        - input (..., in_features), output (..., out_features)
        - ``values`` (len(places),)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        places: Sequence[int],
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        indices = tuple(operator.index(place) for place in places)
        numbers = out_features * (in_features + 1)
        if (
            not indices
            or not 0 <= indices[0] <= indices[-1] < numbers
            or any(later <= earlier for earlier, later in pairwise(indices))
        ):
            raise ValueError(
                f"Expected ascending places of {numbers} numbers, at least one. Got {indices[:9]}."
            )
        on_meta = device is not None and torch.device(device).type == "meta"
        self.places: Tensor
        self.register_buffer(
            "places", torch.tensor(indices, device=None if on_meta else device), persistent=False
        )
        bound = in_features**-0.5
        values = torch.empty(len(indices), device=device, dtype=dtype).uniform_(-bound, bound)
        self.values = nn.Parameter(values)

    @property
    def matrix(self) -> Tensor:
        """Weights and biases, (out_features, in_features + 1)."""
        flat = self.values.new_zeros(self.out_features * (self.in_features + 1))
        return flat.index_put((self.places,), self.values).view(self.out_features, -1)

    @property
    def weight(self) -> Tensor:
        return self.matrix[:, :-1]

    @property
    def bias(self) -> Tensor:
        return self.matrix[:, -1]

    @property
    def weight_count(self) -> int:
        """The weights that are left, without the biases."""
        return int((self.places % (self.in_features + 1) < self.in_features).sum())

    def forward(self, input: Tensor) -> Tensor:
        matrix = self.matrix
        return F.linear(input, matrix[:, :-1], matrix[:, -1])

    def dense(self) -> nn.Linear:
        """The same map with its zeros."""
        like = self.values
        linear = nn.Linear(self.in_features, self.out_features, device="meta", dtype=like.dtype)
        linear = linear.to_empty(device=like.device)
        with torch.no_grad():
            linear.weight.copy_(self.weight)
            linear.bias.copy_(self.bias)
        return linear

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, {len(self.places)} numbers"


def with_zeros(module: nn.Module) -> nn.Module:
    """``module``, changed in place: its sparse maps as ``nn.Linear``, for other runtimes."""
    for name, child in module.named_children():
        if isinstance(child, SparseLinear):
            setattr(module, name, child.dense())
        else:
            with_zeros(child)
    return module
