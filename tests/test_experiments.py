"""The paper's experiments in a tiny form: the shape of their claims, resuming, what is written."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from torchsparcs import SpectralNetwork, cli, path_norm
from torchsparcs.experiments import EXPERIMENTS, reproduce, scaling, teacher_student, transition
from torchsparcs.experiments.measuring import kept_bytes
from torchsparcs.experiments.peers import BlockNetwork, DirectNetwork

TINY = {
    "transition": transition.Setting(
        alphas=(0.0, 0.25, 0.4, 0.5, 0.6, 0.75, 1.0),
        models=2,
        points=1000,
        hidden=40,
        epochs=120,
        batch_size=50,
        lr=2e-3,
        drawn=30,
        peer_steps=20,
    ),
    "teacher-student": teacher_student.Setting(
        seeds=(0, 1), dimension=4, hidden=(12, 12), points=4000, epochs=60, batch_size=128
    ),
    "scaling": scaling.Setting(
        measured=(2, 12), counted=tuple(range(2, 13)), batch=256, seconds=0.3
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
}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Every experiment run once: its folder and its results."""
    found = {}
    for name, setting in TINY.items():
        folder = tmp_path_factory.mktemp(name)
        content = reproduce(EXPERIMENTS[name], folder, setting=setting, device="cpu", command="x")
        found[name] = (folder, content)
    return found


@pytest.mark.parametrize("name", TINY)
def test_what_is_written(done, name):
    folder, content = done[name]
    expected = {f"{figure}.{ending}" for figure in FIGURES[name] for ending in ("png", "svg")}
    assert {path.name for path in folder.iterdir()} == {*expected, "README.md", "results.json"}
    assert json.loads((folder / "results.json").read_text()) == content
    assert {"command", "date", "hardware", "versions", "setting"} < set(content)
    page = (folder / "README.md").read_text()
    assert all(f"({figure}.svg)" in page for figure in FIGURES[name])
    assert "{" not in page


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

    def test_the_claims_can_hold(self, done):
        _, content = done["transition"]
        good = json.loads(json.dumps(content))
        for row in good["results"]["datasets"]:
            step = 0.4 * (row["alpha"] > 0.5)
            row["gamma_mean"] = step if row["beta"] == 1000 else 0.4 * row["alpha"]
            row["mse_mean"] = 1e-5
        assert all(claim.held for claim in EXPERIMENTS["transition"].claims(good))

    def test_the_claims_can_fail(self, done):
        _, content = done["transition"]
        broken = json.loads(json.dumps(content))
        for row in broken["results"]["datasets"]:
            row["gamma_mean"], row["mse_mean"] = 1 - row["alpha"], 1.0
        assert not any(claim.held for claim in EXPERIMENTS["transition"].claims(broken))

    def test_targets_go_from_the_mean_to_the_mean_square(self):
        x = torch.tensor([[0.5, -1.0], [1.0, 0.0]])
        linear, square = torch.tensor([-0.25, 0.5]), torch.tensor([0.625, 0.5])
        torch.testing.assert_close(transition.target(x, 0.0, 1000), linear)
        torch.testing.assert_close(transition.target(x, 1.0, 1000), square)
        torch.testing.assert_close(transition.target(x, 0.5, 5), (linear + square) / 2)

    def test_edges_above_the_cutoff_are_those_of_model_0(self, done):
        _, content = done["transition"]
        linear, bent = (
            next(row for row in content["results"]["datasets"] if row["alpha"] == alpha)
            for alpha in (0.0, 1.0)
        )
        into_hidden = [
            [edge for edge in row["edges"] if edge[0] == 0 and edge[2] == 1]
            for row in (linear, bent)
        ]
        assert len(into_hidden[0]) < 5 < len(into_hidden[1])
        assert all(abs(edge[4]) > 0.01 for row in (linear, bent) for edge in row["edges"])

    def test_rank_correlation(self):
        assert transition.rank_correlation([(1, 10), (2, 20), (3, 90)]) == pytest.approx(1)
        assert transition.rank_correlation([(1, 30), (2, 20), (3, 10)]) == pytest.approx(-1)


