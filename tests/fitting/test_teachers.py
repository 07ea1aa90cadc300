"""Teachers of any form say the same; bad ones are told; their pupils learn from them."""

import json
import math
from dataclasses import replace

import numpy as np
import onnx
import pandas as pd
import pytest
import torch
from rich.console import Console
from shell import sparcs
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from torch import nn

from torchsparcs import (
    CompactNetwork,
    SearchConfig,
    SparcsClassifier,
    SparcsRegressor,
    load_result,
    search,
    to_onnx,
)
from torchsparcs.command.jobs import Job
from torchsparcs.compact.direct import DirectSpace
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.fitting.fit_rows import FitRows, Recipe
from torchsparcs.fitting.folded import FoldedData
from torchsparcs.fitting.lesson import Lesson
from torchsparcs.fitting.teachers import Teacher, labels_of
from torchsparcs.report.page import page_of
from torchsparcs.searching.refitted_teachers import lesson_of
from torchsparcs.tables.made_rows import made_rows
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target
from torchsparcs.training.deadline import NEVER

ROWS = 150
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(ROWS, 3)).astype(np.float32).astype(float)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
SIDES = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
KINK = np.abs(X[:, 0]) + 7
WISE, OF_THREE = (LogisticRegression(C=100).fit(X, labels) for labels in (SIDES, THREE))
QUICK = {
    "config": SearchConfig(steps=20, longest=20, path=1, ways=("asleep",), shrink=0.3),
    "widths": (8,),
    "validation": 2,
    "progress": False,
}


def network_of(model):
    """A linear model of scikit-learn's as a network."""
    network = CompactNetwork([3, 1], [(1, 0)])
    with torch.no_grad():
        network.block(1, 0).weight.copy_(torch.from_numpy(model.coef_))
        network.block(1, 0).bias.copy_(torch.from_numpy(model.intercept_))
    return network


def table_in(folder):
    path = folder / "t.csv"
    FRAME.assign(target=SIDES).to_csv(path, index=False)
    return path


def file_in(folder):
    """WISE, as a file that takes a matrix."""
    inputs = Inputs(tuple(Inputs.fit(X).columns), (0.0,) * 3, (1.0,) * 3)
    deployed = DeployedNetwork(network_of(WISE), Preprocessing(inputs, Target.fit(SIDES)))
    to_onnx(deployed, folder / "matrix.onnx", encoded=True)
    return folder / "matrix.onnx"


