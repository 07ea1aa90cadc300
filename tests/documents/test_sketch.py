"""The sketch on the page of microcontrollers compiles beside a header that was written for it."""

import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from generated import has
from pages import blocks_of

from torchsparcs import CompactNetwork, quantize, to_c
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "microcontrollers.md"
ARDUINO = """#include <stdint.h>
enum { OUTPUT = 1, INPUT_PULLUP = 2, LED_BUILTIN = 13, A0, A1 };
int analogRead(uint8_t pin);
int digitalRead(uint8_t pin);
void digitalWrite(uint8_t pin, uint8_t value);
void pinMode(uint8_t pin, uint8_t mode);
void delay(unsigned long milliseconds);
"""
COMPILERS = (
    ("g++",),
    ("avr-g++", "-mmcu=atmega328p", "-Os"),
    ("arm-none-eabi-g++", "-mcpu=cortex-m4", "-mthumb", "-Os"),
)


@pytest.fixture(scope="module")
def room() -> tuple[DeployedNetwork, pd.DataFrame]:
    draw = np.random.default_rng(0)
    x = pd.DataFrame(draw.uniform(10, 90, (40, 2)), columns=["temperature", "humidity"])
    x["window"] = np.resize(["closed", "open"], 40)
    preprocessing = Preprocessing(Inputs.fit(x), Target.fit(np.resize(["off", "on"], 40)))
    return DeployedNetwork(CompactNetwork([3, 4, 1], [(1, 0), (2, 1)]), preprocessing), x


@pytest.mark.parametrize("is_int8", [False, True])
@pytest.mark.parametrize("compiler", COMPILERS, ids=lambda compiler: compiler[0])
def test_the_sketch_compiles(compiler, is_int8, room, tmp_path):
    if not has(compiler[0]):
        pytest.skip(f"no {compiler[0]}")
    (sketch,) = (block.text for block in blocks_of(PAGE) if block.language == "cpp")
    to_c(quantize(*room) if is_int8 else room[0], tmp_path / "room.h")
    (tmp_path / "sketch.cpp").write_text(ARDUINO + sketch)
    options = ("-std=gnu++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-c", "sketch.cpp")
    subprocess.run([*compiler, *options], cwd=tmp_path, check=True, timeout=60)
