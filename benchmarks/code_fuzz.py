"""Does generated C ever do more than answer, whatever the bits of its input?

Networks drawn as in flash.py leave as C, in float and in int8, and are compiled with the sanitizers
for addresses and undefined behaviour, conversions of floats included; in int8 also as chips have
it that have no floats, which compute with their bits. Each then meets rows of
hostile numbers: random bits, NaN, infinities, the ends of float32, denormals, codes and what is
next to them. An answer has to be a class that there is, probabilities of int8 have to be shares,
and its values finite.

    python benchmarks/code_fuzz.py
"""

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

from flash import drawn
from recording import RESULTS, record

from torchsparcs import to_c

SANITIZERS = "address,undefined,float-cast-overflow,float-divide-by-zero"
BUILDS = {"float": ("gcc", "clang"), "int8": ("gcc", "clang", "gcc -DMODEL_WITHOUT_FLOATS")}
HOST = """#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model.h"
static uint64_t state = {seed}u;
static uint32_t bits(void)
{{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}}
static float number(void)
{{
    static const uint32_t known[] = {{ 0x7FC00000u, 0xFFC00000u, 0x7F800001u, 0x7F800000u,
        0xFF800000u,
        0x7F7FFFFFu, 0xFF7FFFFFu, 0u, 0x80000000u, 1u, 0x80000001u, 0x00800000u, 0x4F000000u,
        0xCF000000u, 0x4EFFFFFFu, 0x42FE0000u, 0xC2FE0000u, 0x3F000000u, 0xBF800000u }};
    const uint32_t kind = bits() % 4;
    uint32_t chosen = kind == 0 ? bits() : known[bits() % (sizeof known / sizeof *known)];
    float v;
    if (kind == 2)
        return (float)(bits() % 12) - 2;
    if (kind == 3)
        return ((float)(bits() % 20001) - 10000) / 2500;
    memcpy(&v, &chosen, sizeof v);
    return v;
}}
static void expect(int is_so, const char *what)
{{
    if (!is_so) {{
        puts(what);
        exit(1);
    }}
}}
int main(void)
{{
    float x[MODEL_INPUTS], y[MODEL_OUTPUTS];
    long row;
    int i;
    for (row = 0; row < {rows}L; row++) {{
        for (i = 0; i < MODEL_INPUTS; i++)
            x[i] = number();
        model_outputs(x, y);
{checks}
    }}
    return 0;
}}
"""
FINITE = '        for (i = 0; i < MODEL_OUTPUTS; i++) expect(y[i] - y[i] == 0, "no number");\n'
CLASS = '        i = model_predict(x);\n        expect(i >= 0 && i < MODEL_CLASSES, "no class");\n'
SHARES = """        {
            float p[MODEL_CLASSES], sum = 0;
            model_predict_proba(x, p);
            for (i = 0; i < MODEL_CLASSES; i++) {
                expect(p[i] >= 0 && p[i] <= 1, "no share");
                sum += p[i];
            }
            expect(sum > 0.999f && sum < 1.001f, "no shares");
        }
"""
VALUE = "        (void)model_predict(x);\n"
VALUES = "        model_predict(x, y);\n"


def fuzzed(network: object, kind: str, seed: int, rows: int, folder: Path) -> list[str]:
    """What was found in one network, by each of its builds."""
    to_c(network, folder / "model.h")
    text = (folder / "model.h").read_text()
    checks = FINITE if kind == "int8" else ""
    if "MODEL_CLASSES" in text:
        checks += CLASS + (SHARES if kind == "int8" else "")
    else:
        checks += VALUE if re.search(r"model_predict\(const float \*x\)", text) else VALUES
    (folder / "host.c").write_text(HOST.format(seed=seed + 1, rows=rows, checks=checks))
    found = []
    for build in BUILDS[kind]:
        command = [*build.split(), "-std=c99", "-O1", "-g", f"-fsanitize={SANITIZERS}"]
        command += ["-fno-sanitize-recover=all", "host.c", "-o", "host", "-lm"]
        subprocess.run(command, cwd=folder, check=True)
        run = subprocess.run([folder / "host"], capture_output=True, text=True)
        if run.returncode:
            found.append(f"{build}, seed {seed}, {kind}: {(run.stdout + run.stderr)[:500]}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="of all networks together")
    parser.add_argument("--networks", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    networks = [(s, each) for s in range(arguments.networks) for each in drawn(s)]
    builds = sum(len(BUILDS[each.kind]) for _, each in networks)
    rows = -(-arguments.rows // builds)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seed, each in networks:
            found += fuzzed(each.network, each.kind, seed, rows, Path(folder))
            print(f"{seed} {each.kind}: {len(found)} found", flush=True)
    results = {
        "sanitizers": SANITIZERS,
        "builds": BUILDS,
        "networks": len(networks),
        "rows": rows * builds,
        "found": found,
    }
    print(record("code_fuzz", "cpu", results, arguments.out))


if __name__ == "__main__":
    main()
