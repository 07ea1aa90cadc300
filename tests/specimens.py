"""Small valid files of every kind, how each is damaged, and what comes of reading them."""

import contextlib
import gzip
import io
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import mutations
import numpy as np
import pandas as pd
import pyarrow
import torch
from networks import randomised
from pyarrow.feather import write_feather

from torchsparcs import (
    CompactNetwork,
    SearchConfig,
    SpectralCNN,
    SpectralNetwork,
    TrainConfig,
    extract,
    load,
    load_result,
    save,
    search,
)
from torchsparcs.command import predicting, runs
from torchsparcs.command.console import open_console
from torchsparcs.command.jobs import Job
from torchsparcs.files.checkpoint import load_checkpoint, packed
from torchsparcs.images.datasets import load_images
from torchsparcs.tables.datasets import load_dataset

TABLE = pd.DataFrame({"a": [1, 2, 4], "b": [0.5, 1.5, 1], "c d": ["x", "y,z", "x"], "y": [1, 0, 1]})
DRAW = np.random.default_rng(0)
Files = dict[str, bytes]


@dataclass(frozen=True)
class Kind:
    """Files that are read together, and how they are damaged.

    Attributes:
        bases: sets of valid files, by their names in a folder.
        reads: what to read; the folder itself where it is "".
        use: what is done with what was read; it may say what is wrong with it, as a ValueError.
    """

    bases: tuple[Files, ...]
    damage: Callable[[Files, Random], Files]
    read: Callable[[Path], Any]
    reads: str = ""
    use: Callable[[Any], Any] = repr

    def write(self, folder: Path, draw: Random) -> None:
        """A set of files, damaged."""
        write_files(folder, self.damage(draw.choice(self.bases), draw))


def one(name: str, damage: mutations.Damage) -> Callable[[Files, Random], Files]:
    """Only the file ``name`` is damaged."""
    return lambda files, draw: {**files, name: damage(files[name], draw)}


def write_files(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def outcome(kind: Kind, folder: Path) -> str:
    """ "loaded", or the type of one of our errors; anything else comes out as it is."""
    path = folder / kind.reads if kind.reads else folder
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "The first column of .* numbers the rows", UserWarning)
        warnings.filterwarnings("ignore", "Categories that were not seen", UserWarning)
        warnings.filterwarnings("ignore", "float32 is too coarse", UserWarning)
        try:
            loaded = kind.read(path)
        except (ValueError, OSError) as error:
            if not str(error).startswith("Expected"):
                raise AssertionError("Expected an error of ours.") from error
            return type(error).__name__
        with ours_only():
            kind.use(loaded)
        return "loaded"


