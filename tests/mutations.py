"""Damage on purpose: from valid bytes and a ``random.Random``, bytes that are hardly valid.

Bit flips seldom get past the first check of a reader. So most of this takes a file apart, changes
what it says, and puts it together again with lengths and checksums that are right.
"""

import copy
import gzip
import hashlib
import io
import json
import math
import re
import struct
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np

Damage = Callable[[bytes, Random], bytes]

MOST = 2**22  # bytes, however often something is repeated
NUMBERS = (0, 1, -1, 2, 127, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**64 - 1, 10**15)


def damaged_bytes(content: bytes, draw: Random) -> bytes:
    """A few bytes flipped, overwritten, cut off, put in or taken out, anywhere."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        content = draw.choice(BYTES)(content, draw)[:MOST]
    return content


def _place(content: bytes, draw: Random) -> int:
    return draw.randrange(len(content) + 1)


def _flip(content: bytes, draw: Random) -> bytes:
    place = draw.randrange(max(len(content), 1))
    one = bytes(byte ^ 1 << draw.randrange(8) for byte in content[place : place + 1])
    return content[:place] + one + content[place + 1 :]


def _overwrite(content: bytes, draw: Random) -> bytes:
    place, count = _place(content, draw), draw.choice((1, 2, 4, 8, 32))
    return content[:place] + draw.randbytes(count) + content[place + count :]


def _overwrite_number(content: bytes, draw: Random) -> bytes:
    place, size = _place(content, draw), draw.choice((1, 2, 4, 8))
    number = draw.choice(NUMBERS) % 256**size
    return content[:place] + number.to_bytes(size, "little") + content[place + size :]


def _truncate(content: bytes, draw: Random) -> bytes:
    return content[: _place(content, draw)]


def _insert(content: bytes, draw: Random) -> bytes:
    place = _place(content, draw)
    return content[:place] + draw.randbytes(draw.choice((1, 3, 8, 100))) + content[place:]


def _take_out(content: bytes, draw: Random) -> bytes:
    start, stop = sorted((_place(content, draw), _place(content, draw)))
    return content[:start] + content[min(stop, start + draw.choice((1, 8, 10**6))) :]


def _repeat(content: bytes, draw: Random) -> bytes:
    start, stop = sorted((_place(content, draw), _place(content, draw)))
    return content[:stop] + content[start:stop] * draw.choice((1, 2, 30)) + content[stop:]


BYTES: tuple[Damage, ...] = (
    *(_flip, _overwrite, _overwrite_number, _truncate, _insert, _take_out, _repeat),
)


# --- JSON -----------------------------------------------------------------------------------------

ODD = (
    *(None, True, False, *NUMBERS, -(2**63), 10**30, 10**4000, -(10**400)),
    *(0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), float("-inf")),
    *("", "1", "a", "\ud800", "\0", "a" * 10_000, "../../x", "/etc/passwd", "relu", "NaN"),
    *([], {}, [[]], [None], ["a", 1], {"a": 1}, [0] * 1000, [[0, 1]] * 200, [10**15, 10**15]),
)


DEEP = {"deep 3": 3, "deep 300": 300, "deep 900": 900}  # lists in lists; Python writes no deep ones


def _dumped(value: Any) -> str:
    text = json.dumps(value)
    for name, depth in DEEP.items():
        text = text.replace(f'"{name}"', "[" * depth + "]" * depth)
    return text


def _walk(value: Any, draw: Random) -> tuple[Any, Any]:
    """A (container, key) in a tree of lists and dictionaries; those near its top are likelier."""
    while True:
        key = draw.choice([*value] if isinstance(value, dict) else range(len(value)))
        inner = value[key]
        if not isinstance(inner, (dict, list)) or not inner or draw.random() < 0.3:
            return value, key
        value = inner


def damaged_value(value: Any, draw: Random) -> Any:
    """One to three values of a JSON document replaced, removed, renamed, repeated or wrapped."""
    value = {"whole": copy.deepcopy(value)}
    for _ in range(draw.choice((1, 1, 2, 3))):
        container, key = _walk(value, draw)
        other, its = _walk(value, draw)
        kind = draw.randrange(12)
        if kind < 5:
            container[key] = copy.deepcopy(draw.choice(ODD))
        elif kind == 5:
            container[key] = copy.deepcopy(other[its])
        elif kind == 6:
            container[key] = [container[key]] * draw.choice((1, 2, 50))
        elif kind == 7:
            container[key] = draw.choice([*DEEP])
        elif kind > 9:
            container[key] = _alike(container[key], draw)
        elif isinstance(container, list):
            container += [container.pop(key)] * draw.randrange(3)
        elif container is not value:
            renamed = {draw.choice(("", "a", "x" + str(key))): container.pop(key)}
            container.update(renamed if kind == 8 else {})
    return value["whole"]


def _alike(value: Any, draw: Random) -> Any:
    """Nearly ``value``: an index below zero, a truth value for a number, one key more."""
    if isinstance(value, (int, float)):
        return draw.choice(
            (-value, -1, bool(value), math.inf, -math.inf, math.nan, 10**30, [value])
        )
    if isinstance(value, str):
        return draw.choice(("", value.upper(), value * 2, [*value], 0, {value: value}))
    if isinstance(value, list):
        return draw.choice((value[:-1], value * 2, value[::-1], dict(enumerate(value)), [value]))
    if isinstance(value, dict):
        return draw.choice(({**value, "more": 1}, [*value], [*value.values()], {"more": value}))
    return draw.choice((0, "", [], {}))


def damaged_json(content: bytes, draw: Random) -> bytes:
    if draw.random() < 0.15:
        return damaged_bytes(content, draw)
    if draw.random() < 0.02:
        return draw.choice((b"[" * 10**5, b'{"a":' * 10**5, b"9" * 5000, b"[" + b"1," * 10**5))
    text = _dumped(damaged_value(json.loads(content), draw)).encode()
    return text if len(text) < MOST else damaged_bytes(content, draw)


# --- safetensors ----------------------------------------------------------------------------------

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "C64": 8}
SIZES |= {"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1}
KEY = "torchsparcs"


def damaged_safetensors(content: bytes, draw: Random) -> bytes:
    """Any part of it; what torchsparcs says of a network fits its checksum again."""
    kind = draw.randrange(10)
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    if kind == 0:
        return damaged_bytes(content, draw)
    if kind == 1:
        return (
            draw.choice((*NUMBERS, length + 1, length - 1)).to_bytes(9, "little", signed=True)[:8]
            + (content[8:])
        )
    if kind == 2:
        return _safetensors(damaged_value(header, draw), data)
    metadata = header.get("__metadata__")
    if kind < 7 and metadata is not None:
        ours = json.loads(metadata[KEY])
        options = ours["options"]
        if draw.random() < 0.7:  # nearer to what is built than the rest
            options[draw.choice([*options])] = draw.choice(
                (*ODD, [draw.choice(NUMBERS) for _ in range(3)], draw.choice([*DEEP]), [1] * 10**4)
            )
        else:
            ours = damaged_value(ours, draw)
        text = _dumped(ours)
        if draw.random() < 0.1:
            text = damaged_bytes(text.encode(), draw).decode("utf-8", "replace")
        metadata[KEY] = text
        return _safetensors(header, data)
    header, data = _other_tensors(header, data, draw)
    if metadata is not None:
        metadata[KEY] = json.dumps({**json.loads(metadata[KEY]), "sha256": _sha256(header, data)})
    return _safetensors(header, data)


def damaged_checkpoint(content: bytes, draw: Random) -> bytes:
    """Its bytes, or its outline with a digest that is right again."""
    if draw.random() < 0.3:
        return damaged_bytes(content, draw)
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length : -32]
    metadata = header["__metadata__"]
    metadata[KEY] = _dumped(damaged_value(json.loads(metadata[KEY]), draw))
    whole = _safetensors(header, data)
    return whole + hashlib.sha256(whole).digest()


def _safetensors(header: Any, data: bytes) -> bytes:
    text = _dumped(header).encode("utf-8", "replace")
    return len(text).to_bytes(8, "little") + text + data


def _other_tensors(header: dict, data: bytes, draw: Random) -> tuple[dict, bytes]:
    """Tensors of other types, shapes, names and numbers that fill their bytes."""
    tensors = {
        name: (row["dtype"], row["shape"], data[slice(*row["data_offsets"])])
        for name, row in header.items()
        if name != "__metadata__"
    }
    name, kind = draw.choice([*tensors]), draw.randrange(7)
    dtype, shape, numbers = tensors[name]
    if kind < 2:  # as many numbers of another type
        dtype = draw.choice([*SIZES])
        for each in tensors if kind else [name]:
            shape = tensors[each][1]
            tensors[each] = (dtype, shape, draw.randbytes(math.prod(shape) * SIZES[dtype]))
    elif kind == 2:
        shape = draw.choice((shape[::-1], [1, *shape], [*shape, 1], [math.prod(shape)]))
        tensors[name] = (dtype, shape, numbers)
    elif kind == 3:
        shape = draw.choice(([0], [0, 2**40], [2**62, 0], [0] * 100, [0, 2**63 - 1], [0, 2**64]))
        tensors[draw.choice(("", "empty", name))] = (draw.choice([*SIZES]), shape, b"")
    elif kind == 4:
        del tensors[name]
        new = draw.choice(("", "a", "7/a", "-1/a", "0/", "0_1/a", f"{name}.x", "__metadata__"))
        tensors[new] = (dtype, shape, numbers)
    elif kind == 5:
        other = draw.choice([*tensors])
        tensors[name], tensors[other] = tensors[other], tensors[name]
    else:
        tensors[name] = (dtype, shape, draw.randbytes(len(numbers)))
    rows, parts, start = {}, [], 0
    for name, (dtype, shape, numbers) in tensors.items():
        stop = start + len(numbers)
        rows[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}
        parts.append(numbers)
        start = stop
    kept = {"__metadata__": header["__metadata__"]} if "__metadata__" in header else {}
    return {**kept, **rows}, b"".join(parts)


def _sha256(header: dict, data: bytes) -> str:
    tensors = sorted(
        (name, row["data_offsets"]) for name, row in header.items() if name[:2] != "__"
    )
    return hashlib.sha256(b"".join(data[slice(*offsets)] for _, offsets in tensors)).hexdigest()


# --- folders --------------------------------------------------------------------------------------


def damaged_folder(files: dict[str, bytes], draw: Random) -> dict[str, bytes]:
    """What its files say changed, in one of them or two: they stay JSON and safetensors.

    Checkpoints carry a digest of all they say: in them it is bytes.
    """
    files = dict(files)
    texts = [name for name in files if name.endswith(".json")]
    tensors = [name for name in files if name.endswith(".safetensors")]
    count = draw.choice((1, 1, 1, 2))
    chosen = [draw.choice(texts if draw.random() < 0.8 else tensors) for _ in range(count)]
    for name in dict.fromkeys(chosen):
        if draw.random() < 0.02:
            del files[name]
        elif name.endswith(".json"):
            text = _dumped(damaged_value(json.loads(files[name]), draw))
            files[name] = text.encode() if len(text) < MOST else b"[]"
        else:
            damage = damaged_bytes if name.startswith("parts/") else damaged_safetensors
            files[name] = damage(files[name], draw)
    return files


# --- text -----------------------------------------------------------------------------------------

WORDS = (
    *(
        b"",
        b'"',
        b"a",
        b"nan",
        b"1e999",
        b"-1e400",
        b"9" * 400,
        b"\xff",
        b"\0",
        b"\xef\xbb\xbf",
        b"\r",
    ),
    *(
        b"\n",
        b"\x1c",
        b"NA",
        b"inf",
        b"y",
        b"2024-01-01",
        b"1_0",
        b"\xe2\x80\xa8",
        b"true",
        b"=cmd()",
    ),
    *(b"x" * 140_000, b'"' * 999, b"a," * 2000, b"\n" * 5000, b"18446744073709551616", b"1e-400"),
)


def damaged_text(content: bytes, draw: Random) -> bytes:
    """Fields and lines replaced, removed and repeated."""
    if draw.random() < 0.2:
        return damaged_bytes(content, draw)
    separator = draw.choice((b",", b"\t", b";", b"|"))
    known = b"\t" if b"\t" in content else b","
    lines = [line.split(known) for line in content.split(b"\n")]
    for _ in range(draw.choice((1, 1, 2, 4))):
        row = draw.choice(lines)
        place, kind = draw.randrange(len(row)), draw.randrange(6)
        if kind < 3:
            row[place] = draw.choice(WORDS)
        elif kind == 3:
            row[place : place + 1] = [row[place]] * draw.choice((0, 2, 50))
        elif kind == 4:
            lines[draw.randrange(len(lines))] = [draw.choice(WORDS) for _ in range(4)]
        else:
            lines += [row] * draw.choice((1, 200))
        lines = [line or [b""] for line in lines]
    if sum(len(field) + 1 for line in lines for field in line) > MOST:
        return damaged_bytes(content, draw)
    chosen = known if draw.random() < 0.9 else separator
    return draw.choice((b"\n", b"\n", b"\r\n", b"\r")).join(chosen.join(line) for line in lines)


@cache
def gzip_bomb() -> bytes:
    """64 kilobytes that unpack to 64 megabytes."""
    return gzip.compress(b"1" * 2**26)


def damaged_gzip(content: bytes, draw: Random) -> bytes:
    if draw.random() < 0.01:
        return content + gzip_bomb()
    kind = draw.randrange(6)
    if kind == 0:
        return damaged_bytes(content, draw)
    if kind == 1:  # flags, and the fields that they announce
        header = bytearray(content[:10])
        header[draw.choice((2, 3, 3, 3, 9))] = draw.randrange(256)
        return bytes(header) + draw.randbytes(draw.randrange(5)) + content[10:]
    if kind == 2:
        return content + draw.choice((content, content[:-1], b"\0" * 9, draw.randbytes(9)))
    if kind == 3:  # its length and checksum
        return content[:-8] + draw.randbytes(8)
    text = damaged_text(gzip.decompress(content), draw)
    return gzip.compress(text, compresslevel=1, mtime=0)


# --- NPZ ------------------------------------------------------------------------------------------

TYPES = (
    *("'|O'", "'<f8'", "'<f4'", "'>f8'", "'<f2'", "'<f16'", "'<i8'", "'>i4'", "'|u1'", "'<u8'"),
    *("'|b1'", "'<c16'", "'<U4'", "'|S4'", "'|V8'", "'<M8[ns]'", "'<m8'", "[('a', '<f8')]", "'a5'"),
    *("'<U1000000000'", "'(1000000,)f8'", "'f8,i4'", "''", "None", "'object'", "'<f3'", "'\\d'"),
)
SHAPES = (
    *("()", "(0,)", "(2,)", "(-1,)", "(4, 2)", "(4,)", "(1125899906842624,)", "(2**50,)", "(1e3,)"),
    *("(1073741824, 1048576)", "(4, 10**30)", "[4, 2]", "4", "None", "(4L, 2L)", "(True,)"),
    *("(0, 1125899906842624)", "(9223372036854775807,)", "(" * 60 + ")" * 60, "('a',)", "(0, 0)"),
)


def damaged_npz(content: bytes, draw: Random) -> bytes:
    """Headers of arrays, members, and what the zip's directory says of them."""
    kind = draw.randrange(10)
    if kind == 0:
        return damaged_bytes(content, draw)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    place = draw.randrange(len(members))
    name, array = members[place]
    if kind < 6:
        members[place] = (name, damaged_npy(array, draw))
    elif kind == 6:
        odd = ("a", "../../x.npy", "/x.npy", "X.npy", "y", "x.npy", "\u2192.npy", "a\0b.npy")
        members[place] = (draw.choice(odd), array)
    elif kind == 7:
        members += [members[place]] * draw.randrange(1, 3)
        members.pop(place)
    packed = io.BytesIO()
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED)
    if kind == 8:
        methods = (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    with (
        warnings.catch_warnings(action="ignore"),  # of a name that comes twice
        zipfile.ZipFile(packed, "w", draw.choice(methods)) as archive,
    ):
        for name, array in members:
            archive.writestr(zipfile.ZipInfo(name), array, archive.compression)
    return _other_directory(packed.getvalue(), draw) if kind == 9 else packed.getvalue()


@cache
def npy_bomb() -> bytes:
    """64 megabytes of zeros, which pack well."""
    file = io.BytesIO()
    np.save(file, np.zeros((2**22, 2)))
    return file.getvalue()


def damaged_npy(content: bytes, draw: Random) -> bytes:
    """The header of an array: its type, its shape, its order, its length."""
    length = int.from_bytes(content[8:10], "little")
    text, numbers = content[10 : 10 + length].decode("latin1"), content[10 + length :]
    kind = draw.randrange(8)
    if kind == 0:
        return damaged_bytes(content, draw)
    if draw.random() < 0.01:
        return npy_bomb()
    if kind == 1:
        return draw.choice((b"", numbers, b"\x93NUMPY", content[: 9 + length], b"cposix\nsystem\n"))
    if kind < 5:
        before, after = text.split("'shape': ")
        text = f"{before}'shape': {draw.choice(SHAPES)}{after[after.index('), ') + 1 :]}"
    if kind > 3:
        before, after = text.split("'descr': ")
        text = f"{before}'descr': {draw.choice(TYPES)}{after[after.index(', ') :]}"
    if draw.random() < 0.1:
        text = draw.choice((text.replace("False", "True"), "-" * 5000 + "1", "{", text * 2, "{}"))
    if draw.random() < 0.1:
        numbers = damaged_bytes(numbers, draw)
    version = draw.choice(((1, 0), (1, 0), (1, 0), (2, 0), (3, 0), (9, 9)))
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + size + text.encode("latin1") + numbers


FIELDS = ((8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (30, 2), (42, 4))


def _other_directory(content: bytes, draw: Random) -> bytes:
    """What a zip says of a member: method, checksum, sizes, offset, flags."""
    result = bytearray(content)
    starts = [i for i in range(len(content)) if content.startswith(b"PK\x01\x02", i)]
    for start in starts if draw.random() < 0.3 else [draw.choice(starts)]:
        for _ in range(draw.choice((1, 2))):
            place, size = draw.choice(
                ((8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (42, 4), (30, 2))
            )
            number = draw.choice((*NUMBERS, 8, 14, 10**9)) % 256**size
            result[start + place : start + place + size] = number.to_bytes(size, "little")
    return bytes(result)


# --- parquet --------------------------------------------------------------------------------------


def damaged_parquet(content: bytes, draw: Random) -> bytes:
    """Its footer, where everything is said about its columns, and the heads of its pages."""
    length = int.from_bytes(content[-8:-4], "little")
    start = len(content) - 8 - length
    kind = draw.randrange(8)
    if kind == 0:
        return damaged_bytes(content, draw)
    if kind == 1:
        number = draw.choice((*NUMBERS, length + 1, length - 1)) % 2**32
        return content[:-8] + number.to_bytes(4, "little") + content[-4:]
    if kind == 2:
        return content[:4] + damaged_bytes(content[4:start], draw) + content[start:]
    footer = content[start:-8]
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        if kind < 6:
            footer = draw.choice((_flip, _flip, _overwrite_number))(footer, draw)
        else:  # a number of varying length
            place = _place(footer, draw)
            number = draw.choice(
                (b"\xfe" * 4 + b"\x0f", b"\xfe" * 8 + b"\x7f", b"\x80\x80\x80\x40")
            )
            footer = footer[:place] + number + footer[place + draw.choice((0, 1, 2)) :]
    return content[:start] + footer + len(footer).to_bytes(4, "little") + content[-4:]


# --- Arrow, Excel, JSON lines ---------------------------------------------------------------------


def damaged_arrow(content: bytes, draw: Random) -> bytes:
    """The numbers of its messages, which lie at multiples of four."""
    if draw.random() < 0.3:
        return damaged_bytes(content, draw)
    for _ in range(draw.choice((1, 1, 2, 4))):
        place, size = 4 * draw.randrange(len(content) // 4), draw.choice((1, 2, 4, 8))
        number = draw.choice((*NUMBERS, 8, 16, 2**20)) % 256**size
        content = content[:place] + number.to_bytes(size, "little") + content[place + size :]
    return content


ENTRIES = (
    *(b"0", b"-1", b"1e999", b"nan", b"", b"A1", b"XFD1", b"AAAA1", b"A99999999", b"99999999999"),
    *(
        b"s",
        b"d",
        b"b",
        b"e",
        b"n",
        b"inlineStr",
        b"../../a.xml",
        b"&a;",
        b"\xff",
        b"<",
        b"x" * 9999,
    ),
)


def damaged_workbook(content: bytes, draw: Random) -> bytes:
    """What stands in the XML of its members, and the directory of the zip."""
    kind = draw.randrange(10)
    if kind == 0:
        return damaged_bytes(content, draw)
    if kind == 1:
        return _other_directory(content, draw)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    place = draw.randrange(len(members))
    name, text = members.pop(place)
    if kind > 2:
        for _ in range(draw.choice((1, 1, 2, 4))):
            text = _other_entry(text, draw) if kind > 4 else damaged_bytes(text, draw)
        members.append((name, text))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members:
            archive.writestr(name, text)
    return packed.getvalue()


def _other_entry(text: bytes, draw: Random) -> bytes:
    """Another value of an attribute, or between two tags."""
    found = [*re.finditer(rb'(?<==")[^"]*(?=")|(?<=>)[^<]*(?=<)', text)]
    if not found:
        return text
    start, stop = draw.choice(found).span()
    return text[:start] + draw.choice(ENTRIES) + text[stop:]


def damaged_lines(content: bytes, draw: Random) -> bytes:
    """One line of JSON says something else."""
    lines = content.split(b"\n")
    place = draw.randrange(len(lines))
    lines[place] = damaged_json(lines[place] or b"{}", draw).replace(b"\n", b" ")
    return damaged_text(content, draw) if draw.random() < 0.3 else b"\n".join(lines)
