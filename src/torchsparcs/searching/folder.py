"""A search in a folder: what was found and what it was found with. Data, never code.

settings.json          what decided the outcome, versions and hardware, the preprocessing
front.json, front.csv  the candidates, by size; the former also what they answered, and all attempts
networks/              their networks, 00.safetensors and so on; the linear model
history.json, history.safetensors   the training, and the eigenvalues on the way
report.html            the page about all that, where one was asked for
"""

import csv
import io
import json
import math
import os
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.export.saving import load, save
from torchsparcs.files.checkpoints import write_atomically
from torchsparcs.files.limits import check_memory, read_json
from torchsparcs.tables.preprocessing import Preprocessing
from torchsparcs.training.history import History

FORMAT = 1
# What comes of a folder that says anything at all; to nest too deep is a RuntimeError.
MISFITS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
NEEDED = ("widths", "rows", "judged_rows", "fits", "seed")  # of the settings
NUMBERS = ("score", "standard_error", "loss", "penalty_weight", "member")
REAL = NUMBERS[:-1]
OPTIONAL = ("penalty_weight", "member", "macs")
NETWORK = re.compile(r"networks/[\w-]+\.safetensors", re.ASCII)  # the only path that is followed
NUMBERS_IN_LINES = re.compile(r"\[\n([-+.\w,\s]*)\]")  # a line break is never inside a text


def write_run(result: Any, path: str | Path, *, force: bool = False) -> None:
    """Write a ``SearchResult`` into the folder ``path``, empty, or not there, or forced.

    Forced or not, no file but those named above is touched; a ``report.html`` about an earlier
    search goes. ``settings.json`` comes last: a folder that has one is whole.
    """
    folder = Path(path)
    cleared(folder, force=force)
    candidates = [*result.front, *([] if result.linear is None else [result.linear])]
    names = [*(f"{index:02d}" for index in range(len(result.front))), "linear"][: len(candidates)]
    for name, candidate in zip(names, candidates, strict=True):
        save(candidate.network, folder / "networks" / f"{name}.safetensors")
    if result.trained is not None:
        save(result.trained, folder / "networks" / "trained.safetensors")
    rows = [_row(candidate, name) for name, candidate in zip(names, candidates, strict=True)]
    front, linear = rows[: len(result.front)], rows[len(result.front) :]
    found = {
        "front": front,
        "linear": linear[0] if linear else None,
        "answers": [None if c.answers is None else c.answers.tolist() for c in candidates],
        "attempts": [attempt._asdict() for attempt in result.attempts],
    }
    write_json(folder / "front.json", found)
    write_text(folder / "front.csv", as_csv(front))
    _write_history(folder, result.history)
    settings = {
        "format": FORMAT,
        "settings": result.settings,
        "preprocessing": result.preprocessing and result.preprocessing.to_json(),
    }
    write_json(folder / "settings.json", settings)


