"""Streams: the same rows from every source, the statistics of the table in memory, flat memory."""

import gzip
import os
import signal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchsparcs import (
    SearchConfig,
    SpectralNetwork,
    TrainConfig,
    cli,
    gathering,
    jobs,
    load_result,
    search,
    streams,
    train,
)
from torchsparcs.tables.datasets import load_dataset
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target
from torchsparcs.tables.sample import RowSample, gathered
from torchsparcs.tables.standardization import MergedMoments, moments
from torchsparcs.tables.streamed_fit import MixedColumns, StreamedInputs, StreamedTarget
from torchsparcs.tables.streams import RowStream

EPS = np.finfo(np.float64).eps


def frame(rows=300, seed=0):
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": random.integers(18, 90, rows),
            "city": random.choice(["Rome", "Oslo", "Bern"], rows),
            "old": random.random(rows) < 0.5,
            "sex": random.choice(["f", "m"], rows),
            "size": random.normal(1e3, 1e-2, rows),
            "same": 7,
            "grade": pd.Categorical(random.choice([1, 2, 10], rows)),
            "target": random.normal(size=rows),
        }
    )


def chunks(data, cuts):
    """``data`` cut before the rows ``cuts``, none of the parts empty."""
    edges = sorted({0, len(data), *(cut for cut in cuts if 0 < cut < len(data))})
    cut = data.iloc if hasattr(data, "iloc") else data
    return [cut[a:b] for a, b in pairwise(edges)]


def streamed(kind, data, cuts, *options):
    found = kind(*options)
    for chunk in chunks(data, cuts):
        found.add(chunk)
    return found.fitted()


def together(stream):
    X, y = zip(*stream, strict=True)
    if not hasattr(X[0], "iloc"):
        return np.concatenate(X), np.concatenate(y)
    return pd.concat(X, ignore_index=True), pd.concat(y, ignore_index=True)


def check_close(found, expected):
    assert (found.names, found.encoded_names) == (expected.names, expected.encoded_names)
    assert found.columns == expected.columns
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-9)


CUTS = st.lists(st.integers(1, 299), max_size=8)