class TestForms:
    def test_an_estimator_a_function_a_module_and_a_file_say_the_same(self, tmp_path):
        target, network = Target.fit(SIDES), network_of(WISE)
        expected = torch.from_numpy(WISE.predict_proba(X)[:, 1:]).float()
        for form in (WISE, WISE.predict_proba, network, file_in(tmp_path)):
            said = Teacher(form, target).answers(X)
            torch.testing.assert_close(said, expected, rtol=1e-4, atol=1e-5)

    def test_a_file_by_the_names_of_columns(self, tmp_path):
        result = search(FRAME, SIDES, **QUICK)
        to_onnx(result.deployed("linear"), tmp_path / "columns.onnx")
        said = Teacher(str(tmp_path / "columns.onnx"), result.target).answers(
            FRAME[["c", "b", "a"]]
        )
        np.testing.assert_allclose(
            said[:, 0], result.predict_proba(FRAME, "linear")[:, 1], atol=1e-5
        )

    def test_a_file_that_takes_dates_and_text(self, tmp_path):
        days = pd.date_range("2024-01-01", periods=ROWS, freq="7h")
        frame = FRAME.assign(day=days, city=np.where(SIDES == "up", "Rome", "Oslo"))
        result = search(frame, np.arange(ROWS) * 1.5 + (SIDES == "up"), **QUICK)
        to_onnx(result.deployed("linear"), tmp_path / "dated.onnx")
        said = Teacher(tmp_path / "dated.onnx", result.target).answers(frame)
        np.testing.assert_allclose(
            result.target.predict(said), result.predict(frame, "linear"), rtol=1e-4
        )

    def test_a_module_gets_its_modes_back(self):
        module = nn.Sequential(nn.Linear(3, 1), nn.Dropout())
        module[1].eval()
        Teacher(module, Target.fit(KINK)).answers(X)
        assert (module.training, module[1].training) == (True, False)

    def test_classes_are_in_the_order_of_the_target(self):
        class Turned:
            classes_ = ("up", "down")

            def predict_proba(self, X):
                return np.tile([0.9, 0.1], (len(X), 1))

        assert Teacher(Turned(), Target.fit(SIDES)).answers(X)[0].item() == pytest.approx(0.9)

    def test_estimators_and_the_command_take_one(self, tmp_path):
        """Fitted by names of columns, which an estimator of ours does not pass on."""
        model = LogisticRegression().fit(FRAME, SIDES)
        options = {key: QUICK[key] for key in ("widths", "validation")}
        pupil = SparcsClassifier(steps=20, teacher=model, random_state=0, **options)
        assert pupil.fit(FRAME, SIDES).score(FRAME, SIDES) > 0.9
        assert pupil.result_.settings["teacher"] == "LogisticRegression"
        to_onnx(pupil.result_.deployed(), tmp_path / "model.onnx")
        FRAME.assign(target=SIDES).to_csv(tmp_path / "t.csv", index=False)
        run = sparcs(
            "search",
            tmp_path / "t.csv",
            "--teacher",
            tmp_path / "model.onnx",
            "--steps",
            20,
            "--widths",
            8,
            "--out",
            tmp_path / "run",
        )
        assert run.code == 0, run
        assert load_result(tmp_path / "run").settings["teacher"] == "model.onnx"
        with pytest.raises(ValueError, match=r"of the classes down, up\. Got 0, 1, 2"):
            pupil.set_params(teacher=LogisticRegression().fit(FRAME, THREE)).fit(FRAME, SIDES)
        none = sparcs("search", tmp_path / "t.csv", "--teacher", tmp_path / "none.onnx")
        assert (none.code, "There is none at" in none.err) == (1, True)

    def test_values_are_standardised(self):
        model, target = LinearRegression().fit(X, KINK), Target.fit(KINK)
        said = Teacher(model, target).answers(X)
        np.testing.assert_allclose(target.in_units(said)[:, 0], model.predict(X), rtol=1e-5)

    def test_labels_stand_for_a_target_that_is_not_there(self):
        model = LogisticRegression().fit(X, THREE)
        assert (labels_of(model, X) == model.predict(X)).all()
        said = labels_of(model.predict_proba, X, "classification")
        assert (said == model.predict(X)).all()
        assert labels_of(lambda X: X[:, 0] > 0.5, X).dtype == bool
        with pytest.raises(ValueError, match="Expected a task, classification or regression"):
            labels_of(model.predict_proba, X)
        assert labels_of(lambda X: X[:, :1] * 2.5, X).tolist() == (X[:, 0] * 2.5).tolist()


