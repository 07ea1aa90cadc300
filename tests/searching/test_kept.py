"""What a search remembers to have kept of its teacher, on the rows that judged."""

import numpy as np
import pytest
from rich.console import Console
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from torchsparcs import SearchConfig, load_result, search
from torchsparcs.command.console import print_front
from torchsparcs.report.page import page_of
from torchsparcs.results.fidelity import SEEN

ROWS = 150
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(ROWS, 3))
SIDES = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
SOME = np.where(DRAW.random(ROWS) < 0.2, "up", SIDES)
NOISE = DRAW.integers(0, 2, ROWS)
KINK = np.abs(X[:, 0]) + X[:, 1]
QUICK = {
    "config": SearchConfig(steps=20, longest=20, path=1, ways=("asleep",), shrink=0.3),
    "widths": (8,),
    "validation": 2,
    "progress": False,
}


def told(result, folder):
    console = Console(record=True, width=1000, quiet=True)
    console.quiet = False
    with console.capture() as captured:
        print_front(console, result, "smallest", folder)
    return captured.get()


@pytest.mark.parametrize("validation", [2, "2x2", 0.3])
def test_of_classes_it_is_told_on_the_rows_that_gave_the_score(validation):
    model = LogisticRegression().fit(X, SIDES)
    options = {**QUICK, "validation": validation, "scoring": "accuracy"}
    result = search(X, SIDES, teacher=model, **options)
    kept, picked = result.settings["fidelity"], result.smallest()
    assert kept["rows"] == result.settings["judged_rows"]
    assert (kept["parameters"], kept["teacher"]) == (picked.parameters, "LogisticRegression")
    if validation != "2x2":  # there each row judges twice
        assert kept["score"] == pytest.approx(picked.score)
    if validation != 0.3:
        assert kept["teacher_score"] == pytest.approx(model.score(X, SIDES))
    assert kept["agreement"] > 0.9
    assert kept["correlation"] > 0.9
    assert 0 <= kept["divergence"] < 0.5


@pytest.mark.parametrize(
    "weights", [{"class_weight": {"up": 5}}, {"sample_weight": 1 + 9 * (X[:, 2] > 0)}]
)
def test_rows_count_as_they_do_for_the_score(weights):
    result = search(
        X, SOME, teacher=LogisticRegression().fit(X, SIDES), scoring="accuracy", **weights, **QUICK
    )
    assert result.settings["fidelity"]["score"] == pytest.approx(result.smallest().score)


def test_of_numbers_too():
    result = search(X, KINK, teacher=LinearRegression().fit(X, KINK), scoring="r2", **QUICK)
    kept = result.settings["fidelity"]
    assert kept["score"] == pytest.approx(result.smallest().score, abs=1e-5)
    assert kept["teacher_score"] == pytest.approx(LinearRegression().fit(X, KINK).score(X, KINK))
    assert kept["agreement"] == kept["correlation"] > 0.5


def test_a_teacher_that_has_seen_the_rows_is_flattered_and_said_to_be(tmp_path):
    """One that knows labels by heart, which are noise."""
    memory = KNeighborsClassifier(1)
    fitted = search(X, NOISE, teacher_fit=memory, **QUICK)
    assert fitted.settings["fidelity"]["teacher_score"] < 0.65
    given = search(X, NOISE, teacher=memory.fit(X, NOISE), **QUICK)
    assert given.settings["fidelity"]["teacher_score"] == 1
    for result, is_seen in ((fitted, False), (given, True)):
        assert (SEEN in told(result, tmp_path)) == is_seen
        assert (SEEN in page_of(result)) == is_seen


def test_it_travels_through_the_folder_to_page_and_terminal(tmp_path):
    result = search(X, SIDES, teacher=LogisticRegression().fit(X, SIDES), **QUICK)
    result.save(tmp_path / "run")
    again = load_result(tmp_path / "run")
    kept = again.settings["fidelity"]
    assert kept == result.settings["fidelity"]
    page = page_of(again)
    assert f"{100 * kept['agreement']:.1f} % the class that LogisticRegression gives" in page
    assert "each answered by networks made like it that had not seen it" in page
    assert f"<td>{kept['teacher_score']:.4f}</td>" in page
    assert "disagree most" not in page
    assert "µs for one row" not in page
    line = f"Agreement with LogisticRegression on 150 rows of the folds: {kept['agreement']:.4f}; "
    assert f"{line}score {kept['score']:.4f}, the teacher's" in told(again, tmp_path)


def test_without_a_target_there_is_no_score_to_tell(tmp_path):
    result = search(X, teacher=LogisticRegression().fit(X, SIDES), **QUICK)
    kept = result.settings["fidelity"]
    assert (kept["score"], kept["teacher_score"]) == (None, None)
    assert kept["agreement"] > 0.9
    assert "score against the labels" not in page_of(result)
    assert "the teacher's" not in told(result, tmp_path)
    assert SEEN not in told(result, tmp_path) + page_of(result)


def test_without_a_teacher_there_is_nothing(tmp_path):
    result = search(X, SIDES, **QUICK)
    assert "fidelity" not in result.settings
    assert "greement" not in told(result, tmp_path)
    assert 'id="fidelity"' not in page_of(result)
