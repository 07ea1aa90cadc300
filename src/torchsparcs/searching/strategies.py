"""Strategies to train by, whose networks compete; SearchConfig and its recipes."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from torchsparcs.fitting.folded import FoldedData
from torchsparcs.training.config import TrainConfig, check_amounts, check_counts

MOST_EPOCHS = 150  # of a training: few rows are soon known by heart
TUNE_DECAY = 0.02


class Strategy(NamedTuple):
    """A way to train a population, asleep at first; what each of them finds competes."""

    input_dropout: float = 0.0
    eigenvalue_lr_scale: float = 30.0
    transfer_weight_decay: float = 1.0


STRATEGIES: dict[str, Strategy] = {
    "asleep": Strategy(),
    "asleep with dropout": Strategy(input_dropout=0.1),
}


@dataclass(frozen=True)
class SearchConfig:
    """The options of a search; the defaults suit tables from a hundred rows upwards.

    Attributes:
        steps, epochs: a training takes at least that many steps and sees each row at least that
            many times, but never takes more than ``longest`` steps.
        path: how many penalty weights below the smallest that recruits nothing, each a 25th of
            the one before.
        ways: names from ``STRATEGIES``, one training for each.
        batch_size, lr: of the training and the fine-tunings, AdamW with a cosine schedule.
        shrink: the number of parameters is multiplied by it from one size to the next smaller one.
        boosting: where gradient boosting is better on rows that neither has seen, by more than its
            error, networks are trained to what it says as well.
        paper: search as the paper writes instead: its recipe (Adam at 1e-3, l1 in the loss, 300
            epochs but at most ``longest`` steps), three penalty weights from 1e-3 to 1e-5, and its
            5 % rule of pruning. Of the other options only ``batch_size`` counts then.
        sample: rows to search on where there are at least twice as many; what is found is then
            fitted to all of them and judged by the others.
        tune_share: steps of the fine-tuning at each size, as a share of those of the training, on
            average; the smaller the network, the longer it takes.
    """

    steps: int = 400
    epochs: int = 20
    longest: int = 5_000
    batch_size: int = 128
    lr: float = 1e-2
    path: int = 2
    ways: tuple[str, ...] = tuple(STRATEGIES)
    shrink: float = 0.45
    tune_share: float = 0.25
    boosting: bool = True
    paper: bool = False
    sample: int = 15_000

    def __post_init__(self) -> None:
        check_counts(self, "steps", "epochs", "longest", "batch_size", "path", "sample")
        check_amounts(self, "lr", "tune_share")
        known = len(set(self.ways) & set(STRATEGIES))
        if not self.ways or known < len(self.ways):
            raise ValueError(
                f"Expected ways, each once, among {', '.join(STRATEGIES)}. Got {self.ways!r}."
            )
        if not 0 < self.shrink < 1:
            raise ValueError(f"Expected shrink to be between 0 and 1. Got {self.shrink!r}.")

    def steps_for(self, rows: int) -> int:
        """The steps of the training on that many rows."""
        per_epoch = math.ceil(rows / self.batch_size)
        least = max(self.steps, self.epochs * per_epoch)
        return min(least, self.longest, MOST_EPOCHS * per_epoch)

    def recipe(
        self, way: Strategy, folded: FoldedData, steps: float, penalty_weight: Any, seed: int
    ) -> TrainConfig:
        """The config of a training of about ``steps`` steps on the rows of ``folded``."""
        rows = folded.rows
        batch_size = min(self.batch_size, rows)
        return TrainConfig(
            task=folded.loss,
            epochs=max(1, round(steps * batch_size / rows)),
            batch_size=batch_size,
            lr=self.lr,
            eigenvalue_lr_scale=way.eigenvalue_lr_scale,
            transfer_weight_decay=way.transfer_weight_decay,
            penalty_weight=penalty_weight,
            input_dropout=way.input_dropout,
            capture=folded.inputs.is_cuda,
            seed=seed,
        )

    def tuning(self, folded: FoldedData, steps: float, seed: int) -> TrainConfig:
        """The config of a fine-tuning of compact networks."""
        recipe = self.recipe(Strategy(), folded, steps, 0.0, seed)
        return replace(recipe, schedule="warm_cosine", weight_decay=TUNE_DECAY)


def checked_path(weights: Any) -> list[float] | None:
    """Penalty weights from the largest down, None for "auto"; a ValueError for anything else."""
    if isinstance(weights, str) and weights == "auto":
        return None
    try:
        given = sorted((float(weight) for weight in weights), reverse=True)
    except (TypeError, ValueError):
        given = []
    if not given or not all(math.isfinite(weight) and weight > 0 for weight in given):
        raise ValueError(
            f"Expected penalty_weights to be 'auto' or positive numbers. Got {weights!r}."
        )
    return given
