"""Engines: whoever does the work, in however many parts, the outcome is the same."""

import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import joblib
import pytest
import torch
from outcomes import assert_same
from sklearn.model_selection import cross_val_score
from sockets import children_of, is_local, listening, sockets_of

from torchsparcs import (
    NonFiniteLossError,
    Population,
    SearchConfig,
    SparcsClassifier,
    TrainConfig,
    search,
)
from torchsparcs.experiments import EXPERIMENTS, reproduce
from torchsparcs.parallel import executor, ray_cluster
from torchsparcs.parallel.executor import ENGINES, Engine, Executor, engine_of
from torchsparcs.parallel.steps import Steps
from torchsparcs.tables.datasets import load_dataset

QUICK = SearchConfig(steps=20, longest=20, path=2, shrink=0.3)


class Several(Engine):
    """This process in turns, as if it were ``workers``; the last part is done first."""

    def __init__(self, workers):
        self.workers = workers

    def map(self, function, items):
        for place in reversed(range(len(items))):
            yield place, function(items[place])


def iris(seed=0, **options):
    table = load_dataset("iris")
    options = {"widths": (16,), **options}  # trained in parts, see Executor.is_exact
    return search(table.X, table.y, config=QUICK, seed=seed, progress=False, **options)


@pytest.fixture(scope="module")
def alone():
    return iris()


class Lost(Several):
    """Several, gone once so many parts are done."""

    def __init__(self, workers, parts):
        super().__init__(workers)
        self.left = parts

    def map(self, function, items):
        for found in super().map(function, items):
            yield found
            self.left -= 1
            if not self.left:
                raise ConnectionError


def trained_sixteen(engine, steps):
    """What becomes of sixteen members in three epochs of two steps."""
    x = torch.rand(80, 2, generator=torch.Generator().manual_seed(0))
    weights = tuple(10.0**-k for k in range(16))
    config = TrainConfig(epochs=3, batch_size=40, penalty_weight=weights)
    population = Population([2, 16, 1], seeds=range(16))
    history = Executor(engine, steps).train("some", population, (x, x.sum(dim=1)), config)
    state = {name: value.tolist() for name, value in population.state_dict().items()}
    return state, history.train_loss, history.recruited


