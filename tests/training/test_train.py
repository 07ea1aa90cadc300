"""Training: it learns, it recruits, it repeats itself, and it survives being stopped."""

import math
import multiprocessing
import os
import signal
import threading
import time

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from torchsparcs import (
    History,
    Population,
    SpectralCNN,
    SpectralNetwork,
    TrainConfig,
    extract,
    parameter_groups,
    train,
)
from torchsparcs.files.checkpoint import load_checkpoint
from torchsparcs.training.loop import NonFiniteLossError


def kink(rows=400, seed=0):
    x = torch.rand(rows, 2, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return x, x.abs().sum(dim=1)


def network(seed=0, widths=(2, 20, 1), **options) -> SpectralNetwork:
    net = SpectralNetwork(list(widths), **options)
    net.reset_parameters(torch.Generator().manual_seed(seed))
    return net


def quiet(module, data, config=None, **options) -> History:
    return train(module, data, config, progress=False, **options)


def same(first: nn.Module, second: nn.Module) -> bool:
    return all(map(torch.equal, first.state_dict().values(), second.state_dict().values()))


class TestGroups:
    def test_hold_every_parameter_once(self):
        model = nn.Sequential(nn.Linear(4, 2), network(train_input_eigenvalues=True))
        groups = parameter_groups(model, 0.1, eigenvalue_lr_scale=10, transfer_weight_decay=2.0)
        by_name = {group["name"]: group for group in groups}
        assert sum(len(g["params"]) for g in groups) == len(list(model.parameters()))
        assert by_name["hidden_eigenvalues"]["lr"] == pytest.approx(1.0)
        assert (
            len(by_name["hidden_eigenvalues"]["params"]) == 2
        )  # the input's and the hidden layer's
        assert by_name["transfers"]["weight_decay"] == 2.0
        assert by_name["output_eigenvalues"]["weight_decay"] == 0.0
        assert {id(p) for p in by_name["rest"]["params"]} == {id(p) for p in model[0].parameters()}
        optimizer = torch.optim.AdamW(groups, weight_decay=0.3)
        assert [g["weight_decay"] for g in optimizer.param_groups] == [2.0, 0.0, 0.0, 0.3]

    def test_need_a_spectral_network(self):
        with pytest.raises(ValueError, match="SpectralNetwork inside"):
            parameter_groups(nn.Linear(2, 2), 0.1)


class TestLearning:
    def test_a_line_recruits_nothing_and_a_kink_recruits(self):
        x, y = kink()
        config = TrainConfig(
            epochs=150, batch_size=50, lr=1e-2, penalty_weight=3e-3, transfer_weight_decay=0.0
        )
        straight = network()
        quiet(straight, (x, x.sum(dim=1)), config)
        assert straight.recruited == [0]
        bent = network()
        history = quiet(bent, (x, y), config, validation=kink(seed=1))
        assert 2 <= bent.recruited[0] <= 12
        assert history.validation_score[-1] > 0.98

    @pytest.mark.parametrize(
        ("task", "outputs", "target"),
        [
            ("regression", 1, lambda x: x.abs().sum(1)),
            ("regression", 2, lambda x: x.abs()),
            ("binary", 1, lambda x: (x.prod(1) > 0).long()),
            ("multiclass", 3, lambda x: (x.abs() > 0.5).sum(1)),
            (nn.functional.l1_loss, 2, lambda x: x.abs()),
        ],
    )
    def test_every_task(self, task, outputs, target):
        x, _ = kink()
        net = network(widths=(2, 30, outputs))
        config = TrainConfig(
            task=task, epochs=60, batch_size=50, lr=1e-2, penalty_weight=1e-4, weight_decay=0.1
        )
        history = quiet(net, (x, target(x)), config, validation=(x, target(x)))
        assert history.train_loss[-1] < 0.6 * history.train_loss[0]
        assert history.validation_score[-1] > history.validation_score[0]

    def test_a_loader_and_a_model_around_the_network(self):
        x, y = kink()
        model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), network(widths=(4, 10, 1)))
        loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)
        history = quiet(model, loader, TrainConfig(epochs=20, lr=1e-2), validation=loader)
        assert history.train_loss[-1] < 0.5 * history.train_loss[0]

    def test_a_plain_module_can_be_trained_too(self):
        x, y = kink()
        model = nn.Sequential(nn.Linear(2, 20), nn.ReLU(), nn.Linear(20, 1))
        history = quiet(model, (x, y), TrainConfig(epochs=20, batch_size=50, lr=1e-2))
        assert history.train_loss[-1] < 0.3 * history.train_loss[0]
        assert history.recruited[-1] == []

    def test_the_subgradient_leaves_no_exact_zeros(self):
        shared = {"epochs": 30, "batch_size": 50, "lr": 1e-2, "penalty_weight": 0.1}
        x, y = kink()
        proximal, subgradient = network(), network()
        quiet(proximal, (x, y), TrainConfig(**shared))
        quiet(subgradient, (x, y), TrainConfig(**shared, proximal=False))
        assert proximal.recruited == [0]
        assert subgradient.recruited == [20]

    @pytest.mark.parametrize("amp", ["bfloat16", "float16"])
    def test_mixed_precision(self, amp):
        x, y = kink()
        history = quiet(network(), (x, y), TrainConfig(epochs=20, lr=1e-2, amp=amp))
        assert history.train_loss[-1] < 0.5 * history.train_loss[0]

    def test_history(self):
        x, y = kink()
        net = network()
        config = TrainConfig(epochs=6, snapshot_every=3)
        history = quiet(net, (x, y), config, validation=(x, y))
        assert history.epochs == 6 == len(history.validation_loss) == len(history.seconds)
        assert [epoch for epoch, _ in history.snapshots] == [0, 3, 6]
        name = "hidden_eigenvalues.0"
        assert torch.equal(history.snapshots[0][1][name], torch.zeros(20))
        assert torch.equal(history.snapshots[-1][1][name], net.hidden_eigenvalues[0])
        assert history.recruited[-1] == net.recruited

    def test_early_stopping_goes_back_to_the_best_epoch(self):
        x, y = kink(40)
        noisy = y + torch.randn(40, generator=torch.Generator().manual_seed(0))
        net = network(widths=(2, 100, 1))
        config = TrainConfig(
            epochs=500, lr=3e-2, penalty_weight=0.0, transfer_weight_decay=0.0, patience=15
        )
        validation = kink(200, seed=5)
        history = quiet(net, (x, noisy), config, validation=validation)
        assert history.stopped_early
        assert history.epochs == history.best_epoch + 15 < 500
        loss = nn.functional.mse_loss(net(validation[0]).squeeze(1), validation[1]).item()
        assert loss == pytest.approx(min(history.validation_loss))

    def test_the_penalty_warms_up(self):
        x, y = kink()
        shared = {"epochs": 10, "batch_size": 50, "penalty_weight": 1.0}
        cold, warm = network(), network()
        quiet(cold, (x, y), TrainConfig(**shared))
        history = quiet(warm, (x, y), TrainConfig(**shared, penalty_warmup=1.0))
        assert cold.recruited == [0]
        assert history.recruited[0][0] > 0

    def test_progress_is_shown_and_can_be_silenced(self, capsys):
        x, y = kink()
        train(network(), (x, y), TrainConfig(epochs=2))
        assert "recruited" in capsys.readouterr().out
        train(network(), (x, y), TrainConfig(epochs=2), progress=False)
        assert capsys.readouterr().out == ""


class WithDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.network = nn.Dropout(0.2), network()

    def forward(self, x):
        return self.network(self.drop(x))


def loader(x, y, **options):
    return DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, **options)


def loader_with_a_generator(x, y):
    return loader(x, y, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize(
    "source",
    [lambda x, y: (x, y), loader, loader_with_a_generator],
    ids=["tensors", "loader", "loader with a generator"],
)
class TestRepeating:
    config = TrainConfig(epochs=5, batch_size=64, lr=1e-2, patience=3)

    def test_same_seed_same_weights(self, source):
        x, y = kink()
        first, second, other = WithDropout(), WithDropout(), WithDropout()
        torch.manual_seed(1)
        quiet(first, source(x, y), self.config, validation=(x, y))
        before = torch.get_rng_state()
        torch.manual_seed(2)
        quiet(second, source(x, y), self.config, validation=(x, y))
        assert same(first, second)
        changed = TrainConfig(epochs=5, batch_size=64, lr=1e-2, patience=3, seed=1)
        quiet(other, source(x, y), changed, validation=(x, y))
        assert not same(first, other)
        torch.manual_seed(1)
        assert torch.equal(before, torch.get_rng_state())  # the caller's generator is untouched

    @pytest.mark.parametrize("stop_after", [1, 7, 13, 14, 20, 30])
    def test_an_interrupted_run_resumes_to_the_same_weights(self, source, stop_after, tmp_path):
        x, y = kink()
        whole, parts = WithDropout(), WithDropout()
        expected = quiet(whole, source(x, y), self.config, validation=(x, y))
        path = tmp_path / "run.pt"
        steps = 0

        def interrupt(module, arguments):
            nonlocal steps
            steps += module.training
            if steps == stop_after and module.training:
                os.kill(os.getpid(), signal.SIGINT)

        hook = parts.register_forward_pre_hook(interrupt)
        with pytest.raises(KeyboardInterrupt, match=r"Saved to .*run\.pt.*resume=True"):
            quiet(parts, source(x, y), self.config, validation=(x, y), checkpoint=path)
        hook.remove()
        fresh = WithDropout()
        history = quiet(
            fresh, source(x, y), self.config, validation=(x, y), checkpoint=path, resume=True
        )
        assert same(whole, fresh)
        assert history.train_loss == expected.train_loss
        assert history.recruited == expected.recruited


def test_a_killed_run_resumes_to_the_same_weights(tmp_path):
    def run(checkpoint, resume=False):
        net, config = network(), TrainConfig(epochs=40, batch_size=20, lr=1e-2)
        quiet(net, kink(), config, checkpoint=checkpoint, resume=resume)
        return net

    whole, checkpoint = run(tmp_path / "a.ckpt"), tmp_path / "b.ckpt"
    process = multiprocessing.get_context("fork").Process(target=run, args=(checkpoint,))
    process.start()
    deadline = time.monotonic() + 60
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert same(whole, run(checkpoint, resume=True))


def test_a_population_from_a_shuffling_loader_repeats_itself():
    """The loader draws from torch's own generator, which is seeded for the training."""
    data = TensorDataset(*kink())

    def losses():
        population = Population([2, 8, 1], seeds=[0, 1])
        loader = DataLoader(data, batch_size=50, shuffle=True)
        return quiet(population, loader, TrainConfig(epochs=2)).train_loss

    before = torch.get_rng_state()
    assert losses() == losses()
    assert torch.equal(torch.get_rng_state(), before)


def test_resumed_before_the_first_step_it_has_one_snapshot_of_the_start(tmp_path):
    path, whole = tmp_path / "run", quiet(network(), kink(), TrainConfig(epochs=2))

    def stop(*_):
        raise KeyboardInterrupt

    net = network()
    net.register_forward_hook(stop)
    with pytest.raises(KeyboardInterrupt):
        quiet(net, DataLoader(TensorDataset(*kink())), TrainConfig(epochs=2), checkpoint=path)
    assert load_checkpoint(path)["position"] == (0, 0)
    again = quiet(
        network(),
        DataLoader(TensorDataset(*kink())),
        TrainConfig(epochs=2),
        checkpoint=path,
        resume=True,
    )
    assert [epoch for epoch, _ in again.snapshots] == [epoch for epoch, _ in whole.snapshots]


class TestFaults:
    def test_a_non_finite_loss_names_the_step_and_keeps_the_checkpoint(self, tmp_path, monkeypatch):
        monkeypatch.setattr("torchsparcs.training.loop.SAVING_SHARE", math.inf)  # after every epoch
        x, y = kink()
        net, path = network(), tmp_path / "run.pt"
        config = TrainConfig(epochs=3, batch_size=100)
        calls = 0

        def poisoned(output, target):
            nonlocal calls
            calls += output.requires_grad
            return (output.squeeze(1) - target).square().mean() * (
                float("nan") if calls == 7 else 1
            )

        config = TrainConfig(task=poisoned, epochs=3, batch_size=100)
        with pytest.raises(NonFiniteLossError, match=r"nan in epoch 2, step 3.*last good one"):
            quiet(net, (x, y), config, checkpoint=path)
        state = load_checkpoint(path)
        assert state["position"] == (1, 0)
        assert all(torch.isfinite(p).all() for p in state["module"].values())

    def test_on_epoch_sees_every_epoch_and_the_module_then(self):
        net, seen = network(), []
        before = [p.detach().clone() for p in net.parameters()]

        def look(history):
            seen.append(history.epochs)
            assert any((p != b).any() for p, b in zip(net.parameters(), before, strict=True))

        quiet(net, kink(), TrainConfig(epochs=3), on_epoch=look)
        assert seen == [1, 2, 3]

    def test_slow_checkpoints_are_written_less_often(self, tmp_path, monkeypatch):
        saved = []

        def save_slowly(path, state):
            saved.append(state["position"])
            time.sleep(0.1)

        monkeypatch.setattr("torchsparcs.training.loop.save_checkpoint", save_slowly)
        quiet(network(), kink(), TrainConfig(epochs=30), checkpoint=tmp_path / "run.pt")
        assert saved == [(0, 0), (30, 0)]  # all of it took less than fifty times as long

    def test_an_existing_checkpoint_is_not_overwritten(self, tmp_path):
        path = tmp_path / "run.pt"
        quiet(network(), kink(), TrainConfig(epochs=1), checkpoint=path)
        content = path.read_bytes()
        with pytest.raises(ValueError, match="resume=True to go on"):
            quiet(network(), kink(), TrainConfig(epochs=1), checkpoint=path)
        assert path.read_bytes() == content
        assert [p.name for p in tmp_path.iterdir()] == ["run.pt"]

    def test_resuming_needs_a_checkpoint_of_the_same_config(self, tmp_path):
        path = tmp_path / "run.pt"
        with pytest.raises(ValueError, match="there is none at"):
            quiet(network(), kink(), checkpoint=path, resume=True)
        quiet(network(), kink(), TrainConfig(epochs=1), checkpoint=path)
        config = TrainConfig(epochs=1, lr=1.0, seed=3)
        with pytest.raises(ValueError, match=r"lr was 0\.002, now 1\.0, seed was 0, now 3"):
            quiet(network(), kink(), config, checkpoint=path, resume=True)
        path.write_bytes(path.read_bytes()[:1000])
        with pytest.raises(ValueError, match="cannot be read"):
            quiet(network(), kink(), TrainConfig(epochs=1), checkpoint=path, resume=True)

    def test_works_off_the_main_thread(self):
        results = []
        thread = threading.Thread(
            target=lambda: results.append(quiet(network(), kink(), TrainConfig(epochs=2)))
        )
        thread.start()
        thread.join()
        assert results[0].epochs == 2

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"task": "ranking"}, r"multiclass, .* or a loss\. Got 'ranking'"),
            ({"schedule": "step"}, r"cosine, constant\. Got 'step'"),
            ({"penalty": "l0"}, r"l1, l2, l2_squared, sparse_group\. Got 'l0'"),
            ({"amp": "float8"}, "bfloat16 or float16"),
            ({"epochs": 0}, "epochs to be a positive integer. Got 0"),
            ({"batch_size": 2.5}, "batch_size to be a positive integer"),
            ({"patience": 0}, "patience to be a positive integer"),
            ({"lr": -1.0}, "lr to be finite and not negative"),
            ({"penalty_weight": float("nan")}, "penalty_weight to be finite"),
            ({"penalty_warmup": 2.0}, "between 0 and 1"),
        ],
    )
    def test_bad_configs(self, options, message):
        with pytest.raises(ValueError, match=message):
            TrainConfig(**options)

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ((torch.zeros(3, 2), torch.zeros(4)), r"Got shapes \(3, 2\) and \(4,\)"),
            ((torch.zeros(0, 2), torch.zeros(0)), r"at least one\. Got shapes \(0, 2\)"),
            ((torch.zeros(3, 2), torch.zeros(3, 2)), r"as there are outputs, \(1,\)\. Got \(2,\)"),
            (torch.zeros(3, 2), "Got Tensor"),
            ([], "at least one batch"),
            ((torch.zeros(3, 2),) * 3, r"Got \['Tensor', 'Tensor', 'Tensor'\]"),
            ((torch.full((3, 2), torch.nan), torch.zeros(3)), "finite inputs. Got 6 values"),
            ((torch.zeros(3, 2), torch.full((3,), torch.inf)), "finite targets. Got 3 values"),
            (
                (torch.zeros(3, 2).long(), torch.zeros(3)),
                r"floating-point numbers.*Got torch.int64",
            ),
            ((torch.zeros(3, 3), torch.zeros(3)), r"last dimension is 2\. Got shape \(2, 3\)"),
        ],
    )
    def test_bad_data(self, data, message):
        with pytest.raises(ValueError, match=message):
            quiet(network(), data, TrainConfig(epochs=1))

    @pytest.mark.parametrize(
        ("task", "targets", "message"),
        [
            ("multiclass", torch.zeros(3), r"integers as class labels\. Got .*torch.float32"),
            ("multiclass", torch.tensor([0, 1, 2]), r"from 0 to 1, for 2 outputs\. Got .* 0 to 2"),
            ("multiclass", torch.tensor([0, -1, 1]), r"Got labels from -1 to 1"),
            (
                "multiclass",
                torch.tensor([[0], [1], [1]]),
                r"Got rows of shape \(1,\) of torch.int64",
            ),
            (
                "binary",
                torch.tensor([[0, 1], [1, 1], [-1, 1]]),
                r"between 0 and 1\. Got .* -1 to 1",
            ),
        ],
    )
    def test_targets_that_a_task_cannot_have(self, task, targets, message):
        net = network(widths=(2, 5, 2))
        before = [p.clone() for p in net.parameters()]
        with pytest.raises(ValueError, match=message):
            quiet(net, (torch.zeros(3, 2), targets), TrainConfig(task=task, epochs=1))
        assert all(map(torch.equal, before, net.parameters()))

    def test_bad_validation_is_found_before_the_first_step(self):
        x, y = kink()
        net = network()
        before = [p.clone() for p in net.parameters()]
        with pytest.raises(ValueError, match=r"finite inputs.*validation data"):
            quiet(net, (x, y), TrainConfig(epochs=1), validation=(x * torch.nan, y))
        assert all(map(torch.equal, before, net.parameters()))

    def test_weights_ruined_by_the_last_step_are_not_saved(self, tmp_path):
        x, y = kink(100)
        path = tmp_path / "run.pt"
        with pytest.raises(NonFiniteLossError, match="last good one"):
            quiet(network(), (x, y), TrainConfig(epochs=2, lr=1e30), checkpoint=path)
        assert load_checkpoint(path)["position"] == (0, 0)

    def test_numpy_arrays_and_other_number_types_are_taken(self):
        x, y = kink()
        arrays = (x.double().numpy(), y.double().numpy())
        history = quiet(network(), arrays, TrainConfig(epochs=3), validation=arrays)
        expected = quiet(network(), (x, y), TrainConfig(epochs=3), validation=(x, y))
        assert history.train_loss == pytest.approx(expected.train_loss, rel=1e-4)
        classes = (x.numpy(), (y > 0.5).int().numpy())
        quiet(network(widths=(2, 5, 2)), classes, TrainConfig(task="multiclass", epochs=1))

    def test_the_mode_of_the_module_is_restored(self):
        model = nn.Sequential(nn.BatchNorm1d(2), network()).eval()
        quiet(model, kink(), TrainConfig(epochs=1))
        assert not model.training
        assert not model[0].training
        model.train()
        model[0].eval()  # frozen statistics
        quiet(model, kink(), TrainConfig(epochs=1))
        assert model.training
        assert not model[0].training

    def test_batches_of_arrays_in_any_precision(self):
        x, y = kink()
        batches = [
            (part.double().numpy(), z.numpy())
            for part, z in zip(x.split(50), y.split(50), strict=True)
        ]
        for source in (batches, tuple(batches)):
            assert quiet(network(), source, TrainConfig(epochs=1), validation=source).epochs == 1

    def test_ctrl_c_in_the_last_validation_is_not_lost(self, tmp_path):
        x, y = kink(100)
        net = network()

        def interrupt(module, arguments):
            if not module.training and len(arguments[0]) == 77:
                os.kill(os.getpid(), signal.SIGINT)

        net.register_forward_pre_hook(interrupt)
        options = {"validation": (x[:77], y[:77]), "checkpoint": tmp_path / "run.pt"}
        with pytest.raises(KeyboardInterrupt, match="Saved to"):
            quiet(net, (x, y), TrainConfig(epochs=1), **options)
        options = {"validation": (x[:77], y[:77]), "checkpoint": tmp_path / "run.pt"}
        history = quiet(network(), (x, y), TrainConfig(epochs=1), **options, resume=True)
        assert history.epochs == 1

    def test_a_generator_is_used_up_after_one_epoch(self):
        batches = (kink(50) for _ in range(3))
        with pytest.raises(ValueError, match=r"Got none in epoch 2; a generator"):
            quiet(network(), batches, TrainConfig(epochs=2))

    def test_a_loader_without_a_length(self):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(zip(*kink(100), strict=True))

        history = quiet(network(), DataLoader(Stream(), batch_size=20), TrainConfig(epochs=2))
        assert history.epochs == 2

    def test_resuming_with_other_data_is_refused(self, tmp_path):
        x, y = kink()
        path = tmp_path / "run.pt"
        quiet(network(), (x, y), TrainConfig(epochs=1), checkpoint=path)
        for options in ({"data": (x[:9], y[:9])}, {"data": (x, y), "validation": (x, y)}):
            with pytest.raises(ValueError, match="Got other training or validation data"):
                quiet(
                    network(), config=TrainConfig(epochs=1), checkpoint=path, resume=True, **options
                )

    def test_resume_if_there_is_something_to_resume(self, tmp_path):
        options = {"checkpoint": tmp_path / "run.pt", "resume": "auto"}
        first, second = network(), network()
        quiet(first, kink(), TrainConfig(epochs=2), **options)
        quiet(second, kink(), TrainConfig(epochs=2), **options)
        assert same(first, second)

    def test_patience_needs_validation_data(self):
        with pytest.raises(ValueError, match="validation data for early stopping"):
            quiet(network(), kink(), TrainConfig(patience=3))


class TestWholeNumbersAsInputs:
    def test_of_a_network_for_others(self):
        data = torch.randint(255, (20, 1, 5, 5), dtype=torch.uint8), torch.randint(2, (20,))
        config, network = TrainConfig(task="multiclass", epochs=1), SpectralCNN([1, 2, 2])
        with pytest.raises(ValueError, match=r"floating-point numbers, like images / 255.*uint8"):
            train(network, data, config, progress=False)
        model = nn.Sequential(network, nn.Tanh())
        with pytest.raises(ValueError, match="floating-point numbers, like images / 255"):
            extract(model, data=data, validation=data, task="multiclass", progress=False)

    def test_another_error_is_not_hidden(self):
        words = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 2))
        data = torch.randint(9, (20, 5)), torch.randint(2, (20,))  # three words are expected
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            train(words, data, TrainConfig(task="multiclass", epochs=1), progress=False)
