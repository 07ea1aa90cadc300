"""Plain blocks with an eigenvalue for each hidden unit, in the place where they stand.

The layers of a block are those of a spectral network between adjacent layers,

    W_in = φ_in ⊙ (0 − λ),   W_out = φ_out ⊙ (λ − L),

and what stands between them is the model's own. There is no skip connection around the block: in a
residual model the residual is one. A unit is silent where λ = 0, for good reason only if what
stands between makes nothing of nothing; so that is looked at.
"""

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from torchsparcs.blocks.finding import Block
from torchsparcs.blocks.layers import NORMS, axis_of, is_transposed, weight_of
from torchsparcs.spectral import equations
from torchsparcs.spectral.layer_kinds import CONVOLUTIONS
from torchsparcs.spectral.network import SpectralModule
from torchsparcs.training.nests import called
from torchsparcs.training.tasks import evaluation_mode


class SpectralBlock(SpectralModule):
    """The eigenvalues of a block whose layers are those of a model.

    All units are recruited at first, with λ = −1; the output eigenvalues are one.

    Shape:
        - ``hidden_eigenvalues[0]`` (units,), ``output_eigenvalues`` (outputs of all readers,)
    """

    def __init__(self, block: Block, outputs: int, like: Tensor):
        super().__init__()
        self.block = block
        self.set_activation("identity")  # what stands between is the model's
        self.hidden_eigenvalues = nn.ParameterList([-like.new_ones(block.units)])
        self.output_eigenvalues = nn.Parameter(like.new_ones(outputs))

    @property
    def transfer_parameters(self) -> list[nn.Parameter]:
        """None: the layers are the model's, and are decayed as it likes."""
        return []

    def extra_repr(self) -> str:
        return f"{self.block}, recruited {self.recruited[0]:,}"


class Factors(nn.Module):
    """What scales a weight by the eigenvalues of ``block``, which is a part of the model elsewhere.

    Trainers refuse to save a tensor that has several names.
    """

    def __init__(self, block: SpectralBlock):
        super().__init__()
        self._block = (block,)  # in a tuple it is no part of this one

    @property
    def block(self) -> SpectralBlock:
        return self._block[0]


class Written(Factors):
    """A factor −λ of the rows that write a unit, in one of several chunks of them."""

    def __init__(self, block: SpectralBlock, axis: int, chunk: int, chunks: int):
        super().__init__(block)
        self.axis, self.chunk, self.chunks = axis, chunk, chunks

    def _factor(self, like: Tensor) -> Tensor:
        own = -self.block.hidden_eigenvalues[0].to(like.dtype)
        parts = [torch.ones_like(own)] * self.chunks
        parts[self.chunk] = own
        shape = [1] * like.dim()
        shape[self.axis] = -1
        return torch.cat(parts).view(shape)

    def forward(self, original: Tensor) -> Tensor:
        return original * self._factor(original)

    def right_inverse(self, value: Tensor) -> Tensor:
        return value / self._factor(value)