class TestParts:
    @pytest.mark.parametrize("workers", [3, 50])
    def test_the_number_of_workers_changes_nothing(self, alone, workers):
        assert_same(alone, iris(engine=Several(workers)))

    @pytest.mark.parametrize(("width", "parts"), [(32, 3), (33, 1)])
    def test_widths_that_would_round_otherwise_in_parts_are_trained_in_one(
        self, monkeypatch, width, parts
    ):
        """Of 33 neurons a member begins elsewhere in memory; in parts these differ by 3e-7."""
        train, members, found = executor.train, [], []
        monkeypatch.setattr(
            executor, "train", lambda m, *a, **k: members.append(m.members) or train(m, *a, **k)
        )
        x = torch.randn(292, 9, generator=torch.Generator().manual_seed(0))
        config = TrainConfig(epochs=4, batch_size=37)
        for engine in (Engine(), Several(3)):
            population = Population([9, width, 1], seeds=range(8))
            work = Executor(engine, is_exact=True)
            work.train("some", population, (x, x[:, 0].abs()), config)
            found.append([parameter.detach() for parameter in population.parameters()])
        assert all(map(torch.equal, *found))
        assert len(members) == 1 + parts

    def test_each_part_is_kept_as_it_is_done(self, alone, tmp_path, monkeypatch):
        options = {"checkpoint": tmp_path, "resume": "auto"}
        with pytest.raises(ConnectionError):
            iris(engine=Lost(2, 12), **options)
        parts = {path.stem for path in tmp_path.glob("*-*.safetensors")}
        assert len(parts) >= 3
        train, done = executor.train, []
        monkeypatch.setattr(executor, "train", lambda *a, **k: done.append(1) or train(*a, **k))
        assert_same(alone, iris(engine=Several(2), **options))
        whole = {path.stem for path in tmp_path.glob("*-*.safetensors")}
        assert len(done) == len(whole - parts)
        assert_same(alone, iris(engine=Several(2), **options))
        assert len(done) == len(whole - parts)  # nothing more
        trainings = [path.stem for path in tmp_path.glob("training *-*.safetensors")]
        assert len(trainings) == 2 * len(QUICK.ways)  # of 16 neurons each, in two parts
        assert_same(alone, iris(**options))
        assert len(done) == len(whole - parts)  # nor with another number of workers

    @pytest.mark.parametrize("workers", [1, 2, 5, 8])
    def test_parts_are_used_by_another_number_of_workers(self, tmp_path, monkeypatch, workers):
        """Of 16 members four workers have trained 8 to 16 before they were lost."""
        whole = trained_sixteen(Engine(), Steps())
        with pytest.raises(ConnectionError):
            trained_sixteen(Lost(4, 2), Steps(tmp_path))
        train, members = executor.train, []
        monkeypatch.setattr(
            executor,
            "train",
            lambda module, *a, **k: members.append(module.members) or train(module, *a, **k),
        )
        found = trained_sixteen(Several(workers), Steps(tmp_path))
        assert sum(members) == 8
        assert len(members) == min(4, workers)
        assert found == whole
        assert not list(tmp_path.glob("*.checkpoint"))

    @pytest.mark.parametrize("workers", [1, 4])
    def test_a_training_that_was_begun_is_gone_on_with(self, tmp_path, monkeypatch, workers):
        whole, steps = trained_sixteen(Engine(), Steps()), []
        monkeypatch.setattr("torchsparcs.training.loop.SAVING_SHARE", 1e9)  # after every epoch
        original = torch.optim.AdamW.step

        def step(self, *arguments, **named):
            steps.append(1)
            if len(steps) == 5:
                raise RuntimeError("power cut")
            return original(self, *arguments, **named)

        monkeypatch.setattr(torch.optim.AdamW, "step", step)
        with pytest.raises(RuntimeError, match="power cut"):
            trained_sixteen(Engine(), Steps(tmp_path))
        assert [path.name for path in tmp_path.glob("*.checkpoint")] == ["some 0-16.checkpoint"]
        assert trained_sixteen(Several(workers), Steps(tmp_path)) == whole
        assert len(steps) == 5 + 6 - 4  # of three epochs of two steps each two were saved
        assert not list(tmp_path.glob("*.checkpoint"))

    def test_files_that_say_otherwise_are_left_alone(self, tmp_path):
        """Parts beyond the members, parts that overlap, and those of another name."""
        steps = Steps(tmp_path)
        whole = trained_sixteen(Several(4), steps)
        for name in ("some 0-8", "some 3-3", "some 12-99", "some more 0-4"):
            shutil.copy(tmp_path / "some 0-4.safetensors", tmp_path / f"{name}.safetensors")
        assert steps.spans("some") == [(0, 4), (0, 8), (3, 3), (4, 8), (8, 12), (12, 16), (12, 99)]
        assert trained_sixteen(Several(4), steps) == whole

    def test_members_with_data_of_their_own(self):
        x = torch.rand(6, 80, 2, generator=torch.Generator().manual_seed(0))
        data = (x, x.sum(dim=-1))
        config = TrainConfig(epochs=3, penalty_weight=tuple(10.0**-k for k in range(6)))
        found = []
        for engine in (Engine(), Several(3)):
            population = Population([2, 16, 1], seeds=range(6))
            history = Executor(engine, Steps()).train("students", population, data, config)
            found.append((population.state_dict(), history.train_loss, history.recruited))
        assert all(torch.equal(value, found[1][0][name]) for name, value in found[0][0].items())
        assert found[0][1:] == found[1][1:]

    @pytest.mark.parametrize("engine", [Engine(), Several(2)])
    def test_members_that_are_lost_do_not_end_the_others(self, engine):
        population = Population([2, 16, 1], seeds=range(4))
        population.output_eigenvalues.data[2:] = torch.inf
        x = torch.rand(80, 2)
        data, config = (x, x.sum(dim=1)), TrainConfig(epochs=2)
        history = Executor(engine, Steps()).train("some", population, data, config)
        assert [math.isfinite(loss) for loss in history.train_loss[-1]] == [True] * 2 + [False] * 2
        population.output_eigenvalues.data[:] = torch.inf
        with pytest.raises(NonFiniteLossError, match="all 4 members became nan in epoch 1"):
            Executor(engine, Steps()).train("none", population, data, config)

    def test_dropout_is_the_same_in_every_part(self):
        x = torch.rand(4, 80, 2)
        found = []
        for engine in (Engine(), Several(2)):
            population = Population([2, 16, 1], seeds=range(4))
            config = TrainConfig(epochs=2, input_dropout=0.3)
            history = Executor(engine, Steps()).train("a", population, (x, x.sum(dim=-1)), config)
            found.append(history.train_loss)
        assert found[0] == found[1]

    def test_unknown_names(self):
        assert set(ENGINES) == {"auto", "local", "processes", "ray"}
        with pytest.raises(ValueError, match=r"Expected an engine among auto, .*\. Got 'dask'"):
            engine_of("dask")
        engine = Engine()
        assert engine_of(engine) is engine
        with pytest.raises(ValueError, match=r"processes, ray\. Got \['local'\]"):
            engine_of(["local"])


class TestThreads:
    def test_two_searches_at_a_time(self, alone):
        other = iris(seed=1)
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        torch.manual_seed(5)
        state = torch.get_rng_state()
        with ThreadPoolExecutor(1) as pool:
            elsewhere = pool.submit(iris, 1)
            here = iris(0)
        threads = torch.get_num_threads()
        torch.set_num_threads(before)
        assert_same(here, alone)
        assert_same(elsewhere.result(), other)
        assert torch.equal(torch.get_rng_state(), state)
        assert threads == 2


