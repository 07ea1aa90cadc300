"""torchsparcs as a user calls it: `search` with its defaults, one call for the whole front."""

from functools import partial

from contest import Found, Outcome, Task
from running import main

from torchsparcs import CompactNetwork, SearchConfig, search, to_onnx
from torchsparcs.searching.table_search import PILOT_WEIGHTS

TODAY = "one call; plain networks compete"  # the remark of runs of this search, not of earlier ones


def has_skips(network: CompactNetwork) -> bool:
    return any(source < target - 1 for target, source in network.connections)


def sparcs(task: Task, seed: int) -> Outcome:
    result = search(
        task.x,
        task.y,
        task="regression" if task.kind == "regression" else "classification",
        scoring="r2" if task.kind == "regression" else "accuracy",  # as all are judged
        seed=seed,
        device=task.device,
        engine="local",  # one core for everybody
        progress=False,
        config=SearchConfig(steps=60, epochs=1) if task.quick else None,
    )
    found = [
        Found(
            candidate.architecture,
            candidate.widths[1:-1],
            has_skips(candidate.network),
            candidate.parameters,
            candidate.score,
            partial(result.predict, pick=candidate),
            partial(to_onnx, result.deployed(candidate), encoded=True),
        )
        for candidate in result.front
    ]
    fits = result.settings["fits"]  # a network for each fold and one for all rows
    weights, ways = result.settings["penalty_weights"], result.settings["config"]["ways"]
    trained = len(PILOT_WEIGHTS) + len(ways) * len(weights) * fits
    tuned = fits * sum(attempt.cut > 0 for attempt in result.attempts)
    # networks that were drawn, under each decay; those of the folds are fitted as one
    drawn = sum(attempt.member is None and attempt.cut == 0 for attempt in result.attempts)
    # the pilot, a training of each way, and what was drawn
    pick = result.front.index(result.smallest())
    return Outcome(found, 1 + len(ways) + drawn, trained + fits * drawn + tuned, TODAY, pick)


if __name__ == "__main__":
    main("torchsparcs")
