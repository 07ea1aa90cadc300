"""Arrays out of pickles, without running what is in them.

A pickle is a program for a machine that may call anything by its name. Here it runs on a machine
that knows lists, dictionaries and the few names that an array in a pickle needs, and these stand
for plain containers; any other instruction or name is refused.
"""

import pickletools
from collections.abc import Mapping
from typing import Any

import numpy as np

from torchsparcs.messages import first_line


class Array:
    """Stands for NumPy's ndarray in a pickle: keeps what it is told and does nothing."""

    state: Any = None

    def __init__(self, *args: Any):
        pass

    def numbers(self, what: str) -> np.ndarray:
        """The array, of uint8, made from its raw bytes."""
        try:
            _, shape, dtype, is_fortran, content = self.state
            if dtype.is_uint8 and isinstance(content, bytes) and not is_fortran:
                return np.frombuffer(content, np.uint8).reshape(shape)
        except (AttributeError, OverflowError, TypeError, ValueError):
            pass
        raise ValueError(f"Expected an array of uint8. {what} has another.")


def unpickled(content: bytes, what: str) -> dict:
    """The dictionary in a pickle, arrays in it as :class:`Array`; ``what`` it is, for errors."""
    try:
        value = _built(content)
    except _ForeignName as error:
        raise ValueError(
            f"Expected a pickle of arrays and nothing else. {what} asks for {error}, which is "
            "refused: the file is not what it seems."
        ) from error
    except Exception as error:  # of a broken pickle, of many kinds
        raise ValueError(
            f"Expected a whole pickle. {what} cannot be read: {first_line(error)}."
        ) from error
    if not isinstance(value, dict):
        raise ValueError(f"Expected a dictionary. {what} has a {type(value).__name__}.")
    return value


class _Dtype:
    """Stands for NumPy's dtype."""

    state: Any = None

    def __init__(self, code: Any = None, *args: Any):
        self.is_uint8 = code in ("u1", b"u1")


class _Latin1:
    """Stands for ``_codecs.encode``, with which Python 3 puts bytes into old kinds of pickle."""


STAND_INS: Mapping[tuple[str, str], type] = {
    ("numpy.core.multiarray", "_reconstruct"): Array,
    ("numpy._core.multiarray", "_reconstruct"): Array,
    ("numpy", "ndarray"): Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Latin1,
}
# Instructions that bring a value along, or text as Python 2 wrote it (bytes), or are a value.
VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
}
STRINGS = {"STRING", "SHORT_BINSTRING", "BINSTRING"}
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _ForeignName(Exception):
    """A pickle asks for something that no array needs."""


def _built(content: bytes) -> Any:
    """What a pickle builds: its instructions, one by one, on a stack of stacks."""
    stack: list[Any] = []
    below: list[list[Any]] = []  # what lies under each mark
    memo: dict[int, Any] = {}
    texts: dict[str, bytes] = {}
    argument: Any
    for opcode, argument, _ in pickletools.genops(content):
        match opcode.name:
            case name if name in VALUES:
                stack.append(argument)
            case name if name in STRINGS:
                stack.append(argument.encode("latin1"))
            case name if name in CONSTANTS:
                stack.append(CONSTANTS[name])
            case name if name in TUPLES:
                stack[-TUPLES[name]]  # there are as many
                stack[-TUPLES[name] :] = [tuple(stack[-TUPLES[name] :])]
            case "EMPTY_LIST" | "EMPTY_DICT" as name:
                stack.append([] if name == "EMPTY_LIST" else {})
            case "MARK":
                below.append(stack)
                stack = []
            case "LIST" | "TUPLE" | "DICT" | "APPENDS" | "SETITEMS" as name:
                items, stack = stack, below.pop()
                if name in ("LIST", "TUPLE", "DICT"):
                    stack.append({"LIST": [], "TUPLE": (), "DICT": {}}[name])
                stack[-1] = _extended(stack[-1], items)
            case "APPEND":
                stack[-2:] = [_extended(stack[-2], stack[-1:])]
            case "SETITEM":
                stack[-3:] = [_extended(stack[-3], stack[-2:])]
            case "PUT" | "BINPUT" | "LONG_BINPUT" | "MEMOIZE" as name:
                memo[len(memo) if name == "MEMOIZE" else argument] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "GLOBAL":
                stack.append(_stand_in(*argument.split(" ", 1)))
            case "STACK_GLOBAL":
                stack[-2:] = [_stand_in(*stack[-2:])]
            case "REDUCE":
                stack[-2:] = [_made(stack[-2], stack[-1], texts)]
            case "BUILD":
                state = stack.pop()
                if not isinstance(stack[-1], (Array, _Dtype)):
                    raise ValueError("an argument is neither an array nor its type")
                stack[-1].state = state
            case "STOP":
                return stack.pop()
            case name if name not in ("PROTO", "FRAME"):
                raise ValueError(f"it has {name}: {opcode.doc.splitlines()[0].lower()}")


def _extended(container: Any, items: list[Any]) -> Any:
    """A list, tuple or dictionary with more in it; its keys are text, which is quick to compare."""
    if isinstance(container, list):
        container.extend(items)
    elif isinstance(container, dict):
        keys, values = items[::2], items[1::2]
        if not all(isinstance(key, (str, bytes)) for key in keys):
            raise ValueError("a key is no text")
        container.update(zip(keys, values, strict=True))
    elif container == ():
        return tuple(items)
    else:
        raise ValueError("more is put into what is no list")
    return container


def _stand_in(module: Any, name: Any) -> type:
    if not isinstance(module, str) or not isinstance(name, str):
        raise ValueError("a name is no text")
    if (module, name) not in STAND_INS:
        raise _ForeignName(f"{module}.{name}")
    return STAND_INS[module, name]


def _made(kind: Any, arguments: Any, texts: dict[str, bytes]) -> Any:
    """An array, a type or bytes: one object for one text, however often it is asked for."""
    if kind in (Array, _Dtype):
        return kind(*arguments)
    if kind is not _Latin1:
        raise ValueError("what is called is neither an array nor its type")
    text, encoding = arguments
    if not isinstance(text, str) or not isinstance(encoding, str):
        raise ValueError("what is encoded is no text")
    if encoding != "latin1":
        raise ValueError(f"Expected latin1. Got {encoding!r}.")
    if text not in texts:
        texts[text] = text.encode("latin1")
    return texts[text]