def read_run(
    path: str | Path, candidate: Callable[..., Any], attempt: Callable[..., Any]
) -> dict[str, Any]:
    """The parts of a ``SearchResult``; ``candidate`` and ``attempt`` are made of theirs."""
    folder = Path(path)
    if not (folder / "settings.json").is_file():
        known = ""
        if (folder / "parts" / "job.json").is_file():
            known = " It is not finished: sparcs search --resume goes on with it."
        raise FileNotFoundError(
            f"Expected the folder of a search. {folder} has no settings.json.{known}"
        )
    try:
        settings = read_json(folder / "settings.json")
        if type(settings["format"]) is not int:
            raise ValueError(f"it has format {settings['format']!r}")
        if settings["format"] > FORMAT:
            raise ValueError(f"it has format {settings['format']}, a newer torchsparcs wrote it")
        _check_settings(settings["settings"])
        older = {name: settings[name] for name in ("hardware", "versions") if name in settings}
        is_table = settings["preprocessing"] is not None
        preprocessing = Preprocessing.from_json(settings["preprocessing"]) if is_table else None
        found = read_json(folder / "front.json")
        rows = [*found["front"], *([found["linear"]] if is_table else [])]
        if not found["front"] or len({row["network"] for row in rows}) < len(rows):
            raise ValueError("its front is empty, or some of its networks are the same")
        answers = found.get("answers", [None] * len(rows))  # older ones have none
        parts = [_candidate(folder, *each) for each in zip(rows, answers, strict=True)]
        if preprocessing is not None:
            _check_networks([part["network"] for part in parts], preprocessing)
        if not all(math.isfinite(part["score"]) for part in parts[: len(found["front"])]):
            raise ValueError("a network of its front has no score")
        candidates = [candidate(**each) for each in parts]
        trained = None if is_table else load(folder / "networks" / "trained.safetensors")
        return {
            "front": tuple(candidates[: len(found["front"])]),
            "linear": candidates[-1] if is_table else None,
            "trained": trained,
            "attempts": tuple(attempt(**_numbers(each)) for each in found.get("attempts", [])),
            "preprocessing": preprocessing,
            "history": _read_history(folder),
            "settings": {**older, **settings["settings"]},
        }
    except (OSError, MemoryError, SafetensorError, *MISFITS) as error:
        raise ValueError(
            f"Expected the folder of a search. {folder} is damaged: {error}"
        ) from error


def _check_settings(settings: dict[str, Any]) -> None:
    lacking = [name for name in NEEDED if name not in settings]
    if lacking:
        raise ValueError(f"its settings lack {', '.join(lacking)}")
    counts = [settings[name] for name in NEEDED if name != "widths"]
    if not all(type(count) is int for count in (*settings["widths"], *counts)):
        raise ValueError(f"{', '.join(NEEDED)} of its settings are not all whole numbers")


def _check_networks(networks: list[Any], preprocessing: Preprocessing) -> None:
    """A ValueError unless all take what the preprocessing gives, and give what it takes back."""
    inputs, outputs = len(preprocessing.inputs.encoded_names), preprocessing.target.outputs
    for network in networks:
        if not isinstance(network, CompactNetwork):
            raise ValueError("a network of its front is no dense one")
        kind, widths = next(network.parameters()).dtype, network.widths
        if (widths[0], widths[-1], kind) != (inputs, outputs, torch.float32):
            raise ValueError(
                f"a network has {widths[0]} inputs and {widths[-1]} outputs of {kind}; "
                f"the table has {inputs} and {outputs}"
            )


def cleared(folder: Path, *, force: bool) -> None:
    """Take away what an earlier search left in ``folder``, where a result may be written there."""
    check_folder(folder, force=force)
    files = ["settings.json", "report.html", "front.json", "front.csv"]
    for name in [*files, "history.json", "history.safetensors"]:
        (folder / name).unlink(missing_ok=True)
    for old in (folder / "networks").glob("*.safetensors"):
        old.unlink()


