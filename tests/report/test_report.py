"""A report says what the search found, also from its folder, and leaves a sentence for the rest."""

import base64
import dataclasses
import hashlib
import html
import json
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from reports import (
    COLUMN,
    LABEL,
    X,
    Y,
    huge_result,
    small_result,
    unjudged_result,
    validated_result,
)
from sklearn.metrics import confusion_matrix, r2_score

import torchsparcs.report
import torchsparcs.searching.folded
from torchsparcs import CompactNetwork, History, SpectralNetwork, load_result
from torchsparcs.report import facts_of, figures, log_history, write_document, write_page
from torchsparcs.report.about import columns_of
from torchsparcs.report.answers import answers_of
from torchsparcs.report.growth import growth
from torchsparcs.report.page import page_of
from torchsparcs.report.picture import MOST_NEURONS, picture
from torchsparcs.report.tensorboard import EigenvalueLogger
from torchsparcs.report.words import columns_words
from torchsparcs.searching.refit import refit
from torchsparcs.searching.search import _thinned
from torchsparcs.tables.preprocessing import Inputs

TASKS = ("multiclass", "binary", "regression")


@pytest.fixture(params=TASKS)
def result(request):
    return small_result(request.param)


@pytest.fixture
def older(tmp_path):
    """A result from a folder that knows neither answers nor attempts."""
    small_result("multiclass").save(tmp_path / "run")
    found = json.loads((tmp_path / "run" / "front.json").read_text(encoding="utf-8"))
    del found["answers"], found["attempts"]
    (tmp_path / "run" / "front.json").write_text(json.dumps(found), encoding="utf-8")
    settings = json.loads((tmp_path / "run" / "settings.json").read_text(encoding="utf-8"))
    outer = {name: settings["settings"].pop(name) for name in ("hardware", "versions")}
    (tmp_path / "run" / "settings.json").write_text(json.dumps({**settings, **outer}))
    return load_result(tmp_path / "run")


