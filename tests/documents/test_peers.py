"""The contest with the neighbours: what is compared, what is recorded, and what the page says."""

import dataclasses
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from torchsparcs import CompactNetwork
from torchsparcs.experiments.schemes import STAMP

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "peers"))

import contest
import darts_relaxation
import direct_space
import judging
import marking
import page
import records
import running
import sentences
import sparcs
import tuning
from contest import Found, Job, Task

PEERS = Path(running.__file__).parent
MADE_UP = '''
import os
from typing import NamedTuple

import numpy as np


class Found(NamedTuple):
    architecture: str
    hidden: tuple
    skips: bool
    parameters: int
    expected: float
    predict: object
    to_onnx: object = None


class Outcome(NamedTuple):
    found: list
    trainings: int = 3
    networks: int = 4
    remark: str = ""
    pick: object = None


def constant(task, seed):
    """Always class 0, from one parameter; with three it claims to know better."""
    zeros = lambda x: np.zeros(len(x), int)
    return Outcome([Found("13 → 3", (), False, size, size / 10, zeros) for size in (3, 1)], pick=1)


def broken(task, seed):
    raise RuntimeError("no luck\\nand more")


def nothing(task, seed):
    return Outcome([])


class LightJob(NamedTuple):
    """A job whose module takes no time to import."""
    contestant: str
    task: str
    seed: int
    device: str = "cpu"
    quick: bool = False


def die_at_first(job):
    if job.seed == 0:
        os._exit(9)
    return {"seed": job.seed, "error": "alive, but in vain"}
'''


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A contestant "OTO" of a module that is nowhere else."""
    (tmp_path / "made_up.py").write_text(MADE_UP)
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = running.Entry("made_up", "constant", ("torch", "no-such-package"), (1, 2, 3))
    monkeypatch.setitem(running.CONTESTANTS, "OTO", entry)
    yield
    sys.modules.pop("made_up", None)


def job(function="constant", seed=0, **others):
    fields = {"task": "wine", "device": "cpu", "data": None, "quick": False}
    return Job("OTO", "made_up", function, **{**fields, **others}, seed=seed)


def network(parameters, expected, test, hidden=(), skips=False):
    return {
        "architecture": "in words",
        "hidden": list(hidden),
        "skips": skips,
        "parameters": parameters,
        "expected": expected,
        "test": test,
    }


def run(seed, *networks, **others):
    """As it is recorded."""
    made = {"command": "python by hand", "hardware": "a desk", "versions": {"python": "3"}}
    made["date"] = "2026-11-16"
    return {
        "seed": seed,
        "seconds": 2.0,
        "peak_memory_mb": 100.0,
        "trainings": 5,
        "networks_trained": 7,
        "remark": "",
        "found": list(networks),
        "quick": False,
        "provenance": {**made, "packages": {"made-up": "1.0"}},
        **({"onnx": "yes"} if seed == 0 else {}),
        **others,
    }


def failure(seed, error="MemoryError: "):
    whole = run(seed)
    return {"error": error, **{key: whole[key] for key in ("seed", "quick", "provenance")}}


class TestJudging:
    FOUND = (
        network(40, 0.8, 0.7),
        network(10, 0.5, 0.9),
        network(20, 0.4, 0.99),  # larger, and expects less
        network(40, 0.7, 0.99),
        network(90, 0.8, 0.99),  # larger, and expects no more
    )

    def test_the_front_is_chosen_by_what_is_expected(self):
        assert [one["parameters"] for one in judging.front(self.FOUND)] == [10, 40]
        assert judging.best_of(run(0, *self.FOUND))["test"] == 0.7

    @pytest.mark.parametrize(("budget", "test"), [(9, None), (10, 0.9), (39, 0.9), (1e9, 0.7)])
    def test_the_answer_to_a_budget(self, budget, test):
        found = judging.answer(self.FOUND, budget)
        assert (found and found["test"]) == test

    def test_budgets_begin_where_all_seeds_answer(self):
        runs = [run(0, *self.FOUND), run(1, network(20, 0.1, 0.1), network(60, 0.2, 0.2))]
        assert judging.budgets(runs) == [20, 40, 60]
        assert judging.budgets([]) == []
        # at 20: sizes 10 and 20, scores 0.9 and 0.1, whose standard error is 0.8 / 2
        assert judging.curve(runs)[0] == pytest.approx((15, 0.5, 0.4))

    def test_a_verdict_worked_by_hand(self):
        theirs = [
            run(seed, network(5, 0.1, 0.2), network(20, 0.5, 0.50), network(50, 0.6, 0.80))
            for seed in range(3)
        ]
        ours = [
            run(0, network(10, 0.5, 0.60), network(40, 0.6, 0.70)),
            run(1, network(10, 0.5, 0.70), network(40, 0.6, 0.80)),
            run(7, network(1, 0.1, 0.0)),  # has no partner
        ]
        found = judging.verdict(ours, theirs)
        assert (found.seeds, found.smaller) == (2, 1)
        # at 20: 0.1 and 0.2, at 50: -0.1 and 0; the error is half the distance of the two
        assert [gap.budget for gap in found.gaps] == [20, 50]
        assert [gap.mean for gap in found.gaps] == pytest.approx([0.15, -0.05])
        assert [gap.error for gap in found.gaps] == pytest.approx([0.05, 0.05])
        level = judging.Gap(60, -0.01, 0.02)
        below = judging.Gap(70, -0.03, 0.02)
        found = found._replace(gaps=[found.gaps[0], level, below])
        assert (found.above, found.below) == ([found.gaps[0]], [below])
        assert found.shares == pytest.approx([1 / 3] * 3)
        words = "**below** at 1 of 3, at most by 0.0300 ± 0.0200 (70); 1 below our smallest"
        assert str(found) == words

    def test_words_of_other_verdicts(self):
        level = judging.Gap(60, -0.01, 0.02)
        assert str(judging.Verdict(2, [level], 0)) == "not below (1)"
        assert str(judging.Verdict(5, [], 3)) == "no size in common; 3 below our smallest"

    @pytest.mark.parametrize(("seeds", "words"), [([0], "from 1 seed"), ([], "from 0 seeds")])
    def test_one_seed_is_no_verdict(self, seeds, words):
        ours = [run(seed, network(1, 0.5, 0.1)) for seed in seeds]
        found = judging.verdict(ours, [run(seed, network(1, 0.5, 0.9)) for seed in (0, 1)])
        assert not found.gaps
        assert str(found) == f"no verdict {words}"

    def test_the_teacher_is_known_by_its_layers(self):
        first = network(840, 0.9995, 0.9, [20])
        assert judging.is_teacher(first)
        assert not judging.is_teacher(first | {"skips": True})
        assert not judging.is_teacher(first | {"hidden": [20, 20]})
        assert not judging.is_teacher(None)
        smaller = network(500, 0.9989, 0.9999, [12])
        assert judging.smallest_student(run(0, first, smaller)) is first
        assert judging.smallest_student(run(0, smaller)) is None


class TestArchitectures:
    def test_skips_of_a_compact_network(self):
        assert sparcs.has_skips(CompactNetwork([4, 2, 1], [(1, 0), (2, 0), (2, 1)]))
        assert not sparcs.has_skips(CompactNetwork([4, 2, 1], [(1, 0), (2, 1)]))

    def test_direct_space_names_the_skips_that_are_left(self):
        module = direct_space.Skips(4, 3, 2, 1)
        assert module.skips() == ["4 → 2", "4 → 1", "3 → 1"]
        with torch.no_grad():
            module.layers[2].weight[:, :4] = 0
            module.layers[1].weight[:, :4] = 0
        assert module.skips() == ["3 → 1"]
        task = Task("diabetes", "regression", np.zeros((5, 4)), np.zeros(5), True, "cpu")
        found = direct_space.found(task, module, "group lasso", 0.5)
        assert found[:3] == ("4 → 3 → 2 → 1, skips 3 → 1", (3, 2), True)
        module.layers[2].weight.data[:, 4:7] = 0
        found = direct_space.found(task, module, "l1", 0.5)
        # nonzero weights of the blocks on the way, and every bias
        assert found[:4] == ("4 → 3 → 2 → 1, masked", (3, 2), False, 12 + 6 + 2 + 3 + 2 + 1)

    def test_cutting_in_direct_space_keeps_the_function(self):
        module = direct_space.Skips(4, 3, 2, 1)
        with torch.no_grad():
            module.layers[0].weight[0] = 0  # a neuron that hears nothing
            module.layers[2].weight[:, -1] = 0  # and one that nobody hears
        x = torch.randn(6, 4)
        before = module(x)
        small = direct_space.cut(module)
        assert small.widths == (4, 2, 1, 1)
        assert torch.allclose(small(x), before, atol=1e-6)

    @pytest.mark.parametrize(
        ("edges", "hidden", "skips"),
        [
            ([(0, 1), (1, 2), (2, 3)], (5, 6), False),
            ([(0, 1), (1, 2), (0, 3), (2, 3)], (5, 6), True),
            ([(0, 2), (2, 3)], (6,), False),
            ([(0, 1), (0, 2), (1, 3), (2, 3)], (5, 6), True),
            ([(0, 3)], (), False),
        ],
    )
    def test_darts_says_what_is_left(self, edges, hidden, skips):
        found = darts_relaxation.Discrete([4, 5, 6, 1], edges)
        assert (found.hidden, found.has_skips) == (hidden, skips)

    def test_layers_of_a_genome(self):
        pytest.importorskip("neat")
        from neat.nn import FeedForwardNetwork
        from neat_evolution import layers_of

        def genome(*nodes):
            return FeedForwardNetwork([-1, -2], [0], [(n, *"abcd", links) for n, links in nodes])

        assert layers_of(genome((0, [(-1, 1.0)]))) == ((), False)
        assert layers_of(genome((5, [(-1, 1.0)]), (0, [(5, 1.0)]))) == ((1,), False)
        jumping = genome((5, [(-1, 1.0)]), (6, [(-2, 1.0)]), (0, [(5, 1.0), (-2, 1.0)]))
        assert layers_of(jumping) == ((2,), True)
        assert layers_of(genome()) == ((), False)


@pytest.mark.usefixtures("made_up")
class TestOneRun:
    def test_what_is_recorded(self):
        found = contest.compete(job())
        assert (found["seed"], found["trainings"], found["networks_trained"]) == (0, 3, 4)
        assert [one["parameters"] for one in found["found"]] == [3, 1]
        assert judging.picked(found)["parameters"] == 1
        # wine's test rows, a quarter: class by class as in the whole
        assert found["found"][0]["test"] == pytest.approx(15 / 45)
        assert found["onnx"] == "no way to export it"
        assert "onnx" not in contest.compete(job(seed=1))
        json.dumps(found)

    @pytest.mark.parametrize(
        ("changes", "error"),
        [
            ({"function": "broken"}, "RuntimeError: no luck"),
            ({"function": "nothing"}, "ValueError: Expected a network at least. Got none"),
            ({"task": "mnist"}, "ValueError: Expected an NPZ file"),
        ],
    )
    def test_what_fails_is_recorded_with_its_message(self, changes, error):
        found = contest.compete(job(**changes))
        assert found["error"].startswith(error)
        assert "found" not in found

    def test_a_package_that_is_missing(self, tmp_path):
        (tmp_path / "needy.py").write_text("import no_such_package")
        found = contest.compete(job()._replace(module="needy"))
        assert found["error"] == "ModuleNotFoundError: No module named 'no_such_package'"

    def test_a_run_that_takes_too_long(self, monkeypatch):
        alarm = contest.signal.setitimer
        monkeypatch.setattr(contest.signal, "alarm", lambda s: alarm(contest.signal.ITIMER_REAL, s))
        monkeypatch.setattr(contest, "LIMIT", 0.05)
        monkeypatch.setattr(contest, "drawn", lambda *_: contest.time.sleep(10))
        assert contest.compete(job())["error"] == "TimeoutError: not finished after 0.05 s"


def test_scikit_learn_in_small():
    found = contest.compete(
        Job("scikit-learn", "scikit_learn", "scikit_learn", "wine", 1, "cpu", None, True)
    )
    assert [one["hidden"] for one in found["found"]] == [(), (1,), (2,)]
    assert not any(one["skips"] for one in found["found"])
    # weights and biases of 13 → 3, 13 → 1 → 3 and 13 → 2 → 3
    assert [one["parameters"] for one in found["found"]] == [42, 14 + 6, 28 + 9]
    assert found["found"][0]["test"] > 0.9
    # five penalties of the linear model, six settings of each network, and a refit each
    assert found["trainings"] == (5 + 1) + 2 * (6 + 1)


@pytest.mark.filterwarnings("ignore")
def test_an_exported_network_is_run_by_onnxruntime_alone():
    for package in ("skl2onnx", "onnxruntime"):
        pytest.importorskip(package)
    from scikit_learn import onnx_writer
    from sklearn.linear_model import LogisticRegression

    generator = np.random.default_rng(0)
    x = generator.normal(size=(60, 4)).astype(np.float32)
    task = Task("wine", "multiclass", x, np.arange(60) % 3, True, "cpu")
    model = LogisticRegression().fit(x, task.y)
    found = Found("", (), False, 15, 0.5, model.predict, onnx_writer(model, 4))
    assert contest.exported(task, found, x) == "yes"
    other = found._replace(predict=lambda x: 2 - model.predict(x))
    assert contest.exported(task, other, x) == "the file predicts otherwise"


def test_tasks_are_drawn_by_seed():
    for name in ("two_spirals", "teacher_student"):
        first, again, other = (contest.drawn(name, seed, None) for seed in (0, 0, 1))
        assert np.array_equal(first.x_train, again.x_train)
        assert not np.array_equal(first.x_train, other.x_train)
    assert first.x_train.shape == first.y_train.shape == (4_000, 20)
    task = Task("teacher_student", first.kind, first.x_train, first.y_train, False, "cpu")
    assert (task.outputs, task.chain([7])) == (20, "20 → 7 → 20")
    assert len(task.held_out(0)[2]) == 800
    assert task.score(first.y_test, first.y_test) == 1
    assert task.score(first.y_test, np.full_like(first.y_test, np.nan)) == -np.inf
    assert tuning.steps_for(task) == 1000
    assert tuning.steps_for(dataclasses.replace(task, name="two_spirals", x=first.x_test)) == 1414
    assert tuning.steps_for(dataclasses.replace(task, x=np.zeros((60_000, 1)))) == 2400


@pytest.mark.usefixtures("made_up")
class TestRunning:
    def main(self, out, *arguments, names=("OTO",), **others):
        running.main(*names, arguments=["--out", str(out), *arguments], **others)

    @pytest.fixture
    def carried_out(self, monkeypatch):
        """The jobs that would have been run, in their order."""
        jobs = []

        def alone(job):
            jobs.append(job)
            return run(job.seed, network(1, 0.5, 0.5))

        monkeypatch.setattr(running, "alone", alone)
        return jobs

    def test_a_run_in_a_process_of_its_own(self, tmp_path, capsys):
        self.main(tmp_path, "--tasks", "wine", "--seeds", "1")
        (found,) = json.loads((tmp_path / "OTO.json").read_text())["tasks"]["wine"]
        assert found["found"][0]["hidden"] == []
        assert found["quick"] is False
        made = found["provenance"]
        assert {"command", "date", "hardware", "threads", "versions"} <= set(made)
        assert made["packages"] == {"torch": torch.__version__, "no-such-package": "not installed"}
        said = capsys.readouterr().out
        assert "OTO, wine, seed 0: 0.3333 with 3 parameters (13 → 3), 2 networks" in said
        assert "1 runs, 0 of them failed" in said

    def test_a_process_that_dies_is_the_failure_of_its_run(self, tmp_path, monkeypatch):
        import made_up

        monkeypatch.setattr(running, "compete", made_up.die_at_first)
        jobs = [made_up.LightJob("OTO", "wine", seed) for seed in range(2)]
        assert running.carry_out(jobs, 1, tmp_path) == 2
        died, alive = records.recorded(tmp_path, "OTO")["wine"]
        assert died["error"].startswith("BrokenProcessPool: A process in the process pool was")
        assert alive["error"] == "alive, but in vain"

    def test_what_is_recorded_is_not_run_again(self, tmp_path, carried_out, capsys):
        common = ("--tasks", "wine", "--seeds", "3")
        records.write_down(tmp_path, job(seed=0), run(0, network(1, 0.5, 0.5)))
        records.write_down(tmp_path, job(seed=1), failure(1))
        records.write_down(tmp_path, job(seed=2), run(2, network(1, 0.5, 0.5), quick=True))
        self.main(tmp_path, *common)
        assert [one.seed for one in carried_out] == [1, 2]
        assert "1 of 3 runs are recorded already" in capsys.readouterr().out
        assert [one["seed"] for one in records.recorded(tmp_path, "OTO")["wine"]] == [0, 1, 2]
        self.main(tmp_path, *common)
        assert len(carried_out) == 2
        self.main(tmp_path, *common, "--again")
        assert [one.seed for one in carried_out[2:]] == [0, 1, 2]

    def test_ours_of_other_code_is_run_again(self, tmp_path, carried_out, monkeypatch):
        ours = ("--tasks", "wine", "--seeds", "1")
        old = run(0, network(1, 0.5, 0.5))
        for name in ("OTO", "torchsparcs"):
            records.write_down(tmp_path, job()._replace(contestant=name), old)
        self.main(tmp_path, *ours, names=("OTO", "torchsparcs"))
        assert [one.contestant for one in carried_out] == ["torchsparcs"]
        (made,) = records.recorded(tmp_path, "torchsparcs")["wine"]
        assert made["provenance"]["code"] == running.code()
        self.main(tmp_path, *ours, names=("OTO", "torchsparcs"))
        assert len(carried_out) == 1
        monkeypatch.setattr(running, "code", lambda: "of tomorrow")
        self.main(tmp_path, *ours, names=("OTO", "torchsparcs"))
        assert len(carried_out) == 2

    def test_the_longest_come_first_and_only_some_use_the_device(self, tmp_path, carried_out):
        names, tasks = ("OTO", "neat-python"), ("wine", "teacher_student")
        options = ("--tasks", *tasks, "--seeds", "1", "--device", "meta")
        self.main(tmp_path, *options, names=names, on_device=["OTO"])
        order = [(one.contestant, one.task, one.device) for one in carried_out]
        assert {*order[:2]} == {("neat-python", task, "cpu") for task in tasks}
        assert order[2:] == [("OTO", "teacher_student", "meta"), ("OTO", "wine", "meta")]
        del carried_out[:]
        self.main(tmp_path, "--again", *options)
        assert {one.device for one in carried_out} == {"meta"}

    def test_mnist_needs_data(self, tmp_path, carried_out, capsys):
        for bad, message in [
            (("--tasks", "wine", "mnist"), "mnist needs --data"),
            (("--data", str(tmp_path / "none.npz")), "expected --data to be an NPZ file"),
        ]:
            with pytest.raises(SystemExit, match="2"):
                self.main(tmp_path, *bad)
            assert message in capsys.readouterr().err
        assert not carried_out
        self.main(tmp_path, "--seeds", "1")
        assert {one.task for one in carried_out} == {*contest.TASKS} - {"mnist"}
        assert "mnist is left out: it needs --data" in capsys.readouterr().out
        (tmp_path / "mnist.npz").touch()
        self.main(tmp_path, "--data", str(tmp_path / "mnist.npz"), "--seeds", "1")
        assert [one.task for one in carried_out[6:]] == ["mnist"]

    def test_quick_numbers_stay_elsewhere(self, capsys):
        with pytest.raises(SystemExit, match="2"):
            running.main("OTO", arguments=["--quick"])
        assert "--quick needs --out" in capsys.readouterr().err


def made_up_contest():
    """Ours beside four peers: one above us at one size, one half failed, failed, on one task."""
    seeds, cuda = range(3), {"provenance": {**run(0)["provenance"], "hardware": "a GPU"}}

    def ours(hidden=()):
        return (network(10, 0.5, 0.6), network(100, 0.9995, 0.9, hidden))

    peer = (network(5, 0.4, 0.4), network(50, 0.5, 0.4), network(200, 0.6, 0.95))
    dense = network(90, 0.9999, 0.9, [20], skips=True)
    return {
        "torchsparcs": {
            "wine": [run(seed, *ours()) for seed in seeds],
            "teacher_student": [run(seed, *ours([20])) for seed in seeds],
            "mnist": [run(seed, *ours(), **cuda) for seed in seeds[:2]],
        },
        "scikit-learn": {
            "wine": [run(seed, *peer) for seed in seeds],
            "mnist": [run(seed, *peer, seconds=60.0) for seed in seeds[:2]],
        },
        "Optuna": {
            "wine": [run(0, *peer), failure(1), failure(2)],
            "teacher_student": [run(seed, *peer, dense) for seed in seeds],
        },
        "OTO": {"wine": [failure(seed, "ImportError: no OTO") for seed in seeds]},
        "direct space": {"teacher_student": [run(seed, *peer) for seed in seeds]},
    }


def written(folder, found):
    for name, by_task in found.items():
        for task, runs in by_task.items():
            for one in runs:
                written_by = job(seed=one["seed"], task=task)._replace(contestant=name)
                records.write_down(folder, written_by, one)


def cells(text, name):
    """Of the row of a contestant in a table."""
    found = re.findall(rf"^\| {re.escape(name)} \|(.*)\|$", text, flags=re.MULTILINE)
    assert len(found) == 1, found
    return [cell.strip() for cell in found[0].split(" | ")]


class TestPage:
    def test_it_is_written_from_the_records(self, tmp_path):
        results, docs = tmp_path / "results", tmp_path / "docs"
        written(results, made_up_contest())
        assert (results / "direct-space.json").exists()
        page.main(["--results", str(results), "--docs", str(docs)])
        text = (docs / "comparison.md").read_text()
        assert "{{" not in text
        assert "--quick" not in text.split("## How it was measured")[0]
        assert "- wine: scikit-learn is above us at 1 of 2 sizes, between 200 and 200" in text
        assert "- `python by hand`" in text
        assert "made-up 1.0" in text
        figure = (docs / "figures" / "comparison.svg").read_text()
        assert "stroke: var(--ours)" in figure
        assert "the best of all neighbours at each size" in figure
        stamped = dict(STAMP.findall(figure))
        assert {*stamped} == {f"results/peers/{p.name}" for p in results.iterdir()}

    def test_verdicts(self):
        text = page.verdict_table(made_up_contest())
        assert text.splitlines()[0] == "|  | wine | teacher_student | mnist |"
        below = "**below** at 1 of 2, at most by 0.0500 ± 0.0000 (200); 1 below our smallest"
        assert cells(text, "scikit-learn") == [below, "not run", below]
        assert cells(text, "Optuna")[0] == "no verdict from 1 seed"
        assert cells(text, "OTO") == ["failed", "not run", "not run"]

    def test_where_we_fail_there_is_no_verdict(self, tmp_path):
        found = made_up_contest()
        found["torchsparcs"]["wine"] = [failure(seed) for seed in range(3)]
        assert cells(page.verdict_table(found), "scikit-learn")[0] == "no verdict from 0 seeds"
        assert cells(page.task_table(found, "wine"), "torchsparcs")[0] == "failed: MemoryError:"
        page.draw(found, tmp_path / "figure.svg")

    def test_a_task(self):
        text = page.task_table(made_up_contest(), "wine")
        said = cells(text, "scikit-learn")
        assert said == ["0.9500 ± 0.0000", "200", "5", "7", "2 ± 0", "100", "yes"]
        assert cells(text, "Optuna (1 of 3 seeds)")[0] == "0.9500"
        assert cells(text, "OTO")[0] == "failed: ImportError: no OTO"
        assert cells(text, "direct space")[0] == "not run"

    def test_the_default_pick_is_shown(self):
        """Mean and standard error of what each seed picked, below the network that expects most."""
        found = made_up_contest()
        text = page.task_table(found, "wine")
        assert "default pick" not in text
        for one, test in zip(found["torchsparcs"]["wine"], (0.5, 0.6, 0.7), strict=True):
            one["found"][0]["test"] = test
            one["pick"] = 0
        text = page.task_table(found, "wine")
        assert cells(text, "torchsparcs, default pick")[:2] == ["0.6000 ± 0.0577", "10"]
        assert cells(text, "torchsparcs")[:2] == ["0.9000 ± 0.0000", "100"]

    def test_who_finds_the_teacher(self):
        text = page.teacher_table(made_up_contest())
        assert cells(text, "torchsparcs") == ["20; 20; 20", "3 of 3"]
        assert cells(text, "Optuna") == ["; ".join(["20 with skips"] * 3), "0 of 3"]
        assert cells(text, "direct space") == ["none; none; none", "0 of 3"]
        assert cells(text, "OTO")[0] == "not run"

    def test_where_each_task_ran(self):
        text = page.provenance_table(made_up_contest())
        assert cells(text, "wine") == ["3", "a desk"]
        assert cells(text, "mnist") == ["2", "a GPU: torchsparcs; a desk: scikit-learn"]

    def test_the_table_of_the_readme(self, tmp_path):
        written(tmp_path / "results", made_up_contest())
        (tmp_path / "README.md").write_text(
            "Before <!-- peers: table -->old<!-- end --> after. <!-- peers: times --><!-- end -->"
        )
        page.main(["--results", str(tmp_path / "results"), "--docs", str(tmp_path / "docs")])
        text = (tmp_path / "README.md").read_text()
        assert "old" not in text
        assert text.endswith(
            "**it took longer than 0 of 3 of them**, and lost at some sizes<!-- end -->"
        )
        # of 50 and 200 parameters we are above at one and below at the other; mnist's time is out
        assert cells(text, "scikit-learn (2 of 3 tasks)") == [
            "50 / 0 / 50",
            "5 / 7",
            "1.0 (1 of 2 tasks)",
            "yes",
        ]
        assert cells(text, "torchsparcs") == ["", "5 / 7", "1.0", "yes"]
        assert cells(text, "OTO (0 of 3 tasks)") == ["", "", "", ""]
        found = made_up_contest()
        for run in found["scikit-learn"]["wine"]:
            run["seconds"] *= 3
        assert cells(page.readme(found), "scikit-learn (2 of 3 tasks)")[2].startswith("3.0 ")
        for runs in found["torchsparcs"].values():
            for run in runs:
                run["provenance"]["date"] = "2026-11-19"
        assert cells(page.readme(found), "scikit-learn (2 of 3 tasks)")[2] == ""
        assert page.times(found).startswith("**its time was not measured beside theirs**, and ")

    def test_who_says_which_search_it_was(self):
        found = made_up_contest()
        assert "**Our runs are of an earlier search.**" in sentences.earlier(found)
        for run in found["torchsparcs"]["wine"]:
            run["remark"] = sparcs.TODAY
        assert "on teacher_student, mnist are of an earlier search" in sentences.earlier(found)
        assert "wine" not in sentences.earlier(found)
        assert "changed after a look at that task" in sentences.earlier(found)
        for run in found["torchsparcs"]["teacher_student"]:
            run["remark"] = sparcs.TODAY
        assert "teacher_student" not in sentences.earlier(found)
        for runs in found["torchsparcs"].values():
            for run in runs:
                run["remark"] = sparcs.TODAY
        assert sentences.earlier(found) == ""
        assert "torchsparcs in 3 of 3 seeds" in sentences.teacher(found)

    def test_by_how_much_an_mlp_is_better_than_a_line(self):
        line = network(3, 0.8, 0.7)
        runs = [run(seed, line, network(9, 0.9, 0.7 + seed / 10, [2])) for seed in range(2)]
        found = {"scikit-learn": {"wine": runs, "breast_cancer": runs}}
        assert sentences.over_linear(found).startswith("0.050 ± 0.050 and 0.050 ± 0.050 in ")

    def test_the_pages_are_of_the_records(self):
        docs = PEERS.parents[1] / "docs"
        found = records.read(docs / "results" / "peers", running.CONTESTANTS)
        assert page.page(found) == (docs / "comparison.md").read_text(), "run peers/page.py"
        named = set()
        for text in ((docs / name).read_text() for name in page.PAGES):
            assert marking.filled(text, "peers", page.SENTENCES, found) == text, "run peers/page.py"
            named |= {name for _, name, _, _ in marking.marked("peers").findall(text)}
        assert named == {*page.SENTENCES}

    def test_a_quick_run_is_no_measurement(self):
        found = made_up_contest()
        found["OTO"]["wine"][0]["quick"] = True
        assert "**Made with --quick: a test of the scripts, no measurement.**" in page.page(found)

    def test_records_it_does_not_know(self, tmp_path, capsys):
        with pytest.raises(SystemExit, match="2"):
            page.main(["--results", str(tmp_path)])
        assert "expected runs of torchsparcs" in capsys.readouterr().err
        (tmp_path / "else.json").write_text("{}")
        with pytest.raises(ValueError, match=r"Expected records of torchsparcs, .*else\.json"):
            page.main(["--results", str(tmp_path)])


def test_every_contestant_has_a_script_and_its_grid_on_the_page():
    template = (PEERS / "comparison.md").read_text()
    for name, entry in running.CONTESTANTS.items():
        script = (PEERS / f"{entry.module}.py").read_text()
        assert f"\ndef {entry.function}(task: Task, seed: int) -> Outcome:" in script
        assert script.endswith(f'main("{name}")\n')
        assert template.count(f"\n| {name} | ") == 2
