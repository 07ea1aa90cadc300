"""What a search keeps for its page, and its folder gives back."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from reports import (
    X,
    Y,
    small_result,
)
from sklearn.metrics import confusion_matrix, r2_score

import torchsparcs.judging.judgement
import torchsparcs.report
from torchsparcs import History, load_result
from torchsparcs.report import facts_of

TASKS = ("multiclass", "binary", "regression")


@pytest.fixture(params=TASKS)
def result(request):
    return small_result(request.param)


def test_the_folder_has_all_of_it(result, tmp_path):
    result.save(tmp_path / "run")
    back = load_result(tmp_path / "run")
    assert back.attempts == result.attempts
    mine, its = ([*each.front, each.linear] for each in (result, back))
    assert all(torch.equal(a.answers, b.answers) for a, b in zip(mine, its, strict=True))
    assert all(a.answers.dtype == b.answers.dtype for a, b in zip(mine, its, strict=True))
    here, there = (json.dumps(facts_of(each, "run")) for each in (result, back))
    assert here == there


def test_relevance_that_was_kept_is_in_the_folder_and_on_its_page(tmp_path):
    found = small_result("binary")
    known = dict.fromkeys([column.name for column in found.inputs.columns], 0.5)
    found = dataclasses.replace(found, settings={**found.settings, "relevance": known})
    found.save(tmp_path / "run")
    back = load_result(tmp_path / "run")
    assert back.settings["relevance"] == known
    assert {row[-1] for row in facts_of(back)["columns"]["rows"]} == {0.5}


def test_older_folders_do_not_know_what_is_to_be_expected(result, tmp_path):
    assert all(found.expected is not None for found in (*result.front, result.linear))
    result.save(tmp_path)
    content = json.loads((tmp_path / "front.json").read_text(encoding="utf-8"))
    for row in (*content["front"], content["linear"]):
        del row["expected"]
    (tmp_path / "front.json").write_text(json.dumps(content), encoding="utf-8")
    back = load_result(tmp_path)
    assert [found.expected for found in (*back.front, back.linear)] == [None] * (
        len(back.front) + 1
    )
    assert [found.score for found in back.front] == [found.score for found in result.front]


def test_attempts_hold_the_front_and_what_it_was_cut_from(result):
    tried = {(each.member, each.parameters, each.score) for each in result.attempts}
    for found in (*result.front, result.linear):
        assert (found.member, found.parameters, found.score) in tried
    grown = [each for each in result.attempts if each.member is not None]
    uncut = [each for each in grown if each.cut == 0]
    assert {each.member for each in uncut} == {each.member for each in grown}
    for each in grown:
        most = max(other.parameters for other in uncut if other.member == each.member)
        assert each.parameters <= most
    assert max(each.cut for each in result.attempts) >= 2


def test_answers_give_the_score(result):
    for found in (*result.front, result.linear):
        if result.settings["task"] == "regression":
            pairs = found.answers.numpy()  # 150 rows of 2 outputs are all kept
            assert pairs.shape == (150, 2, 2)
            score = r2_score(pairs[:, :, 0], pairs[:, :, 1])
        else:
            assert int(found.answers.sum()) == len(X)
            counts = np.unique(Y[result.settings["task"]], return_counts=True)[1]
            assert found.answers.sum(dim=1).tolist() == counts.tolist()
            score = found.answers.diagonal().sum().item() / len(X)
        assert score == pytest.approx(found.score, abs=1e-3)


def test_true_by_said():
    true, said = torch.tensor([0, 0, 1, 2, 2, 2]), torch.tensor([0, 1, 1, 0, 2, 2])
    output = torch.nn.functional.one_hot(said).float()
    counts = torchsparcs.judging.judgement.ANSWERS["multiclass"](output, true)
    assert counts.tolist() == confusion_matrix(true, said).tolist()
    logits = torch.tensor([[2.0], [-1.0], [3.0]])
    counts = torchsparcs.judging.judgement.ANSWERS["binary"](logits, torch.tensor([1.0, 1.0, 0.0]))
    assert counts.tolist() == [[0, 1], [1, 1]]


def test_many_answers_are_thinned():
    rows = torch.arange(4000.0)
    pairs = torchsparcs.judging.judgement.ANSWERS["regression"](rows[:, None] + 1, rows)
    assert pairs.shape == (500, 1, 2)
    assert torch.equal(pairs[:, 0, 1] - pairs[:, 0, 0], torch.ones(500).double())
    many = torch.zeros(10, 500)
    labels = torch.arange(10)
    assert torchsparcs.judging.judgement.ANSWERS["multiclass"](many, labels) is None


def test_keeping_them_changes_no_outcome(monkeypatch):
    kept = small_result("binary")
    for task in TASKS:
        answers = torchsparcs.judging.judgement.ANSWERS
        monkeypatch.setitem(answers, task, lambda output, target: None)
    without = small_result.__wrapped__("binary")
    assert without.best().answers is None
    assert [f.score for f in without.front] == [f.score for f in kept.front]
    for mine, its in zip(kept.front, without.front, strict=True):
        weights = zip(mine.network.parameters(), its.network.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in weights)


def test_snapshots_are_thinned_between_the_first_and_the_last():
    values = [(epoch, {"hidden_eigenvalues.0": torch.tensor([epoch])}) for epoch in range(101)]
    thinned = History(snapshots=values).thinned()
    epochs = [epoch for epoch, _ in thinned.snapshots]
    assert len(epochs) == 40
    assert (epochs[0], epochs[-1]) == (0, 100)
    assert set(np.diff(epochs)) == {2, 3}
    one = History(snapshots=values[:1]).thinned()
    assert one.snapshots == values[:1]


def test_a_folder_without_a_history(tmp_path):
    small_result("binary").save(tmp_path)
    for name in ("history.json", "history.safetensors"):
        (tmp_path / name).unlink()
    back = load_result(tmp_path)
    assert back.history == History()
    assert facts_of(back)["members"] == {}


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("front.json", lambda it: it.update(attempts=[1]), "attempts.0. is 1, not dict"),
        ("front.json", lambda it: it["attempts"][0].pop("score"), "lacks score"),
        ("front.json", lambda it: it["attempts"][0].update(score="x"), "score is 'x', not float"),
        ("settings.json", lambda it: it["settings"].pop("rows"), "lacks rows"),
        ("settings.json", lambda it: it["settings"].update(relevance={"a": 7.0}), "relevance"),
        (
            "settings.json",
            lambda it: it["settings"].update(ranges={"a": [7.0, 1.0, 0.0]}),
            "ranges",
        ),
    ],
)
def test_damage_is_told(file, change, words, tmp_path):
    small_result("binary").save(tmp_path)
    content = json.loads((tmp_path / file).read_text(encoding="utf-8"))
    change(content)
    (tmp_path / file).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"is damaged: .*{words}"):
        load_result(tmp_path)


def test_errors_of_other_outputs_are_refused(tmp_path):
    small_result("regression").save(tmp_path / "run")
    path = tmp_path / "run" / "front.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    assert len(content["front"][0]["residuals"][0]) == 2
    for bad in ([[0.1]], [[0.1, -0.2]], [[0.1, 0.2], [0.3]], []):
        content["front"][0]["residuals"] = bad
        path.write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(ValueError, match=r"Expected the folder of a search\. .* is damaged"):
            load_result(tmp_path / "run")
