"""Kinds that somebody chooses: what columns become, in memory, in chunks, and in what is asked."""

import numpy as np
import pandas as pd
import pytest
from rows import check_close, chunks

from torchsparcs import RowStream, SearchConfig, SparcsClassifier, load_result, search
from torchsparcs.tables.kinds import parsed_kinds
from torchsparcs.tables.preprocessing import Inputs
from torchsparcs.tables.statistics import InputStatistics

ROWS = 60


def people() -> pd.DataFrame:
    """Columns that look like something else than they are."""
    draw = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": draw.integers(20, 60, ROWS).astype(str),
            "zip": draw.choice(["01067", "10115", "20095"], ROWS),
            "size": draw.choice(["S", "M", "L"], ROWS),
            "id": range(ROWS),
            "met": [f"{1 + i % 9}/{1 + i % 11}/2024" for i in range(ROWS)],
            "name": ["Ada", "Bo", *(f"{i}th" for i in range(ROWS - 10)), *["Ada", "Bo"] * 4],
        }
    )
    table.loc[3, "age"] = "unknown"
    return table


KINDS = {
    "age": "number",
    "zip": "text",
    "size": ["S", "M", "L"],
    "id": "number",
    "met": "month-day-year",
    "name": "text",
}


def fitted(**kinds) -> Inputs:
    with pytest.warns(UserWarning, match="not of the kind that was chosen .* 1 row of 'age'"):
        return Inputs.fit(people(), kinds={**KINDS, **kinds})


def test_a_column_becomes_what_was_chosen():
    inputs, table = fitted(), people()
    kinds = {column.name: column.kind for column in inputs.columns}
    assert kinds == {
        **{"age": "number", "zip": "text", "size": "ordered", "id": "number"},
        **{"met": "date", "name": "text"},
    }
    numbers = dict(zip(inputs.supplied_names, inputs.encode(table).T, strict=True))
    assert np.isnan(numbers["age"]).nonzero()[0].tolist() == [3]
    assert numbers["size"].tolist() == [{"S": 0, "M": 1, "L": 2}[size] for size in table["size"]]
    assert numbers["name=Ada"].sum() == 5
    assert numbers["name=other"].sum() == ROWS - 10
    assert numbers["met: day of month"].tolist() == [1 + i % 11 for i in range(ROWS)]
    days = fitted(met="day-month-year").encode(table)
    assert days.shape != inputs.encode(table).shape or not np.array_equal(
        days, inputs.encode(table), equal_nan=True
    )
    assert Inputs.from_json(inputs.to_json()) == inputs
    assert inputs.text_names == ("zip", "name")


def test_what_is_not_of_the_kind_is_missing_when_predicting_too():
    inputs = fitted()
    later = people().iloc[:2].assign(age=["n/a", "1"], size=["XL", "S"], met=["?", "1/2/2024"])
    with pytest.warns(UserWarning, match=r"(not seen in fit|no number or date)"):
        values = dict(zip(inputs.supplied_names, inputs.encode(later).T, strict=True))
    assert all(np.isnan(values[name][0]) for name in ("age", "size", "met: day of month"))
    assert not any(np.isnan(values[name][1]) for name in ("age", "size", "met: day of month"))


def test_chunks_have_the_same_kinds():
    statistics = InputStatistics(kinds=KINDS)
    for chunk in chunks(people(), [20, 45]):
        statistics.add(chunk)
    check_close(statistics.fitted(), fitted())
    assert statistics.strays["age"] == 1


def test_a_chunk_without_any_of_the_kind_waits_for_another():
    table = people().assign(paid=["?"] * 20 + [f"{i},5 €" for i in range(ROWS - 20)])
    kinds = {**KINDS, "paid": "number"}
    statistics = InputStatistics(kinds=kinds)
    for chunk in chunks(table, [10, 20, 45]):
        statistics.add(chunk)
    with pytest.warns(UserWarning, match="counts as missing: .*20 rows of 'paid'"):
        whole = Inputs.fit(table, kinds=kinds)
    check_close(statistics.fitted(), whole)
    assert statistics.strays["paid"] == 20
    never = InputStatistics(kinds={"paid": "number"})
    never.add(table[["age", "paid"]][:20])
    with pytest.raises(ValueError, match="Expected numbers in 'paid', as its kind was chosen"):
        never.fitted()


def test_codes_keep_their_zeros(tmp_path):
    table = people().assign(y=range(ROWS))
    table.to_csv(tmp_path / "a.csv", index=False)
    stream = RowStream.of(tmp_path / "a.csv", "y", drop=["age", "id", "met", "name"])
    inputs = stream.sample(kinds={"zip": "text"}).preprocessing.inputs
    assert inputs.columns[0].categories == ("01067", "10115", "20095")


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ({"agee": "number"}, "columns with a kind among .* Got 'agee'. Did you mean 'age'"),
        ({"age": "float"}, "number, text, date, .* as the kind of 'age'. Got 'float'"),
        ({"size": ["S"]}, "several different categories in their order.* Got"),
        ({"size": ["S", "S"]}, "several different categories in their order"),
        ({"size": "number"}, "Expected numbers in 'size', .* Got none, but for instance"),
        ({"size": ["s", "m"]}, "Expected 's', 'm' in 'size', as its kind was chosen"),
        ({"size": "date"}, "Expected dates in 'size'"),
        ({"met": "date"}, "day-month-year or month-day-year as the kind of 'met', since both fit"),
        ({"id": "text"}, "texts that repeat in 'id', .* 60 different ones in 60 rows"),
        (["age"], "Expected kinds by the names of columns"),
    ],
)
def test_what_cannot_be_is_said(kinds, words):
    with pytest.raises(ValueError, match=words):
        Inputs.fit(people(), kinds=kinds)


def test_the_command_line_says_it_in_one_word():
    assert parsed_kinds(["a=text", "b=<=1,>1"]) == {"a": "text", "b": ("<=1", ">1")}
    for texts in (["a"], ["a="], ["a=text", "a=date"]):
        with pytest.raises(ValueError, match="Expected COL=KIND, once for each column"):
            parsed_kinds(texts)


@pytest.mark.filterwarnings("ignore:What is not of the kind", "ignore:Left out")
def test_a_search_and_the_estimators_take_them(tmp_path):
    X, y = people(), np.arange(ROWS) % 2
    config = SearchConfig(steps=5, ways=("asleep",))
    result = search(X, y, kinds=KINDS, widths=(2,), config=config, progress=False)
    result.save(tmp_path / "run")
    loaded = load_result(tmp_path / "run")
    assert loaded.inputs.columns[0].kind == "number"
    assert len(loaded.predict(X)) == ROWS
    model = SparcsClassifier(widths=(2,), steps=5, penalty_weights=[1e-2], validation=0.3)
    model.set_params(kinds={"age": "number", "id": "number"}).fit(X, y)
    assert model.result_.inputs.columns[3].kind == "number"
