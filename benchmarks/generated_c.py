"""Is generated C the network, row by row, and what does int8 change, on real tables?

For each table of a folder a short search; networks of its front, eight at most from the smallest to
the largest, leave as C, in float and in int8, compiled with strict warnings as errors by gcc and by
clang, and by gcc with sanitizers, and answer 10,000 rows: those of the table and, beyond them, rows
whose columns are drawn one by one. Numbers are given as the C takes them, float32. The answers are
held against torch's (float) and against numpy's whole numbers (int8, which have to be equal), and
the scores of both on rows that nobody has seen. Bytes are those of a Cortex-M4, a Cortex-M0 and an
ATmega328P, where their compilers are here.

    python benchmarks/generated_c.py --tables FOLDER
"""

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from by_size.preparing import listed
from recording import RESULTS, record
from table_runs import TableRun, table_run

from torchsparcs import QuantizedNetwork, quantize, to_c
from torchsparcs.export.arrays import data_bytes
from torchsparcs.export.folding import program_of
from torchsparcs.export.measuring import CHIPS, measure
from torchsparcs.training.tasks import resolve_task

ROWS = 10_000
MOST_NETWORKS = 8  # of a front
MEASURED = ("cortex-m4", "cortex-m0", "avr")
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
SANITIZED = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
BUILDS = {
    "gcc": ("gcc", *STRICT, "-O2"),
    "clang": ("clang", *STRICT, "-O2"),
    "sanitized": ("gcc", *STRICT, *SANITIZED),
}
HOST = """
static int run_{name}(void)
{{
    float x[{P}_INPUTS], y[{P}_OUTPUTS];
    while (fread(x, sizeof x, 1, stdin) == 1) {{
        {name}_outputs(x, y);
        fwrite(y, sizeof y, 1, stdout);
    }}
    return 0;
}}
"""


def host(folder: Path, names: list[str]) -> Path:
    """A C file that answers rows on its input by the header that its argument names."""
    text = "#include <stdio.h>\n#include <string.h>\n"
    text += "".join(f'#include "{name}.h"\n' for name in names)
    text += "".join(HOST.format(name=name, P=name.upper()) for name in names)
    text += "int main(int count, char **words)\n{\n    if (count < 2) return 1;\n"
    text += "".join(
        f'    if (!strcmp(words[1], "{name}")) return run_{name}();\n' for name in names
    )
    (folder / "host.c").write_text(text + "    return 1;\n}\n")
    return folder / "host.c"


def builds(source: Path) -> dict[str, Path]:
    """The programs by the compilers that are here."""
    made = {}
    for name, command in BUILDS.items():
        if shutil.which(command[0]):
            unused = "-Wno-unused-function"  # predict and its like, in this host
            made[name] = source.with_name(name)
            subprocess.run([*command, unused, source, "-o", made[name], "-lm"], check=True)
    return made


def answers(program: Path, name: str, rows: np.ndarray) -> np.ndarray:
    given = np.ascontiguousarray(rows, dtype=np.float32).tobytes()
    said = subprocess.run([program, name], input=given, capture_output=True, check=True)
    return np.frombuffer(said.stdout, dtype=np.float32).reshape(len(rows), -1)


def more_rows(x: pd.DataFrame, count: int) -> pd.DataFrame:
    """The rows of ``x`` and others whose columns are drawn one by one; numbers as float32."""
    draw = np.random.default_rng(0)
    drawn = {name: x[name].iloc[draw.integers(0, len(x), count)].array for name in x}
    whole = pd.concat([x.iloc[:count], pd.DataFrame(drawn)[: max(0, count - len(x))]])
    numbers = [name for name in x if pd.api.types.is_float_dtype(x[name])]
    return whole.astype(dict.fromkeys(numbers, np.float32)).reset_index(drop=True)


def networks(run: TableRun) -> Iterator[tuple[str, object, object]]:
    """Each network of the front by a name, with what is exported, in float and in int8."""
    x = run.rows(run.train)
    front = run.result.front
    for place in sorted({*np.linspace(0, len(front) - 1, MOST_NETWORKS).astype(int).tolist()}):
        candidate = front[place]
        deployed = run.result.deployed(candidate)
        yield f"n{place}f", candidate, deployed
        yield f"n{place}q", candidate, quantize(deployed, x)


