"""What an experiment is, and how one is run: resumed where it stopped, written whole."""

import io
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from torchsparcs.checkpoints import write_atomically
from torchsparcs.config import TrainConfig
from torchsparcs.data import Pair
from torchsparcs.devices import resolve_device
from torchsparcs.history import History
from torchsparcs.provenance import provenance
from torchsparcs.report.document import write_document
from torchsparcs.runs import check_folder
from torchsparcs.training import train

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Content = dict[str, Any]  # of results.json
NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?( ± [\d.,]+)?")


@dataclass(frozen=True)
class Claim:
    """Something that the paper or we say will be seen, and what was seen."""

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
    run: Callable[[Any, "Work"], Content]
    draw: Callable[[Content], "dict[str, Figure]"]
    tell: Callable[[Content], dict[str, Any]]
    claims: Callable[[Content], list[Claim]]


@dataclass(frozen=True)
class Work:
    """Where an experiment computes, and where it keeps what is done already."""

    folder: Path
    device: torch.device
    progress: bool = False
    report: Callable[[str], None] = lambda text: None

    def part(self, name: str, compute: Callable[[], Content]) -> Content:
        """What ``compute`` returns; an interrupted run does not compute it twice."""
        path = self._parts / f"{name}.json"
        if path.exists():
            self.report(f"{name}: done before")
            return json.loads(path.read_text(encoding="utf-8"))
        self.report(name)
        content = compute()
        write_json(path, content)
        self._checkpoint(name).unlink(missing_ok=True)
        return content

    def train(self, name: str, module: nn.Module, data: Pair, config: TrainConfig) -> History:
        """``train``, going on where an interrupted run stopped, on a GPU with the step captured."""
        return train(
            module,
            data,
            config,
            checkpoint=self._checkpoint(name),
            resume="auto",
            progress=self.progress,
        )

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def _parts(self) -> Path:
        return self.folder / "parts"

    def _checkpoint(self, name: str) -> Path:
        return self._parts / f"{name}.ckpt"


def reproduce(
    experiment: Experiment,
    folder: Path,
    *,
    setting: Any = None,
    device: str = "auto",
    command: str = "",
    force: bool = False,
    progress: bool = False,
    report: Callable[[str], None] = lambda text: None,
) -> Content:
    """Run ``experiment`` into ``folder``: figures, results.json and a page; returns the results.

    A folder in which the same experiment was interrupted is gone on with. Where it has been
    finished, its figures and its page are made again from results.json.
    """
    setting = experiment.full if setting is None else setting
    place = resolve_device(device)
    asked = {"experiment": experiment.name, "setting": plain(asdict(setting))}
    if force:
        check_folder(folder, force=True)
        (folder / "results.json").unlink(missing_ok=True)
        shutil.rmtree(folder / "parts", ignore_errors=True)
    content = None if force else _found(folder, asked)
    if content is None:
        write_json(folder / "parts" / "asked.json", asked)
        results = experiment.run(setting, Work(folder, place, progress, report))
        content = {**asked, **provenance(command, place), "results": plain(results)}
        write_json(folder / "results.json", content)
        shutil.rmtree(folder / "parts")
    report("figures")
    write_figures(experiment.draw(content), folder)
    page = written_page(experiment, content)
    write_bytes(folder / "README.md", page.encode())
    write_document(page, folder / "report.html", force=True)
    return content


def _found(folder: Path, asked: Content) -> Content | None:
    """The results in ``folder``; None where there are none yet. Other work is a ValueError."""
    for name in ("results.json", "parts/asked.json"):
        path = folder / name
        if not path.is_file():
            continue
        content = json.loads(path.read_text(encoding="utf-8"))
        if {key: content.get(key) for key in asked} != asked:
            raise ValueError(
                f"Expected a folder of the same experiment, to go on with. {folder} has "
                f"{content.get('experiment')!r} with other settings: choose another, or force it."
            )
        return content if name == "results.json" else None
    check_folder(folder, force=False)
    return None


def written_page(experiment: Experiment, content: Content, figures: str = "") -> str:
    """The whole page; ``figures`` is the folder that the links to them start with."""
    claims = experiment.claims(content)
    template = files(__package__).joinpath("pages", f"{experiment.name}.md")
    body = template.read_text(encoding="utf-8").format(**experiment.tell(content))
    lines = [
        f"# {experiment.name}",
        "",
        f"{experiment.shows} {experiment.figures}.",
        "",
        f"`{content['command']}` on {content['hardware']}, torch {content['versions']['torch']}, "
        f"{content['date']}.",
        "",
        "| to be seen | seen | |",
        "| --- | --- | --- |",
        *(f"| {c.says} | {c.found} | {'yes' if c.held else '**no**'} |" for c in claims),
        "",
        body.replace("](", f"]({figures}"),
    ]
    return "\n".join(lines).rstrip() + "\n"


METADATA: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None}}


def write_figures(
    figures: "Mapping[str, Figure]", folder: Path, endings: Sequence[str] = tuple(METADATA)
) -> None:
    """Every figure as PNG and as SVG, the same bytes for the same numbers."""
    from matplotlib import rc_context

    for name, figure in figures.items():
        for ending in endings:
            image = io.BytesIO()
            with rc_context({"svg.hashsalt": name}):
                figure.savefig(image, format=ending, dpi=120, metadata=METADATA[ending])
            write_bytes(folder / f"{name}.{ending}", image.getvalue())


def markdown_table(head: list[str], rows: list[list[Any]]) -> str:
    """Columns of numbers are aligned to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    columns = list(zip(*cells, strict=True))
    rule = ["---:" if all(map(NUMBER.fullmatch, column)) else "---" for column in columns]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *cells))


def write_json(path: Path, content: Content) -> None:
    text = json.dumps(plain(content), separators=(",", ":"), ensure_ascii=False)
    write_bytes(path, (text + "\n").encode())


def write_bytes(path: Path, content: bytes) -> None:
    write_atomically(path, lambda file: file.write(content))


def plain(value: Any) -> Any:
    """Tensors and tuples as lists, numbers with six digits: what JSON keeps as it is."""
    if isinstance(value, torch.Tensor):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
