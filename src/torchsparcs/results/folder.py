"""A search in a folder: what was found and what it was found with. Data, never code.

settings.json          what decided the outcome, versions and hardware, the preprocessing
front.json, front.csv  the candidates, by size; the former also what they answered, and all attempts
costs.csv              the same by what their columns cost, where these have prices
networks/              their networks, 00.safetensors and so on; the linear model
history.json, history.safetensors   the training, and the eigenvalues on the way
report.html            the page about all that, where one was asked for
"""

import csv
import dataclasses
import io
import json
import math
import os
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.export.saving import load, save
from torchsparcs.files.atomic import write_atomically
from torchsparcs.files.hints import did_you_mean_beside
from torchsparcs.files.reading import check_memory, read_as, read_json
from torchsparcs.parallel.steps import PARTS, is_unbegun
from torchsparcs.results.folder_schema import (
    FORMAT,
    Answers,
    AttemptRow,
    CandidateRow,
    FrontFile,
    HistoryFile,
    SettingsFile,
    is_history,
)
from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.tables.preprocessing import Preprocessing
from torchsparcs.training.history import History

NUMBERS = ("score", "expected", "standard_error", "loss", "penalty_weight", "member")
TABLES = ("reliability", "residuals")  # of a candidate, in front.json alone
DIGITS = 6  # of what they hold
ROW_COPIES = 16  # of a row, in memory where its shape is tried
NUMBERS_IN_LINES = re.compile(r"\[\n([-+.\w,\s]*)\]")  # a line break is never inside a text


# --- reading them -------------------------------------------------------------------------------


def read_run(
    path: str | Path, candidate: Callable[..., Any], attempt: Callable[..., Any]
) -> dict[str, Any]:
    """The parts of a ``SearchResult``; ``candidate`` and ``attempt`` are made of theirs."""
    folder = Path(path)
    if not (folder / "settings.json").is_file():
        known = ""
        if (folder / PARTS / "job.json").is_file():
            known = " It is not finished: sparcs search --resume goes on with it."
        elif (folder / "networks" / "trained.safetensors").is_file():
            known = " An earlier version wrote it: load() reads each file of networks/."
        raise FileNotFoundError(
            f"Expected the folder of a search. {folder} has no settings.json.{known}"
            f"{'' if folder.exists() else did_you_mean_beside(folder)}"
        )
    try:
        content = read_json(folder / "settings.json")
        version = content.get("format") if isinstance(content, dict) else None
        if type(version) is int and version > FORMAT:
            raise ValueError(f"it has format {version}, a newer torchsparcs wrote it")
        file: SettingsFile = read_as(SettingsFile, content, "settings.json")
        front: FrontFile = read_as(FrontFile, read_json(folder / "front.json"), "front.json")
        preprocessing, is_table = file["preprocessing"], file["preprocessing"] is not None
        linear, costly = front["linear"], front.get("by_cost", [])
        rows = [*front["front"], *([] if linear is None else [linear]), *costly]
        if is_table is (front["linear"] is None):
            raise ValueError("it has either a linear model or preprocessing, not both")
        answers = front.get("answers", [None] * len(rows))  # older ones have none
        if len(answers) != len(rows):
            raise ValueError(f"it has {len(rows)} networks and answers of {len(answers)}")
        parts = [_candidate(folder, *each) for each in zip(rows, answers, strict=True)]
        if preprocessing is not None:
            _check_networks([part["network"] for part in parts], preprocessing)
        candidates = [candidate(**part) for part in parts]
        older: Any = {name: file.get(name) for name in ("hardware", "versions") if name in file}
        history = _read_history(folder)
        _check_members(candidates, history)
        if preprocessing is None:
            _check_shapes(candidates)
        task = file["settings"].get("task") if preprocessing is None else preprocessing.target.task
        if task is None:
            raise ValueError("settings lacks task")
        _check_answers(candidates, task)
        return {
            "front": tuple(candidates[: len(front["front"])]),
            "linear": candidates[len(front["front"])] if is_table else None,
            "by_cost": tuple(candidates[len(rows) - len(costly) :]),
            "trained": None if is_table else _trained(folder),
            "attempts": tuple(
                attempt(**{name: row.get(name) for name in AttemptRow.__annotations__})
                for row in front.get("attempts", [])
            ),
            "preprocessing": preprocessing,
            "history": history,
            "settings": {**older, **file["settings"]},
        }
    except (OSError, MemoryError, SafetensorError, ValueError) as error:
        raise ValueError(
            f"Expected the folder of a search. {folder} is damaged: {error}"
        ) from error


