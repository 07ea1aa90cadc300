"""Dense spectral networks, and what all spectral networks have in common."""

import math
from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor, nn

from torchsparcs.spectral import equations as spectral
from torchsparcs.spectral.activations import Activation, HasActivation
from torchsparcs.spectral.equations import AnchorTable
from torchsparcs.spectral.sharing import whole

UPDATES = ("feedforward", "iterated")
MOST_FOR_XAVIER = 3  # hidden layers; in deeper networks its scale lets signals fade


class Size(NamedTuple):
    """How big a network is: neurons per layer, trainable numbers, multiply-adds for one row."""

    widths: tuple[int, ...]
    parameters: int
    macs: int

    @property
    def amount(self) -> str:
        """Parameters and multiply-adds in words."""
        return f"{self.parameters:,} parameters, {self.macs:,} multiply-adds"


class SpectralModule(nn.Module, HasActivation):
    """Base of every spectral network: what penalties, training and histories ask of it.

    Attributes:
        hidden_eigenvalues: (members..., N_k) of each hidden layer.
        output_eigenvalues: (members..., N_B).
    """

    hidden_eigenvalues: nn.ParameterList
    output_eigenvalues: nn.Parameter

    @property
    def transfer_parameters(self) -> list[nn.Parameter]:
        """The parameters of the linear maps between the layers."""
        raise NotImplementedError

    @property
    def penalised_eigenvalues(self) -> list[Tensor]:
        """The eigenvalues that a penalty counts: those of the hidden layers."""
        return list(self.hidden_eigenvalues)

    @property
    def recruited(self) -> list:
        """Neurons whose eigenvalue is not exactly zero, layer by layer; of members, for each."""
        return [int(count) for count in self.count_recruited()]

    def count_recruited(self, threshold: float = 0.0) -> list[Tensor]:
        """How many |eigenvalues| of each hidden layer are above ``threshold``, (members...).

        With a penalty in the loss none becomes exactly zero: then :func:`eigenvalue_gap` gives a
        threshold, where they form two clusters.
        """
        if not threshold >= 0:
            raise ValueError(f"Expected a threshold >= 0. Got {threshold!r}.")
        layers = map(whole, self.hidden_eigenvalues)
        return [(~(e.abs() <= threshold)).sum(dim=-1) for e in layers]

    def described(self, widths: Sequence[int], *options: str) -> str:
        """The widths of the layers, the activation, ``options``, and what is recruited."""
        words = [" → ".join(map(str, widths)), self.activation_name, *options]
        has_values = not self.output_eigenvalues.is_meta
        counts = zip(self.recruited, widths[1:-1], strict=True) if has_values else ()
        if recruited := ", ".join(f"{count} of {width}" for count, width in counts):
            words.append(f"recruited {recruited}")
        return ", ".join(words)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


