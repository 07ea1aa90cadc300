"""Preprocessing: tables of any kind to tensors and back, through JSON, with words for bad ones."""

import datetime
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from sklearn import datasets

from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

FLOATS = st.floats(-1e150, 1e150)
FRAME = pd.DataFrame(
    {
        "age": [20, 30, 40, 30],
        "city": ["Rome", "Oslo", "Bern", "Rome"],
        "old": [False, False, True, True],
        "sex": pd.Categorical(["f", "m", "f", "f"]),
        "size": ["1", "2.5", " 3 ", "1e1"],
        "same": 7,
        "word": "a",
        "grade": pd.Categorical([1, 2, 10, 1]),
    }
)
RAW = [  # age, city=Bern, city=Oslo, city=Rome, old, sex=m, size, grade=1, grade=10, grade=2
    [20, 0, 0, 1, 0, 0, 1, 1, 0, 0],
    [30, 0, 1, 0, 0, 1, 2.5, 0, 0, 1],
    [40, 1, 0, 0, 1, 0, 3, 0, 1, 0],
    [30, 0, 0, 1, 1, 0, 10, 1, 0, 0],
]


def through_json(record):
    return type(record).from_json(json.loads(json.dumps(record.to_json(), allow_nan=False)))


def column(*values, dtype=object):
    return pd.DataFrame({"a": pd.Series(values, dtype=dtype)})


def test_a_table_is_encoded_column_by_column():
    inputs = Inputs.fit(FRAME)
    cities = ("city=Bern", "city=Oslo", "city=Rome")
    grades = ("grade=1", "grade=10", "grade=2")
    assert inputs.encoded_names == ("age", *cities, "old", "sex=m", "size", *grades)
    assert inputs.names == tuple(FRAME.columns)
    assert inputs.encode(FRAME).tolist() == RAW
    standard = (np.array(RAW) - np.mean(RAW, axis=0)) / np.std(RAW, axis=0)
    assert inputs.transform(FRAME).dtype == torch.float32
    np.testing.assert_allclose(inputs.transform(FRAME), standard, rtol=1e-6)


def test_columns_of_a_frame_are_found_by_name_and_of_an_array_by_position():
    inputs = Inputs.fit(FRAME)
    other = FRAME[FRAME.columns[::-1]].drop(columns="same").assign(more=pd.Timestamp(0))
    assert torch.equal(inputs.transform(other), inputs.transform(FRAME))
    assert torch.equal(inputs.transform(FRAME.to_numpy()), inputs.transform(FRAME))
    assert torch.equal(inputs.transform(pd.DataFrame(FRAME.to_numpy())), inputs.transform(FRAME))
    with pytest.raises(ValueError, match=r"Missing: 'age', 'city'. Got 'old', 'sex'"):
        inputs.transform(FRAME.drop(columns=["age", "city"]))
    with pytest.raises(ValueError, match="X has 3 features, but Inputs is expecting 8 features"):
        inputs.transform(np.zeros((2, 3)))


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.uint8, bool, object, "bfloat16"])
def test_numbers_of_any_kind_are_numbers(kind):
    values = np.array([[0, 1], [1, 1], [1, 0]])
    X = torch.tensor(values).bfloat16() if kind == "bfloat16" else values.astype(kind)
    assert Inputs.fit(X) == Inputs.fit(values) == Inputs.fit(values.tolist())
    assert Inputs.fit(X).encoded_names == ("x0", "x1")
    assert Inputs.fit(X).encode(X).tolist() == values.tolist()


def test_categories_are_compared_as_text_so_that_their_type_in_a_file_does_not_matter():
    inputs = Inputs.fit(column("1", "2", "x", "2.5"))
    expected = inputs.encode(column("2", "1", "2.5", "1"))
    assert inputs.encode(column(2.0, 1.0, 2.5, 1.0, dtype=float)).tolist() == expected.tolist()
    with pytest.warns(UserWarning, match=r"no number or date, .*1 row of 'a', for instance 'n/a'"):
        encoded = Inputs.fit(column(1, 2)).encode(column("3", "n/a"))
    np.testing.assert_array_equal(encoded[:, 0], [3, np.nan])