def _candidate(folder: Path, row: CandidateRow, answers: Answers | None) -> dict[str, Any]:
    network = load(folder / row["network"])
    if not isinstance(network, (CompactNetwork, CompactChain)):
        raise ValueError(f"{row['network']} holds no compact network")
    shape = row.get("row_shape")
    numbers: dict[str, Any] = {name: row.get(name) for name in NUMBERS}
    tables: dict[str, Any] = {name: row.get(name) for name in TABLES}
    return {
        "network": network,
        **numbers,
        "temperature": row.get("temperature", 1.0),
        **{
            name: None if rows is None else torch.tensor(rows, dtype=torch.float64)
            for name, rows in tables.items()
        },
        "answers": None if answers is None else _answers(answers),
        "cost": row.get("cost"),
        "row_shape": None if shape is None else tuple(shape),
        "bytes": row.get("bytes"),
        "int8_score": row.get("int8_score"),
    }


def _trained(folder: Path) -> SpectralNetwork | SpectralChain:
    network = load(folder / "networks" / "trained.safetensors")
    if not isinstance(network, (SpectralNetwork, SpectralChain)):
        raise ValueError("networks/trained.safetensors holds no spectral network")
    return network


def _answers(answers: Answers) -> torch.Tensor:
    """Counts (classes, classes), which are whole, or pairs (rows, outputs, 2)."""
    is_pairs = any(isinstance(row[0], tuple) for row in answers if row)
    values = torch.tensor(answers, dtype=torch.float64 if is_pairs else torch.int64)
    if values.dim() != (3 if is_pairs else 2):
        raise ValueError(f"answers have the shape {tuple(values.shape)}")
    return values


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


def _check_shapes(candidates: list[Any]) -> None:
    """A ValueError unless each network takes rows of its shape."""
    for found in candidates:
        if found.row_shape is None:
            raise ValueError("the shape of the rows of a network is not known")
        check_memory("a row of it", 4 * math.prod(found.row_shape), copies=ROW_COPIES)
        try:
            found.network(next(found.network.parameters()).new_zeros(2, *found.row_shape))
        except (RuntimeError, IndexError, ValueError) as error:  # sizes that do not fit
            raise ValueError(f"a network takes no rows of shape {found.row_shape}") from error


def _check_answers(candidates: list[Any], task: str) -> None:
    """A ValueError unless they are (classes, classes), or (rows, outputs, 2), of each network.

    Residuals are of a regression, (some, outputs).
    """
    for found in candidates:
        residuals = found.residuals
        if residuals is not None and (
            task != "regression" or residuals.shape[1] != found.widths[-1]
        ):
            raise ValueError(f"residuals have the shape {tuple(residuals.shape)}")
        if found.answers is None:
            continue
        outputs, shape = found.widths[-1], tuple(found.answers.shape)
        classes = 2 if task == "binary" else outputs
        expected = (shape[0], outputs, 2) if task == "regression" else (classes, classes)
        if shape != expected:
            raise ValueError(f"answers have the shape {shape}, not {expected}")


def _check_members(candidates: list[Any], history: History) -> None:
    """A ValueError unless the history has the members that the networks were cut from."""
    if not history.train_loss:
        return
    first = history.train_loss[0]
    members = {None, *range(len(first))} if isinstance(first, list) else {None}  # drawn: of none
    for found in candidates:
        if found.member not in members:
            raise ValueError(f"history.json has no member {found.member}")


def _read_history(folder: Path) -> History:
    path = folder / "history.safetensors"
    if not path.exists() and not (folder / "history.json").exists():
        return History()  # half of one is damage, none is not
    kind = Annotated[HistoryFile, is_history]
    values: Any = read_as(kind, read_json(folder / "history.json"), "history.json")
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path.name}")
    check_memory(path, path.stat().st_size, copies=3)
    snapshots: list[tuple[int, dict[str, torch.Tensor]]] = [
        (epoch, {}) for epoch in values.pop("snapshot_epochs")
    ]
    for key, tensor in tensors_from_bytes(path.read_bytes()).items():
        index, _, name = key.partition("/")
        is_known = index.isdecimal() and index.isascii() and int(index) < len(snapshots)
        if not is_known or not tensor.is_floating_point():
            raise ValueError(f"{key!r} in {path} are no eigenvalues of a snapshot")
        snapshots[int(index)][1][name] = tensor
    first = values["train_loss"][0] if values["train_loss"] else 0.0
    leading = [len(first)] if isinstance(first, list) else []
    shapes = [{name: [*each.shape] for name, each in stop.items()} for _, stop in snapshots]
    if any(each != shapes[0] for each in shapes) or any(
        shape[:-1] != leading for stop in shapes for shape in stop.values()
    ):
        raise ValueError(f"the eigenvalues in {path} differ in their names or shapes")
    known = {field.name for field in dataclasses.fields(History)}
    return History(
        **{name: value for name, value in values.items() if name in known}, snapshots=snapshots
    )