class TestBadOnes:
    @pytest.mark.parametrize(
        ("teacher", "y", "words"),
        [
            (3, SIDES, "Expected a teacher: a fitted estimator.*Got int"),
            ("none.onnx", SIDES, "There is none at none.onnx"),
            (LinearSVC().fit(X, SIDES), SIDES, "predict_proba. LinearSVC has predict alone"),
            (LogisticRegression(), SIDES, "LogisticRegression ended with NotFittedError"),
            (LogisticRegression().fit(X[:, :2], SIDES), SIDES, "ended with ValueError.*2 features"),
            (LogisticRegression().fit(X, THREE), SIDES, "classes down, up. Got 0, 1, 2"),
            (lambda X: np.full((len(X), 3), 1 / 3), SIDES, r"2 classes.*shape \(20, 3\)"),
            (lambda X: np.full((len(X), 2), 0.7), SIDES, "add up to one, from <lambda>"),
            (lambda X: X[:, 0] + 9, SIDES, r"none below zero.*Got \[-\d+\.\d+, 1\d\.\d+\]"),
            (lambda X: WISE.predict_proba(X)[:, ::-1], SIDES, "<lambda> are of up, down"),
            (lambda X: OF_THREE.predict_proba(X)[:, [1, 2, 0]], THREE, "0, 1, 2 in this order"),
            (WISE, KINK, "Expected numbers from LogisticRegression. Got '(up|down)'"),
            (lambda X: X[:, 0] * np.nan, KINK, "Got 20 that are not, the first in row 0"),
            (lambda X: ["a"] * len(X), KINK, "Expected numbers from <lambda>. Got 'a'"),
            (lambda X: DRAW.random(len(X)), KINK, "same answers again. <lambda> changed them"),
            (lambda X: 3.0, KINK, r"1 outputs for each of 20 rows.*shape \(1, 1\)"),
            (nn.Linear(2, 1), KINK, "Linear ended with RuntimeError"),
        ],
    )
    def test_are_told_before_anything_is_done(self, teacher, y, words):
        with pytest.raises(ValueError, match=words):
            search(X, y, teacher=teacher, **QUICK)

    def test_one_of_noise_is_in_no_other_order(self):
        """Whatever it says fits the labels of some other classes, but not for sure."""
        teacher = Teacher(WISE, Target.fit(SIDES))
        for seed in range(20):
            noise = np.random.default_rng(seed).choice(["up", "down"], ROWS)
            teacher.check_order(teacher.answers(X), noise)
        rare = np.where(SIDES == "up", np.where(np.arange(ROWS) % 9, "down", "up"), SIDES)
        teacher.check_order(teacher.answers(X), rare)

    def test_in_another_order_fidelity_is_not_told(self):
        result = search(X, SIDES, **QUICK)
        with pytest.raises(ValueError, match="Expected probabilities of down, up in this order"):
            result.fidelity(lambda X: WISE.predict_proba(X)[:, ::-1], X, SIDES)

    def test_a_file_of_classes_where_the_target_is_of_numbers(self, tmp_path):
        """Labels come first in files that are made of scikit-learn's models."""
        given = onnx.helper.make_tensor_value_info("input", onnx.TensorProto.FLOAT, [None, 3])
        put_out = [
            onnx.helper.make_tensor_value_info("label", onnx.TensorProto.INT64, [None]),
            onnx.helper.make_tensor_value_info("chances", onnx.TensorProto.FLOAT, [None, 3]),
        ]
        nodes = [
            onnx.helper.make_node("Softmax", ["input"], ["chances"], axis=1),
            onnx.helper.make_node("ArgMax", ["chances"], ["label"], axis=1, keepdims=0),
        ]
        graph = onnx.helper.make_graph(nodes, "classes", [given], put_out)
        opset = [onnx.helper.make_opsetid("", 18)]
        model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
        onnx.save(model, tmp_path / "classes.onnx")
        said = Teacher(tmp_path / "classes.onnx", Target.fit(THREE)).answers(X)
        assert said.numpy() == pytest.approx(torch.from_numpy(X).softmax(dim=1).numpy(), abs=1e-6)
        with pytest.raises(ValueError, match="puts out labels of classes, the target is of num"):
            search(X, KINK, teacher=tmp_path / "classes.onnx", **QUICK)

    def test_a_damaged_file(self, tmp_path):
        (tmp_path / "bad.onnx").write_bytes(b"nothing")
        with pytest.raises(ValueError, match=r"Expected an ONNX file as the teacher\. bad\.onnx"):
            search(X, SIDES, teacher=tmp_path / "bad.onnx", **QUICK)

    def test_extra_rows_need_one(self):
        with pytest.raises(ValueError, match="Expected a teacher for extra_rows"):
            search(X, SIDES, extra_rows=X, **QUICK)

    @pytest.mark.parametrize(
        ("extra", "words"),
        [
            (FRAME[["a", "b"]], "with the columns of the table. Missing: 'c d'"),
            (X, "extra rows as a DataFrame, as X is. Got ndarray"),
        ],
    )
    def test_extra_rows_of_other_columns(self, extra, words):
        with pytest.raises(ValueError, match=words):
            search(SPACED, KINK, teacher=ByPlaces(), extra_rows=extra, **QUICK)