class TestStatistics:
    @settings(max_examples=30, deadline=None)
    @given(cuts=CUTS, seed=st.integers(0, 99))
    def test_a_table_in_chunks_is_the_table(self, cuts, seed):
        X = frame(seed=seed).drop(columns="target")
        X["word"] = "a"
        X["number"] = X["age"].map(lambda age: f" {age}.5")
        check_close(streamed(StreamedInputs, X, cuts), Inputs.fit(X))

    @settings(max_examples=100, deadline=None)
    @given(
        values=st.lists(
            st.tuples(st.floats(-1e150, 1e150), st.integers(-9, 9), st.floats(1e6, 1e6 + 1)),
            min_size=2,
            max_size=40,
        ),
        cuts=st.lists(st.integers(1, 39), max_size=6),
    )
    def test_moments_of_parts_are_those_of_the_whole(self, values, cuts):
        whole = np.array(values, dtype=np.float64)
        first, *others = (MergedMoments.of(part) for part in chunks(whole, cuts))
        for part in others:
            first = first.with_part(part)
        found, expected = first.moments(), moments(whole)
        assert first.rows == len(whole)
        assert (first.low == whole.min(axis=0)).all()
        assert (found.is_constant == expected.is_constant).all()
        rounding = 64 * EPS * np.abs(whole).max(axis=0) + 1e-300
        assert (np.abs(found.mean - expected.mean) <= rounding).all()
        assert (np.abs(found.scale - expected.scale) <= 1e-9 * expected.scale + rounding).all()

    def test_a_worked_example(self):
        # 1, 3 has mean 2 and scale 1; 8 alone has mean 8 and scale 0. Together: mean 4,
        # variance (2 · 1 + 1 · 0) / 3 + 6² · 2 · 1 / 9 = 26 / 3
        parts = MergedMoments.of(np.array([[1.0], [3.0]])), MergedMoments.of(np.array([[8.0]]))
        merged = parts[0].with_part(parts[1])
        assert merged.mean == pytest.approx([4])
        assert merged.scale == pytest.approx([(26 / 3) ** 0.5])
        huge = MergedMoments.of(np.array([[1e200]])).with_part(
            MergedMoments.of([[3e200]] @ np.eye(1))
        )
        assert huge.scale == pytest.approx([1e200])

    @pytest.mark.parametrize("task", ["auto", "classification", "regression", "binary"])
    @pytest.mark.parametrize(
        "y",
        [
            ["b", "a", "c"] * 30,
            [True, False, True] * 9,
            [3, -1, 3, 3],
            [2.0, 1.0] * 5,
            np.array([0, 1, 2] * 10, np.int8),
            np.array([1, 0, 2.0] * 10, object),
            pd.Series([7, 5, 6] * 3, dtype="category", name="grade"),
            np.array(["1", "2"] * 3, object),
            ["1.5", "2", "2.5"],
            [[1], [0]],
            range(29),
            range(3000),
            [1, 2, 3] * 9,
            [0.5, 1.5],
            [[1, 0.5], [0, 1], [3, 3]],
            [[1, 1], [1, 2]],
            pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [3, 4, 7]}),
            [2.5, 2.5],
            [1, 1],
            [f"name {i}" for i in range(60)],
            [f"name {i}" for i in range(3000)],
            [0.5, *range(3000)],
            [1],
        ],
        ids=lambda y: str(y)[:20].replace("\n", " "),
    )
    def test_a_target_in_chunks_is_the_target(self, y, task):
        y = y if hasattr(y, "iloc") else np.array(y)
        try:
            expected = Target.fit(y, task)
        except ValueError as error:
            words = str(error).split(" different")[0]  # how many rows depends on the chunks
            with pytest.raises(ValueError, match="Expected") as caught:
                streamed(StreamedTarget, y, [2, 5, 2000], task)
            if not words[-4:].isdigit():
                assert str(caught.value).startswith(words)
            return
        found = streamed(StreamedTarget, y, [2, 5, 2000], task)
        assert (found.names, found.task, found.classes) == (
            expected.names,
            expected.task,
            expected.classes,
        )
        assert found.mean == pytest.approx(expected.mean)
        assert found.scale == pytest.approx(expected.scale)

    def test_a_table_of_targets_needs_numbers_and_a_task_a_name(self):
        with pytest.raises(ValueError, match=r"numeric target for regression. Got text in 'y1'"):
            StreamedTarget().add(np.array([[1, "a"], [0, "b"]], object))
        with pytest.raises(ValueError, match=r"task among auto, .* Got 'ranking'"):
            StreamedTarget("ranking")
        late = StreamedTarget("regression")
        late.add(np.arange(3000).astype(str))
        late.add(np.array(["7", "n/a"]))
        with pytest.raises(ValueError, match="Got text in 'y', for instance 'n/a'"):
            late.fitted()

    def test_text_among_numbers_needs_another_pass(self):
        X = pd.DataFrame({"a": [1, 2, 1, 2, 2.5, 3, "x", "x"], "b": range(8)})
        parts = [X[:4].infer_objects(), X[4:6].infer_objects(), X[6:]]
        inputs = StreamedInputs()
        inputs.add(parts[0])
        inputs.add(parts[1])
        with pytest.raises(MixedColumns, match=r"Expected 'a' .*text in others, for instance 'x'"):
            inputs.add(parts[2])
        y = np.arange(8.0)
        pairs = [(part, y[part.index]) for part in parts]
        found = gathered(RowStream.of(pairs))
        assert found.preprocessing.inputs == Inputs.fit(X)
        assert found.preprocessing.inputs.columns[0].categories == ("1", "2", "2.5", "3", "x")
        for order in ([0, 1, 2], [2, 0, 1]):
            with pytest.raises(
                ValueError, match=r"'a' to be numbers or text .* gone through again"
            ):
                gathered(RowStream.of(pairs[place] for place in order))

    @pytest.mark.parametrize(
        ("column", "words"),
        [
            ([1, 2, 3, np.nan], r"Got 1 NaN in 'a'.*\(This is in rows 3 to 4 of the stream.\)"),
            (["x", "y", "x", None], "Got 1 missing in 'a'.*rows 3 to 4"),
            (pd.to_datetime(["2020-01-01"] * 4), "dates or times in 'a'.*rows 1 to 2"),
            ([5, 5, 5, 5], "a column of X that varies"),
            (["x", "x", "x", "x"], "a column of X that varies"),
        ],
    )
    def test_bad_columns_are_named_with_their_rows(self, column, words):
        X = pd.DataFrame({"a": column})
        with pytest.raises(ValueError, match=words):
            gathered(RowStream.of((X, np.arange(4)), chunk_rows=2))

    def test_an_identifier_is_refused_before_it_fills_the_memory(self):
        def parts():
            for start in range(0, 10**6, 500):
                yield pd.DataFrame({"a": [f"id {start + i}" for i in range(500)]}), np.arange(500)
                assert start < 2000

        with pytest.raises(ValueError, match="1500 different values in 1500 rows of 'a'"):
            gathered(RowStream.of(parts))


