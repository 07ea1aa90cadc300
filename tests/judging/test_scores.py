"""Scores are those of scikit-learn, and their values are what a jackknife finds."""

import numpy as np
import pytest
import torch
from sklearn import metrics
from sklearn.metrics import make_scorer

from torchsparcs.judging.default_scoring import scoring_for
from torchsparcs.judging.scores import by_row
from torchsparcs.judging.scoring import (
    SCORINGS,
    Scoring,
    recorded_scoring,
    score_settings,
    scoring_of,
)
from torchsparcs.tables.target import Target

ROWS = 400
DRAW = np.random.default_rng(0)
LABELS = {
    "binary": np.where(DRAW.random(ROWS) < 0.2, "yes", "no"),
    "multiclass": DRAW.choice(["a", "b", "c"], ROWS, p=[0.6, 0.3, 0.1]),
}
NUMBERS = 100 + 20 * DRAW.normal(size=ROWS)
WEIGHTS = [np.ones(ROWS), DRAW.choice([0.5, 1.0, 4.0], ROWS)]


def rows_of(task):
    """A target, its rows as the task has them, and what a network might say, with ties."""
    aim = Target.fit(NUMBERS if task == "regression" else LABELS[task])
    true = aim.transform(NUMBERS if task == "regression" else LABELS[task])
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(ROWS, aim.outputs, generator=generator)
    if task == "multiclass":
        hint = torch.nn.functional.one_hot(true, 3)
    else:
        hint = true[:, None] - (task == "binary") / 2
    return aim, true, ((hint + noise) * 4).round() / 4


def by_sklearn(name, task, aim, true, said, weight):
    """The score by scikit-learn, from labels, probabilities and numbers."""
    if task == "regression":
        functions = {
            "r2": metrics.r2_score,
            "mae": lambda *a, **k: -metrics.mean_absolute_error(*a, **k),
            "mape": lambda *a, **k: -metrics.mean_absolute_percentage_error(*a, **k),
            "pinball_0.9": lambda *a, **k: -metrics.mean_pinball_loss(*a, **k, alpha=0.9),
        }
        return functions[name](NUMBERS, aim.predict(said), sample_weight=weight)
    y, shares, labels = true.long().numpy(), aim.probabilities(said), aim.predict(said)
    known = {"y_true": LABELS[task], "y_pred": labels, "sample_weight": weight}
    each = [(y == place, shares[:, place]) for place in range(len(aim.classes))]
    each = each[1:] if task == "binary" else each
    return {
        "accuracy": lambda: metrics.accuracy_score(**known),
        "balanced_accuracy": lambda: metrics.balanced_accuracy_score(**known),
        "log_loss": lambda: -metrics.log_loss(y, shares, sample_weight=weight),
        "f1": lambda: metrics.f1_score(
            **known, **({"pos_label": "yes"} if task == "binary" else {"average": "macro"})
        ),
        "roc_auc": lambda: np.mean([metrics.roc_auc_score(*p, sample_weight=weight) for p in each]),
        "average_precision": lambda: np.mean(
            [metrics.average_precision_score(*p, sample_weight=weight) for p in each]
        ),
    }[name]()


CASES = [
    (name, task)
    for name, row in SCORINGS.items()
    for task in (("binary", "multiclass") if row.is_for_classes else ("regression",))
] + [("pinball_0.9", "regression")]


@pytest.mark.parametrize("weight", WEIGHTS, ids=["even", "weighted"])
@pytest.mark.parametrize(("name", "task"), CASES)
def test_a_score_is_scikit_learns(name, task, weight):
    aim, true, said = rows_of(task)
    share = torch.from_numpy(weight / weight.sum())
    score = scoring_of(name, aim).score(said, true, share)
    assert score == pytest.approx(by_sklearn(name, task, aim, true, said, weight), abs=1e-6)


@pytest.mark.parametrize("weight", WEIGHTS, ids=["even", "weighted"])
@pytest.mark.parametrize(("name", "task"), CASES)
def test_a_value_is_what_a_row_does_to_the_score(name, task, weight):
    """Where it counts a little more, the score moves by its value less the score."""
    aim, true, said = rows_of(task)
    said = said.double()  # so that a little shows
    scoring, share = scoring_of(name, aim), torch.from_numpy(weight / weight.sum())
    values = scoring.values(said, true, share)
    little = 1e-6
    for row in range(0, ROWS, 40):
        more = share * (1 - little)
        more[row] += little
        moved = (scoring.score(said, true, more) - scoring.score(said, true, share)) / little
        if name == "r2":  # of which the spread is taken as known
            continue
        assert moved == pytest.approx((values[row] - share @ values).item(), abs=2e-3)


@pytest.mark.parametrize("name", ["f1_macro", "neg_root_mean_squared_error"])
def test_a_scorer_of_others_is_a_mean_over_parts(name):
    task = "regression" if name.startswith("neg") else "multiclass"
    aim, true, said = rows_of(task)
    scoring, share = scoring_of(name, aim), torch.full((ROWS,), 1 / ROWS, dtype=torch.float64)
    values = scoring.values(said, true, share)
    if task == "regression":
        score = -metrics.root_mean_squared_error(NUMBERS, aim.predict(said))
    else:
        score = metrics.f1_score(LABELS[task], aim.predict(said), average="macro")
    assert scoring.score(said, true, share) == pytest.approx(score)
    assert (share @ values).item() == pytest.approx(score)
    part = scoring.part_of(ROWS)
    assert all(len(values[part == place].unique()) == 1 for place in range(20))
    if task == "multiclass":  # the error is that of the formula, nearly
        known = scoring_of("f1", aim).values(said, true, share)
        error = ((known - score).square().sum().sqrt() / ROWS).item()
        sums = torch.zeros(20, dtype=torch.float64).index_add(0, part, share * (values - score))
        assert sums.square().sum().sqrt().item() == pytest.approx(error, rel=0.5)


