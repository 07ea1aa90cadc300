"""The same call gives the same networks: whatever is in memory, in hashes, or in other threads."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent

# Two tables: numbers with copies of columns, text and weights.
SCRIPT = """
import sys
import numpy as np, pandas as pd, torch
from outcomes import digest
from torchsparcs import SearchConfig, search

torch.set_num_threads(int(sys.argv[1]))
draw = np.random.default_rng(0)
x = draw.normal(size=(60, 3))
text = pd.DataFrame({"a": x[:, 0], "b": np.where(x[:, 1] > 0, "up", "down"), "c": ["p", "q"] * 30})
calls = [
    (np.hstack([x, x]), np.abs(x[:, 0]) - x[:, 1], {}),
    (text, np.where(x[:, 0] + x[:, 1] > 0, "yes", "no"), {"sample_weight": draw.random(60)}),
]
config = SearchConfig(steps=20, longest=20, path=1, shrink=0.3)
for X, y, options in calls:
    result = search(X, y, widths=(8,), config=config, progress=False, **options)
    print(digest(result), result.smallest().architecture)
"""


def found(threads: int, hashes: int, memory: int) -> list[str]:
    """What a fresh process finds; memory that nobody has set is full of the inverse of a byte."""
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    others = {"PYTHONHASHSEED": str(hashes), "MALLOC_PERTURB_": str(memory), "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(threads)],
        env=os.environ | others,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_few_rows_give_the_same_bits_with_any_number_of_threads():
    first = found(1, hashes=1, memory=255)  # zeros
    assert len({*first}) == 2
    assert found(2, hashes=2, memory=191) == first
