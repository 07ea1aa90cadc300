"""From data to the front of score against size, in one call."""

import contextlib
import operator
import reprlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from torchsparcs.files.byte_counts import bytes_of
from torchsparcs.files.provenance import hardware, versions
from torchsparcs.judging.candidates import Candidate, corrected, is_same, on_the_front
from torchsparcs.judging.scoring import score_settings
from torchsparcs.parallel.executor import Engine, Executor, engine_of
from torchsparcs.parallel.steps import Steps, open_steps
from torchsparcs.results.ranges import ranges_of
from torchsparcs.results.result import SearchResult
from torchsparcs.results.sizes import Sizing
from torchsparcs.searching.clock import checked_budget
from torchsparcs.searching.costs import Costs, cheaper_networks, front_by_cost, with_costs
from torchsparcs.searching.kept import keep_fidelity
from torchsparcs.searching.planning import Plan, TableOptions, planned_network, planned_table
from torchsparcs.searching.preparing import class_weight_words
from torchsparcs.searching.refitted_teachers import teacher_settings
from torchsparcs.searching.strategies import SearchConfig
from torchsparcs.searching.table_search import Outcome, TableSearch
from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.tables.kinds import Kinds
from torchsparcs.tables.target_values import has_target
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.devices import one_thread, resolve_device

__all__ = ["SearchConfig", "search"]


