"""What is the best score within 256 bytes, 1, 4 and 16 kB of flash: our networks, or trees as C?

For some tables of a folder, one split: a short search, whose networks leave as C in float and in
int8, beside gradient boosting (LightGBM) cut to many sizes, which m2cgen writes as C, and random
forests of many sizes, which emlearn writes as C of 16-bit integers (it has no boosting). All of it
is compiled for a Cortex-M4 and for a Cortex-M0, which has no floats, and measured in the same way:
the bytes by which a program grows that calls it. Trees take the encoded numbers of
`by_size/preparing.py`, whose encoding is not counted, nor is that as 16-bit integers; ours has its
preprocessing inside. Doubles of m2cgen are made floats, and single-precision constants. Of each
method the predictor with the best score on rows of the training part (a fifth of them for trees,
which are then fitted to all; folds for ours) that fits is taken to the test rows, once.

    pip install -c constraints.txt lightgbm m2cgen emlearn
    python benchmarks/flash_front.py --tables FOLDER
"""

import argparse
import itertools
import re
import subprocess
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

import emlearn
import lightgbm
import m2cgen
import numpy as np
from by_size.preparing import Split, load, prepared
from recording import RESULTS, record
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import train_test_split
from table_runs import MOST_ROWS, SPLIT, TableRun, table_run

from torchsparcs import quantize, to_c
from torchsparcs.export.measuring import CHIPS, measure

np.seterr(all="warn", under="ignore")  # as numpy has them; emlearn makes exceptions of all of them

TABLES = ("vowel", "phoneme", "german", "pima", "insurance", "car_prices")
BUDGETS = (256, 1000, 4000, 16_000)
MEASURED = ("cortex-m4", "cortex-m0")
TREES, LEAVES, RATES = (1, 2, 4, 8, 16, 32, 64), (2, 4, 8, 16), (0.1, 0.3, 1.0)
FORESTS = (1, 2, 4, 8, 16, 32)  # trees of a forest
FOREST_LEAVES = (2, 4, 8, 16, 32, 64)
LARGEST_INTEGER = 30_000  # of a number that emlearn's trees take
PROGRAM = """
#include <string.h>
{code}
static volatile {type} given[{inputs}];
static volatile float got[{outputs}];
static volatile int chosen;
int main(void) {{
    {type} x[{inputs}];
    float y[{outputs}] = {{ 0 }};
    int i;
    for (i = 0; i < {inputs}; i++) x[i] = given[i];
    {call}
    for (i = 0; i < {outputs}; i++) got[i] = y[i];
    return 0;
}}
"""

# A decision needs no probabilities, in our programs neither.
WITHOUT_SHARES = """
static void softmax(float *x, int size, float *y) { memcpy(y, x, sizeof(float) * (size_t)size); }
static float sigmoid(float x) { return x > 0; }
static
"""
LARGEST = """float p[N];
    int best = 0;
    score(x, p);
    for (i = 1; i < N; i++) if (p[i] > p[best]) best = i;
    chosen = best;"""