class TestWhatASearchKeeps:
    def test_the_folder_has_all_of_it(self, result, tmp_path):
        result.save(tmp_path / "run")
        back = load_result(tmp_path / "run")
        assert back.attempts == result.attempts
        mine, its = ([*each.front, each.linear] for each in (result, back))
        assert all(torch.equal(a.answers, b.answers) for a, b in zip(mine, its, strict=True))
        assert all(a.answers.dtype == b.answers.dtype for a, b in zip(mine, its, strict=True))
        here, there = (json.dumps(facts_of(each, "run")) for each in (result, back))
        assert here == there

    def test_attempts_hold_the_front_and_what_it_was_cut_from(self, result):
        tried = {(each.member, each.parameters, each.score) for each in result.attempts}
        for found in (*result.front, result.linear):
            assert (found.member, found.parameters, found.score) in tried
        uncut = [each for each in result.attempts if each.cut == 0]
        assert {each.member for each in uncut} == {each.member for each in result.attempts}
        for each in result.attempts:
            most = max(other.parameters for other in uncut if other.member == each.member)
            assert each.parameters <= most
        assert max(each.cut for each in result.attempts) >= 2

    def test_answers_give_the_score(self, result):
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

    def test_true_by_said(self):
        true, said = torch.tensor([0, 0, 1, 2, 2, 2]), torch.tensor([0, 1, 1, 0, 2, 2])
        output = torch.nn.functional.one_hot(said).float()
        counts = torchsparcs.searching.folded.ANSWERS["multiclass"](output, true)
        assert counts.tolist() == confusion_matrix(true, said).tolist()
        logits = torch.tensor([[2.0], [-1.0], [3.0]])
        counts = torchsparcs.searching.folded.ANSWERS["binary"](
            logits, torch.tensor([1.0, 1.0, 0.0])
        )
        assert counts.tolist() == [[0, 1], [1, 1]]

    def test_many_answers_are_thinned(self):
        rows = torch.arange(4000.0)
        pairs = torchsparcs.searching.folded.ANSWERS["regression"](rows[:, None] + 1, rows)
        assert pairs.shape == (500, 1, 2)
        assert torch.equal(pairs[:, 0, 1] - pairs[:, 0, 0], torch.ones(500).double())
        many = torch.zeros(10, 500)
        labels = torch.arange(10)
        assert torchsparcs.searching.folded.ANSWERS["multiclass"](many, labels) is None

    def test_keeping_them_changes_no_outcome(self, monkeypatch):
        kept = small_result("binary")
        for task in TASKS:
            monkeypatch.setitem(
                torchsparcs.searching.folded.ANSWERS, task, lambda output, target: None
            )
        without = small_result.__wrapped__("binary")
        assert without.best().answers is None
        assert [f.score for f in without.front] == [f.score for f in kept.front]
        for mine, its in zip(kept.front, without.front, strict=True):
            weights = zip(mine.network.parameters(), its.network.parameters(), strict=True)
            assert all(torch.equal(a, b) for a, b in weights)

    def test_snapshots_are_thinned_between_the_first_and_the_last(self):
        values = [(epoch, {"hidden_eigenvalues.0": torch.tensor([epoch])}) for epoch in range(101)]
        thinned = _thinned(History(snapshots=values))
        epochs = [epoch for epoch, _ in thinned.snapshots]
        assert len(epochs) == 40
        assert (epochs[0], epochs[-1]) == (0, 100)
        assert set(np.diff(epochs)) == {2, 3}
        one = _thinned(History(snapshots=values[:1]))
        assert one.snapshots == values[:1]

    def test_a_folder_without_a_history(self, tmp_path):
        small_result("binary").save(tmp_path)
        for name in ("history.json", "history.safetensors"):
            (tmp_path / name).unlink()
        back = load_result(tmp_path)
        assert back.history == History()
        assert facts_of(back)["members"] == {}

    @pytest.mark.parametrize(
        ("file", "change", "words"),
        [
            ("front.json", lambda it: it.update(attempts=[1]), "no attribute"),
            ("front.json", lambda it: it["attempts"][0].pop("score"), "missing .*'score'"),
            ("front.json", lambda it: it["attempts"][0].update(score="x"), "score of an attempt"),
            ("front.json", lambda it: it["attempts"][0].update(extra=1), "'extra'"),
            ("settings.json", lambda it: it["settings"].pop("rows"), "its settings lack rows"),
        ],
    )
    def test_damage_is_told(self, file, change, words, tmp_path):
        small_result("binary").save(tmp_path)
        content = json.loads((tmp_path / file).read_text(encoding="utf-8"))
        change(content)
        (tmp_path / file).write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(ValueError, match=rf"is damaged: .*{words}"):
            load_result(tmp_path)


