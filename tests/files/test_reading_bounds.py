"""Limits: a file that claims, or unpacks to, far more than there is, is refused at once."""

import gzip
import hashlib
import io
import itertools
import json
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch
from pyarrow.parquet import write_table
from safetensors.torch import save as safetensors_bytes

from torchsparcs import load, load_result
from torchsparcs.files import reading as limits
from torchsparcs.images import cifar
from torchsparcs.images.datasets import load_images
from torchsparcs.tables import arrow, text_files, whole_files
from torchsparcs.tables import parquet as parquet_files
from torchsparcs.tables.datasets import load_dataset
from torchsparcs.tables.preprocessing import Inputs
from torchsparcs.tables.readers import open_table

MUCH = 2**27  # bytes; the tests have a sixteenth of that
CIFAR = ("train", "test", "meta")
PARTS = ("train_x", "train_y", "test_x", "test_y")
SPECTRAL = {"bias": True, "train_input_eigenvalues": False, "update": "feedforward"}
COMPACT = {"reads": None, "biased": [1], "maximal": None}


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


def repeated(text: str, rows: int, kind=None):
    """A column with the same text in every row, of which a file has one."""
    indices = pyarrow.array([0] * rows, pyarrow.int32())
    return pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array([text], kind))


def feather(path: Path, **columns) -> Path:
    """Packed, in a single batch."""
    table, options = pyarrow.table(columns), pyarrow.ipc.IpcWriteOptions(compression="zstd")
    with pyarrow.ipc.new_file(path, table.schema, options=options) as file:
        file.write_table(table)
    return path


def shared_text(length: int, rows: int):
    """A column of views of one text."""
    text = pyarrow.array(["x" * length], pyarrow.string_view())
    _, view, content = text.buffers()
    buffers = [None, pyarrow.py_buffer(view.to_pybytes()[:16] * rows), content]
    return pyarrow.Array.from_buffers(pyarrow.string_view(), rows, buffers)


def workbook(path: Path, rows: bytes) -> Path:
    """With more rows in its sheet, as they are in the file."""
    pd.DataFrame({"a": [1, 2], "y": [0, 1]}).to_excel(path, index=False)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = "xl/worksheets/sheet1.xml"
    members[name] = members[name].replace(b"</sheetData>", rows + b"</sheetData>")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    return path


def short_rows(path: Path) -> Path:
    path.write_bytes(b"y," + b",".join(b"%d" % i for i in range(20_000)) + b"\n" + b"1\n" * 20_000)
    return path


def packed(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content))
    return path


