"""Between which values the columns of a table lie."""

import numpy as np
from torch import Tensor

from torchsparcs.tables.preprocessing import Inputs

NEAR = 1e-3  # a whole number that went through float32


def ranges_of(inputs: Inputs, rows: Tensor) -> dict[str, list[float]]:
    """By column of numbers its least and largest value, and the step between numbers.

    The step is 1 where all are whole numbers, else 0.

    What is at the mean of ``rows`` (rows, encoded), which are standardised, may be missing and does
    not count.
    """
    found: dict[str, list[float]] = {}
    place = 0
    for column in inputs.columns:
        if column.kind == "number":
            values = rows[:, place].double().cpu().numpy()
            values = values[values != 0] * inputs.scale[place] + inputs.mean[place]
            if len(values):
                low, high = (float(f"{end:.6g}") for end in (values.min(), values.max()))
                step = float((np.abs(values - np.round(values)) < NEAR).all())
                found[column.name] = [low, high, step]
        place += len(column.encoded_names)
    return found
