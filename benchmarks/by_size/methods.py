"""Who takes part. A method is a function from a `Split` to ``{"points": [point(...), ...]}``.

A point is a predictor of some size: `parameters` (None: it has only bytes), `bytes`, the score
`validation` by which it is chosen, and `test` and `loss` on the test rows. A method may add `pick`,
the place of the point it hands out by default, and a point a `family`, whose curve is then measured
too.
"""

from collections.abc import Callable
from functools import partial

from by_size.adamw import Schedule, mlps_by_adamw
from by_size.boosting import boosting, unlimited_boosting
from by_size.lassonet_path import lassonet
from by_size.linear import linear
from by_size.mlps import Effort, mlps_by_lbfgs
from by_size.ours import ours
from by_size.preparing import Split
from by_size.tabm_reference import tabm

METHODS: dict[str, Callable[[Split], dict]] = {
    "ours": ours,
    "linear": linear,
    "lbfgs": mlps_by_lbfgs,
    "adamw": mlps_by_adamw,
    "boosting": boosting,
    "unlimited boosting": unlimited_boosting,
    "lassonet": lassonet,
    "tabm": tabm,
}
PACKAGES = {"lassonet": ("lassonet",), "tabm": ("tabm", "rtdl_num_embeddings")}  # of their authors
TWICE = Effort(
    decays=tuple(10 ** (power / 2) for power in range(-8, 6)), starts=4, fold_starts=2, steps=400
)
LONGER = Schedule(rates=(1e-3, 3e-3, 6e-3, 1e-2, 3e-2, 6e-2), steps=3_000, starts=4)
DOUBLED: dict[str, Callable[[Split], dict]] = {  # is the effort of the plain ones enough?
    "lbfgs doubled": partial(mlps_by_lbfgs, effort=TWICE),
    "adamw doubled": partial(mlps_by_adamw, schedule=LONGER),
}
