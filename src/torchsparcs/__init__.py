"""The smallest network a task needs, found in one training run by spectral architecture search."""

from typing import TYPE_CHECKING, Any

from torchsparcs.chain import SpectralChain, SpectralCNN
from torchsparcs.chain_search import ChainCandidate, ChainResult
from torchsparcs.compact import CompactNetwork
from torchsparcs.compact_chain import CompactChain
from torchsparcs.config import TrainConfig
from torchsparcs.epochs import NonFiniteLossError
from torchsparcs.export import to_onnx
from torchsparcs.extraction import extract
from torchsparcs.history import History
from torchsparcs.network import SpectralLinear, SpectralNetwork
from torchsparcs.optimization import parameter_groups
from torchsparcs.paths import path_norm, path_strengths
from torchsparcs.penalties import eigenvalue_penalty, shrink_eigenvalues_
from torchsparcs.pooled import Pooled
from torchsparcs.population import Population
from torchsparcs.pruning import PruningCurve, pruning_curve
from torchsparcs.refinement import RefineConfig
from torchsparcs.result import Candidate, SearchResult, load_result
from torchsparcs.saving import load, save
from torchsparcs.search import SearchConfig, search
from torchsparcs.spectralization import spectralize
from torchsparcs.streams import RowStream
from torchsparcs.tasks import evaluate
from torchsparcs.training import train

if TYPE_CHECKING:
    from torchsparcs.estimators import SparcsClassifier, SparcsRegressor

__version__ = "0.1.0"

__all__ = [
    "Candidate",
    "ChainCandidate",
    "ChainResult",
    "CompactChain",
    "CompactNetwork",
    "History",
    "NonFiniteLossError",
    "Pooled",
    "Population",
    "PruningCurve",
    "RefineConfig",
    "RowStream",
    "SearchConfig",
    "SearchResult",
    "SparcsClassifier",
    "SparcsRegressor",
    "SpectralCNN",
    "SpectralChain",
    "SpectralLinear",
    "SpectralNetwork",
    "TrainConfig",
    "eigenvalue_penalty",
    "evaluate",
    "extract",
    "load",
    "load_result",
    "parameter_groups",
    "path_norm",
    "path_strengths",
    "pruning_curve",
    "save",
    "search",
    "shrink_eigenvalues_",
    "spectralize",
    "to_onnx",
    "train",
]


def __getattr__(name: str) -> Any:
    """The estimators, which load scikit-learn, when they are asked for."""
    if name in ("SparcsClassifier", "SparcsRegressor"):
        from torchsparcs import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
