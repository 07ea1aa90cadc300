"""How long generated C takes for one row: cycles of an AVR, instructions of Cortex-M, simulated.

An ATmega328P is simulated by simavr, with the cycles that each instruction takes there. Cortex-M0
and Cortex-M4 run under qemu-system-arm with one instruction for each nanosecond of its clock: what
is counted are instructions, not cycles, of which a chip takes one to three for each.
"""

import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from torchsparcs.export.measuring import called, known_chip, lacking, output_of

SECONDS = 20  # that a simulator may take
CALLS = 100  # of Cortex-M, whose clock is coarse
QEMU = ("qemu-system-arm", "-nographic", "-icount", "shift=0")
SEMIHOSTING = ("-semihosting-config", "enable=on,target=native", "-kernel")
PROGRAM = """
#include <stdint.h>
#include "network.h"
#define INPUTS {inputs}
#define CALLS {calls}
static float y[{outputs}];
static volatile int chosen;
static volatile float given, got; /* zero, of which compilers do not know */
__attribute__((noinline)) static void answer(const float *x) {{ {call} got = y[0]; }}
"""
AVR = """
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#include <stdio.h>
static volatile uint16_t high;
ISR(TIMER1_OVF_vect) { high++; }
static int put(char c, FILE *file) {
    (void)file;
    while (!(UCSR0A & (1 << UDRE0)));
    UDR0 = c;
    return 0;
}
static FILE out = FDEV_SETUP_STREAM(put, NULL, _FDEV_SETUP_WRITE);
int main(void) {
    static float x[INPUTS];
    uint16_t low, i;
    for (i = 0; i < INPUTS; i++) x[i] = given + 0.3f;
    UCSR0B = 1 << TXEN0;
    stdout = &out;
    TIMSK1 = 1 << TOIE1;
    sei();
    TCCR1B = 1;
    answer(x);
    low = TCNT1;
    TCCR1B = 0;
    printf("ticks %lu\\r\\n", ((uint32_t)high << 16) + low);
    cli();
    sleep_enable();
    sleep_cpu();
    return 0;
}
"""
ARM = """
#define CONTROL (*(volatile uint32_t *)0xE000E010)
#define RELOAD (*(volatile uint32_t *)0xE000E014)
#define NOW (*(volatile uint32_t *)0xE000E018)
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
    static float x[INPUTS];
    uint32_t begun, i;
    for (i = 0; i < INPUTS; i++) x[i] = given + 0.3f;
    RELOAD = 0xFFFFFF;
    NOW = 0;
    CONTROL = 5;
    begun = NOW;
    for (i = 0; i < CALLS; i++) answer(x);
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


class Simulator(NamedTuple):
    """What runs a program for a chip.

    Attributes:
        command: its name, which is that of its Debian package, and options.
        program: what is run, after ``PROGRAM``.
        options: of the compiler.
        unit: what is counted.
        worth: how many of these one tick of the clock that it says is, for one call.
        megahertz: at which cycles become time; 0 where they are not counted.
    """

    command: tuple[str, ...]
    program: str
    options: tuple[str, ...]
    unit: str
    worth: float = 1
    megahertz: int = 0


BARE = ("-nostartfiles", "-T", "link.ld")
SIMULATORS = {
    "avr": Simulator(
        ("simavr", "-m", "atmega328p", "-f", "16000000"),
        AVR,
        ("-DF_CPU=16000000UL", "-Wl,--defsym=__DATA_REGION_LENGTH__=0x800"),
        "cycles",
        megahertz=16,
    ),
    "cortex-m4": Simulator(
        (*QEMU, "-M", "mps2-an386", *SEMIHOSTING), ARM, BARE, "instructions", 1e3 / 25 / CALLS
    ),
    "cortex-m0": Simulator(
        (*QEMU, "-M", "microbit", *SEMIHOSTING), ARM, BARE, "instructions", 1e3 / 16 / CALLS
    ),
}


def lacking_simulator(chip: str) -> str:
    """The simulator of ``chip`` that is not here, and what to install; "" where it is."""
    program = SIMULATORS[chip].command[0]
    there = shutil.which(program) is not None
    return "" if there else f"{program} is not here; on Debian: apt install {program}"


def row_time(header: Path, chip: str, level: str = "-Os") -> int:
    """Cycles or instructions that one call of ``predict`` of ``header`` takes."""
    if words := lacking(chip) or lacking_simulator(chip):
        raise ValueError(f"Expected a compiler and a simulator for {chip} to time it: {words}")
    known, simulator = known_chip(chip), SIMULATORS[chip]
    call, counts = called(header.read_text(encoding="utf-8"))
    with TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(header, folder / "network.h")
        program = PROGRAM.format(call=call, calls=CALLS, **counts) + simulator.program
        (folder / "program.c").write_text(program)
        (folder / "link.ld").write_text(LINK)
        command = [known.compiler, *known.options, level, "-std=gnu99", *simulator.options]
        output_of([*command, "program.c", "-o", "program.elf", "-lm"], folder)
        said = output_of([*simulator.command, "program.elf"], folder, SECONDS)
    if (ticks := re.search(r"ticks (\d+)", said)) is None:
        raise ValueError(f"Expected {simulator.command[0]} to run it. Got: {said.strip()[-500:]}")
    return round(int(ticks[1]) * simulator.worth)
