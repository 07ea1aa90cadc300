"""Where an experiment computes, and what it keeps so that an interrupted run goes on."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from torchsparcs.files.checkpoints import write_atomically
from torchsparcs.parallel.engines import Engine
from torchsparcs.parallel.executor import Executor
from torchsparcs.parallel.journal import Journal
from torchsparcs.spectral.population import Population
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Pair
from torchsparcs.training.history import History
from torchsparcs.training.train import train

Content = dict[str, Any]  # what JSON holds


def say_nothing(text: str) -> None:
    pass


@dataclass(frozen=True)
class Work:
    """The folder, the device, and who is told how far the work is."""

    folder: Path
    device: torch.device
    progress: bool = False
    report: Callable[[str], None] = say_nothing
    engine: Engine = field(default_factory=Engine)

    def part(self, name: str, compute: Callable[[], Content]) -> Content:
        """What ``compute`` returns; an interrupted run does not compute it twice."""
        path = self.parts / f"{_file_name(name)}.json"
        if path.exists():
            self.report(f"{name}: done before")
            return read_json(path)
        self.report(name)
        content = compute()
        write_json(path, content)
        self._checkpoint(name).unlink(missing_ok=True)
        return content

    def train(
        self, name: str, module: nn.Module, data: Pair, config: TrainConfig, **options: Any
    ) -> History:
        """``train``, going on where an interrupted run stopped; a population on the engine."""
        if isinstance(module, Population) and not options:
            executor = Executor(self.engine, Journal(self.parts, self.engine.ranks))
            return executor.train(_file_name(name), module, data, config, progress=self.progress)
        checkpoint = self._checkpoint(name)
        return train(
            module,
            data,
            config,
            checkpoint=checkpoint,
            resume="auto",
            progress=self.progress,
            **options,
        )

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def parts(self) -> Path:
        return self.folder / "parts"

    def _checkpoint(self, name: str) -> Path:
        return self.parts / f"{_file_name(name)}.ckpt"


def _file_name(name: str) -> str:
    return re.sub(r"\W+", "_", name)


def read_json(path: Path) -> Content:
    """The content of a file that :func:`write_json` wrote; anything else is a ValueError."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"Expected the results of an experiment. {path} is damaged.") from error
    if not isinstance(content, dict):
        raise ValueError(f"Expected the results of an experiment. {path} holds something else.")
    return content


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
