"""What every contestant shares: tasks, splits, one process and one core each, how it is judged.

A contestant is a function that sees the training rows of a task and hands back networks, each with
the score it expects from rows it was not fitted to. The test rows are kept here: they are shown to
the networks once, after all choices were made. Columns, and the targets of a regression, are
standardised with the training rows for everybody. Each task and seed runs in a fresh process with
one thread; its wall seconds and peak memory are measured, the memory with the interpreter and all
libraries. What fails is recorded with its message. The network that expects most is exported to
ONNX where the contestant can, and run by onnxruntime in a process that imports nothing else.
"""

import argparse
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from recording import RESULTS, record
from tables import TASKS as TABLES
from tables import Split, draw, standardise

Array = NDArray[np.generic]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LIMIT = 1800  # seconds for one task and seed


def two_spirals(seed: int) -> Split:
    """1,000 and 1,000 points on two arms of one and a half turns, noise 0.1."""
    generator = np.random.default_rng(seed)
    arm = np.arange(2000) % 2
    angle = np.sqrt(generator.random(2000)) * 3 * np.pi
    points = angle[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1) / np.pi
    x = points * (1 - 2 * arm[:, None]) + 0.1 * generator.normal(size=(2000, 2))
    return Split(x[:1000], arm[:1000], x[1000:], arm[1000:], "binary")


def teacher_student(seed: int) -> Split:
    """The paper's teacher: y = R₂ relu(R₁ x), two rotations of 20 dimensions, x uniform."""
    generator = np.random.default_rng(seed)
    first, second = (np.linalg.qr(generator.normal(size=(20, 20)))[0] for _ in range(2))
    x = generator.random((12_000, 20)) * 2 - 1
    y = np.maximum(x @ first.T, 0) @ second.T
    return Split(x[:10_000], y[:10_000], x[10_000:], y[10_000:], "regression")


def drawn(task: str, seed: int, data: Path | None) -> Split:
    """The rows of a task under a seed, standardised with its training rows."""
    own = {"two_spirals": two_spirals, "teacher_student": teacher_student}
    return standardise(own[task](seed) if task in own else draw(task, seed, data))


TASKS = (
    *("digits", "breast_cancer", "wine", "diabetes"),
    *("two_spirals", "teacher_student", "mnist"),
)
assert set(TASKS) - {"two_spirals", "teacher_student"} <= set(TABLES)


@dataclass(frozen=True)
class Task:
    """What a contestant sees. Classes are 0, 1, ...; values are standardised."""

    name: str
    kind: str  # "regression", "binary" or "multiclass"
    x: Array  # (rows, features), float32
    y: Array  # (rows,), or (rows, outputs) of a regression with several
    quick: bool  # a test of the script: do as little as possible
    device: str  # for those who can use one

    @property
    def features(self) -> int:
        return self.x.shape[1]

    @property
    def outputs(self) -> int:
        """Of a network: one logit for two classes, one for each class where there are more."""
        if self.kind == "multiclass":
            return int(self.y.max()) + 1
        return 1 if self.y.ndim == 1 else self.y.shape[1]

    def score(self, y: Array, predicted: Array) -> float:
        """Accuracy, or R² averaged over the outputs."""
        judge = r2_score if self.kind == "regression" else accuracy_score
        return float(judge(y, predicted))

    def held_out(self, seed: int, share: float = 0.2) -> tuple[Array, Array, Array, Array]:
        """x and y to fit, x and y to judge with: the same rows for everybody who asks."""
        classes = None if self.kind == "regression" else self.y
        x, x_held, y, y_held = train_test_split(
            self.x, self.y, test_size=share, random_state=seed, stratify=classes
        )
        return x, y, x_held, y_held

    def predictions(self, outputs: Array) -> Array:
        """Labels or values of what a network put out, (rows, outputs).

        Two classes may come as one logit or as two logits or probabilities.
        """
        if self.kind == "multiclass" or (self.kind == "binary" and outputs.shape[1:] == (2,)):
            return outputs.argmax(1)
        if self.kind == "binary":
            return (outputs.reshape(len(outputs)) > 0).astype(int)
        return outputs.reshape(len(outputs), *self.y.shape[1:])


class Found(NamedTuple):
    """One network that a contestant hands in."""

    architecture: str  # "64 → 12 → 10"
    parameters: int  # weights and biases that have to be stored to predict
    expected: float  # the score on rows it was not fitted to: what choices are made by
    predict: Callable[[Array], Array]  # (rows, features) to labels or values
    to_onnx: Callable[[Path], object] | None = None  # None: the contestant has no way


class Outcome(NamedTuple):
    found: list[Found]
    trainings: (
        int  # optimisations started from new weights; a population trained as one counts once
    )
    networks: int  # networks trained, members of populations and fine-tunings included
    remark: str = ""  # what a reader has to know of this run


Contestant = Callable[[Task, int], Outcome]  # the seed decides all random choices

CHECK = """
import sys, numpy, onnxruntime
model, rows, out = sys.argv[1:]
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
x = numpy.load(rows)
put_out = session.run(None, {session.get_inputs()[0].name: x})[0]
assert not {"torch", "sklearn", "torchsparcs"} & set(sys.modules)
numpy.save(out, put_out)
"""


