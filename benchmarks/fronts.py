"""How many parameters does SPARCS need for the score of a tuned plain MLP, on ten tables?

The MLPs are those of plain_mlps.py, tuned and trained in the same run. On our side `search` runs
with its defaults on the same training rows; it never sees the test rows. For a budget b of
parameters a front answers with `within(b)`, chosen by its own validation score, and the mean of its
test scores over the seeds is compared with the MLP's mean. The MLPs are chosen on held-out rows as
well: a point is an MLP with a better mean validation score than all smaller ones, and with a better
test score than the linear model; its ratio is the mean size of the smallest answers that reach its
test score, divided by its own size. Points above our best score by less than their standard error
are compared with our best; others count as never reached. The same numbers for MLPs chosen by their
test scores, which flatters them, are recorded as "against_test_chosen".

    python benchmarks/fronts.py --data mnist.npz --device cuda --workers 14
"""

import argparse
import json
import math
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch
from plain_mlps import MNIST, QUICK, TABLE, front, pareto
from recording import RESULTS, record
from tables import TASKS, draw

from torchsparcs import SearchConfig, search


def searched(seed: int, task: str, data: Path | None, device: str, quick: bool) -> dict:
    """One search with the defaults, every candidate also scored on the test rows."""
    torch.set_num_threads(1)
    split = draw(task, seed, data)
    kind = "regression" if split.kind == "regression" else "classification"
    config = SearchConfig(steps=60, epochs=1) if quick else None
    result = search(
        split.x_train,
        split.y_train,
        task=kind,
        seed=seed,
        device=device,
        progress=False,
        config=config,
    )
    rows = [
        {
            "parameters": candidate.parameters,
            "architecture": candidate.architecture,
            "validation_score": candidate.score,
            "test_score": result.score(split.x_test, split.y_test, candidate),
        }
        for candidate in result.front
    ]
    picked = result.front.index(result.smallest())
    return {
        "seed": seed,
        "seconds": result.settings["seconds"],
        "way": result.settings["way"],
        "front": rows,
        "smallest": rows[picked],
    }


def answers(searches: list[dict]) -> list[dict]:
    """For every budget that all seeds can meet: mean size and mean test score of the answers."""
    sizes = sorted({row["parameters"] for found in searches for row in found["front"]})
    least = max(found["front"][0]["parameters"] for found in searches)
    curve = []
    for budget in [size for size in sizes if size >= least]:
        rows = [
            [row for row in found["front"] if row["parameters"] <= budget][-1] for found in searches
        ]
        scores = [row["test_score"] for row in rows]
        curve.append(
            {
                "budget": budget,
                "parameters": statistics.mean(row["parameters"] for row in rows),
                "mean": statistics.mean(scores),
                "standard_error": statistics.stdev(scores) / math.sqrt(len(scores)),
            }
        )
    return curve


def compared(mlps: dict, curve: list[dict], chosen_by: str = "validation_score") -> dict:
    """The ratio of sizes at every point above the linear model, and the best scores."""
    points, best = [], max(curve, key=lambda row: row["mean"])
    theirs = pareto([mlps["linear"], *mlps["mlps"]], chosen_by)
    for row in theirs:
        if row["mean"] <= mlps["linear"]["mean"]:
            continue
        reached = next((found for found in curve if found["mean"] >= row["mean"]), None)
        if reached is None and row["mean"] - best["mean"] <= row["standard_error"]:
            reached = best
        size = None if reached is None else reached["parameters"]
        points.append(
            {
                "mlp": [*row["hidden"], *["skip"] * row["skip"]],
                "score": row["mean"],
                "mlp_parameters": row["parameters"],
                "sparcs_parameters": size,
                "ratio": None if size is None else size / row["parameters"],
            }
        )
    ratios = [point["ratio"] for point in points if point["ratio"] is not None]
    top, ours = theirs[-1], curve[-1]  # each chosen on held-out rows
    return {
        "points": points,
        "never_reached": sum(point["ratio"] is None for point in points),
        "ratio": statistics.geometric_mean(ratios) if ratios else None,
        "best": {key: ours[key] for key in ("parameters", "mean", "standard_error")},
        "best_mlp": {key: top[key] for key in ("parameters", "mean", "standard_error")},
        "shortfall_in_standard_errors": (top["mean"] - ours["mean"])
        / max(1e-12, math.hypot(top["standard_error"], ours["standard_error"])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="MNIST; left out without it")
    parser.add_argument("--device", default="cpu", help="of the MLPs, and of SPARCS on MNIST")
    parser.add_argument("--workers", type=int, default=1, help="processes for our searches")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, help="5 where not given")
    parser.add_argument("--quick", action="store_true", help="small grids, two seeds, few steps")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.quick and arguments.out == RESULTS:
        parser.error("--quick needs --out: its numbers do not belong beside measured ones")
    data, device, quick = arguments.data, arguments.device, arguments.quick
    tasks = [task for task in arguments.tasks if task != "mnist" or data is not None]
    protocols = {task: MNIST if task == "mnist" else TABLE for task in tasks}
    if arguments.seeds:
        protocols = {t: replace(found, seeds=arguments.seeds) for t, found in protocols.items()}
    if quick:
        protocols = {task: replace(found, **QUICK) for task, found in protocols.items()}
    path = arguments.out / "fronts.json"
    earlier = json.loads(path.read_text()) if path.exists() else {}
    results: dict[str, dict] = earlier.get(device, {}).get("tasks", {})  # of other tasks are kept
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
        pending = {
            task: (map if task == "mnist" or arguments.workers == 1 else pool.map)(
                partial(
                    searched,
                    task=task,
                    data=data,
                    device=device if task == "mnist" else "cpu",
                    quick=quick,
                ),
                range(protocols[task].seeds),
            )
            for task in tasks
        }
        for task in tasks:
            mlps = front(task, protocols[task], data, device)
            searches = [*pending[task]]
            curve = answers(searches)
            results[task] = {
                **compared(mlps, curve),
                "against_test_chosen": compared(mlps, curve, "mean"),
                "sparcs": {"curve": curve, "searches": searches},
                "mlps": mlps,
            }
            show(task, results[task])
            ratios = [found["ratio"] for found in results.values() if found["ratio"] is not None]
            summary = {
                "ratio": statistics.geometric_mean(ratios) if ratios else None,
                "tasks": results,
            }
            record("fronts", device, summary, arguments.out)
    print(f"geometric mean over {len(ratios)} tasks: {summary['ratio']}")


def show(task: str, found: dict) -> None:
    ours, theirs = found["best"], found["best_mlp"]
    seconds = statistics.mean(one["seconds"] for one in found["sparcs"]["searches"])
    print(
        f"{task}: ratio {found['ratio']}, never reached {found['never_reached']}; best "
        f"{ours['mean']:.4f} ± {ours['standard_error']:.4f} at {ours['parameters']:.0f}, MLP "
        f"{theirs['mean']:.4f} ± {theirs['standard_error']:.4f} at {theirs['parameters']}; "
        f"{seconds:.0f} s a search",
        flush=True,
    )


if __name__ == "__main__":
    main()
