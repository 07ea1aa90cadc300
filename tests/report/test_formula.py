"""Small networks as formulas and as controls: what is written says what the network says."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
import torch
from reports import small_result

from torchsparcs import CompactNetwork
from torchsparcs.export.folding import table_program
from torchsparcs.report.formula import formula_of
from torchsparcs.report.trying import MOST_PARAMETERS, controls_of, programs_of, running
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

ROWS = 60
DRAW = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "year": DRAW.integers(1995, 2010, ROWS),
        "town": DRAW.choice(["Rome", "Oslo", "Bonn"], ROWS),
        "smokes": DRAW.choice(["no", "yes"], ROWS),
        "income": np.where(np.arange(ROWS) % 5 == 0, np.nan, DRAW.uniform(1e4, 9e4, ROWS)),
    }
)


def preprocessed(y):
    return Preprocessing(Inputs.fit(FRAME), Target.fit(pd.Series(y, name="price")))


def network_for(preprocessing, outputs=1):
    torch.manual_seed(0)
    width = len(preprocessing.inputs.encoded_names)
    return CompactNetwork([width, 2, outputs], [(1, 0), (2, 0), (2, 1)])


def evaluated(lines, row):
    """The formula read as a person would, for one row of the table."""
    known = {"income": 0.0 if pd.isna(row["income"]) else row["income"], "year": row["year"]}
    for line in lines:
        name, _, text = line.partition(" = ")
        text = re.sub(r"(?<=\d),(?=\d{3})", "", text).replace("−", "-").replace("·", "*")
        for column in ("town", "smokes"):
            text = re.sub(rf"\[{column} = (\w+)\]", lambda m, c=column: str(int(row[c] == m[1])),
                          text)  # fmt: skip
        text = text.replace("[income is missing]", str(int(pd.isna(row["income"]))))
        known[name] = eval(text, {"max": max}, known)
    return list(known.values())[-1]


def test_a_formula_says_what_the_network_says():
    preprocessing = preprocessed(DRAW.normal(500, 40, ROWS))
    network = network_for(preprocessing)
    lines = formula_of(table_program(network, preprocessing), preprocessing.inputs.scale)
    assert [line.split(" = ")[0] for line in lines] == ["h1", "h2", "price"]
    full = FRAME[FRAME["income"].notna()]
    with torch.no_grad():
        said = preprocessing.target.predict(network(preprocessing.inputs.transform(full)))
    read = [evaluated(lines, row) for _, row in full.iterrows()]
    assert np.allclose(read, said, atol=0.01 * np.std(said))
    assert np.std(said) > 1


def test_of_classes_it_is_evidence():
    preprocessing = preprocessed(DRAW.choice(["good", "bad"], ROWS))
    program = table_program(network_for(preprocessing), preprocessing)
    (line,) = formula_of(program, preprocessing.inputs.scale)[2:]
    assert line.startswith("evidence for good = ")
    three = preprocessed(DRAW.choice(["a", "b", "c"], ROWS))
    lines = formula_of(table_program(network_for(three, 3), three), three.inputs.scale)
    assert [line.split(" = ")[0] for line in lines[2:]] == [f"evidence for {c}" for c in "abc"]


def test_a_control_for_each_number_a_network_takes():
    preprocessing = preprocessed(DRAW.normal(500, 40, ROWS))
    small = small_result("regression")
    settings = {**small.settings, "ranges": {"year": [1995.0, 2009.0, 1.0]}}
    found = dataclasses.replace(small.best(), network=network_for(preprocessing))
    result = dataclasses.replace(
        small, front=(found,), preprocessing=preprocessing, settings=settings
    )
    (program,) = programs_of(result, [found])
    controls = {control["field"]: control for control in controls_of(result, [program])}
    assert list(controls) == ["year", "town", "smokes", "income"]
    year = controls["year"]
    assert (year["low"], year["high"], year["step"]) == (1995, 2009, 1)
    assert year["start"] == round(FRAME["year"].mean())
    assert controls["town"]["texts"] == ["Bonn", "Oslo", "Rome"]
    usual = FRAME["town"].value_counts().idxmax()
    assert controls["town"]["texts"][controls["town"]["start"]] == usual
    assert controls["smokes"]["values"] == [0, 1]
    assert controls["income"]["may_be_missing"]
    income = FRAME["income"]
    assert controls["income"]["low"] < income.mean() < controls["income"]["high"]
    ran = running(program, list(controls.values()))
    assert ran["fields"] == [list(controls).index(field.name) for field in program.fields]
    wide = CompactNetwork([len(preprocessing.inputs.encoded_names), MOST_PARAMETERS, 1],
                          [(1, 0), (2, 1)])  # fmt: skip
    assert programs_of(result, [dataclasses.replace(found, network=wide)]) == [None]


@pytest.mark.parametrize("centre", [0.0, 1e5])
def test_a_column_far_from_zero_has_more_digits(centre):
    frame = pd.DataFrame({"n": centre + np.arange(10.0)})
    preprocessing = Preprocessing(Inputs.fit(frame), Target.fit(np.arange(10.0)))
    network = CompactNetwork([1, 1], [(1, 0)])
    (line,) = formula_of(table_program(network, preprocessing), preprocessing.inputs.scale)
    digits = len(re.sub(r"\D|^0\.0*", "", line.split(" ")[-1].partition("·")[0].lstrip("0.")))
    assert (digits > 5) == (centre > 0)