class TestTeacherStudent:
    def test_our_recipe_finds_the_teacher_and_a_line_does_not(self, done):
        _, content = done["teacher-student"]
        for run in content["results"]["runs"]["own"]:
            assert run["compact_hidden"] == [4]
            assert run["r2_compact"] > 0.998
            assert run["r2_linear"] < 0.9

    def test_pruning_by_eigenvalues(self, done):
        _, content = done["teacher-student"]
        for runs in content["results"]["runs"].values():
            for run in runs:
                kept, increase = run["curve"]["kept"], run["curve"]["increase"]
                assert kept[0] == 0
                assert increase[-1] == 0
                assert increase[0] > 0.05
                assert sum(run["kept"]) in kept
                left = increase[kept.index(sum(run["kept"]))]
                assert left <= 0.05

    def test_keeping_eigenvalues_keeps_the_largest(self):
        network = SpectralNetwork([2, 3, 2, 1])
        with torch.no_grad():
            network.hidden_eigenvalues[0].copy_(torch.tensor([1.0, -5.0, 0.5]))
            network.hidden_eigenvalues[1].copy_(torch.tensor([-2.0, 0.1]))
        kept = teacher_student.keeping_eigenvalues(network, 2)
        assert kept.hidden_eigenvalues[0].tolist() == [0, -5, 0]
        assert kept.hidden_eigenvalues[1].tolist() == [-2, 0]
        assert network.recruited == [3, 2]

    def test_rotations(self):
        turn = teacher_student.rotation(5, torch.Generator().manual_seed(0))
        torch.testing.assert_close(turn @ turn.T, torch.eye(5), atol=1e-5, rtol=0)
        assert torch.linalg.det(turn) == pytest.approx(1, abs=1e-5)


class TestScaling:
    def test_counts(self, done):
        _, content = done["scaling"]
        two, *_, twelve = content["results"]["counts"]
        assert (two["direct"], two["spectral"]) == (10_000, 10_200)
        assert (twelve["direct"], twelve["spectral"]) == (660_000, 111_200)

    def test_deep_networks_take_less_time_and_memory(self, done):
        _, content = done["scaling"]
        assert all(claim.held for claim in EXPERIMENTS["scaling"].claims(content))
        deep = content["results"]["measured"][-1]
        assert deep["spectral"]["seconds"] < deep["direct"]["seconds"] < deep["blocks"]["seconds"]

    def test_kept_bytes_counts_activations_once(self):
        network, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), torch.rand(32, 8)
        assert kept_bytes(network, x) == {"activations": 2 * 32 * 8 * 4, "weights": 0}


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


