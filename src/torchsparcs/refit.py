"""A found front fitted to other rows of the same table; the architectures stay."""

import dataclasses
from typing import Any

import torch

from torchsparcs import folds
from torchsparcs.compact import CompactNetwork
from torchsparcs.compact_population import CompactPopulation
from torchsparcs.config import TrainConfig
from torchsparcs.evidence import Evidence
from torchsparcs.result import Candidate, SearchResult, on_the_front
from torchsparcs.search import MOST_EPOCHS, WAYS
from torchsparcs.standardization import weights_of
from torchsparcs.training import train


def refit(
    result: SearchResult,
    X: Any,
    y: Any,
    *,
    steps: int | None = None,
    validation: Any = "auto",
    sample_weight: Any = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    progress: bool = True,
) -> SearchResult:
    """Every network of the front, and the linear one, fine-tuned from where it is.

    No neuron or connection comes or goes, and the preprocessing is that of ``result``: ``X`` has
    the same columns and ``y`` no new classes. Candidates are judged as in a search, on rows that
    copies fine-tuned in the same way did not see; those that a smaller one now beats leave the
    front. Rows that the first search has seen judge mildly.

    Args:
        steps: of the fine-tuning; by default those of the search's ``SearchConfig``.

    The others are those of :func:`torchsparcs.search`.
    """
    settings, config = result.settings, result.settings["config"]
    way = WAYS[settings["way"]]
    on = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    evidence = _evidence(result, X, y, validation, sample_weight, seed).to(torch.device(on))
    rows, fits = len(evidence.inputs), evidence.fits
    batch_size = min(config["batch_size"], rows)
    epochs = round((config["steps"] if steps is None else steps) * batch_size / rows)
    recipe = TrainConfig(
        task=evidence.task,
        epochs=max(1, min(epochs, MOST_EPOCHS)),
        batch_size=batch_size,
        lr=config["lr"],
        schedule="warm_cosine",
        weight_decay=way.tune_weight_decay,
        penalty_weight=0.0,
        input_dropout=way.input_dropout,
        capture=evidence.inputs.is_cuda,
        seed=seed,
    )
    before = [result.linear, *(found for found in result.front if found is not result.linear)]
    directs = [found.network.to_direct() for found in before for _ in range(fits)]
    population = CompactPopulation(directs).to(evidence.inputs.device)
    weights = evidence.member_weights(len(before))
    history = train(population, evidence.pair, recipe, weights=weights, progress=progress)
    tuned = population.to_directs()[fits - 1 :: fits]
    after = [
        Candidate(
            CompactNetwork.from_direct(direct, maximal=None, dtype=torch.float32).cpu(),
            score=judgement.score,
            standard_error=judgement.standard_error,
            loss=judgement.loss,
            penalty_weight=found.penalty_weight,
            member=(index + 1) * fits - 1,
        )
        for index, (found, direct, judgement) in enumerate(
            zip(before, tuned, evidence.judge(population), strict=True)
        )
    ]
    known = {"rows": rows, "judged_rows": len(evidence.folds.judged), "fits": fits}
    return dataclasses.replace(
        result,
        front=tuple(on_the_front(after, settings["max_parameters"])),
        linear=after[0],
        history=dataclasses.replace(history, recruited=[]),  # nobody is recruited any more
        settings={**settings, **known, "seed": seed, "device": str(on)},
    )


def _evidence(
    result: SearchResult, X: Any, y: Any, validation: Any, sample_weight: Any, seed: int
) -> Evidence:
    """The rows as ``result`` sees them, in folds."""
    inputs, target = result.preprocessing.inputs, result.preprocessing.target
    x, t = inputs.transform(X), target.transform(y)
    if len(x) != len(t):
        raise ValueError(f"Expected as many rows in X as in y. Got {len(x)} and {len(t)}.")
    counts = weights_of(sample_weight, len(x))
    weights = torch.ones(len(x)) if counts is None else torch.from_numpy(counts).float()
    if not isinstance(validation, (tuple, list)):
        split = folds.folds_of(validation, t, target.classes is not None, seed)
        return Evidence(x, t, weights, split, target.task)
    others = inputs.transform(validation[0]), target.transform(validation[1])
    split = folds.given(len(x), len(others[0]))
    weights = torch.cat([weights, torch.ones(len(others[0]))])
    return Evidence(
        torch.cat([x, others[0]]), torch.cat([t, others[1]]), weights, split, target.task
    )
