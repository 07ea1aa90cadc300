"""Image data sets: what the published files hold arrives, and nothing else is unpickled."""

import gzip
import hashlib
import io
import os
import pickle
import struct
import sys
import tarfile
import types

import numpy as np
import pytest
import torch
from torch import nn

from torchsparcs import TrainConfig, train
from torchsparcs.images import cifar
from torchsparcs.images.cifar import ARCHIVES, MD5
from torchsparcs.images.datasets import Images, load_images

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _no_torchvision(monkeypatch):
    """No test may download anything."""
    monkeypatch.setitem(sys.modules, "torchvision.datasets", None)


@pytest.fixture
def publish(monkeypatch):
    """Declares files, by name, to be the published ones."""

    def declared(files):
        for file, content in files.items():
            monkeypatch.setitem(MD5, file, hashlib.md5(content).hexdigest())

    return declared


def python2(value) -> bytes:
    """``value`` as Python 2 pickled it with protocol 2: text and bytes are both byte strings."""
    if value is None or isinstance(value, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    if isinstance(value, bytes):
        short = len(value) < 256
        return (
            b"U" + bytes([len(value)]) if short else b"T" + struct.pack("<i", len(value))
        ) + value
    if isinstance(value, int):
        return b"K" + bytes([value]) if 0 <= value < 256 else b"J" + struct.pack("<i", value)
    if isinstance(value, list):
        return b"](" + b"".join(map(python2, value)) + b"e"
    if isinstance(value, tuple):
        return b"(" + b"".join(map(python2, value)) + b"t"
    if isinstance(value, dict):
        return b"}(" + b"".join(python2(key) + python2(item) for key, item in value.items()) + b"u"
    assert value.dtype == np.uint8
    dtype = b"cnumpy\ndtype\n" + python2((b"u1", 0, 1)) + b"R"
    dtype += python2((3, b"|", None, None, None, -1, -1, 0)) + b"b"
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + python2((0,))
    state = b"(" + python2(1) + python2(value.shape) + dtype + python2(False)
    return empty + python2(b"b") + b"tR" + state + python2(value.tobytes()) + b"tb"


def python2_pickle(value) -> bytes:
    return b"\x80\x02" + python2(value) + b"."


def rows(count: int) -> np.ndarray:
    return RANDOM.integers(0, 256, (count, 3072), dtype=np.uint8)


def contents(name: str) -> tuple[dict[str, bytes], dict]:
    """The files of a small data set, and what is in them."""
    row, values = ARCHIVES[name], {}
    count = 10 if name == "cifar10" else 100
    for number, file in enumerate((*row.train, *row.test)):
        values[file] = {
            b"batch_label": b"batch %d" % number,
            row.labels: RANDOM.integers(0, count, 4 + number).tolist(),
            b"coarse_labels": [0] * (4 + number),
            b"data": rows(4 + number),
            b"filenames": [b"a.png"] * (4 + number),
        }
    values[row.meta] = {row.classes: [b"class %d" % i for i in range(count)]}
    return {file: python2_pickle(value) for file, value in values.items()}, values


def folder_of(files: dict[str, bytes], path):
    path.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (path / file).write_bytes(content)
    return path


def archive_of(files: dict[str, bytes], path, folder: str):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        top = tarfile.TarInfo(folder)
        top.type = tarfile.DIRTYPE
        tar.addfile(top)
        for file, content in {"readme.html": b"<html>", **files}.items():
            member = tarfile.TarInfo(f"{folder}/{file}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path


def small(**changes) -> dict[str, np.ndarray]:
    arrays = {
        "train_x": RANDOM.integers(0, 256, (6, 8, 9, 3), dtype=np.uint8),
        "train_y": np.arange(6, dtype=np.uint8) % 3,
        "test_x": RANDOM.integers(0, 256, (5, 8, 9, 3), dtype=np.uint8),
        "test_y": np.arange(5) % 3,
    }
    return {key: value for key, value in {**arrays, **changes}.items() if value is not None}


class TestCifar:
    @pytest.mark.parametrize("packed", [True, False])
    @pytest.mark.parametrize("name", ARCHIVES)
    def test_all_of_it_arrives(self, tmp_path, publish, name, packed):
        files, values = contents(name)
        row = ARCHIVES[name]
        if packed:
            path = archive_of(files, tmp_path / "data" / row.file, row.folder)
            publish({row.file: path.read_bytes()})
        else:
            path = folder_of(files, tmp_path / "data" / row.folder)
            publish(files)
        before = sorted(tmp_path.rglob("*"))
        for images in (load_images(name, folder=tmp_path / "data"), load_images(path)):
            assert images.name == name
            assert images.classes == tuple(n.decode() for n in values[row.meta][row.classes])
            for pixels, labels, parts in (
                (images.train_x, images.train_y, row.train),
                (images.test_x, images.test_y, row.test),
            ):
                data = np.concatenate([values[part][b"data"] for part in parts])
                assert pixels.dtype == torch.uint8
                assert np.array_equal(pixels.numpy(), data.reshape(-1, 3, 32, 32))
                expected = [label for part in parts for label in values[part][row.labels]]
                assert labels.dtype == torch.int64
                assert labels.tolist() == expected
        assert sorted(tmp_path.rglob("*")) == before  # nothing was unpacked

    @pytest.mark.filterwarnings("ignore:numpy.core:DeprecationWarning")
    def test_our_pickles_are_those_of_python_2(self):
        value = {b"data": rows(2), b"labels": [0, 300, -1], b"none": (None, True)}
        read = pickle.loads(python2_pickle(value), encoding="bytes")
        assert np.array_equal(read.pop(b"data"), value.pop(b"data"))
        assert read == value

    def test_the_folder_data_is_the_default(self, tmp_path, monkeypatch, publish):
        monkeypatch.chdir(tmp_path)
        files, _ = contents("cifar100")
        publish(files)
        folder_of(files, tmp_path / "data" / "cifar-100-python")
        assert len(load_images("cifar100").classes) == 100

    @pytest.mark.parametrize("name", ARCHIVES)
    def test_a_missing_one_says_what_to_download(self, tmp_path, name):
        with pytest.raises(FileNotFoundError) as caught:
            load_images(name, folder=tmp_path / "here")
        row, message = ARCHIVES[name], str(caught.value)
        for part in (
            row.title,
            row.url,
            MD5[row.file],
            row.file,
            row.folder,
            f"{name}.npz",
            "here",
        ):
            assert part in message


class Command:
    """What a malicious pickle holds: a call."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def another(content: bytes) -> bytes:
    """One byte in the middle is another."""
    place = len(content) // 2
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


class TestChecksums:
    @pytest.mark.parametrize("name", ARCHIVES)
    def test_an_archive_with_another_byte_is_refused_before_it_is_opened(
        self, tmp_path, publish, monkeypatch, name
    ):
        row = ARCHIVES[name]
        path = archive_of(contents(name)[0], tmp_path / row.file, row.folder)
        publish({row.file: path.read_bytes()})
        assert load_images(path).name == name
        path.write_bytes(another(path.read_bytes()))
        monkeypatch.setattr(tarfile, "open", None)
        md5 = hashlib.md5(path.read_bytes()).hexdigest()
        words = rf"Expected .*\(md5 {MD5[row.file]}\).* as it is published\. .* has the md5 {md5}"
        for source in (path, name):
            with pytest.raises(ValueError, match=words):
                load_images(source, folder=tmp_path)

    def test_a_whole_archive_of_other_images_is_refused(self, tmp_path):
        row = ARCHIVES["cifar10"]
        path = archive_of(contents("cifar10")[0], tmp_path / row.file, row.folder)
        with pytest.raises(
            ValueError, match=r"\(md5 c58f30108f718f92721af3b95e74349a\) or cifar-1"
        ):
            load_images(path)

    @pytest.mark.parametrize("file", ["data_batch_3", "test_batch", "batches.meta"])
    def test_a_folder_with_another_byte_is_refused_before_anything_is_unpickled(
        self, tmp_path, publish, monkeypatch, file
    ):
        files, _ = contents("cifar10")
        publish(files)
        folder = folder_of({**files, file: another(files[file])}, tmp_path)
        monkeypatch.setattr(cifar, "_ArrayUnpickler", None)
        with pytest.raises(
            ValueError, match=rf"Expected {file} \(md5 .*{file} has the md5 .* again"
        ):
            load_images(folder)

    def test_the_checksums_are_those_of_the_published_files(self):
        assert {*MD5} == {file for row in ARCHIVES.values() for file in (row.file, *row.members)}
        assert all(len(md5) == 32 for md5 in {*MD5.values()})
        assert len({*MD5.values()}) == 12


class TestNothingIsRun:
    """Not even of a file with the right checksum."""

    @pytest.mark.parametrize(
        ("value", "words"),
        [
            (Command(os.system, "touch marker"), r"asks for (posix|nt)\.system"),
            (Command(eval, "1 + 1"), r"asks for (__builtin__|builtins)\.eval"),
            (Command(getattr, {}, "clear"), "getattr"),
            (np.float64(1.0), r"asks for numpy\._?core\.multiarray\.scalar"),
        ],
    )
    def test_no_other_name_is_known(self, tmp_path, monkeypatch, publish, value, words):
        monkeypatch.chdir(tmp_path)
        files, _ = contents("cifar10")
        files["data_batch_3"] = pickle.dumps({"labels": value}, protocol=2)
        publish(files)
        with pytest.raises(ValueError, match=words):
            load_images(folder_of(files, tmp_path / "data"))
        assert not (tmp_path / "marker").exists()

    def test_objects_in_an_npz_are_refused(self, tmp_path):
        objects = np.array([Command(os.system, f"touch {tmp_path / 'marker'}")], dtype=object)
        path = npz(tmp_path / "a.npz", **small(train_y=objects))
        with pytest.raises(ValueError, match=r"plain arrays\. .*a\.npz cannot be read"):
            load_images(path)
        assert not (tmp_path / "marker").exists()


class TestBrokenFiles:
    @pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
    def test_a_truncated_archive_is_named(self, tmp_path, share):
        files, _ = contents("cifar10")
        path = archive_of(files, tmp_path / "cifar-10-python.tar.gz", "cifar-10-batches-py")
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])
        with pytest.raises(ValueError, match=r"Expected .*cifar-10-python\.tar\.gz"):
            load_images("cifar10", folder=tmp_path)

    @pytest.mark.parametrize(
        "content",
        [b"<html>404", gzip.compress(b"<html>404"), b"\0" * 2048],
        ids=["page", "packed page", "zeros"],
    )
    def test_something_else_is_named(self, tmp_path, content):
        (tmp_path / "cifar-100-python.tar.gz").write_bytes(content)
        with pytest.raises(ValueError, match=r"Expected .*cifar-100-python\.tar\.gz"):
            load_images("cifar100", folder=tmp_path)

    def test_missing_files_are_listed(self, tmp_path):
        files, _ = contents("cifar10")
        del files["data_batch_2"], files["batches.meta"]
        with pytest.raises(ValueError, match=r"lacks data_batch_2, batches\.meta; the md5 .* c58f"):
            load_images(folder_of(files, tmp_path))

    def test_no_file_is_larger_than_it_can_be(self, tmp_path, monkeypatch, publish):
        row = ARCHIVES["cifar100"]
        files = {**contents("cifar100")[0], "train": bytes(2**20)}
        path = archive_of(files, tmp_path / row.file, row.folder)
        publish({row.file: path.read_bytes()})
        monkeypatch.setattr(cifar, "LARGEST", 2**19)
        with pytest.raises(ValueError, match=r"at most 524,288 bytes\. .*/train is none"):
            load_images(path)
        with pytest.raises(ValueError, match=r"at most 524,288 bytes\. .*train has 1,048,576"):
            load_images(folder_of(files, tmp_path / "folder"))


class TestNpz:
    def test_by_path_and_by_name(self, tmp_path):
        arrays = small(classes=np.array(["a", "b", "c", "d"]))
        path = npz(tmp_path / "animals.npz", **arrays)
        for images in (load_images(path), load_images("animals", folder=tmp_path)):
            assert (images.name, images.classes) == ("animals", ("a", "b", "c", "d"))
            assert np.array_equal(images.train_x.numpy(), arrays["train_x"].transpose(0, 3, 1, 2))
            assert images.train_x.is_contiguous()
            assert images.train_y.tolist() == [0, 1, 2, 0, 1, 2]
            assert images.test_y.dtype == torch.int64
        npz(tmp_path / "cifar10.npz", **arrays)
        assert load_images("cifar10", folder=tmp_path).name == "cifar10"

    @pytest.mark.parametrize(
        "keys",
        ["x_train y_train x_test y_test", "train_images train_labels test_images test_labels"],
    )
    def test_other_names(self, tmp_path, keys):
        arrays = dict(zip(keys.split(), small().values(), strict=True))
        images = load_images(npz(tmp_path / "a.npz", **arrays, val_images=np.zeros(3)))
        assert images.classes == ("0", "1", "2")

    @pytest.mark.parametrize(
        ("shape", "expected"),
        [
            ((8, 9), (1, 8, 9)),
            ((28, 28, 1), (1, 28, 28)),
            ((8, 9, 4), (4, 8, 9)),
            ((3, 8, 9), (3, 8, 9)),
            ((1, 28, 28), (1, 28, 28)),
        ],
    )
    def test_shapes(self, tmp_path, shape, expected):
        train_x, test_x = (RANDOM.integers(0, 256, (n, *shape)) for n in (6, 5))
        images = load_images(npz(tmp_path / "a.npz", **small(train_x=train_x, test_x=test_x)))
        assert images.train_x.shape == (6, *expected)
        moved = np.moveaxis(train_x.reshape(6, *shape, *[1] * (3 - len(shape))), -1, 1)
        whole = moved if moved.shape[1:] == expected else train_x
        assert np.array_equal(images.train_x.numpy(), whole)

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
    def test_shares_of_255(self, tmp_path, dtype):
        arrays = small()
        over = {key: (arrays[key] / 255).astype(dtype) for key in ("train_x", "test_x")}
        images = load_images(npz(tmp_path / "a.npz", **{**arrays, **over}))
        assert np.array_equal(images.train_x.numpy(), arrays["train_x"].transpose(0, 3, 1, 2))

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"test_y": None}, r"train_x, train_y, test_x and test_y\. .*a\.npz has train_x"),
            ({"train_x": np.zeros((6, 8), np.uint8)}, r"train_x of shape .*a\.npz has \(6, 8\)"),
            ({"train_x": np.zeros((6, 8, 9, 2), np.uint8)}, r"1, 3 or 4 .* has \(6, 8, 9, 2\)"),
            ({"train_x": np.zeros((6, 3, 3, 3), np.uint8)}, r"C alone\. .* has \(6, 3, 3, 3\)"),
            ({"train_x": np.zeros((6, 9, 9, 3), np.uint8)}, r"of one shape.* a has \(6, 3, 9, 9\)"),
            ({"test_x": np.zeros((0, 8, 9, 3), np.uint8)}, r"at least one of each\. a has"),
            ({"train_x": np.full((6, 8, 9, 3), 256)}, "train_x of whole numbers from 0 to 255"),
            ({"train_x": np.full((6, 8, 9, 3), -1)}, "from 0 to 255"),
            ({"train_x": np.full((6, 8, 9, 3), 0.5)}, "divided by 255"),
            ({"train_x": np.full((6, 8, 9, 3), np.nan)}, "divided by 255"),
            ({"test_x": np.full((5, 8, 9, 3), "a")}, "test_x of whole numbers"),
            ({"train_y": np.zeros(6)}, r"train_y to be whole numbers.*has float64 of shape \(6,\)"),
            ({"train_y": np.zeros((6, 3), int)}, r"has int64 of shape \(6, 3\)"),
            ({"train_y": np.array(3)}, r"a has \(1,\)"),
            (
                {"train_y": np.zeros(5, int)},
                r"Expected 6 labels, one for each image\. a has \(5,\)",
            ),
            ({"train_y": np.array([0, 1, 2, 0, 1, -1])}, "labels from -1 to 2"),
            ({"test_y": np.full(5, 3)}, "from 0 to 2, for 3 classes. a has labels from 3 to 3"),
            ({"classes": np.array(["x", "y"])}, "for 2 classes"),
        ],
    )
    def test_what_is_wrong_is_said(self, tmp_path, changes, words):
        path = npz(tmp_path / "a.npz", **small(**changes))
        with pytest.raises(ValueError, match=words):
            load_images(path)

    def test_a_broken_file_is_named(self, tmp_path):
        path = npz(tmp_path / "a.npz", **small())
        path.write_bytes(path.read_bytes()[:-200])
        with pytest.raises(ValueError, match=r"whole \.npz file.*a\.npz cannot be read"):
            load_images(path)

    def test_other_sources_are_refused(self, tmp_path):
        with pytest.raises(
            ValueError, match=r"among cifar10, cifar100\. Got 'cifar', and there is"
        ):
            load_images("cifar", folder=tmp_path)
        with pytest.raises(FileNotFoundError, match=r"There is nothing at .*b\.npz"):
            load_images(tmp_path / "b.npz")
        (tmp_path / "b.png").write_bytes(b"1")
        with pytest.raises(ValueError, match=r"ends in \.npz or \.tar\.gz\. Got .*b\.png"):
            load_images(tmp_path / "b.png")
        with pytest.raises(ValueError, match="Python version of"):
            load_images(tmp_path)


class TestTorchvision:
    @pytest.fixture
    def calls(self, monkeypatch):
        calls = []

        class CIFAR10:
            classes = tuple("abcdefghij")

            def __init__(self, root, train, download):
                calls.append((root, train, download))
                self.data = RANDOM.integers(0, 256, (6 if train else 5, 32, 32, 3), dtype=np.uint8)
                self.targets = [9] * len(self.data)

        datasets = types.SimpleNamespace(CIFAR10=CIFAR10)
        monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
        monkeypatch.setitem(sys.modules, "torchvision.datasets", datasets)
        return calls

    def test_it_is_asked_where_no_file_is(self, tmp_path, calls):
        images = load_images("cifar10", folder=tmp_path)
        assert images.train_x.shape == (6, 3, 32, 32)
        assert images.test_y.tolist() == [9] * 5
        assert images.classes[-1] == "j"
        assert calls == [(str(tmp_path), True, True), (str(tmp_path), False, True)]

    def test_only_there(self, tmp_path, calls):
        npz(tmp_path / "cifar10.npz", **small())
        load_images("cifar10", folder=tmp_path)
        assert calls == []

    def test_what_goes_wrong_there_is_the_cause(self, tmp_path, calls):
        with pytest.raises(FileNotFoundError, match="CIFAR-100") as caught:
            load_images("cifar100", folder=tmp_path)
        assert isinstance(caught.value.__cause__, AttributeError)


class TestTensors:
    def images(self) -> Images:
        pixels = torch.from_numpy(RANDOM.integers(0, 200, (40, 3, 8, 8), dtype=np.uint8))
        pixels[:, 1] //= 3
        pixels[:, 2] = 7
        labels = torch.arange(40) % 2
        return Images("a", pixels, labels, pixels[:10] + 5, labels[:10], ("x", "y"))

    def test_channels_are_standardised_by_the_training_images(self):
        images = self.images()
        (x, y), (test_x, test_y) = images.tensors(dtype=torch.float64)
        raw = images.train_x.double()
        mean = raw.mean(dim=(0, 2, 3), keepdim=True)
        std = raw.std(dim=(0, 2, 3), keepdim=True, correction=0)
        std[:, 2] = 1  # the channel that never changes
        torch.testing.assert_close(x, (raw - mean) / std)
        torch.testing.assert_close(test_x, (images.test_x.double() - mean) / std)
        assert torch.equal(y, images.train_y)
        assert torch.equal(test_y, images.test_y)

    def test_the_images_stay_as_they_are(self):
        images = self.images()
        before = images.train_x.clone()
        (x, _), _ = images.tensors()
        assert x.dtype == torch.float32
        assert torch.equal(images.train_x, before)

    def test_train_takes_them(self):
        training, test = self.images().tensors()
        model = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
        config = TrainConfig(task="multiclass", epochs=2)
        assert train(model, training, config, validation=test, progress=False).epochs == 2

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (
                {"train_x": torch.zeros(4, 3, 8, 8)},
                "uint8 and labels of int64. a has torch.float32",
            ),
            ({"test_y": torch.zeros(10)}, "a has torch.uint8 and torch.float32"),
            ({"train_x": torch.zeros(4, 8, 8, dtype=torch.uint8)}, r"a has \(4, 8, 8\) and"),
            ({"classes": ()}, "for 0 classes"),
        ],
    )
    def test_bad_images_are_refused(self, change, words):
        images = self.images()
        with pytest.raises(ValueError, match=words):
            Images(**{**vars(images), **change})
