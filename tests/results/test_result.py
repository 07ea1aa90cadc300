"""Picks follow their rules; what was found survives files, and works where this library is not."""

import csv
import dataclasses
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import accuracy_score, r2_score

from torchsparcs import (
    Candidate,
    CompactNetwork,
    SearchConfig,
    SearchResult,
    SpectralNetwork,
    load_result,
    save,
    search,
    to_onnx,
)
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.judging.candidates import corrected, on_the_front
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

DRAW = np.random.default_rng(0)
NUMBERS = 50 + 10 * DRAW.normal(size=(120, 3))
FRAME = pd.DataFrame(NUMBERS, columns=["a", "b", "c"]).assign(city=DRAW.choice(["x", "y"], 120))
TARGETS = {
    "regression": np.stack([1000 + NUMBERS[:, 0], NUMBERS[:, 1] ** 2], axis=1),
    "binary": np.where(NUMBERS[:, 0] > 50, "yes", "no"),
    "multiclass": np.digitize(NUMBERS[:, 0], [45, 55]),
}


@pytest.fixture(scope="module")
def results() -> dict[str, SearchResult]:
    config = SearchConfig(steps=30, epochs=1, lr=0.05, ways=("asleep",), shrink=0.3)
    options = {"widths": (6,), "penalty_weights": (1e-3,), "validation": 2, "config": config}
    return {
        task: search(FRAME, y, **options, progress=False, device="cpu")
        for task, y in TARGETS.items()
    }


@pytest.fixture(params=TARGETS)
def result(request, results) -> SearchResult:
    assert results[request.param].settings["task"] == request.param
    return results[request.param]


