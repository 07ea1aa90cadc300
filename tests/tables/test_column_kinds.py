"""Columns of every kind that people have: what they become, in memory and in chunks."""

import datetime
import json
import re
import warnings
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from rows import check_close, chunks

from torchsparcs import RowStream, SparcsClassifier
from torchsparcs.command import predicting
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.tables.dates import PARTS, calendar_parts, date_orders, dates_in
from torchsparcs.tables.encoding import Column
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target
from torchsparcs.tables.statistics import InputStatistics, TargetStatistics
from torchsparcs.tables.target_values import has_target

DAYS = pd.date_range("2019-12-30", periods=400, freq="30h")


def mixed(rows=400, seed=0) -> pd.DataFrame:
    """A column of each kind, some of them with gaps."""
    draw = np.random.default_rng(seed)
    cities = [f"city {letter}" for letter in "abcdefghijklmnopqrstuvwxyzäöüßçéèñø"]
    table = pd.DataFrame(
        {
            "id": draw.permutation(rows) + 1000,
            "count": range(1, rows + 1),
            "name": [f"name {chr(65 + i)}" for i in range(rows)],
            "age": draw.normal(40, 9, rows),
            "shoe": draw.integers(30, 47, rows).astype(float),
            "city": draw.choice(cities, rows, p=np.r_[[0.2] * 3, [0.4 / 32] * 32]),
            "soil": draw.choice(["clay", "sand"], rows),
            "grade": pd.Categorical(draw.choice(["bad", "fair", "good"], rows), ordered=True),
            "born": DAYS[:rows],
            "seen": [str(day.date()) for day in DAYS[:rows]],
            "price": [f"€ {value:,.2f}" for value in draw.uniform(10, 9000, rows)],
            "flag": [None, 1.0] * (rows // 2),
            "rare": draw.random(rows) < 0.01,
        }
    )
    table.loc[draw.random(rows) < 0.2, ["age", "shoe"]] = np.nan
    for name in ("city", "grade", "born", "price"):
        table.loc[draw.random(rows) < 0.1, name] = None
    return table


def fitted(table) -> Inputs:
    with pytest.warns(UserWarning, match=r"Left out, .* 'id' .*, 'count' .*, 'name' \("):
        return Inputs.fit(table)


def kinds(inputs: Inputs) -> dict[str, str]:
    return {column.name: f"{column.kind}, {column.gaps}" for column in inputs.columns}


def test_each_kind_is_recognised_and_goes_through_json():
    table = mixed()
    inputs = fitted(table)
    assert kinds(inputs) == {
        "id": "identifier, none",
        "count": "identifier, none",
        "name": "identifier, none",
        "age": "number, told",
        "shoe": "number, filled",
        "city": "text, told",
        "soil": "text, none",
        "grade": "ordered, told",
        "born": "date, told",
        "seen": "date, none",
        "price": "number, told",
        "flag": "text, told",
        "rare": "number, none",
    }
    again = Inputs.from_json(json.loads(json.dumps(inputs.to_json())))
    assert again == inputs
    found = inputs.transform(table)
    assert torch.equal(again.transform(table), found)
    assert found.isfinite().all()
    assert found.mean(dim=0).abs().max() < 1e-5
    place = inputs.encoded_names.index
    assert "shoe is missing" not in inputs.encoded_names  # which says what "age is missing" does
    assert found[table["age"].isna().tolist(), place("age")].abs().max() == 0
    told = found[:, place("age is missing")] > 0
    assert told.tolist() == table["age"].isna().tolist()
    assert found[:, place("rare")].max() == pytest.approx(4)


@pytest.mark.parametrize("cuts", [[7], [100, 200, 300], [1, 2, 399]])
def test_in_chunks_they_become_the_same(cuts):
    table = mixed()
    statistics = InputStatistics()
    for chunk in chunks(table, cuts):
        statistics.add(chunk)
    check_close(statistics.fitted(), fitted(table))


def test_a_file_is_as_good_as_the_frame(tmp_path):
    table = mixed().drop(columns="grade").assign(target=np.arange(400) % 7)
    expected = fitted(table.drop(columns="target"))
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet", row_group_size=90)
    for name in ("t.csv", "t.parquet"):
        with pytest.warns(UserWarning, match="Left out"):
            found = RowStream.of(tmp_path / name, chunk_rows=90).sample().preprocessing.inputs
        check_close(found, expected)


def test_columns_that_an_older_folder_has():
    old = {"name": "a", "categories": None}, {"name": "b", "categories": ["x", "y"]}
    columns = [Column.from_json(column) for column in (*old, {"name": "c", "categories": []})]
    assert [column.kind for column in columns] == ["number", "text", "constant"]
    inputs = Inputs.from_json({"columns": [*old], "mean": [1.0, 0.5], "scale": [2.0, 0.5]})
    assert inputs.transform(pd.DataFrame({"a": [3], "b": ["y"]})).tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "colour"}, "a kind among number, text, ordered, date.* Got 'colour'"),
        (
            {"kind": "date", "categories": ("moon",)},
            "parts of a date, 'days since 2000'.* Got 'moon'",
        ),
        ({"kind": "number", "categories": ("a", "b")}, "Got 'number'"),
        ({"gaps": "many"}, "gaps among none, filled, told. Got 'many'"),
    ],
)
def test_columns_that_cannot_be(options, words):
    with pytest.raises(ValueError, match=words):
        Column("a", **options)