class DenseModule(SpectralModule):
    """Base of the spectral networks whose transfers are matrices, one network or many.

    See :class:`SpectralNetwork` for the arguments. ``leading`` are dimensions that all parameters
    have before their own.
    """

    leading: tuple[int, ...] = ()

    def __init__(
        self,
        widths: Sequence[int],
        *,
        activation: str | Activation = "relu",
        bias: bool = True,
        train_input_eigenvalues: bool = False,
        update: str = "feedforward",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.widths = checked_widths(widths)
        self.set_activation(activation)
        if update not in UPDATES:
            raise ValueError(f"Expected update to be one of {', '.join(UPDATES)}. Got {update!r}.")
        self.bias = bool(bias)
        self.train_input_eigenvalues = bool(train_input_eigenvalues)
        self.update = update
        sizes = [self.widths[0] + self.bias, *self.widths[1:]]
        self._anchors = AnchorTable(
            sizes, input_is_silent=not train_input_eigenvalues, members=math.prod(self.leading)
        )

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*self.leading, *shape, device=device, dtype=dtype))

        self.transfers = nn.ParameterList([empty(n_out, n_in) for n_in, n_out in pairwise(sizes)])
        if self.train_input_eigenvalues:
            self.input_eigenvalues: Tensor = empty(sizes[0])
        else:
            zeros = torch.zeros(*self.leading, sizes[0], device=device, dtype=dtype)
            self.register_buffer("input_eigenvalues", zeros, persistent=False)
        self.hidden_eigenvalues = nn.ParameterList([empty(n) for n in sizes[1:-1]])
        self.output_eigenvalues = empty(sizes[-1])
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Give every parameter its first value."""
        raise NotImplementedError

    @property
    def in_features(self) -> int:
        """The width of the input, as ``nn.Linear`` calls it."""
        return self.widths[0]

    @property
    def out_features(self) -> int:
        """The width of the output."""
        return self.widths[-1]

    @property
    def transfer_parameters(self) -> list[nn.Parameter]:
        return list(self.transfers)

    @property
    def eigenvalues(self) -> list[Tensor]:
        """The eigenvalues of layers 0..B."""
        hidden = list(self.hidden_eigenvalues)  # older compilers cannot unpack a ParameterList
        return [self.input_eigenvalues, *hidden, self.output_eigenvalues]

    @property
    def penalised_eigenvalues(self) -> list[Tensor]:
        """The eigenvalues of the input layer where they are trained, and of the hidden layers."""
        trained = [self.input_eigenvalues] if self.train_input_eigenvalues else []
        return [*trained, *self.hidden_eigenvalues]

    def _propagate(self, input: Tensor, rows: int) -> Tensor:
        """Apply the update rule to ``input``; ``rows`` of it decide where folding is cheaper."""
        check_input(input, self.widths[0])
        parameters = (list(self.transfers), self.eigenvalues, self.activation)
        if self.update == "iterated":
            return spectral.iterated(input, *parameters, bias=self.bias)
        # In an exported graph the batch size must stay symbolic. The flag behind is_exporting():
        # the function itself says yes to torch.compile as well before torch 2.13.
        if getattr(torch.compiler, "_is_exporting_flag", torch.compiler.is_compiling()):
            anchors, has_few_rows = self._anchors.for_large_batches(), False
        else:
            anchors = self._anchors[rows, input.device.type]
            has_few_rows = not self.leading and rows < self.widths[0]
        return spectral.feedforward(
            input,
            *parameters,
            anchors=anchors,
            bias=self.bias,
            input_is_silent=not self.train_input_eigenvalues,
            has_few_rows=has_few_rows,
        )


class SpectralNetwork(DenseModule):
    """A feed-forward network with every skip connection, held by its eigenvalues and eigenvectors.

    It starts as a perceptron: the hidden eigenvalues are zero, those of the output layer one. A
    hidden neuron is *recruited* when its eigenvalue leaves zero. In the first hidden layer with
    recruits, and in a network with one hidden layer, these are exactly the neurons at work; a layer
    after one with recruits hears them through the transfers whatever its own eigenvalues are, and
    it takes :func:`extract` with data to tell which of its neurons matter.

    >>> network = SpectralNetwork([64, 200, 200, 10])
    >>> network
    SpectralNetwork(64 → 200 → 200 → 10, relu, recruited 0 of 200, 0 of 200)
    >>> network(torch.zeros(32, 64)).shape
    torch.Size([32, 10])

    Args:
        widths: neurons per layer, input and output included, the bias neuron never counted.
        activation: a name from ``ACTIVATIONS`` or any callable; not applied to the output.
        bias: append one constant unit to layer 0; through the skip connections it is every
            layer's bias.
        train_input_eigenvalues: make the eigenvalues of layer 0 parameters; otherwise they are
            zero for good.
        update: ``"feedforward"``, or ``"iterated"`` for a ← f(A a) applied B times to the whole
            activity vector, where the bias neuron is a unit like any other and starts at one.

    Shape:
        - input (..., widths[0]), output (..., widths[-1])
        - ``transfers[k]`` (widths[k+1], widths[k]), one more column for k = 0 with a bias
        - ``eigenvalues[k]`` (widths[k],), one more entry for k = 0 with a bias
    """

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Go back to a perceptron: transfers uniform, eigenvalues zero, one on the output.

        Up to three hidden layers a transfer has Xavier's variance, 2 / (N_k + N_{k+1}), with the
        arithmetic mean of the widths; in deeper networks 1 / √(N_k N_{k+1}), with the geometric
        one, under which no depth makes signals or gradients fade.
        """
        is_deep = len(self.hidden_eigenvalues) > MOST_FOR_XAVIER
        for transfer in self.transfers:
            gain = deep_gain(*transfer.shape) if is_deep else 1.0
            nn.init.xavier_uniform_(transfer, gain=gain, generator=generator)
        for eigenvalues in self.eigenvalues[:-1]:
            nn.init.zeros_(eigenvalues)
        nn.init.ones_(self.output_eigenvalues)

    @property
    def size(self) -> Size:
        """Widths, trainable numbers, and multiply-adds of the recursion without its biases."""
        parameters = sum(p.numel() for p in self.parameters())
        silent = not self.train_input_eigenvalues
        macs = spectral.recursion_cost(self.widths, input_is_silent=silent)
        return Size(self.widths, parameters, macs)

    def forward(self, input: Tensor) -> Tensor:
        return self._propagate(input, math.prod(input.shape[:-1]))

    def weight_block(self, target: int, source: int) -> Tensor:
        """W_{target,source}, (N_target, N_source): what layer ``source`` sends to ``target``."""
        return spectral.weight_block(list(self.transfers), self.eigenvalues, target, source)

    def eigenvector_matrix(self) -> Tensor:
        """Φ, (ΣN, ΣN)."""
        return spectral.eigenvector_matrix(list(self.transfers))

    def inverse_eigenvector_matrix(self) -> Tensor:
        """Φ⁻¹, (ΣN, ΣN), in closed form."""
        return spectral.inverse_by_blocks(list(self.transfers))

    def adjacency(self) -> Tensor:
        """A = Φ Λ Φ⁻¹, (ΣN, ΣN)."""
        return spectral.adjacency(list(self.transfers), self.eigenvalues)

    def extra_repr(self) -> str:
        options = {
            "no bias": not self.bias,
            "input eigenvalues trained": self.train_input_eigenvalues,
            self.update: self.update != "feedforward",
        }
        return self.described(self.widths, *(words for words, holds in options.items() if holds))