@pytest.fixture(scope="module")
def folder(results, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "folder"
    results["multiclass"].save(path)
    return path


def target(result: SearchResult) -> np.ndarray:
    return TARGETS[result.settings["task"]]


class TestPredicting:
    def test_from_a_table_to_answers(self, result):
        y, network = target(result), result.best().network
        outputs = result.outputs(FRAME, "best")
        expected = network(result.preprocessing.inputs.transform(FRAME))
        assert torch.equal(outputs, expected.detach())
        assert not outputs.requires_grad
        answers = result.predict(FRAME, "best")
        assert answers.shape == y.shape
        measure = r2_score if result.settings["task"] == "regression" else accuracy_score
        assert result.score(FRAME, y, "best") == pytest.approx(measure(y, answers), abs=1e-5)
        assert measure(y, answers) > 0.5
        assert np.array_equal(result.predict(FRAME), result.predict(FRAME, result.smallest()))

    def test_probabilities(self, result):
        if result.settings["task"] == "regression":
            with pytest.raises(ValueError, match=r"a classification for probabilities\. Got"):
                result.predict_proba(FRAME)
            return
        classes = np.unique(target(result))
        shares = result.predict_proba(FRAME, "best")
        assert shares.shape == (120, len(classes))
        assert np.allclose(shares.sum(axis=1), 1)
        assert np.array_equal(classes[shares.argmax(axis=1)], result.predict(FRAME, "best"))


class TestPicking:
    # 2, 5, 9 and 16 parameters, the linear model not on the front
    widths = ((1, 1), (2, 1, 1), (2, 2, 1), (3, 3, 1))
    scores = (0.5, 0.87, 0.899, 0.9)

    @pytest.fixture
    def made_up(self, results) -> SearchResult:
        networks = [
            CompactNetwork(widths, [(k, k - 1) for k in range(1, len(widths))])
            for widths in self.widths
        ]
        front = [
            Candidate(network, score, 0.05, 1.0, 0.1, 0)
            for network, score in zip(networks, self.scores, strict=True)
        ]
        return dataclasses.replace(results["binary"], front=tuple(front))

    def test_by_rule_place_or_size(self, made_up):
        front = made_up.front
        assert [c.parameters for c in front] == [2, 5, 9, 16]
        assert made_up.best() is made_up.pick("best") is made_up.within(16) is front[3]
        assert made_up.smallest() is made_up.pick() is front[1]  # one standard error, 0.05
        for tolerance, place in ((0.0, 3), (0.001, 2), (0.03, 1), (0.4, 0), (9, 0)):
            assert made_up.smallest(tolerance + 1e-9) is front[place]
        assert made_up.within(15) is front[2]
        assert made_up.within(2) is made_up.pick(0) is front[0]
        assert made_up.pick(made_up.linear) is made_up.linear
        words = "SearchResult(4 candidates, 2 to 16 parameters, "
        assert repr(made_up) == f"{words}score 0.5000 to 0.9000)"
        front = [dataclasses.replace(c, expected=c.score - 0.01) for c in front]
        corrected = dataclasses.replace(made_up, front=tuple(front))
        assert repr(corrected) == f"{words}expected score 0.4900 to 0.8900)"

    def test_nobody_pays_for_a_thousandth(self, made_up):
        sure = [dataclasses.replace(found, standard_error=0.0) for found in made_up.front]
        sure[2] = dataclasses.replace(sure[2], score=0.8995)
        assert dataclasses.replace(made_up, front=tuple(sure)).smallest() is sure[2]

    def test_nobody_pays_for_three_rows(self, made_up):
        """Of 240 rows the best has all right, a smaller one 237, the smallest 236."""
        rows = {**made_up.settings, "judged_rows": 240}
        scores = (0.5, 236 / 240, 237 / 240, 1.0)
        pairs = zip(made_up.front, scores, strict=True)
        sure = [dataclasses.replace(c, score=s, standard_error=0.0058) for c, s in pairs]
        few = dataclasses.replace(made_up, front=tuple(sure), settings=rows)
        assert few.smallest() is sure[2]
        many = dataclasses.replace(few, settings={**rows, "judged_rows": 2400})
        assert many.smallest() is sure[3]

    def test_the_best_is_the_best_to_be_expected(self, made_up):
        told = (0.4, 0.85, 0.88, 0.87)
        pairs = zip(made_up.front, told, strict=True)
        front = tuple(dataclasses.replace(c, expected=e) for c, e in pairs)
        result = dataclasses.replace(made_up, front=front)
        assert result.best() is result.pick("best") is result.within(99) is front[2]
        assert result.smallest(0.0) is front[2]
        assert result.within(8) is front[1]

    def test_bad_ones(self, made_up):
        with pytest.raises(ValueError, match=r"budget of at least 2 parameters.*Got 1\."):
            made_up.within(1)
        with pytest.raises(ValueError, match=r"a tolerance >= 0\. Got -0\.1"):
            made_up.smallest(-0.1)
        for rule in (4, -1, "worst", 1.0, None):
            with pytest.raises(ValueError, match=r"best, smallest, linear and 0 to 3\. Got"):
                made_up.pick(rule)

    def test_the_front_is_what_no_smaller_one_beats(self, made_up):
        a, b, c, d = made_up.front
        twin = dataclasses.replace(b, score=0.88)
        worse = dataclasses.replace(c, score=0.88)
        diverged = dataclasses.replace(c, score=float("nan"))
        assert on_the_front([d, worse, b, diverged, twin, a]) == [a, twin, d]
        assert on_the_front([a, b, c, d], {"parameters": 9}) == [a, b, c]
        no_better = dataclasses.replace(c, score=b.score + 1e-9)  # as many rows, added up otherwise
        assert on_the_front([a, b, no_better, d]) == [a, b, d]
        with pytest.raises(ValueError, match=r"max_parameters of at least 2.*Got 1\."):
            on_the_front([a, b, c, d], {"parameters": 1})

    def test_what_is_to_be_expected_is_that_of_all_it_was_chosen_among(self, made_up):
        """Up to the next of the front; the networks of 7 and 20 parameters are not on it."""
        expected = {2: 0.4, 5: 0.8, 7: 0.79, 9: 0.85, 16: 0.84, 20: 0.83}
        assert [c.expected for c in corrected(made_up.front, expected)] == [0.4, 0.79, 0.85, 0.83]
        cheap = corrected(made_up.front[:2], expected, 8)
        assert [c.expected for c in cheap] == [0.4, 0.79]
        alone = corrected(made_up.front[-1:], expected, 16)
        assert [c.expected for c in alone] == [0.84]


class TestFiles:
    def test_everything_comes_back(self, result, tmp_path):
        result.save(tmp_path / "new" / "run")
        back = load_result(str(tmp_path / "new" / "run"))
        assert len(back.front) == len(result.front)
        for mine, its in zip(
            [*result.front, result.linear], [*back.front, back.linear], strict=True
        ):
            assert its.architecture == mine.architecture
            assert np.array_equal(back.predict(FRAME, its), result.predict(FRAME, mine))
            assert torch.equal(back.outputs(FRAME, its), result.outputs(FRAME, mine))
            its, mine = (dataclasses.replace(found, network=None) for found in (its, mine))
            assert its == mine
        assert back.preprocessing == result.preprocessing
        assert back.settings == json.loads(json.dumps(result.settings))
        here, there = result.history.state_dict(), back.history.state_dict()
        snapshots = zip(here.pop("snapshots"), there.pop("snapshots"), strict=True)
        assert here == there
        for (epoch, mine), (its_epoch, its) in snapshots:
            assert (epoch, mine.keys()) == (its_epoch, its.keys())
            assert all(torch.equal(mine[name], its[name]) for name in mine)
        last = len(result.history.train_loss[0]) - 1
        assert back.history.member(last).recruited == result.history.member(last).recruited

    def test_a_table_of_the_front_for_people(self, folder, results):
        rows = list(csv.DictReader((folder / "front.csv").read_text().splitlines()))
        front = results["multiclass"].front
        assert [int(row["parameters"]) for row in rows] == [c.parameters for c in front]
        for name in ("score", "expected", "standard_error"):
            assert [float(row[name]) for row in rows] == [getattr(c, name) for c in front]
        assert all((folder / row["network"]).is_file() for row in rows)

    def test_only_an_empty_folder_is_written_to_unless_forced(self, results, tmp_path):
        first, second = results["multiclass"], results["binary"]
        (tmp_path / "mine.txt").write_text("mine")
        with pytest.raises(ValueError, match=r"an empty folder.*has files in it.*force"):
            first.save(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
        longer = dataclasses.replace(first, front=first.front * 5)
        longer.save(tmp_path, force=True)
        second.save(tmp_path, force=True)
        assert (tmp_path / "mine.txt").read_text() == "mine"
        assert len(list((tmp_path / "networks").iterdir())) == len(second.front) + 1
        assert load_result(tmp_path).settings["task"] == "binary"
        with pytest.raises(ValueError, match=r"a folder to write to.*is a file"):
            first.save(tmp_path / "mine.txt")
        with pytest.raises(ValueError, match=r"a folder to write to.*mine\.txt is a file"):
            first.save(tmp_path / "mine.txt" / "run")

    def test_a_folder_that_cannot_be_made(self, results, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
        with pytest.raises(ValueError, match=r"a folder to write to.*is read-only"):
            results["binary"].save(tmp_path / "new" / "run")
        assert not list(tmp_path.iterdir())

    def test_is_read_as_utf8_wherever(self, folder):
        code = "import sys, torchsparcs; torchsparcs.load_result(sys.argv[1])"
        ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        assert "→" in (folder / "front.json").read_text(encoding="utf-8")
        subprocess.run(
            [sys.executable, "-c", code, folder], env={**os.environ, **ascii_only}, check=True
        )

    @pytest.mark.parametrize(
        "name",
        [
            "settings.json",
            "front.json",
            "history.json",
            "history.safetensors",
            "networks/00.safetensors",
            "networks/linear.safetensors",
        ],
    )
    def test_damage_is_noticed(self, name, folder, tmp_path):
        copy = shutil.copytree(folder, tmp_path / "copy")
        content = (copy / name).read_bytes()
        for part in (content[: len(content) // 2], b"", b"[]", b"{}"):
            (copy / name).write_bytes(part)
            with pytest.raises(ValueError, match=r"the folder of a search\. .* is damaged"):
                load_result(copy)
        (copy / name).unlink()
        kind = FileNotFoundError if name == "settings.json" else ValueError
        with pytest.raises(kind, match=r"Expected the folder of a search"):
            load_result(copy)

    def test_other_damage(self, folder, tmp_path):
        copy = shutil.copytree(folder, tmp_path / "copy")
        settings = (copy / "settings.json").read_text()
        (copy / "settings.json").write_text(settings.replace('"format": 1', '"format": 2'))
        with pytest.raises(ValueError, match="format 2, a newer torchsparcs wrote it"):
            load_result(copy)
        (copy / "settings.json").write_text(settings)
        history = json.loads((copy / "history.json").read_text())
        shorter = {**history, "snapshot_epochs": history["snapshot_epochs"][:1]}
        (copy / "history.json").write_text(json.dumps(shorter))
        with pytest.raises(ValueError, match="is damaged"):
            load_result(copy)
        (copy / "history.json").write_text(json.dumps(history))
        save(SpectralNetwork([4, 3]), copy / "networks" / "00.safetensors")
        with pytest.raises(ValueError, match="holds no compact network"):
            load_result(copy)
        with pytest.raises(FileNotFoundError, match=r"has no settings\.json"):
            load_result(tmp_path / "nowhere")


def test_deployed_it_answers_as_it_did_here(result, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    module = result.deployed("best")
    encoded = torch.from_numpy(result.preprocessing.inputs.encode(FRAME)).float()
    is_regression = result.settings["task"] == "regression"
    expected = (result.predict if is_regression else result.predict_proba)(FRAME, "best")
    with torch.no_grad():
        np.testing.assert_allclose(module(encoded), expected, rtol=1e-4, atol=1e-4)
    to_onnx(module, tmp_path / "module.onnx", encoded=True)
    session = onnxruntime.InferenceSession(tmp_path / "module.onnx")
    metadata = session.get_modelmeta().custom_metadata_map
    assert metadata == module.metadata
    assert json.loads(metadata["columns"]) == list(result.preprocessing.inputs.encoded_names)
    assert metadata["task"] == result.settings["task"]
    classes = None if is_regression else np.unique(target(result)).tolist()
    assert json.loads(metadata["classes"]) == classes
    (answers,) = session.run(None, {"input": encoded.numpy()})
    np.testing.assert_allclose(answers, expected, rtol=1e-4, atol=1e-4)


def test_what_happens_to_a_deployed_network_does_not_happen_to_the_candidate(results):
    result = results["binary"]
    before = result.outputs(FRAME)
    module = result.deployed().double()
    for parameter in module.parameters():
        parameter.data.zero_()
    assert torch.equal(result.outputs(FRAME), before)


def test_columns_too_fine_for_float32_are_named(tmp_path):
    x = np.column_stack([1.7e9 + np.arange(40.0), np.arange(40.0)])
    inputs, target = Inputs.fit(x), Target.fit(np.arange(40.0), "regression")
    network = CompactNetwork([2, 1], [(1, 0)])
    module = DeployedNetwork(network, Preprocessing(inputs, target))
    with pytest.warns(UserWarning, match="too coarse for 'x0'"):
        to_onnx(module, tmp_path / "module.onnx", encoded=True)


def test_columns_that_are_not_read_need_not_be_there():
    frame = pd.DataFrame({"a": np.arange(30.0), "b": list("xyz") * 10, "c": np.arange(30.0) % 7})
    inputs = Inputs.fit(frame)
    read = inputs.transform(frame, reads=(0, 4))  # a and c; b has three encoded columns
    assert torch.equal(read[:, [0, 4]], inputs.transform(frame)[:, [0, 4]])
    assert torch.equal(read[:, 1:4], torch.zeros(30, 3))
    assert torch.equal(inputs.transform(frame[["c", "a"]], reads=(0, 4)), read)
    with pytest.raises(ValueError, match="Missing: 'c'"):
        inputs.transform(frame[["a"]], reads=(0, 4))
