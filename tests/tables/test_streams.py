"""Streams: batches in a new order every epoch, parts for processes, and searches."""

import dataclasses
import os
import signal

import numpy as np
import pandas as pd
import pytest
import torch
from rows import csv, frame, numbered, parquet

from torchsparcs import (
    RowStream,
    SearchConfig,
    SpectralNetwork,
    TrainConfig,
    search,
    train,
)
from torchsparcs.command import jobs, main
from torchsparcs.tables import sample, streams
from torchsparcs.tables.datasets import load_dataset
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target


@pytest.fixture
def small_pool(monkeypatch):
    """Blocks and pools of a few rows, so that there are many."""
    monkeypatch.setattr(streams, "block_rows", lambda columns: 10)


@pytest.mark.usefixtures("small_pool")
class TestBatches:
    def batches(self, rows=1000, chunk_rows=10, batch_size=32, seed=0):
        stream = numbered(rows, chunk_rows)
        preprocessing = Preprocessing(
            Inputs.fit(np.arange(1000.0)[:, None]), Target.fit(np.arange(1000), "regression")
        )
        return stream.batches(preprocessing, batch_size, seed)

    def numbers(self, batches):
        """The numbers of the rows in the order in which they come."""
        target = batches.preprocessing.target
        pairs = list(batches)
        assert len(pairs) == len(batches)
        assert all(len(inputs) == batches.batch_size for inputs, _ in pairs[:-1])
        inputs, targets = map(torch.cat, zip(*pairs, strict=True))
        assert torch.allclose(inputs[:, 0], targets)
        assert inputs.dtype == targets.dtype == torch.float32
        return np.round(target.predict(targets[:, None].double())).astype(int).tolist()

    @pytest.mark.parametrize("rows", [1, 31, 32, 33, 80, 999, 1000])
    @pytest.mark.parametrize("batch_size", [1, 32, 5000])
    def test_an_epoch_has_every_row_once(self, rows, batch_size):
        batches = self.batches(rows, batch_size=batch_size)
        for _ in range(2):
            assert sorted(self.numbers(batches)) == list(range(rows))

    def test_every_epoch_has_its_own_order_which_the_generator_decides(self):
        batches = self.batches()
        state = batches.generator.get_state()
        first, second = self.numbers(batches), self.numbers(batches)
        assert first != second
        batches.generator.set_state(state)
        assert self.numbers(batches) == first
        assert self.numbers(self.batches()) == first
        assert self.numbers(self.batches(seed=1)) not in (first, second)

    def test_rows_come_from_everywhere(self):
        first = np.array(self.numbers(self.batches())[:64])
        assert np.ptp(first) > 500  # blocks in a random order
        assert len(set(first // 10)) > 6  # and several of them shuffled together
        once = self.batches(chunk_rows=1000)  # one block, which is read from top to bottom
        assert max(self.numbers(once)[:64]) < 110

    def test_an_interrupted_run_resumes_to_the_same_weights(self, tmp_path):
        random = np.random.default_rng(0)
        X = pd.DataFrame(random.normal(size=(600, 3)), columns=list("abc"))
        X.assign(target=X["a"].abs()).to_parquet(tmp_path / "t.parquet", row_group_size=50)
        preprocessing = RowStream.of(tmp_path / "t.parquet").sample().preprocessing
        config = TrainConfig(epochs=3, lr=1e-2)

        def run(module, **options):
            stream = RowStream.of(tmp_path / "t.parquet")
            batches = stream.batches(preprocessing, batch_size=64, seed=5)
            return train(module, batches, config, progress=False, **options)

        def network():
            torch.manual_seed(0)
            return SpectralNetwork([3, 20, 1])

        whole, parts, fresh = network(), network(), network()
        expected = run(whole)
        steps = 0

        def interrupt(module, arguments):
            nonlocal steps
            steps += module.training
            if steps == 14 and module.training:  # the fourth step of the second epoch
                os.kill(os.getpid(), signal.SIGINT)

        hook = parts.register_forward_pre_hook(interrupt)
        with pytest.raises(KeyboardInterrupt, match="in epoch 2, after step 4"):
            run(parts, checkpoint=tmp_path / "run.pt")
        hook.remove()
        history = run(fresh, checkpoint=tmp_path / "run.pt", resume=True)
        assert history.train_loss == expected.train_loss
        for mine, other in zip(whole.parameters(), fresh.parameters(), strict=True):
            assert torch.equal(mine, other)

    def test_bad_arguments(self):
        stream = numbered(10, 5)
        with pytest.raises(ValueError, match=r"Expected a Preprocessing. Got Inputs"):
            stream.batches(Inputs.fit(np.eye(2)))
        with pytest.raises(ValueError, match=r"Expected batch_size of at least 1. Got 0"):
            self.batches(batch_size=0)


class TestParts:
    @pytest.mark.parametrize("world", [1, 2, 3, 7])
    @pytest.mark.parametrize("kind", ["arrays", "parquet", "csv", "chunks"])
    def test_each_process_has_as_many_rows_of_its_own(self, kind, world, tmp_path):
        table = pd.DataFrame({"x": np.arange(100) % 17, "y": np.arange(100)})
        stream = {
            "arrays": lambda: RowStream.of((table[["x"]], table["y"]), chunk_rows=9),
            "parquet": lambda: RowStream.of(parquet(table, tmp_path, 33), chunk_rows=9),
            "csv": lambda: RowStream.of(csv(table, tmp_path), chunk_rows=9),
            "chunks": lambda: RowStream.of([(table[["x"]], table["y"])]),
        }[kind]()
        preprocessing = stream.sample("regression").preprocessing
        parts = [stream.part(rank, world) for rank in range(world)]
        rows = [[int(value) for _, y in part for value in y] for part in parts]
        assert {len(part) for part in rows} == {100 // world} == {part.count() for part in parts}
        seen = {row for part in rows for row in part}
        assert len(seen) == world * (100 // world)
        assert {len(part.batches(preprocessing, 8)) for part in parts} == {-(-(100 // world) // 8)}
        for part, own in zip(parts, rows, strict=True):
            targets = torch.cat([targets for _, targets in part.batches(preprocessing, 8)])
            numbers = preprocessing.target.predict(targets[:, None])
            assert sorted(np.round(numbers).astype(int)) == own
            half = part.part(1, 2)
            assert [value for _, y in half for value in y] == own[len(own) // 2 :][: half.count()]

    def test_bad_ranks(self):
        for rank, world in ((2, 2), (-1, 2), (0, 11), (0, 0)):
            with pytest.raises(ValueError, match=f"Got rank {rank} of {world}"):
                numbered(10, 5).part(rank, world)


def test_a_stream_of_a_stream_is_itself():
    stream = numbered(4, 2)
    assert RowStream.of(stream) is stream


# --- search ---

QUICK = SearchConfig(steps=20, longest=20, path=2, shrink=0.4, ways=("asleep",))


def found(*data, **options):
    result = search(*data, widths=(8,), config=QUICK, progress=False, **options)
    return [(c.score, c.architecture) for c in result.front], result


class TestSearch:
    def test_a_stream_is_as_good_as_its_table(self, tmp_path):
        path = parquet(frame(), tmp_path)
        table = load_dataset(path)
        expected, _ = found(table.X, table.y)
        seen, result = found(RowStream.of(path))
        assert seen == expected
        assert (result.settings["rows"], result.settings["rows_seen"]) == (300, 300)

    def test_a_memory_map(self, tmp_path):
        x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
        np.save(tmp_path / "x.npy", x)
        mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
        assert found(mapped, np.abs(x[:, 0]))[0] == found(x, np.abs(x[:, 0]))[0]

    def test_a_memory_map_is_an_array_too(self, tmp_path):
        x = np.random.default_rng(0).normal(size=(60, 3))
        np.save(tmp_path / "x.npy", x)
        mapped, y = np.load(tmp_path / "x.npy", mmap_mode="r"), np.abs(x[:, 0])
        assert found(mapped, y.tolist())[0] == found(x, y)[0]
        weight = np.arange(60) + 1.0
        assert found(mapped, y, sample_weight=weight)[0] == found(x, y, sample_weight=weight)[0]

    def test_more_rows_than_are_needed(self, monkeypatch):
        monkeypatch.setattr(sample, "LEAST_ROWS", 1)
        monkeypatch.setattr(sample, "MOST_ROWS", 150)
        x = np.random.default_rng(0).normal(3, 2, size=(2000, 3))
        _, result = found(RowStream.of((x, np.abs(x[:, 0])), chunk_rows=100))
        assert (result.settings["rows"], result.settings["rows_seen"]) == (150, 2000)
        np.testing.assert_allclose(result.preprocessing.inputs.mean, x.mean(axis=0))

    def test_targets_beside_a_stream_are_refused(self):
        x = np.zeros((5, 2))
        with pytest.raises(ValueError, match="neither y nor sample weights"):
            search(RowStream.of((x, x[:, 0])), x[:, 0])

    def test_the_command_line_streams_large_files(self, tmp_path, monkeypatch, capsys):
        asked = []

        def searched(X, y=None, **options):
            asked.append((X, y))
            raise ValueError("Expected to be asked.")

        monkeypatch.setattr(jobs, "LARGE", 1000)
        monkeypatch.setattr(jobs, "load_dataset", None)
        monkeypatch.setattr(jobs, "search", searched)
        path = csv(frame(), tmp_path)
        with pytest.raises(SystemExit):
            main(["search", str(path), "--drop", "age", "--out", str(tmp_path / "run")])
        captured = capsys.readouterr()
        assert "too large to be read whole" in captured.out
        assert "Expected to be asked." in captured.err
        ((stream, y),) = asked
        assert isinstance(stream, RowStream)
        assert y is None
        X, y = next(iter(stream))
        assert y.name == "target"
        assert "age" not in X


def test_columns_of_lists_matter_only_where_they_are_kept(tmp_path):
    path = tmp_path / "nested.parquet"
    pd.DataFrame({"a": range(10), "emb": [[1, 2]] * 10, "y": range(10)}).to_parquet(path)
    assert RowStream.of(path, "y", drop="emb").rows == 10
    with pytest.raises(ValueError, match="lists or records in 'emb'"):
        RowStream.of(path, "y")


def test_a_stream_from_a_row_on_has_the_rest_of_them():
    x = np.arange(20.0).reshape(10, 2)
    stream = RowStream.of((x, x[:, 0]))
    later = dataclasses.replace(stream, span=(6, stream.span[1]))
    assert later.rows == sum(len(y) for _, y in later) == 4


def test_batches_leave_out_rows_without_a_target_as_a_sample_does(tmp_path):
    table = frame()
    table.loc[[3, *range(10, 20)], "target"] = None
    for source in (csv(table, tmp_path), (table.drop(columns="target"), table["target"])):
        stream = RowStream.of(source, chunk_rows=5)
        with pytest.warns(UserWarning, match="The target is missing in 11 of"):
            sample = stream.sample()
        with pytest.warns(UserWarning, match="The target is missing in 11 of"):
            batches = stream.batches(sample.preprocessing, batch_size=7)
        assert batches.rows == sample.rows == len(table) - 11
        assert len(batches) == len([*batches])
        assert sum(len(y) for _, y in batches) == batches.rows
