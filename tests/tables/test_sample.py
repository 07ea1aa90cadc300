"""The sample of a stream: uniform, of bounded size, with the statistics of all rows."""

import numpy as np
import pandas as pd
import pytest
from rows import check_close, frame, numbered

from torchsparcs import RowStream
from torchsparcs.tables import sample
from torchsparcs.tables.preprocessing import Inputs
from torchsparcs.tables.sample import RowSample


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
        counts = sum(np.bincount(self.drawn(s, 40, 7, 10), minlength=40) for s in range(800))
        # each is binomial with 800 trials of probability 1/4: 200 ± 12.2
        assert np.abs(counts - 200).max() < 5 * 12.2
        assert ((counts - 200) ** 2 / 200).sum() < 60  # 40 · 0.75 on average, deviation 7

    def test_what_is_held_does_not_grow_with_the_rows(self):
        sample, held = RowSample(0), []
        for X, y in numbered(20_000, 64):
            sample.add(X, y, 100)
            held.append(sum(len(keys) for keys, _, _ in sample.pieces))
        assert max(held) <= 125

    def test_statistics_are_of_all_rows_and_the_sample_of_some(self, monkeypatch):
        table = frame(5000)
        X, y = table.drop(columns="target"), table["target"]
        monkeypatch.setattr(sample, "LEAST_ROWS", 10)
        monkeypatch.setattr(sample, "MOST_CELLS", 10_000)
        stream = RowStream.of((X, y), chunk_rows=300)
        found = stream.sample(seed=3)
        check_close(found.preprocessing.inputs, Inputs.fit(X))
        encoded = len(found.preprocessing.inputs.encoded_names)
        assert found.rows == 5000
        assert len(found.X) == len(found.y) == 10_000 // encoded < 10_000 // len(X.columns)
        places = [y[y == value].index[0] for value in found.y]
        assert places == sorted(places)
        pd.testing.assert_frame_equal(found.X, X.iloc[places].reset_index(drop=True))
        assert found.y.tolist() == RowStream.of((X, y), chunk_rows=77).sample(seed=3).y.tolist()

    def test_categories_of_numbers_stay_categories(self, tmp_path):
        first = pd.DataFrame({"a": pd.Categorical([1, 2, 1]), "y": [1.5, 2, 3]})
        second = pd.DataFrame({"a": pd.Categorical([3, 3, 1]), "y": [1.5, 2, 3]})
        found = RowStream.of([(part[["a"]], part["y"]) for part in (first, second)]).sample()
        assert found.preprocessing.inputs.encoded_names == ("a=1", "a=2", "a=3")
        assert str(found.X["a"].dtype) == "category"

    @pytest.mark.parametrize(
        "second",
        [
            pd.Categorical([1, 3, 3]),
            pd.Categorical(["b", "c", "c"]),
            pd.Categorical(["b", "c", "c"], ["c", "b"], ordered=True),
        ],
        ids=["of numbers", "without order", "in another order"],
    )
    def test_categories_that_are_declared_otherwise_are_text(self, second):
        first = pd.Categorical(["a", "b", "a"], ordered=True)
        parts = [(pd.DataFrame({"a": part}), np.arange(3.0)) for part in (first, second)]
        found = RowStream.of(parts).sample()
        texts = sorted({*map(str, first), *map(str, second)})
        assert [*found.preprocessing.inputs.columns[0].categories] == texts
        assert list(found.X["a"]) == [*first, *second]

    def test_caps(self):
        assert sample.most_rows(1) == 2**20
        assert sample.most_rows(100) == 500_000
        assert sample.most_rows(10**6) == 10_000
