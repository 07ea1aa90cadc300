"""What every contestant shares: tasks and splits, what it sees and hands in, how it is judged.

A contestant is a function that sees the training rows of a task and hands back networks, each with
the score it expects from rows it was not fitted to. The test rows are kept here: they are shown to
the networks once, after all choices were made. Columns, and the targets of a regression, are
standardised with the training rows for everybody. A run is one contestant on one task under one
seed, in a process of its own with one thread; its wall seconds and peak memory are measured, the
memory with the interpreter and all libraries. What fails is recorded with its message. Under the
first seed the network that expects most is exported to ONNX where the contestant can, and run by
onnxruntime in a process that imports nothing else.
"""

import importlib
import math
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tasks import TASKS as TABLES
from tasks import Split, draw, standardise

Array = NDArray[np.generic]
LIMIT = 900  # seconds for one run


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
    x = generator.random((6_000, 20)) * 2 - 1
    y = np.maximum(x @ first.T, 0) @ second.T
    return Split(x[:4_000], y[:4_000], x[4_000:], y[4_000:], "regression")


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

    @property
    def is_large(self) -> bool:
        """MNIST: the contestants say how much less they try there."""
        return len(self.x) > 20_000

    def chain(self, hidden: Iterable[int]) -> str:
        """A plain network in words, "64 → 12 → 10"."""
        return " → ".join(map(str, [self.features, *hidden, self.outputs]))

    def score(self, y: Array, predicted: Array) -> float:
        """Accuracy, or R² averaged over the outputs; minus infinity of a network that diverged."""
        if not np.isfinite(predicted).all():
            return -math.inf
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

    architecture: str  # "64 → 12 → 10", for reading
    hidden: tuple[int, ...]  # neurons of each hidden layer, () for a linear model
    skips: bool  # whether a connection that jumps over a layer is left
    parameters: int  # weights and biases that have to be stored to predict
    expected: float  # the score on rows it was not fitted to: what choices are made by
    predict: Callable[[Array], Array]  # (rows, features) to labels or values
    to_onnx: Callable[[Path], object] | None = None  # None: the contestant has no way


class Outcome(NamedTuple):
    """What a contestant hands back.

    Attributes:
        trainings: optimisations started from new weights; a population trained as one counts once.
        networks: that were trained, members of populations and fine-tunings included.
        remark: what a reader has to know of this run.
        pick: the place in ``found`` of the network that is handed out where nobody chooses; None of
            a contestant that leaves the choice to its user.
    """

    found: list[Found]
    trainings: int
    networks: int
    remark: str = ""
    pick: int | None = None


Contestant = Callable[[Task, int], Outcome]  # the seed decides all random choices


class Job(NamedTuple):
    """One run: the contestant is ``function`` of ``module``, which only the run imports."""

    contestant: str
    module: str
    function: str
    task: str
    seed: int
    device: str
    data: Path | None
    quick: bool


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
    labels, theirs = put_out.dtype.kind in "iu", found.predict(x)
    if len(put_out) != len(x):
        return f"the file puts out numbers of shape {put_out.shape} for {len(x):,} rows"
    predicted = put_out.reshape(-1) if labels else task.predictions(put_out)
    if task.kind == "regression":
        same = np.allclose(predicted, theirs, rtol=1e-3, atol=1e-3)
    else:
        same = float(np.mean(predicted == theirs)) >= 0.999
    return "yes" if same else "the file predicts otherwise"


def said(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]


def compete(job: Job) -> dict:
    """One run, in this process: what was found and measured, or the error that ended it."""

    def too_long(*_: object) -> None:
        raise TimeoutError(f"not finished after {LIMIT} s")

    torch.set_num_threads(1)
    torch.manual_seed(job.seed)
    np.random.seed(job.seed)
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LIMIT)
    started = time.perf_counter()
    try:
        split = drawn(job.task, job.seed, job.data)
        task = Task(job.task, split.kind, split.x_train, split.y_train, job.quick, job.device)
        contestant = getattr(importlib.import_module(job.module), job.function)
        started = time.perf_counter()  # neither rows nor imports are the contestant's time
        outcome = contestant(task, job.seed)
        seconds = time.perf_counter() - started
        return {"seed": job.seed, "seconds": seconds, **judged(job, task, split, outcome)}
    except Exception as error:
        seconds = time.perf_counter() - started
        return {"seed": job.seed, "seconds": seconds, "error": said(error)}
    finally:
        signal.alarm(0)


def judged(job: Job, task: Task, split: Split, outcome: Outcome) -> dict:
    """What an outcome is worth on the test rows, and what it took."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if not outcome.found:
        raise ValueError("Expected a network at least. Got none")
    best = max(outcome.found, key=lambda found: (found.expected, -found.parameters))
    networks = [
        {
            "architecture": found.architecture,
            "hidden": found.hidden,
            "skips": found.skips,
            "parameters": found.parameters,
            "expected": found.expected,
            "test": task.score(split.y_test, found.predict(split.x_test)),
        }
        for found in outcome.found
    ]
    return {
        "peak_memory_mb": peak,
        "trainings": outcome.trainings,
        "networks_trained": outcome.networks,
        "remark": outcome.remark,
        "found": networks,
        **({} if outcome.pick is None else {"pick": outcome.pick}),
        **({"onnx": exported(task, best, split.x_test)} if job.seed == 0 else {}),
    }
