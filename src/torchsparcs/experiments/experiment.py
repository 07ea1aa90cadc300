"""What an experiment is, and how one is run: resumed where it stopped, written whole."""

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchsparcs.experiments.work import (
    Content,
    Work,
    plain,
    read_json,
    say_nothing,
    write_bytes,
    write_json,
)
from torchsparcs.experiments.writing import write_figures, written_page
from torchsparcs.files.provenance import hardware, provenance
from torchsparcs.parallel.engines import Engine, engine_of
from torchsparcs.report.document import write_document
from torchsparcs.searching.folder import check_folder
from torchsparcs.training.devices import resolve_device

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS, ASKED = "results.json", "asked.json"


@dataclass(frozen=True)
class Claim:
    """Something that was to be seen, and what was seen."""

    says: str
    found: str
    held: bool


@dataclass(frozen=True)
class Experiment:
    """One row of ``EXPERIMENTS``.

    Attributes:
        shows: what one learns from it, in a line.
        figures: which figures and tables of the paper it is.
        cost, quick_cost: what the full protocol takes, and the quick one.
        full, quick: the settings, frozen dataclasses of plain values.
        run: from the setting to the results, plain values, every plotted number among them.
        draw: from the content of results.json to its figures, by name.
        tell: from the same to the blanks of the page, ``pages/NAME.md``.
        claims: from the same to what was to be seen.
    """

    name: str
    shows: str
    figures: str
    cost: str
    quick_cost: str
    full: Any
    quick: Any
    run: Callable[[Any, Work], Content]
    draw: Callable[[Content], "dict[str, Figure]"]
    tell: Callable[[Content], dict[str, Any]]
    claims: Callable[[Content], list[Claim]]


def reproduce(
    experiment: Experiment,
    folder: Path,
    *,
    setting: Any = None,
    device: str = "auto",
    engine: str | Engine = "local",
    command: str = "",
    force: bool = False,
    progress: bool = False,
    report: Callable[[str], None] = say_nothing,
) -> Content:
    """Run ``experiment`` into ``folder``: figures, results.json and a page; returns the results.

    A folder in which the same experiment was interrupted is gone on with. Where it has been
    finished, its figures and its page are made again from results.json, unless forced.
    """
    setting = experiment.full if setting is None else setting
    if type(setting) is not type(experiment.full):
        raise ValueError(
            f"Expected a {type(experiment.full).__qualname__} of {experiment.name}. "
            f"Got {setting!r}."
        )
    place = resolve_device(device)
    work = Work(folder, place, progress, report, engine_of(engine))
    asked = {
        "experiment": experiment.name,
        "setting": plain(asdict(setting)),
        "hardware": hardware(place),
    }
    content = _found(work, asked, any_hardware=device == "auto", force=force)
    if content is None:
        write_json(work.parts / ASKED, asked)
        results = experiment.run(setting, work)
        content = {**asked, **provenance(command, place), "results": plain(results)}
        write_json(folder / RESULTS, content)
    shutil.rmtree(work.parts, ignore_errors=True)
    report("figures and page")
    write_figures(experiment.draw(content), folder)
    page = written_page(experiment, content)
    write_bytes(folder / "README.md", page.encode())
    write_document(page, folder / "report.html", force=True)
    return content


def _found(work: Work, asked: Content, *, any_hardware: bool, force: bool) -> Content | None:
    """The results in the folder, None where there is work to do; other work is a ValueError.

    Work that was begun comes before results that are there: those of a forced run replace the old
    ones when it is done.
    """
    finished, begun = work.folder / RESULTS, work.parts / ASKED
    done = any(part.name != ASKED for part in work.parts.glob("*"))  # a failed start leaves nothing
    known = begun if begun.is_file() and done else finished
    if not known.is_file():
        check_folder(work.folder, force=work.parts.is_dir() and not done)
        return None
    content = read_json(known)
    if "experiment" not in content:
        raise ValueError(f"Expected the folder of an experiment. {known} is of something else.")
    if force:
        shutil.rmtree(work.parts, ignore_errors=True)
        return None
    loose = {"hardware"} if any_hardware and known is finished else set()
    if different := [key for key in asked if key not in loose and content.get(key) != asked[key]]:
        raise ValueError(
            f"Expected a folder of the same experiment, to go on with. {work.folder} has "
            f"{content['experiment']} with another {different[0]}: choose another, or force it."
        )
    return content if known is finished else None