class TestMissing:
    def test_text_is_a_category_of_its_own(self):
        column = pd.DataFrame({"a": ["x", None, "y", np.nan]})
        inputs = Inputs.fit(column)
        assert inputs.encoded_names == inputs.supplied_names == ("a=x", "a=y", "a is missing")
        assert inputs.encode(column).tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1]]

    def test_a_number_or_nothing_is_two_categories(self):
        inputs = Inputs.fit(pd.DataFrame({"a": [7.0, np.nan, 7.0], "b": [1, 2, 3]}))
        assert inputs.encoded_names == ("a is missing", "b")
        rows = pd.DataFrame({"a": [7, None], "b": [1, 2]})
        assert inputs.encode(rows).tolist() == [[0, 1], [1, 2]]
        order = pd.Categorical(["lo", None, "lo"], ["lo", "hi"], ordered=True)
        inputs = Inputs.fit(pd.DataFrame({"a": order}))
        assert (inputs.columns[0].categories, inputs.encoded_names) == (("lo",), ("a is missing",))

    @pytest.mark.parametrize("only", [True, "5 %", "5.0", 5.5, "1.250,5 €"], ids=str)
    def test_a_number_or_nothing_is_known_however_it_is_written(self, only):
        table = pd.DataFrame({"a": np.array([only, None] * 5, object), "b": range(10)})
        inputs = Inputs.fit(table)
        assert inputs.encoded_names == ("a is missing", "b")
        assert inputs.encode(table)[:, 0].tolist() == [0, 1] * 5  # no warning
        with pytest.warns(UserWarning, match="1 row of 'a' with '77'"):
            inputs.encode(pd.DataFrame({"a": [77], "b": [1]}))

    @pytest.mark.parametrize(
        "values",
        [
            np.ma.masked_equal([1, 3, 9], 9),
            pd.array([1, 3, None], "Int64"),
            pd.array([1, 3, None], "Float64"),
            np.array([1, "3", None], object),
            [1, 3, pd.NA],
        ],
        ids=str,
    )
    def test_numbers_of_any_type_may_be_missing(self, values):
        inputs = Inputs.fit(pd.DataFrame({"a": values, "b": [1, 2, 3]}))
        assert inputs.encoded_names == ("a", "a is missing", "b")
        assert (inputs.mean[0], inputs.mean[1]) == (2, pytest.approx(1 / 3))

    def test_where_none_was_missing_one_warning_says_so(self):
        table = pd.DataFrame({"a": [1.0, 3.0, 5.0], "b": ["x", "y", "z"], "c": [1.0, np.nan, 2.0]})
        inputs = Inputs.fit(table)
        new = pd.DataFrame({"a": [np.nan, 1, None], "b": ["x", None, "z"], "c": [None, 1, 2]})
        words = r"count as the mean or zeros: 2 rows of 'a'; 1 row of 'b'\.$"
        with pytest.warns(UserWarning, match=words) as caught:
            found = inputs.transform(new)
        assert len(caught) == 1
        assert found[[0, 2], 0].tolist() == [0, 0]
        zeros = (0 - np.array(inputs.mean)) / np.array(inputs.scale)
        np.testing.assert_allclose(found[1, 1:4], zeros[1:4], rtol=1e-6)

    def test_weights_count_what_is_missing(self):
        table, weight = mixed(), np.random.default_rng(1).integers(0, 3, 400)
        table = table.drop(columns=["id", "count", "name", "city"])
        weighted = Inputs.fit(table, weight)
        counted = Inputs.fit(table.loc[table.index.repeat(weight)].reset_index(drop=True))
        check_close(weighted, counted)


