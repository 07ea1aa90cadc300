"""The smallest network a task needs, found by spectral architecture search."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from torchsparcs.version import __version__

# Where each public name lives. It is loaded when it is asked for: the command line need not load
# torch to print its help, nor who trains a network scikit-learn.
HOMES = {
    "spectral.chain": ("SpectralCNN", "SpectralChain"),
    "spectral.groups": ("parameter_groups",),
    "spectral.linear": ("SpectralLinear",),
    "spectral.network": ("SpectralNetwork",),
    "spectral.paths": ("path_norm", "path_strengths"),
    "spectral.penalties": (
        "PENALTIES",
        "attach_penalty",
        "eigenvalue_penalty",
        "shrink_eigenvalues_",
    ),
    "spectral.pooled": ("Pooled",),
    "spectral.population": ("Population",),
    "training.config": ("TrainConfig",),
    "training.history": ("History",),
    "training.loop": ("NonFiniteLossError",),
    "training.tasks": ("evaluate",),
    "training.train": ("train",),
    "compact.chain": ("CompactChain",),
    "compact.network": ("CompactNetwork",),
    "cutting.eigenvalues": ("eigenvalue_gap", "prune_eigenvalues"),
    "cutting.extraction": ("extract",),
    "cutting.pruning": ("PruningCurve", "pruning_curve"),
    "cutting.ladder": ("RefineConfig",),
    "spectralizing.spectralize": ("spectralize",),
    "tables.streams": ("RowStream",),
    "export.code": ("to_c", "to_javascript", "to_python"),
    "export.quantization": ("QuantizedNetwork", "quantize"),
    "export.writing": ("to_onnx",),
    "export.saving": ("load", "save"),
    "searching.refit": ("refit",),
    "searching.result": (
        "Candidate",
        "ChainCandidate",
        "ChainResult",
        "SearchResult",
        "load_result",
    ),
    "searching.search": ("SearchConfig", "search"),
    "estimators": ("SparcsClassifier", "SparcsRegressor"),
}

__all__ = ["__version__", "report", *(name for names in HOMES.values() for name in names)]

if TYPE_CHECKING:  # the same names for those who read and do not run
    from torchsparcs.compact.chain import CompactChain
    from torchsparcs.compact.network import CompactNetwork
    from torchsparcs.cutting.eigenvalues import eigenvalue_gap, prune_eigenvalues
    from torchsparcs.cutting.extraction import extract
    from torchsparcs.cutting.ladder import RefineConfig
    from torchsparcs.cutting.pruning import PruningCurve, pruning_curve
    from torchsparcs.estimators import SparcsClassifier, SparcsRegressor
    from torchsparcs.export.code import to_c, to_javascript, to_python
    from torchsparcs.export.quantization import QuantizedNetwork, quantize
    from torchsparcs.export.saving import load, save
    from torchsparcs.export.writing import to_onnx
    from torchsparcs.searching.refit import refit
    from torchsparcs.searching.result import (
        Candidate,
        ChainCandidate,
        ChainResult,
        SearchResult,
        load_result,
    )
    from torchsparcs.searching.search import SearchConfig, search
    from torchsparcs.spectral.chain import SpectralChain, SpectralCNN
    from torchsparcs.spectral.groups import parameter_groups
    from torchsparcs.spectral.linear import SpectralLinear
    from torchsparcs.spectral.network import SpectralNetwork
    from torchsparcs.spectral.paths import path_norm, path_strengths
    from torchsparcs.spectral.penalties import (
        PENALTIES,
        attach_penalty,
        eigenvalue_penalty,
        shrink_eigenvalues_,
    )
    from torchsparcs.spectral.pooled import Pooled
    from torchsparcs.spectral.population import Population
    from torchsparcs.spectralizing.spectralize import spectralize
    from torchsparcs.tables.streams import RowStream
    from torchsparcs.training.config import TrainConfig
    from torchsparcs.training.history import History
    from torchsparcs.training.loop import NonFiniteLossError
    from torchsparcs.training.tasks import evaluate
    from torchsparcs.training.train import train


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    for home, names in HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"torchsparcs.{home}"), name)
            return value
    if name == "report":
        return import_module("torchsparcs.report")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