def search(
    X: Any,
    y: Any = None,
    *,
    network: SpectralNetwork | SpectralChain | None = None,
    widths: Sequence[int] | None = None,
    task: str = "auto",
    validation: Any = "auto",
    groups: Any = None,
    penalty_weights: Sequence[float] | str = "auto",
    max_parameters: int | None = None,
    max_bytes: int | str | None = None,
    size: str = "parameters",
    chip: str | None = None,
    int8: bool = False,
    sample_weight: Any = None,
    class_weight: Any = None,
    scoring: Any = "auto",
    calibrate: bool = True,
    kinds: Kinds | None = None,
    costs: Costs | None = None,
    teacher: Any = None,
    teacher_fit: Any = None,
    extra_rows: Any = None,
    activation: str = "relu",
    config: SearchConfig | TrainConfig | None = None,
    seed: int | None = None,
    device: str | torch.device = "auto",
    engine: str | Engine = "auto",
    checkpoint: str | Path | Steps | None = None,
    resume: bool | Literal["auto"] = False,
    time_budget: float | None = None,
    progress: bool = True,
) -> SearchResult:
    """The front of score against size for a table, from populations of spectral networks.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    >>> y = np.abs(x[:, 0])  # |x| = 2 max(x, 0) − x: one column, one neuron and a skip
    >>> result = search(x, y, config=SearchConfig(steps=100), progress=False)
    >>> result.smallest().architecture
    '1 of 3 → 1 → 1, skip 1 → 1'
    >>> result.predict(x).shape
    (300,)

    A short pilot finds the smallest penalty weight that recruits nothing. From there a path of
    weights goes down. Each of several strategies trains a population, one member for each weight
    and each part of the data; one that diverges is left out. The trained members of all of them are
    then cut, size by size, and fine-tuned together. In the end the best of each size, and plain
    networks beside them, are fitted by L-BFGS under several weight decays and lose single
    connections, so that weights of a matrix may be missing: a candidate's parameters are the
    weights and biases that it has. The linear model is fitted and cut in the same way. Every
    candidate is scored on rows that networks made in the same way were not fitted to; it is itself
    fitted to all rows. The same rows choose among many candidates, so the best score flatters; what
    a candidate has as ``expected`` is corrected for that choice. Columns are standardised with all
    rows.

    The first Ctrl-C ends the search of a table with the best front so far and a warning, the second
    at once.

    A network of your own, a ``SpectralCNN`` say, is trained once, then cut and fine-tuned rung by
    rung: ``search(images, labels, network=SpectralCNN([3, 32, 64, 64, 10]))``.

    Args:
        X: (rows, columns), an array, tensor or DataFrame of numbers, text and dates, some of them
            missing; all of it becomes standardised numbers, and how travels with the result.
            A :class:`RowStream` or a memory map need not fit into memory: one pass learns from all
            rows how to standardise them, and draws those the search works on. From 30,000 rows on
            it searches on 15,000 of them (``SearchConfig.sample``); what is on the front is then
            fitted to all, and judged by rows outside the sample.
        y: (rows,), or (rows, outputs) for regression; a stream has its own.
        network: a :class:`SpectralNetwork`, :class:`SpectralChain` or :class:`SpectralCNN` to be
            searched in place of dense networks for a table. X and y are then arrays or tensors as
            it takes them, classes are whole numbers from 0, and ``config`` is the
            :class:`TrainConfig` of its training; with patience a tenth of its rows says when to
            stop, not those that judge. It stays as it is. Widths, penalty weights and activation
            are for tables.
        widths: of the hidden layers, the most that a network may use.
        task: "regression", "classification", or "auto" to tell by the target.
        validation: "auto" (three folds; from 10,000 rows a fifth held out; for a network a tenth),
            a share of the rows, a number of folds, "3x2" for three folds dealt out twice, a
            splitter of scikit-learn's (``GroupKFold``, ``TimeSeriesSplit``), or a pair (X, y). No
            network is fitted to the rows of a pair; nor is a network of your own to the share that
            is held out, so that it is trained once.
        groups: (rows,), what a splitter keeps together.
        penalty_weights: "auto", or the path itself; the linear model is always added.
        max_parameters: nothing larger is kept; of a network, where all are, the smallest.
        max_bytes: nothing that takes more flash as generated C is kept; a number, or "2kB".
        size: what the front is drawn against and the smallest is picked by: "parameters", "macs",
            the multiply-adds of a row, or "bytes", the flash of generated C with its code and
            libraries, predicted for the ``chip`` by a formula (:func:`to_c`).
        chip: "cortex-m4", which bytes are of by default, "cortex-m0", "avr" or "x86".
        int8: bytes are those of networks in int8 (:func:`quantize`), and candidates of the front
            have an ``int8_score`` on the same rows as their score, which still is that in float.
        sample_weight: (rows,), how much each row counts.
        class_weight: {label: weight}, "balanced" (each class counts the same) or None: rows count
            by their class as well, in training and in scores.
        scoring: the score that makes the front and the picks: for classes "accuracy", "log_loss",
            "balanced_accuracy", "roc_auc", "f1", "average_precision"; for numbers "r2", "mae",
            "mape", "pinball_0.9", of which the last three are trained for too; or a scorer of
            scikit-learn's, by name or as it is. "auto" is R², or accuracy, or where a class is rare
            (below a fifth of an even share) log loss.
        calibrate: whether outputs of classes are divided by a temperature, where that makes their
            probabilities hold better on rows that judge; no label changes.
        kinds: what columns are, by their names, where the data do not show it: "number", "text",
            "date", "day-month-year", "month-day-year", or the categories in their order, as in
            ``{"zip": "text", "size": ["S", "M", "L"]}``. What is not of the kind is missing.
        costs: what it costs to measure columns, by their names; others cost nothing. The result
            then has a second front, of score against the costs of the columns that are read, from
            everything that was judged: see ``SearchResult.within_cost``.
        teacher: a model whose answers are part of what networks learn, as far as the rows that
            judge pay for it: a fitted estimator with ``predict_proba`` or ``predict``, a function
            of the table, a torch module of its numbers (logits of classes), or the path of an ONNX
            file. Without y its answers are the target, and scores say how well networks agree with
            it. Rows between those of the table are made for it as well. Where it has seen the rows
            that judge, what it says of them flatters its pupils: ``teacher_fit`` does not.
        teacher_fit: in place of a teacher an estimator, of which copies are fitted, or a function
            of rows and their targets that gives a fitted teacher: five times for each fit of the
            folds, to four fifths of its rows, so that no row is answered by what has seen it.
        extra_rows: rows like X, without a target, for the teacher to answer; of a DataFrame the
            columns of X are taken, by their names.
        activation: of the hidden neurons, a name from ``ACTIVATIONS``.
        config: how the search goes about it; the defaults suit most tables.
        seed: of everything that is drawn; the same seed, machine and number of threads give the
            same networks. By default 0, or that of the :class:`TrainConfig`.
        device: "auto" takes a GPU where there is one, for a table from 10,000 rows on: fewer are
            searched faster on a CPU.
        engine: "local", this process (or, after ``init_process_group``, all of them), "processes",
            others beside it on this machine's cores, "ray", a Ray cluster, or "auto", processes
            where a search of a table on a CPU is long and cores are free; every worker trains and
            cuts some of the networks, on a CPU with the same outcome, bit for bit. Widths that are
            no multiples of 16 are trained by one worker: in parts, they would round otherwise.
        checkpoint: a folder for what has been done. The same call with ``resume=True`` goes on
            from there and ends with the same networks, bit for bit, as a search that was never
            interrupted. It is yours to delete once the result is saved.
        resume: True needs work to go on with, False refuses it, ``"auto"`` takes what there is.
        time_budget: seconds after which it ends with the best front so far, at the latest with the
            linear model; time that was spent before resuming counts. Every stage has its share, so
            that what is found depends on how fast the machine is at that moment.
        progress: say on the terminal what is being done.
    """
    started = time.time()
    executor = Executor(engine_of(engine), is_exact=True)
    ranks = executor.engine.ranks
    options = TableOptions(
        widths=widths,
        penalty_weights=penalty_weights,
        activation=activation,
        max_bytes=max_bytes,
        size=size,
        chip=chip,
        int8=int8,
        class_weight=class_weight,
        calibrate=calibrate,
        kinds=kinds,
        costs=costs,
        teacher=teacher,
        teacher_fit=teacher_fit,
        extra_rows=extra_rows,
    )
    with ranks.same_call() as given:
        if max_parameters is not None:
            max_parameters = _whole("max_parameters", max_parameters)
        flash = None if max_bytes is None else bytes_of(max_bytes)
        limits = {"parameters": max_parameters, "bytes": flash}
        sizing = Sizing.of(size, chip, None, limits, int8)
        seed = None if seed is None else _checked_seed(seed)
        time_budget = checked_budget(time_budget, ranks.world)
        executor.device = None if device == "auto" else resolve_device(device)
        rows = (X, y, sample_weight, groups)
        how: dict[str, Any] = {
            "device": device,
            "task": task,
            "validation": validation,
            "config": config,
            "scoring": scoring,
        }
        if network is not None:
            plan = planned_network(network, rows, options, sizing, executor, seed=seed, **how)
        else:
            plan = planned_table(rows, options, sizing, executor, seed=seed or 0, **how)
        plan.run.check_budget(max_parameters)
        asked = _asked(plan, executor, time_budget, options, is_compared=checkpoint is not None)
        own = ("device", "threads", "weights")  # the weights of the first process are the start
        given |= {name: value for name, value in asked.items() if name not in own}
        given |= {"preprocessing": plan.preprocessing, "task": plan.run.folded.task}
        given |= {"checkpoint": checkpoint is not None, "resume": resume}
    run = plan.run
    run.progress = progress and ranks.is_first
    with (
        open_steps(checkpoint, asked, resume, ranks) as executor.steps,
        _threads(plan),
        _workers(executor, engine, is_long=plan.device.type == "cpu" and run.is_long),
        run.clock.timed(started, time_budget, shown=run.progress and isinstance(run, TableSearch)),
    ):
        outcome, cheap = run.run(plan.sizing.most_parameters), []
        if isinstance(run, TableSearch) and plan.preprocessing and plan.costs is not None:
            first, inputs = outcome.candidates[0], plan.preprocessing.inputs
            cheap = cheaper_networks(run, first, inputs, plan.costs)
        seconds = executor.steps.seconds
    settings = {
        **_settings(plan, options, outcome),
        "rows_without_target": 0 if y is None else int((~has_target(y)).sum()),
        "scoring_is_auto": isinstance(scoring, str) and scoring == "auto",
        "time_budget": time_budget,
        "device": asked["device"],
        "seconds": seconds,
        "hardware": hardware(plan.device),
        "versions": versions(),
    }
    result = _result(plan, outcome, cheap, settings)
    if plan.preprocessing is not None and plan.rows is not None:
        teachers = teacher, teacher_fit
        keep_fidelity(result, outcome, *teachers, plan.rows, validation, seed or 0)
    return result