class TestText:
    def test_of_many_values_the_frequent_have_a_name(self):
        texts = [f"t{i}" for i in range(40) for _ in range(40 - i)] + ["other"] * 99
        inputs = Inputs.fit(pd.DataFrame({"a": texts}))
        assert len(inputs.encoded_names) == 31
        assert inputs.encoded_names[-1] == "a=other"
        assert {"a=t0", "a=t29"} <= {*inputs.encoded_names}
        inputs.encode(pd.DataFrame({"a": texts}))  # no warning
        with pytest.warns(UserWarning, match="count as 'other', .*: 1 row of 'a' with 'never'"):
            rows = inputs.encode(pd.DataFrame({"a": ["t0", "t39", "never", "other"]}))
        assert rows[:, -1].tolist() == [0, 1, 1, 1]
        assert rows.sum(axis=1).tolist() == [1] * 4

    def test_that_hardly_repeats_is_left_out(self):
        table = pd.DataFrame({"a": [f"t{i // 2}" for i in range(200)], "b": np.arange(200) % 3})
        with pytest.warns(UserWarning, match=r"Left out, .*: 'a' \(text that hardly repeats\)\."):
            assert Inputs.fit(table).encoded_names == ("b",)


class TestIdentifiers:
    @pytest.mark.parametrize("name", ["id", "ID", "customer_id", "PassengerId", "row number"])
    def test_whole_numbers_by_their_name(self, name):
        draw = np.random.default_rng(0)
        table = pd.DataFrame({name: draw.permutation(10**6)[:100], "b": draw.random(100)})
        with pytest.warns(UserWarning, match=f"Left out, .*: {name!r}"):
            assert Inputs.fit(table).encoded_names == ("b",)
        assert Inputs.fit(table.rename(columns={name: "humid"})).encoded_names == ("humid", "b")
        assert Inputs.fit(table.astype(float)).encoded_names == (name, "b")
        repeated = table.assign(**{name: np.arange(100) % 9})
        assert Inputs.fit(repeated).encoded_names == (name, "b")

    def test_a_counter_whatever_its_name_and_order(self):
        order = np.random.default_rng(0).permutation(60)
        for first in (0, 1):
            table = pd.DataFrame({"a": order + first, "b": order % 7})
            with pytest.warns(UserWarning, match="Left out"):
                assert Inputs.fit(table).encoded_names == ("b",)
        assert Inputs.fit(table.assign(a=order + 2)).encoded_names == ("a", "b")
        assert Inputs.fit(table.to_numpy()).encoded_names == ("x0", "x1")
        assert Inputs.fit(table[["a"]]).encoded_names == ("a",)  # there is nothing else


