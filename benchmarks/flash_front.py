"""What is the best score within 256 bytes, 1, 4 and 16 kB of flash: our networks, or boosting as C?

For some tables of a folder, one split: a short search, whose networks leave as C in float and in
int8, beside gradient boosting (LightGBM) cut to many sizes, which m2cgen writes as C. All of it is
compiled for a Cortex-M4 and measured in the same way: the bytes by which a program grows that calls
it. Boosting takes the encoded numbers of `by_size/preparing.py`, whose encoding is not counted;
ours has its preprocessing inside. Its doubles are made floats, and single-precision constants. Of
each method the predictor with the best score on rows of the training part (a fifth of them for
boosting, which is then fitted to all; folds for ours) that fits is taken to the test rows, once.

    pip install -c constraints.txt lightgbm m2cgen
    python benchmarks/flash_front.py --tables FOLDER
"""

import argparse
import itertools
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import lightgbm
import m2cgen
import numpy as np
from by_size.preparing import Split, load, prepared
from recording import RESULTS, record
from sklearn.model_selection import train_test_split
from table_runs import MOST_ROWS, SPLIT, TableRun, table_run

from torchsparcs import quantize, to_c
from torchsparcs.export.measuring import CHIPS, measure

TABLES = ("vowel", "phoneme", "german", "pima", "insurance", "car_prices")
BUDGETS = (256, 1000, 4000, 16_000)
CHIP = "cortex-m4"
TREES, LEAVES, RATES = (1, 2, 4, 8, 16, 32, 64), (2, 4, 8, 16), (0.1, 0.3, 1.0)
PROGRAM = """
#include <string.h>
{code}
static volatile float given[{inputs}], got[{outputs}];
int main(void) {{
    float x[{inputs}], y[{outputs}] = {{ 0 }};
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
    score(x, p);
    y[0] = 0;
    for (i = 1; i < N; i++) if (p[i] > p[(int)y[0]]) y[0] = (float)i;"""


def boosting(split: Split, folder: Path) -> list[dict]:
    """Boosting of many sizes: bytes, score on rows to choose by, score on the test rows."""
    rows = np.arange(len(split.y))
    stratify = split.y if split.classes else None
    fit, held = train_test_split(rows, test_size=0.2, random_state=0, stratify=stratify)
    kind = lightgbm.LGBMClassifier if split.classes else lightgbm.LGBMRegressor
    found = []
    for trees, leaves, rate in itertools.product(TREES, LEAVES, RATES):
        if trees * leaves * max(1, split.classes if split.classes > 2 else 1) > 1500:
            continue  # beyond the largest budget by far
        options = {"n_estimators": trees, "num_leaves": leaves, "learning_rate": rate}
        options |= {"min_child_samples": 5, "n_jobs": 1, "random_state": 0, "verbose": -1}
        judged = kind(**options).fit(split.x[fit], split.y[fit])
        model = kind(**options).fit(split.x, split.y)
        found.append(
            {
                "name": f"{trees} trees of {leaves} leaves, rate {rate}",
                "bytes": tree_bytes(model, split, folder),
                "validation": float(judged.score(split.x[held], split.y[held])),
                "test": float(model.score(split.x_test, split.y_test)),
            }
        )
    return found


def tree_bytes(model: object, split: Split, folder: Path) -> int:
    """Flash that a program grows by, which calls the trees for their sums and takes the largest."""
    code = re.sub(r"\bdouble\b", "float", m2cgen.export_to_c(model))
    code = WITHOUT_SHARES + code[re.search(r"(void|float) score\(", code).start() :]
    code = f"#define N {max(2, split.classes)}\n{code}"
    call = LARGEST if split.classes else "y[0] = score(x);"
    words = {"inputs": split.x.shape[1], "outputs": 1}
    empty = PROGRAM.format(code="", call="y[0] = x[0];", **words)
    return compiled(PROGRAM.format(code=code, call=call, **words), folder) - compiled(empty, folder)


@cache
def compiled(source: str, folder: Path) -> int:
    (folder / "program.c").write_text(source)
    chip = CHIPS[CHIP]
    options = ("-Os", "-std=gnu99", "-fsingle-precision-constant", "-ffunction-sections")
    command = [chip.compiler, *chip.options, *options, "-Wl,--gc-sections", "program.c"]
    subprocess.run([*command, "-o", "program", "-lm"], cwd=folder, check=True)
    size = subprocess.run(
        [chip.size, "program"], cwd=folder, check=True, capture_output=True, text=True
    )
    return sum(map(int, size.stdout.splitlines()[1].split()[:2]))


def ours(run: TableRun, folder: Path) -> list[dict]:
    """The networks of the front, in float and in int8."""
    result, found = run.result, []
    test, y = run.rows(run.test), run.table.y[run.test]
    for candidate in result.front:
        deployed = result.deployed(candidate)
        small = quantize(deployed, run.rows(run.train))
        tests = {"float": result.score(test, y, candidate), "int8": small.score(test, y)}
        for (kind, score), network in zip(tests.items(), (deployed, small), strict=True):
            to_c(network, folder / "model.h")
            found.append(
                {
                    "name": f"{candidate.parameters} parameters, {kind}",
                    "bytes": measure(folder / "model.h", CHIP).flash,
                    "validation": candidate.score,
                    "test": score,
                }
            )
    return found


def within(points: list[dict], budget: int) -> dict | None:
    """The best by validation that fits; of equal ones the smallest."""
    fitting = [point for point in points if point["bytes"] <= budget]
    return max(fitting, key=lambda point: (point["validation"], -point["bytes"]), default=None)


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
            points = {
                "ours": ours(table_run(arguments.tables, name, runs), folder),
                "boosting": boosting(
                    prepared(load(arguments.tables, name), SPLIT, MOST_ROWS), folder
                ),
            }
            best = {
                budget: {who: within(some, budget) for who, some in points.items()}
                for budget in BUDGETS
            }
            tables[name] = {"best": best, "points": points}
            for budget, each in best.items():
                words = (f"{who} {p['test']:.4f} ({p['bytes']})" for who, p in each.items() if p)
                print(name, budget, ", ".join(words), flush=True)
    versions = {"lightgbm": lightgbm.__version__, "m2cgen": m2cgen.__version__}
    results = {"chip": CHIP, "peers": versions, "tables": tables}
    print(record("flash_front", "cpu", results, arguments.out))


if __name__ == "__main__":
    main()
