"""What goes to stderr: one line for a note, a warning or an error, of several processes once."""

import contextlib
import os
import sys
import warnings
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from torchsparcs.files.visible import visible, visible_lines

COLOURS = {"error": typer.colors.RED, "warning": typer.colors.YELLOW}


def say(text: str, kind: str = "") -> None:
    """Print one line on stderr, whatever the lines of ``text``."""
    line = " ".join(part.strip() for part in text.splitlines() if part.strip())
    start = f"{typer.style(f'{kind}:', fg=COLOURS[kind])} " if kind else ""
    typer.echo(start + visible(line), err=True)


def tell(text: str | bytes, *, nl: bool = True) -> None:
    """Print ``text`` on stdout, for a program as it is, for a terminal as it may be seen."""
    if sys.stdout.isatty():
        text = visible_lines(text if isinstance(text, str) else text.decode())
    typer.echo(text, nl=nl)


def open_page(path: Path) -> None:
    """Open a page in a browser; where there is none, say so, and where the page is."""
    address = path.resolve().as_uri()
    if not webbrowser.open(address):
        say(f"No browser was found for {address}", "warning")


def is_first_here() -> bool:
    """Whether this process is the first of those that ``torchrun`` started on this machine."""
    return int(os.environ.get("LOCAL_RANK", "0")) == 0


def processes() -> int:
    """How many processes ``torchrun`` started on all machines; without it one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextlib.contextmanager
def one_line_warnings() -> Iterator[None]:
    """Show warnings meant for users as one line each, and no others."""

    def show_warning(message: Warning | str, *place: Any, **more: Any) -> None:
        if is_first_here():
            say(str(message), "warning")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", message="TensorFloat32")  # the compiler's advice
        warnings.showwarning = show_warning
        yield


# What errors of the library say to do, and how the command line does it.
WORDS = {"force it": "use --force", "pass one as sheet": "choose one with --sheet"}


@contextlib.contextmanager
def reworded() -> Iterator[None]:
    """Reword errors that say what to do into the words of the command line."""
    try:
        yield
    except ValueError as error:
        words = str(error)
        for ours, theirs in WORDS.items():
            words = words.replace(ours, theirs)
        raise ValueError(words) from error
