"""What do whole numbers cost: score and bytes of networks of int8 beside those of float.

The built-in tables, 70 % of their rows to search in (short searches) and to fit int8 to; every
network of the front is scored on the other rows, in float and in int8 as the C computes it. Bytes
are those of flash on a Cortex-M4, where its compiler is here.

    python benchmarks/int8.py
"""

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np
from recording import RESULTS, record
from sklearn.model_selection import train_test_split

from torchsparcs import SearchConfig, quantize, search, to_c
from torchsparcs.export.measuring import CHIPS, measure
from torchsparcs.tables.datasets import BUILT_IN, load_dataset

CHIP = "cortex-m4"


def measured(table: str, seed: int, steps: int) -> list[dict]:
    """Score and bytes of each network of a front."""
    dataset = load_dataset(table)
    X, others, y, truth = train_test_split(dataset.X, dataset.y, test_size=0.3, random_state=seed)
    config = SearchConfig(steps=steps, ways=("asleep",))
    result = search(X, y, widths=(16,), config=config, seed=seed, progress=False)
    rows = []
    for candidate in result.front:
        network = result.deployed(candidate)
        small = quantize(network, X)
        rows.append(
            {
                "parameters": candidate.parameters,
                "float": result.score(others, truth, candidate),
                "int8": small.score(others, truth),
                "float_flash": _flash(network),
                "int8_flash": _flash(small),
            }
        )
    return rows


def _flash(network: object) -> int | None:
    if shutil.which(CHIPS[CHIP].compiler) is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        to_c(network, Path(folder, "model.h"))
        return measure(Path(folder, "model.h"), CHIP).flash


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=[*BUILT_IN], default=[*BUILT_IN])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    tables, change = {}, {}
    for table in arguments.tables:
        tables[table] = [measured(table, seed, arguments.steps) for seed in range(arguments.seeds)]
        found = [row["int8"] - row["float"] for front in tables[table] for row in front]
        change[table] = {"mean": np.mean(found), "worst": min(found), "networks": len(found)}
        print(table, change[table], flush=True)
    print(record("int8", "cpu", {"chip": CHIP, "change": change, "tables": tables}, arguments.out))


if __name__ == "__main__":
    main()