class TestDates:
    @pytest.mark.parametrize(
        "write",
        [
            lambda days: days,
            lambda days: days.tz_localize("Asia/Tokyo"),
            lambda days: days.astype("datetime64[s]"),
            lambda days: days.astype(str),
            lambda days: [day.isoformat() + "+02:00" for day in days],
            lambda days: days.astype(object),
            lambda days: pd.array(days, "timestamp[us][pyarrow]"),
        ],
        ids=["ns", "zone", "s", "text", "ISO", "objects", "arrow"],
    )
    def test_however_they_come_they_have_the_same_parts(self, write):
        pytest.importorskip("pyarrow")
        inputs = Inputs.fit(pd.DataFrame({"d": write(DAYS)}))
        assert inputs.columns[0].kind == "date"
        assert inputs.encoded_names == tuple(f"d: {part}" for part in PARTS)
        found = inputs.encode(pd.DataFrame({"d": write(DAYS)}))
        np.testing.assert_array_equal(found, calendar_parts(DAYS, [*PARTS]))

    def test_parts_that_do_not_vary_are_left_out(self):
        days = [datetime.date(2024, 1, day) for day in (1, 8, 15)]  # Mondays
        names = (
            "d: days since 2000",
            "d: time of year sin",
            "d: time of year cos",
            "d: day of month",
        )
        assert Inputs.fit(pd.DataFrame({"d": days})).encoded_names == names

    def test_a_worked_example(self):
        dates = dates_in(np.array(["2023-07-02T12:00", None], dtype=object))
        (row, gap) = calendar_parts(dates, [*PARTS])
        part = dict(zip(PARTS, row, strict=True))
        assert part["days since 2000"] == 19540.5 - 10957
        assert [part[name] for name in ("years since 2000", "day of month", "hour")] == [23, 2, 12]
        assert [part[name] for name in ("Sunday", "Monday")] == [1, 0]
        assert part["time of year cos"] == pytest.approx(-1, abs=1e-4)  # 182 of 365 days
        assert part["time of day cos"] == pytest.approx(-1)
        assert np.isnan(gap).all()

    def test_other_text_is_no_date(self):
        table = pd.DataFrame({"d": DAYS.astype(str)})
        inputs = Inputs.fit(table)
        words = "no number or date, .* missing: 2 rows of 'd', for instance 'soon'"
        with pytest.warns(UserWarning, match=words) as caught:
            found = inputs.encode(pd.DataFrame({"d": ["2020-01-01", "soon", 20200101]}))
        assert len(caught) == 1
        assert np.isnan(found).any(axis=1).tolist() == [False, True, True]
        with pytest.raises(ValueError, match=r"dates in 'd', as in fit. Got text .* 'soon' in row"):
            inputs.encode(pd.DataFrame({"d": [None, "soon", "later"]}))
        for strays in (["2020-13-01"] * 250, [f"soon {i}" for i in range(30)]):
            texts = [*strays, *table["d"][len(strays) :]]
            with pytest.warns(UserWarning, match="Left out"):
                Inputs.fit(table.assign(d=texts, b=range(400, 0, -1)))

    @pytest.mark.parametrize(
        "order",
        [
            *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%d.%m.%y", "%d-%b-%Y"),
            *("%b %d, %Y", "%d %B %Y", "%m/%d/%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d/%m/%y, %I:%M %p"),
        ],
    )
    def test_of_one_order_are_dates(self, order):
        days = pd.date_range("2024-01-10", periods=60)
        table = pd.DataFrame({"d": [*days.strftime(order), None], "b": range(61, 0, -1)})
        table["b"] = table["b"] % 7
        inputs = Inputs.fit(table)
        assert inputs.columns[0].kind == "date"
        found = inputs.encode(table)[:, 0]
        np.testing.assert_array_equal(found[:-1], calendar_parts(days, ["days since 2000"])[:, 0])
        assert Inputs.from_json(json.loads(json.dumps(inputs.to_json()))) == inputs
        assert inputs.columns[0].order == order
        new = pd.DataFrame({"d": ["2024-01-10", table["d"][0], "soon"], "b": [1, 2, 3]})
        with pytest.warns(UserWarning, match="no number or date, .* missing: 1 row of 'd'"):
            again = inputs.encode(new)
        np.testing.assert_array_equal(again[:, 0], [found[0], found[0], np.nan])

    def test_of_two_orders_are_left_out_and_told(self):
        days = [f"{1 + i % 12:02d}.{1 + i // 12:02d}.2024" for i in range(60)]
        table = pd.DataFrame({"d": days, "b": np.arange(60) % 7})
        with pytest.warns(UserWarning, match=r"'d' \(looks like dates; YYYY-MM-DD is understood"):
            assert Inputs.fit(table).encoded_names == ("b",)

    def test_codes_that_may_be_dates_of_two_digits_stay_text(self):
        table = pd.DataFrame({"d": ["1.2.10", "2.3.11", "1.2.10"], "b": [1, 2, 4]})
        assert Inputs.fit(table).columns[0].categories == ("1.2.10", "2.3.11")

    def test_months_by_names_that_are_long_and_short(self):
        for first in (["May 1, 2024"], ["May 1, 2024", "June 2, 2024"], ["Jun 1, 2024"]):
            orders = date_orders(np.array([*first, "May 3, 2024"], dtype=object))
            assert len(orders) == 1

    @pytest.mark.parametrize("write", ["%H:%M", "%H:%M:%S", "%I:%M %p", None])
    def test_the_time_of_a_clock(self, write):
        days = pd.date_range("2024-01-10 00:07", periods=60, freq="25min")
        texts = days.time if write is None else days.strftime(write)
        table = pd.DataFrame({"at": texts, "b": np.arange(60) % 7})
        inputs = Inputs.fit(table)
        parts = ["days since 2000", "hour", "time of day sin", "time of day cos"]
        assert inputs.encoded_names == (*(f"at: {part}" for part in parts), "b")
        hours = inputs.encode(table)[:, 1]
        np.testing.assert_allclose(hours, days.hour + days.minute / 60, rtol=0, atol=1e-6)

    def test_lengths_of_time_are_days(self):
        spans = pd.DataFrame({"a": pd.to_timedelta([12, None, 48], unit="h")})
        assert Inputs.fit(spans).mean == (1.25, pytest.approx(1 / 3))