class ByPlaces:
    """Takes columns by their places, whatever they are called, as LightGBM does."""

    feature_name_ = feature_names_in_ = ("a", "b", "c_d")

    def predict(self, X):
        return X.to_numpy() @ [1.0, 10.0, 100.0]


SPACED = FRAME.rename(columns={"c": "c d"})


class TestColumns:
    def test_are_taken_by_their_names(self):
        target = Target.fit(KINK)
        said = Teacher(ByPlaces(), target).answers(SPACED)
        others = SPACED.assign(more=0.0)[["more", "c d", "a", "b"]]
        assert torch.equal(Teacher(ByPlaces(), target).answers(others), said)

    def test_others_are_told(self):
        with pytest.raises(ValueError, match="fitted to 'a', 'b', 'c_d', the table has 'a', 'b'"):
            search(FRAME, KINK, teacher=ByPlaces(), **QUICK)

    def test_extra_rows_come_as_those_of_the_table(self):
        """In any order, with others beside them, and categories as text."""
        frame = FRAME.assign(city=pd.Categorical(np.where(SIDES == "up", "Rome", "Oslo")))
        asked = []
        teacher = Teacher(lambda X: asked.append(X) or X["a"].to_numpy(), Target.fit(KINK))
        extra = frame.assign(y=1, city=frame["city"].astype(str)).iloc[:7, ::-1]
        preprocessing = Preprocessing(Inputs.fit(frame), teacher.target)
        lesson = Lesson.of(teacher, preprocessing, frame, KINK, extra, 0)
        pd.testing.assert_frame_equal(asked[-1], frame[:7])
        assert torch.equal(lesson.inputs[-7:], preprocessing.inputs.transform(frame[:7]))


class TestMadeRows:
    def test_lie_between_two_rows_of_a_kind(self):
        days = pd.date_range("2024-01-01", periods=ROWS, tz="Europe/Oslo")
        frame = FRAME.assign(
            day=days,
            city=DRAW.choice(["Rome", "Oslo"], ROWS),
            whole=DRAW.integers(0, 9, ROWS),
            grade=DRAW.integers(0, 4, ROWS) / 3,
        )
        made, base, partner = made_rows(frame, X, THREE, 400, 0)
        assert (made.dtypes == frame.dtypes).all()
        assert (THREE[base] == THREE[partner]).all()
        assert (base != partner).all()
        low, high = np.minimum(X[base], X[partner]), np.maximum(X[base], X[partner])
        numbers = made[["a", "b", "c"]].to_numpy()
        assert ((numbers >= low - 1e-9) & (numbers <= high + 1e-9)).all()
        for name in ("city", "whole", "day", "grade"):
            one, other = (frame[name].iloc[rows].to_numpy() for rows in (base, partner))
            assert ((one == made[name].to_numpy()) | (other == made[name].to_numpy())).all()
        nearer = np.linalg.norm(X[base] - X[partner], axis=1).mean()
        assert nearer < 0.7 * np.linalg.norm(X[base] - X[DRAW.permutation(base)], axis=1).mean()

    def test_of_rows_that_judge_count_for_nobody_they_judge(self):
        teacher = Teacher(lambda X: np.abs(X[:, 0]), Target.fit(KINK))
        preprocessing = Preprocessing(Inputs.fit(X), teacher.target)
        lesson = Lesson.of(teacher, preprocessing, X, KINK, X[:5] * 0.5, 0)
        fitted = torch.ones(2, ROWS)
        fitted[0, ::2] = 0
        weights = lesson.weights(fitted)
        seen = (lesson.parents % 2 == 1) | (lesson.parents < 0)
        assert ((weights[0] > 0) == seen.all(dim=1)).all()
        assert weights.sum(dim=1).tolist() == pytest.approx(fitted.sum(dim=1).tolist())
        some = lesson.at(torch.arange(0, ROWS, 3))
        assert len(some.said) == ROWS / 3
        assert (some.parents < ROWS / 3).all()
        assert (some.inputs[-5:] == lesson.inputs[-5:]).all()  # those of nobody are everybody's


