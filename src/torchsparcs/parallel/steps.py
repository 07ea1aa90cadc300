"""Long work as steps that are kept in a folder: whoever is interrupted goes on from there."""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from torchsparcs.files.checkpoint import load_checkpoint, save_checkpoint
from torchsparcs.training.devices import Ranks

PARTS = "parts"  # the folder inside that of a run, while the run is unfinished
ASKED, LOCK = "asked", ".lock"
ENDINGS = (".safetensors", ".checkpoint", ".network", ".json", ".partial")  # of what is left there


class Steps:
    """Finished steps by their names, each in a file that is whole or not there.

    Without a folder nothing is kept. Of several processes the first reads and writes for all.
    """

    def __init__(self, folder: Path | None = None, ranks: Ranks | None = None):
        self.folder, self.ranks = folder, ranks if ranks is not None else Ranks()
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
        elif different := [name for name in asked if known.get(name) != asked[name]]:
            raise ValueError(
                f"Expected the work that was begun in {self.folder}, to go on with it. Got other "
                f"{different[0]}."
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
        self._before, self._started = max(self.seconds, state["seconds"]), time.perf_counter()
        return state["found"]

    def keep(self, name: str, result: Any) -> None:
        path, seconds = self.path(name), self.seconds
        if path is not None:
            self.ranks.first(lambda: save_checkpoint(path, {"seconds": seconds, "found": result}))

    def path(self, name: str, ending: str = ".safetensors") -> Path | None:
        return None if self.folder is None else self.folder / f"{name}{ending}"

    def names(self) -> set[str]:
        """What there is in the folder, begun or done."""
        paths = [] if self.folder is None else self.folder.glob("*")
        return {path.stem for path in paths if path.name != LOCK}

    def clear(self) -> None:
        """Forget what was done."""
        for path in [] if self.folder is None else [*self.folder.iterdir()]:
            if path.suffix in ENDINGS:
                path.unlink()

    def remove(self) -> None:
        """Take the folder away: the work is finished, and what came of it is elsewhere."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


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
