"""Networks as source code: C, Python and JavaScript that need no library."""

import textwrap
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from torchsparcs.export.arrays import Array, arrays_of, in_two_bytes
from torchsparcs.export.describing import description
from torchsparcs.export.folding import program_of
from torchsparcs.export.names import (
    Identifiers,
    c_text,
    identifier,
    javascript_text,
    python_text,
)
from torchsparcs.export.program import Program
from torchsparcs.export.quantization import QuantizedNetwork
from torchsparcs.files.atomic import write_atomically

WIDTH = 92  # characters of a line of numbers
LONGEST_PREFIX = 20  # characters
C_TEMPLATE = "model.h.jinja"
CPP = ".hpp"  # the ending of a header that has a wrapper for C++ as well


def to_c(network: Any, path: str | Path) -> None:
    """Write ``network`` as one C99 header, which C++ takes as well.

    It allocates nothing and needs no library but ``<math.h>``, for probabilities and activations
    other than ReLU. Its names begin with that of the file: ``cars.h`` has ``cars_predict``, and
    ``cars.hpp`` also ``cars_network::predict`` for C++, which checks lengths and returns answers by
    value. On AVR its constants stay in flash. Its comment says what goes in and what comes out.

    Args:
        network: a ``CompactNetwork``, a :class:`SearchResult` of a table, whose smallest network is
            taken, what its ``deployed(pick)`` gives, or what :func:`quantize` made of one of these.
    """
    is_quantized = isinstance(network, QuantizedNetwork)
    program = network.program if is_quantized else program_of(network)
    prefix = identifier(Path(path).stem)[:LONGEST_PREFIX].lower()
    prefix = prefix if prefix[0].isalpha() else f"m{prefix}"
    written = network if is_quantized else program
    constants = arrays_of(written)
    _write(
        path,
        C_TEMPLATE,
        program,
        parts="int8.jinja" if is_quantized else "float.jinja",
        quantized=network if is_quantized else None,
        without_floats=(
            f"defined(__AVR__) || defined(__SOFTFP__) || defined({prefix.upper()}_WITHOUT_FLOATS)"
        ),
        constants=constants,
        readers={array.name: array.reader for array in constants},
        loop_of=written.loop,
        **(_widths(network) if is_quantized else {}),
        forms={block.form for layer in written.layers for block in layer.blocks},
        prefix=prefix,
        P=prefix.upper(),
        for_cpp=Path(path).suffix.lower() == CPP,
        digest=_digest(program, constants),
        names=_c_names(program, prefix.upper()),
    )


def _digest(program: Program, constants: list[Array]) -> str:
    """What tells a network from others, whose headers may begin their names alike."""
    content = [repr((program.fields, program.classes)).encode()]
    content += [array.values.tobytes() for array in constants]
    return f"0x{crc32(b''.join(content)):08x}u"


def _widths(network: QuantizedNetwork) -> dict[str, int]:
    """Bytes of a middle and of a bias, as they are written down."""
    biases = np.concatenate([layer.bias for layer in network.layers]) >> network.bias_shift
    return {
        "middle_bytes": in_two_bytes(network.inputs.middles).itemsize,
        "bias_bytes": in_two_bytes(biases).itemsize,
    }


def to_python(network: Any, path: str | Path) -> None:
    """Write ``network`` as a Python file that imports nothing, for CPython and MicroPython.

    Its ``predict(x)`` takes a list of numbers; its comment says which. ``network`` is what
    :func:`to_c` takes, but for int8.
    """
    _write(path, "model.py.jinja", _float_program(network))


def to_javascript(network: Any, path: str | Path) -> None:
    """Write ``network`` as one ES module, for a page or Node.

    Its ``predict(x)`` takes an array of numbers; its comment says which. ``network`` is what
    :func:`to_c` takes, but for int8.
    """
    _write(path, "model.mjs.jinja", _float_program(network))


def _float_program(network: Any) -> Program:
    if isinstance(network, QuantizedNetwork):
        raise ValueError("Expected C for a network of int8. Got another language.")
    return program_of(network)


def _write(path: str | Path, template: str, program: Program, **more: Any) -> None:
    environment = Environment(
        loader=PackageLoader("torchsparcs.export"),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "c_text": c_text,
        "python_text": python_text,
        "javascript_text": javascript_text,
        "c_floats": lambda values: listed([f"{decimal(value)}f" for value in np.ravel(values)]),
        "decimals": lambda values: listed(map(decimal, np.ravel(values))),
        "integers": lambda values: listed(str(int(value)) for value in np.ravel(values)),
    }
    text = environment.get_template(template).render(
        program=program,
        comment=description(
            program,
            is_int8=more.get("quantized") is not None,
            checks_codes=template != C_TEMPLATE,  # which has no bytes for that
        ),
        avr_readers=AVR_READERS,
        c_activation=C_ACTIVATIONS[program.activation],
        python_activation=PYTHON_ACTIVATIONS[program.activation],
        javascript_activation=JAVASCRIPT_ACTIVATIONS[program.activation],
        neurons=_neurons,
        codes=_codes,
        **more,
    )
    write_atomically(Path(path), text.encode())