# --- Ray ---


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


def ray_workers() -> list[int]:
    """The processes that are at a task of ours."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"ray::_call" in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def of_session(driver: int) -> list[int]:
    """The processes of the Ray cluster that ``driver`` started, which is in the session's name."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if re.search(rb"session_[-\d]+_[-\d]+_\d+_%d\b" % driver, path.read_bytes()):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


class TestRay:
    def test_a_cluster_finds_what_one_process_finds(self, cluster, alone, tmp_path):
        assert engine_of("ray").workers == 2
        assert_same(alone, iris(engine="ray", checkpoint=tmp_path))
        assert len(list(tmp_path.glob("training asleep [0-9]*-*.safetensors"))) == 2

    @pytest.mark.skipif(sys.platform != "linux", reason="looks for the workers in /proc")
    def test_a_worker_that_is_killed_is_made_up_for(self, cluster, alone):
        killed, over = [], threading.Event()

        def kill_some():
            while len(killed) < 2 and not over.is_set():
                if workers := ray_workers():
                    os.kill(workers[0], signal.SIGKILL)
                    killed.append(workers[0])
                    time.sleep(1)
                time.sleep(0.005)

        killer = threading.Thread(target=kill_some)
        killer.start()
        try:
            found = iris(engine="ray")
        finally:
            over.set()
            killer.join()
        assert killed
        assert_same(alone, found)

    def test_an_error_in_a_task_is_the_error_of_the_search(self, cluster):
        with pytest.raises(ZeroDivisionError):
            list(engine_of("ray").map(lambda item: 1 // item, [1, 0, 2]))

    def test_an_experiment(self, cluster, tmp_path):
        experiment = EXPERIMENTS["teacher-student"]
        tiny = replace(
            experiment.quick,
            seeds=(100, 101, 102, 103),
            dimension=4,
            hidden=(16, 8),
            points=400,
            epochs=2,
        )
        found = [
            reproduce(experiment, tmp_path / engine, setting=tiny, device="cpu", engine=engine)
            for engine in ("local", "ray")
        ]
        assert found[0]["results"]["runs"] == found[1]["results"]["runs"]

    def test_a_part_whose_workers_are_all_lost_is_a_clear_error(self, cluster, monkeypatch):
        monkeypatch.setattr(ray_cluster, "RETRIES", 0)

        def work(item):
            if item:
                os.kill(os.getpid(), signal.SIGKILL)
            return item

        with pytest.raises(RuntimeError, match="its Ray worker was lost 1 times"):
            list(engine_of("ray").map(work, [0, 1]))

    @pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
    def test_a_cluster_of_its_own_is_local_and_ends_with_the_process(self, tmp_path):
        """Nobody else can reach it; after kill -9 nothing of it stays."""
        code = (
            "import time\n"
            "from torchsparcs.parallel.executor import engine_of\n"
            "engine = engine_of('ray')\n"
            "print(list(engine.map(abs, [1, 2])), flush=True)\n"
            "time.sleep(600)\n"
        )
        options = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
        driver = subprocess.Popen([sys.executable, "-c", code], **options)
        try:
            assert driver.stdout.readline().startswith("[")
            processes, heard = of_session(driver.pid), listening()
            family = {driver.pid, *processes, *(c for p in processes for c in children_of(p))}
            mine = {inode for process in family for inode in sockets_of(process)}
            addresses = [address for inode, address in heard.items() if inode in mine]
            assert len(addresses) > 2
            assert all(map(is_local, addresses))
            assert processes
        finally:
            driver.kill()
            driver.wait()
            driver.stdout.close()
        deadline = time.monotonic() + 60
        while of_session(driver.pid) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert of_session(driver.pid) == []

    def test_no_cluster_at_the_address(self, cluster):
        code = (
            "from torchsparcs.parallel.executor import engine_of\n"
            "try:\n    engine_of('ray', '127.0.0.1:1')\n"
            "except ValueError as error:\n    print(error)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "Expected a Ray cluster at '127.0.0.1:1'" in done.stdout, done.stderr


def scores(n_jobs=None):
    table = load_dataset("iris")
    model = SparcsClassifier(steps=20, widths=(8,), random_state=0)
    return cross_val_score(model, table.X, table.y, cv=2, n_jobs=n_jobs).tolist()


@pytest.fixture(scope="module")
def expected() -> list[float]:
    return scores()


class TestJoblib:
    """scikit-learn's own parallelism over fits of an estimator."""

    def test_loky(self, expected):
        with joblib.parallel_backend("loky"):
            assert scores(2) == expected

    def test_ray(self, cluster, expected):
        from ray.util.joblib import register_ray

        register_ray()
        with joblib.parallel_backend("ray"):
            assert scores(2) == expected

    def test_dask(self, expected):
        distributed = pytest.importorskip("distributed")
        options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with distributed.Client(**options), joblib.parallel_backend("dask"):
            assert scores(2) == expected