def halves(split: Split) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the training part to fit to, and those to choose by."""
    stratify = split.y if split.classes else None
    return train_test_split(
        np.arange(len(split.y)), test_size=0.2, random_state=0, stratify=stratify
    )


def boosting(split: Split, folder: Path) -> list[dict]:
    """Boosting of many sizes: bytes, score on rows to choose by, score on the test rows."""
    fit, held = halves(split)
    kind = lightgbm.LGBMClassifier if split.classes else lightgbm.LGBMRegressor
    found = []
    for trees, leaves, rate in itertools.product(TREES, LEAVES, RATES):
        if trees * leaves * max(1, split.classes if split.classes > 2 else 1) > 1500:
            continue  # beyond the largest budget by far
        options = {"n_estimators": trees, "num_leaves": leaves, "learning_rate": rate}
        options |= {"min_child_samples": 5, "n_jobs": 1, "random_state": 0, "verbose": -1}
        judged = kind(**options).fit(split.x[fit], split.y[fit])
        model = kind(**options).fit(split.x, split.y)
        code = re.sub(r"\bdouble\b", "float", m2cgen.export_to_c(model))
        code = WITHOUT_SHARES + code[re.search(r"(void|float) score\(", code).start() :]
        code = f"#define N {max(2, split.classes)}\n{code}"
        call = LARGEST if split.classes else "y[0] = score(x);"
        found.append(
            {
                "name": f"{trees} trees of {leaves} leaves, rate {rate}",
                "bytes": tree_bytes(code, call, "float", split, folder),
                "validation": float(judged.score(split.x[held], split.y[held])),
                "test": float(model.score(split.x_test, split.y_test)),
            }
        )
    return found


def forests(split: Split, folder: Path) -> list[dict]:
    """The same of random forests on integers."""
    fit, held = halves(split)
    kind = RandomForestClassifier if split.classes else RandomForestRegressor
    scale = LARGEST_INTEGER / np.maximum(np.abs(split.x).max(axis=0), 1e-30)
    x, x_test = (
        np.clip(part * scale, -(2**15), 2**15 - 1).astype(np.int16)
        for part in (split.x, split.x_test)
    )
    found = []
    for trees, leaves in itertools.product(FORESTS, FOREST_LEAVES):
        if trees * leaves > 1500:
            continue
        options = {"n_estimators": trees, "max_leaf_nodes": leaves, "random_state": 0}
        judged = kind(**options).fit(x[fit], split.y[fit])
        model = kind(**options).fit(x, split.y)
        made = emlearn.convert(model, method="inline", dtype="int16_t")
        code = made.save(name="forest", include_proba=False)
        call = f"{'chosen' if split.classes else 'y[0]'} = forest_predict(x, {x.shape[1]});"
        found.append(
            {
                "name": f"{trees} trees of {leaves} leaves",
                "bytes": tree_bytes(code, call, "int16_t", split, folder),
                "validation": float(judged.score(x[held], split.y[held])),
                "test": float(model.score(x_test, split.y_test)),
            }
        )
    return found


def tree_bytes(code: str, call: str, kind: str, split: Split, folder: Path) -> dict[str, int]:
    """Flash that a program of each chip grows by, which calls the trees for their decision."""
    words = {"inputs": split.x.shape[1], "outputs": 1, "type": kind}
    empty = PROGRAM.format(code="#include <stdint.h>", call="chosen = 0; y[0] = x[0];", **words)
    whole = PROGRAM.format(code=code, call=call, **words)
    return {
        chip: compiled(whole, folder, chip) - compiled(empty, folder, chip) for chip in MEASURED
    }


@cache
def compiled(source: str, folder: Path, name: str) -> int:
    (folder / "program.c").write_text(source)
    chip = CHIPS[name]
    options = ("-Os", "-std=gnu99", "-fsingle-precision-constant", "-ffunction-sections")
    command = [chip.compiler, *chip.options, *options, "-Wl,--gc-sections", "program.c"]
    subprocess.run([*command, "-o", "program", "-lm"], cwd=folder, check=True)
    size = subprocess.run(
        [chip.size, "program"], cwd=folder, check=True, capture_output=True, text=True
    )
    return sum(map(int, size.stdout.splitlines()[1].split()[:2]))


def ours(run: TableRun, folder: Path) -> list[dict]:
    """The networks of the front, in float and in int8, by their own folds where those are known."""
    result, found = run.result, []
    test, y = run.rows(run.test), run.table.y[run.test]
    for candidate in result.front:
        deployed = result.deployed(candidate)
        small = quantize(deployed, run.rows(run.train))
        in_int8 = candidate.score if candidate.int8_score is None else candidate.int8_score
        kinds = {
            "float": (deployed, candidate.score, result.score(test, y, candidate)),
            "int8": (small, in_int8, small.score(test, y)),
        }
        for kind, (network, judged, score) in kinds.items():
            to_c(network, folder / "model.h")
            found.append(
                {
                    "name": f"{candidate.parameters} parameters, {kind}",
                    "bytes": {c: measure(folder / "model.h", c).flash for c in MEASURED},
                    "validation": judged,
                    "test": score,
                }
            )
    return found


def within(points: list[dict], budget: int, chip: str) -> dict | None:
    """The best by validation that fits; of equal ones the smallest."""
    fitting = [point for point in points if point["bytes"][chip] <= budget]
    return max(fitting, key=lambda p: (p["validation"], -p["bytes"][chip]), default=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, required=True, help="folder of tables")
    parser.add_argument("--only", nargs="+", default=TABLES, metavar="NAME")
    parser.add_argument("--runs", type=Path, help="folder that keeps the searches")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    tables = {}
    with tempfile.TemporaryDirectory() as kept:
        for name in arguments.only:
            folder, runs = Path(kept), arguments.runs or Path(kept)
            split = prepared(load(arguments.tables, name), SPLIT, MOST_ROWS)
            points = {
                "ours": ours(table_run(arguments.tables, name, runs), folder),
                "boosting": boosting(split, folder),
                "forest": forests(split, folder),
            }
            best = {
                chip: {
                    budget: {who: within(some, budget, chip) for who, some in points.items()}
                    for budget in BUDGETS
                }
                for chip in MEASURED
            }
            tables[name] = {"best": best, "points": points}
            for chip, budget in itertools.product(MEASURED, BUDGETS):
                each = best[chip][budget]
                words = (f"{w} {p['test']:.4f} ({p['bytes'][chip]})" for w, p in each.items() if p)
                print(name, chip, budget, ", ".join(words), flush=True)
    versions = {name: version(name) for name in ("lightgbm", "m2cgen", "emlearn")}
    results = {"chips": MEASURED, "peers": versions, "tables": tables}
    print(record("flash_front", "cpu", results, arguments.out))


if __name__ == "__main__":
    main()
