"""What generated C takes of a chip, predicted where its compiler is not asked.

The constants are counted. The code is a sum of parts, one for each thing that a network has, whose
bytes ``benchmarks/flash.py`` has fitted to what the compilers made of many networks.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from torchsparcs.export.arrays import data_bytes
from torchsparcs.export.folding import program_of
from torchsparcs.export.measuring import Cost, known_chip
from torchsparcs.export.program import Program
from torchsparcs.export.quantization import QuantizedNetwork

FLOAT, INT8 = "float", "int8"


def predict_cost(network: Any, chip: str) -> Cost:
    """Flash and stack of the C that :func:`torchsparcs.to_c` writes for ``network``, about.

    >>> from torchsparcs import CompactNetwork
    >>> predict_cost(CompactNetwork([3, 4, 1], [(1, 0), (2, 1)]), "cortex-m4").data
    88
    """
    known_chip(chip)
    is_int8 = isinstance(network, QuantizedNetwork)
    program = network if is_int8 or isinstance(network, Program) else program_of(network)
    formula = formulas()[chip][INT8 if is_int8 else FLOAT]
    data, parts = data_bytes(program), parts_of(program)
    code = sum(formula["code"][name] * count for name, count in parts.items())
    stack = sum(formula["stack"][name] * count for name, count in stacked_of(program).items())
    return Cost(data + round(code), round(stack), data)


def error_of(chip: str, *, is_int8: bool = False) -> float:
    """The mean error of the flash that is predicted, as a share, on networks not fitted to."""
    return formulas()[chip][INT8 if is_int8 else FLOAT]["error"]


@cache
def formulas() -> dict[str, Any]:
    """The bytes of each part, by chip and kind; ``benchmarks/flash.py`` writes them."""
    return json.loads((files("torchsparcs.export") / "formulas.json").read_text())


def parts_of(network: Program | QuantizedNetwork) -> dict[str, float]:
    """How often a network has each of the things that take code."""
    program = network.program if isinstance(network, QuantizedNetwork) else network
    is_one = network.loop is not None
    forms = [] if is_one else [block.form for layer in network.layers for block in layer.blocks]
    hidden = len(program.layers) - 1
    names = ("tanh", "gelu", "silu", "sigmoid")
    return {
        "always": 1,
        "one loop": is_one,
        "one loop, hidden": is_one and hidden > 0,
        "hidden layers": 0 if is_one else hidden,
        "some hidden": not is_one and hidden > 0,
        "some dense": "dense" in forms,
        **{name: forms.count(name) for name in ("dense", "indexed", "masked")},
        "layers of one": sum(len(layer.bias) == 1 for layer in network.layers),
        "one number": len(program.numbers) == 1,
        "two numbers": len(program.numbers) == 2,  # loops that are written out
        "numbers": bool(program.numbers),
        "filled": bool(program.numbers) and program.fills,
        "scattered": bool(program.numbers) and program.is_scattered,
        "indicators": len(program.indicators),
        "some codes": bool(program.coded),
        "codes": len(program.coded),
        "levels": len(program.levels),
        "classes": program.task == "multiclass",
        "value": program.task == "regression",
        "values": program.task == "regression" and program.outputs > 1,
        "shifts": isinstance(network, QuantizedNetwork) and network.has_shifts,
        **{name: hidden > 0 and program.activation == name for name in names},
    }


def stacked_of(network: Program | QuantizedNetwork) -> dict[str, float]:
    """What lies on the stack, in numbers."""
    program = network.program if isinstance(network, QuantizedNetwork) else network
    return {"always": 1, "sources": program.starts[-1], "outputs": program.outputs}
