"""The folder of a search is opened, and asked for a network; the file to write is looked at."""

from pathlib import Path

from torchsparcs.command.jobs import clear_leftovers
from torchsparcs.command.messages import reworded
from torchsparcs.report.page import check_place
from torchsparcs.results.result import SearchResult, load_result


def loaded(run: Path) -> SearchResult:
    """What was found in ``run``; what a killed process left beside it goes."""
    result = load_result(run)
    clear_leftovers(run)
    return result


def rule_of(result: SearchResult, pick: str | None) -> str | int:
    """What ``SearchResult.pick`` takes: that of the search by default."""
    if pick is None:
        return result.settings.get("pick", "smallest")
    return int(pick) if pick.isdecimal() else pick


def check_file(path: Path, force: bool) -> None:
    """A ValueError for a folder, and without ``force`` for a file that is there already."""
    with reworded():
        check_place(path, force=force)
