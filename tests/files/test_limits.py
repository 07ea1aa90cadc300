"""What a file claims is not believed: what is far more than there is, is refused at once."""

import gzip
import hashlib
import io
import json
import pickle
import tarfile
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow.parquet import write_table
from safetensors.torch import save as safetensors_bytes

from torchsparcs import load, load_result
from torchsparcs.files import limits as claims
from torchsparcs.images.datasets import cifar, load_images, pickles
from torchsparcs.tables.columns import readers as table_files
from torchsparcs.tables.datasets import load_dataset

MUCH = 2**27  # bytes; the tests have a sixteenth of that
TRAIN = "cifar-100-python/train"
PARTS = ("train_x", "train_y", "test_x", "test_y")
SPECTRAL = {"bias": True, "train_input_eigenvalues": False, "update": "feedforward"}
COMPACT = {"reads": None, "biased": None, "maximal": None}


def npy(shape: tuple[int, ...], descr: str = "<f8", content: bytes = b"") -> bytes:
    file = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + content


def zipped(path: Path, method: int = zipfile.ZIP_DEFLATED, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def lying(path: Path, size: int) -> Path:
    """An NPZ file whose directory says that its first array has ``size`` bytes."""
    array = npy((size // 8 - 16,), content=bytes(80))
    assert len(array) == 128 + 80
    content = zipped(path, X=array).read_bytes()
    place = content.index(b"PK\x01\x02") + 24
    path.write_bytes(content[:place] + size.to_bytes(4, "little") + content[place + 4 :])
    return path


def sparse(path: Path, beginning: bytes, size: int = 2**40) -> Path:
    with path.open("wb") as file:
        file.write(beginning)
        file.truncate(size)
    return path


def parquet(path: Path, **columns) -> Path:
    write_table(pyarrow.table(columns), path, store_schema=False)
    return path


def repeated(text: str, rows: int):
    """A column with the same text in every row, of which a file has one."""
    indices = pyarrow.array([0] * rows, pyarrow.int32())
    return pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array([text]))


def short_rows(path: Path) -> Path:
    path.write_bytes(b"y," + b",".join(b"%d" % i for i in range(20_000)) + b"\n" + b"1\n" * 20_000)
    return path


def packed(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content, compresslevel=1))
    return path


def one_member(name: str, size: int, content: bytes) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(format=tarfile.GNU_FORMAT) + content


# What claims, or unpacks to, far more than there is: how it is made, read and refused.
CLAIMS = {
    "a petabyte in an array": (
        lambda folder: zipped(folder / "a.npz", X=npy((2**37, 1024), content=bytes(80))),
        *(load_dataset, r"X.npy claims shape \(137438953472, 1024\) and has another"),
    ),
    "a petabyte of images": (
        lambda folder: zipped(folder / "a.npz", **dict.fromkeys(PARTS, npy((2**40, 32, 32)))),
        *(load_images, "_x.npy claims shape .* and has another|_y.npy claims"),
    ),
    "letters of no length": (
        lambda folder: zipped(folder / "a.npz", a=npy((2**60,), "<U0"), y=npy((2**60,), "<U0")),
        *(load_dataset, "a.npy holds <U0, neither numbers nor text"),
    ),
    "columns without rows": (
        lambda folder: zipped(folder / "a.npz", X=npy((0, 2**50)), y=npy((0,))),
        *(load_dataset, "Expected rows and columns in X"),
    ),
    "many columns": (
        lambda folder: zipped(
            folder / "a.npz", X=npy((1, 2**20), "|i1", bytes(2**20)), y=npy((1,), "|i1", b"1")
        ),
        *(load_dataset, r"at most 1048576 columns\. .* has X \(1, 1048576\), y \(1,\)"),
    ),
    "a zip that claims": (
        lambda folder: lying(folder / "a.npz", 2**20),
        *(load_dataset, "X.npy claims more bytes than can be in it"),
    ),
    "a zip that unpacks": (
        lambda folder: zipped(folder / "a.npz", X=npy((2**14, 2**10), content=bytes(MUCH))),
        *(load_dataset, "fits into memory. .* claims 0.134 GB, and there is room for 0.002"),
    ),
    "a gzip that unpacks": (
        lambda folder: packed(folder / "a.csv.gz", b"a,y\n" + b"1,2\n" * (MUCH // 4)),
        *(load_dataset, "at most 599,186 bytes. .*a.csv.gz unpacks to more"),
    ),
    "short rows": (
        lambda folder: short_rows(folder / "a.csv"),
        *(load_dataset, "fits into memory. .* claims 19.2 GB"),
    ),
    "text again and again": (
        lambda folder: parquet(folder / "a.parquet", a=repeated("x" * 2**16, 2000), y=[1] * 2000),
        *(load_dataset, "fits into memory. .* claims 0.0\\d+ GB"),
    ),
    "rows again and again": (
        lambda folder: parquet(folder / "a.parquet", a=np.zeros(2**20), y=np.zeros(2**20)),
        *(load_dataset, "fits into memory. .* claims 0.0168 GB"),
    ),
    "a list in one row": (
        lambda folder: parquet(folder / "a.parquet", a=[[0] * 2**20], y=[1]),
        *(load_dataset, "numbers or text. .* has lists or records in 'a'"),
    ),
    "a huge text": (
        lambda folder: sparse(folder / "a.csv", b"a,b\n"),
        *(load_dataset, "fits into memory. .* claims 1.1e"),
    ),
    "a huge network": (
        lambda folder: sparse(folder / "a", (2**20).to_bytes(8, "little")),
        *(load, "fits into memory. .* claims 1.1e"),
    ),
    "huge settings": (
        lambda folder: sparse(folder / "settings.json", b"{}").parent,
        *(load_result, "fits into memory. .* claims 1.1e"),
    ),
    "a huge batch": (
        lambda folder: sparse(folder / "train", b"\x80\x02").parent,
        *(load_images, "Expected at most .*train has more"),
    ),
    "a huge archive": (
        lambda folder: sparse(folder / "a.tar.gz", b"\0"),
        *(load_images, "Expected at most .*a.tar.gz has more"),
    ),
    "an archive that unpacks": (
        lambda folder: packed(folder / "a.tar.gz", one_member(TRAIN, MUCH, bytes(MUCH))),
        *(load_images, "Expected at most .*a.tar.gz unpacks to more"),
    ),
    "a member that claims": (
        lambda folder: packed(folder / "a.tar.gz", one_member(TRAIN, 8**11 - 1, bytes(99))),
        *(load_images, "a.tar.gz cannot be read: unexpected end of data"),
    ),
    "classes without names": (
        lambda folder: zipped(folder / "a.npz", **images_with(np.array([0, 2**40]))),
        *(load_images, "labels below 65536, or the names of the classes. .* has 1099511627776"),
    ),
}


def images_with(labels: np.ndarray) -> dict[str, bytes]:
    parts = {"x": npy((2, 8, 8), "|u1", bytes(128)), "y": npy((2,), "<i8", labels.tobytes())}
    return {part: parts[part[-1]] for part in PARTS}


class TestClaims:
    @pytest.mark.parametrize("name", CLAIMS)
    def test_more_than_there_is_is_refused_before_memory_is_taken(
        self, tmp_path, monkeypatch, name
    ):
        make, read, words = CLAIMS[name]
        path = make(tmp_path)
        for module in (claims, table_files):
            monkeypatch.setattr(module, "memory", lambda: MUCH // 16)
        monkeypatch.setattr(cifar, "LARGEST", MUCH // 16)
        with pytest.raises(ValueError, match=words):  # what is imported on the way is not counted
            read(path)
        tracemalloc.start()
        started = time.process_time()
        with pytest.raises(ValueError, match=words):
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MUCH / 4
        assert time.process_time() - started < 10

    def test_rows_are_counted_before_they_are_looked_at(self, tmp_path, monkeypatch):
        path = parquet(tmp_path / "a.parquet", a=repeated("", 2**20), y=np.zeros(2**20))
        monkeypatch.setattr(table_files, "_text_size", None)
        monkeypatch.setattr(claims, "memory", lambda: MUCH // 16)
        with pytest.raises(ValueError, match=r"fits into memory\. .* claims 0\.0168 GB"):
            load_dataset(path)

    def test_memory_is_that_of_the_machine_the_container_or_the_process(
        self, tmp_path, monkeypatch
    ):
        all_there_is = claims.memory()
        assert 2**28 < all_there_is < 2**50
        for text, most in (("max\n", all_there_is), ("1000\n", 1000), ("", all_there_is)):
            (tmp_path / "max").write_text(text)
            monkeypatch.setattr(claims, "CONTAINER", tmp_path / "max")
            assert claims.memory() == most
        monkeypatch.setattr(claims.resource, "getrlimit", lambda kind: (999, -1))
        assert claims.memory() == 999


def network_file(path: Path, kind: str, tensors: dict, **options) -> Path:
    """A network as :func:`save` writes it, with the right checksum, whatever is in it."""
    numbers = [tensors[name].reshape(-1).view(torch.uint8).numpy() for name in sorted(tensors)]
    header = {
        "format": 1,
        "kind": kind,
        "activation": "relu",
        "options": {**(SPECTRAL if kind == "SpectralNetwork" else COMPACT), **options},
        "sha256": hashlib.sha256(b"".join(map(bytes, numbers))).hexdigest(),
    }
    path.write_bytes(safetensors_bytes(tensors, metadata={"torchsparcs": json.dumps(header)}))
    return path


class TestNetworks:
    """What a header says is looked at before anything is built from it."""

    @pytest.mark.parametrize(
        ("kind", "count", "options", "words"),
        [
            ("SpectralNetwork", 127, {"widths": [10**4000] * 127}, "more neurons than can be"),
            ("SpectralNetwork", 5, {"widths": [1] * 10**6}, "more layers than tensors"),
            ("SpectralNetwork", 20_000, {"widths": [1, 1]}, "more tensors than layers"),
            (
                *("CompactNetwork", 5),
                {"widths": [1, 1], "connections": [[1, 0]] * 10**6},
                "more connections than tensors",
            ),
            (
                *("CompactNetwork", 10_000),
                {"widths": [1] * 10_000, "connections": [[1, 0]] * 9_999},
                "10000 layers with 9999 connections",
            ),
            (
                *("CompactNetwork", 1),
                {"widths": [1, 1], "connections": [[1, 0]] * 3 * 10**6},
                "its header is longer than any network needs",
            ),
        ],
    )
    def test_more_than_its_tensors_tell(self, tmp_path, kind, count, options, words):
        tensors = {str(number): torch.zeros(1) for number in range(count)}
        path = network_file(tmp_path / "a", kind, tensors, **options)
        started = time.process_time()
        with pytest.raises(ValueError, match=words):
            load(path)
        assert time.process_time() - started < 10

    @pytest.mark.parametrize(
        "types", [("float32", "float64"), ("float8_e5m2",) * 2, ("int64",) * 2]
    )
    def test_numbers_that_no_network_has(self, tmp_path, types):
        names, shapes = ("blocks.1_0.weight", "blocks.1_0.bias"), ((1, 1), (1,))
        tensors = {
            name: torch.ones(shape).to(getattr(torch, kind))
            for name, shape, kind in zip(names, shapes, types, strict=True)
        }
        path = network_file(
            tmp_path / "a", "CompactNetwork", tensors, widths=[1, 1], connections=[[1, 0]]
        )
        with pytest.raises(ValueError, match="its numbers are of the types torch"):
            load(path)


class TestPickles:
    """A few bytes that took gigabytes, or for ever, where Python's own machine ran them."""

    @pytest.mark.parametrize(
        ("code", "words"),
        [
            (b"}r\xff\xff\xff\x0f.", "names of the classes. .* has none"),  # a place in the memo
            (b"})" + b"q\0h\0\x86" * 80 + b"Ns.", "a key is no text"),  # tuples of tuples
            (b"})" + b"q\0h\0\x86" * 80 + b"\x93.", "a name is no text"),
            (
                b"c_codecs\nencode\nX\x01\0\0\0a)" + b"q\0h\0\x86" * 80 + b"\x86R.",
                "what is encoded is no text",
            ),
            (b"\x8e" + b"\xff" * 7 + b"\x7fa.", "whole pickle"),
            (b"]" + b"\x85" * 10**5 + b".", "Expected a dictionary"),
        ],
    )
    def test_are_refused_at_once(self, tmp_path, code, words):
        batch = {b"data": np.zeros((1, 3072), np.uint8), b"fine_labels": [0]}
        for name in ("train", "test"):
            (tmp_path / name).write_bytes(pickle.dumps(batch, 2))
        (tmp_path / "meta").write_bytes(b"\x80\x02" + code)
        started = time.process_time()
        with pytest.raises(ValueError, match=words):
            load_images(tmp_path)
        assert time.process_time() - started < 10

    def test_one_text_is_encoded_once(self):
        again = b"h\0h\1h\2\x86R" * 1000
        text = b"X\0\0\x10\0" + b"a" * 2**20
        start = b"](c_codecs\nencode\nq\0" + text + b"q\1X\6\0\0\0latin1q\2\x86R"
        tracemalloc.start()
        built = pickles._built(b"\x80\x02" + start + again + b"e.")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert built == [b"a" * 2**20] * 1001
        assert peak < 2**24

    def test_labels_that_no_number_holds(self, tmp_path):
        batch = {b"data": np.zeros((1, 3072), np.uint8), b"fine_labels": [10**30]}
        for name in ("train", "test"):
            (tmp_path / name).write_bytes(pickle.dumps(batch, 2))
        (tmp_path / "meta").write_bytes(pickle.dumps({b"fine_label_names": [b"a"]}, 2))
        with pytest.raises(ValueError, match="whole numbers as labels"):
            load_images(tmp_path)


def test_headers_that_other_programs_add_to_a_tar_are_gone_past(tmp_path):
    """Python's own reader searches them with a pattern that takes the square of their length."""
    member = tarfile.TarInfo("pax")
    member.type, member.size = b"x", 10**6
    digits = b"9" * 10**6 + bytes(-(10**6) % 512)
    content = member.tobuf() + digits + one_member(TRAIN, 0, b"") + bytes(1024)
    path = packed(tmp_path / "a.tar.gz", content)
    started = time.process_time()
    with pytest.raises(ValueError, match="lacks test, meta"):
        load_images(path)
    assert time.process_time() - started < 10