class TestTeaching:
    def test_networks_learn_what_the_teacher_says_as_far_as_recipes_say(self):
        """Labels are drawn, so that all a network knows of the teacher comes from its answers."""
        drawn = np.random.default_rng(3).permutation(SIDES)
        preprocessing = Preprocessing(Inputs.fit(X), Target.fit(drawn))
        folded = FoldedData.of(preprocessing, X, drawn, None, validation=2, seed=0)
        lesson = lesson_of(WISE, None, folded, preprocessing, (X, drawn), None, 0)
        rows = FitRows.of(folded.taught(lesson), 0)
        little = torch.full((1, 3), 0.01, dtype=torch.float64)
        line = DirectSpace(little, little[:, 0], torch.zeros(0, dtype=torch.long), "relu")
        said = WISE.predict(X) == "up"

        def agreement(taught, made, rows=rows):
            recipe, fits = Recipe(1e-4, taught, made), slice(0, rows.fits)
            (group,) = rows.fitted([line] * rows.fits, [recipe], 50, fits, NEVER)
            inputs = preprocessing.inputs.transform(X).double()
            each = [(inputs @ one.weights[0] + one.bias[0] > 0).numpy() == said for one in group]
            return np.mean(each)

        assert agreement(0, 0) < 0.75
        assert agreement(1, 0) > 0.95
        assert agreement(0.5, 0) > agreement(0, 0)
        mute = replace(rows, lessons=rows.targets.reshape(-1, 1).expand(rows.fits, -1, 1))
        assert agreement(0.5, 4, mute) > 0.9  # what was made for it says the same

    def test_an_estimator_and_the_command_are_taught(self, tmp_path, monkeypatch):
        """What they hand over is what a search is taught by."""
        lessons = []

        def seen(self, lesson):
            lessons.append(lesson)
            return self

        monkeypatch.setattr(FoldedData, "taught", seen)
        options = {"steps": 20, "widths": (8,), "validation": 2, "random_state": 0}
        SparcsClassifier(teacher=WISE, **options).fit(X, SIDES)
        SparcsClassifier(teacher_fit=LogisticRegression(C=100), **options).fit(X, SIDES)
        Job(
            str(table_in(tmp_path)),
            teacher=str(file_in(tmp_path)),
            extra_rows=str(tmp_path / "t.csv"),
            steps=20,
            widths=(8,),
        ).run(tmp_path, Console(quiet=True), resume=False)
        expected = WISE.predict_proba(X)[:, 1]
        given, fitted, commanded = (lesson.said[..., :ROWS, 0].numpy() for lesson in lessons)
        for said in (given, commanded):
            assert np.sort(said) == pytest.approx(np.sort(expected), abs=1e-4)
        assert fitted.shape == (3, ROWS)
        assert (lessons[2].parents[-ROWS:] == -1).all()  # the extra rows

    def test_the_command_takes_extra_rows(self, tmp_path):
        table, more = table_in(tmp_path), tmp_path / "more.csv"
        FRAME[["a", "b"]].to_csv(more, index=False)
        told = sparcs("search", table, "--teacher", file_in(tmp_path), "--extra-rows", more)
        assert told.code == 1
        assert "extra rows with the columns of the table. Missing: 'c'" in told.err
        assert (
            "Expected a teacher for extra_rows" in sparcs("search", table, "--extra-rows", more).err
        )

    def test_a_search_that_goes_on_finds_its_extra_rows(self, tmp_path):
        (tmp_path / "run" / "parts").mkdir(parents=True)
        begun = {"data": "../t.csv", "extra_rows": "../more.csv"}
        (tmp_path / "run" / "parts" / "job.json").write_text(json.dumps(begun))
        assert Job.begun_in(tmp_path / "run").extra_rows == str(tmp_path / "more.csv")


