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
    "searching.model_front": ("ModelFront", "extract_front"),
    "searching.refit": ("refit",),
    "results.result": (
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
    from torchsparcs.compact.chain import CompactChain as CompactChain
    from torchsparcs.compact.network import CompactNetwork as CompactNetwork
    from torchsparcs.cutting.eigenvalues import eigenvalue_gap as eigenvalue_gap
    from torchsparcs.cutting.eigenvalues import prune_eigenvalues as prune_eigenvalues
    from torchsparcs.cutting.extraction import extract as extract
    from torchsparcs.cutting.ladder import RefineConfig as RefineConfig
    from torchsparcs.cutting.pruning import PruningCurve as PruningCurve
    from torchsparcs.cutting.pruning import pruning_curve as pruning_curve
    from torchsparcs.estimators import SparcsClassifier as SparcsClassifier
    from torchsparcs.estimators import SparcsRegressor as SparcsRegressor
    from torchsparcs.export.code import to_c as to_c
    from torchsparcs.export.code import to_javascript as to_javascript
    from torchsparcs.export.code import to_python as to_python
    from torchsparcs.export.quantization import QuantizedNetwork as QuantizedNetwork
    from torchsparcs.export.quantization import quantize as quantize
    from torchsparcs.export.saving import load as load
    from torchsparcs.export.saving import save as save
    from torchsparcs.export.writing import to_onnx as to_onnx
    from torchsparcs.results.result import Candidate as Candidate
    from torchsparcs.results.result import ChainCandidate as ChainCandidate
    from torchsparcs.results.result import ChainResult as ChainResult
    from torchsparcs.results.result import SearchResult as SearchResult
    from torchsparcs.results.result import load_result as load_result
    from torchsparcs.searching.model_front import ModelFront as ModelFront
    from torchsparcs.searching.model_front import extract_front as extract_front
    from torchsparcs.searching.refit import refit as refit
    from torchsparcs.searching.search import SearchConfig as SearchConfig
    from torchsparcs.searching.search import search as search
    from torchsparcs.spectral.chain import SpectralChain as SpectralChain
    from torchsparcs.spectral.chain import SpectralCNN as SpectralCNN
    from torchsparcs.spectral.groups import parameter_groups as parameter_groups
    from torchsparcs.spectral.linear import SpectralLinear as SpectralLinear
    from torchsparcs.spectral.network import SpectralNetwork as SpectralNetwork
    from torchsparcs.spectral.paths import path_norm as path_norm
    from torchsparcs.spectral.paths import path_strengths as path_strengths
    from torchsparcs.spectral.penalties import PENALTIES as PENALTIES
    from torchsparcs.spectral.penalties import attach_penalty as attach_penalty
    from torchsparcs.spectral.penalties import eigenvalue_penalty as eigenvalue_penalty
    from torchsparcs.spectral.penalties import shrink_eigenvalues_ as shrink_eigenvalues_
    from torchsparcs.spectral.pooled import Pooled as Pooled
    from torchsparcs.spectral.population import Population as Population
    from torchsparcs.spectralizing.spectralize import spectralize as spectralize
    from torchsparcs.tables.streams import RowStream as RowStream
    from torchsparcs.training.config import TrainConfig as TrainConfig
    from torchsparcs.training.history import History as History
    from torchsparcs.training.loop import NonFiniteLossError as NonFiniteLossError
    from torchsparcs.training.tasks import evaluate as evaluate
    from torchsparcs.training.train import train as train


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