class Read(Factors):
    """The factors λ − L of the weights that read units; ``outputs`` are those of this layer."""

    def __init__(self, block: SpectralBlock, outputs: slice, is_transposed: bool):
        super().__init__(block)
        self.outputs, self.is_transposed = outputs, is_transposed

    def _factor(self, like: Tensor) -> Tensor:
        """(out, in) or the other way round, and ones for positions."""
        eigenvalues = self.block.hidden_eigenvalues[0].to(like.dtype)
        columns = like.shape[0 if self.is_transposed else 1]
        source = eigenvalues.repeat_interleave(columns // len(eigenvalues))
        target = self.block.output_eigenvalues[self.outputs].to(like.dtype)
        factor = equations.adjacent_block(torch.ones_like(source), source, target)
        factor = factor.T if self.is_transposed else factor
        return factor.view(*factor.shape, *[1] * (like.dim() - 2))

    def forward(self, original: Tensor) -> Tensor:
        return original * self._factor(original)

    def right_inverse(self, value: Tensor) -> Tensor:
        return value / self._factor(value)


@torch.no_grad()
def spectralize_block_(model: nn.Module, block: Block, example: Any) -> SpectralBlock:
    """Give the units of ``block`` eigenvalues, in ``model`` itself; what it computes stays."""
    readers = [model.get_submodule(name) for name in block.readers]
    ports = _ports(model, block, example)
    outputs = [weight_of(reader).shape[0] for reader in readers]
    spectral = SpectralBlock(block, sum(outputs), weight_of(readers[0]).detach())
    for name, axis, chunk, chunks in ports:
        port = model.get_submodule(name)
        for tensor in ("weight", "bias"):
            if getattr(port, tensor, None) is not None:
                where = axis if tensor == "weight" else 0
                _register(port, tensor, Written(spectral, where, chunk, chunks))
    start = 0
    for reader, count in zip(readers, outputs, strict=True):
        read = Read(spectral, slice(start, start + count), is_transposed(reader))
        if not start:
            read.eigenvalues = spectral
        _register(reader, "weight", read)
        start += count
    return spectral


def _register(module: nn.Module, tensor: str, factor: nn.Module) -> None:
    parametrize.register_parametrization(module, tensor, factor, unsafe=True)


class Port(NamedTuple):
    """A module that units pass, the axis of them in its weight, a chunk of rows, of how many."""

    name: str
    axis: int = 0
    chunk: int = 0
    chunks: int = 1


def _ports(model: nn.Module, block: Block, example: Any) -> list[Port]:
    """Where units are scaled: as few places as can silence them.

    The last normalisation or depthwise convolution before the readers, which no other would undo;
    else a writer, of a gate and its value the value; several where branches are added.
    """
    ports = [Port(name) for name in block.between if _is_scalable(model.get_submodule(name))]
    if not any(isinstance(model.get_submodule(name), NORMS) for name in block.between):
        for name in () if ports else block.writers:
            writer = model.get_submodule(name)
            chunks, axis = weight_of(writer).shape[0] // block.units, int(is_transposed(writer))
            ports += [Port(name, axis, chunk, chunks) for chunk in range(chunks)]

    def heard(some: Sequence[Port], factor: float) -> list[Tensor]:
        return _heard(model, block, example, some, factor)

    def is_silent(some: Sequence[Port]) -> bool:
        return not any(one.any() for one in heard(some, 0.0))

    if not ports or not is_silent(ports):
        raise ValueError(
            f"Expected units that are silent where nothing is written, at {block.names[0]!r}: an "
            "activation with f(0) = 0, a normalisation with weights. Got others."
        )
    alone = [port for port in ports if is_silent([port])]
    if len(alone) > 1 and not block.between:
        whole = heard([], 1.0)
        for port in alone:
            twice = heard([port], 2.0)
            if all(torch.allclose(2 * a, b) for a, b in zip(whole, twice, strict=True)):
                return [port]
    if alone:
        return alone[:1]
    for port in reversed([*ports]):
        others = [other for other in ports if other is not port]
        ports = others if is_silent(others) else ports
    return ports


def _is_scalable(module: nn.Module) -> bool:
    is_norm = isinstance(module, NORMS) and getattr(module, "weight", None) is not None
    return is_norm or isinstance(module, CONVOLUTIONS)


def _heard(
    model: nn.Module, block: Block, example: Any, ports: Sequence[Port], factor: float
) -> list[Tensor]:
    """What readers hear where ``ports`` say ``factor`` times what they do."""
    heard: list[Tensor] = []

    def scaled(port: Port, module: nn.Module, _: tuple, output: Tensor) -> Tensor:
        axis = _channel_axis(module, output)
        parts = [part.clone() for part in output.chunk(port.chunks, dim=axis)]
        parts[port.chunk] *= factor
        return torch.cat(parts, dim=axis)

    def keep(_: nn.Module, inputs: tuple, named: dict) -> None:
        heard.append((*inputs, *named.values())[0].clone())

    hooks = [
        model.get_submodule(port.name).register_forward_hook(partial(scaled, port))
        for port in ports
    ]
    hooks += [
        model.get_submodule(reader).register_forward_pre_hook(keep, with_kwargs=True)
        for reader in block.readers
    ]
    try:
        with evaluation_mode(model):
            called(model, example)
    finally:
        for hook in hooks:
            hook.remove()
    return heard


def _channel_axis(module: nn.Module, output: Tensor) -> int:
    return 1 if isinstance(module, NORMS) else output.dim() + axis_of(module)


# --- back to plain layers -------------------------------------------------------------------------


def spectral_blocks(model: nn.Module) -> list[SpectralBlock]:
    """The blocks of ``model`` that have eigenvalues."""
    return [part for part in model.modules() if isinstance(part, SpectralBlock)]


def made_plain(model: nn.Module) -> tuple[nn.Module, list[tuple[Block, Tensor]]]:
    """A copy with the factors inside its layers; the blocks by their names in it, and their λ."""
    blocks = spectral_blocks(model)
    found = [(_renamed(model, one), one.hidden_eigenvalues[0].detach().clone()) for one in blocks]
    memo: dict[int, Any] = {
        id(module): _plain(module) for module in model.modules() if _has_factors(module)
    }
    return copy.deepcopy(model, memo), found


def _has_factors(module: nn.Module) -> bool:
    return parametrize.is_parametrized(module) and any(
        isinstance(one, Factors)
        for chain in module.parametrizations.values()  # type: ignore[operator]
        for one in chain
    )


def _plain(module: Any) -> nn.Module:
    """A copy of ``module`` of the class it had before, with what it computes as parameters.

    ``remove_parametrizations`` would change a class that copies share.
    """
    kind: Any = type(module).__mro__[1]  # torch puts one of its own before it
    plain = kind.__new__(kind)
    rest = {name: value for name, value in module.__dict__.items() if name != "_modules"}
    plain.__dict__.update(copy.deepcopy(rest))
    others = {name: one for name, one in module._modules.items() if name != "parametrizations"}
    plain.__dict__["_modules"] = copy.deepcopy(others)
    own = {
        name: nn.Parameter(getattr(module, name).detach().clone(), chain.original.requires_grad)
        for name, chain in module.parametrizations.items()
    }
    known = {**plain._parameters, **own}
    first = [name for name in ("weight", "bias") if name in known]
    plain._parameters = {name: known[name] for name in dict.fromkeys([*first, *known])}
    return plain


def _renamed(model: nn.Module, spectral: SpectralBlock) -> Block:
    """The block of ``spectral`` in ``model``, which may be around the one it was made in."""
    block = spectral.block
    known = block.readers[0]
    inner = f"{known}.parametrizations.weight"
    for name, part in model.named_modules(remove_duplicate=False):
        if name.endswith(inner) and any(_reads(one, spectral) for one in part):
            start = name.removesuffix(inner)
            if not start or start.endswith("."):
                return block.moved(start)
    raise ValueError(
        f"Expected the layers of {block} under the names they had, in whatever is around "
        "the model. Got a model in which they are not."
    )


def _reads(one: nn.Module, spectral: SpectralBlock) -> bool:
    return isinstance(one, Read) and one.block is spectral
