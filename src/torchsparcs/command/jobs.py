"""A search as the command line asks for it, written down before it begins so that it can go on."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from torchsparcs.command.console import print_files, print_front, summary
from torchsparcs.command.messages import reworded, say
from torchsparcs.command.splits import split_by
from torchsparcs.export.writing import to_onnx
from torchsparcs.files.atomic import write_atomically
from torchsparcs.files.reading import Record, quoted, read_json
from torchsparcs.fitting.folded import counted_rows
from torchsparcs.parallel.executor import engine_of
from torchsparcs.parallel.steps import ASKED, PARTS, Steps, lock_steps
from torchsparcs.results.folder import check_folder, free_folder
from torchsparcs.results.result import SearchResult
from torchsparcs.searching.search import SearchConfig, search
from torchsparcs.tables.databases import is_database
from torchsparcs.tables.datasets import BUILT_IN, load_dataset, table_name
from torchsparcs.tables.kinds import parsed_kinds, text_kinds
from torchsparcs.tables.parquet import ParquetFiles
from torchsparcs.tables.readers import FILES, read_table
from torchsparcs.tables.streams import RowStream
from torchsparcs.tables.target import Target
from torchsparcs.training.devices import Ranks
from torchsparcs.version import __version__

LARGE = 2**28  # bytes of a file that is not read whole
PACKED = 8  # times that text is smaller once it is compressed
WITHOUT_TARGET = "no target, so that scores are agreement with the teacher"
JOB = "job.json"  # what is to be done, beside what is done so far


@dataclass(frozen=True)
class Job(Record):
    """The options of ``sparcs search`` that decide its outcome."""

    data: str
    target: str | tuple[str, ...] | None = None
    sheet: str | None = None
    drop: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    task: str = "auto"
    max_parameters: int | None = None
    max_bytes: int | None = None
    size: str = "parameters"
    chip: str | None = None
    int8: bool = False
    pick: str = "smallest"
    validation: str | int | float = "auto"
    group: str | None = None
    time: str | None = None
    scoring: str = "auto"
    class_weight: str | dict[str, float] | None = None
    calibrate: bool = True
    sample: int | None = None
    boosting: bool = True
    costs: dict[str, float] | None = None
    teacher: str | None = None  # the path of an ONNX file
    extra_rows: str | None = None
    widths: tuple[int, ...] | None = None
    penalty_weights: tuple[float, ...] | None = None
    steps: int | None = None
    paper: bool = False
    seed: int = 0
    time_budget: float | None = None
    device: str = "auto"

    @classmethod
    def begun_in(cls, folder: Path) -> "Job":
        """The one that was interrupted in ``folder``; a ValueError where there is none."""
        path = folder / PARTS / JOB
        if not path.is_file():
            raise ValueError(f"Expected a search to go on with. {folder} has none.")
        try:
            job = cls.from_json(read_json(path))
        except ValueError as error:
            raise ValueError(f"Expected a search to go on with. {path} is damaged.") from error
        start = os.path.realpath(folder)
        return job._with_paths(lambda path: os.path.normpath(os.path.join(start, path)))

    def _with_paths(self, changed: Callable[[str], str]) -> "Job":
        """With the paths of its files ``changed``."""
        return dataclasses.replace(
            self,
            data=changed(self.data) if self.is_file else self.data,
            teacher=None if self.teacher is None else changed(self.teacher),
            extra_rows=None if self.extra_rows is None else changed(self.extra_rows),
        )

    @property
    def is_file(self) -> bool:
        """Whether the data are in a file or a folder, not built in nor in a database."""
        return self.data not in BUILT_IN and not is_database(self.data)

    def run(
        self,
        folder: Path,
        console: Console,
        *,
        resume: bool,
        engine: str = "auto",
        address: str | None = None,
        progress: bool = False,
    ) -> None:
        """Search, and write everything into ``folder``; by several processes, the first writes."""
        ranks = Ranks.current()
        X, y, validation, groups, without = self._rows(console)
        with _kept_or_cleared(folder, resume, ranks) as steps:
            if not resume:
                ranks.first(lambda: self._begin(folder, steps))
            result = search(
                X,
                y,
                widths=self.widths,
                task=self.task,
                validation=validation,
                groups=groups,
                scoring=self.scoring,
                class_weight=self.class_weight,
                calibrate=self.calibrate,
                penalty_weights=self.penalty_weights or "auto",
                max_parameters=self.max_parameters,
                max_bytes=self.max_bytes,
                size=self.size,
                chip=self.chip,
                int8=self.int8,
                kinds=parsed_kinds(self.kinds),
                costs=self.costs,
                teacher=self.teacher,
                extra_rows=self._extra_rows(),
                config=self._config(),
                seed=self.seed,
                device=self.device,
                engine=engine if address is None else engine_of(engine, address),
                checkpoint=steps,
                resume="auto",
                time_budget=self.time_budget,
                progress=progress,
            )
            steps.check_there()
            if ranks.is_first:
                self._write(self._described(result, without), folder, console)
                if result.settings["ended"] == "interrupt":
                    console.print(f"\nIt was stopped: sparcs search --resume {folder} goes on.")
                else:
                    steps.remove()  # of its files job.json first: from there on it is finished

    def _config(self) -> SearchConfig:
        given = {"steps": self.steps, "longest": self.steps, "sample": self.sample}
        known: dict[str, Any] = {name: v for name, v in given.items() if v is not None}
        return SearchConfig(paper=self.paper, boosting=self.boosting, **known)

    def _begin(self, folder: Path, steps: Steps) -> None:
        steps.clear()
        there = self._with_paths(lambda path: _seen_from(folder, path))
        text = json.dumps(there.to_json(), indent=1) + "\n"
        write_atomically(folder / PARTS / JOB, text.encode())

    def _rows(self, console: Console) -> tuple[Any, Any, Any, Any, int]:
        """What :func:`search` takes: a table, or of a large file a stream; who judges, and groups.

        And how many rows of a table were left out, as they have no target.
        The column of the groups is no input, that of the time one unless it is dropped.
        """
        splits = [name for name in (self.group, self.time) if name is not None]
        target = list(self.target) if isinstance(self.target, tuple) else self.target
        path = Path(self.data)
        is_table = self.is_file and (path.is_dir() or path.name.lower().endswith((*FILES,)))
        if is_table and path.exists() and (size := _size(path)) > LARGE:
            if splits:
                raise ValueError(
                    f"Expected a table of at most {LARGE:,} bytes, as a column splits its rows. "
                    f"Got {size:,}."
                )
            console.print(f"{path.name}: too large to be read whole, {size:,} bytes")
            return RowStream.of(path, target, drop=self.drop), None, self.validation, None, 0
        with reworded():
            dataset = load_dataset(
                self.data,
                target,
                drop=[name for name in self.drop if name not in splits],
                text=text_kinds(parsed_kinds(self.kinds)),
                sheet=self.sheet,
                may_lack=self.teacher is not None,
            )
        X, y, there = dataset.X, dataset.y, len(dataset.X)
        if y is not None:
            X, y, _, _ = counted_rows(X, y, None)
        validation, groups = self.validation, None
        if splits:
            validation, groups = split_by(X, self.group, self.time, self.validation)
            X = X.drop(columns=[n for n in splits if n == self.group or n in self.drop])
        rows, columns = X.shape
        if y is None:
            console.print(f"{path.name}: {rows:,} rows, {columns:,} columns; {WITHOUT_TARGET}")
        else:
            console.print(summary(path.name, rows, columns, Target.fit(y, self.task)))
        return X, y, validation, groups, there - rows

    def _extra_rows(self) -> Any:
        """Rows for the teacher, of whose columns only those of the inputs are looked at."""
        if self.extra_rows is None:
            return None
        return read_table(self.extra_rows, text_kinds(parsed_kinds(self.kinds)))

    def _described(self, result: SearchResult, without: int) -> SearchResult:
        """``result``, whose settings also say what the command line was asked for."""
        names, pick = result.target.names, self.pick
        try:
            result.pick(pick)
        except ValueError as error:  # a cost below all there are: the search was worth it anyway
            pick = "smallest"
            say(f"{error} The smallest network is picked instead of {self.pick}.", "warning")
        asked = {
            "data": Path(self.data).name,
            "target": names[0] if len(names) == 1 else list(names),
            "dropped": list(self.drop),
            "group": self.group,
            "time": self.time,
            "pick": pick,
            "rows_without_target": without,
            "version": __version__,
        }
        return dataclasses.replace(result, settings={**result.settings, **asked})

    def _write(self, result: SearchResult, folder: Path, console: Console) -> None:
        for litter in folder.rglob(".*.partial"):  # of a process that was killed
            litter.unlink()
        result.save(folder, force=True)
        pick = result.settings["pick"]
        lacking = _onnx_or_reason(result, pick, folder / "model.onnx")
        result.report(folder / "report.html", force=True)
        print_front(console, result, pick, folder)
        print_files(console, folder, lacking, result.settings)


def costs_in(path: Path) -> dict[str, float]:
    """Columns and their costs, from a table of two columns, called as one likes."""
    expected = f"Expected two columns in {path}, names of columns and what each costs"
    table = read_table(path)
    if table.shape[1] != 2:
        raise ValueError(f"{expected}. Got {table.shape[1]}: {quoted([*map(str, table.columns)])}.")
    names, prices = table.iloc[:, 0].astype(str), pd.to_numeric(table.iloc[:, 1], errors="coerce")
    if (strange := ~(prices >= 0)).any():
        entry = f"{table.iloc[:, 1][strange].iloc[0]!r} for {names[strange].iloc[0]!r}"
        raise ValueError(f"{expected}, a number from 0 on. Got {entry}.")
    if (twice := names.duplicated()).any():
        raise ValueError(f"{expected}, each once. Got {names[twice].iloc[0]!r} again.")
    return dict(zip(names, prices.astype(float), strict=True))


def folder_for(data: str, out: Path | None, force: bool) -> Path:
    """``out``, or a free one named after the data; a ValueError unless it may be written to."""
    name = table_name(data)
    usual = free_folder(name, force=True)
    if out is None and not force and is_unfinished(usual) and not _is_worked_in(usual):
        say(f"{usual} has an unfinished search: sparcs search --resume {usual} goes on with it.")
    folder = free_folder(name, force=force) if out is None else out
    with reworded():  # before the work, what would only show after it
        check_folder(folder, force=force)
    return folder


def _seen_from(folder: Path, path: str) -> str:
    """``path`` as one goes there from ``folder``: what lies above both is not named."""
    there = Path(os.path.realpath(Path(path).parent), Path(path).name)  # its own name, if a link
    try:
        return os.path.relpath(there, os.path.realpath(folder))
    except ValueError:  # on another drive of Windows
        return str(there)


def _size(path: Path) -> int:
    """The bytes of a table once it is unpacked, as far as its file tells."""
    if path.is_dir() or path.suffix.lower() == ".parquet":
        return ParquetFiles(path).size
    return path.stat().st_size * (PACKED if path.suffix.lower() == ".gz" else 1)


def is_unfinished(folder: Path) -> bool:
    """Whether a search was begun in ``folder`` and not finished."""
    return (folder / PARTS / JOB).is_file()


def _is_worked_in(folder: Path) -> bool:
    """Whether another process searches there."""
    try:
        with lock_steps(folder / PARTS):
            return False
    except ValueError:
        return True


def is_finished(folder: Path) -> bool:
    return (folder / "settings.json").is_file() and not is_unfinished(folder)


def clear_leftovers(folder: Path) -> None:
    """Take away the parts of a finished search that was killed while it did so itself.

    Where somebody works there, or may not write, they stay.
    """
    if (folder / PARTS).is_dir() and is_finished(folder):
        with contextlib.suppress(ValueError, OSError), lock_steps(folder / PARTS) as steps:
            if is_finished(folder):
                steps.remove()


@contextlib.contextmanager
def _kept_or_cleared(folder: Path, resume: bool, ranks: Ranks) -> Iterator[Steps]:
    """Nobody else works there; what is done stays whatever happens, and nothing but that."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    with lock_steps(folder / PARTS, ranks) as steps:
        try:
            yield steps
        except BaseException as error:
            if resume or ASKED in steps.names():
                if isinstance(error, KeyboardInterrupt) and ranks.is_first:
                    say(f"What is done is kept: sparcs search --resume {folder} goes on from here.")
            elif ranks.is_first:
                steps.remove()
                with contextlib.suppress(OSError):  # others have come
                    for path in made:
                        path.rmdir()
            raise


def _onnx_or_reason(result: SearchResult, pick: str, path: Path) -> str | None:
    """Write the picked network, or say why not; the search was worth it either way."""
    path.unlink(missing_ok=True)  # of an earlier search
    try:
        to_onnx(result.deployed(pick), path)
    except (ImportError, RuntimeError) as error:
        return f"{path.name} was not written: {error}"
    return None
