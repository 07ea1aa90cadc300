"""Image data sets by name or by file, as tensors ready for training."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsparcs.files.arrays import read_arrays
from torchsparcs.images.cifar import ARCHIVES, MD5, read_cifar
from torchsparcs.training.data import Pair

CHANNELS = (1, 3, 4)  # what is taken for an axis of channels
KEYS = {  # the arrays of an NPZ file, and what else they may be called
    "train_x": ("train_x", "x_train", "train_images"),
    "train_y": ("train_y", "y_train", "train_labels"),
    "test_x": ("test_x", "x_test", "test_images"),
    "test_y": ("test_y", "y_test", "test_labels"),
    "classes": ("classes", "class_names", "label_names"),
}
MOST_CLASSES = 2**16  # that are numbered where they have no names


@dataclass(frozen=True, eq=False, repr=False)
class Images:
    """Images with labels, for training and for the final score.

    >>> pixels = torch.arange(2 * 3 * 8 * 8).reshape(2, 3, 8, 8).to(torch.uint8)
    >>> labels = torch.tensor([0, 1])
    >>> images = Images("stripes", pixels, labels, pixels, labels, classes=("cat", "dog"))
    >>> images
    Images(stripes: 2 images of 3 × 8 × 8 for training, 2 for testing, 2 classes)
    >>> (x, y), test = images.tensors()
    >>> x.dtype, round(x.std(correction=0).item(), 3)
    (torch.float32, 1.0)

    Shape:
        - ``train_x``, ``test_x`` (rows, channels, height, width) of uint8
        - ``train_y``, ``test_y`` (rows,) of int64, places in ``classes``
    """

    name: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        here, there = tuple(self.train_x.shape), tuple(self.test_x.shape)
        if len(here) != 4 or here[1:] != there[1:] or 0 in (*here, *there):
            raise ValueError(
                "Expected training and test images (N, C, H, W) of one shape, at least one of "
                f"each. {self.name} has {here} and {there}."
            )
        for pixels, labels in ((self.train_x, self.train_y), (self.test_x, self.test_y)):
            if pixels.dtype != torch.uint8 or labels.dtype != torch.int64:
                raise ValueError(
                    "Expected images of uint8 and labels of int64. "
                    f"{self.name} has {pixels.dtype} and {labels.dtype}."
                )
            if labels.shape != pixels.shape[:1]:
                raise ValueError(
                    f"Expected {len(pixels)} labels, one for each image. "
                    f"{self.name} has {tuple(labels.shape)}."
                )
            low, high = int(labels.min()), int(labels.max())
            if low < 0 or high >= len(self.classes):
                raise ValueError(
                    f"Expected labels from 0 to {len(self.classes) - 1}, for "
                    f"{len(self.classes)} classes. {self.name} has labels from {low} to {high}."
                )

    def tensors(
        self, device: torch.device | str | None = None, dtype: torch.dtype = torch.float32
    ) -> tuple[Pair, Pair]:
        """Training and test pairs (x, y), as :func:`train` takes them.

        Each channel of x has mean zero and variance one over the training images.
        """
        mean, std = (part[:, None, None] for part in self.statistics())

        def pair(pixels: Tensor, labels: Tensor) -> Pair:
            x = pixels.to(device).to(dtype)
            return x.sub_(mean.to(x)).div_(std.to(x)), labels.to(device)

        return pair(self.train_x, self.train_y), pair(self.test_x, self.test_y)

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each channel of the training images, (C,) of float64.

        A channel that never changes has one for the second.
        """
        # by counting: exact, and without a copy of the images as floats
        channels = self.train_x.unbind(dim=1)
        counts = torch.stack([torch.bincount(part.flatten(), minlength=256) for part in channels])
        shares = counts.double() / counts.sum(dim=1, keepdim=True)
        values = torch.arange(256, dtype=torch.float64, device=shares.device)
        mean = shares @ values
        std = (shares * (values - mean[:, None]).square()).sum(dim=1).sqrt()
        return mean, torch.where(std > 0, std, 1.0)

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.train_x.shape[1:]))
        return (
            f"Images({self.name}: {len(self.train_x):,} images of {shape} for training, "
            f"{len(self.test_x):,} for testing, {len(self.classes)} classes)"
        )


def load_images(source: str | Path, *, folder: str | Path = "data") -> Images:
    """Load the images of a name, ``"cifar10"`` or ``"cifar100"``, or those in a file or folder.

    A name is looked for in ``folder``: the archive as it is published, which need not be unpacked,
    the folder that is inside it, or an NPZ file of that name. If there is none of them and
    torchvision is installed, torchvision downloads it there.

    An NPZ file has the arrays train_x, train_y, test_x and test_y (or x_train, .., or
    train_images, train_labels, ..), and may have the names of the classes. Images are (N, H, W),
    (N, H, W, C) or (N, C, H, W), of whole numbers from 0 to 255, or of these divided by 255.
    """
    path = Path(source)
    if not path.exists() and str(source) == path.stem:
        return _by_name(str(source), Path(folder))
    if not path.exists():
        raise FileNotFoundError(f"Expected images. There is nothing at {path}.")
    if path.is_dir() or path.name.lower().endswith((".tar.gz", ".tgz")):
        return Images(*read_cifar(path))
    if path.suffix.lower() == ".npz":
        return _read_npz(path)
    raise ValueError(f"Expected a folder, or a file that ends in .npz or .tar.gz. Got {path}.")