class TestResuming:
    name, setting = "scaling", replace(TINY["scaling"], measured=(2, 3, 4), seconds=0.05)

    def test_parts_that_are_done_are_not_done_again(self, tmp_path):
        experiment, seen = EXPERIMENTS[self.name], []

        def stop_at_the_last(text):
            if text == "4_layers":
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            reproduce(
                experiment,
                tmp_path,
                setting=self.setting,
                device="cpu",
                report=stop_at_the_last,
            )
        parts = {path.name: path.read_text() for path in (tmp_path / "parts").iterdir()}
        assert set(parts) == {"asked.json", "2_layers.json", "3_layers.json"}
        content = reproduce(
            experiment, tmp_path, setting=self.setting, device="cpu", report=seen.append
        )
        assert seen == ["2_layers: done before", "3_layers: done before", "4_layers", "figures"]
        assert content["results"]["measured"][0] == json.loads(parts["2_layers.json"])
        assert not (tmp_path / "parts").exists()

    def test_a_training_goes_on_where_it_stopped(self, tmp_path, monkeypatch):
        setting = replace(TINY["transition"], models=1, alphas=(0.0, 0.5, 1.0), epochs=6)
        options = {"setting": setting, "device": "cpu"}
        whole = reproduce(EXPERIMENTS["transition"], tmp_path / "a", **options)
        monkeypatch.setattr("torchsparcs.training.SAVING_SHARE", 1e9)  # after every epoch
        original, calls = torch.optim.AdamW.step, []

        def step(self, *arguments, **named):
            calls.append(1)
            if len(calls) == 50:
                raise RuntimeError("power cut")
            return original(self, *arguments, **named)

        monkeypatch.setattr(torch.optim.AdamW, "step", step)
        with pytest.raises(RuntimeError, match="power cut"):
            reproduce(EXPERIMENTS["transition"], tmp_path / "b", **options)
        assert (tmp_path / "b" / "parts" / "all_together.ckpt").exists()
        again = reproduce(EXPERIMENTS["transition"], tmp_path / "b", **options)
        assert len(calls) == 50 + 120 - 40  # two of six epochs were saved
        assert again["results"]["datasets"] == whole["results"]["datasets"]

    def test_a_finished_folder_is_drawn_again_not_measured_again(self, tmp_path):
        options = {"setting": self.setting, "device": "cpu"}
        first = reproduce(EXPERIMENTS[self.name], tmp_path, **options)
        (tmp_path / "measured.svg").unlink()
        seen = []
        assert reproduce(EXPERIMENTS[self.name], tmp_path, report=seen.append, **options) == first
        assert seen == ["figures"]
        assert (tmp_path / "measured.svg").exists()
        forced = reproduce(EXPERIMENTS[self.name], tmp_path, force=True, **options)
        assert forced["results"]["measured"] != first["results"]["measured"]

    def test_other_settings_and_foreign_folders_are_refused(self, tmp_path):
        experiment = EXPERIMENTS[self.name]
        reproduce(experiment, tmp_path / "a", setting=self.setting, device="cpu")
        other = replace(self.setting, width=50)
        with pytest.raises(ValueError, match="same experiment, to go on with"):
            reproduce(experiment, tmp_path / "a", setting=other, device="cpu")
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "thesis.txt").write_text("mine")
        with pytest.raises(ValueError, match="Expected an empty folder"):
            reproduce(experiment, tmp_path / "b", setting=self.setting, device="cpu")
        assert (tmp_path / "b" / "thesis.txt").read_text() == "mine"


class TestCommand:
    def test_list_names_figures_and_costs(self):
        shown = CliRunner().invoke(cli.app, ["reproduce", "--list"])
        assert shown.exit_code == 0
        for name, experiment in EXPERIMENTS.items():
            assert name in shown.output
            assert experiment.figures in shown.output
            assert experiment.quick_cost in shown.output

    def test_an_unknown_name_lists_the_known_ones(self):
        shown = CliRunner().invoke(cli.app, ["reproduce", "nonsense"])
        assert shown.exit_code == 2
        assert "transition" in shown.output

    def test_it_runs_and_says_what_was_seen(self, tmp_path, monkeypatch):
        tiny = replace(EXPERIMENTS["scaling"], quick=TestResuming.setting)
        monkeypatch.setitem(EXPERIMENTS, "scaling", tiny)
        out = str(tmp_path / "out")
        command = ["reproduce", "scaling", "--quick", "--device", "cpu", "--out", out]
        shown = CliRunner().invoke(cli.app, command)
        assert shown.exit_code == 0, shown.output
        assert "10,000 against 10,200" in shown.output
        recorded = json.loads((tmp_path / "out" / "results.json").read_text())
        assert recorded["command"] == "sparcs reproduce scaling --quick --device cpu"


def test_gamma_is_zero_exactly_where_nothing_is_recruited():
    assert path_norm(SpectralNetwork([2, 300, 1], train_input_eigenvalues=True)) == 0