class TestStrays:
    """Columns of numbers or dates with a few entries that are something else."""

    @pytest.mark.parametrize(
        ("stray", "rows"), [("?", 100), ("unknown", 3), ("-", 40), ("1O", 1), ("n.a.", 7)]
    )
    @pytest.mark.parametrize("write", ["{}", "{} km", "$ {:,}.50"])
    def test_nearly_all_numbers_are_numbers(self, stray, rows, write):
        numbers = np.random.default_rng(0).permutation(200)
        texts = [stray] * rows + [write.format(each) for each in numbers[rows:]]
        table = pd.DataFrame({"a": texts, "b": np.arange(200) % 7})
        words = f"nearly all others are, .* {rows} rows? of 'a', like '{re.escape(stray)}'"
        with pytest.warns(UserWarning, match=words):
            inputs = Inputs.fit(table)
        assert inputs.encoded_names == ("a", "a is missing", "b")
        found = inputs.encode(table)[:, 0]  # without a warning
        assert np.isnan(found[:rows]).all()
        half = 0.5 * write.endswith(".50")
        np.testing.assert_array_equal(found[rows:], numbers[rows:] + half)
        assert Inputs.from_json(json.loads(json.dumps(inputs.to_json()))) == inputs

    def test_dates_too(self):
        texts = ["0000-00-00"] * 9 + [*DAYS.astype(str)[9:]]
        table = pd.DataFrame({"d": texts, "b": np.arange(len(DAYS)) % 7})
        with pytest.warns(UserWarning, match="9 rows of 'd', like '0000-00-00'"):
            inputs = Inputs.fit(table)
        assert inputs.columns[0].kind == "date"
        assert inputs.columns[0].gaps == "told"

    @pytest.mark.parametrize(
        ("name", "texts"),
        [
            ("many strays", [f"{i}" if i % 10 else f"no {i}" for i in range(200)]),
            ("one, too often", [f"{i}" if i % 3 == 0 else "?" for i in range(200)]),
            ("few numbers", [f"{i % 20}" if i % 20 else "?" for i in range(200)]),
            ("the id", [f"{i}" if i % 50 else "?" for i in range(200)]),
        ],
    )
    def test_others_are_text(self, name, texts):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Left out")
            inputs = Inputs.fit(pd.DataFrame({name: texts, "b": np.arange(200) % 7}))
        assert inputs.columns[0].kind in ("text", "identifier")

    def test_chunks_say_the_same(self):
        texts = [f"{i}" if i % 40 else "?" for i in range(200)]
        table = pd.DataFrame({"a": texts, "b": np.arange(200) % 7})
        with pytest.warns(UserWarning, match="5 rows of 'a', like"):
            whole = Inputs.fit(table)
        statistics = InputStatistics()
        for chunk in (table[:90], table[90:]):
            statistics.add(chunk)
        assert statistics.fitted().encoded_names == whole.encoded_names
        np.testing.assert_allclose(statistics.fitted().mean, whole.mean)
        assert statistics.strays["a"] == 5

    def test_a_target_of_numbers_has_none(self):
        texts = np.array([f"{i}.5" if i % 40 else "?" for i in range(80)], dtype=object)
        with pytest.raises(ValueError, match=r"numbers or classes in 'y'. Got numbers and.* '\?'"):
            Target.fit(texts)
        assert Target.fit(np.resize(texts[:38], 380), "classification").outputs == 38

    def test_as_text_if_somebody_says_so(self):
        texts = [f"{i % 50}" if i % 40 else "?" for i in range(200)]
        table = pd.DataFrame({"a": texts, "b": np.arange(200) % 7})
        assert Inputs.fit(table, kinds={"a": "text"}).columns[0].kind == "text"


