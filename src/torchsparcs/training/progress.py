"""What a person sees while long work runs. Rich is loaded where there is something to see."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torchsparcs.training.config import TrainConfig
from torchsparcs.training.history import History
from torchsparcs.training.notebook import NotebookLine, is_notebook


@contextlib.contextmanager
def training_progress(
    config: TrainConfig, done: int, enabled: bool
) -> Iterator[Callable[[History], None]]:
    """A bar with epochs done, time left, loss, validation score, neurons recruited per layer.

    Without exact zeros every neuron counts as recruited, which says nothing.
    """
    if not enabled:
        yield lambda history: None
        return
    if is_notebook():
        line = NotebookLine()
        yield lambda history: line.update(
            f"training {history.epochs:,} of {config.epochs:,} epochs  {_status(config, history)}",
            is_last=history.epochs == config.epochs,
        )
        return
    from rich import progress

    columns = (
        progress.TextColumn("training"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[status]}"),
    )
    with progress.Progress(*columns) as bar:
        task = bar.add_task("", total=config.epochs, completed=done, status="")

        yield lambda history: bar.update(
            task, completed=history.epochs, status=_status(config, history)
        )


def _status(config: TrainConfig, history: History) -> str:
    """Loss, validation score and neurons recruited, of the last epoch."""
    status = f"loss {_range(history.train_loss[-1], '.3g')}"
    if history.validation_score:
        status += f"  score {_range(history.validation_score[-1], '.3f')}"
    if history.recruited[-1] and config.proximal:
        layers = (
            zip(*history.recruited[-1], strict=True)
            if isinstance(history.train_loss[-1], list)
            else (history.recruited[-1])
        )
        status += f"  recruited {', '.join(_range(layer, 'd') for layer in layers)}"
    return status


def stage(text: str, enabled: bool) -> contextlib.AbstractContextManager:
    """A line for a stage of long work, on a terminal; gone when the stage is done.

    In a notebook it stays.
    """
    if not enabled:
        return contextlib.nullcontext()
    if is_notebook():
        line = NotebookLine()
        line.update(text)
        return contextlib.nullcontext(line)
    from rich.status import Status

    return Status(text)


@contextlib.contextmanager
def cutting_progress(enabled: bool) -> Iterator[Callable[[str], None]]:
    """A line that says what is being tried, on a terminal; gone when the work is done.

    After Ctrl-C the message says that nothing was lost: all that is cut is a copy.
    """
    try:
        if not enabled:
            yield lambda text: None
            return
        with stage("cutting", enabled=True) as status:
            yield lambda text: status.update(f"cutting: {text}")
    except KeyboardInterrupt:
        raise KeyboardInterrupt("The cutting was interrupted; nothing was changed.") from None


def duration_words(seconds: float) -> str:
    """
    >>> duration_words(43.5), duration_words(754), duration_words(9000)
    ('44 s', '12 min 34 s', '2 h 30 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _range(value: Any, form: str) -> str:
    """A number, or the smallest and largest of a population's."""
    if not isinstance(value, (list, tuple)):
        return format(value, form)
    return f"{min(value):{form}}..{max(value):{form}}"