def exported(task: Task, found: Found, x: Array) -> str:
    """ "yes" where onnxruntime alone predicts the same from the file, or what went wrong."""
    if found.to_onnx is None:
        return "no way to export it"
    with tempfile.TemporaryDirectory() as folder:
        model, rows, out = (Path(folder) / name for name in ("m.onnx", "x.npy", "y.npy"))
        np.save(rows, x.astype(np.float32))
        try:
            found.to_onnx(model)
        except Exception as error:
            return said(error)
        run = subprocess.run(
            [sys.executable, "-c", CHECK, model, rows, out], capture_output=True, text=True
        )
        if run.returncode:
            return run.stderr.strip().splitlines()[-1]
        put_out = np.load(out)
    labels = put_out.dtype.kind in "iu"
    predicted = put_out.reshape(-1) if labels else task.predictions(put_out)
    theirs = found.predict(x)
    if task.kind == "regression":
        same = np.allclose(predicted, theirs, rtol=1e-3, atol=1e-3)
    else:
        same = float(np.mean(predicted == theirs)) >= 0.999
    return "yes" if same else "the file predicts otherwise"


def said(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]


def compete(
    contestant: Contestant, name: str, seed: int, data: Path | None, device: str, quick: bool
) -> dict:
    """One contestant on one task under one seed, in this process."""

    def too_long(*_: object) -> None:
        raise TimeoutError(f"not finished after {LIMIT} s")

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    np.random.seed(seed)
    split = drawn(name, seed, data)
    task = Task(name, split.kind, split.x_train, split.y_train, quick, device)
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LIMIT)
    started = time.perf_counter()
    try:
        outcome = contestant(task, seed)
    except Exception as error:
        return {"seed": seed, "seconds": time.perf_counter() - started, "error": said(error)}
    finally:
        signal.alarm(0)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    networks = [
        {
            "architecture": found.architecture,
            "parameters": found.parameters,
            "expected": found.expected,
            "test": task.score(split.y_test, found.predict(split.x_test)),
        }
        for found in outcome.found
    ]
    best = max(outcome.found, key=lambda found: (found.expected, -found.parameters))
    return {
        "seed": seed,
        "seconds": seconds,
        "peak_memory_mb": peak,
        "trainings": outcome.trainings,
        "networks_trained": outcome.networks,
        "onnx": exported(task, best, split.x_test),
        "remark": outcome.remark,
        "found": networks,
    }


def main(name: str, contestant: Contestant, *packages: str) -> None:
    """The command line of a contestant's script; ``packages`` are those it is made of."""
    parser = argparse.ArgumentParser(description=f"{name} on the tasks of the comparison")
    parser.add_argument("--data", type=Path, help="MNIST as NPZ; left out without it")
    parser.add_argument("--device", default="cpu", help="for those who can use one")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1, help="processes, one core each")
    parser.add_argument("--quick", action="store_true", help="a test of the script, two seeds")
    parser.add_argument("--out", type=Path, default=RESULTS / "peers")
    options = parser.parse_args()
    if options.quick and options.out == RESULTS / "peers":
        parser.error("--quick needs --out: its numbers do not belong beside measured ones")
    tasks = [task for task in options.tasks if task != "mnist" or options.data]
    seeds = range(2 if options.quick else options.seeds)
    path = options.out / f"{name}.json"
    earlier = json.loads(path.read_text()).get(options.device, {}) if path.exists() else {}
    results = {**earlier.get("tasks", {}), **{task: [] for task in tasks}}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    fresh = get_context("spawn")
    with ProcessPoolExecutor(options.workers, fresh, max_tasks_per_child=1) as pool:
        common = (options.data, options.device, options.quick)
        pending = {
            pool.submit(compete, contestant, task, seed, *common): task
            for task in tasks
            for seed in seeds
        }
        for finished in as_completed(pending):
            task, run = pending[finished], finished.result()
            results[task] = sorted([*results[task], run], key=lambda one: one["seed"])
            print(f"{name}, {task}: {summary(run)}", flush=True)
            versions = {package: version(package) for package in packages}
            record(name, options.device, {"packages": versions, "tasks": results}, options.out)


def summary(run: dict) -> str:
    if "error" in run:
        return f"seed {run['seed']}: {run['error']}"
    best = max(run["found"], key=lambda found: (found["expected"], -found["parameters"]))
    return (
        f"seed {run['seed']}: {best['test']:.4f} with {best['parameters']} parameters "
        f"({best['architecture']}), {len(run['found'])} networks, {run['trainings']} trainings, "
        f"{run['seconds']:.0f} s, {run['peak_memory_mb']:.0f} MB, ONNX: {run['onnx']}"
    )


def front(found: list[dict]) -> list[dict]:
    """From small to large, those that expect more than every smaller one."""
    kept: list[dict] = []
    for network in sorted(found, key=lambda one: (one["parameters"], -one["expected"])):
        if not kept or network["expected"] > kept[-1]["expected"]:
            kept.append(network)
    return kept


def answer(found: list[dict], budget: float) -> dict | None:
    """The network a contestant would hand out for a budget of parameters."""
    return next((one for one in reversed(front(found)) if one["parameters"] <= budget), None)


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Mean and its standard error; unknown (infinite) with a single value."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else math.inf
    return float(np.mean(values)), spread / math.sqrt(len(values))
