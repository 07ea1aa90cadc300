"""A found front fitted to other rows of the same table; the architectures stay."""

import dataclasses
import time
from typing import Any

import torch

from torchsparcs.compact.network import CompactNetwork
from torchsparcs.compact.population import CompactPopulation
from torchsparcs.files.provenance import hardware, versions
from torchsparcs.searching.folded import FoldedData, counted_rows
from torchsparcs.searching.front import is_same, on_the_front
from torchsparcs.searching.result import Candidate, SearchResult
from torchsparcs.searching.strategies import STRATEGIES, SearchConfig
from torchsparcs.training.devices import resolve_device, threads_for
from torchsparcs.training.train import train


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

    The others are those of :func:`torchsparcs.searching.search`.
    """
    started, settings = time.perf_counter(), result.settings
    config, on = SearchConfig(**settings["config"]), resolve_device(device)
    steps = config.steps if steps is None else steps
    config = dataclasses.replace(config, steps=steps, longest=steps)
    X, y, weight = counted_rows(X, y, sample_weight)
    folded = FoldedData.of(result.preprocessing, X, y, weight, validation, seed).to(on)
    rows, fits = folded.rows, folded.fits
    tuning = config.tuning(STRATEGIES[settings["way"]], folded, config.steps_for(rows), seed)
    # the linear model once, though it may be on the front
    others = [found for found in result.front if not is_same(found, result.linear)]
    before = [result.linear, *others]
    directs = [found.network.to_direct() for found in before for _ in range(fits)]
    population = CompactPopulation(directs).to(on)
    weights = folded.member_weights(len(before))
    with threads_for(rows, on):
        history = train(population, folded.pair, tuning, weights=weights, progress=progress)
        judgements = folded.judge(population)
    tuned = population.to_directs()[fits - 1 :: fits]
    after = [
        Candidate.of(
            CompactNetwork.from_direct(direct, maximal=None, dtype=torch.float32),
            judgement,
            found.penalty_weight,
            (index + 1) * fits - 1,
        )
        for index, (found, direct, judgement) in enumerate(
            zip(before, tuned, judgements, strict=True)
        )
    ]
    known = {
        "refitted": True,
        "refit_steps": steps,
        "rows": rows,
        "judged_rows": len(folded.folds.judged),
        "fits": fits,
        "seed": seed,
        "device": str(on),
        "seconds": time.perf_counter() - started,
        "hardware": hardware(on),
        "versions": versions(),
    }
    return dataclasses.replace(
        result,
        front=tuple(on_the_front(after, settings["max_parameters"])),
        linear=after[0],
        history=dataclasses.replace(history, recruited=[]),  # nobody is recruited any more
        settings={**settings, **known},
        attempts=(),  # those of the search were fitted to other rows
    )
