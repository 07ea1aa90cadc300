"""A line below the cell of a notebook that is kept up to date: Jupyter, JupyterLab, Colab."""

import time
from typing import Any

EVERY = 0.25  # seconds between two updates: each is a message to the browser


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    from rich.console import Console

    return Console().is_jupyter


class NotebookLine:
    """Plain text that each update replaces, without any widget."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._at = 0.0

    def update(self, text: str, *, is_last: bool = False) -> None:
        """Show ``text`` in place of what was there, unless that was a moment ago."""
        if time.monotonic() - self._at < EVERY and not is_last:
            return
        self._at = time.monotonic()
        bundle = {"text/plain": text}
        if self._handle is None:
            from IPython.display import display

            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
