"""A found front fitted to other rows of the same table; the architectures stay."""

import dataclasses
import time
from typing import Any

import torch

from torchsparcs.compact.direct import DirectSpace
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.files.provenance import hardware, versions
from torchsparcs.fitting.dense import DenseFamily, compact
from torchsparcs.fitting.folded import FoldedData, counted_rows
from torchsparcs.judging.candidates import Candidate, corrected, is_same, on_the_front
from torchsparcs.judging.class_weights import class_weighted, weights_by_class
from torchsparcs.judging.correction import expected_scores
from torchsparcs.judging.scoring import score_settings
from torchsparcs.parallel.executor import Executor
from torchsparcs.results.result import SearchResult
from torchsparcs.results.sizes import Sizing
from torchsparcs.searching.costs import front_by_cost, with_costs
from torchsparcs.searching.preparing import class_weight_words
from torchsparcs.searching.strategies import SearchConfig
from torchsparcs.training.devices import one_thread, resolve_device
from torchsparcs.training.loop import NonFiniteLossError

SAME = "as in the search"
OF_OTHERS = ("fidelity", "relevance", "worth")  # what was kept of the networks and rows before


def refit(
    result: SearchResult,
    X: Any,
    y: Any,
    *,
    steps: int | None = None,
    validation: Any = "auto",
    sample_weight: Any = None,
    class_weight: Any = SAME,
    scoring: Any = None,
    calibrate: bool | None = None,
    groups: Any = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    progress: bool = True,
) -> SearchResult:
    """Fine-tune every network of the front, and the linear one, from where it is.

    No neuron or connection comes or goes, and the preprocessing is that of ``result``: ``X`` has
    the same columns and ``y`` no new classes. Candidates are judged as in a search, on rows that
    copies fine-tuned in the same way did not see; those that a smaller one now beats leave the
    front. Rows that the first search has seen judge mildly.

    Args:
        steps: of the fine-tuning; by default those of the search's ``SearchConfig``.
        class_weight: as for the search; by default as in the search, so that "balanced" balances
            these rows.
        scoring: needed where that of the search was a function, which no result holds; by default
            the same.
        calibrate: as for the search; by default as in the search.

    The others are those of :func:`torchsparcs.search`.
    """
    if result.preprocessing is None or result.linear is None:
        raise ValueError(
            "Expected a search of a table. This is one of a network: train(candidate.network, ...) "
            "fits it to other rows."
        )
    started, settings = time.perf_counter(), result.settings
    config = _config(settings)
    steps = config.steps if steps is None else steps
    config = dataclasses.replace(config, steps=steps, longest=steps)
    X, y, weight, groups = counted_rows(X, y, sample_weight, groups)
    on = resolve_device(device, len(X))
    if isinstance(class_weight, str) and class_weight == SAME:
        class_weight = settings.get("class_weight")
    calibrate = settings.get("calibrate", True) if calibrate is None else calibrate
    by_class = weights_by_class(y, class_weight, weight)
    target = result.preprocessing.target.widened(y)
    preprocessing = dataclasses.replace(result.preprocessing, target=target)
    folded = FoldedData.of(
        preprocessing,
        X,
        y,
        class_weighted(y, by_class, weight),
        groups,
        validation=validation,
        seed=seed,
        scoring=result.scoring if scoring is None else scoring,
        by_class=by_class,
        calibrate=calibrate,
    ).to(on)
    tuning = config.tuning(folded, config.steps_for(folded.rows), seed)
    # the linear model once, though it may be on the front
    others = [each for each in result.front if not is_same(each, result.linear)]
    before = [result.linear, *others]
    family = DenseFamily(folded, Executor(), progress=progress)
    starts = [[_direct(each)] * folded.fits for each in before]
    with one_thread(on):
        tuned = [fits for fits in family.tune("refit", starts, tuning) if fits is not None]
        if not tuned:
            raise NonFiniteLossError("The loss of all networks diverged: these rows are too far.")
        judgements = family.judge(tuned)
    sizing = Sizing.recorded(settings, preprocessing).on_rows(folded)
    after = [
        sizing.judged(
            sizing.weighed(
                Candidate.of(compact(fits[-1]), judgement, each.penalty_weight, folded.final(place))
            ),
            fits,
        )
        for place, (each, fits, judgement) in enumerate(zip(before, tuned, judgements, strict=True))
    ]
    sizes = [sizing.size(candidate) for candidate in after]
    expected = expected_scores([judgement.parts for judgement in judgements], sizes)
    limits = sizing.within_reach(after)
    by_cost: list[Candidate] = []
    if (costs := settings.get("costs")) is not None:
        after = with_costs(after, result.preprocessing.inputs, costs)
        cheap = front_by_cost(after, limits)
        by_cost = [each.in_units(folded.scoring.unit) for each in cheap]
    front = on_the_front(after, limits, sizing.name)
    front = corrected(front, expected, limits.get(sizing.name), sizing.name)
    linear = dataclasses.replace(after[0], expected=after[0].score)  # nobody chose it
    unit = folded.scoring.unit
    front, linear = [each.in_units(unit) for each in front], linear.in_units(unit)
    known = {
        "refitted": True,
        "refit_steps": steps,
        "rows": folded.rows,
        "judged_rows": folded.judged_rows,
        "judged_times": len(folded.folds.judged) / folded.judged_rows,
        "fits": folded.fits,
        "class_weight": class_weight_words(class_weight),
        "calibrate": calibrate,
        "seed": seed,
        **score_settings(folded.scoring),
        "device": str(on),
        "seconds": time.perf_counter() - started,
        "hardware": hardware(on),
        "versions": versions(),
    }
    kept = {name: value for name, value in settings.items() if name not in OF_OTHERS}
    return dataclasses.replace(
        result,
        preprocessing=preprocessing,
        front=tuple(front),
        linear=next((found for found in front if is_same(found, linear)), linear),
        history=dataclasses.replace(family.history, recruited=[]),  # nobody is recruited any more
        settings={**kept, **known},
        by_cost=tuple(by_cost),
        attempts=(),  # those of the search were fitted to other rows
    )


def _direct(candidate: Candidate) -> DirectSpace:
    assert isinstance(candidate.network, CompactNetwork)
    return candidate.network.to_direct()


def _config(settings: dict[str, Any]) -> SearchConfig:
    """How the search went about it; nothing is trained, by ways that may be gone since."""
    return SearchConfig(**{name: v for name, v in settings["config"].items() if name != "ways"})
