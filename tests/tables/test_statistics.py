"""Statistics in one pass over chunks: those of the table in memory."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import check_close, chunks, frame

from torchsparcs import RowStream
from torchsparcs.tables import recognition, statistics
from torchsparcs.tables.preprocessing import Inputs, Target
from torchsparcs.tables.statistics import InputStatistics, MixedColumns, TargetStatistics

CUTS = st.lists(st.integers(1, 299), max_size=8)


def streamed(kind, data, cuts, *options):
    found = kind(*options)
    for chunk in chunks(data, cuts):
        found.add(chunk)
    return found.fitted()


class TestStatistics:
    @settings(max_examples=12, deadline=None)
    @given(cuts=CUTS, seed=st.integers(0, 99))
    def test_a_table_in_chunks_is_the_table(self, cuts, seed):
        X = frame(seed=seed).drop(columns="target")
        X["word"] = "a"
        X["number"] = X["age"].map(lambda age: f" {age}.5")
        check_close(streamed(InputStatistics, X, cuts), Inputs.fit(X))

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
                streamed(TargetStatistics, y, [2, 5, 2000], task)
            if not words[-4:].isdigit():
                assert str(caught.value).startswith(words)
            return
        found = streamed(TargetStatistics, y, [2, 5, 2000], task)
        assert (found.names, found.task, found.classes) == (
            expected.names,
            expected.task,
            expected.classes,
        )
        assert found.mean == pytest.approx(expected.mean)
        assert found.scale == pytest.approx(expected.scale)

    def test_a_table_of_targets_needs_numbers_and_a_task_a_name(self):
        with pytest.raises(ValueError, match=r"numeric target for regression. Got text in 'y1'"):
            TargetStatistics().add(np.array([[1, "a"], [0, "b"]], object))
        with pytest.raises(ValueError, match=r"task among auto, .* Got 'ranking'"):
            TargetStatistics("ranking")
        late = TargetStatistics("regression")
        late.add(np.arange(3000).astype(str))
        late.add(np.array(["7", "n/a"]))
        with pytest.raises(ValueError, match="Got text in 'y', for instance 'n/a'"):
            late.fitted()

    def test_text_among_numbers_needs_another_pass(self):
        X = pd.DataFrame({"a": [1, 2, 1, 2, 2.5, 3, "x", "x"], "b": range(8)})
        parts = [X[:4].infer_objects(), X[4:6].infer_objects(), X[6:]]
        inputs = InputStatistics()
        inputs.add(parts[0])
        inputs.add(parts[1])
        with pytest.raises(MixedColumns, match=r"Expected 'a' .*text in others, for instance 'x'"):
            inputs.add(parts[2])
        y = np.arange(8.0)
        pairs = [(part, y[part.index]) for part in parts]
        found = RowStream.of(pairs).sample()
        assert found.preprocessing.inputs == Inputs.fit(X)
        assert found.preprocessing.inputs.columns[0].categories == ("1", "2", "2.5", "3", "x")
        for order in ([0, 1, 2], [2, 0, 1]):
            with pytest.raises(
                ValueError, match=r"'a' to be numbers or text .* gone through again"
            ):
                RowStream.of(pairs[place] for place in order).sample()

    @pytest.mark.parametrize(
        "late",
        [
            [2.5, -1, 4],
            ["x", "y", "x"],
            ["€ 1,5", "€ 2,5", "€ 7,0"],
            ["2024-01-31", "2024-05-01", "2023-12-24"],
            pd.to_datetime(["2024-01-31", "2024-05-01", "2023-12-24"]),
            pd.Categorical(["low", "high", "low"], ["low", "high"], ordered=True),
            pd.to_timedelta([3, 1, 2], "D"),
            [None, None, None],
        ],
        ids=lambda late: str(late[0]),
    )
    def test_a_column_is_of_the_kind_of_its_first_entries(self, late):
        column = pd.Series([*[None] * 6, *late, *[None] * 3], dtype=pd.Series(late).dtype)
        X = pd.DataFrame({"before": np.arange(12.0), "late": column, "after": np.arange(12) % 3.5})
        blank = X[:6].assign(late=np.nan)
        found = InputStatistics()
        for part in (blank[:2], blank[2:], X[6:9], X[9:]):
            found.add(part)
        check_close(found.fitted(), Inputs.fit(X))
        assert ("late" in str(found.fitted().encoded_names)) is (late[0] is not None)

    def test_lengths_of_time_are_not_mixed_with_others(self):
        spans, y = pd.DataFrame({"a": pd.to_timedelta([3, 1, 2], "D")}), np.arange(3.0)
        for other in ([3, 1, 2], ["x", "y", "z"]):
            parts = [(spans, y), (pd.DataFrame({"a": other}), y)]
            for order in (parts, parts[::-1]):
                with pytest.raises(ValueError, match=r"time throughout 'a', or .*rows 4 to 6 of"):
                    RowStream.of(order).sample()

    @pytest.mark.parametrize(
        ("column", "words"),
        [
            ([1, 2, 3, np.inf], r"Got 1 infinite in 'a'.*\(This is in rows 3 to 4 of the stream"),
            ([1j, 2, 3, 4], "Complex data not supported.*rows 1 to 2"),
            (pd.to_datetime(["2020-01-01"] * 4), "a column of X that varies"),
            ([5, 5, 5, 5], "a column of X that varies"),
            (["x", "x", "x", "x"], "a column of X that varies"),
        ],
    )
    def test_bad_columns_are_named_with_their_rows(self, column, words):
        X = pd.DataFrame({"a": column})
        with pytest.raises(ValueError, match=words):
            RowStream.of((X, np.arange(4)), chunk_rows=2).sample()

    def test_texts_are_counted_while_they_may_be_categories(self, monkeypatch):
        monkeypatch.setattr(statistics, "MOST_TEXTS", 1000)
        monkeypatch.setattr(recognition, "MOST_TEXTS", 1000)
        found = InputStatistics()
        for start in range(0, 9000, 500):
            names = [f"name {chr(start + i)}" for i in range(500)]
            found.add(pd.DataFrame({"a": names, "id": range(start, start + 500), "b": range(500)}))
        assert len(found.counts[0]) <= 1500
        assert len(found.distinct[1]) <= 1500
        assert [column.kind for column in found.fitted().columns] == [
            "identifier", "identifier", "number",
        ]  # fmt: skip