class TestPupils:
    def test_without_a_target_the_teacher_is_what_counts(self):
        result = search(X, teacher=LogisticRegression().fit(X, SIDES), **QUICK)
        assert result.settings["teacher"] == "LogisticRegression"
        assert result.target.classes == ("down", "up")
        assert result.best().score > 0.95

    def test_noisy_labels_are_read_through_the_teacher(self):
        """One in four labels is wrong, and the teacher knows better."""
        noisy = np.where(DRAW.random(ROWS) < 0.25, np.where(SIDES == "up", "down", "up"), SIDES)
        wise = LogisticRegression(C=100).fit(X, SIDES)
        fresh = np.random.default_rng(5).normal(size=(500, 3))
        plain = search(X, noisy, **QUICK).fidelity(wise, fresh, wise.predict(fresh), "best")
        taught = search(X, noisy, teacher=wise, extra_rows=fresh[:100], **QUICK)
        kept = taught.fidelity(wise, fresh, wise.predict(fresh), "best")
        assert kept.agreement > 0.9
        assert kept.divergence < plain.divergence
        assert kept.score == pytest.approx(kept.agreement)
        assert kept.teacher_score == pytest.approx(1)
        assert len(kept.disagreed) == 10

    def test_fidelity_of_numbers(self):
        result = search(X, KINK, **QUICK)
        kept = result.fidelity(lambda X: np.abs(X[:, 0]) + 7, X, KINK, "best")
        assert kept.teacher_score == pytest.approx(1)
        assert kept.score == pytest.approx(result.score(X, KINK, "best"))
        assert kept.divergence == pytest.approx(1 - kept.score, rel=1e-3)
        assert kept.agreement > 0.8
        assert result.fidelity(lambda X: X[:, 0], X).score is None
        far = np.vstack([X, X[:1] * 1e6])
        kept = result.fidelity(lambda X: np.abs(X[:, 0]) + 7, far, [*KINK, 8.0], "best")
        assert kept.score == pytest.approx(result.score(far, [*KINK, 8.0], "best"))

    def test_where_nobody_would_ask_it_is_refused(self):
        model = LinearRegression().fit(X, KINK)
        with pytest.raises(ValueError, match="no teacher where the paper's recipe trains"):
            search(X, KINK, teacher=model, config=SearchConfig(paper=True), progress=False)
        again = SparcsRegressor(steps=20, widths=(8,), validation=2, warm_start=True).fit(X, KINK)
        with pytest.raises(ValueError, match="no teacher in a fit that goes on"):
            again.set_params(teacher=model).fit(X, KINK)


class Recorder:
    """Fits teachers that remember the rows they have seen, by their first column."""

    def __init__(self):
        self.seen, self.asked = [], []

    def __call__(self, X, y):
        self.seen.append({*X[:, 0]})
        self.asked.append(set())
        place, known = len(self.seen) - 1, {*TABLE_IDS}

        def answer(rows):
            self.asked[place] |= {*rows[:, 0]} & known if {*rows[:, 0]} <= known else set()
            return np.full(len(rows), y.mean())

        return answer


TABLE_IDS = X[:, 0]


