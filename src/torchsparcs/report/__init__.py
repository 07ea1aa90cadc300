"""What a search found, to look at: one page, figures for notebooks, TensorBoard.

>>> from torchsparcs.report import front_figure, write_page
"""

from importlib import import_module
from typing import Any

# Where each name lives; Plotly and TensorBoard load when a figure is asked for.
HOMES = {
    "facts": ("facts_of",),
    "page": ("chain_page", "page_of", "write_chain_page", "write_page"),
    "document": ("document_of", "write_document"),
    "figures": (
        "architecture_figure",
        "confusion_figure",
        "eigenvalue_figure",
        "fit_figure",
        "front_figure",
        "history_figure",
        "pruning_figure",
    ),
    "tensorboard": ("EigenvalueLogger", "log_history"),
}

__all__ = [name for names in HOMES.values() for name in names]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    for home, names in HOMES.items():
        if name in names:
            return getattr(import_module(f"torchsparcs.report.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
