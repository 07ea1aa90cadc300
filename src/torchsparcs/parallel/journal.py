"""What long work has done so far, kept in a folder: whoever is interrupted goes on from there."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from torchsparcs.files.checkpoints import load_checkpoint, save_checkpoint
from torchsparcs.training.ranks import Ranks

ASKED, LOCK = "asked", ".lock"


class Journal:
    """Finished steps by their names, each in a file that is whole or not there.

    Without a folder nothing is kept. Of several processes the first reads and writes for all.
    """

    def __init__(self, folder: Path | None = None, ranks: Ranks | None = None):
        self.folder, self.ranks = folder, ranks if ranks is not None else Ranks()
        self._before, self._started = 0.0, time.perf_counter()

    @property
    def seconds(self) -> float:
        """That the work has taken, those before an interruption counted in."""
        return self._before + time.perf_counter() - self._started

    def step(self, name: str, compute: Callable[[], Any]) -> Any:
        """What ``compute`` returns, plain values and tensors; done before, it is read instead."""
        found = self.recall(name)
        if found is None:
            found = compute()
            self.keep(name, found)
        return found

    def recall(self, name: str) -> Any:
        """What was kept under ``name``, None where nothing was."""
        path = self.path(name)
        if path is None or not self.ranks.first(path.exists):
            return None
        state = self.ranks.first(lambda: load_checkpoint(path))
        self._before, self._started = max(self.seconds, state["seconds"]), time.perf_counter()
        return state["found"]

    def keep(self, name: str, found: Any) -> None:
        path, seconds = self.path(name), self.seconds
        if path is not None:
            self.ranks.first(lambda: save_checkpoint(path, {"seconds": seconds, "found": found}))

    def path(self, name: str, ending: str = ".safetensors") -> Path | None:
        return None if self.folder is None else self.folder / f"{name}{ending}"


@contextlib.contextmanager
def opened(
    folder: Path | None,
    asked: dict[str, Any],
    resume: bool | Literal["auto"],
    ranks: Ranks | None = None,
) -> Iterator[Journal]:
    """The journal of the work that ``asked`` describes, for one process at a time.

    ``resume``: True needs one to go on with, False refuses one, "auto" takes what there is.
    """
    journal = Journal(folder, ranks)
    if folder is None:
        if resume is True:
            raise ValueError("Expected a folder to resume from. Got none.")
        yield journal
        return
    with contextlib.ExitStack() as stack:
        journal.ranks.first(lambda: stack.enter_context(alone_in(folder)))
        known = journal.recall(ASKED)
        if known is None and resume is True:
            raise ValueError(f"Expected work to go on with. There is none in {folder}.")
        if known is not None and not resume:
            raise ValueError(
                f"Expected a folder without unfinished work. {folder} has some: resume it, or "
                "choose another."
            )
        if known is not None:
            _check_same(folder, known, asked)
        else:
            journal.keep(ASKED, asked)
        yield journal


def _check_same(folder: Path, known: dict[str, Any], asked: dict[str, Any]) -> None:
    different = [name for name in asked if known.get(name) != asked[name]]
    if different:
        raise ValueError(
            f"Expected the work that was begun in {folder}, to go on with it. Got other "
            f"{different[0]}."
        )


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """No other process works in ``folder`` meanwhile; one that is killed leaves it free.

    Who is alone in it already may ask again.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, is_singleton=True)
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
