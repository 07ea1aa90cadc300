"""Files are data: whatever is in one, it loads or an error of ours says why not."""

import gzip
import io
import json
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from safetensors.torch import save as safetensors_bytes
from specimens import FILES, FOLDERS, kind_of, outcome, write_files

from torchsparcs import CompactNetwork, History, load_result, save
from torchsparcs.files.arrays import read_arrays
from torchsparcs.images.datasets import load_images
from torchsparcs.tables.datasets import load_dataset

ROOT = Path(__file__).parents[2]
EACH = 150  # damaged files of each kind


@pytest.fixture
def run(tmp_path) -> Path:
    return write_files(tmp_path / "run", kind_of("front.json").bases[0])


class TestDamage:
    @pytest.mark.parametrize("name", FILES)
    def test_it_loads_or_an_error_of_ours_says_why_not(self, tmp_path, name):
        found = set()
        for place in range(EACH):
            kind_of(name).write(tmp_path, Random(f"{name} {place}"))
            found.add(outcome(kind_of(name), tmp_path))  # anything else comes out
        assert {"loaded", "ValueError"} <= found <= {"loaded", "ValueError", "FileNotFoundError"}

    @pytest.mark.parametrize("name", FOLDERS)
    def test_a_folder_that_says_something_else(self, tmp_path, name):
        """Whatever reads it: load_result, show, report, export, predict, resume."""
        found = set()
        for place in range(EACH // 3):
            folder = tmp_path / str(place)
            kind_of(name).write(folder, Random(f"{name} {place}"))
            found.add(outcome(kind_of(name), folder))  # anything else comes out
        assert {"loaded", "ValueError"} <= found <= {"loaded", "ValueError", "FileNotFoundError"}

    def test_the_benchmark_counts_what_goes_wrong(self, tmp_path):
        command = [sys.executable, str(ROOT / "benchmarks" / "fuzz.py"), "--files", "60"]
        run = subprocess.run(
            [*command, "--kinds", "npz", "csv", "--out", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        result = json.loads((tmp_path / "fuzz.json").read_text())["cpu"]
        assert result["files"]["tried"] == 60
        assert result["files"]["loaded"] + result["files"]["refused"] == 60
        assert result["files"]["anything_else"] == 0


class TestNothingIsUnpickled:
    @pytest.mark.parametrize("name", FILES)
    def test_whatever_is_read(self, tmp_path, monkeypatch, name):
        kind = kind_of(name)

        def fail(*args, **options):
            raise AssertionError("Something is unpickled.")

        for name in ("load", "loads", "_load", "_loads", "Unpickler", "_Unpickler"):
            monkeypatch.setattr(pickle, name, fail)
        monkeypatch.setattr(torch, "load", fail)
        for number, base in enumerate(kind.bases):
            folder = write_files(tmp_path / str(number), base)
            assert outcome(kind, folder) == "loaded"

    def test_objects_in_arrays_are_refused(self, tmp_path):
        np.savez(tmp_path / "a.npz", X=np.eye(2), y=np.array([{}, 1], dtype=object))
        for read in (load_dataset, load_images):
            with pytest.raises(
                ValueError, match=r"Object arrays cannot be loaded|train_x, train_y"
            ):
                read(tmp_path / "a.npz")

    def test_an_old_pyarrow_would(self, tmp_path, monkeypatch):
        folder = write_files(tmp_path, kind_of("parquet").bases[0])
        monkeypatch.setattr("pyarrow.__version__", "14.0.0")
        with pytest.raises(ImportError, match=r"Expected pyarrow 15 or newer\. Got 14"):
            load_dataset(folder / "a.parquet")


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        [
            "{outside}/secret.safetensors",
            "../outside/secret.safetensors",
            "networks/../../outside/secret.safetensors",
            "networks/./00.safetensors",
            "networks/.safetensors",
            "networks//00.safetensors",
            "networks\\00.safetensors",
            "networks/00.safetensors\n",
            "networks/00",
            "front.json",
            "",
            ["networks", "00.safetensors"],
        ],
    )
    def test_none_leads_out_of_the_folder(self, run, tmp_path, path):
        outside = tmp_path / "outside"
        outside.mkdir()
        shutil.copy(run / "networks" / "00.safetensors", outside / "secret.safetensors")
        if isinstance(path, str):
            path = path.format(outside=outside)
        found = json.loads((run / "front.json").read_text())
        found["front"][0]["network"] = path
        (run / "front.json").write_text(json.dumps(found))
        with pytest.raises(ValueError, match=r"(?s)is damaged: .*(is no path like|not str)"):
            load_result(run)

    def test_a_network_is_read_once(self, run):
        found = json.loads((run / "front.json").read_text())
        found["front"] *= 1000
        found["answers"] = None if found["answers"] is None else [None] * 1001
        (run / "front.json").write_text(json.dumps(found))
        with pytest.raises(ValueError, match="some of its networks are the same"):
            load_result(run)


def edit(path: Path, change) -> None:
    """``change`` what a JSON file holds, in place."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def damaged_front(change):
    return lambda run: edit(run / "front.json", change)


def damaged_settings(change):
    return lambda run: edit(run / "settings.json", change)


def damaged_history(change):
    return lambda run: edit(run / "history.json", change)


def other_network(run: Path, widths=(2, 3), dtype=torch.float32) -> None:
    network = CompactNetwork(widths, [(1, 0)], dtype=dtype)
    save(network, run / "networks" / "00.safetensors")


def other_history(run: Path, name: str, tensor: torch.Tensor) -> None:
    (run / "history.safetensors").write_bytes(safetensors_bytes({name: tensor}))


class TestRuns:
    @pytest.mark.parametrize(
        ("damage", "words"),
        [
            (damaged_front(lambda found: found.update(front=[])), "front is empty"),
            (damaged_front(lambda found: found["front"][0].update(score="1")), "score is '1'"),
            (damaged_front(lambda found: found["front"][0].update(score=True)), "score is True"),
            (damaged_front(lambda found: found["front"][0].update(loss=10**400)), "loss is 1000"),
            (damaged_front(lambda found: found["front"][0].update(member=0.5)), "member is 0.5"),
            (
                damaged_front(lambda found: found["front"][0].update(score=float("nan"))),
                "a network of its front has no score",
            ),
            (damaged_front(lambda found: found.update(answers=[[[1e30]]] * 2)), "answers.0. is"),
            (
                damaged_front(lambda found: found.update(answers=[[[[10**400]]]] * 2)),
                "answers.0. is",
            ),
            (
                damaged_front(lambda found: found.update(answers=[[[1]], [[[[1.0]]]]])),
                "answers.1. is",
            ),
            (
                damaged_front(lambda found: found["attempts"][0].update(cut=0.5)),
                "cut is 0.5, not int",
            ),
            (damaged_settings(lambda found: found.update(format=1.0)), "format is 1.0, not int"),
            (
                damaged_settings(lambda found: found["settings"].update(rows="3")),
                "rows is '3', not int",
            ),
            (damaged_settings(lambda found: found["settings"].update(widths=3)), "widths is 3"),
            (
                damaged_settings(lambda found: found["settings"].update(seconds=float("inf"))),
                "seconds is inf, out of its range",
            ),
            (damaged_settings(lambda found: found["settings"].update(fits=0)), "fits is 0, out of"),
            (damaged_settings(lambda found: found["settings"].update(rows=-1)), "rows is -1, out"),
            (damaged_settings(lambda found: found["settings"].update(widths=[3])), "widths is .3."),
            (damaged_settings(lambda found: found["settings"].update(device=[])), "device is .., "),
            (damaged_settings(lambda found: found["settings"].update(versions="")), "versions is"),
            (
                damaged_settings(lambda found: found["settings"].update(data="\ud800")),
                "surrogates not allowed",
            ),
            (damaged_front(lambda found: found["front"][0].update(member=-1)), "member is -1"),
            (damaged_front(lambda found: found["front"][0].update(member=99)), "no member 99"),
            (
                damaged_front(lambda found: found["front"][0].update(standard_error=float("nan"))),
                "a network of its front has no score",
            ),
            (
                damaged_front(
                    lambda found: found.update(answers=[[[1, 2], [3, 4]]] * len(found["answers"]))
                ),
                r"the shape \(2, 2\), not \(3, 3\)",
            ),
            (damaged_history(lambda found: found["train_loss"][0].append(0.5)), "more members in"),
            (damaged_history(lambda found: found.update(recruited=[[]])), "not one for each epoch"),
            (
                damaged_history(lambda found: found["recruited"][0].append([1])),
                "recruits of other members",
            ),
            (
                lambda run: other_history(run, "0/a", torch.ones(1)),
                "differ in their names or shapes",
            ),
            (damaged_history(lambda found: found.update(train_loss=3)), "train_loss is 3"),
            (damaged_history(lambda found: found.update(best_epoch="3")), "best_epoch is '3'"),
            (
                damaged_history(lambda found: found.update(snapshot_epochs=["a"])),
                "snapshot_epochs.0. is 'a'",
            ),
            (lambda run: other_history(run, "-1/a", torch.ones(1)), "'-1/a' .* no eigenvalues"),
            (lambda run: other_history(run, "0/a", torch.ones(1).int()), "'0/a' .* no eigenvalues"),
            (lambda run: other_network(run, (5, 3)), "5 inputs and 3 outputs .* has 2 and 3"),
            (lambda run: other_network(run, dtype=torch.float64), "of torch.float64"),
            (lambda run: (run / "front.json").write_text("[" * 10**5), "recursion depth"),
            (lambda run: (run / "history.json").write_text("9" * 5000), "Expected JSON"),
        ],
    )
    def test_what_does_not_fit_is_said(self, run, damage, words):
        assert load_result(run).history != History()
        damage(run)
        with pytest.raises(
            ValueError, match=rf"(?s)the folder of a search\. .* damaged: .*{words}"
        ):
            load_result(run)


class TestNetworkRuns:
    @pytest.mark.parametrize(
        ("damage", "words"),
        [
            (damaged_settings(lambda found: found["settings"].pop("task")), "settings lacks task"),
            (
                damaged_front(lambda found: found["front"][0].pop("row_shape")),
                "shape of the rows of a network is not known",
            ),
            (
                damaged_front(lambda found: found["front"][0].update(row_shape=[7, 7])),
                r"takes no rows of shape \(7, 7\)",
            ),
            (damaged_front(lambda found: found["front"][0].update(member=0)), "no member 0"),
        ],
    )
    @pytest.mark.parametrize("base", [0, 1])
    def test_what_does_not_fit_is_said(self, tmp_path, base, damage, words):
        run = write_files(tmp_path, kind_of("folder of a network").bases[base])
        load_result(run)
        damage(run)
        with pytest.raises(ValueError, match=rf"the folder of a search\. .* damaged: .*{words}"):
            load_result(run)


class TestTables:
    @pytest.mark.parametrize(
        ("arrays", "words"),
        [
            ({"a": b"\x93NUMPY\x09\x09", "y": b""}, "cannot be read"),
            ({"a": b"1", "y": b""}, "cannot be read"),
            ({"a": np.array(["2024-01-01"], "M8[D]"), "y": np.ones(1)}, r"holds datetime64\[D\]"),
            ({"a": np.array([1j]), "y": np.ones(1)}, "holds complex128, neither"),
            (
                {"a": np.array([0xD800], "<u4").view("<U1"), "y": np.ones(1)},
                "(surrogates not|not in range|character)",
            ),
            (
                {"a": np.array([0x110000], "<u4").view("<U1"), "y": np.ones(1)},
                "(surrogates not|not in range|character)",
            ),
        ],
    )
    def test_arrays_are_numbers_or_text(self, tmp_path, arrays, words):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            for name, array in arrays.items():
                archive.writestr(f"{name}.npy", array if isinstance(array, bytes) else npy(array))
        with pytest.raises(ValueError, match=rf"a whole .npz file of plain arrays\. .*{words}"):
            load_dataset(tmp_path / "a.npz")

    @pytest.mark.parametrize("order", ["C", "F"])
    @pytest.mark.parametrize("kind", [">f8", "<f4", ">i2", "|b1", "|u1", ">U3"])
    def test_plain_ones_are_what_numpy_reads(self, tmp_path, kind, order):
        array = np.asarray(np.arange(12).reshape(4, 3).astype(kind), order=order)
        for write in (np.savez, np.savez_compressed):
            write(tmp_path / "a.npz", X=array, empty=np.zeros((0, 3)), one=np.array(1.5))
            read = read_arrays(tmp_path / "a.npz")
            with np.load(tmp_path / "a.npz") as archive:
                assert [*read] == archive.files
                for name, held in read.items():
                    assert held.dtype.isnative
                    assert held.flags.writeable
                    np.testing.assert_array_equal(
                        held, archive[name], strict=not kind.startswith(">")
                    )

    def test_a_line_without_end(self, tmp_path):
        packed = gzip.compress(b"a,y\n1,2\n" + b"1" * 2**26)
        (tmp_path / "a.csv.gz").write_bytes(packed)
        with pytest.raises(ValueError, match=r"Expected lines of at most 16,777,216 bytes"):
            load_dataset(tmp_path / "a.csv.gz")

    def test_a_name_without_end(self, tmp_path):
        (tmp_path / "a.csv").write_bytes(b"x" * 200_000 + b",y\n1,2\n")
        with pytest.raises(ValueError, match=r"Expected names in the first line\. .*field limit"):
            load_dataset(tmp_path / "a.csv")

    def test_classes_that_are_one(self, tmp_path):
        pixels, labels = np.zeros((2, 4, 4), np.uint8), np.zeros(2, int)
        parts = {"train_x": pixels, "train_y": labels, "test_x": pixels, "test_y": labels}
        np.savez(tmp_path / "a.npz", **parts, classes=np.array("cat"))
        with pytest.raises(ValueError, match=r"classes to be names, one for each\. .* array \(\)"):
            load_images(tmp_path / "a.npz")
        np.savez(tmp_path / "a.npz", **{**parts, "train_x": np.full((2, 4, 4), 1e308)})
        with pytest.raises(ValueError, match="from 0 to 255"):
            load_images(tmp_path / "a.npz")


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()
