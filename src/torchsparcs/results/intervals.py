"""Prediction intervals of a regression from the errors on rows that networks were not fitted to.

Of n such rows and one more that is like them, the error of the last is as likely to be of any rank:
with probability at least c it is at most the ⌈(n + 1) c⌉-th smallest of the others (split conformal
prediction; V. Vovk, A. Gammerman and G. Shafer, *Algorithmic learning in a random world*, 2005).
The errors are those of networks made in the same way from fewer rows, as in the cross-conformal
kind.
"""

import math

import numpy as np
from torch import Tensor

from torchsparcs.tables.target import Target

ROUNDING = 1e-9  # of a rank: 0.9 · 10 is 9


def interval_around(
    output: Tensor, residuals: Tensor | None, rows: int, coverage: float, target: Target
) -> np.ndarray:
    """From and to, (rows, 2) or (rows, outputs, 2), in the units of ``target``.

    Args:
        output: raw, (rows, outputs).
        residuals: (some, outputs), see :class:`torchsparcs.judging.judgement.Judgement`.
        rows: that these are of.
    """
    if residuals is None:
        raise ValueError(
            "Expected a regression whose errors were kept, for intervals. Got none: of classes "
            "there are probabilities, and older folders have no errors."
        )
    most = rows / (rows + 1)
    if not 0 < coverage <= most:
        hint = f": {coverage:g} % is {coverage / 100:g}" if 1 < coverage < 100 else ""
        raise ValueError(
            f"Expected a coverage above 0 and up to {most:.4f}, as {rows:,} rows can tell. Got "
            f"{coverage!r}{hint}."
        )
    rank = math.ceil((rows + 1) * coverage - ROUNDING)
    half = residuals[math.ceil(rank * len(residuals) / rows - ROUNDING) - 1]
    middle = target.bounded(output.detach().cpu().double())
    ends = [target.in_units(middle + side * half) for side in (-1, 1)]
    found = np.stack(ends, axis=-1)
    return found[:, 0] if target.outputs == 1 else found