def parquet(table, folder, rows=70):
    table.to_parquet(folder / "t.parquet", row_group_size=rows)
    return folder / "t.parquet"


def csv(table, folder):
    table.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def packed(table, folder):
    table.to_csv(folder / "t.tsv.gz", index=False, sep="\t")
    return folder / "t.tsv.gz"


class TestSources:
    @pytest.mark.parametrize("write", [parquet, csv, packed])
    @pytest.mark.parametrize("rows", [None, 50])
    def test_a_file_in_chunks_is_the_file(self, write, rows, tmp_path):
        path = write(frame(), tmp_path)
        stream, whole = RowStream.of(path, chunk_rows=rows), load_dataset(path)
        X, y = together(stream)
        assert stream.count() == 300
        pd.testing.assert_series_equal(y, whole.y)
        found = gathered(stream)
        pd.testing.assert_frame_equal(found.X, whole.X)
        assert len(X) == len(found.X) == 300
        # the same tensors, to the last bit, as from the table in memory
        expected = Preprocessing(Inputs.fit(whole.X), Target.fit(whole.y))
        assert found.preprocessing == expected
        assert torch.equal(
            found.preprocessing.inputs.transform(found.X), expected.inputs.transform(whole.X)
        )

    def test_parquet_is_read_by_row_groups_and_leaves_the_index_out(self, tmp_path):
        table = frame().set_index(pd.Index(range(7, 307), name="key"))
        stream = RowStream.of(parquet(table, tmp_path), chunk_rows=40)
        assert [len(y) for _, y in stream] == [40, 30] * 4 + [20]
        assert stream.blocks() == [(0, 70), (70, 140), (140, 210), (210, 280), (280, 300)]
        assert list(next(iter(stream))[0].columns) == list(table.columns[:-1])
        several = RowStream.of(tmp_path / "t.parquet", ["size", "target"])
        assert list(next(iter(several))[1].columns) == ["size", "target"]

    def test_a_row_group_need_not_fit_into_memory(self, tmp_path):
        random = np.random.default_rng(0)
        table = pd.DataFrame(random.normal(size=(2**21, 4)), columns=list("abcy"))
        path = parquet(table, tmp_path, rows=2**21)  # 64 MiB in one row group
        before = pyarrow.total_allocated_bytes()
        held = [
            pyarrow.total_allocated_bytes() - before for _ in RowStream.of(path, chunk_rows=4096)
        ]
        assert max(held) < 2**25

    def test_a_folder_of_parquet_files_is_one_table(self, tmp_path):
        table = frame()
        for place, part in enumerate(chunks(table, [100, 250])):
            part.to_parquet(tmp_path / f"{place}.parquet")
        X, _ = together(RowStream.of(tmp_path))
        assert X["size"].tolist() == table["size"].tolist()
        table.rename(columns={"age": "years"}).to_parquet(tmp_path / "3.parquet")
        with pytest.raises(ValueError, match=r"columns of 0.parquet in all files. .* age, years"):
            RowStream.of(tmp_path)

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_npy_files_and_memory_maps(self, order, tmp_path):
        x, y = np.random.default_rng(0).normal(size=(90, 3)), np.arange(90) % 2
        np.save(tmp_path / "x.npy", np.asarray(x, order=order))
        np.save(tmp_path / "y.npy", y)
        mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
        private = np.load(tmp_path / "x.npy", mmap_mode="c")
        private[0] = 5
        for source in [
            (tmp_path / "x.npy", str(tmp_path / "y.npy")),
            (mapped, y),
            [x, torch.from_numpy(y)],
            (pd.DataFrame(x), pd.Series(y)),
        ]:
            X, found = map(np.asarray, together(RowStream.of(source, chunk_rows=40)))
            assert (x == X).all()
            assert (found == y).all()
        part, _ = together(RowStream.of((mapped[10:50], y[10:50]), chunk_rows=15))
        assert (part == x[10:50]).all()
        assert (together(RowStream.of((private, y)))[0][0] == 5).all()
        assert (private[0] == 5).all()  # what exists only in memory is not let go

    @pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's own numbers")
    def test_what_was_read_does_not_stay_in_memory(self, tmp_path):
        path = tmp_path / "x.npy"
        large = np.lib.format.open_memmap(path, "w+", np.float64, (2**20, 16))  # 128 MiB
        large[:] = 1
        del large

        def resident():
            return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

        before = resident()
        stream = RowStream.of((path, np.arange(2**20)), chunk_rows=2**16)
        assert max(resident() for _ in stream) - before < 2**25

    def test_chunks_of_ones_own(self):
        x, y = np.arange(20.0).reshape(10, 2), np.arange(10)
        pairs = [(x[:3], y[:3]), (x[3:3], y[3:3]), (x[3:].tolist(), y[3:].tolist())]
        for source in (pairs, lambda: iter(pairs), [(torch.from_numpy(x), torch.from_numpy(y))]):
            stream = RowStream.of(source)
            assert stream.rows is None
            for _ in range(2):
                assert sum(len(part) for part, _ in stream) == 10
            assert stream.rows == 10
            assert gathered(stream).preprocessing.inputs == Inputs.fit(x)
        once = RowStream.of(iter(pairs))
        assert gathered(once).rows == 10
        with pytest.raises(ValueError, match=r"gone through again. Got a list_iterator, which is"):
            list(once)

    def test_csv_columns_that_look_like_numbers_in_part_are_text(self, tmp_path):
        path = tmp_path / "t.csv"
        code = ["01", "1.0", "2", "2", *["A", "01"] * 20, "1.0", "01", "2", "2"]
        label = ["1", "1", "02", "1", *["no", "1"] * 20, "02", "1", "02", "1"]
        lines = [f"{a},{i},{b}" for i, (a, b) in enumerate(zip(code, label, strict=True))]
        path.write_text("\n".join(["code,x,label", *lines]))
        stream, whole = RowStream.of(path, chunk_rows=4), load_dataset(path)
        expected = Preprocessing(Inputs.fit(whole.X), Target.fit(whole.y))
        found = gathered(stream)
        assert found.preprocessing == expected
        assert expected.inputs.columns[0].categories == ("01", "1.0", "2", "A")
        assert expected.target.classes == ("02", "1", "no")
        batches = stream.batches(expected, batch_size=100)
        ((inputs, targets),) = batches
        place = inputs[:, -1].argsort()  # by x, the number of the row
        assert torch.equal(inputs[place], expected.inputs.transform(whole.X))
        assert torch.equal(targets[place], expected.target.transform(whole.y))

    def test_row_numbers_of_a_csv_file_are_left_out(self, tmp_path):
        frame(20).to_csv(tmp_path / "t.csv")
        with pytest.warns(UserWarning, match="counts the rows: it is left out"):
            stream = RowStream.of(tmp_path / "t.csv", chunk_rows=6)
        assert together(stream)[0].columns[0] == "age"

    @pytest.mark.parametrize("write", [csv, parquet])
    def test_columns_are_dropped(self, tmp_path, write):
        path = write(frame(20), tmp_path)
        stream = RowStream.of(path, drop="age", chunk_rows=6)
        whole = load_dataset(path, drop="age")
        assert "age" not in whole.X
        pd.testing.assert_frame_equal(together(stream)[0].reset_index(drop=True), whole.X)
        with pytest.raises(ValueError, match=r"columns to drop .*Got 'aga'\. Did you mean 'age'"):
            RowStream.of(path, drop=["aga"])

    @pytest.mark.parametrize(
        ("source", "target", "words"),
        [
            (np.zeros((3, 2)), None, r"a pair \(X, y\), .* Got ndarray"),
            (7, None, "Got int"),
            ((np.zeros((3, 2)), np.zeros(2)), None, r"shapes \(3, 2\) and \(2,\)"),
            ((np.zeros(3), np.zeros(3)), None, r"shapes \(3,\) and \(3,\)"),
            ([(np.zeros((3, 2)), np.zeros(2))], None, "as many rows in X as in y .* 3 and 2"),
            ([np.zeros(2), np.zeros(2), np.zeros(2)], None, r"Expected chunks \(X, y\). Got nda"),
            ((np.zeros((3, 2)), np.zeros(3)), "y", "a file where columns are named. Got tuple"),
            ("nowhere.csv", None, "There is none at nowhere.csv"),
            ("data.npz", None, r"ends in .parquet, .* pair of .npy files. Got '.*data.npz'"),
            ("x.npy", None, "pair of .npy files"),
            (("x.npy", "x.npy"), None, "Expected a whole .npy file .* x.npy cannot be read"),
            ("bad.parquet", None, "Expected a parquet file. bad.parquet cannot be read"),
            ("bad.csv.gz", None, "Expected a whole gzip file"),
            ("short.csv.gz", None, "Expected a whole gzip file"),
            ("binary.csv", None, "binary, or in UTF-16"),
            ("latin.csv", None, "Expected text in UTF-8. latin.csv"),
            ("late.csv", None, "Expected text in UTF-8. late.csv"),
            ("ragged.csv", None, "Expected 2 fields in each row, as in the header. ragged.csv"),
            ("header.csv", "b", "Expected rows below the header. header.csv has none"),
            ("empty.csv", None, "empty.csv is empty"),
            ("header.csv.parquet", None, "cannot be read"),
            ("folder", None, "Expected a folder of .parquet files"),
            ("good.csv", "c", "Expected a target among the columns 'a', 'b'. Got 'c'"),
            ("good.csv", None, "Expected a target: one column called target"),
        ],
    )
    def test_bad_sources_are_named(self, source, target, words, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for name in ("data.npz", "x.npy", "bad.parquet", "bad.csv.gz", "header.csv.parquet"):
            Path(name).write_bytes(b"not what the ending says")
        os.mkdir("folder")
        Path("short.csv.gz").write_bytes(gzip.compress(b"a,y\n" + b"1,2\n" * 10**5)[:-100])
        Path("binary.csv").write_bytes("a,b\n1,2\n".encode("utf-16-le"))
        Path("latin.csv").write_bytes("größe,y\n1,2\n".encode("latin-1"))
        Path("late.csv").write_bytes(b"a,y\n" + b"1,2\n" * 2**19 + b"\xff,3\n")
        Path("ragged.csv").write_text("a,y\n1,2\n1,2,3\n")
        Path("header.csv").write_text("a,b\n")
        Path("good.csv").write_text("a,b\n1,2\n")
        Path("empty.csv").write_text("")
        with pytest.raises((ValueError, FileNotFoundError), match=words):
            list(RowStream.of(source, target))

    @pytest.mark.parametrize("rows", [0, -1, 2.5])
    def test_bad_chunk_rows(self, rows):
        with pytest.raises(ValueError, match="Expected chunk_rows of at least 1"):
            RowStream.of((np.zeros((3, 2)), np.zeros(3)), chunk_rows=rows)


def numbered(rows, chunk_rows):
    """Rows that know their number."""
    return RowStream.of(
        (np.arange(rows, dtype=float)[:, None], np.arange(rows)), chunk_rows=chunk_rows
    )


class TestSample:
    def drawn(self, seed, rows=1000, chunk_rows=64, most=100):
        sample = RowSample(seed)
        for X, y in numbered(rows, chunk_rows):
            sample.add(X, y, most)
        sample.cut(most)
        X, y = sample.rows()
        assert (X[:, 0] == y).all()
        return y

    def test_it_depends_on_the_seed_and_not_on_the_chunks(self):
        sample = self.drawn(0)
        assert len(set(sample)) == 100  # without replacement
        assert sorted(sample) == sample.tolist()
        for chunk_rows in (7, 500, 1000):
            assert self.drawn(0, chunk_rows=chunk_rows).tolist() == sample.tolist()
        assert self.drawn(1).tolist() != sample.tolist()

    def test_every_row_is_as_likely(self):
        counts = sum(np.bincount(self.drawn(s, 40, 7, 10), minlength=40) for s in range(2000))
        # each is binomial with 2000 trials of probability 1/4: 500 ± 19.4
        assert np.abs(counts - 500).max() < 5 * 19.4
        assert ((counts - 500) ** 2 / 500).sum() < 60  # 40 · 0.75 on average, deviation 7

    def test_what_is_held_does_not_grow_with_the_rows(self):
        sample, held = RowSample(0), []
        for X, y in numbered(20_000, 64):
            sample.add(X, y, 100)
            held.append(sum(len(keys) for keys, _, _ in sample.pieces))
        assert max(held) <= 125

    def test_statistics_are_of_all_rows_and_the_sample_of_some(self, monkeypatch):
        table = frame(5000)
        X, y = table.drop(columns="target"), table["target"]
        monkeypatch.setattr(gathering, "LEAST_ROWS", 10)
        monkeypatch.setattr(gathering, "MOST_CELLS", 10_000)
        stream = RowStream.of((X, y), chunk_rows=300)
        found = gathered(stream, seed=3)
        check_close(found.preprocessing.inputs, Inputs.fit(X))
        encoded = len(found.preprocessing.inputs.encoded_names)
        assert found.rows == 5000
        assert len(found.X) == len(found.y) == 10_000 // encoded < 10_000 // len(X.columns)
        places = [y[y == value].index[0] for value in found.y]
        assert places == sorted(places)
        pd.testing.assert_frame_equal(found.X, X.iloc[places].reset_index(drop=True))
        assert found.y.tolist() == gathered(RowStream.of((X, y), chunk_rows=77), seed=3).y.tolist()

    def test_categories_of_numbers_stay_categories(self, tmp_path):
        first = pd.DataFrame({"a": pd.Categorical([1, 2, 1]), "y": [1.5, 2, 3]})
        second = pd.DataFrame({"a": pd.Categorical([3, 3, 1]), "y": [1.5, 2, 3]})
        found = gathered(RowStream.of([(part[["a"]], part["y"]) for part in (first, second)]))
        assert found.preprocessing.inputs.encoded_names == ("a=1", "a=2", "a=3")
        assert str(found.X["a"].dtype) == "category"

    def test_caps(self):
        assert gathering.most_rows(1) == 2**20
        assert gathering.most_rows(100) == 500_000
        assert gathering.most_rows(10**6) == 10_000


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
        preprocessing = gathered(RowStream.of(tmp_path / "t.parquet")).preprocessing
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
        preprocessing = gathered(stream, "regression").preprocessing
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
        monkeypatch.setattr(gathering, "LEAST_ROWS", 1)
        monkeypatch.setattr(gathering, "MOST_ROWS", 150)
        x = np.random.default_rng(0).normal(3, 2, size=(2000, 3))
        _, result = found(RowStream.of((x, np.abs(x[:, 0])), chunk_rows=100))
        assert (result.settings["rows"], result.settings["rows_seen"]) == (150, 2000)
        np.testing.assert_allclose(result.preprocessing.inputs.mean, x.mean(axis=0))

    def test_targets_beside_a_stream_are_refused(self):
        x = np.zeros((5, 2))
        with pytest.raises(ValueError, match="neither y nor sample weights"):
            search(RowStream.of((x, x[:, 0])), x[:, 0])

    def test_the_command_line_streams_large_files(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setattr(jobs, "LARGE", 1000)
        monkeypatch.setattr(jobs, "load_dataset", None)
        path = csv(frame(), tmp_path)
        options = ["--steps", "20", "--drop", "age", "--out", str(tmp_path / "run")]
        with pytest.raises(SystemExit) as exit:
            cli.main(["search", str(path), *options])
        captured = capsys.readouterr()
        assert exit.value.code == 0, captured.err
        assert "too large to be read whole" in captured.out
        result = load_result(tmp_path / "run")
        assert result.settings["target"] == "target"
        assert "age" not in result.preprocessing.inputs.names
