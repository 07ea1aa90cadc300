"""Deadlines: parts of them, trainings that end by them, Ctrl-C as one."""

import os
import pickle
import signal
import time

import pytest
import torch

from torchsparcs import SpectralNetwork, TrainConfig
from torchsparcs.training.deadline import NEVER, Deadline, OutOfTime, Turn, stopped_by_user
from torchsparcs.training.loop import TrainingLoop
from torchsparcs.training.train import train

LONG = TrainConfig(task="regression", epochs=100_000, batch_size=20)


def rows():
    x = torch.rand(100, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return x, x.abs().sum(1, keepdim=True)


def test_a_part_has_its_share_and_ends_with_the_whole():
    whole = Deadline(time.time() + 100)
    part = whole.part(0.5).part(0.5)
    assert 24 < part.left <= 25
    assert not part.is_over
    whole.stop()
    assert part.is_over
    assert part.is_final
    assert NEVER.part(0.1).left == float("inf")


def test_a_part_that_is_over_is_not_the_end():
    whole = Deadline(time.time() + 100)
    part = Deadline(0.0, whole)
    assert part.is_over
    assert not part.is_final
    assert pickle.loads(pickle.dumps(part)).is_over
    assert not pickle.loads(pickle.dumps(part)).is_final


def test_a_turn_begins_when_its_work_does():
    turn = pickle.loads(pickle.dumps(Turn(Deadline(time.time() + 100), 10.0)))
    assert 9 < turn.begun().left <= 10
    assert Turn(Deadline(time.time() - 1), 10.0).begun().is_final


def test_a_training_ends_by_its_part_with_its_schedule_done():
    network, factors = SpectralNetwork([2, 8, 1]), []
    train(network, rows(), TrainConfig(task="regression", epochs=1), progress=False)  # imports
    loop = TrainingLoop(network, rows(), LONG, deadline=Deadline(time.time() + 60).part(0.01))
    set_progress = loop.training_step.set_progress
    loop.training_step.set_progress = lambda done: (factors.append(done), set_progress(done))
    started = time.time()
    history = loop.run()
    assert time.time() - started < 30
    assert 0 < history.epochs < LONG.epochs
    assert factors == sorted(factors)
    assert factors[0] < 0.5
    assert 0.8 < factors[-1] <= 1


def test_a_training_is_left_at_the_end_of_the_whole_and_goes_on(tmp_path):
    config = TrainConfig(task="regression", epochs=6, batch_size=20)

    def trained(*, until=None, **options):
        torch.manual_seed(0)
        network = SpectralNetwork([2, 8, 1])
        train(network, rows(), config, progress=False, _deadline=until, **options)
        return network

    stopped = Deadline()
    seen = []

    def stop(history):
        seen.append(history.epochs)
        if history.epochs == 3:
            stopped.stop()

    with pytest.raises(OutOfTime):
        trained(until=stopped, checkpoint=tmp_path / "a", on_epoch=stop)
    assert seen == [1, 2, 3]
    again = trained(checkpoint=tmp_path / "a", resume=True)
    for mine, its in zip(again.parameters(), trained().parameters(), strict=True):
        assert torch.equal(mine, its)


def test_the_first_ctrl_c_is_the_deadline_and_the_second_acts(capsys):
    deadline = Deadline()
    before = signal.getsignal(signal.SIGINT)
    with stopped_by_user(deadline, "Stopping."):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        assert deadline.is_final
        assert deadline.is_stopped
        assert capsys.readouterr().err == "Stopping.\n"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
