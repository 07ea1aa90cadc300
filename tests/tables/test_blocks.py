"""Where rows come from: the same rows from every source, flat memory, bad sources named."""

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch
from rows import chunks, csv, frame, packed, parquet, together

from torchsparcs import RowStream
from torchsparcs.tables.datasets import load_dataset
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target


class TestSources:
    @pytest.mark.parametrize("write", [parquet, csv, packed])
    @pytest.mark.parametrize("rows", [None, 50])
    def test_a_file_in_chunks_is_the_file(self, write, rows, tmp_path):
        path = write(frame(), tmp_path)
        stream, whole = RowStream.of(path, chunk_rows=rows), load_dataset(path)
        X, y = together(stream)
        assert stream.count() == 300
        pd.testing.assert_series_equal(y, whole.y)
        found = stream.sample()
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
        table = pd.DataFrame(random.normal(size=(2**20, 4)), columns=list("abcy"))
        path = parquet(table, tmp_path, rows=2**20)  # 32 MiB in one row group
        before = pyarrow.total_allocated_bytes()
        held = [
            pyarrow.total_allocated_bytes() - before for _ in RowStream.of(path, chunk_rows=4096)
        ]
        assert max(held) < 2**24

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
            assert stream.sample().preprocessing.inputs == Inputs.fit(x)
        once = RowStream.of(iter(pairs))
        assert once.sample().rows == 10
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
        found = stream.sample()
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
        with pytest.warns(UserWarning, match="numbers the rows: it is left out"):
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
            ("data.npz", None, r"ends in .csv, .* pair of .npy files. Got '.*data.npz'"),
            ("x.npy", None, "pair of .npy files"),
            (("x.npy", "x.npy"), None, "Expected a whole .npy file .* x.npy cannot be read"),
            ("bad.parquet", None, "Expected a whole parquet file. bad.parquet cannot be read"),
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
