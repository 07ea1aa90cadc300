"""torchsparcs as a user calls it: `search` with its defaults, one call for the whole front."""

from functools import partial

from contest import Found, Outcome, Task, main

from torchsparcs import SearchConfig, search, to_onnx

SHORT = 4  # the pilot, and a rehearsal of each of the three ways to train, before the training


def sparcs(task: Task, seed: int) -> Outcome:
    result = search(
        task.x,
        task.y,
        task="regression" if task.kind == "regression" else "classification",
        seed=seed,
        device=task.device,
        progress=False,
        config=SearchConfig(steps=60, epochs=1) if task.quick else None,
    )
    found = [
        Found(
            candidate.architecture,
            candidate.parameters,
            candidate.score,
            partial(result.predict, pick=candidate),
            partial(to_onnx, result.deployed(candidate)),
        )
        for candidate in result.front
    ]
    fits = result.settings["fits"]  # a network for each fold and one for all rows
    trained = fits * len(result.settings["penalty_weights"])
    cut_and_tuned = fits * len(result.attempts)
    return Outcome(found, 1 + SHORT, trained + cut_and_tuned, "one call")


if __name__ == "__main__":
    main("torchsparcs", sparcs, "torchsparcs", "torch")