# --- writing them -------------------------------------------------------------------------------


def write_run(result: Any, path: str | Path, *, force: bool = False) -> None:
    """Write a ``SearchResult`` into the folder ``path``, empty, or not there, or forced.

    Forced or not, no file but those named above is touched; a ``report.html`` about an earlier
    search goes. ``settings.json`` comes last: a folder that has one is whole.
    """
    folder = Path(path)
    cleared(folder, force=force)
    named = {f"{index:02d}": each for index, each in enumerate(result.front)}
    named |= {} if result.linear is None else {"linear": result.linear}
    named |= {f"cost-{index:02d}": each for index, each in enumerate(result.by_cost)}
    names, candidates = [*named], [*named.values()]
    for name, candidate in zip(names, candidates, strict=True):
        save(candidate.network, folder / "networks" / f"{name}.safetensors")
    if result.trained is not None:
        save(result.trained, folder / "networks" / "trained.safetensors")
    rows = [_row(candidate, name) for name, candidate in zip(names, candidates, strict=True)]
    whole = [row | _tables(one) for row, one in zip(rows, candidates, strict=True)]
    by_name = dict(zip(names, whole, strict=True))
    costly = len(rows) - len(result.by_cost)
    found = {
        "front": whole[: len(result.front)],
        "linear": by_name.get("linear"),
        **({"by_cost": whole[costly:]} if result.by_cost else {}),
        "answers": [None if c.answers is None else c.answers.tolist() for c in candidates],
        "attempts": [attempt._asdict() for attempt in result.attempts],
    }
    write_json(folder / "front.json", found)
    write_text(folder / "front.csv", as_csv(rows[: len(result.front)]))
    if result.by_cost:
        write_text(folder / "costs.csv", as_csv(rows[costly:]))
    _write_history(folder, result.history)
    settings = {
        "format": FORMAT,
        "settings": result.settings,
        "preprocessing": result.preprocessing and result.preprocessing.to_json(),
    }
    write_json(folder / "settings.json", settings)


def cleared(folder: Path, *, force: bool) -> None:
    """Take away what an earlier search left in ``folder``, where a result may be written there."""
    check_folder(folder, force=force)
    files = ["settings.json", "report.html", "front.json", "front.csv", "costs.csv"]
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
    if not folder.is_dir():
        return folder.exists()
    return any(path.name != PARTS or not is_unbegun(path) for path in folder.iterdir())


def _row(candidate: Any, name: str) -> dict[str, Any]:
    return {
        "parameters": candidate.parameters,
        "macs": candidate.macs,
        **_asked_for(candidate),
        "widths": list(candidate.widths),
        "architecture": candidate.architecture,
        **{number: getattr(candidate, number) for number in (*NUMBERS, "temperature")},
        "network": f"networks/{name}.safetensors",
        **({} if candidate.cost is None else {"cost": candidate.cost}),
        **({} if candidate.row_shape is None else {"row_shape": list(candidate.row_shape)}),
    }


def _asked_for(candidate: Any) -> dict[str, Any]:
    """Numbers that only some searches have."""
    found = {name: getattr(candidate, name) for name in ("bytes", "int8_score")}
    return {name: number for name, number in found.items() if number is not None}


def _tables(candidate: Any) -> dict[str, Any]:
    """What is known of a candidate in lists of numbers."""
    found = {name: getattr(candidate, name) for name in TABLES}
    return {
        name: [[float(f"{number:.{DIGITS}g}") for number in row] for row in rows.tolist()]
        for name, rows in found.items()
        if rows is not None
    }


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
    write_atomically(folder / "history.safetensors", content)
    write_json(folder / "history.json", values)


def write_json(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_text(path, NUMBERS_IN_LINES.sub(lambda found: f"[{' '.join(found[1].split())}]", text))


def write_text(path: Path, text: str) -> None:
    write_atomically(path, text.encode())
