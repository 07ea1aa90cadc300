"""How the paper trains, and what it says of that beside what was used."""

from collections.abc import Mapping, Sequence
from typing import Any

from torchsparcs.report.document import markdown_table
from torchsparcs.training.config import TrainConfig

# Fields of a TrainConfig in the words of the paper's tables; what these do not say is "not said".
NAMES = {
    "lr": "learning rate",
    "batch_size": "batch size",
    "epochs": "epochs",
    "schedule": "schedule",
    "eigenvalue_lr_scale": "eigenvalues learn faster by",
    "transfer_weight_decay": "decay of the transfers",
    "penalty": "penalty",
    "penalty_weight": "its weight",
    "proximal": "proximal step",
}


def hyperparameter_table(
    paper: Mapping[str, Any],
    configs: Mapping[str, Mapping[str, Any]],
    others: Sequence[Sequence[Any]],
) -> str:
    """What the paper says and each config has, by its title; ``others`` are more rows."""
    rows = [
        [name, paper.get(field, "not said"), *(config[field] for config in configs.values())]
        for field, name in NAMES.items()
    ]
    return markdown_table(["hyperparameter", "the paper", *configs], [*rows, *map(list, others)])


def paper_config(**options: Any) -> TrainConfig:
    """Plain Adam, everything at one constant rate, the penalty a term of the loss.

    The authors' published code has for "L2" the norm itself, not its square, one for each layer.
    """
    recipe: dict[str, Any] = {
        "lr": 1e-3,
        "schedule": "constant",
        "eigenvalue_lr_scale": 1.0,
        "transfer_weight_decay": 0.0,
        "penalty": "l2",
        "proximal": False,
    }
    return TrainConfig(**{**recipe, **options})
