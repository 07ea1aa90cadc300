"""A chain searched: trained once, cut rung by rung, the front of all that were judged."""

import copy
import dataclasses
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from torchsparcs import report as reports
from torchsparcs.chain import SpectralChain
from torchsparcs.chain_refinement import Rung, rungs
from torchsparcs.compact_chain import CompactChain
from torchsparcs.config import TrainConfig
from torchsparcs.data import Pair, is_pair, placed
from torchsparcs.devices import resolve_device
from torchsparcs.extraction import extract
from torchsparcs.front import Front, on_the_front
from torchsparcs.history import History
from torchsparcs.progress import cutting_progress
from torchsparcs.provenance import hardware, versions
from torchsparcs.refinement import constant_loss
from torchsparcs.runs import as_csv, check_folder, write_json, write_text
from torchsparcs.saving import save
from torchsparcs.tasks import TASKS, check_data, predict, resolve_task
from torchsparcs.training import train

EPOCHS, BATCH = 30, 128
HELD_OUT = 0.1
TUNING_SHARE = 6  # as many epochs of the training for one of a rung
GIVEN_UP = 0.5  # of what the best loss gains over a constant answer: lower rungs are not worth it


@dataclass(frozen=True)
class ChainCandidate:
    """A plain network of some size and what it is worth on the rows that judged.

    Attributes:
        macs: multiply-adds for one row.
    """

    network: CompactChain
    score: float
    standard_error: float
    loss: float
    macs: int

    @property
    def parameters(self) -> int:
        return self.network.parameter_count

    @property
    def architecture(self) -> str:
        """Channels layer by layer, active ones + linear ones."""
        return self.network.architecture