def measured(run: TableRun) -> dict:
    """The largest differences, scores and bytes of each network of a front."""
    result, rows, found = run.result, more_rows(run.table.x, ROWS), []
    test, y = run.rows(run.test), run.table.y[run.test]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = [*networks(run)]
        for name, _, network in made:
            to_c(network, folder / f"{name}.h")
        programs = builds(host(folder, [name for name, _, _ in made]))
        for name, candidate, network in made:
            is_int8 = isinstance(network, QuantizedNetwork)
            program = network.program if is_int8 else program_of(network)
            given = program.rows(rows)
            if is_int8:
                expected = network.answers(given)
                score = network.score(test, y)
            else:
                raw = result.outputs(rows, candidate)
                expected = in_units(result, raw)
                said, truth = result.outputs(test, candidate), result.target.transform(y)
                score = resolve_task(result.target.task).score(said, truth).item()
            size = np.abs(expected).max()
            found.append(
                {
                    "parameters": candidate.parameters,
                    "int8": is_int8,
                    "score": score,
                    "data": data_bytes(network if is_int8 else program),
                    "flash": flash(folder / f"{name}.h"),
                    "difference": {
                        build: float(np.abs(answers(path, name, given) - expected).max() / size)
                        for build, path in programs.items()
                    },
                }
            )
    return {"rows": len(rows), "networks": found}


def in_units(result: object, raw: torch.Tensor) -> np.ndarray:
    """Outputs of the network as the C has them: values in their own units, or logits."""
    target = result.target
    if target.task != "regression":
        return raw.numpy()
    return raw.double().numpy() * np.array(target.scale) + np.array(target.mean)


def flash(header: Path) -> dict[str, int]:
    there = [chip for chip in MEASURED if shutil.which(CHIPS[chip].compiler)]
    return {chip: measure(header, chip).flash for chip in there}


def summary(tables: dict[str, dict]) -> dict:
    """Over the tables: the largest difference, the change of score, the share of bytes."""
    change, worst, shares, data = [], {"float": 0.0, "int8": 0.0}, {}, {}
    for table in tables.values():
        floats = [each for each in table["networks"] if not each["int8"]]
        whole = [each for each in table["networks"] if each["int8"]]
        pairs = [*zip(floats, whole, strict=True)]
        change.append(np.mean([b["score"] - a["score"] for a, b in pairs]))
        for kind, some in (("float", floats), ("int8", whole)):
            worst[kind] = max([worst[kind], *(max(e["difference"].values()) for e in some)])
        for a, b in pairs:
            ends = (25, 100, 200, 500, np.inf)
            size = next(f"up to {end}" for end in ends if a["parameters"] <= end)
            data.setdefault(size, []).append(b["data"] / a["data"])
            for chip, bytes_ in a["flash"].items():
                some = shares.setdefault(chip, {}).setdefault(size, [])
                some.append(b["flash"][chip] / bytes_)
    return {
        "largest_relative_difference": worst,
        "int8_change_of_score": {"mean": np.mean(change), "worst_table": min(change)},
        "int8_share_of_data": {size: np.mean(some) for size, some in data.items()},
        "int8_share_of_flash": {
            chip: {size: np.mean(some) for size, some in by_size.items()}
            for chip, by_size in shares.items()
        },
        "networks": sum(len(table["networks"]) for table in tables.values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, required=True, help="folder of tables")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these tables")
    parser.add_argument("--runs", type=Path, help="folder that keeps the searches")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    tables = {}
    with tempfile.TemporaryDirectory() as kept:
        for name in arguments.only or listed(arguments.tables):
            run = table_run(arguments.tables, name, arguments.runs or Path(kept))
            tables[name] = measured(run)
            print(name, summary({name: tables[name]}), flush=True)
    found = summary(tables)
    print(found)
    about = {"chips": MEASURED, "builds": {name: " ".join(c) for name, c in BUILDS.items()}}
    print(record("generated_c", "cpu", {**about, **found, "tables": tables}, arguments.out))


if __name__ == "__main__":
    main()