def test_unseen_categories_are_zeros_or_the_mean_and_one_warning_says_so():
    inputs = Inputs.fit(FRAME[["city", "sex"]])
    new = pd.DataFrame({"city": ["Rome", "A", "B", "C", "D"], "sex": ["m", "f", "x", "f", "f"]})
    words = r"4 rows of 'city' with 'A', 'B', 'C', \.\.\.; 1 row of 'sex' with 'x'"
    with pytest.warns(UserWarning, match=words) as caught:
        encoded = inputs.encode(new)
    assert len(caught) == 1
    assert encoded[:, :3].tolist() == [[0, 0, 1], *[[0, 0, 0]] * 4]
    assert np.array_equal(encoded[:, 3], [1, 0, np.nan, 0, 0], equal_nan=True)
    with pytest.warns(UserWarning, match="zeros, the mean or missing"):
        assert inputs.transform(new)[2, 3] == 0  # between the two


def test_missing_text_of_two_counts_as_the_mean():
    inputs = Inputs.fit(FRAME[["sex", "city"]])
    new = pd.DataFrame({"sex": [None, "m"], "city": ["Rome", "Rome"]})
    with pytest.warns(UserWarning, match="count as the mean or zeros: 1 row of 'sex'"):
        assert inputs.transform(new)[:, 0].tolist()[0] == 0


def test_weights_count_rows_and_zero_leaves_them_out():
    weight = np.array([2, 1, 0, 3])
    repeated = FRAME.loc[FRAME.index.repeat(weight)]
    weighted, counted = Inputs.fit(FRAME, weight), Inputs.fit(repeated)
    assert weighted.columns == counted.columns
    np.testing.assert_allclose(weighted.mean, counted.mean)
    np.testing.assert_allclose(weighted.scale, counted.scale)
    y = np.array([0.5, 2, 9, 3])
    weighted, counted = Target.fit(y, sample_weight=weight), Target.fit(y.repeat(weight))
    np.testing.assert_allclose(weighted.mean + weighted.scale, counted.mean + counted.scale)
    for bad in ([1, 2], [1, -1, 1, 1], [np.nan] * 4, [0] * 4, ["a"] * 4):
        with pytest.raises(ValueError, match="sample weight"):
            Inputs.fit(FRAME, bad)


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (
            {"a": [1, np.nan, np.inf], "b": [np.inf, -np.inf, 2], "c": ["x", None, "x"]},
            ValueError,
            "Expected finite values. Got 1 infinite in 'a', 2 infinite in 'b'.",
        ),
        ({"a": pd.to_datetime(["2020-01-01"] * 2)}, ValueError, "a column of X that varies"),
        ({"a": [datetime.timedelta(1), "a"]}, ValueError, "Got lengths of time .* in 'a'"),
        ({"a": [1j, 2]}, ValueError, "Complex data not supported.* in 'a'"),
        ({"a": [{}, 1]}, TypeError, "'a': each argument must be a string or a number. Got dict"),
        ({"a": [f"id{i}" for i in range(50)]}, ValueError, "constant columns and identifiers"),
        ({"a": [3, 3], "b": ["x", "x"]}, ValueError, "a column of X that varies"),
        ({"a": [0.1, 0.1 + 1e-17 * 2]}, ValueError, "a column of X that varies"),
        ({}, ValueError, r"0 feature\(s\) \(shape=\(0, 0\)\) while a minimum of 1 is required"),
        ({"a": []}, ValueError, "at least one row"),
        ({"a": [1]}, ValueError, "at least two rows. Got 1 sample"),
        (pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]), ValueError, "more than one 'a'"),
        (np.zeros(3), ValueError, r"Got shape \(3,\). Reshape your data"),
        (np.zeros((2, 2, 2)), ValueError, r"Got shape \(2, 2, 2\)"),
        ([[1, 2], [3]], ValueError, "rows differ in length"),
        (np.full((3, 7), np.inf), ValueError, "3 infinite in 'x4' and 2 more"),
        (np.full((3, 7), np.nan), ValueError, "a column of X that varies"),
        (torch.eye(2).to_sparse(), TypeError, "sparse"),
    ],
)
def test_bad_inputs_are_named(X, error, words):
    with pytest.raises(error, match=words):
        Inputs.fit(pd.DataFrame(X) if isinstance(X, dict) else X)


def test_extreme_numbers_are_standardised():
    X = np.array([[1e-200, 1e200, 1e16], [3e-200, 3e200, 1e16 + 64]])
    assert Inputs.fit(X).transform(X).tolist() == [[-1, -1, -1], [1, 1, 1]]
    with pytest.raises(ValueError, match="finite floats"):
        Inputs.fit([[-1.7e308], [1.7e308]])


