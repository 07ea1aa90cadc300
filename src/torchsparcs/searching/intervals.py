"""Prediction intervals of a regression from the errors on rows that networks were not fitted to.

Of n such rows and one more that is like them, the error of the last is as likely to be of any rank:
with probability at least c it is at most the ⌈(n + 1) c⌉-th smallest of the others (split conformal
prediction; V. Vovk, A. Gammerman and G. Shafer, *Algorithmic learning in a random world*, 2005).
The errors are those of networks made in the same way from fewer rows, as in the cross-conformal
kind.
"""

import math
from typing import Any

from torch import Tensor


def half_widths(candidate: Any, rows: int, coverage: float) -> Tensor:
    """How far from a prediction an interval ends, standardised, (outputs,).

    Args:
        candidate: with the residuals that were kept of it, (some, outputs).
        rows: that judged it.
    """
    kept = candidate.residuals
    if kept is None:
        raise ValueError(
            "Expected a regression whose errors were kept, for intervals. Got none: of classes "
            "there are probabilities, and older folders have no errors."
        )
    most = rows / (rows + 1)
    if not 0 < coverage <= most:
        raise ValueError(
            f"Expected a coverage above 0 and up to {most:.4f}, as {rows:,} rows can tell. Got "
            f"{coverage!r}."
        )
    rank = math.ceil((rows + 1) * coverage - 1e-9)
    return kept[math.ceil(rank * len(kept) / rows - 1e-9) - 1]
