"""Between which values columns lie."""

import numpy as np
import pandas as pd
import pytest

from torchsparcs.results.ranges import ranges_of
from torchsparcs.tables.preprocessing import Inputs


def test_the_least_and_largest_of_numbers():
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": draw.uniform(10, 20, 500),
            "town": draw.choice(["a", "b", "c"], 500),
            "rooms": draw.integers(1, 6, 500),
        }
    )
    frame.loc[:40, "rooms"] = np.nan  # filled with the mean, which is no whole number
    inputs = Inputs.fit(frame)
    found = ranges_of(inputs, inputs.transform(frame))
    assert list(found) == ["size", "rooms"]
    low, high = frame["size"].min(), frame["size"].max()
    assert found["size"] == [pytest.approx(low, rel=1e-4), pytest.approx(high, rel=1e-4), 0]
    assert found["rooms"] == [1, 5, 1]
