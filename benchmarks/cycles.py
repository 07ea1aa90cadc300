"""How long does one row take on a chip? Cycles of an AVR, instructions of Cortex-M, in simulators.

The networks of c_latency.py as generated C, in float and in int8, counted by
`torchsparcs/export/timing.py`.

    apt install simavr qemu-system-arm gcc-avr avr-libc gcc-arm-none-eabi libnewlib-arm-none-eabi
    python benchmarks/cycles.py
"""

import argparse
import tempfile
from pathlib import Path

import torch
from latency import CASES, recruited
from recording import RESULTS, record

from torchsparcs import extract, quantize, to_c
from torchsparcs.export.timing import SIMULATORS, row_time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=["digits", "teacher-student"])
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    cases: dict[str, dict] = {}
    for case in arguments.cases:
        torch.manual_seed(0)
        network = extract(recruited(*CASES[case]))
        small = quantize(network, torch.randn(1000, network.widths[0]))
        cases[case] = {"architecture": network.architecture}
        for chip in SIMULATORS:
            for kind, each in (("float", network), ("int8", small)):
                for level in ("-Os", "-O2"):
                    with tempfile.TemporaryDirectory() as folder:
                        to_c(each, Path(folder, "model.h"))
                        found = row_time(Path(folder, "model.h"), chip, level)
                    cases[case][f"{chip}, {kind}, {level}"] = found
        print(case, cases[case], flush=True)
    units = {"avr": "cycles by simavr", "cortex-m": "instructions by qemu-system-arm"}
    print(record("cycles", "cpu", {"units": units, "cases": cases}, arguments.out))


if __name__ == "__main__":
    main()
