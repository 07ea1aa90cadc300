"""Small valid files of every kind, how each is damaged, and what comes of reading them."""

import gzip
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import mutations
import numpy as np
import pandas as pd
import torch
from networks import randomised

from torchsparcs import SearchConfig, SpectralNetwork, extract, load, load_result, save, search
from torchsparcs.images.datasets import load_images
from torchsparcs.tables.datasets import load_dataset

TABLE = pd.DataFrame({"a": [1, 2, 4], "b": [0.5, 1.5, 1], "c d": ["x", "y,z", "x"], "y": [1, 0, 1]})
DRAW = np.random.default_rng(0)
Files = dict[str, bytes]


@dataclass(frozen=True)
class Kind:
    """Files that are read together, and which of them is damaged.

    Attributes:
        bases: sets of valid files, by their names in a folder.
        damaged: the name of the one that changes.
        reads: what to read; the folder itself where it is "".
        use: what is done with what was read; it may say what is wrong with it, as a ValueError.
    """

    bases: tuple[Files, ...]
    damaged: str
    damage: mutations.Damage
    read: Callable[[Path], Any]
    reads: str = ""
    use: Callable[[Any], Any] = repr

    def write(self, folder: Path, draw: Random) -> None:
        """A set of valid files but for one."""
        files = draw.choice(self.bases)
        damaged = self.damage(files[self.damaged], draw)
        for name, content in {**files, self.damaged: damaged}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def outcome(kind: Kind, folder: Path) -> str:
    """ "loaded", or the type of one of our errors; anything else comes out as it is."""
    path = folder / kind.reads if kind.reads else folder
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "The first column of .* counts the rows", UserWarning)
        warnings.filterwarnings("ignore", "Categories that were not seen", UserWarning)
        try:
            loaded = kind.read(path)
        except (ValueError, OSError) as error:
            if not str(error).startswith("Expected"):
                raise AssertionError("Expected an error of ours.") from error
            return type(error).__name__
        try:
            kind.use(loaded)
        except ValueError as error:
            if not str(error).startswith("Expected"):
                raise AssertionError("Expected an error of ours.") from error
        return "loaded"


@cache
def kinds() -> dict[str, Kind]:
    """By name."""
    plain = SpectralNetwork([2, 3, 2])
    special = SpectralNetwork([2, 3, 2, 1], train_input_eigenvalues=True, update="iterated")
    spectral = [randomised(network, 0) for network in (plain, special)]
    compact = [
        extract(randomised(SpectralNetwork([2, 4, 3, 1]), seed, dead=0.3)) for seed in (0, 1)
    ]
    compact += [extract(_blind())]
    runs = tuple(_run(y) for y in (np.arange(40) % 3, np.linspace(0, 1, 40)))
    npz = tuple({"a.npz": _npz(**arrays)} for arrays in _tables())
    texts = (TABLE.to_csv(index=False).encode(), TABLE.to_csv().encode())
    tabs = (TABLE.to_csv(index=False, sep="\t").encode(),)
    parquets = tuple({"a.parquet": content} for content in _parquets())
    images = (_images(), _images(classes=np.array(["cat", "dog"])))
    table = {"read": load_dataset, "use": lambda dataset: (dataset.X.dtypes, len(dataset.y))}
    of_run = {"read": load_result, "use": _use_result}
    return {
        "spectral network": Kind(
            tuple({"a": _saved(network)} for network in spectral),
            *("a", mutations.damaged_safetensors, load, "a", _use_network),
        ),
        "compact network": Kind(
            tuple({"a": _saved(network)} for network in compact),
            *("a", mutations.damaged_safetensors, load, "a", _use_network),
        ),
        "settings.json": Kind(runs, "settings.json", mutations.damaged_json, **of_run),
        "front.json": Kind(runs, "front.json", mutations.damaged_json, **of_run),
        "history.json": Kind(runs, "history.json", mutations.damaged_json, **of_run),
        "history.safetensors": Kind(
            runs, "history.safetensors", mutations.damaged_safetensors, **of_run
        ),
        "networks/00.safetensors": Kind(
            runs, "networks/00.safetensors", mutations.damaged_safetensors, **of_run
        ),
        "csv": Kind(
            tuple({"a.csv": text} for text in texts),
            *("a.csv", mutations.damaged_text),
            **table,
            reads="a.csv",
        ),
        "tsv": Kind(
            tuple({"a.tsv": text} for text in tabs),
            *("a.tsv", mutations.damaged_text),
            **table,
            reads="a.tsv",
        ),
        "csv.gz": Kind(
            tuple({"a.csv.gz": gzip.compress(text)} for text in texts),
            *("a.csv.gz", mutations.damaged_gzip),
            **table,
            reads="a.csv.gz",
        ),
        "npz": Kind(npz, "a.npz", mutations.damaged_npz, **table, reads="a.npz"),
        "parquet": Kind(
            parquets, "a.parquet", mutations.damaged_parquet, **table, reads="a.parquet"
        ),
        "images npz": Kind(
            tuple({"a.npz": content} for content in images),
            *("a.npz", mutations.damaged_npz, load_images, "a.npz"),
            use=lambda images: (repr(images), images.statistics()),
        ),
    }


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
        paths = [path for path in Path(folder).rglob("*") if path.is_file()]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _inputs() -> pd.DataFrame:
    return pd.DataFrame({"a": np.arange(40) % 7, "b": np.resize(["x", "y"], 40)})


def _use_result(result: Any) -> None:
    repr(result)
    for rule in ("best", "smallest", "linear"):
        repr(result.pick(rule))
        result.predict(_inputs(), rule)
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


def _images(**more: np.ndarray) -> bytes:
    pixels = DRAW.integers(0, 256, (3, 2, 2, 3), dtype=np.uint8)
    labels = np.array([0, 1, 1])
    return _npz(train_x=pixels, train_y=labels, test_x=pixels / 255, test_y=labels, **more)
