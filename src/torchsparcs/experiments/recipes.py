"""How the paper trains."""

from typing import Any

from torchsparcs.training.config import TrainConfig


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