def _by_name(name: str, folder: Path) -> Images:
    npz, archive = folder / f"{name}.npz", ARCHIVES.get(name)
    published = () if archive is None else (folder / archive.file, folder / archive.folder)
    for path in (*published, npz):
        if path.exists():
            return load_images(path)
    if archive is None:
        raise ValueError(
            f"Expected a file, or a data set among {', '.join(ARCHIVES)}. Got {name!r}, and there "
            f"is no {npz}."
        )
    try:
        return _of_torchvision(name, folder)
    except Exception as error:  # not installed, not fit for this torch, or no network
        raise FileNotFoundError(
            f"Expected {archive.title} in the folder {str(folder)!r}, as {archive.file}, "
            f"{archive.folder} or {npz.name}. There is none. Download {archive.url} "
            f"(md5 {MD5[archive.file]}) and put it there; it need not be unpacked. An NPZ file has "
            "the arrays train_x, train_y, test_x, test_y, the images as (N, H, W, C) of uint8."
        ) from error


def _of_torchvision(name: str, folder: Path) -> Images:
    datasets = importlib.import_module("torchvision.datasets")
    kind = getattr(datasets, ARCHIVES[name].title.replace("-", ""))  # CIFAR10, CIFAR100
    train, test = (kind(root=str(folder), train=part, download=True) for part in (True, False))
    pixels = {"train_x": train.data, "test_x": test.data}
    labels = {"train_y": train.targets, "test_y": test.targets}
    return _of_arrays(name, {**pixels, **labels, "classes": np.array(train.classes)}, name)


def _read_npz(path: Path) -> Images:
    known = {key: part for part, keys in KEYS.items() for key in keys}
    held = read_arrays(path, known)
    arrays = {known[key]: held[key] for key in reversed(known) if key in held}
    if missing := [part for part in KEYS if part not in arrays and part != "classes"]:
        raise ValueError(
            f"Expected the arrays train_x, train_y, test_x and test_y. {path} has "
            f"{', '.join(held) or 'none of them'}, and no {', '.join(missing)}."
        )
    return _of_arrays(path.stem, arrays, path)


def _of_arrays(name: str, arrays: dict[str, Any], where: str | Path) -> Images:
    """Images from the arrays of :data:`KEYS`; ``where`` they are, for errors."""
    train_x, test_x = (_pixels(arrays[part], part, where) for part in ("train_x", "test_x"))
    train_y, test_y = (_labels(arrays[part], part, where) for part in ("train_y", "test_y"))
    classes = arrays["classes"] if "classes" in arrays else _numbered(train_y, where)
    if classes.ndim != 1:
        raise ValueError(
            f"Expected classes to be names, one for each. {where} has an array {classes.shape}."
        )
    return Images(name, train_x, train_y, test_x, test_y, tuple(map(str, classes)))


def _numbered(labels: Tensor, where: str | Path) -> np.ndarray:
    """Names for classes that have none: "0", "1" and so on."""
    count = int(labels.max()) + 1 if len(labels) else 0
    if count > MOST_CLASSES:
        raise ValueError(
            f"Expected labels below {MOST_CLASSES}, or the names of the classes. {where} has "
            f"{count - 1}."
        )
    return np.arange(count)


def _pixels(images: Any, what: str, where: str | Path) -> Tensor:
    """``images`` as (N, C, H, W) of uint8, or a ValueError."""
    array = np.asarray(images)
    shape = array.shape
    axes = [axis for axis in (1, 3) if len(shape) == 4 and shape[axis] in CHANNELS]
    if not (len(shape) == 3 or len(axes) == 1):
        raise ValueError(
            f"Expected {what} of shape (N, H, W), (N, H, W, C) or (N, C, H, W), and 1, 3 or 4 for "
            f"C alone. {where} has {shape}."
        )
    is_whole = array.dtype.kind in "ui"
    if array.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):  # what is infinite is not whole
            scaled = np.multiply(array, 255, dtype=np.promote_types(array.dtype, np.float32))
            array = np.rint(scaled)
            scaled -= array
            is_whole = bool((np.abs(scaled, out=scaled) < 0.1).all())  # NaN is not
    if not is_whole or (array.size and not 0 <= array.min() <= array.max() <= 255):
        raise ValueError(
            f"Expected {what} of whole numbers from 0 to 255, or of these divided by 255. "
            f"{where} has others."
        )
    pixels = torch.from_numpy(np.ascontiguousarray(array, dtype=np.uint8))
    if len(shape) == 3:
        return pixels.unsqueeze(1)
    return pixels if axes == [1] else pixels.permute(0, 3, 1, 2).contiguous()


def _labels(labels: Any, what: str, where: str | Path) -> Tensor:
    """``labels`` as (N,) of int64, or a ValueError."""
    array = np.asarray(labels)
    if array.dtype.kind not in "ui" or array.size != len(np.atleast_1d(array)):
        raise ValueError(
            f"Expected {what} to be whole numbers, one for each image. {where} has {array.dtype} "
            f"of shape {array.shape}."
        )
    return torch.from_numpy(array.reshape(-1).astype(np.int64))