def test_blank_text_is_missing():
    table = pd.DataFrame({"a": ["1", "", "3"], "b": ["x", " ", "y"]})
    told = Inputs.fit(table.replace(["", " "], None))
    assert Inputs.fit(table) == told
    assert has_target(table["b"]).tolist() == [True, False, True]
    assert has_target(table[["a", "b"]].to_numpy()).tolist() == [True, False, True]


class TestWrittenNumbers:
    @pytest.mark.parametrize(
        ("texts", "numbers"),
        [
            (["1,250", "3", "12,000,000"], [1250, 3, 12e6]),
            (["1,250.5", "-3.25"], [1250.5, -3.25]),
            (["1.250,5", "-3,25"], [1250.5, -3.25]),
            (["1 250,5", "7"], [1250.5, 7]),
            (["12 %", "3.5%"], [12, 3.5]),
            (["$1,200", "-$5.50"], [1200, -5.5]),
            (["12,50 €", "3 €"], [12.5, 3]),
            (["5 km/h", "10km/h"], [5, 10]),
            (["12 m²", None, "3 m²"], [12, np.nan, 3]),
        ],
        ids=str,
    )
    def test_are_read(self, texts, numbers):
        table = pd.DataFrame({"a": texts})
        np.testing.assert_array_equal(Inputs.fit(table).encode(table)[:, 0], numbers)

    @pytest.mark.parametrize(
        "texts",
        [
            ["5 km", "3 mi"],
            ["A11", "A12"],
            ["1st", "2nd"],
            ["12:70", "1:15"],
            ["20-30", "30-40"],
            ["٣ km", "٤ km"],
        ],
        ids=str,
    )
    def test_other_text_stays_text(self, texts):
        assert Inputs.fit(pd.DataFrame({"a": texts})).columns[0].kind == "text"

    @pytest.mark.parametrize(
        ("texts", "numbers", "example"),
        [
            (["950 €", "1.250 €", "80 €"], [950, 1250, 80], "'1.250 €' in 'a' is read as 1250"),
            (["3 kg", "1.250 kg"], [3, 1250], "'1.250 kg' in 'a' is read as 1250"),
        ],
        ids=str,
    )
    def test_thousands_by_a_guess_are_told_once(self, texts, numbers, example):
        table = pd.DataFrame({"a": texts})
        with pytest.warns(UserWarning, match=re.escape(example)) as caught:
            inputs = Inputs.fit(table)
        assert inputs.encode(table)[:, 0].tolist() == numbers
        assert len(caught) == 1
        stream = RowStream.of((table, np.arange(len(table)) % 2))
        with pytest.warns(UserWarning, match=re.escape(example)) as caught:
            stream.sample()
        assert len(caught) == 1

    @pytest.mark.parametrize(
        ("texts", "numbers"),
        [
            (["$950", "$1,250"], [950, 1250]),
            (["950", "1,250"], [950, 1250]),
            (["0.500 kg", "1.250 kg"], [0.5, 1.25]),
            (["1.250 €", "1.250,5 €"], [1250, 1250.5]),
            (["1.250 €", "1.250.000 €"], [1250, 1250000]),
            (["1.250 €", "2.5 €"], [1.25, 2.5]),
            (["5 km", "10 km"], [5, 10]),
        ],
        ids=str,
    )
    def test_what_the_column_shows_is_no_guess(self, texts, numbers):
        table = pd.DataFrame({"a": texts})
        assert Inputs.fit(table).encode(table)[:, 0].tolist() == numbers

    def test_thousands_do_not_begin_with_zero(self):
        inputs = Inputs.fit(pd.DataFrame({"a": ["12,5 %", "3 %", "7 %"]}))
        assert inputs.encode(pd.DataFrame({"a": ["1.250 %"]})).tolist() == [[1250]]
        for stray in ("0.125", "0.500 %"):
            with pytest.raises(ValueError, match=f"numbers in 'a', as in fit.*{stray!r}"):
                inputs.encode(pd.DataFrame({"a": [stray, stray]}))

    def test_a_file_is_read_as_it_was_written(self, tmp_path, monkeypatch, capsys):
        rows = pd.DataFrame({"a": ["1.250,50", "80,25", "3"], "y": [1.5, 2.5, 4.5]})
        preprocessing = Preprocessing(Inputs.fit(rows[["a"]]), Target.fit(rows["y"]))
        inputs, path = preprocessing.inputs, tmp_path / "new.csv"
        path.write_text("a,y\n1.250,1.5\n2.375,2.5\n")
        ((found, _),) = RowStream.of(path).batches(preprocessing)
        expected = inputs.transform(pd.DataFrame({"a": [1250, 2375]}))
        assert torch.equal(found.sort(dim=0).values, expected)
        network = CompactNetwork([1, 1], [(1, 0)])
        for parameter, value in zip(network.parameters(), (1.0, 0.0), strict=True):
            torch.nn.init.constant_(parameter, value)
        result = Mock(inputs=inputs, target=preprocessing.target, settings={})
        result.pick.return_value = Mock(network=network)
        monkeypatch.setattr(predicting, "loaded", lambda run: result)
        predicting.predict(tmp_path, str(path), None, pick=None, raw=False, force=False)
        said = preprocessing.target.predict(expected).tolist()
        assert [float(line) for line in capsys.readouterr().out.split()[1:]] == pytest.approx(
            said, rel=1e-7
        )

    def test_fractions_in_memory_may_have_been_read_wrong(self):
        inputs = Inputs.fit(pd.DataFrame({"a": ["1.250,50", "80,25"], "b": ["1 %", "2 %"]}))
        new = pd.DataFrame({"a": [1.25, 2.375], "b": [1.5, 2.5]})
        with pytest.warns(UserWarning, match="a decimal comma was in fit.*: 'a'.$") as caught:
            inputs.encode(new)
        assert len(caught) == 1
        inputs.encode(new.assign(a=[1250, 2375]))  # no warning

    def test_whole_numbers_in_fit_and_a_decimal_comma_later(self):
        inputs = Inputs.fit(pd.DataFrame({"a": [33, 41, 57]}))
        for written, read in (
            (["33,5", None, "41"], [33.5, np.nan, 41]),
            (["1.250,5", "2", 3], [1250.5, 2, 3]),
            (["1,250.5", "7", "-0.5"], [1250.5, 7, -0.5]),
        ):
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message="What is no number")
                warnings.filterwarnings("ignore", message="Missing values")
                found = inputs.encode(pd.DataFrame({"a": written}))
            np.testing.assert_array_equal(found[:, 0], read)
        for unclear in ("1,250", "5 %", "33,5 km"):
            with pytest.raises(ValueError, match=f"numbers in 'a', as in fit.*{unclear!r}"):
                inputs.encode(pd.DataFrame({"a": [unclear, unclear]}))
        with pytest.warns(UserWarning, match="1 row of 'a', for instance '3,5'"):
            inputs.encode(pd.DataFrame({"a": ["33.5", "3,5"]}))

    def test_as_in_fit(self):
        inputs = Inputs.fit(pd.DataFrame({"a": ["5,5 km", "1.000 km"]}))
        rows = pd.DataFrame({"a": ["7,25 km", "8", 2.5, None]})
        with pytest.warns(UserWarning, match="1 row of 'a'"):
            np.testing.assert_array_equal(inputs.encode(rows)[:, 0], [7.25, 8, 2.5, np.nan])
        for stray in ("5 mi", "far"):
            words = f"in 'a', as in fit, .* written like '5,5 km'. Got .*{stray!r} in row 2"
            with pytest.raises(ValueError, match=words):
                inputs.encode(pd.DataFrame({"a": [None, stray, stray]}))
            with pytest.warns(UserWarning, match=f"1 row of 'a', for instance {stray!r}"):
                found = inputs.encode(pd.DataFrame({"a": ["1 km", stray]}))
            np.testing.assert_array_equal(found[:, 0], [1, np.nan])