class TestOutOfFold:
    def test_nobody_answers_a_row_that_it_has_seen_nor_sees_one_that_judges(self):
        recorder = Recorder()
        result = search(X, KINK, teacher_fit=recorder, **QUICK)
        assert result.settings["teacher_is_refitted"]
        assert len(recorder.seen) == 3 * 5  # two fits that are judged, and one to all rows
        for seen, asked in zip(recorder.seen, recorder.asked, strict=True):
            assert asked
            assert not seen & asked
        fits = [recorder.seen[start : start + 5] for start in (0, 5, 10)]
        asked = [set.union(*recorder.asked[start : start + 5]) for start in (0, 5, 10)]
        for some, rows in zip(fits, asked, strict=True):
            assert set.union(*some) == rows
        assert asked[0] | asked[1] == asked[2] == {*TABLE_IDS}
        assert not asked[0] & asked[1]

    def test_what_memorises_has_nothing_of_the_labels(self):
        noise = DRAW.integers(0, 2, ROWS)
        preprocessing = Preprocessing(Inputs.fit(X), Target.fit(noise))
        folded = FoldedData.of(preprocessing, X, noise, None, validation=2, seed=0)
        memory = KNeighborsClassifier(1)

        def known(teacher, teacher_fit):
            rows = X, noise
            lesson = lesson_of(teacher, teacher_fit, folded, preprocessing, rows, X[:4], 0)
            assert folded.taught(lesson).lesson.said.shape[-2:] == (ROWS, 1)
            return ((lesson.said[..., 0] > 0.5).numpy() == noise).mean(axis=-1)

        assert known(KNeighborsClassifier(1).fit(X, noise), None) == 1
        assert (known(None, memory)[2:] < 0.65).all()
        assert not hasattr(memory, "classes_")  # copies of it were fitted

    def test_estimators_that_draw_are_drawn_by_the_seed(self):
        forest = RandomForestRegressor(n_estimators=2)
        rows = X, KINK
        preprocessing = Preprocessing(Inputs.fit(X), Target.fit(KINK))

        def said(seed):
            folded = FoldedData.of(preprocessing, *rows, None, validation=2, seed=0)
            return lesson_of(None, forest, folded, preprocessing, rows, None, seed).said

        assert torch.equal(said(3), said(3))
        assert not torch.equal(said(3), said(4))
        assert forest.random_state is None

    def test_groups_stay_together(self):
        recorder, groups = Recorder(), np.arange(ROWS) // 3
        options = {**QUICK, "validation": GroupKFold(2)}
        search(X, KINK, teacher_fit=recorder, groups=groups, **options)
        of_row = dict(zip(TABLE_IDS, groups, strict=True))
        for seen, asked in zip(recorder.seen, recorder.asked, strict=True):
            assert not {of_row[row] for row in seen} & {of_row[row] for row in asked}

    def test_a_part_may_lack_a_class(self):
        rare = np.where(np.arange(ROWS) < 2, "rare", SIDES)
        found = search(X, rare, teacher_fit=LogisticRegression(), scoring="accuracy", **QUICK)
        assert found.target.classes == ("down", "rare", "up")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"teacher": LinearRegression().fit(X, KINK)}, "teacher_fit to fit some. Got both"),
            ({"teacher_fit": 3}, "function of rows and their targets.*Got int"),
            ({"teacher_fit": lambda X: None}, "to fit a teacher to 60 rows: <lambda> ended with"),
            ({"teacher_fit": lambda X, y: None}, "Expected a teacher: .*Got NoneType"),
        ],
    )
    def test_bad_ones_are_told(self, options, words):
        options = {"teacher_fit": LinearRegression(), **options, **QUICK}
        with pytest.raises(ValueError, match=words):
            search(X, KINK, **options)


