"""Several processes at one training or one search: the outcome is that of a single one."""

import copy
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import outcomes
import pytest
import torch
import torch.distributed as dist
from sockets import children_of
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard

from torchsparcs import (
    Population,
    SearchConfig,
    SpectralNetwork,
    TrainConfig,
    attach_penalty,
    eigenvalue_penalty,
    extract,
    load_result,
    parameter_groups,
    search,
    shrink_eigenvalues_,
    train,
)
from torchsparcs.files.checkpoint import load_checkpoint, save_checkpoint
from torchsparcs.parallel.executor import engine_of
from torchsparcs.training import loop
from torchsparcs.training.devices import Ranks

FOLDERS = [str(folder) for folder in Path(__file__).parents[:2]]
WORLD = 2
FORK = multiprocessing.get_context("fork")


def in_processes(work, folder, *arguments):
    """What ``work(*arguments)`` returns in each of the processes of a gloo group."""

    def run(rank, answers):
        try:
            torch.set_num_threads(1)
            store = f"file://{folder}/store"
            dist.init_process_group("gloo", init_method=store, rank=rank, world_size=WORLD)
            answers.put((rank, work(*arguments), None))
            dist.destroy_process_group()
        except BaseException:
            answers.put((rank, None, traceback.format_exc()))
            raise

    answers = FORK.Queue()
    processes = [FORK.Process(target=run, args=(rank, answers)) for rank in range(WORLD)]
    for process in processes:
        process.start()
    found = {}
    for _ in processes:
        rank, answer, error = answers.get(timeout=120)
        assert error is None, error
        found[rank] = answer
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    return [found[rank] for rank in range(WORLD)]


