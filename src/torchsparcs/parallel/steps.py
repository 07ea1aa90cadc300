"""Long work as steps that are kept in a folder: whoever is interrupted goes on from there."""

import contextlib
import re
import reprlib
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from torchsparcs.files.checkpoint import load_checkpoint, save_checkpoint
from torchsparcs.training.deadline import Deadline
from torchsparcs.training.devices import Ranks

PARTS = "parts"  # the folder inside that of a run, while the run is unfinished
ASKED, LOCK = "asked", ".lock"
DIGEST = 64  # characters of a SHA-256, which tell nobody anything
ROUNDING = {"threads"}  # of what is asked: only the last bits depend on it
CHECKPOINT = ".checkpoint"  # ends the name of what is begun and not done
ENDINGS = (".safetensors", CHECKPOINT, ".network", ".json", ".partial")  # of what is left there

Span = tuple[int, int]  # from, and up to


class Steps:
    """Finished steps by their names, each in a file that is whole or not there.

    Without a folder nothing is kept. Of several processes the first reads and writes for all.
    Time that was spent before is taken from that to the ``deadline``; once that was made now, by
    Ctrl-C, nothing is kept, as it may be cut short.
    """

    def __init__(self, folder: Path | None = None, ranks: Ranks | None = None):
        self.folder, self.ranks = folder, ranks if ranks is not None else Ranks()
        self.deadline = Deadline()
        self.is_locked = False
        self._before, self._started = 0.0, time.perf_counter()

    @property
    def seconds(self) -> float:
        """How long the work has taken, the time before an interruption counted in."""
        return self._before + time.perf_counter() - self._started

    def begin(self, asked: dict[str, Any], resume: bool | Literal["auto"]) -> None:
        """Write down the work that is ``asked`` for, or compare it with what was begun.

        ``resume``: True needs work to go on with, False refuses it, "auto" takes what there is.
        """
        if self.folder is None:
            if resume is True:
                raise ValueError("Expected a folder to resume from. Got none.")
            return
        known = self.recall(ASKED)
        if known is None and resume is True:
            raise ValueError(f"Expected work to go on with. There is none in {self.folder}.")
        if known is not None and not resume:
            raise ValueError(
                f"Expected a folder without unfinished work. {self.folder} has some: resume it, or "
                "choose another."
            )
        if known is None:
            self.keep(ASKED, asked)
            return
        different = self.ranks.first(
            lambda: [name for name in asked if known.get(name) != asked[name]]
        )
        if refused := [name for name in different if name not in ROUNDING]:
            changes = [_change(name, known.get(name), asked[name]) for name in refused]
            raise ValueError(
                f"Expected the work that was begun in {self.folder}, to go on with it. Got other "
                f"{', '.join(changes)}."
            )
        for name in different if self.ranks.is_first else []:
            warnings.warn(
                f"This was begun with other {_change(name, known.get(name), asked[name])}: what "
                "comes of it may differ in its last digits from what it would have been.",
                UserWarning,
                stacklevel=4,
            )

    def step(self, name: str, compute: Callable[[], Any]) -> Any:
        """What ``compute`` returns, plain values and tensors; done before, it is read instead."""
        result = self.recall(name)
        if result is None:
            result = compute()
            self.keep(name, result)
        return result

    def recall(self, name: str) -> Any:
        """What was kept under ``name``, None where nothing was."""
        path = self.path(name)
        if path is None or not self.ranks.first(path.exists):
            return None
        state = self.ranks.first(lambda: load_checkpoint(path))
        spent = max(0.0, state["seconds"] - self.seconds)
        self._before, self._started = self.seconds + spent, time.perf_counter()
        self.deadline.hasten(spent)
        return state["found"]

    def keep(self, name: str, result: Any) -> None:
        self.check_there()
        path, seconds = self.path(name), self.seconds
        if path is not None and not self.deadline.is_stopped:
            self.ranks.first(lambda: save_checkpoint(path, {"seconds": seconds, "found": result}))

    def check_there(self) -> None:
        """A FileNotFoundError where somebody has taken the folder away meanwhile."""
        if self.is_locked and self.folder is not None:
            lock = self.folder / LOCK
            if not self.ranks.first(lock.exists):
                raise FileNotFoundError(
                    f"Expected {self.folder} to stay. It was removed meanwhile."
                )

    def path(self, name: str, ending: str = ".safetensors") -> Path | None:
        return None if self.folder is None else self.folder / f"{name}{ending}"

    def spans(self, name: str, ending: str = ".safetensors") -> list[Span]:
        """The parts "``name`` FROM-TO" of which there are files, in order."""
        pattern = re.compile(rf"{re.escape(name)} (\d+)-(\d+){re.escape(ending)}")
        paths = self.ranks.first(
            lambda: [] if self.folder is None else [*map(str, self.folder.glob("*"))]
        )
        matches = (pattern.fullmatch(Path(path).name) for path in paths)
        return sorted((int(each[1]), int(each[2])) for each in matches if each)

    def names(self) -> set[str]:
        """What there is in the folder, begun or done."""
        paths = [] if self.folder is None else self.folder.glob("*")
        return {path.stem for path in paths if path.name != LOCK}

    def clear(self) -> None:
        """Forget what was done, that there is something to go on with before all else."""
        paths = [] if self.folder is None else [*self.folder.iterdir()]
        for path in sorted(paths, key=lambda path: (path.suffix != ".json", path.stem != ASKED)):
            if path.suffix in ENDINGS:
                path.unlink()

    def remove(self) -> None:
        """Take the folder away: the work is finished, and what came of it is elsewhere."""
        if self.folder is not None:
            with contextlib.suppress(
                OSError
            ):  # it is gone, or somebody has files of their own here
                self.clear()
                (self.folder / LOCK).unlink(missing_ok=True)
                self.folder.rmdir()


