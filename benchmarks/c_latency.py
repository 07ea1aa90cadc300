"""How fast is generated C, row by row, and how many bytes of a chip does it take?

Microseconds of one row on one core: the compact network in float and in int8, loops that a person
would write for it (all by gcc -O2), and the same network in onnxruntime and in torch, at batch 1,
in the same run. The networks are those of latency.py. Bytes of flash are counted for the chips
whose compilers are here.

    python benchmarks/c_latency.py
"""

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from latency import CASES, microseconds, onnx_session, recruited
from recording import RESULTS, record

from torchsparcs import CompactNetwork, extract, quantize, to_c
from torchsparcs.export.measuring import CHIPS, measure

HEADERS = {"float": "floats", "int8": "bytes"}

ROWS = 64  # that are put through in turn
CALLS = 20  # between two looks at the clock: few, so that most are not interrupted by others
HOST = """#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "{name}.h"
#include "rows.h"
static double times[100000];
static int ascending(const void *a, const void *b)
{{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}}
static double now(void)
{{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}}
int main(void)
{{
    static float y[{outputs}];
    volatile float sum = 0;
    const double end = now() + {microseconds};
    int count = 0, i;
    while (count < 100000 && (count == 0 || now() < end)) {{
        const double start = now();
        for (i = 0; i < {calls}; i++) {{
            {name}_{answer}(rows[i % {rows}], y);
            sum = sum + y[0];
        }}
        times[count++] = (now() - start) / {calls};
    }}
    qsort(times, (size_t)count, sizeof *times, ascending);
    printf("%.9g", times[count / 2]);
    return 0;
}}
"""
BY_HAND = """
static void hand_outputs(const float *x, float *y)
{{
    float h[{hidden}];
    for (int j = 0; j < {hidden}; j++) {{
        float sum = b1[j];
        for (int i = 0; i < {inputs}; i++)
            sum += w1[j][i] * x[i];
        h[j] = sum > 0 ? sum : 0;
    }}
    for (int j = 0; j < {outputs}; j++) {{
        float sum = b2[j];
        for (int i = 0; i < {inputs}; i++)
            sum += skip[j][i] * x[i];
        for (int i = 0; i < {hidden}; i++)
            sum += w2[j][i] * h[i];
        y[j] = sum;
    }}
}}
"""


def measured(case: str, seconds: float, folder: Path) -> dict:
    """Microseconds of a row, medians, and bytes of flash by chip."""
    torch.manual_seed(0)
    network = extract(recruited(*CASES[case]))
    rows = torch.randn(ROWS, network.widths[0])
    session, given = onnx_session(network, network.widths[0], folder), {"input": rows[:1].numpy()}
    with torch.inference_mode():
        torch_time = microseconds(lambda: network(rows[:1]), seconds)
    onnx_time = microseconds(lambda: session.run(None, given), seconds)
    (folder / "rows.h").write_text(array_of("rows", rows))
    to_c(network, folder / "floats.h")
    to_c(quantize(network, torch.randn(1000, network.widths[0])), folder / "bytes.h")
    (folder / "hand.h").write_text(_by_hand(network))
    return {
        "architecture": network.architecture,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "c": clocked("floats", network.widths[-1], seconds, folder),
        "c_int8": clocked("bytes", network.widths[-1], seconds, folder),
        "c_by_hand": clocked("hand", network.widths[-1], seconds, folder),
        "onnxruntime": onnx_time,
        "torch": torch_time,
        "flash": {
            chip: {key: _bytes(folder / f"{name}.h", chip) for key, name in HEADERS.items()}
            for chip, known in CHIPS.items()
            if shutil.which(known.compiler)
        },
    }


def _bytes(header: Path, chip: str) -> int | None:
    """Bytes of flash, None where it does not fit."""
    try:
        return measure(header, chip).flash
    except ValueError:
        return None


def _by_hand(network: CompactNetwork) -> str:
    """Loops for one hidden layer with a skip connection."""
    inputs, hidden, outputs = network.widths
    first, last, skip = network.block(1, 0), network.block(2, 1), network.block(2, 0)
    arrays = {"w1": first.weight, "b1": first.bias, "w2": last.weight}
    arrays |= {"skip": skip.weight, "b2": skip.bias}
    text = "".join(array_of(name, values.detach()) for name, values in arrays.items())
    return text + BY_HAND.format(inputs=inputs, hidden=hidden, outputs=outputs)


def array_of(name: str, values: torch.Tensor) -> str:
    shape = "".join(f"[{size}]" for size in values.shape)
    rows = np.atleast_2d(values.numpy())
    lines = (", ".join(f"{value:.9e}f" for value in row) for row in rows)
    content = ", ".join(lines if values.dim() == 1 else (f"{{{line}}}" for line in lines))
    return f"static const float {name}{shape} = {{{content}}};\n"


def clocked(
    name: str, outputs: int, seconds: float, folder: Path, answer: str = "outputs"
) -> float:
    """Microseconds of a row of ``rows.h``, the median, by a function of a header in ``folder``."""
    source = folder / "clock.c"
    options = {"microseconds": seconds * 1e6, "calls": CALLS, "rows": ROWS, "answer": answer}
    source.write_text(HOST.format(name=name, outputs=outputs, **options))
    command = ["gcc", "-std=c99", "-O2", source, "-o", folder / "clock", "-lm"]
    subprocess.run(command, check=True, timeout=120)
    said = subprocess.run([folder / "clock"], check=True, capture_output=True, text=True)
    return float(said.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="time spent on each number")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    compiler = subprocess.run(["gcc", "--version"], check=True, capture_output=True, text=True)
    note = {
        "unit": "microseconds per row, median",
        "compiler": f"{compiler.stdout.splitlines()[0]}, -O2",
        "load": round(os.getloadavg()[0], 1),
    }
    cases = {}
    for case in arguments.cases:
        with tempfile.TemporaryDirectory() as folder:
            cases[case] = measured(case, arguments.seconds, Path(folder))
        print(case, cases[case], flush=True)
    print(record("c_latency", "cpu", {**note, "cases": cases}, arguments.out))


if __name__ == "__main__":
    main()