def kinks(rows=203):
    x = torch.rand(rows, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return x, x.abs().sum(dim=1)


def state(module):
    return {name: value.detach().numpy().copy() for name, value in module.state_dict().items()}


def assert_close(first, second, tolerance=1e-9):
    for name, value in first.items():
        np.testing.assert_allclose(value, second[name], atol=tolerance, rtol=tolerance)


def assert_same(first, second):
    assert all(np.array_equal(value, second[name]) for name, value in first.items())


CONFIG = TrainConfig(epochs=12, batch_size=50, penalty_weight=3e-3)


def trained(seed=0, config=CONFIG, **options):
    torch.manual_seed(seed + Ranks.current().rank)  # processes need not start alike
    network = SpectralNetwork([3, 20, 10, 1], dtype=torch.float64)
    history = train(network, kinks(), config, progress=False, **options)
    return state(network), network.recruited, history.train_loss, history.validation_loss


def test_calls_of_other_kinds_are_no_same_call(monkeypatch):
    """One process names a network, the other does not."""
    theirs = ({"rows": 5, "network": "mine"}, None)
    monkeypatch.setattr(Ranks, "gather", lambda self, value: [theirs, value])
    with (
        pytest.raises(ValueError, match=r"Process 1 got other network than process 0"),
        Ranks(1, 2).same_call() as given,
    ):
        given |= {"rows": 5}


def trained_in_parts(is_shared_out):
    """Counts, penalty and answers after it is extracted of a network trained in every process."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), SpectralNetwork([4, 11, 1]))
    nn.init.normal_(model[1].hidden_eigenvalues[0])
    plain, (x, y) = copy.deepcopy(model), kinks(64)
    rank = Ranks.current().rank
    part = slice(32 * rank, 32 * rank + 32) if is_shared_out else slice(None)
    if is_shared_out:
        fully_shard(model, mesh=dist.init_device_mesh("cpu", (WORLD,)))
    optimizer = torch.optim.AdamW(parameter_groups(model, lr=1e-2))
    attach_penalty(model, optimizer, 3e-2)
    for _ in range(12):
        optimizer.zero_grad()
        (model(x[part]).squeeze(1) - y[part]).square().mean().backward()
        optimizer.step()
    counts = model[1].recruited, eigenvalue_penalty(model).item()
    if is_shared_out:
        with pytest.raises(ValueError, match="Expected whole tensors"):
            extract(model)
    options = StateDictOptions(full_state_dict=True)
    whole = get_model_state_dict(model, options=options) if is_shared_out else model.state_dict()
    plain.load_state_dict(whole)
    return *counts, extract(plain)(x).detach().numpy()


def test_parameters_that_are_shared_out(tmp_path):
    """By ``fully_shard`` of torch: the outcome is that of one process."""
    count, penalty, answers = trained_in_parts(is_shared_out=False)
    assert 0 < count[0] < 11
    for found in in_processes(lambda: trained_in_parts(is_shared_out=True), tmp_path):
        assert found[0] == count
        assert found[1] == pytest.approx(penalty, rel=1e-4)
        np.testing.assert_allclose(found[2], answers, atol=1e-4)


class TestTraining:
    def test_two_processes_are_one(self, tmp_path):
        alone = trained(validation=kinks(50))
        first, second = in_processes(lambda: trained(validation=kinks(50)), tmp_path)
        assert_same(first[0], second[0])
        assert first[1] == alone[1] == second[1]
        assert 0 < sum(alone[1]) < 30  # some were recruited and some were not: exact zeros
        assert_close(first[0], alone[0])
        np.testing.assert_allclose(first[2], alone[2], rtol=1e-9)
        np.testing.assert_allclose(first[3], alone[3], rtol=1e-9)

    def test_a_penalty_in_the_loss_counts_once(self, tmp_path):
        config = TrainConfig(epochs=3, batch_size=50, proximal=False, penalty_weight=1e-2)
        alone = trained(config=config)
        for found in in_processes(lambda: trained(config=config), tmp_path):
            assert_close(found[0], alone[0])

    def test_a_population_with_weights(self, tmp_path):
        weights = (torch.rand(2, 203, generator=torch.Generator().manual_seed(1)) > 0.3).float()

        def work():
            population = Population([3, 16, 1], seeds=[0, 1], dtype=torch.float64)
            config = TrainConfig(epochs=5, batch_size=50, penalty_weight=(1e-3, 1e-2))
            train(population, kinks(), config, weights=weights, progress=False)
            return state(population)

        alone = work()
        for found in in_processes(work, tmp_path):
            assert_close(found, alone, 1e-6)  # the weights are in float32

    def test_a_batch_smaller_than_the_processes(self, tmp_path):
        def work():
            torch.manual_seed(0)
            network = SpectralNetwork([3, 4, 1], dtype=torch.float64)
            x, y = kinks(5)
            train(network, (x, y), TrainConfig(epochs=2, batch_size=2), progress=False)
            return state(network)

        alone = work()
        for found in in_processes(work, tmp_path):
            assert_close(found, alone)

    def test_loaders_of_different_length_end_together(self, tmp_path):
        def work():
            torch.manual_seed(0)
            network = SpectralNetwork([3, 4, 1])
            x, y = kinks(60)
            batches = [(x[i : i + 10], y[i : i + 10]) for i in range(0, 60, 10)]
            mine = batches[:4] if Ranks.current().is_first else batches[4:]
            history = train(network, mine, TrainConfig(epochs=2), progress=False)
            return state(network), history.train_loss

        first, second = in_processes(work, tmp_path)
        assert_same(first[0], second[0])
        assert first[1] == second[1]

    def test_only_the_first_writes_and_all_resume(self, tmp_path, monkeypatch):
        monkeypatch.setattr(loop, "SAVING_SHARE", 1e9)  # after every epoch
        path = tmp_path / "run.ckpt"
        whole = in_processes(trained, tmp_path)

        class Stop(Exception):
            pass

        def half():
            def stop(history):
                if history.epochs == 6:
                    raise Stop

            written = []
            monkeypatch.setattr(
                loop,
                "save_checkpoint",
                lambda *rest: written.append(1) or save_checkpoint(*rest),
            )
            with pytest.raises(Stop):
                trained(checkpoint=path, on_epoch=stop)
            return len(written)

        (tmp_path / "half").mkdir()
        assert in_processes(half, tmp_path / "half") == [6, 0]  # at the start, and after 5 epochs
        assert load_checkpoint(path)["position"] == (5, 0)
        (tmp_path / "rest").mkdir()
        rest = in_processes(lambda: trained(7, checkpoint=path, resume=True), tmp_path / "rest")
        assert_same(rest[0][0], whole[0][0])
        assert_same(rest[1][0], whole[0][0])
        with pytest.raises(ValueError, match="Expected 2 processes, as in the checkpoint"):
            trained(checkpoint=path, resume=True)

    def test_an_error_of_the_first_is_everybodys(self, tmp_path):
        def work():
            with pytest.raises(ValueError, match="cannot be read"):
                trained(checkpoint=tmp_path / "broken", resume=True)
            return True

        (tmp_path / "broken").write_bytes(b"nonsense")
        assert in_processes(work, tmp_path) == [True, True]

    def test_what_batches_leave_in_buffers_is_the_same_everywhere(self, tmp_path):
        def work():
            torch.manual_seed(0)
            model = nn.Sequential(nn.BatchNorm1d(3), SpectralNetwork([3, 4, 1]))
            train(model, kinks(200), TrainConfig(epochs=2, batch_size=50), progress=False)
            return state(model)

        first, second = in_processes(work, tmp_path)
        assert_same(first, second)
        assert first["0.running_mean"].any()

    def test_an_error_in_one_part_is_everybodys(self, tmp_path):
        def work():
            engine = engine_of("local")
            assert engine.workers == 2
            with pytest.raises(ZeroDivisionError):
                list(engine.map(lambda item: 1 // item, [1, 0, 2]))
            return sorted(engine.map(lambda item: item + 1, [1, 2, 3]))

        assert in_processes(work, tmp_path) == [[(0, 2), (1, 3), (2, 4)]] * 2

    @pytest.mark.parametrize(
        ("other", "named"),
        [
            ({"rows": 60}, "data"),
            ({"weights": torch.linspace(1, 2, 80)}, "weights"),
            ({"validation": kinks(20)}, "validation"),
            ({"widths": [3, 5, 1]}, "module"),
            ({"lr": 0.5}, "lr"),
            ({"checkpoint": "run.ckpt"}, "checkpoint"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_other_calls_are_refused_by_all(self, tmp_path, other, named):
        def work():
            mine = {} if Ranks.current().is_first else dict(other)
            network = SpectralNetwork(mine.pop("widths", [3, 4, 1]))
            data, config = kinks(mine.pop("rows", 80)), TrainConfig(lr=mine.pop("lr", 0.1))
            words = rf"all 2 processes\. Process 1 got other {named} than process 0\."
            with pytest.raises(ValueError, match=words):
                train(network, data, config, progress=False, **mine)
            return True

        assert in_processes(work, tmp_path) == [True, True]

    def test_an_error_before_the_work_is_everybodys(self, tmp_path):
        def work():
            config = None if Ranks.current().is_first else "none"
            with pytest.raises(ValueError, match=r"Expected a TrainConfig\. Got str"):
                train(SpectralNetwork([3, 4, 1]), kinks(), config, progress=False)  # type: ignore[arg-type]
            return True

        assert in_processes(work, tmp_path) == [True, True]

    def test_a_wrapped_module_is_refused(self, tmp_path):
        def work():
            wrapped = nn.parallel.DistributedDataParallel(SpectralNetwork([3, 4, 1]))
            with pytest.raises(ValueError, match="the module itself"):
                train(wrapped, kinks(), CONFIG, progress=False)
            return True

        assert in_processes(work, tmp_path) == [True, True]


def own_loop(setup, rank):
    """A person's own training loop; ``setup`` wraps the network and the optimizer."""
    torch.manual_seed(0)
    network = SpectralNetwork([3, 20, 1], dtype=torch.float64)
    groups = parameter_groups(network, lr=1e-2)
    model, optimizer, backward = setup(network, torch.optim.AdamW(groups))
    x, y = kinks(200)
    for step in range(40):
        rows = torch.arange(step * 50, step * 50 + 50) % 200
        mine = rows if rank is None else rows[rank::WORLD]
        loss = (model(x[mine].double()).squeeze(1) - y[mine]).square().mean()
        optimizer.zero_grad()
        backward(loss)
        optimizer.step()
        shrink_eigenvalues_(model, optimizer, weight=3e-3)
    return state(network), network.recruited


def alone_loop():
    return own_loop(lambda model, optimizer: (model, optimizer, torch.Tensor.backward), None)


class TestOwnLoop:
    def test_the_proximal_step_under_ddp(self, tmp_path):
        def work():
            def setup(model, optimizer):
                wrapped = nn.parallel.DistributedDataParallel(model)
                return wrapped, optimizer, torch.Tensor.backward

            return own_loop(setup, dist.get_rank())

        alone = alone_loop()
        first, second = in_processes(work, tmp_path)
        assert_same(first[0], second[0])
        assert first[1] == alone[1]
        assert 0 < alone[1][0] < 20
        assert_close(first[0], alone[0])

    def test_lightning_fabric(self, tmp_path):
        pytest.importorskip("lightning_fabric", reason="needs lightning-fabric")
        script = tmp_path / "fabric_loop.py"
        script.write_text(FABRIC.format(tests=FOLDERS))
        subprocess.run([sys.executable, script, tmp_path], check=True, timeout=120)
        alone = alone_loop()[0]
        for rank in range(WORLD):
            found = dict(np.load(tmp_path / f"{rank}.npz"))
            assert_close(found, alone)
            trained_here = dict(np.load(tmp_path / f"train{rank}.npz"))
            assert_close(trained_here, trained()[0])


FABRIC = """
import sys
from pathlib import Path
sys.path[:0] = {tests!r}
import numpy as np
import torch
import torch.distributed.nn.functional  # before there is a group that its defaults would keep
from lightning_fabric import Fabric
from test_processes import own_loop, trained

fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()

def setup(model, optimizer):
    model, optimizer = fabric.setup(model, optimizer)
    return model, optimizer, fabric.backward

folder = Path(sys.argv[1])
np.savez(folder / f"{{fabric.global_rank}}.npz", **own_loop(setup, fabric.global_rank)[0])
np.savez(folder / f"train{{fabric.global_rank}}.npz", **trained()[0])
torch.distributed.destroy_process_group()  # else its threads may abort the process that ends
"""


LISTENS = """
import os, sys
sys.path[:0] = {tests!r}
from sockets import is_local, listening, sockets_of
from torchsparcs.training.devices import started

with started() as ranks:
    ranks.gather(None)
    mine, all_of_them = sockets_of(os.getpid()), listening()
    heard = [all_of_them[inode] for inode in mine if inode in all_of_them]
    verdict, interface = bool(heard) and all(map(is_local, heard)), os.environ["GLOO_SOCKET_IFNAME"]
    os.write(1, f"{{verdict}} through {{interface}}\\n".encode())  # whole, whoever else prints
    ranks.gather(None)
"""


ENDS = """
import os
from pathlib import Path
import torch
from torchsparcs import SpectralNetwork, TrainConfig, train
from torchsparcs.training.devices import started

torch.manual_seed(0)
data = torch.randn(40, 3), torch.randn(40, 1)
with started():
    config = TrainConfig(task="regression", epochs=1)
    train(SpectralNetwork([3, 4, 1]), data, config, progress=False)
names = [file.read_text() for file in Path("/proc/self/task").glob("*/comm")]
os.write(1, b"%d threads of gloo\\n" % sum("gloo" in name for name in names))
"""


SEARCH = {"config": SearchConfig(steps=30, longest=30, path=2, shrink=0.4), "progress": False}


def found_by_search():
    x, y = kinks(120)
    result = search(x.numpy(), y.numpy(), widths=(16, 8), **SEARCH)
    return [(c.architecture, c.score, state(c.network)) for c in result.front]


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m"]
ASKED = ["torchsparcs", "search", "iris", "--steps", "20", "--widths", "8", "--validation", "2"]
ASKED += ["--penalty-weights", "0.01,0.001", "--out"]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """The folder of a search of two processes that torchrun started, and what they said."""
    folder = tmp_path_factory.mktemp("torchrun") / "run"
    done = subprocess.run([*TORCHRUN, *ASKED, folder], timeout=300, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


class TestSearch:
    def test_two_processes_find_what_one_finds(self, tmp_path):
        alone = found_by_search()
        for found in in_processes(found_by_search, tmp_path):
            assert [entry[:2] for entry in found] == [entry[:2] for entry in alone]
            for mine, its in zip(alone, found, strict=True):
                assert_same(mine[2], its[2])

    @pytest.mark.parametrize(
        ("other", "named"),
        [
            ({"rows": 110}, "rows, preprocessing"),
            ({"sample_weight": np.linspace(1, 2, 120)}, "rows, preprocessing"),
            ({"max_parameters": 50}, "max_parameters"),
            ({"seed": 1}, "seed, rows"),
            ({"checkpoint": "parts"}, "checkpoint"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_other_calls_are_refused_by_all(self, tmp_path, other, named):
        def work():
            mine = {} if Ranks.current().is_first else dict(other)
            x, y = kinks(mine.pop("rows", 120))
            words = rf"all 2 processes\. Process 1 got other {named} than process 0\."
            with pytest.raises(ValueError, match=words):
                search(x.numpy(), y.numpy(), **SEARCH, **mine)
            return True

        assert in_processes(work, tmp_path) == [True, True]

    def test_bad_rows_of_one_are_everybodys_error(self, tmp_path):
        def work():
            x, y = kinks(120)
            if not Ranks.current().is_first:
                x[3, 1] = torch.inf
            with pytest.raises(ValueError, match="Got 1 infinite in 'x1'"):
                search(x.numpy(), y.numpy(), **SEARCH)
            return True

        assert in_processes(work, tmp_path) == [True, True]

    def test_torchrun(self, together, tmp_path):
        subprocess.run([sys.executable, "-m", *ASKED, tmp_path / "one"], check=True, timeout=300)
        folder, said = together
        assert said.count("Next:") == 1  # one of them speaks
        one, both = load_result(tmp_path / "one"), load_result(folder)
        assert [c.score for c in one.front] == [c.score for c in both.front]
        assert [c.architecture for c in one.front] == [c.architecture for c in both.front]

    @pytest.mark.skipif(sys.platform != "linux", reason="looks for sockets in /proc")
    def test_torchrun_listens_on_this_machine_alone(self, tmp_path):
        """The processes, that is; the launcher's own store is torch's."""
        script = tmp_path / "listens.py"
        script.write_text(LISTENS.format(tests=FOLDERS))
        command = [*TORCHRUN[:-1], script]
        environment = {k: v for k, v in os.environ.items() if k != "GLOO_SOCKET_IFNAME"}
        done = subprocess.run(
            command, check=True, timeout=240, capture_output=True, text=True, env=environment
        )
        assert sorted(done.stdout.splitlines()) == ["True through lo"] * 2

    @pytest.mark.skipif(sys.platform != "linux", reason="looks for the threads in /proc")
    def test_no_thread_of_the_group_stays(self, tmp_path):
        """A thread that is there when the interpreter ends can abort it."""
        script = tmp_path / "ends.py"
        script.write_text(ENDS)
        command = [*TORCHRUN[:-1], script]
        done = subprocess.run(command, check=True, timeout=240, capture_output=True, text=True)
        assert done.stdout.splitlines() == ["0 threads of gloo"] * 2

    @pytest.mark.skipif(sys.platform != "linux", reason="looks for the processes in /proc")
    def test_torchrun_goes_on_after_a_process_is_killed(self, together, tmp_path):
        """kill -9 of one ends the others too; resumed, it finds what it would have found."""
        folder, quiet = (
            tmp_path / "run",
            {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL},
        )
        launcher = subprocess.Popen([*TORCHRUN, *ASKED, folder], **quiet)
        try:
            while not list((folder / "parts").glob("training *-*.safetensors")):
                assert launcher.poll() is None
                time.sleep(0.01)
            ranks = children_of(launcher.pid)
            os.kill(ranks[-1], signal.SIGKILL)
            assert launcher.wait(120) != 0
        finally:
            launcher.kill()
            launcher.wait()
        assert len(ranks) == 2
        assert not any(Path(f"/proc/{rank}").exists() for rank in ranks)
        assert not (folder / "settings.json").exists()
        resumed = [*TORCHRUN, *ASKED[:2], "--resume", folder]
        subprocess.run(resumed, check=True, timeout=300, **quiet)
        outcomes.assert_same(load_result(together[0]), load_result(folder))
        names = [{path.name for path in run.rglob("*")} for run in (together[0], folder)]
        assert names[0] == names[1]

    def test_torchrun_tells_an_error_once(self):
        failed = subprocess.run(
            [*TORCHRUN, "torchsparcs", "search", "none.csv"],
            timeout=240,
            capture_output=True,
            text=True,
        )
        assert failed.returncode == 1
        assert failed.stderr.count("error: Expected a data file. There is none at none.csv.") == 1