def test_a_program_may_have_made_errors_of_numpys_warnings():
    X = np.column_stack([np.arange(200.0), np.arange(200) == 0, np.full(200, np.nan)])
    X[0, 2] = 1e-200
    with np.errstate(all="raise"):  # as some libraries leave it for all others
        inputs = Inputs.fit(X)
        assert torch.isfinite(inputs.transform(X)).all()


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("digits", "multiclass"),
        ("iris", "multiclass"),
        ("wine", "multiclass"),
        ("breast_cancer", "binary"),
        ("diabetes", "regression"),
    ],
)
def test_the_task_is_guessed(name, task):
    assert Target.fit(getattr(datasets, f"load_{name}")().target).task == task


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["b", "a", "c"], ("a", "b", "c")),
        ([True, False, True], (False, True)),
        ([3, -1, 3], (-1, 3)),
        ([2.0, 1.0], (1.0, 2.0)),
        (np.array([0, 1, 2] * 10, np.int8), (0, 1, 2)),
        (np.array([1, 0, 2.0] * 10, object), (0.0, 1.0, 2.0)),
        (pd.Series([7, 5, 6], dtype="category"), (5, 6, 7)),
        (np.array(["1", "2"] * 3, object), ("1", "2")),
        ([[1], [0]], (0, 1)),
        (range(29), None),
        ([1, 2, 3] * 9, None),
        ([0.5, 1.5], None),
        ([[1, 0], [0, 1]], None),
    ],
)
def test_labels_keep_their_type_through_json_and_back(y, classes):
    target = through_json(Target.fit(y))
    assert target.classes == classes
    if classes is not None:
        assert [type(label) for label in target.classes] == [type(label) for label in classes]
        hot = torch.nn.functional.one_hot(target.transform(y).long()).double()
        output = hot if target.outputs > 1 else hot[:, 1:] - 0.5
        assert target.predict(output).tolist() == np.ravel(y).tolist()
        assert target.predict(output).dtype.type is np.array(classes).dtype.type


def test_targets_have_the_types_of_their_task_and_predictions_their_units():
    y = np.array([[1.5, 10.0], [2.5, 30.0]])
    target = Target.fit(pd.DataFrame(y, columns=["a", "b"]))
    assert (target.names, target.task, target.outputs) == (("a", "b"), "regression", 2)
    assert target.transform(y).tolist() == [[-1, -1], [1, 1]]
    np.testing.assert_array_equal(target.predict(target.transform(y)), y)
    one = Target.fit(pd.Series(y[:, 0], name="price"), task="regression")
    assert one.transform(y[:, 0]).tolist() == one.transform(y[:, :1]).tolist() == [-1, 1]
    assert one.predict(torch.tensor([[-1.0], [0.1]], dtype=torch.float64)).tolist() == [1.5, 2.05]
    assert Target.fit(["1", "2.5"], task="regression").mean == (1.75,)
    binary, three = Target.fit([0, 1]), Target.fit(list("abc"))
    assert binary.transform([1, 0]).dtype == torch.float32
    assert three.transform(list("ca")).tolist() == [2, 0]
    assert three.transform(list("ca")).dtype == torch.int64
    assert binary.probabilities(torch.zeros(1, 1)).tolist() == [[0.5, 0.5]]
    p = three.probabilities(torch.tensor([[0.0, np.log(2), 0.0]]))
    np.testing.assert_allclose(p, [[0.25, 0.5, 0.25]])
    assert Target.fit([0, 1], task="multiclass").outputs == 2
    with pytest.raises(ValueError, match="classification for probabilities"):
        one.probabilities(torch.zeros(1, 1))
    with pytest.raises(ValueError, match=r"shape \(rows, 3\). Got \(2, 1\)"):
        three.predict(torch.zeros(2, 1))
    with pytest.raises(ValueError, match=r"labels in 'y' among 'a', 'b', 'c'. Got 'x', 'z'"):
        three.transform(list("axz"))


def test_no_answer_lies_half_of_the_range_beyond_what_was_seen():
    target = Target.fit(pd.DataFrame({"a": [0.0, 1.0, 4.0], "b": [-30.0, 10.0, 20.0]}))
    assert (target.low, target.high) == ((-2.0, -55.0), (6.0, 45.0))
    far = torch.tensor([[-100.0, 100.0], [0.1, -0.1], [100.0, -100.0]])
    said = target.predict(far)
    assert said[[0, 2]].tolist() == [[-2.0, 45.0], [6.0, -55.0]]
    np.testing.assert_allclose(target.in_units(target.bounded(far)), said, rtol=1e-6)
    assert torch.equal(target.bounded(far)[1], far[1])
    assert target.in_units(far).min() < -1000
    assert Target.fit([0.0, 1.5e308], task="regression").low == ()  # no number lies beyond
    classes = Target.fit(list("abc"))
    assert classes.bounded(far) is far
    assert classes.widened(list("ab")) is classes
    wide = target.widened([[10.0, 0.0], [30.0, 1.0]])
    assert (wide.low, wide.high) == ((-2.0, -55.0), (40.0, 45.0))
    with pytest.raises(ValueError, match="bounds for each of 2 outputs, low below high"):
        replace(target, low=target.high)