@dataclass(frozen=True)
class ChainResult(Front[ChainCandidate]):
    """The front, from the smallest network to the one with the best score.

    Attributes:
        front: candidates, each with a better score than all smaller ones.
        attempts: all that were judged, from the largest.
        trained: the spectral chain they were cut from.
        history: of its training.
        settings: everything that decided the outcome, as plain values.
    """

    front: tuple[ChainCandidate, ...]
    attempts: tuple[ChainCandidate, ...]
    trained: SpectralChain
    history: History
    settings: dict[str, Any]

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the front into the folder ``path``: networks/NN.safetensors, front.csv, front.json.

        ``load`` reads each network; the spectral one is networks/trained.safetensors.
        """
        folder = Path(path)
        check_folder(folder, force=force)
        rows = []
        for place, found in enumerate(self.front):
            name = f"networks/{place:02d}.safetensors"
            save(found.network, folder / name)
            rows.append({**_numbers(found), "architecture": found.architecture, "network": name})
        save(self.trained, folder / "networks" / "trained.safetensors")
        write_text(folder / "front.csv", as_csv(rows))
        write_json(folder / "front.json", {"front": rows, "settings": self.settings})

    def report(self, path: str | Path = "report.html", *, force: bool = False) -> Path:
        """Write the page about this search: one file, for any browser. Needs Matplotlib."""
        return reports.write_chain_page(self, path, force=force)

    def __repr__(self) -> str:
        return (
            f"ChainResult({len(self.front)} candidates, {self.front[0].parameters:,} to "
            f"{self.front[-1].parameters:,} parameters, score {self.front[0].score:.4f} to "
            f"{self.front[-1].score:.4f})"
        )


def _numbers(found: ChainCandidate) -> dict[str, Any]:
    names = ("parameters", "macs", "score", "standard_error", "loss")
    return {name: getattr(found, name) for name in names}


def search_chain(
    chain: SpectralChain,
    data: tuple[Any, Any],
    *,
    task: str,
    validation: Any,
    max_parameters: int | None,
    config: Any,
    seed: int,
    device: str | torch.device,
    progress: bool,
) -> ChainResult:
    """The front of ``chain``, which itself stays as it is; :func:`search` with a network.

    One training, then rung by rung 0.7 of the parameters, each fine-tuned for a sixth of the
    training's epochs, with half its learning rate and decay, and judged on the rows held out. It
    ends where half of what the best network gains over a constant answer is lost.
    """
    if not isinstance(chain, SpectralChain):
        raise ValueError(f"Expected a SpectralChain as the network. Got {type(chain).__name__}.")
    if not is_pair(data):
        raise ValueError("Expected X and y as arrays or tensors where a network is given.")
    task = _resolved(task, data[1])
    if config is None:
        config = TrainConfig(task=task, epochs=EPOCHS, batch_size=BATCH, seed=seed)
    elif not isinstance(config, TrainConfig):
        raise ValueError(
            f"Expected a TrainConfig where a network is given. Got {type(config).__name__}."
        )
    else:
        config = dataclasses.replace(config, task=task, seed=seed)
    on, start = resolve_device(device), time.perf_counter()
    trained = copy.deepcopy(chain).to(on)
    like = trained.output_eigenvalues
    fitted, judging = _split(placed(data, like), validation, seed, like)
    check_data(trained, fitted, task)
    check_data(trained, judging, task, name="validation data")
    history = train(trained, fitted, config, validation=judging, progress=progress)
    tuning = dataclasses.replace(
        config,
        epochs=max(1, config.epochs // TUNING_SHARE),
        lr=config.lr / 2,
        weight_decay=config.transfer_weight_decay / 2,
        schedule="warm_cosine",
        patience=None,
    )
    attempts: list[ChainCandidate] = []
    with cutting_progress(progress) as show:
        constant, best = math.inf, math.inf
        for rung in rungs(extract(trained), fitted, judging, tuning):
            show(f"{rung.parameters:,} parameters, score {rung.score:.4f}")
            if not attempts:
                constant = constant_loss(rung.network, judging, task)
            best = min(best, rung.loss)
            fits = any(max_parameters is None or a.parameters <= max_parameters for a in attempts)
            worth = rung.loss < constant - (1 - GIVEN_UP) * (constant - best)
            if fits and not worth:
                break
            attempts.append(_candidate(rung, judging, task))
    settings = {
        "task": task,
        "channels": list(trained.channels),
        "rows": len(fitted[0]),
        "judged_rows": len(judging[0]),
        "max_parameters": max_parameters,
        "config": dataclasses.asdict(config),
        "tuning": dataclasses.asdict(tuning),
        "seconds": time.perf_counter() - start,
        "hardware": hardware(on),
        "versions": versions(),
    }
    front = tuple(on_the_front(attempts, max_parameters))
    return ChainResult(front, tuple(attempts), trained.cpu(), history, settings)


def _resolved(task: str, y: Any) -> str:
    """Among the tasks of a training; "auto" goes by whether the targets are whole numbers."""
    if task == "auto":
        task = "regression" if torch.as_tensor(y[:1]).is_floating_point() else "classification"
    task = "multiclass" if task == "classification" else task
    if not isinstance(task, str) or task not in TASKS:
        raise ValueError(
            f"Expected a task among auto, classification and {', '.join(TASKS)}. Got {task!r}."
        )
    return task


def _candidate(rung: Rung, judging: Pair, task: str) -> ChainCandidate:
    output, target, _ = predict(rung.network, judging)
    scores = resolve_task(task).scores
    assert scores is not None  # of a named task
    each = scores(output, target)
    return ChainCandidate(
        copy.deepcopy(rung.network).cpu(),
        rung.score,
        each.std().item() / math.sqrt(len(each)) if len(each) > 1 else math.nan,
        rung.loss,
        rung.network.macs(judging[0][:1]),
    )


def _split(data: Pair, validation: Any, seed: int, like: torch.Tensor) -> tuple[Pair, Pair]:
    """Rows to be fitted to and rows that judge."""
    if isinstance(validation, (tuple, list)) and is_pair(tuple(validation)):
        return data, placed(tuple(validation), like)
    x, y = data
    share = HELD_OUT if isinstance(validation, str) and validation == "auto" else validation
    if not isinstance(share, float) or not 0 < share <= 0.5:
        raise ValueError(
            "Expected validation to be 'auto', a share of the rows up to 0.5, or a pair (X, y), "
            f"where a network is given. Got {validation!r}."
        )
    if len(x) < 2:
        raise ValueError(f"Expected at least two rows to hold some out. Got {len(x)}.")
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed)).to(x.device)
    held, kept = order.split([count := max(1, round(share * len(x))), len(x) - count])
    return (x[kept], y[kept]), (x[held], y[held])