@contextlib.contextmanager
def ours_only() -> Iterator[None]:
    """A ValueError of ours is an answer; anything else comes out."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Expected"):
            raise AssertionError("Expected an error of ours.") from error


def _table(name: str, contents: Iterable[bytes], damage: mutations.Damage) -> Kind:
    """Tables in a file ``name``."""
    return Kind(
        tuple({name: content} for content in contents),
        *(one(name, damage), load_dataset, name),
        use=lambda dataset: (dataset.X.dtypes, len(dataset.y)),
    )


def _of_run(name: str, damage: mutations.Damage) -> Kind:
    """Folders of searches of which one file is damaged."""
    return Kind(_searches(), one(name, damage), load_result, use=_use_result)


TEXTS = (TABLE.to_csv(index=False).encode(), TABLE.to_csv().encode())
# Each is made when it is asked for: some take seconds.
KINDS: dict[str, Callable[[], Kind]] = {
    "spectral network": lambda: Kind(
        tuple({"a": _saved(network)} for network in _spectral()),
        *(one("a", mutations.damaged_safetensors), load, "a", _use_network),
    ),
    "compact network": lambda: Kind(
        tuple({"a": _saved(network)} for network in _compact()),
        *(one("a", mutations.damaged_safetensors), load, "a", _use_network),
    ),
    "settings.json": lambda: _of_run("settings.json", mutations.damaged_json),
    "front.json": lambda: _of_run("front.json", mutations.damaged_json),
    "history.json": lambda: _of_run("history.json", mutations.damaged_json),
    "history.safetensors": lambda: _of_run("history.safetensors", mutations.damaged_safetensors),
    "networks/00.safetensors": lambda: _of_run(
        "networks/00.safetensors", mutations.damaged_safetensors
    ),
    "csv": lambda: _table("a.csv", TEXTS, mutations.damaged_text),
    "tsv": lambda: _table(
        "a.tsv", [TABLE.to_csv(index=False, sep="\t").encode()], mutations.damaged_text
    ),
    "csv.gz": lambda: _table("a.csv.gz", map(gzip.compress, TEXTS), mutations.damaged_gzip),
    "npz": lambda: _table("a.npz", (_npz(**arrays) for arrays in _tables()), mutations.damaged_npz),
    "parquet": lambda: _table("a.parquet", _parquets(), mutations.damaged_parquet),
    "feather": lambda: _table("a.feather", _arrows(), mutations.damaged_arrow),
    "xlsx": lambda: _table(
        "a.xlsx", [_bytes(TABLE.to_excel, index=False)], mutations.damaged_workbook
    ),
    "jsonl": lambda: _table(
        *("a.jsonl", [TABLE.to_json(orient="records", lines=True).encode()]),
        mutations.damaged_lines,
    ),
    "sqlite": lambda: Kind(
        ({"a.db": _database()},),
        *(one("a.db", mutations.damaged_bytes), lambda path: load_dataset(f"sqlite:///{path}")),
        *("a.db", lambda dataset: (dataset.X.dtypes, len(dataset.y))),
    ),
    "images npz": lambda: Kind(
        tuple({"a.npz": c} for c in (_images(), _images(classes=np.array(["cat", "dog"])))),
        *(one("a.npz", mutations.damaged_npz), load_images, "a.npz"),
        use=lambda images: (repr(images), images.statistics()),
    ),
    "checkpoint": lambda: Kind(
        tuple({"a": packed(state)} for state in _states()),
        *(one("a", mutations.damaged_checkpoint), load_checkpoint, "a"),
    ),
    # What the files of folders say is changed, and all commands read them.
    "folder of a table": lambda: Kind(
        (*_searches(), _run(np.arange(40) % 2)), mutations.damaged_folder, _use_folder
    ),
    "folder of a network": lambda: Kind(
        (_network_run(SpectralNetwork([4, 3, 2])), _network_run(SpectralCNN([1, 3, 3, 2]))),
        *(mutations.damaged_folder, _use_folder),
    ),
    "unfinished folder": lambda: Kind((_unfinished_run(),), mutations.damaged_folder, _resume),
}
FOLDERS = tuple(name for name in KINDS if "folder" in name)
FILES = tuple(name for name in KINDS if name not in FOLDERS)


@cache
def kind_of(name: str) -> Kind:
    """The kind of that name."""
    return KINDS[name]()


@cache
def _searches() -> tuple[Files, ...]:
    """Of classes and of numbers."""
    return tuple(_run(y) for y in (np.arange(40) % 3, np.linspace(0, 1, 40)))


def _spectral() -> list[SpectralNetwork]:
    plain = SpectralNetwork([2, 3, 2])
    special = SpectralNetwork([2, 3, 2, 1], train_input_eigenvalues=True, update="iterated")
    return [randomised(network, 0) for network in (plain, special)]


def _compact() -> list[CompactNetwork]:
    drawn = [randomised(SpectralNetwork([2, 4, 3, 1]), seed, dead=0.3) for seed in (0, 1)]
    return [extract(network) for network in (*drawn, _blind())]


def _blind() -> SpectralNetwork:
    """Its compact form reads one input of two."""
    network = randomised(SpectralNetwork([2, 3, 1]), 2)
    with torch.no_grad():
        network.transfers[0][:, 0] = 0
    return network


def _saved(network: Any) -> bytes:
    with TemporaryDirectory() as folder:
        save(network, Path(folder) / "a")
        return (Path(folder) / "a").read_bytes()


def _use_network(network: Any) -> None:
    repr(network)
    if network.widths[0] < 10**4:
        dtype = next(network.parameters()).dtype
        network(torch.zeros(2, network.widths[0], dtype=dtype))


def _run(y: np.ndarray) -> Files:
    """A search of a second, in files."""
    config = SearchConfig(steps=10, epochs=1, ways=("asleep",), shrink=0.1)
    options: dict[str, Any] = {"widths": (2,), "penalty_weights": (1e-3,), "validation": 0.2}
    result = search(_inputs(), y, **options, config=config, progress=False, device="cpu")
    with TemporaryDirectory() as folder:
        result.save(folder)
        return files_in(Path(folder))


def files_in(folder: Path) -> Files:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _network_run(network: SpectralNetwork | SpectralCNN) -> Files:
    """A search of a network, in files."""
    generator = torch.Generator().manual_seed(0)
    shape = (4,) if isinstance(network, SpectralNetwork) else (1, 4, 4)
    x = torch.randn(40, *shape, generator=generator)
    config = TrainConfig(epochs=2, batch_size=20)
    y = (x.flatten(1)[:, 0] > 0).long()
    result = search(x, y, network=network, config=config, validation=0.2, progress=False)
    with TemporaryDirectory() as folder:
        result.save(folder)
        return files_in(Path(folder))


def _unfinished_run() -> Files:
    """All is done but the writing of the result."""
    with TemporaryDirectory() as folder, patch.object(Job, "_write", side_effect=InterruptedError):
        with contextlib.suppress(InterruptedError):
            Job("iris", steps=10, widths=(4,), penalty_weights=(1e-3,), device="cpu").run(
                Path(folder), open_console(quiet=True), resume=False
            )
        return files_in(Path(folder))


def _resume(folder: Path) -> None:
    """Go on with the search in ``folder``; the ONNX file, which takes seconds, is left out."""
    with patch("torchsparcs.command.jobs.to_onnx"):
        Job.begun_in(folder).run(folder, open_console(quiet=True), resume=True)


def _use_folder(folder: Path) -> None:
    """What Python does with a result, and every command that reads one.

    Exports to ONNX and torch take seconds: what they are made of is computed in their place.
    """
    result = load_result(folder)
    said = folder / "said.csv"
    if result.preprocessing is not None:
        _inputs().to_csv(folder / "rows.csv", index=False)
    commands: tuple[Callable[[], Any], ...] = (
        lambda: _use_result(result),
        lambda: result.deployed()(result.deployed().example),
        lambda: runs.show(folder),
        lambda: runs.write_report(folder, None, force=True),
        lambda: runs.export(folder, "safetensors", None, pick=None, force=True),
        lambda: predicting.predict(
            folder, str(folder / "rows.csv"), said, pick=None, raw=False, force=True
        ),
    )
    for command in commands:
        with ours_only(), contextlib.redirect_stdout(io.StringIO()):
            command()


def _states() -> list[dict[str, Any]]:
    """What checkpoints hold."""
    history = {"train_loss": [0.5, 0.25], "snapshots": [(0, {"a": torch.ones(2)})]}
    return [
        {
            "version": 2,
            "seconds": 1.5,
            "found": {"parameters": [torch.ones(2)], "history": history},
        },
        {
            "version": 2,
            "seconds": 0.0,
            "found": {"widths": list(range(20)), "weights": (0.1, None)},
        },
    ]


def _inputs() -> pd.DataFrame:
    return pd.DataFrame({"a": np.arange(40) % 7, "b": np.resize(["x", "y"], 40)})


def _use_result(result: Any) -> None:
    repr(result)
    is_table = result.preprocessing is not None
    for rule in ("best", "smallest", "linear")[: 3 if is_table else 2]:
        found = result.pick(rule)
        repr(found)
        rows = _inputs() if is_table else torch.zeros(2, *found.row_shape)
        result.predict(rows, rule)
    repr(result.history)


def _npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _tables() -> list[dict[str, np.ndarray]]:
    return [
        {"X": np.eye(4, 2), "y": np.arange(4)},
        {"x": np.eye(4, 2, dtype=np.float32), "y": np.eye(4, 2)},
        {"a": np.arange(4), "b": np.array(list("wxyz")), "target": np.arange(4) > 1},
    ]


def _parquets() -> list[bytes]:
    wide = TABLE.assign(
        when=pd.to_datetime("2024-01-01"),
        kind=pd.Categorical(["u", "v", "u"]),
        gone=[None, "a", ""],
    )
    variants: list[tuple[pd.DataFrame, dict[str, Any]]] = [
        (TABLE, {"compression": None}),
        (TABLE, {"compression": "zstd", "index": True}),
        (TABLE, {"compression": "gzip", "use_dictionary": False}),
        (wide, {"compression": "snappy"}),
        (wide.set_index("a"), {"data_page_version": "2.0", "row_group_size": 2}),
    ]
    files = []
    for table, options in variants:
        file = io.BytesIO()
        table.to_parquet(file, **options)
        files.append(file.getvalue())
    return files


def _bytes(write: Callable[..., Any], **options: Any) -> bytes:
    """What is written to a file."""
    file = io.BytesIO()
    write(file, **options)
    return file.getvalue()


def _arrows() -> list[bytes]:
    """Files and a stream, packed or not, with a dictionary."""
    table = pyarrow.Table.from_pandas(TABLE.assign(kind=pd.Categorical(["u", "v", "u"])))
    stream = io.BytesIO()
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    packed = [
        _bytes(partial(write_feather, table), compression=name)
        for name in ("zstd", "lz4", "uncompressed")
    ]
    return [*packed, stream.getvalue()]


def _database() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        connection = sqlite3.connect(path)
        TABLE.to_sql("rows", connection, index=False)
        connection.close()
        return path.read_bytes()


def _images(**more: np.ndarray) -> bytes:
    pixels = DRAW.integers(0, 256, (3, 2, 2, 3), dtype=np.uint8)
    labels = np.array([0, 1, 1])
    return _npz(train_x=pixels, train_y=labels, test_x=pixels / 255, test_y=labels, **more)