def deep_gain(n_out: int, n_in: int) -> float:
    """The root of the arithmetic over the geometric mean of the widths: what Xavier lacks."""
    return math.sqrt((n_in + n_out) / 2 / math.sqrt(n_in * n_out))


def spectral_modules(module: nn.Module) -> list[SpectralModule]:
    """Every spectral network or population inside ``module``, itself included; none is an error."""
    networks = [inner for inner in module.modules() if isinstance(inner, SpectralModule)]
    if not networks:
        raise ValueError(f"Expected a module with a SpectralNetwork inside. Got {module!r}.")
    return networks


def check_input(input: Tensor, width: int, axis: int = -1) -> None:
    """Raise a ValueError unless ``input`` has ``width`` floating-point numbers along ``axis``.

    What stands for an input while ``torch.fx`` traces is let through.
    """
    if isinstance(input, torch.fx.Proxy):
        return
    if input.dim() < -axis or input.shape[axis] != width:
        which = "last dimension is" if axis == -1 else f"dimension {axis}, the channels, is"
        shape = tuple(input.shape)
        raise ValueError(f"Expected an input whose {which} {width}. Got shape {shape}.")
    if not input.is_floating_point():
        raise ValueError(f"Expected floating-point input. Got {input.dtype}.")


def checked_widths(widths: Sequence[int]) -> tuple[int, ...]:
    """``widths`` as plain integers, or a ValueError."""
    if isinstance(widths, str) or not isinstance(widths, Sequence):
        raise ValueError(f"Expected widths to be a sequence of integers. Got {widths!r}.")
    if len(widths) < 2:
        raise ValueError(f"Expected at least two widths, input and output. Got {list(widths)!r}.")
    for width in widths:
        if isinstance(width, bool) or not isinstance(width, Integral) or width < 1:
            raise ValueError(f"Expected widths to be positive integers. Got {list(widths)!r}.")
    return tuple(int(width) for width in widths)