def test_ordered_categories_are_places_in_the_order():
    order = pd.CategoricalDtype(["low", "fair", "high"], ordered=True)
    inputs = Inputs.fit(pd.DataFrame({"a": pd.Series(["low", "high", "fair"], dtype=order)}))
    assert inputs.encoded_names == ("a",)
    assert inputs.encode(pd.DataFrame({"a": ["fair", "high"]})).tolist() == [[1], [2]]
    with pytest.warns(UserWarning, match="1 row of 'a' with 'odd'"):
        assert np.isnan(inputs.encode(pd.DataFrame({"a": ["odd"]}))).all()
    gappy = Inputs.fit(pd.DataFrame({"a": pd.Series(["low", None, "high"], dtype=order)}))
    with pytest.warns(UserWarning, match="mean or missing: 1 row of 'a' with 'odd'"):
        found = gappy.transform(pd.DataFrame({"a": ["odd", None]}))
    assert torch.equal(found[0], found[1])


def test_columns_that_are_not_read_do_not_tell_that_they_are_missing():
    table = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": [5.0, 6.0, np.nan]})
    inputs = Inputs.fit(table)
    read = inputs.transform(table[["b"]], reads=(2, 3))
    assert torch.equal(read[:, 2:], inputs.transform(table)[:, 2:])
    assert not read[:, :2].any()


