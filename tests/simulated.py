"""Generated C on simulated chips: an ATmega328P by simavr, Cortex-M by qemu-system-arm.

The rows are in the program. Of each it says the bits of its outputs, then those of what ``predict``
returns.
"""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from generated import has

from torchsparcs.export.measuring import CHIPS

# How each says a character and ends; ARM by semihosting, which qemu understands.
AVR = """
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
static void begin(void) { UCSR0B = 1 << TXEN0; }
static void put(char c) { while (!(UCSR0A & (1 << UDRE0))); UDR0 = (uint8_t)c; }
static void end(void) { cli(); sleep_enable(); sleep_cpu(); }
#define START main
#define ROWS const PROGMEM
#define NUMBER(p) pgm_read_float(p)
"""
ARM = """
static void host(int operation, const void *argument) {
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}
static void put(char c) { host(3, &c); }
static void begin(void) {}
static void end(void) { host(0x18, (void *)0x20026); for (;;); }
int run(void);
void start(void) {
#ifdef __ARM_FP /* before anything that saves its registers */
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20;
#endif
    run();
}
__attribute__((section(".vectors"), used))
static void *const vectors[16] = { (void *)0x20004000, (void *)start };
#define START __attribute__((noinline)) run
#define ROWS const
#define NUMBER(p) (*(p))
"""
PROGRAM = """
#include <stdint.h>
#include <string.h>
#include "{name}.h"
{chip}
static ROWS float rows[] = {{ {numbers} }};
static void say(uint32_t bits) {{
    int i;
    for (i = 28; i >= 0; i -= 4) put("0123456789abcdef"[bits >> i & 15]);
    put(' ');
}}
static void say_float(float value) {{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    say(bits);
}}
int START(void) {{
    static float x[{P}_INPUTS], y[{P}_OUTPUTS];
    int row, i;
    begin();
    for (row = 0; row < {count}; row++) {{
        for (i = 0; i < {P}_INPUTS; i++) x[i] = NUMBER(rows + row * {P}_INPUTS + i);
        {name}_outputs(x, y);
        for (i = 0; i < {P}_OUTPUTS; i++) say_float(y[i]);
        {answer}
        put('\\n');
    }}
    end();
    return 0;
}}
"""
LINK = """
MEMORY { FLASH (rx) : ORIGIN = 0, LENGTH = 256K
         RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 16K }
SECTIONS { .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) *(.ARM.*) } > FLASH
           .data : { *(.data*) } > RAM AT > FLASH
           .bss : { *(.bss*) *(COMMON) } > RAM
           end = .; }
"""
QEMU = ("qemu-system-arm", "-nographic", "-semihosting-config", "enable=on,target=native")
SIMULATORS = {
    "avr": ("simavr", "-m", "atmega328p", "-f", "16000000"),
    "cortex-m4": (*QEMU, "-M", "mps2-an386", "-kernel"),
    "cortex-m0": (*QEMU, "-M", "microbit", "-kernel"),
}


def needs(chip: str) -> None:
    """Skip a test where the compiler or the simulator is not here."""
    for program in (CHIPS[chip].compiler, SIMULATORS[chip][0]):
        if not has(program):
            pytest.skip(f"no {program}")


def run_on(chip: str, folder: Path, name: str, rows: np.ndarray) -> np.ndarray:
    """Outputs and the answer of ``name``.h in ``folder`` to each row, float32."""
    numbers = ", ".join(f"{value:.9g}" for value in rows.ravel().tolist())
    numbers = numbers.replace("nan", "(0.0f / 0.0f)").replace("inf", "(1.0f / 0.0f)")
    gives_several = f"void {name}_predict(" in (folder / f"{name}.h").read_text()
    source = PROGRAM.format(
        chip=AVR if chip == "avr" else ARM,
        name=name,
        P=name.upper(),
        count=len(rows),
        numbers=numbers,
        answer="" if gives_several else f"say_float((float){name}_predict(x));",
    )
    (folder / "program.c").write_text(source)
    (folder / "link.ld").write_text(LINK)
    known = CHIPS[chip]
    bare = [] if chip == "avr" else ["-nostartfiles", "-T", "link.ld"]
    command = [known.compiler, *known.options, "-Os", "-std=gnu99", "-DF_CPU=16000000UL", *bare]
    made = [*command, "program.c", "-o", "program.elf", "-lm"]
    subprocess.run(made, cwd=folder, check=True, timeout=120)
    run = subprocess.run(
        [*SIMULATORS[chip], "program.elf"], cwd=folder, capture_output=True, text=True, timeout=120
    )
    lines = re.findall(r"(?:[0-9a-f]{8} )+", run.stdout + run.stderr)  # simavr colours them
    bits = [[int(word, 16) for word in line.split()] for line in lines]
    return np.array(bits, dtype=np.uint32).view(np.float32)
