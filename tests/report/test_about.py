"""What a front was found with: summaries, never rows."""

import dataclasses
import json

import pandas as pd
import pytest
from reports import COLUMN, X, chain_result, small_result

import torchsparcs.judging.judgement
import torchsparcs.report
from torchsparcs import CompactNetwork
from torchsparcs.report import facts_of
from torchsparcs.report.columns import columns_of
from torchsparcs.report.wording import columns_words
from torchsparcs.tables.preprocessing import Inputs


def test_columns_and_where_their_encoded_ones_are():
    frame = pd.DataFrame({"t": ["a", "b", "c"] * 2, "k": [1.0] * 6, "n": range(6)})
    inputs = Inputs.fit(frame, None)
    small = small_result("binary")
    preprocessing = dataclasses.replace(small.preprocessing, inputs=inputs)
    result = replaced(small, preprocessing)
    network = CompactNetwork([4, 1], [(1, 0)], reads=(3,))
    other = CompactNetwork([4, 1], [(1, 0)], reads=(0, 3))
    pair = [dataclasses.replace(small.best(), network=each) for each in (network, other)]
    result = dataclasses.replace(result, front=tuple(pair))
    assert columns_of(result)["rows"] == [  # by the smallest network that reads them
        ["n", "number, 2.5 ± 1.708", 3, 4, 2, None, None],
        ["t", "text, 3 categories", 0, 3, 3, None, None],
        ["k", "constant, left out", 3, 3, None, None, None],
    ]
    known = {**result.settings, "relevance": {"n": 1.0, "t": 0.25}}
    asked = dataclasses.replace(result, settings=known)
    assert [row[-1] for row in columns_of(asked)["rows"]] == [1.0, 0.25, None]
    asked = dataclasses.replace(result, settings={**known, "worth": {"n": 0.01, "t": 0.2}})
    assert [row[0] for row in columns_of(asked)["rows"]] == ["t", "n", "k"]
    network = CompactNetwork([4, 1], [(1, 0)], reads=(0, 1))
    candidate = dataclasses.replace(small.best(), network=network)
    assert columns_words(result, candidate) == "on 1 of 3 columns"


def test_what_the_data_decided_is_in_a_sentence():
    frame = pd.DataFrame(
        {
            "paid": ["€ 1.250,50", "€ 3", "€ 7", "€ 9"] * 15,
            "met": ["31.1.2024", "1.2.2024", "3.2.2024", "4.3.2024"] * 15,
            "size": ["S", "M", "L", "S"] * 15,
            "name": [f"name {chr(65 + i)}" for i in range(60)],
        }
    )
    with pytest.warns(UserWarning, match="Left out"):
        inputs = Inputs.fit(frame, kinds={"size": ["S", "M", "L"]})
    small = small_result("binary")
    preprocessing = dataclasses.replace(small.preprocessing, inputs=inputs)
    words = {row[0]: row[1] for row in columns_of(replaced(small, preprocessing))["rows"]}
    assert words["paid"].endswith("€, written with a decimal comma")
    assert words["met"].startswith("date, the day first, ")
    assert [words["size"], words["name"]] == [
        "3 ordered categories, as was asked for",
        "text that hardly repeats, left out",
    ]


def test_what_the_data_decided_and_what_forces_it():
    frame = pd.DataFrame({"a": [1.0, None, 3.0] * 20, "k": [7] * 60, "t": ["x", "y", "z"] * 20})
    small = small_result("binary")
    inputs = Inputs.fit(frame, kinds={"t": "text"})
    result = replaced(small, dataclasses.replace(small.preprocessing, inputs=inputs))
    sections = {
        part["title"]: dict(part["facts"]) for part in torchsparcs.report.about.about(result)
    }
    said = sections["What the data decided"]
    assert said["task"] == "The target is taken as 2 classes; --task changes that."
    assert said["columns"].startswith("1 of 3 columns are of the kind that was asked for")
    assert said["left out"].startswith("k (one value): nothing can be learnt")
    assert said["gaps"].startswith("1 column had missing values")
    assert "--scoring" in said["score"]
    assert "--validation" in said["validation"]
    assert "--widths and --steps" in said["training"]
    assert "--no-calibration" in said["probabilities"]
    assert "sample" not in said
    large = {**result.settings, "rows": 40_000, "rows_searched": 15_000}
    parts = torchsparcs.report.about.about(dataclasses.replace(result, settings=large))
    (said,) = [dict(part["facts"]) for part in parts if part["title"] == "What the data decided"]
    assert said["sample"].startswith("15,000 of the rows; ")
    assert said["sample"].endswith("--sample N chooses how many.")