def _asked(
    plan: Plan,
    executor: Executor,
    time_budget: float | None,
    options: TableOptions,
    *,
    is_compared: bool,
) -> dict[str, Any]:
    """What decides the outcome; who resumes a search, and other processes, must ask the same."""
    run, world = plan.run, executor.engine.ranks.world
    with _threads(plan):
        threads = torch.get_num_threads() if plan.device.type == "cpu" else None
    return {
        **run.asked,
        **plan.sizing.settings,
        "time_budget": time_budget,
        "calibrate": options.calibrate,
        "scoring": run.folded.scoring.name,
        "device": str(executor.place or plan.device),
        "threads": threads,
        "versions": versions(),
        "rows": run.whole.digest() if is_compared or world > 1 else "",
    }


def _settings(plan: Plan, options: TableOptions, outcome: Outcome) -> dict[str, Any]:
    """What a result remembers of how it was made."""
    run = plan.run
    inputs = None if plan.preprocessing is None else plan.preprocessing.inputs
    return {
        "task": run.folded.task,
        **run.asked,
        **outcome.settings,
        "rows": run.whole.rows,
        "rows_seen": plan.seen,
        "rows_searched": run.folded.rows,
        "judged_rows": run.whole.judged_rows,
        "judged_times": len(run.whole.folds.judged) / run.whole.judged_rows,
        "fits": run.folded.fits,
        **plan.sizing.settings,
        "ended": run.clock.ended,
        **score_settings(run.folded.scoring),
        "class_weight": class_weight_words(options.class_weight),
        "calibrate": options.calibrate,
        **({} if plan.costs is None else {"costs": dict(plan.costs)}),
        **({} if inputs is None else {"ranges": ranges_of(inputs, run.folded.inputs)}),
        **teacher_settings(options.teacher, options.teacher_fit, is_target=plan.is_taught),
    }


