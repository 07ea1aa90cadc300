"""What generated C takes of a chip: flash and stack, by its own compiler."""

import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

SECONDS = 120  # that a compiler may take


class Chip(NamedTuple):
    """A compiler, its options for a chip, and the Debian packages that have it."""

    compiler: str
    options: tuple[str, ...]
    packages: str

    @property
    def size(self) -> str:
        """The program that counts the bytes of sections."""
        return f"{self.compiler.removesuffix('gcc')}size"


ARM = "gcc-arm-none-eabi libnewlib-arm-none-eabi"
BARE_ARM = ("-mthumb", "--specs=nosys.specs", "--specs=nano.specs")
CHIPS = {
    "cortex-m4": Chip(
        "arm-none-eabi-gcc",
        ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard", *BARE_ARM),
        ARM,
    ),
    "cortex-m0": Chip("arm-none-eabi-gcc", ("-mcpu=cortex-m0", *BARE_ARM), ARM),
    "avr": Chip("avr-gcc", ("-mmcu=atmega328p",), "gcc-avr avr-libc"),
    "x86": Chip("gcc", ("-m64", "-mno-red-zone"), "gcc libc6-dev"),
}

# A program around the header, with the network or without.
PROGRAM = """
#include "{header}"
static volatile float given[{inputs}], got[{outputs}];
static volatile int chosen;
__attribute__((noinline)) static void measured(const float *x, float *y) {{ {body} }}
int main(void) {{
    float x[{inputs}], y[{outputs}] = {{ 0 }};
    int i;
    for (i = 0; i < {inputs}; i++) x[i] = given[i];
    measured(x, y);
    for (i = 0; i < {outputs}; i++) got[i] = y[i];
    return 0;
}}
"""


class Cost(NamedTuple):
    """Bytes of a chip.

    Attributes:
        flash: with the libraries that are needed.
        stack: without these.
        data: of the flash, the constants of the network; the rest is code.
    """

    flash: int
    stack: int
    data: int


def known_chip(chip: str) -> Chip:
    """The chip of that name; a ValueError where there is none."""
    if chip not in CHIPS:
        raise ValueError(f"Expected a chip among {', '.join(CHIPS)}. Got {chip!r}.")
    return CHIPS[chip]


def lacking(chip: str) -> str:
    """What of the compiler for ``chip`` is not here, and what to install; "" where all is."""
    known = known_chip(chip)
    for program in (known.compiler, known.size):
        if shutil.which(program) is None:
            return f"{program} is not here; on Debian: apt install {known.packages}"
    return ""


def measure(header: Path, chip: str) -> Cost:
    """The bytes by which a program grows that calls ``predict`` of ``header``, compiled for size.

    Probabilities are not in it.
    """
    if words := lacking(chip):
        raise ValueError(f"Expected the compiler for {chip} to measure it: {words}")
    text = header.read_text(encoding="utf-8")
    call, counts = called(text)
    with TemporaryDirectory() as folder:
        shutil.copy(header, Path(folder, "network.h"))
        sizes = [
            _compiled(Path(folder), chip, PROGRAM.format(header="network.h", body=body, **counts))
            for body in ("chosen = 0; y[0] = x[0];", call)
        ]
    return Cost(sizes[1][0] - sizes[0][0], sizes[1][1], _data(text))


def called(header: str) -> tuple[str, dict[str, str]]:
    """The call of ``predict`` of a header, which answers in ``chosen`` or ``y``, and its counts."""
    prefix = re.findall(r"(\w+)_predict\(const float \*x", header)[0]
    gives_value = f"{prefix}_predict(const float *x)" in header
    answer = "chosen" if f"int {prefix}_predict(" in header else "y[0]"  # no class need be a float
    call = f"{answer} = {prefix}_predict(x);" if gives_value else f"{prefix}_predict(x, y);"
    counts = {
        name: re.findall(rf"{prefix.upper()}_{name.upper()} (\d+)", header)[0]
        for name in ("inputs", "outputs")
    }
    return call, counts


def _data(header: str) -> int:
    """The bytes of the constant arrays of a header, but for the names of classes."""
    found = re.findall(r"static const (float|u?int(\d+)_t) \w+\[\] \w+ = {([^}]*)}", header)
    return sum((int(bits or 32) // 8) * (values.count(",") + 1) for _, bits, values in found)


def _compiled(folder: Path, chip: str, source: str) -> tuple[int, int]:
    """Flash of a whole program, and the stack of its functions but for main."""
    compiler, options, _ = known = CHIPS[chip]
    (folder / "program.c").write_text(source)
    sections = ("-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections")
    command = [compiler, *options, "-Os", "-std=gnu99", "-fstack-usage", *sections]
    output_of([*command, "program.c", "-o", "program", "-lm"], folder)
    text, data = output_of([known.size, "program"], folder).splitlines()[1].split()[:2]
    (usage,) = folder.glob("*.su")
    frames = re.findall(r":([\w.]+)\t(\d+)\t", usage.read_text())
    usage.unlink()
    stack = sum(int(size) for function, size in frames if function != "main")
    return int(text) + int(data), stack


def output_of(command: list[str], folder: Path, seconds: int = SECONDS) -> str:
    """What a program said that was run in ``folder``; a ValueError where it failed."""
    options: Any = {"capture_output": True, "text": True, "timeout": seconds}
    try:
        run = subprocess.run(command, cwd=folder, **options)
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"Expected {command[0]} to end within {seconds} s. It did not.") from error
    if run.returncode:
        raise ValueError(f"Expected {command[0]} to compile it. Got: {run.stderr.strip()[-500:]}")
    return run.stdout + run.stderr
