"""What an experiment is, and how one is run: resumed where it stopped, written whole."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from torchsparcs.experiments.writing import (
    Content,
    Figures,
    plain,
    write_figures,
    write_json,
    written_page,
)
from torchsparcs.files.atomic import write_atomically
from torchsparcs.files.provenance import hardware, provenance
from torchsparcs.files.reading import read_json
from torchsparcs.parallel.executor import Engine, Executor, engine_of
from torchsparcs.parallel.steps import ASKED, PARTS, Steps, lock_steps
from torchsparcs.report.document import write_document
from torchsparcs.results.folder import check_folder
from torchsparcs.spectral.population import Population
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Pair
from torchsparcs.training.devices import resolve_device
from torchsparcs.training.history import History
from torchsparcs.training.train import train

RESULTS = "results.json"


def say_nothing(text: str) -> None:
    pass


@dataclass(frozen=True)
class Work:
    """What is done of an experiment, where it computes, and who is told how far it is."""

    steps: Steps
    device: torch.device
    progress: bool = False
    report: Callable[[str], None] = say_nothing
    engine: Engine = field(default_factory=Engine)

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def part(self, name: str, compute: Callable[[], Content]) -> Content:
        """What ``compute`` returns, as plain values; an interrupted run does not do it twice."""
        content = self.steps.recall(name)
        self.report(name if content is None else f"{name}: done before")
        if content is None:
            content = plain(compute())
            self.steps.keep(name, content)
            if (checkpoint := self.steps.path(name, ".checkpoint")) is not None:
                checkpoint.unlink(missing_ok=True)
        return content

    def train(
        self, name: str, module: nn.Module, data: Pair, config: TrainConfig, **options: Any
    ) -> History:
        """``train``, going on where an interrupted run stopped; a population on the engine."""
        if isinstance(module, Population) and not options:
            executor = Executor(self.engine, self.steps)
            return executor.train(name, module, data, config, progress=self.progress)
        return train(
            module,
            data,
            config,
            checkpoint=self.steps.path(name, ".checkpoint"),
            resume="auto",
            progress=self.progress,
            **options,
        )


@dataclass(frozen=True)
class Claim:
    """Something that was to be seen, and what was seen.

    ``of`` names the figures and tables of the paper that show it; without any it is a claim of
    ours, or a limit that we set.
    """

    says: str
    found: str
    held: bool
    of: tuple[str, ...] = ()


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
        claims: from the same to what was to be seen.
        page_names: what its page, ``pages/NAME.md``, uses beside the setting and the results.
    """

    name: str
    shows: str
    figures: str
    cost: str
    quick_cost: str
    full: Any
    quick: Any
    run: Callable[[Any, Work], Content]
    draw: Callable[[Content], Figures]
    claims: Callable[[Content], list[Claim]]
    page_names: Mapping[str, Any] = field(default_factory=dict)


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

    A folder in which the same experiment was interrupted is gone on with; ``wall_seconds`` of the
    results are then None, otherwise those from the first part to the last. Where it has been
    finished, its figures and its page are made again from results.json, unless forced.
    """
    setting = experiment.full if setting is None else setting
    if type(setting) is not type(experiment.full):
        raise ValueError(
            f"Expected a {type(experiment.full).__qualname__} of {experiment.name}. "
            f"Got {setting!r}."
        )
    place, workers = resolve_device(device), engine_of(engine)
    described = plain(asdict(setting))
    if "data" in described:
        described["data"] = Path(described["data"]).name  # where it lies is nobody's business
    asked = {
        "experiment": experiment.name,
        "setting": described,
        "hardware": hardware(place),
    }
    content, is_finished = _recorded(folder)
    if content is not None and not force:
        names = asked.keys() - ({"hardware"} if device == "auto" and is_finished else set())
        other = [name for name in asked if name in names and content.get(name) != asked[name]]
        if other:
            raise ValueError(
                f"Expected a folder of the same experiment, to go on with. {folder} has "
                f"{content['experiment']} with another {other[0]}: choose another, or force it."
            )
    if content is None or force or not is_finished:
        with lock_steps(folder / PARTS, workers.ranks) as steps:
            if content is None or force:
                steps.clear()
            is_new, start = not steps.names() - {ASKED}, time.perf_counter()
            steps.begin(asked, "auto")
            results = experiment.run(setting, Work(steps, place, progress, report, workers))
            taken = round(time.perf_counter() - start, 1) if is_new else None
            made = {**provenance(command, place), "wall_seconds": taken}
            content = {**asked, **made, "results": plain(results)}
            write_json(folder / RESULTS, content)
    Steps(folder / PARTS).remove()
    report("figures and page")
    write_figures(experiment.draw(content), folder)
    page = written_page(experiment, content)
    write_atomically(folder / "README.md", page.encode())
    write_document(page, folder / "report.html", force=True)
    return content


def _recorded(folder: Path) -> tuple[Content | None, bool]:
    """What was asked for in ``folder``, with its results where it is finished, and whether it is.

    None where there is nothing yet; a ValueError where there is something else. Work that was begun
    comes before results that are there: those of a forced run replace the old ones when it is done.
    """
    path, steps = folder / RESULTS, Steps(folder / PARTS)
    if steps.names() - {ASKED} and (asked := steps.recall(ASKED)) is not None:
        return asked, False
    if not path.is_file():
        check_folder(folder, force=(folder / PARTS).is_dir() and not steps.names() - {ASKED})
        return None, False
    content = read_json(path)
    if not isinstance(content, dict) or "experiment" not in content:
        raise ValueError(f"Expected the folder of an experiment. {path} is of something else.")
    return content, True
