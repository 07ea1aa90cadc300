"""What a person sees while long work runs."""

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from torchsparcs.history import History


@contextlib.contextmanager
def training_progress(epochs: int, enabled: bool) -> Iterator[Callable[[History], None]]:
    """Epochs done, loss, validation score, neurons recruited per layer and time left."""
    if not enabled:
        yield lambda history: None
        return
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task("", total=epochs, status="")

        def show(history: History) -> None:
            status = f"loss {history.train_loss[-1]:.4g}"
            if history.validation_score:
                status += f"  score {history.validation_score[-1]:.4f}"
            if history.recruited[-1]:
                status += f"  recruited {', '.join(map(str, history.recruited[-1]))}"
            bar.update(task, completed=history.epochs, status=status)

        yield show