def check_folder(folder: Path, *, force: bool) -> None:
    """A ValueError unless a result may be written there."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ValueError(f"Expected a folder to write to. {nearest} is a file.")
    if not os.access(nearest, os.W_OK):
        raise ValueError(f"Expected a folder to write to. {nearest} is read-only.")
    if not force and _is_taken(folder):
        raise ValueError(
            f"Expected an empty folder, or one that is not there yet. {folder} has files in it; "
            "choose another, or force it."
        )


def free_folder(name: str, *, force: bool) -> Path:
    """runs/NAME, or where that has files in it, and is not forced, runs/NAME-2 and so on."""
    name = name or "data"
    names = (f"{name}-{number}" if number > 1 else name for number in count(1))
    folders = (Path("runs") / each for each in names)
    return next(folder for folder in folders if force or not _is_taken(folder))


def _is_taken(folder: Path) -> bool:
    return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))


def _row(candidate: Any, name: str) -> dict[str, Any]:
    return {
        "parameters": candidate.parameters,
        "macs": candidate.macs,
        "widths": list(candidate.widths),
        "architecture": candidate.architecture,
        **{number: getattr(candidate, number) for number in NUMBERS},
        "network": f"networks/{name}.safetensors",
        **({} if candidate.row_shape is None else {"row_shape": list(candidate.row_shape)}),
    }


def _candidate(folder: Path, row: dict[str, Any], answers: list | None) -> dict[str, Any]:
    path = row["network"]
    if not NETWORK.fullmatch(path):
        raise ValueError(f"{path!r} is no path like networks/00.safetensors")
    network = load(folder / path)
    if not isinstance(network, (CompactNetwork, CompactChain)):
        raise ValueError(f"{path} holds no compact network")
    shape = row.get("row_shape")
    if isinstance(network, CompactChain) and not isinstance(shape, list):
        raise ValueError(f"the shape of the rows of {path} is {shape!r}")
    numbers = {number: _checked(number, row[number]) for number in NUMBERS}
    kept = None if answers is None else torch.tensor(answers, dtype=_number_type(answers))
    if kept is not None and kept.dim() != (3 if kept.is_floating_point() else 2):
        raise ValueError(f"what {path} answered has the shape {tuple(kept.shape)}")
    sides = (
        None if shape is None else tuple(_checked("a side of row_shape", side) for side in shape)
    )
    return {"network": network, **numbers, "answers": kept, "row_shape": sides}


def _numbers(attempt: dict[str, Any]) -> dict[str, Any]:
    return {name: _checked(name, value, " of an attempt") for name, value in attempt.items()}


def _checked(name: str, value: Any, whose: str = "") -> Any:
    """``value`` where it is a number, and a whole one where it counts something."""
    if value is None and name in OPTIONAL:
        return None
    is_whole = type(value) is int and abs(value) < 2**63
    if not is_whole and (name not in REAL or type(value) is not float):
        raise ValueError(f"{name}{whose} is {value!r}")
    return value


def _number_type(answers: list) -> torch.dtype:
    """Counts (classes, classes) are whole, pairs (rows, outputs, 2) are not."""
    return torch.float64 if isinstance(answers[0][0], list) else torch.int64


def as_csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {name: " ".join(map(str, v)) if isinstance(v, list) else v for name, v in row.items()}
        )
    return text.getvalue()


def _write_history(folder: Path, history: History) -> None:
    values = history.state_dict()
    snapshots = values.pop("snapshots")
    values["snapshot_epochs"] = [epoch for epoch, _ in snapshots]
    tensors = {
        f"{index}/{name}": tensor
        for index, (_, snapshot) in enumerate(snapshots)
        for name, tensor in snapshot.items()
    }
    content = tensors_to_bytes(tensors)
    write_atomically(folder / "history.safetensors", lambda file: file.write(content))
    write_json(folder / "history.json", values)


def _read_history(folder: Path) -> History:
    if not any((folder / name).exists() for name in ("history.json", "history.safetensors")):
        return History()  # half of one is damage, none is not
    values = read_json(folder / "history.json")
    epochs = values.pop("snapshot_epochs")
    path = folder / "history.safetensors"
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path.name}")
    check_memory(path, path.stat().st_size, copies=3)
    tensors = tensors_from_bytes(path.read_bytes())
    snapshots: list[tuple[int, dict[str, torch.Tensor]]] = [
        (_checked("an epoch", epoch), {}) for epoch in epochs
    ]
    for key, tensor in tensors.items():
        index, name = key.split("/", 1)
        if not index.isdecimal() or not tensor.is_floating_point():
            raise ValueError(f"{key!r} in {path} are no eigenvalues of a snapshot")
        snapshots[int(index)][1][name] = tensor
    history = History(**values, snapshots=snapshots)
    for name, empty in History().state_dict().items():
        value = getattr(history, name)
        if type(value) is not type(empty) and (name != "best_epoch" or type(value) is not int):
            raise ValueError(f"{name} of its history is a {type(value).__name__}")
    return history


def write_json(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_text(path, NUMBERS_IN_LINES.sub(lambda found: f"[{' '.join(found[1].split())}]", text))


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda file: file.write(text.encode()))
