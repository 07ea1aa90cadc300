"""How long does one row take on a chip? Cycles of an AVR, instructions of Cortex-M, in simulators.

The networks of c_latency.py as generated C, in float and in int8. An ATmega328P is simulated by
simavr, with the cycles that each instruction takes there. Cortex-M0 and Cortex-M4 run under
qemu-system-arm with one instruction for each nanosecond of its clock: what is counted are
instructions, not cycles, of which a chip takes one to three for each.

    apt install simavr qemu-system-arm gcc-avr avr-libc gcc-arm-none-eabi libnewlib-arm-none-eabi
    python benchmarks/cycles.py
"""

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

import torch
from latency import CASES, recruited
from recording import RESULTS, record

from torchsparcs import extract, quantize, to_c
from torchsparcs.export.measuring import CHIPS

CALLS = 100  # of Cortex-M, whose clock is coarse
AVR = """
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#include <stdio.h>
#include "model.h"
static volatile uint16_t high;
ISR(TIMER1_OVF_vect) { high++; }
static int put(char c, FILE *file) {
    (void)file;
    while (!(UCSR0A & (1 << UDRE0)));
    UDR0 = c;
    return 0;
}
static FILE out = FDEV_SETUP_STREAM(put, NULL, _FDEV_SETUP_WRITE);
static volatile float given[MODEL_INPUTS], got;
int main(void) {
    static float x[MODEL_INPUTS], y[MODEL_OUTPUTS];
    uint16_t low, i;
    for (i = 0; i < MODEL_INPUTS; i++) x[i] = given[i] + 0.3f;
    UCSR0B = 1 << TXEN0;
    stdout = &out;
    TIMSK1 = 1 << TOIE1;
    sei();
    TCCR1B = 1;
    model_outputs(x, y);
    low = TCNT1;
    TCCR1B = 0;
    got = y[0];
    printf("cycles %lu\\r\\n", ((uint32_t)high << 16) + low);
    cli();
    sleep_enable();
    sleep_cpu();
    return 0;
}
"""
ARM = """
#include <stdint.h>
#include "model.h"
#define CONTROL (*(volatile uint32_t *)0xE000E010)
#define RELOAD (*(volatile uint32_t *)0xE000E014)
#define NOW (*(volatile uint32_t *)0xE000E018)
static volatile float given[MODEL_INPUTS], got;
static void host(int operation, const void *argument) {
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}
static void say(uint32_t value) {
    char text[24] = "ticks ";
    int i = 23, k;
    do text[--i] = (char)('0' + value % 10); while (value /= 10);
    for (k = 6; i < 23;) text[k++] = text[i++];
    text[k++] = '\\n';
    text[k] = 0;
    host(4, text);
}
__attribute__((noinline)) static void run(void) {
    static float x[MODEL_INPUTS], y[MODEL_OUTPUTS];
    uint32_t begun, i;
    for (i = 0; i < MODEL_INPUTS; i++) x[i] = given[i] + 0.3f;
    RELOAD = 0xFFFFFF;
    NOW = 0;
    CONTROL = 5;
    begun = NOW;
    for (i = 0; i < CALLS; i++) {
        model_outputs(x, y);
        got = y[0];
    }
    say((begun - NOW) & 0xFFFFFF);
    host(0x18, (void *)0x20026);
}
void start(void) {
#ifdef __ARM_FP /* before anything that saves its registers */
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20;
#endif
    run();
    for (;;);
}
__attribute__((section(".vectors"), used))
static void *const vectors[16] = { (void *)0x20004000, (void *)start };
"""
LINK = """
MEMORY { FLASH (rx) : ORIGIN = 0, LENGTH = 256K
         RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 16K }
SECTIONS { .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) *(.ARM.*) } > FLASH
           .data : { *(.data*) } > RAM AT > FLASH
           .bss : { *(.bss*) *(COMMON) } > RAM
           end = .; }
"""
MACHINES = {"cortex-m4": ("mps2-an386", 25e6), "cortex-m0": ("microbit", 16e6)}  # and their clocks


def counted(chip: str, folder: Path, level: str) -> float | None:
    """Cycles or instructions of a row; None where the network does not fit."""
    known = CHIPS[chip]
    (folder / "program.c").write_text(AVR if chip == "avr" else ARM)
    (folder / "link.ld").write_text(LINK)
    command = [known.compiler, *known.options, level, "-std=gnu99", f"-DCALLS={CALLS}"]
    command += ["-DF_CPU=16000000UL"] if chip == "avr" else ["-nostartfiles", "-T", "link.ld"]
    made = subprocess.run(
        [*command, "program.c", "-o", "program.elf", "-lm"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if made.returncode:
        if "overflow" in made.stderr or "will not fit" in made.stderr:
            return None
        raise SystemExit(made.stderr)
    if chip == "avr":
        found = _said(["simavr", "-m", "atmega328p", "-f", "16000000", "program.elf"], folder)
        return int(found)
    machine, clock = MACHINES[chip]
    run = ["qemu-system-arm", "-M", machine, "-nographic", "-icount", "shift=0"]
    run += ["-semihosting-config", "enable=on,target=native", "-kernel", "program.elf"]
    return int(_said(run, folder)) * 1e9 / clock / CALLS


def _said(command: list[str], folder: Path) -> str:
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    return re.findall(r"(?:cycles|ticks) (\d+)", run.stdout + run.stderr)[0]


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
        for chip in ("avr", *MACHINES):
            for kind, each in (("float", network), ("int8", small)):
                for level in ("-Os", "-O2"):
                    with tempfile.TemporaryDirectory() as folder:
                        to_c(each, Path(folder, "model.h"))
                        found = counted(chip, Path(folder), level)
                    cases[case][f"{chip}, {kind}, {level}"] = found and round(found)
        print(case, cases[case], flush=True)
    units = {"avr": "cycles by simavr", "cortex-m": "instructions by qemu-system-arm"}
    print(record("cycles", "cpu", {"units": units, "cases": cases}, arguments.out))


if __name__ == "__main__":
    main()