class TestFacts:
    def test_the_answer(self, result):
        facts = facts_of(result)
        picked = result.smallest()
        assert f"{picked.parameters:,} parameter" in facts["headline"]
        assert facts["candidates"][facts["picked"]]["parameters"] == picked.parameters
        assert facts["tolerance"] == result.best().score - result.tolerance
        assert "smallest" in facts["candidates"][facts["picked"]]["rules"]
        assert json.loads(json.dumps(facts)) is not None

    def test_the_comparison(self, result):
        rows = facts_of(result)["comparison"]
        percent = result.settings["task"] != "regression"

        def numbers(found):
            words = (f"{100 * found.score:.2f} % ± {100 * found.standard_error:.2f}" if percent
                     else f"{found.score:.4f} ± {found.standard_error:.4f}")  # fmt: skip
            return found.parameters, found.macs, words

        expected = {"smallest": result.smallest(), "best score": result.best()}
        if result.smallest() is result.best():
            expected = {"smallest, best score": result.best()}
        expected["linear model"] = result.linear
        uncut = [found for found in result.attempts if found.cut == 0 and found.neurons]
        expected["largest as trained"] = max(uncut, key=lambda found: found.parameters)
        assert {row["name"]: (row["parameters"], row["macs"], row["score"]) for row in rows} == {
            name: numbers(found) for name, found in expected.items()
        }
        assert rows[0]["architecture"] == result.smallest().architecture
        assert (
            rows[-1]["architecture"] == f"{expected['largest as trained'].neurons} hidden neurons"
        )

    def test_the_largest_was_trained_and_is_no_linear_model(self):
        small = small_result("regression")
        good = [each._replace(score=0.99999) for each in small.attempts if not each.neurons]
        better = dataclasses.replace(small, attempts=(*good, *small.attempts))
        assert facts_of(better)["comparison"] == facts_of(small)["comparison"]
        cut = tuple(each for each in small.attempts if each.cut or not each.neurons)
        row = facts_of(dataclasses.replace(small, attempts=cut))["comparison"][-1]
        size = SpectralNetwork(small.settings["widths"]).size
        assert (row["name"], row["score"]) == ("network allowed", "")
        assert (row["parameters"], row["macs"]) == (size.parameters, size.macs)

    def test_the_words(self):
        binary, regression = small_result("binary"), small_result("regression")
        facts = facts_of(binary)
        one, linear, best = binary.smallest(), binary.linear, binary.best()
        assert facts["headline"] == (
            f"A network with {one.parameters} parameters gets {100 * one.score:.1f} % of held-out "
            "rows right."
        )
        allowed = SpectralNetwork(binary.settings["widths"]).size.parameters
        assert facts["verdict"] == (
            f"That is {allowed / one.parameters:.1f} times fewer parameters than the network the "
            f"search was allowed, 3\u00a0→ 12\u00a0→ 6\u00a0→ 1 ({allowed} parameters). The linear "
            f"model on all columns has {linear.parameters} parameters and reaches "
            f"{100 * linear.score:.2f} %. The best network has {best.parameters} parameters and "
            f"reaches {100 * best.score:.2f} %."
        )
        lowest = 100 * (best.score - best.standard_error)
        assert facts["tolerance_words"] == f"one standard error below the best, {lowest:.2f} %"
        lowest = regression.best().score - 0.001  # its error is smaller than that
        assert facts_of(regression)["tolerance_words"] == f"0.0010 below the best, {lowest:.4f}"
        assert facts["judged_by"] == "the 150 rows in turn (2-fold cross-validation)"
        assert facts["data"] == "150 rows, 3 columns, 2 classes of y"

    def test_three_linear_models_are_told_apart(self):
        small = small_result("binary")
        some, all_read = small.front[0], small.linear  # on one of three columns; on all
        two = CompactNetwork([3, 1], [(1, 0)], reads=(0, 2))
        best = dataclasses.replace(some, network=two, score=0.9)
        three = dataclasses.replace(small, front=(some, best), linear=all_read)
        facts = facts_of(three)
        allowed = SpectralNetwork(small.settings["widths"]).size.parameters
        assert facts["headline"].startswith("A linear model on 2 of 3 columns, with 3 parameters,")
        assert facts["verdict"].endswith(
            f"{allowed} parameters). The linear model on all columns has 4 parameters and reaches "
            f"{100 * all_read.score:.2f} %."
        )
        assert [found["rules"] for found in facts["candidates"]] == [[], ["smallest", "best"],
                                                                     ["linear"]]  # fmt: skip
        picked = dataclasses.replace(some, score=0.89)
        near = dataclasses.replace(
            three, front=(picked, dataclasses.replace(best, standard_error=1))
        )
        assert (
            "The best linear model, on 2 of 3 columns, has 3 parameters and reaches 90.00 %."
            in (facts_of(near)["verdict"])
        )
        top = dataclasses.replace(all_read, score=0.9, standard_error=1)
        once = dataclasses.replace(three, front=(picked, top), linear=top)
        assert facts_of(once)["verdict"].endswith(
            "The linear model on all columns has 4 parameters and reaches 90.00 %, the best score "
            "found."
        )
        only = dataclasses.replace(three, front=(top,), linear=top)
        assert facts_of(only)["verdict"].endswith("It is the linear model: nothing larger was "
                                                  "worth its parameters.")  # fmt: skip

    def test_they_come_by_size(self, result):
        sizes = [found["parameters"] for found in facts_of(result)["candidates"]]
        assert sizes == sorted(sizes)

    def test_the_first_group_was_kept_linear(self, result):
        for found in (*result.front, result.linear):
            is_first = found.member == result.settings["fits"] - 1
            assert (found.penalty_weight == 1e6) == is_first
        kept = {found["member"]: found["kept_linear"] for found in facts_of(result)["candidates"]}
        assert kept == {member: member == 2 for member in kept}
        search = dict(facts_of(result)["about"][1]["facts"])
        assert search["penalty weights"] == "kept linear, 0.001, 0.0001"

    def test_a_refitted_front_tells_of_the_refit(self, tmp_path):
        small = small_result("regression")
        old = {**small.settings, "hardware": "a machine of before", "seconds": 1e9}
        fresh = refit(dataclasses.replace(small, settings=old), X, Y["regression"], steps=3,
                      validation=2, progress=False, device="cpu")  # fmt: skip
        facts = facts_of(fresh)
        assert fresh.attempts == ()
        assert facts["is_refitted"]
        assert facts["comparison"][-1]["name"] == "network allowed"
        assert facts["comparison"][-1]["score"] == ""
        assert facts["verdict"].endswith(
            " The networks were found by an earlier search and refitted to these rows."
        )
        made_with = dict(facts["about"][-1]["facts"])
        assert made_with["hardware"] != "a machine of before"
        assert made_with["wall time"] in [f"{n} s" for n in range(60)]
        assert ["refitted", "from an earlier search, 3 steps"] in facts["about"][1]["facts"]
        assert not facts_of(small)["is_refitted"]

    def test_scores_that_are_none(self):
        result = unjudged_result()
        facts = facts_of(result)
        (linear,) = (found for found in facts["candidates"] if found["pick"] == "linear")
        assert (linear["score_words"], linear["score_with_error"]) == ("–", "–")
        assert "reaches R² –" in facts["verdict"]
        asked = {**result.settings, "pick": "linear"}
        named = facts_of(dataclasses.replace(result, settings=asked))
        assert (
            named["headline"] == "A linear model on all columns, with 8 parameters, has no score."
        )

    def test_columns_and_where_their_encoded_ones_are(self):
        frame = pd.DataFrame({"t": ["a", "b", "c"] * 2, "k": [1.0] * 6, "n": range(6)})
        inputs = Inputs.fit(frame, None)
        found = columns_of(SimpleNamespace(preprocessing=SimpleNamespace(inputs=inputs)))
        assert found["rows"] == [
            ["t", "text, 3 categories", 0, 3],
            ["k", "constant, left out", 3, 3],
            ["n", "number, 2.5 ± 1.708", 3, 4],
        ]
        network = CompactNetwork([4, 1], [(1, 0)], reads=(0, 1))
        candidate = SimpleNamespace(network=network)
        of = SimpleNamespace(preprocessing=SimpleNamespace(inputs=inputs))
        assert columns_words(of, candidate) == "on 1 of 3 columns"

    def test_a_note_where_rows_count_by_their_weights(self):
        small = small_result("binary")
        best, target = small.best(), small.preprocessing.target
        assert answers_of(best, target)["note"] == ""
        other = dataclasses.replace(best, score=best.score - 0.01)
        assert answers_of(other, target)["note"] == (
            "Rows are counted once each here; the score counts them by their weights."
        )

    def test_what_of_the_data_is_on_the_page(self):
        assert facts_of(small_result("binary"))["held"] == (
            "It holds summaries of the data, not its rows."
        )
        assert facts_of(small_result("regression"))["held"] == (
            "Of the data it holds summaries, not its rows, and of the target 150 values, to draw "
            "predicted against true."
        )

    def test_rules_are_marked(self, result):
        facts = facts_of(result)
        marked = {rule: c for c in facts["candidates"] for rule in c["rules"]}
        assert marked["best"]["score"] == result.best().score
        assert marked["smallest"]["score"] == result.smallest().score
        assert marked["linear"]["score"] == result.linear.score
        assert len(facts["candidates"]) in (len(result.front), len(result.front) + 1)

    def test_summaries_but_no_rows(self, result):
        settings = facts_of(result)
        about = {section["title"]: dict(section["facts"]) for section in settings["about"]}
        assert about["Data"]["rows"] == "150"
        assert about["Search"]["seed"] == "0"
        assert about["Configuration"]["steps"] == "60"
        assert [name for name, _ in settings["about"][-1]["facts"]] == [
            "torchsparcs", "python", "torch", "hardware", "device", "wall time",
        ]  # fmt: skip
        assert about["Made with"]["torchsparcs"] == torchsparcs.__version__
        assert settings["columns"]["rows"][0][0] == COLUMN
        text = json.dumps(settings)
        assert not any(repr(value) in text for value in X["c"])

    def test_pairs_are_in_their_own_units(self):
        answers = facts_of(small_result("regression"))["candidates"][-1]["answers"]
        u, v = answers["outputs"]
        assert (u["name"], v["name"]) == ("u", "v")
        assert np.allclose(sorted(u["true"]), sorted(Y["regression"]["u"]), atol=1e-2)
        assert np.allclose(sorted(v["true"]), sorted(Y["regression"]["v"]), atol=1e-2)

    def test_many_classes_become_the_worst_and_the_rest(self):
        small = small_result("multiclass")
        labels = tuple(f"c{i:02d}" for i in range(30))
        counts = torch.eye(30, dtype=torch.int64) * 10
        counts[3, 7], counts[28, 29] = 5, 4  # the second pair is among the worst as well
        target = dataclasses.replace(small.preprocessing.target, classes=labels)
        preprocessing = dataclasses.replace(small.preprocessing, target=target)
        best = dataclasses.replace(small.best(), answers=counts)
        linear = dataclasses.replace(small.linear, answers=None)
        changed = dataclasses.replace(
            small, front=(best,), linear=linear, preprocessing=preprocessing
        )
        (answers,) = (c["answers"] for c in facts_of(changed)["candidates"] if "best" in c["rules"])
        assert len(answers["labels"]) == 20
        assert {"c03", "c07", "c28", "c29", "11 others"} <= set(answers["labels"])
        assert np.sum(answers["counts"]) == 309
        assert "other 11" in answers["note"]
        assert "0 are mistakes" in answers["note"]

    def test_what_an_older_folder_lacks(self, older, tmp_path):
        facts = facts_of(older)
        assert facts["attempts"] == []
        assert all(found["answers"] is None for found in facts["candidates"])
        assert facts["comparison"][-1]["score"] == ""
        made_with = dict(facts["about"][-1]["facts"])
        assert made_with["torch"] == torch.__version__
        assert older.report(tmp_path / "page.html").stat().st_size > 10_000

    def test_without_a_history(self):
        bare = dataclasses.replace(small_result("binary"), history=History())
        assert facts_of(bare)["members"] == {}