def _result(
    plan: Plan, outcome: Outcome, cheap: list[Candidate], settings: dict[str, Any]
) -> SearchResult:
    """The front of what was found, with its scores corrected for the choice."""
    run, sizing, preprocessing = plan.run, plan.sizing, plan.preprocessing
    candidates, linear = outcome.candidates, outcome.linear
    limits = {**sizing.limits}
    if run.clock.ended is not None:
        limits = sizing.within_reach(candidates)  # with what there was time for
    elif "parameters" in limits and outcome.budget is not None:
        limits["parameters"] = max(outcome.budget, limits["parameters"])
    by_cost: list[Candidate] = []
    if plan.costs is not None and preprocessing is not None and linear is not None:
        *candidates, linear = with_costs([*candidates, linear], preprocessing.inputs, plan.costs)
        cheap = with_costs(cheap, preprocessing.inputs, plan.costs)
        by_cost = front_by_cost([*candidates, *cheap], limits)
    front = on_the_front(candidates, limits, sizing.name)
    front = corrected(front, outcome.expected, limits.get(sizing.name), sizing.name)
    unit = run.folded.scoring.unit
    front, linear = [each.in_units(unit) for each in front], linear and linear.in_units(unit)
    return SearchResult(
        tuple(front),
        next((found for found in front if linear and is_same(found, linear)), linear),
        preprocessing,
        outcome.history,
        settings,
        tuple(attempt.in_units(unit) for attempt in outcome.attempts),
        outcome.trained,
        tuple(each.in_units(unit) for each in by_cost),
    )


def _threads(plan: Plan) -> contextlib.AbstractContextManager[None]:
    """A table is searched with one thread in each process, so that threads change no bit."""
    is_table = isinstance(plan.run, TableSearch)
    return one_thread(plan.device) if is_table else contextlib.nullcontext()


@contextlib.contextmanager
def _workers(executor: Executor, engine: str | Engine, *, is_long: bool) -> Iterator[None]:
    """The engine that ``engine`` asks for; what it starts ends with the search."""
    if engine == "auto":
        executor.engine = engine_of(engine, is_long=is_long)
    try:
        yield
    finally:
        if isinstance(engine, str):
            executor.engine.close()


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError as error:
        raise ValueError(f"Expected {name} to be an integer. Got {value!r}.") from error


def _checked_seed(value: Any) -> int:
    seed = _whole("seed", value)
    if not -(2**63) <= seed < 2**64:
        raise ValueError(f"Expected a seed of at most 64 bits. Got {reprlib.repr(seed)}.")
    return seed