def test_how_text_was_read_is_said():
    frame = pd.DataFrame(
        {
            "paid": [f"{i},5 €" for i in range(120)],
            "met": [f"{1 + i % 28}.1.2024" for i in range(120)],
            "age": ["?", *map(str, range(119))],
            "street": [f"s{i if i < 40 else i % 8}" for i in range(120)],
            "key": [f"k{chr(65 + i)}" for i in range(120)],
            "zip": [f"{i % 9}" for i in range(120)],
        }
    )
    with pytest.warns(UserWarning, match=r"nearly all others|Left out"):
        inputs = Inputs.fit(frame, kinds={"zip": "text"})
    small = small_result("binary")
    settings = {**small.settings, "rows_without_target": 4}
    small = dataclasses.replace(small, settings=settings)
    result = replaced(small, dataclasses.replace(small.preprocessing, inputs=inputs))
    parts = torchsparcs.report.about.about(result)
    (said,) = [dict(part["facts"]) for part in parts if part["title"] == "What the data decided"]
    assert said["rows"] == "4 rows without a target left out."
    assert said["columns"].startswith("1 of 6 columns are of the kind that was asked for")
    assert said["text as numbers"].startswith("paid (decimal comma): read as numbers; --kind")
    assert said["text as dates"].startswith("met (the day first): read as dates; --kind")
    assert said["as if missing"].startswith("age (like ?): what is no number")
    assert said["rare texts"].startswith("street (all but 8): texts that count as")
    assert said["left out"].startswith("key (text that hardly repeats): nothing")


def replaced(result, preprocessing):
    return dataclasses.replace(result, preprocessing=preprocessing)


def test_summaries_but_no_rows(result):
    settings = facts_of(result)
    about = {section["title"]: dict(section["facts"]) for section in settings["about"]}
    assert about["Data"]["rows"] == "150"
    assert about["Search"]["seed"] == str(result.settings["seed"])
    assert about["Settings"]["steps of a training, at least"] == "60"
    epochs = result.history.epochs
    assert about["Settings"]["trained"] == f"{epochs:,} epochs really run"
    assert [name for name, _ in settings["about"][-1]["facts"]] == [
        "torchsparcs", "python", "torch", "hardware", "device", "wall time",
    ]  # fmt: skip
    assert about["Made with"]["torchsparcs"] == torchsparcs.__version__
    assert COLUMN in [row[0] for row in settings["columns"]["rows"]]
    text = json.dumps(settings)
    assert not any(repr(value) in text for value in X["c"])


def test_what_a_network_has_not_is_left_out():
    about = {part["title"]: dict(part["facts"]) for part in facts_of(chain_result())["about"]}
    assert list(about["Data"]) == ["rows", "row", "judged on", "judged by", "target", "classes"]
    assert about["Data"]["row"] == "1 × 6 × 6 inputs"
    assert about["Search"] == {
        "widths allowed": "1 → 6 → 8 → 3",
        "activation": "relu",
        "budget": "none",
        "seed": "3",
    }
    assert about["Settings"] == {
        "trained": "2 epochs really run",
        "epochs, as asked for": "2",
        "learning rate": "0.001",
    }
    data = dict(facts_of(chain_result("regression"))["about"][0]["facts"])
    assert data["target"] == "y"  # whose mean and scale nobody knows