def test_a_function_of_ones_own():
    aim, true, said = rows_of("binary")

    def found(y_true, y_pred, sample_weight=None):
        return float(np.average(y_pred == "yes", weights=(y_true == "yes") * 1.0))

    scorer = make_scorer(found)
    scoring = scoring_of(scorer, aim)
    share = torch.full((ROWS,), 1 / ROWS, dtype=torch.float64)
    said_yes = aim.predict(said)[LABELS["binary"] == "yes"] == "yes"
    assert scoring.score(said, true, share) == pytest.approx(said_yes.mean())
    known = recorded_scoring(score_settings(scoring), aim)
    assert (known.label, known.words(0.25)) == ("found", "0.2500")
    with pytest.raises(ValueError, match=r"a function, 'found', which a result does not hold"):
        known.score(said, true, share)
    plain = scoring_of(lambda estimator, X, y: 0.5, aim)
    with pytest.raises(ValueError, match="Expected a scorer that takes sample_weight"):
        plain.score(said, true, torch.from_numpy(WEIGHTS[1] / WEIGHTS[1].sum()))


class TestWhichScore:
    @staticmethod
    def chosen(labels, weight=None, scoring="auto") -> Scoring:
        aim = Target.fit(labels)
        weight = torch.ones(len(labels)) if weight is None else weight
        return scoring_for(scoring, aim, aim.transform(labels), weight, torch.arange(len(labels)))

    def test_a_rare_class_is_not_left_to_accuracy(self):
        rare = ["yes"] * 6 + ["no"] * 94
        assert self.chosen(rare).name == "log_loss"
        assert self.chosen(["yes"] * 12 + ["no"] * 88).name == "accuracy"
        assert self.chosen(["a"] * 45 + ["b"] * 47 + ["c"] * 8).name == "accuracy"
        assert self.chosen(["a"] * 45 + ["b"] * 50 + ["c"] * 5).name == "log_loss"
        assert self.chosen(np.arange(60) / 7).name == "r2"
        heavy = torch.tensor([10.0] * 6 + [1.0] * 94)  # then it is not rare
        assert self.chosen(rare, heavy).name == "accuracy"

    def test_the_best_constant_answer(self):
        rare = ["yes"] * 6 + ["no"] * 94
        entropy = 0.06 * np.log(0.06) + 0.94 * np.log(0.94)
        expected = {"accuracy": 0.94, "log_loss": entropy, "roc_auc": 0.5, "f1": 12 / 106}
        for name, score in expected.items():
            assert self.chosen(rare, scoring=name).constant == pytest.approx(score)
        numbers = np.r_[np.zeros(60), np.full(40, 10.0)] + np.arange(100) / 1e6
        absolute = self.chosen(numbers, scoring="mae")  # of the median
        assert absolute.constant == pytest.approx(-4.0, abs=1e-3)
        assert absolute.unit == -absolute.constant

    def test_bad_ones(self):
        with pytest.raises(ValueError, match=r"scoring for classes, as accuracy, .* Got 'mae'"):
            scoring_of("mae", Target.fit(["a", "b"]))
        with pytest.raises(ValueError, match=r"scoring for numbers, as r2, mae, mape.* Got 'f1'"):
            scoring_of("f1", Target.fit([0.5, 1.5]))
        for bad in ("pinball", "pinball_2", "pinball_x"):
            with pytest.raises(ValueError, match="a level between 0 and 1, as in pinball_0"):
                scoring_of(bad, Target.fit([0.5, 1.5]))
        for bad in ("acuracy", 3, None):
            with pytest.raises(
                ValueError, match=r"Expected a scoring among auto, accuracy, .* Got"
            ):
                scoring_of(bad, Target.fit(["a", "b"]))
        with pytest.raises(ValueError, match="no target may be zero"):
            self.chosen(np.arange(20) / 2, scoring="mape")
        aim = Target.of_outputs("multiclass", 3)
        with pytest.raises(ValueError, match="Expected one answer a row for the scoring 'roc_auc'"):
            scoring_for("roc_auc", aim, torch.zeros(5, 4).long(), torch.ones(5), torch.arange(5))


@pytest.mark.parametrize(
    ("name", "score", "error", "words", "short"),
    [
        ("accuracy", 0.97051, 0.004, "97.05 % ± 0.40", "97.1 % ± 0.4"),
        ("log_loss", -0.17, 0.012, "0.1700 ± 0.0120", "0.1700 ± 0.0120"),
        ("roc_auc", 0.5, None, "0.5000", "0.5000"),
        ("r2", float("nan"), 0.1, "–", "–"),
        ("mae", -12345.6, 78.9, "12,346 ± 79", "12,346 ± 79"),
        ("mae", -0.01234567, None, "0.01235", "0.01235"),
        ("mape", -0.0525, float("nan"), "5.25 %", "5.2 %"),
    ],
)
def test_how_it_is_written(name, score, error, words, short):
    aim = Target.fit(["a", "b"] if SCORINGS[name].is_for_classes else [0.5, 1.5])
    scoring = scoring_of(name, aim)
    assert scoring.words(score, error) == words
    assert scoring.words(score, error, short=True) == short
    assert scoring.is_loss is (name in ("log_loss", "mae", "mape"))


def test_numbers_of_a_row_are_averaged():
    assert by_row(torch.tensor([[1.0, 3.0], [2.0, 2.0]])).tolist() == [2.0, 2.0]
