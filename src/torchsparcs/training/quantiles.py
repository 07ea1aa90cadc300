"""The loss of a quantile, smooth enough for second-order fits."""

import math

from torch import Tensor
from torch.nn import functional as F

ROUNDED = 0.02  # of a standardised error: below it there is no corner


def pinball(error: Tensor, level: float) -> Tensor:
    """2 (level · e + max(−e, 0)) of errors e = y − ŷ: its mean is least at that quantile of y.

    At level 0.5 it is |e|. The corner is rounded off, max(z, 0) ≈ s log(1 + exp(z / s)).
    """
    return 2 * (level * error + ROUNDED * F.softplus(-error / ROUNDED))


def pinball_slope(error: Tensor, level: float) -> Tensor:
    """The derivative of :func:`pinball` by the error."""
    return 2 * (level - (-error / ROUNDED).sigmoid())


def quantile_level(task: str) -> float | None:
    """The level of "quantile 0.9"; None of other tasks, a ValueError where it is none."""
    name, _, level = task.partition(" ")
    if name != "quantile":
        return None
    try:
        known = float(level)
    except ValueError:
        known = math.nan
    if not 0 < known < 1:
        raise ValueError(
            f"Expected a quantile between 0 and 1, as in 'quantile 0.9'. Got {task!r}."
        )
    return known
