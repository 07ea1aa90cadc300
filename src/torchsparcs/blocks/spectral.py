"""Plain blocks with an eigenvalue for each hidden unit, in the place where they stand.

The layers of a block are those of a spectral network between adjacent layers,

    W_in = φ_in ⊙ (0 − λ),   W_out = φ_out ⊙ (λ − L),

and what stands between them is the model's own. There is no skip connection around the block: in a
residual model the residual is one. A unit is silent where λ = 0, for good reason only if what
stands between makes nothing of nothing; so that is looked at.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from torchsparcs.blocks.finding import Block
from torchsparcs.blocks.layers import NORMS, axis_of, is_transposed, weight_of
from torchsparcs.blocks.tracing import called
from torchsparcs.spectral import equations
from torchsparcs.spectral.layer_kinds import CONVOLUTIONS
from torchsparcs.spectral.network import SpectralModule
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


class Written(nn.Module):
    """A factor −λ of the rows that write a unit, in one of several chunks of them."""

    def __init__(self, block: SpectralBlock, axis: int, chunk: int, chunks: int):
        super().__init__()
        self.block, self.axis, self.chunk, self.chunks = block, axis, chunk, chunks

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


class Read(nn.Module):
    """The factors λ − L of the weights that read units; ``outputs`` are those of this layer."""

    def __init__(self, block: SpectralBlock, outputs: slice, is_transposed: bool):
        super().__init__()
        self.block, self.outputs, self.is_transposed = block, outputs, is_transposed

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
    name, axis, chunk, chunks = _port(model, block, example)
    port = model.get_submodule(name)
    outputs = [weight_of(reader).shape[0] for reader in readers]
    spectral = SpectralBlock(block, sum(outputs), weight_of(readers[0]).detach())
    for tensor in ("weight", "bias"):
        if getattr(port, tensor, None) is not None:
            where = axis if tensor == "weight" else 0
            _register(port, tensor, Written(spectral, where, chunk, chunks))
    start = 0
    for reader, count in zip(readers, outputs, strict=True):
        read = Read(spectral, slice(start, start + count), is_transposed(reader))
        _register(reader, "weight", read)
        start += count
    return spectral


def _register(module: nn.Module, tensor: str, factor: nn.Module) -> None:
    parametrize.register_parametrization(module, tensor, factor, unsafe=True)


def _port(model: nn.Module, block: Block, example: Any) -> tuple[str, int, int, int]:
    """Where units are scaled: a module, the axis of its weight, a chunk of the rows, of how many.

    The last normalisation or depthwise convolution before the readers, which no other would undo;
    else a writer. Of a gate and its value it is the value.
    """
    scalable = [name for name in block.between if _is_scalable(model.get_submodule(name))]
    normed = any(isinstance(model.get_submodule(name), NORMS) for name in block.between)
    ports = [(name, 0, 0, 1) for name in scalable[:1]]
    for name in () if scalable or normed else block.writers:
        writer = model.get_submodule(name)
        chunks = weight_of(writer).shape[0] // block.units
        axis = 1 if is_transposed(writer) else 0
        ports += [(name, axis, chunk, chunks) for chunk in range(chunks)]
    silent = [port for port in ports if _heard(model, block, example, port, 0.0)[1]]
    if not silent:
        raise ValueError(
            f"Expected units that are silent where nothing is written, at {block.names[0]!r}: an "
            "activation with f(0) = 0, a normalisation with weights. Got others."
        )
    (whole, _) = _heard(model, block, example, silent[0], 1.0)
    for port in silent:
        twice, _ = _heard(model, block, example, port, 2.0)
        if all(torch.allclose(2 * a, b) for a, b in zip(whole, twice, strict=True)):
            return port
    return silent[0]


def _is_scalable(module: nn.Module) -> bool:
    is_norm = isinstance(module, NORMS) and getattr(module, "weight", None) is not None
    return is_norm or isinstance(module, CONVOLUTIONS)


def _heard(
    model: nn.Module, block: Block, example: Any, port: tuple[str, int, int, int], factor: float
) -> tuple[list[Tensor], bool]:
    """What readers hear where a port says ``factor`` times what it does, and whether that is 0."""
    name, _, chunk, chunks = port
    module, heard = model.get_submodule(name), list[Tensor]()

    def scaled(_: nn.Module, __: tuple, output: Tensor) -> Tensor:
        parts = [part.clone() for part in output.chunk(chunks, dim=_channel_axis(module, output))]
        parts[chunk] *= factor
        return torch.cat(parts, dim=_channel_axis(module, output))

    def keep(_: nn.Module, inputs: tuple, named: dict) -> None:
        heard.append((*inputs, *named.values())[0].clone())

    hooks = [module.register_forward_hook(scaled)]
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
    return heard, not any(one.any() for one in heard)


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
        isinstance(one, (Written, Read))
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
        if name.endswith(inner) and any(getattr(one, "block", None) is spectral for one in part):
            start = name.removesuffix(inner)
            if not start or start.endswith("."):
                return block.moved(start)
    raise ValueError(
        f"Expected the layers of {block} under the names they had, in whatever is around "
        "the model. Got a model in which they are not."
    )