# How constants in the flash of an AVR are read, by type.
AVR_READERS = {
    "FLOAT": "pgm_read_float(p)",
    "INT8": "((int8_t)pgm_read_byte(p))",
    "INT16": "((int16_t)pgm_read_word(p))",
    "INT32": "((int32_t)pgm_read_dword(p))",
    "UINT8": "pgm_read_byte(p)",
    "UINT16": "pgm_read_word(p)",
    "UINT32": "pgm_read_dword(p)",
}
# Bodies of functions of v. The tail of the normal distribution is formula 7.1.26 of Abramowitz and
# Stegun, good to 1.5e-7: neither MicroPython nor the C library of AVR has the error function.
C_ACTIVATIONS = {
    "relu": "return v < 0 ? 0 : v;",
    "tanh": "return tanhf(v);",
    "gelu": (
        "const float z = fabsf(v) * 0.70710678f, t = 1 / (1 + 0.3275911f * z);\n"
        "const float tail = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f\n"
        "    + t * (-1.453152027f + t * 1.061405429f)))) * expf(-z * z);\n"
        "return v * (v < 0 ? 0.5f * tail : 1 - 0.5f * tail);"
    ),
    "silu": "return v / (1 + expf(-v));",
    "sigmoid": "return 1 / (1 + expf(-v));",
    "identity": "return v;",
}
PYTHON_ACTIVATIONS = {
    "relu": "return v if v > 0 or v != v else 0.0",
    "tanh": "return 1 - 2 / (_exp(2 * v) + 1)",
    "gelu": (
        "z = abs(v) * 0.7071067811865476\n"
        "t = 1 / (1 + 0.3275911 * z)\n"
        "tail = 1.421413741 + t * (-1.453152027 + t * 1.061405429)\n"
        "tail = t * (0.254829592 + t * (-0.284496736 + t * tail)) * _exp(-z * z)\n"
        "return v * (0.5 * tail if v < 0 else 1 - 0.5 * tail)"
    ),
    "silu": "return v / (1 + _exp(-v))",
    "sigmoid": "return 1 / (1 + _exp(-v))",
    "identity": "return v",
}
JAVASCRIPT_ACTIVATIONS = {
    "relu": "return v < 0 ? 0 : v;",
    "tanh": "return Math.tanh(v);",
    "gelu": (
        "const z = Math.abs(v) * Math.SQRT1_2;\n"
        "const t = 1 / (1 + 0.3275911 * z);\n"
        "const poly = 1.421413741 + t * (-1.453152027 + t * 1.061405429);\n"
        "const tail = t * (0.254829592 + t * (-0.284496736 + t * poly)) * Math.exp(-z * z);\n"
        "return v * (v < 0 ? 0.5 * tail : 1 - 0.5 * tail);"
    ),
    "silu": "return v / (1 + Math.exp(-v));",
    "sigmoid": "return 1 / (1 + Math.exp(-v));",
    "identity": "return v;",
}


def javascript_network() -> str:
    """The functions that run a network in JavaScript, and its activations by name."""
    template = files("torchsparcs.export") / "templates" / "network.js"
    rows = (f"  {name}: (v) => {{ {body} }},\n" for name, body in JAVASCRIPT_ACTIVATIONS.items())
    return f"{template.read_text(encoding='utf-8')}\nconst ACTIVATIONS = {{\n{''.join(rows)}}};\n"


def javascript_data(program: Program) -> dict[str, Any]:
    """What these functions take of a network, as plain values; weights to six digits."""

    def short(values: Iterable[Any]) -> list[float]:
        return [float(f"{value:.6g}") for value in values]

    return {
        "numbers": [[number.field, float(decimal(number.centre))] for number in program.numbers],
        "told": [told.field for told in program.indicators],
        "codes": _codes(program),
        "layers": [
            [[float(decimal(bias)), places, short(weights)] for bias, places, weights in layer]
            for layer in _neurons(program)
        ],
        "fills": program.fills,
        "activation": program.activation,
        "ends": [short(pair) for pair in program.ends],
    }


def decimal(value: Any) -> str:
    """A float32 number in as few digits as say it exactly; C, Python and JavaScript read it."""
    return str(np.float32(value))


def listed(words: Iterable[str]) -> str:
    """``words`` with commas, in lines."""
    return "\n".join(textwrap.wrap(", ".join(words), WIDTH))


def _c_names(program: Program, prefix: str) -> dict[str, list]:
    """The constants of a header: of inputs, of codes by field, of classes."""
    made = Identifiers().made
    inputs = [made(f"{prefix}_IN_", field.name) for field in program.fields]
    codes = [
        [made(f"{prefix}_{identifier(field.name).upper()[:20]}_", text) for text in field.texts]
        for field in program.fields
    ]
    classes = [made(f"{prefix}_CLASS_", label) for label in program.classes]
    return {"inputs": inputs, "codes": codes, "classes": classes}


def _codes(program: Program) -> list[tuple[int, int, int, int, list[int]]]:
    """Of each code its place, how many there are, levels of others and missing ones, those used."""
    codes = []
    for place in program.coded:
        field = program.fields[place]
        levels = [level.level for level in program.levels if level.field == place]
        codes.append((place, len(field.texts), field.other, field.missing, levels))
    return codes


def _neurons(program: Program) -> list[list[tuple[str, int | list[int], np.ndarray]]]:
    """Of each layer its neurons: bias, the sources that are heard and their weights.

    Of sources that are neighbours the first stands for all.
    """
    layers = []
    for layer in program.layers:
        neurons = []
        for row, bias in enumerate(layer.bias):
            places = [place for block in layer.blocks for place in block.places[row]]
            weights = np.concatenate([b.weights[row][b.weights[row] != 0] for b in layer.blocks])
            is_run = bool(places) and places == [*range(places[0], places[0] + len(places))]
            neurons.append((decimal(bias), places[0] if is_run else places, weights))
        layers.append(neurons)
    return layers
