"""Many spectral networks trained as one model, members on the leading axis."""

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torchsparcs.spectral.activations import Activation
from torchsparcs.spectral.network import DenseModule, SpectralNetwork

# A member begins where the kernels begin anew: then it computes the same among any others.
TILE = 16  # numbers
BUILDING = threading.Lock()  # torch's random numbers are put aside by one thread at a time


class HasMembers:
    """Mixin of modules that are many networks: the output is (members, batch, ...).

    Members are the first dimension of all parameters, too. ``draws``: whether a forward pass may
    draw random numbers. ``is_tiled``: whether a member computes the same bits on a CPU among any
    others; sums of two that begin elsewhere in memory round otherwise.
    """

    members: int
    draws: bool = True
    is_tiled: bool = True

    @torch.no_grad()
    def _copied_to(self: Any, other: Any, members: slice | int) -> Any:
        """``other``, one network or several, with the parameters of these members."""
        for its, mine in zip(other.parameters(), self.parameters(), strict=True):
            its.copy_(mine[members])
        return other.train(self.training)

    @torch.no_grad()
    def replace_part(self: Any, members: slice, part: Any) -> None:
        """Take the parameters of these members from ``part``."""
        for mine, its in zip(self.parameters(), part.parameters(), strict=True):
            mine[members] = its


class Population(DenseModule, HasMembers):
    """``len(seeds)`` spectral networks of the same widths, each started from its own seed.

    Member i is the network ``SpectralNetwork(widths)`` whose parameters were reset with a
    generator of ``seeds[i]``; nothing couples the members, so trained on the same batches each
    ends with the weights it would have had alone.

    >>> population = Population([64, 100, 10], seeds=range(8))
    >>> population(torch.zeros(32, 64)).shape
    torch.Size([8, 32, 10])
    >>> population.member(3)
    SpectralNetwork(64 → 100 → 10, relu, recruited 0 of 100)

    Shape:
        - input (batch, widths[0]) for all members alike, or (members, batch, widths[0])
        - output (members, batch, widths[-1])
        - ``transfers[k]`` (members, widths[k+1], widths[k])
        - ``eigenvalues[k]`` (members, widths[k])
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        seeds: Sequence[int],
        activation: str | Activation = "relu",
        bias: bool = True,
        train_input_eigenvalues: bool = False,
        update: str = "feedforward",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        if not isinstance(seeds, Sequence) or len(seeds) == 0:
            raise ValueError(f"Expected a sequence of seeds, one for each member. Got {seeds!r}.")
        if isinstance(activation, nn.Module) and any(True for _ in activation.parameters()):
            raise ValueError(
                "Expected an activation without parameters, which members would have to share. "
                f"Got {activation!r}."
            )
        options: dict[str, Any] = {
            "activation": activation,
            "bias": bias,
            "train_input_eigenvalues": train_input_eigenvalues,
            "update": update,
        }
        self.options, self.seeds, self.members = options, tuple(seeds), len(seeds)
        self.leading = (self.members,)
        self.draws = not isinstance(activation, str)
        super().__init__(widths, **options, device=device, dtype=dtype)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Make every member the perceptron of its seed again."""
        single = self._single()
        for index, seed in enumerate(self.seeds):
            single.reset_parameters(torch.Generator().manual_seed(int(seed)))
            for mine, its in zip(self.parameters(), single.parameters(), strict=True):
                mine[index].copy_(its)

    def member(self, index: int) -> SpectralNetwork:
        """A copy of one member as a network of its own."""
        return self._copied_to(self._single().to(self.output_eigenvalues.device), index)

    def part(self, members: slice) -> "Population":
        """A copy of some of the members as a population of their own, which computes alike."""
        seeds, like = self.seeds[members], self.output_eigenvalues
        part = Population(
            self.widths, seeds=seeds, **self.options, device=like.device, dtype=like.dtype
        )
        part._anchors = self._anchors
        return self._copied_to(part, members)

    @property
    def is_tiled(self) -> bool:  # type: ignore[override]
        return all(width % TILE == 0 for width in self.widths[1:-1])

    def _single(self) -> SpectralNetwork:
        """A network like the members, on the CPU; the caller's random numbers are left alone."""
        with BUILDING, torch.random.fork_rng(devices=[]):
            dtype = self.output_eigenvalues.dtype
            return SpectralNetwork(self.widths, **self.options, dtype=dtype)

    @property
    def recruited(self) -> list[list[int]]:
        """How many eigenvalues of each hidden layer are not exactly zero, member by member."""
        counts = [count.tolist() for count in self.count_recruited()]
        return [list(layers) for layers in zip(*counts, strict=True)] or [[]] * self.members

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (2, 3) or (input.dim() == 3 and len(input) != self.members):
            raise ValueError(
                f"Expected an input of shape (batch, {self.widths[0]}) or ({self.members}, batch, "
                f"{self.widths[0]}). Got {tuple(input.shape)}."
            )
        return self._propagate(input, input.shape[-2])

    def extra_repr(self) -> str:
        return f"{self.members} members, {' → '.join(map(str, self.widths))}"


def members_of(module: nn.Module) -> int | None:
    """How many networks the population inside ``module`` has; None where there is none."""
    populations = (inner for inner in module.modules() if isinstance(inner, HasMembers))
    return next((population.members for population in populations), None)


def is_silent(module: nn.Module) -> bool:
    """Whether ``module`` is known to draw no random numbers."""
    return isinstance(module, HasMembers) and not module.draws
