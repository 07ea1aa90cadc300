"""A spectral layer without hidden neurons, in the place of ``nn.Linear``."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs.spectral.equations import adjacent_block
from torchsparcs.spectral.network import check_input, checked_widths

TRAINED = ("all", "eigenvalues")


class SpectralLinear(nn.Module):
    """The two-layer case, a drop-in for ``nn.Linear``: w_ij = (λ_in,j − λ_out,i) φ_ij.

    It has no hidden neurons, so there is nothing to recruit, to penalise or to extract: its
    ``weight`` is that of the ``nn.Linear`` it stands for.

    >>> layer = SpectralLinear(20, 5, train="eigenvalues")
    >>> layer(torch.zeros(3, 20)).shape
    torch.Size([3, 5])
    >>> sum(p.numel() for p in layer.parameters() if p.requires_grad)  # 20 + 5, and 5 biases
    30

    Args:
        train: ``"all"``, or ``"eigenvalues"`` to leave the eigenvectors φ as they were drawn.

    Shape:
        - input (..., in_features), output (..., out_features)
        - ``transfer`` and ``weight`` (out_features, in_features)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias: bool = True,
        train: str = "all",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.in_features, self.out_features = checked_widths([in_features, out_features])
        if train not in TRAINED:
            raise ValueError(f"Expected train to be one of {', '.join(TRAINED)}. Got {train!r}.")
        self.trained = train

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape, device=device, dtype=dtype))

        self.transfer = empty(out_features, in_features).requires_grad_(train == "all")
        self.input_eigenvalues = empty(in_features)
        self.output_eigenvalues = empty(out_features)
        self.bias = empty(out_features) if bias else None
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the eigenvectors anew; eigenvalues zero, one on the output; no bias."""
        nn.init.xavier_uniform_(self.transfer, generator=generator)
        nn.init.zeros_(self.input_eigenvalues)
        nn.init.ones_(self.output_eigenvalues)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @property
    def weight(self) -> Tensor:
        """The weight of the equivalent ``nn.Linear``."""
        return adjacent_block(self.transfer, self.input_eigenvalues, self.output_eigenvalues)

    def forward(self, input: Tensor) -> Tensor:
        check_input(input, self.in_features)
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}, train={self.trained}"
        )