class TestKeptFidelity:
    def test_the_folder_and_the_page_have_it(self, tmp_path):
        model = LogisticRegression().fit(X, SIDES)
        result = search(X, SIDES, teacher=model, **QUICK)
        assert result.settings["fidelity"]["is_of_folds"]
        kept = result.fidelity(model, X, SIDES, keep=True)
        assert "is_of_folds" not in result.settings["fidelity"]
        assert kept.rows == ROWS
        assert kept.correlation > 0.9
        assert kept.teacher_bytes > 100
        chances = result.predict_proba(X)[kept.disagreed[0]].max()
        assert f"({chances:.0%})" in kept.said[0]
        assert kept.labels[0] == SIDES[kept.disagreed[0]]
        result.settings["fidelity"]["teacher"] = "<b>"
        result.save(tmp_path / "run")
        again = load_result(tmp_path / "run")
        assert again.settings["fidelity"] == result.settings["fidelity"]
        page = page_of(again)
        assert (
            "as given: on rows that it was fitted to, its answers look better than they are" in page
        )
        assert f"{100 * kept.agreement:.1f} % the class that &lt;b&gt; gives" in page
        assert f"<td>{kept.teacher_score:.4f}</td>" in page
        assert f'<th scope="row">{kept.disagreed[0] + 1}</th>' in page

    def test_a_search_with_rows_apart_keeps_it(self):
        options = {**QUICK, "validation": (X[100:], SIDES[100:])}
        result = search(X[:100], SIDES[:100], teacher_fit=LogisticRegression(), **options)
        model = LogisticRegression().fit(X[:100], SIDES[:100])
        kept = result.settings["fidelity"]
        assert (kept["rows"], kept["teacher"]) == (50, "LogisticRegression")
        assert kept["teacher_score"] == pytest.approx(model.score(X[100:], SIDES[100:]))
        assert "fidelity" not in search(X[:100], SIDES[:100], **options).settings

    def test_a_teacher_that_does_not_know_them_leaves_the_search_as_it_is(self):
        def narrow(rows):
            if rows[:, 0].max() > X[:100, 0].max() - 1e-9 and len(rows) == 50:
                raise KeyError("never seen")
            return (rows[:, 0] > 0).astype(float)

        given = X[100:].copy()
        given[0, 0] = 100.0
        with pytest.warns(UserWarning, match="not known on the validation rows.*never seen"):
            result = search(
                X[:100],
                SIDES[:100],
                teacher=narrow,
                **{**QUICK, "validation": (given, SIDES[100:])},
            )
        assert len(result.front) > 0
        assert "fidelity" not in result.settings

    def test_of_numbers_without_labels(self):
        result = search(X, KINK, **QUICK)
        kept = result.fidelity(lambda X: np.full(len(X), 7.0), X, keep=True)
        assert math.isnan(kept.correlation)
        assert (kept.labels, kept.teacher_bytes) == ((), None)
        page = page_of(result)
        assert "correlates with &lt;lambda&gt; by nothing" in page
        assert "score against the labels" not in page

    def test_the_command_tells_and_writes_it(self, tmp_path):
        """Without a target in the table the teacher's answers are the target."""
        taught = search(FRAME, SIDES, **QUICK)
        to_onnx(taught.deployed("linear"), tmp_path / "model.onnx")
        FRAME.to_csv(tmp_path / "rows.csv", index=False)
        FRAME.assign(target=np.where(SIDES == "up", 1, 0)).to_csv(tmp_path / "t.csv", index=False)
        run, teacher = tmp_path / "run", ("--teacher", tmp_path / "model.onnx")
        short = ("--steps", 20, "--widths", 4, "--out", run)
        told = sparcs("search", tmp_path / "rows.csv", *teacher, "--task", "classification", *short)
        assert told.code == 0, told
        assert "no target, so that scores are agreement with the teacher" in told.out
        assert "scores are agreement with model.onnx" in told.out
        assert load_result(run).best().score > 0.9
        assert "agreement with the teacher" in (run / "report.html").read_text()
        told = sparcs("report", run, *teacher, "--data", tmp_path / "t.csv")
        assert told.code == 0, told
        assert "agreement with model.onnx on 150 rows: " in told.out
        assert 'id="fidelity"' in (run / "report.html").read_text()
        assert sparcs("report", run, *teacher).code == 2
        assert "Expected a target" in sparcs("search", tmp_path / "rows.csv").err