class TestPicture:
    def test_a_network_worked_out_by_hand(self):
        # 3 inputs, of which 0 and 2 are read, two neurons, one output, a skip from the inputs
        network = CompactNetwork([3, 2, 1], [(1, 0), (2, 0), (2, 1)], reads=(0, 2))
        with torch.no_grad():
            network.block(1, 0).weight.copy_(torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
            network.block(2, 0).weight.copy_(torch.tensor([[0.0, 2.0]]))
            network.block(2, 1).weight.copy_(torch.tensor([[0.5, -6.0]]))
        drawn = picture(network)
        inputs, hidden, outputs = drawn["layers"]
        assert (inputs["width"], inputs["alive"], inputs["index"]) == (3, 2, [0, 2])
        assert inputs["size"] == [3, pytest.approx(21**0.5, abs=1e-3)]  # √9; √(16 + 1 + 4)
        assert inputs["fan_out"] == [1, 3]
        assert hidden["size"] == [2.5, 6]  # 5 · 0.5 and 1 · 6
        assert (hidden["fan_in"], hidden["fan_out"]) == ([2, 1], [1, 1])
        assert outputs["fan_in"] == [3]
        norms = {(source, target): norm for source, target, norm, _ in drawn["bands"]}
        assert norms[0, 2] == 2
        assert norms[0, 1] == pytest.approx(26**0.5, abs=1e-3)

    def test_wide_layers_are_grouped(self):
        drawn = picture(CompactNetwork([4, 1000, 2], [(1, 0), (2, 1)]))
        hidden = drawn["layers"][1]
        assert (hidden["alive"], hidden["per"], len(hidden["size"])) == (1000, 14, 72)
        assert hidden["size"] == sorted(hidden["size"], reverse=True)
        assert set(hidden["fan_in"]) == {4}


class TestGrowth:
    def test_eigenvalues_at_every_stop(self):
        values = [torch.tensor([[0.0, 0, 0]]), torch.tensor([[0.0, -2, 0]])]
        ten = [torch.zeros(1, 2), torch.tensor([[1.0, 3]])]
        snapshots = [
            (epoch, {"hidden_eigenvalues.10": late, "hidden_eigenvalues.2": early})
            for epoch, early, late in zip((0, 5), values, ten, strict=True)
        ]
        grown = growth(History(train_loss=[[1.0]] * 5, snapshots=snapshots), 0)
        first, second = grown["layers"]  # layer 2 before layer 10
        assert grown["stops"] == [0, 5]
        assert (first["width"], first["index"], first["values"]) == (3, [1], [[0], [-2]])
        assert (first["recruited"], second["recruited"]) == ([0, 1], [0, 2])
        assert [sum(counts) for counts in second["histogram"]["counts"]] == [0, 2]

    def test_many_recruits_are_grouped_by_rank(self):
        width = 2 * MOST_NEURONS
        values = torch.arange(1.0, width + 1)
        snapshots = [(0, {"hidden_eigenvalues.0": values[None]})]
        (layer,) = growth(History(train_loss=[[1.0]], snapshots=snapshots), 0)["layers"]
        assert layer["per"] == 4
        assert layer["values"][0][:2] == [width - 1.5, width - 5.5]  # means of four, from the top
        assert layer["recruited"] == [width]

    def test_long_histories_are_thinned(self):
        history = History(train_loss=[[1 / (n + 1)] for n in range(1000)])
        grown = growth(history, 0)
        assert len(grown["epochs"]) == len(grown["loss"]) == 200
        assert (grown["epochs"][0], grown["epochs"][-1]) == (1, 1000)


class TestPage:
    def test_data_are_text(self):
        content = page_of(small_result("multiclass"))
        assert COLUMN not in content
        assert LABEL not in content
        assert content.count("<script") == content.count("</script>") == 2
        facts = re.search(r'<script type="application/json" id="facts">(.*?)</script>', content)
        assert COLUMN in json.loads(facts[1])["inputs"]
        assert LABEL in json.loads(facts[1])["outputs"]
        assert not re.search(r"[<>&\u2028\u2029]", facts[1])

    def test_a_name_cannot_fill_in_for_the_script(self):
        small = small_result("binary")
        named = dataclasses.replace(small, settings={**small.settings, "data": "{{script}} <b>"})
        content = page_of(named)
        assert "<strong>{{script}} &lt;b&gt;</strong>" in content

    def test_only_its_own_script_may_run(self):
        content = page_of(small_result("binary"))
        policy = html.unescape(re.search(r'Policy" content="([^"]*)"', content)[1])
        own = {}
        for kind in ("script", "style"):
            (part,) = re.findall(rf"<{kind}>(.*?)</{kind}>", content, flags=re.DOTALL)
            own[kind] = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert policy == (
            f"default-src 'none'; script-src 'sha256-{own['script']}'; "
            f"style-src 'sha256-{own['style']}'; img-src data:; base-uri 'none'; "
            "form-action 'none'"
        )
        assert not re.search(r"https?://(?!www\.w3\.org)", content)

    def test_numbers_that_are_none(self):
        content = page_of(unjudged_result())
        assert '"score":null,"error":null' in content
        assert "nan" not in content

    def test_a_file_is_only_replaced_by_force(self, tmp_path):
        result, path = small_result("binary"), tmp_path / "new" / "report.html"
        assert result.report(path) == path
        with pytest.raises(ValueError, match=r"a file that is not there yet\. .*report\.html is"):
            result.report(path)
        assert write_page(result, path, force=True) == path
        with pytest.raises(ValueError, match=r"a file to write to\. .* is a folder"):
            result.report(tmp_path)

    def test_a_new_result_takes_the_old_page_with_it(self, tmp_path):
        result = small_result("binary")
        result.save(tmp_path / "run")
        result.report(tmp_path / "run" / "report.html")
        (tmp_path / "run" / "notes.txt").write_text("mine")
        result.save(tmp_path / "run", force=True)
        assert not (tmp_path / "run" / "report.html").exists()
        assert (tmp_path / "run" / "notes.txt").read_text() == "mine"

    def test_how_to_load_it(self, tmp_path):
        result = small_result("binary")
        result.save(tmp_path / "run")
        inside = result.report(tmp_path / "run" / "report.html").read_text(encoding="utf-8")
        assert json.dumps(str(tmp_path / "run")) in inside
        outside = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
        assert '"folder":null' in outside
        named = result.report(tmp_path / "named.html", folder="runs/mine")
        assert '"folder":"runs/mine"' in named.read_text(encoding="utf-8")

    def test_a_huge_network_makes_a_small_page(self):
        assert len(page_of(huge_result()).encode()) < 500_000


class TestDocument:
    def test_markdown_with_its_figures(self, tmp_path):
        (tmp_path / "one.svg").write_text("<svg/>")
        (tmp_path / "wide.svg").write_text('<svg viewBox="0 0 720 300"/>')
        (tmp_path / "slim.svg").write_text('<svg viewBox="0 0 396 273.6"/>')
        text = """# A < B

| name | size |
| --- | ---: |
| `a|b` <b> | 1,200 |

- first *item*
- **second**

![one](one.svg)
![two](two.svg)
![wide](wide.svg)
![slim](slim.svg)

```
x < 1

y
```
""".replace("a|b", "a\\|b")
        path = write_document(text, tmp_path / "report.html")
        page = path.read_text(encoding="utf-8")
        for part in (
            "<title>A &lt; B</title>",
            "<h1>A &lt; B</h1>",
            '<td><code>a|b</code> &lt;b&gt;</td>\n<td class="number">1,200</td>',
            "<li>first <em>item</em></li>\n<li><strong>second</strong></li>",
            '<img alt="one" src="data:image/svg+xml;base64,PHN2Zy8+">',
            '<span class="missing">two: not in this run.</span>',
            "<pre><code>x &lt; 1\n\ny\n</code></pre>",
            '<span class="scroll wide" tabindex="0" role="region" aria-label="wide"><img alt="wi',
        ):
            assert part in page
        assert page.count('class="scroll wide"') == 1
        assert "<script" not in page
        with pytest.raises(ValueError, match="a file that is not there yet"):
            write_document(text, path)


class TestFigures:
    @pytest.mark.parametrize("task", TASKS)
    def test_all_of_them(self, task):
        result = small_result(task)
        front = figures.front_figure(result)
        (line,) = (trace for trace in front.data if trace.name == "front")
        assert list(line.x) == [found.parameters for found in result.front]
        assert front.layout.xaxis.type == "log"
        errors = [found.standard_error for found in result.front]
        assert list(line.error_y.array) == errors
        drawn = figures.architecture_figure(result, "best").data
        network = result.best().network
        bands = [trace for trace in drawn if trace.mode == "lines"]
        assert {(b.x[0], b.x[-1]) for b in bands} == {(s, t) for t, s in network.connections}
        strengths = [torch.linalg.vector_norm(network.block(t, s).weight.detach()).item()
                     for t, s in network.connections]  # fmt: skip
        widths = [1 + 16 * strength / max(strengths) for strength in strengths]
        assert sorted(b.line.width for b in bands) == pytest.approx(sorted(widths), abs=1e-2)
        assert len(drawn[-1].x) == result.best().widths[-1]
        hidden = figures.eigenvalue_figure(result, "best").data
        values = result.history.member(result.best().member).snapshots[-1][1].values()
        assert sorted(trace.name for trace in hidden) == sorted(
            f"hidden {depth}: {int((each == 0).sum())} of {len(each)} exactly zero"
            for depth, each in enumerate(values, start=1)
        )
        names = {trace.name for trace in figures.history_figure(result, "best").data}
        assert names == {"training loss", "recruited in hidden 1", "recruited in hidden 2"}
        cut = figures.pruning_figure(result, "best").data
        assert list(cut[-1].x) == [result.best().parameters]
        for figure in (front, figures.pruning_figure(result, "best")):
            (line,) = figure.layout.shapes
            assert line.y0 == line.y1 == result.best().score - result.tolerance
            low, high = figure.layout.yaxis.range
            assert all(low < found.score < high for found in (*result.front, result.linear))
            assert high - low < 1.5 * (result.best().score - low)
        if task == "regression":
            assert [t.name for t in figures.fit_figure(result).data] == ["u", "v", "equal"]
            with pytest.raises(ValueError, match=r"a classification\. Got a regression"):
                figures.confusion_figure(result)
        else:
            counts = figures.confusion_figure(result, "best").data[0].z
            assert np.sum(counts) == len(X)
            with pytest.raises(ValueError, match=r"a regression\. Got a classification"):
                figures.fit_figure(result)

    def test_inputs_by_name_and_side_by_side(self):
        small = small_result("multiclass")
        read = figures.architecture_figure(small, 0).data
        (inputs,) = (trace for trace in read if trace.name == "layer 0: 1 of 3")
        column = html.escape(COLUMN, quote=False)  # the only one that it reads
        assert [words.split(", fan-in")[0] for words in inputs.text] == [column]
        wide = dataclasses.replace(
            small.best(), network=CompactNetwork([3, 60, 3], [(1, 0), (2, 1)])
        )
        (hidden,) = (
            t for t in figures.architecture_figure(small, wide).data if "60" in str(t.name)
        )
        places = list(zip(hidden.x, hidden.y, strict=True))
        assert len(set(places)) == 60
        assert len(set(hidden.y)) == 20  # three files
        assert hidden.text[7].startswith("neuron 7, fan-in 3, fan-out 3, strength ")

    def test_scores_over_training(self):
        result = validated_result()
        drawn = {trace.name: trace for trace in figures.history_figure(result, "best").data}
        assert list(drawn["validation score"].y) == pytest.approx(
            [scores[0] for scores in result.history.validation_score]
        )
        assert "validation loss" in drawn

    def test_the_linear_model_where_it_is_not_on_the_front(self):
        result = small_result("binary")
        assert result.linear not in result.front
        last = figures.pruning_figure(result, "linear").data[-1]
        assert list(last.x) == [result.linear.parameters]
        counts = figures.confusion_figure(result, "linear").data[0].z
        assert np.array_equal(counts, result.linear.answers.numpy())
        assert figures.front_figure(unjudged_result()).data

    def test_names_are_text(self):
        labels = figures.confusion_figure(small_result("multiclass")).data[0].x
        assert not any("<" in label for label in labels)

    def test_what_is_missing_leaves_a_sentence(self, older):
        bare = dataclasses.replace(older, history=History())
        by_figure = {
            figures.confusion_figure: "not in this run",
            figures.pruning_figure: "not in this run",
            figures.history_figure: "No history",
            figures.eigenvalue_figure: "No eigenvalues",
        }
        for figure, words in by_figure.items():
            drawn = figure(bare)
            assert len(drawn.data) == 0
            assert words in drawn.layout.annotations[0].text

    def test_plotting_loads_when_it_is_used(self):
        code = (
            "import sys, torchsparcs, torchsparcs.report, torchsparcs.report.page; "
            "print(*({'plotly', 'matplotlib', 'tensorboard'} & {*sys.modules}))"
        )
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (run.returncode, run.stdout.split()) == (0, []), run.stderr


class Writer:
    """Remembers what a SummaryWriter would write."""

    def __init__(self):
        self.scalars, self.histograms = {}, {}

    def add_scalar(self, name, value, step):
        self.scalars[name, step] = value

    def add_histogram(self, name, values, step):
        self.histograms[name, step] = values.tolist()

    def flush(self):
        pass


class TestTensorBoard:
    def test_one_step_of_ones_own_loop(self):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), SpectralNetwork([2, 3, 1]))
        model[1].hidden_eigenvalues[0].data.copy_(torch.tensor([0.0, 2.0, 0.0]))
        writer = Writer()
        EigenvalueLogger(writer).log(model, 7)
        assert writer.histograms == {("eigenvalues/1.layer_0", 7): [0.0, 2.0, 0.0]}
        assert writer.scalars == {("recruited/1.layer_0", 7): 1}

    def test_a_whole_history(self):
        history, writer = small_result("binary").history, Writer()
        with pytest.raises(ValueError, match=r"the history of one network.*history\.member"):
            log_history(history, writer)
        own = history.member(3)
        log_history(own, writer)
        assert writer.scalars["loss/training", own.epochs] == own.train_loss[-1]
        epoch, snapshot = own.snapshots[-1]
        values = snapshot["hidden_eigenvalues.0"]
        assert writer.histograms["eigenvalues/layer_0", epoch] == values.tolist()

    def test_into_a_folder(self, tmp_path):
        pytest.importorskip("tensorboard")
        log_history(small_result("binary").history.member(0), tmp_path / "logs")
        assert list((tmp_path / "logs").glob("events*"))

    def test_without_it(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
        with pytest.raises(ImportError, match=r"pip install 'torchsparcs\[tensorboard\]'"):
            EigenvalueLogger(tmp_path)


def test_the_names_are_listed():
    assert {*torchsparcs.report.__all__} <= {*dir(torchsparcs.report)}