@pytest.mark.parametrize(
    ("y", "task", "words"),
    [
        ([1, 2], "ranking", "task among auto, classification, regression.*Got 'ranking'"),
        (pd.Series(["7", "n/a?"], name="price"), "regression", "Got text in 'price', .*'n/a.'"),
        (pd.Series([1.5, np.nan], name="price"), "auto", "Got 1 NaN in 'price'"),
        (["a", None], "auto", "Got 1 missing in 'y'"),
        ([np.inf, 1.0], "auto", "Got 1 infinite in 'y'"),
        ([2.5, 2.5], "auto", "a target that varies. Got one value throughout 'y'"),
        ([[1, 2], [1, 3]], "auto", "one value throughout 'y0'"),
        ([1, 1], "classification", "at least two classes. Got one class, 1, in 'y'"),
        ([1, 2, 3], "binary", "two classes for a binary task. Got 3 in 'y'"),
        ([0.5, 1.5], "classification", "Unknown label type: continuous"),
        (np.array(["a", 1], object), "auto", "labels of one type in 'y'. Got 'int', 'str'"),
        ([[0, 1], [1, 0]], "binary", "one column of labels. Got 2"),
        ([f"name {i}" for i in range(60)], "auto", "60 different values.*another target"),
        ([1], "auto", "Got 1 sample"),
    ],
)
def test_bad_targets_are_named(y, task, words):
    with pytest.raises(ValueError, match=words):
        Target.fit(y, task=task)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(FLOATS, st.text(max_size=3), st.booleans()), max_size=9),
    labels=st.sampled_from([st.text(max_size=3), st.integers(), st.booleans(), FLOATS]).flatmap(
        lambda kind: st.lists(kind, min_size=2, max_size=9, unique=True)
    ),
)
def test_json_keeps_everything(rows, labels):
    inputs = Inputs.fit(pd.DataFrame([(1.0, "a", True), (2.0, "b", False), *rows]))
    try:
        both = Preprocessing(inputs, Target.fit(np.array(labels, object)))
    except ValueError:  # numbers too near or too far for a mean and a scale
        reject()
    again = through_json(both)
    assert repr(again) == repr(both)
    assert again == both


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
GOOD = Preprocessing(Inputs.fit(FRAME), Target.fit(["a", "b"])).to_json()
PLACES = [
    (),
    *((part, key) for part in GOOD for key in (*GOOD[part], "more")),
    ("inputs", "columns", 1),
    ("inputs", "columns", 1, "name"),
    ("inputs", "columns", 1, "categories"),
    ("inputs", "scale", 0),
]


@settings(max_examples=200, deadline=None)
@given(place=st.sampled_from(PLACES), value=JSON)
def test_foreign_json_is_a_value_error_or_just_as_good(place, value):
    data = json.loads(json.dumps(GOOD))
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    if place:
        inner[place[-1]] = value
    try:
        read = Preprocessing.from_json(data if place else value)
    except ValueError:
        return
    assert read.to_json() == data


@pytest.mark.parametrize(
    ("part", "key", "value", "words"),
    [
        ("inputs", "scale", [0.0] * 10, "a scale of 10 finite floats"),
        ("inputs", "mean", "0123456789", "mean is '0123456789', not list"),
        ("inputs", "columns", [{"name": "a", "categories": "bc"}], "categories is 'bc', not list"),
        ("target", "classes", ["a", 1], "different classes of one type"),
        ("target", "task", "regression", "no classes for regression"),
        ("target", "more", 1, "it has no 'more'"),
    ],
)
def test_the_error_says_what_is_wrong_with_json(part, key, value, words):
    with pytest.raises(ValueError, match=f"Expected Preprocessing as to_json wrote it.*{words}"):
        Preprocessing.from_json(GOOD | {part: GOOD[part] | {key: value}})


@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1.0, 3e4, 1e300])
def test_predictions_have_the_digits_of_a_float32(scale):
    target = Target(("y",), "regression", mean=(5 * scale,), scale=(scale,))
    output = torch.tensor([[0.1], [1 / 3], [-2.0]])
    told = target.predictions(output)["prediction"]
    np.testing.assert_allclose(told, target.predict(output), rtol=1e-7)
    if scale == 1.0:
        assert told.tolist() == [5.1, 5.33333334, 3.0]