# What claims, or unpacks to, far more than there is: how it is made, read and refused.
CLAIMS = {
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
        *(load_dataset, "fits into memory. .* claims 3.2 GB"),
    ),
    "texts that differ": (
        lambda folder: parquet(
            folder / "a.parquet", a=[f"{i:065536d}" for i in range(2000)], y=[1] * 2000
        ),
        *(load_dataset, "fits into memory. .* claims 0.131 GB"),
    ),
    "rows again and again": (
        lambda folder: parquet(folder / "a.parquet", a=np.zeros(2**20), y=np.zeros(2**20)),
        *(load_dataset, "fits into memory. .* claims 0.0168 GB"),
    ),
    "decimal numbers": (
        lambda folder: parquet(
            folder / "a.parquet",
            a=pyarrow.array([1] * 2**18).cast(pyarrow.decimal128(20, 1)),
            y=[1] * 2**18,
        ),
        *(load_dataset, "fits into memory. .* claims 0.0105 GB"),
    ),
    "an Arrow file that unpacks": (
        lambda folder: feather(folder / "a.feather", a=np.zeros(MUCH // 8), y=np.zeros(MUCH // 8)),
        *(load_dataset, "fits into memory. .* claims 0.268 GB"),
    ),
    "a dictionary that unpacks": (
        lambda folder: feather(
            folder / "a.feather", a=pyarrow.array(["x" * MUCH]).dictionary_encode(), y=[1]
        ),
        *(load_dataset, "fits into memory. .* claims 0.134 GB"),
    ),
    "rows of nothing": (
        lambda folder: feather(folder / "a.feather", a=pyarrow.nulls(2**31 - 1)),
        *(load_dataset, "fits into memory. .* claims 17.2 GB"),
    ),
    "texts that rows share": (
        lambda folder: feather(folder / "a.feather", a=shared_text(2**15, 10**4), y=[1] * 10**4),
        *(load_dataset, "fits into memory. .* claims 0.328 GB"),
    ),
    "a cell in the last of many rows": (
        lambda folder: workbook(folder / "a.xlsx", b'<row r="2147483648"><c><v>3</v></c></row>'),
        *(load_dataset, "at most 1,048,576 rows, .* has more in sheet 'Sheet1'"),
    ),
    "a list in one row": (
        lambda folder: parquet(folder / "a.parquet", a=[[0] * 2**20], y=[1]),
        *(load_dataset, "numbers or text. .* has lists or records in 'a'"),
    ),
    "a huge text": (
        lambda folder: sparse(folder / "a.csv", b"a,b\n" + b"1,2\n" * 2**18),
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
        lambda folder: [sparse(folder / name, b"").parent for name in CIFAR].pop(),
        *(load_images, "Expected at most .*train has 1,099,511,627,776"),
    ),
    "a huge archive": (
        lambda folder: sparse(folder / "a.tar.gz", b"\0"),
        *(load_images, "Expected at most .*a.tar.gz has 1,099"),
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
        for module in (limits, text_files, whole_files, parquet_files, arrow):
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

    @pytest.mark.skipif(limits.resource is None, reason="there is no such limit here")
    @pytest.mark.parametrize("rows", [2**31, 2**47], ids=["gigabytes", "a petabyte"])
    def test_arrays_that_claim_more_than_they_hold_take_no_memory(self, tmp_path, rows):
        limit = limits.resource.RLIMIT_AS
        soft, hard = limits.resource.getrlimit(limit)
        table = zipped(tmp_path / "a.npz", X=npy((rows, 1), content=bytes(80)))
        images = zipped(tmp_path / "b.npz", **dict.fromkeys(PARTS, npy((rows, 1))))
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
        limits.resource.setrlimit(limit, (taken + 2**28, hard))
        try:
            for read, path in ((load_dataset, table), (load_images, images)):
                with pytest.raises(ValueError, match=r"plain arrays\. .*Unable to allocate"):
                    read(path)
        finally:
            limits.resource.setrlimit(limit, (soft, hard))

    def test_empty_cells_at_the_ends_of_rows(self, tmp_path, monkeypatch):
        """Each row is as wide as Excel has them, and the file is small."""
        rows = b"".join(b'<row><c r="XFD%d"/></row>' % row for row in range(9, 99))
        path = workbook(tmp_path / "a.xlsx", rows)
        assert len(load_dataset(path).X) == 2
        monkeypatch.setattr(whole_files, "MOST_EMPTY", 2**20)
        with pytest.raises(ValueError, match=r"with values in their cells\. .* has more in sheet"):
            load_dataset(path)

    def test_rows_are_counted_before_they_are_looked_at(self, tmp_path, monkeypatch):
        path = parquet(tmp_path / "a.parquet", a=repeated("", 2**20), y=np.zeros(2**20))
        monkeypatch.setattr(parquet_files.ParquetFiles, "_measured", None)
        monkeypatch.setattr(limits, "memory", lambda: MUCH // 16)
        with pytest.raises(ValueError, match=r"fits into memory\. .* claims 0\.0168 GB"):
            load_dataset(path)

    @pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.binary()], ids=str)
    def test_a_text_is_in_memory_once_however_many_rows_have_it(self, tmp_path, monkeypatch, kind):
        """Three gigabytes, were they written out, in a file of a few kilobytes."""
        column = repeated("x" * 2**16, 50_000, kind)
        path = parquet(tmp_path / "a.parquet", a=column, y=[1] * 50_000)
        assert path.stat().st_size < 2**14
        monkeypatch.setattr(limits, "memory", lambda: MUCH)
        tracemalloc.start()
        table = load_dataset(path).X
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MUCH / 16
        assert {id(text) for text in table["a"]} == {id(table["a"][0])}
        stream = open_table(path)
        assert [len(frame["a"][0]) for frame in stream.frames(0, 30_000, {})] == [2**16] * 2

    def test_what_is_taken_counts_once(self, tmp_path, monkeypatch):
        path = parquet(tmp_path / "a.parquet", a=np.arange(2000.0), y=[1] * 2000)
        free = itertools.count(300_000, -10_000)  # less with every frame
        for module in (limits, text_files, whole_files, parquet_files, arrow):
            monkeypatch.setattr(module, "memory", lambda: next(free))
        monkeypatch.setattr(parquet_files, "AT_ONCE", 100)
        assert len(load_dataset(path).X) == 2000

    def test_files_that_told_less_than_they_have(self, tmp_path, monkeypatch):
        rows = 2000
        path = parquet(
            tmp_path / "a.parquet", a=[f"{i:065536d}" for i in range(rows)], y=[1] * rows
        )
        monkeypatch.setattr(parquet_files, "_claimed", lambda file: 0)
        monkeypatch.setattr(parquet_files, "AT_ONCE", 100)
        for module in (limits, text_files, whole_files, parquet_files, arrow):
            monkeypatch.setattr(module, "memory", lambda: MUCH // 4)
        with pytest.raises(ValueError, match=r"fits into memory\. .* claims 0\.0\d+ GB"):
            load_dataset(path)

    def test_rows_that_are_too_long(self, tmp_path, monkeypatch):
        path = parquet(tmp_path / "a.parquet", a=["x" * 2**16, "y" * 2**16], y=[0, 1])
        monkeypatch.setattr(parquet_files, "LARGEST_BATCH", 2**12)
        for read in (load_dataset, lambda path: next(open_table(path).frames(0, 2, {}))):
            with pytest.raises(ValueError, match=r"at most 4,096 bytes\. .* has some of 65,6"):
                read(path)

    @pytest.mark.parametrize("ending", ["csv", "parquet"])
    def test_very_many_columns_that_are_constant(self, tmp_path, ending):
        """The time does not grow with the square of the columns."""
        columns, rows = 20_000, 20
        path = tmp_path / f"a.{ending}"
        table = pd.DataFrame(np.ones((rows, columns)), columns=[f"x{i}" for i in range(columns)])
        getattr(table.assign(y=[0, 1] * (rows // 2)), f"to_{ending}")(path, index=False)
        data = load_dataset(path)
        started = time.process_time()
        with pytest.raises(ValueError, match=r"a column of X that varies\. Got constant"):
            Inputs.fit(data.X)
        assert time.process_time() - started < 2

    def test_memory_is_that_of_the_machine_the_container_or_the_process(
        self, tmp_path, monkeypatch
    ):
        assert 2**20 < limits.memory() < 2**50
        (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   5 kB\n")
        monkeypatch.setattr(limits, "AVAILABLE", tmp_path / "meminfo")
        assert limits.memory() == 5 * 1024
        (tmp_path / "meminfo").unlink()
        all_there_is = limits.memory()
        assert 2**28 < all_there_is < 2**50
        for text, most in (("max\n", all_there_is), ("1000\n", 1000), ("", all_there_is)):
            (tmp_path / "max").write_text(text)
            monkeypatch.setattr(limits, "CONTAINER", tmp_path / "max")
            assert limits.memory() == most
        monkeypatch.setattr(limits.resource, "getrlimit", lambda kind: (999, -1))
        assert limits.memory() == 999


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
            ("SpectralNetwork", 127, {"widths": [10**4000] * 127}, "widths is .* out of its range"),
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