class TestWrittenTargets:
    PRICES = ("€9,492.50", "€80.25", "€1,250.00") * 7

    def test_are_numbers_in_fit_and_in_scores(self):
        target = Target.fit([*self.PRICES])
        assert target.task == "regression"
        plain = [9492.5, 80.25, 1250.0] * 7
        expected = Target.fit(plain)
        assert (target.mean, target.scale) == (expected.mean, expected.scale)
        assert torch.equal(target.transform([*self.PRICES]), expected.transform(plain))
        assert Target.from_json(json.loads(json.dumps(target.to_json()))) == target

    def test_in_chunks_they_are_the_same(self):
        statistics = TargetStatistics()
        for start in (0, 4, 9):
            statistics.add(np.array(self.PRICES[start : {0: 4, 4: 9, 9: None}[start]], object))
        found, expected = statistics.fitted(), Target.fit([*self.PRICES])
        assert (found.task, found.writings) == (expected.task, expected.writings)
        assert found.mean == pytest.approx(expected.mean)
        later = TargetStatistics("regression")
        for chunk in (["12 €", "950 €"], ["12,50 €"]):
            later.add(np.array(chunk, object))
        with pytest.raises(ValueError, match="written as in the first chunk"):
            later.fitted()

    def test_free_text_names_the_way_out(self):
        with pytest.raises(ValueError, match=r"write it in one way .* take task='regression'"):
            Target.fit([f"about {i}" for i in range(60)])

    def test_the_estimators_count_what_is_missing(self):
        y = np.array([0.0, 1.0, np.nan, 1.0])
        with pytest.raises(ValueError, match="y contains NaN: it is missing in 1 of 4 rows"):
            SparcsClassifier().fit(np.eye(4), y)