def _change(name: str, before: Any, now: Any) -> str:
    """``name`` and what it was; of a dict those inside, and of a digest the name alone."""
    if isinstance(before, dict) and isinstance(now, dict):
        inner = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        return f"{name} ({', '.join(_change(key, before.get(key), now.get(key)) for key in inner)})"
    if any(isinstance(value, str) and len(value) == DIGEST for value in (before, now)):
        return name
    return f"{name} ({reprlib.repr(before)} then, {reprlib.repr(now)} now)"


def is_unbegun(folder: Path) -> bool:
    """Whether nothing was begun in ``folder`` but by a process that was killed at once."""
    paths = [*folder.iterdir()] if folder.is_dir() else []
    return all(path.name == LOCK or path.suffix == ".partial" for path in paths)


@contextlib.contextmanager
def lock_steps(folder: str | Path | None, ranks: Ranks | None = None) -> Iterator[Steps]:
    """The steps in ``folder``, where no other process works meanwhile.

    A process that is killed leaves the folder free.
    """
    steps = Steps(None if folder is None else Path(folder), ranks)
    with contextlib.ExitStack() as stack:
        if steps.folder is not None:
            place = steps.folder
            steps.ranks.first(lambda: stack.enter_context(_locked(place)))
            steps.is_locked = True
        yield steps


@contextlib.contextmanager
def open_steps(
    place: "str | Path | Steps | None",
    asked: dict[str, Any],
    resume: bool | Literal["auto"],
    ranks: Ranks | None = None,
) -> Iterator[Steps]:
    """The steps of the work that ``asked`` describes, in a folder or locked by the caller."""
    locked = contextlib.nullcontext(place) if isinstance(place, Steps) else lock_steps(place, ranks)
    with locked as steps:
        steps.begin(asked, resume)
        yield steps


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The lock of ``folder`` held; a ValueError where another process has it."""
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(
            f"Expected a folder that nobody works in. Another process works in {folder}."
        ) from None
    try:
        yield
    finally:
        lock.release()
