"""Probabilities are what they should be, and networks say them by themselves."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from torchsparcs import CompactNetwork, SearchConfig, load_result, refit, search
from torchsparcs.judging.calibration import cool_, reliability, temperature
from torchsparcs.training.tasks import TASKS

pytestmark = pytest.mark.usefixtures("brief_searches")
ROWS = 4000
EVEN = torch.full((ROWS,), 1 / ROWS, dtype=torch.float64)


def drawn(task: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits, and targets that come up with their probabilities."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(ROWS, 1 if task == "binary" else 3, generator=generator) * 1.5
    if task == "binary":
        return logits, (torch.rand(ROWS, generator=generator) < logits[:, 0].sigmoid()).float()
    return logits, logits.softmax(1).multinomial(1, generator=generator)[:, 0]


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("degree", [0.4, 3.0])
def test_a_network_that_is_too_sure_or_not_enough(task, degree):
    logits, target = drawn(task)
    found = temperature(degree * logits, target, EVEN, TASKS[task].losses)
    assert found == pytest.approx(degree, rel=0.08)
    best = F.binary_cross_entropy_with_logits if task == "binary" else F.cross_entropy
    true = target[:, None] if task == "binary" else target
    losses = [best(degree * logits / t, true).item() for t in (found / 1.05, found, found * 1.05)]
    assert losses[1] == min(losses)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_what_holds_is_left_alone(task):
    logits, target = drawn(task)
    assert temperature(logits, target, EVEN, TASKS[task].losses) == 1.0


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_where_all_are_right_it_is_not_sure_for_ever(task):
    """Of 100 rows that are told apart, each is about as likely as 1 in 100 to have been wrong."""
    target = torch.arange(100) % 2
    one_hot = F.one_hot(target, 3).double()
    output = 2.0 * target[:, None] - 1.0 if task == "binary" else one_hot
    true = target.float() if task == "binary" else target
    share = torch.full((100,), 0.01, dtype=torch.float64)
    degree = temperature(output, true, share, TASKS[task].losses)
    said = output / degree
    sure = said.abs().sigmoid() if task == "binary" else said.softmax(1).max(dim=1).values
    assert 0.985 < sure.mean().item() < 0.9975


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_how_often_it_is_so(task):
    logits, target = drawn(task)
    share, said, so = reliability(logits, target, EVEN).T
    assert share.sum().item() == pytest.approx(1, abs=1e-3)
    assert (said[1:] > said[:-1]).all()
    assert (said - so).abs().max() < 0.08
    sure = reliability(4 * logits, target, EVEN)  # too sure
    assert ((sure[:, 1] - sure[:, 2]).abs() * sure[:, 0]).sum() > 0.08


def test_the_outputs_are_divided_whatever_leads_to_them():
    network = CompactNetwork([3, 4, 2], [(1, 0), (2, 0), (2, 1)])
    x = torch.randn(5, 3)
    before = network(x)
    torch.testing.assert_close(cool_(network, 2.5)(x), before / 2.5)
    direct = network.to_direct()
    direct.weights[-1, :2] = 0  # so that blocks are sparse
    kwargs = {"maximal": None, "dtype": torch.float32}
    before = CompactNetwork.from_direct(direct, **kwargs)(x)
    sparse = CompactNetwork.from_direct(direct, **kwargs, sparse=True)
    assert sparse.kept is not None
    torch.testing.assert_close(cool_(sparse, 0.4)(x), before / 0.4)


def test_a_search_calibrates_and_says_so(tmp_path):
    """Labels at random on many columns: any network is too sure of them."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(60, 12)), draw.choice(["a", "b"], 60)
    config = SearchConfig(steps=150, ways=("asleep",))
    result = search(x, y, config=config, penalty_weights=[1e-4], progress=False)
    linear = result.linear
    assert linear.temperature > 1.2
    assert linear.loss < 0.75  # at that temperature; hot it is above one
    fresh = draw.normal(size=(50, 12))
    shares = result.predict_proba(fresh, "linear")
    hot = result.target.probabilities(result.outputs(fresh, "linear") * linear.temperature)
    assert (abs(shares - 0.5) <= abs(hot - 0.5) + 1e-9).all()
    with torch.no_grad():
        deployed = result.deployed("linear")(torch.from_numpy(fresh))
    assert np.allclose(deployed, shares, atol=1e-5)
    result.save(tmp_path / "run")
    known = load_result(tmp_path / "run").linear
    assert known.temperature == linear.temperature
    torch.testing.assert_close(known.reliability, linear.reliability, rtol=1e-5, atol=1e-6)


def test_the_score_is_that_of_the_cooled_network():
    """Log loss of what is told, not of what was fitted; labels stay, so that accuracy does."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(60, 12)), draw.choice(["a", "b"], 60)
    config = SearchConfig(steps=150, ways=("asleep",))
    result = search(x, y, config=config, penalty_weights=[1e-4], scoring="log_loss", progress=False)
    linear = result.linear
    assert linear.temperature > 1.2
    assert linear.score == pytest.approx(-linear.loss, abs=1e-6)


def test_it_can_be_left_out(tmp_path):
    """Nothing is divided, and the page says so; how often it is so is told all the same."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(60, 12)), draw.choice(["a", "b"], 60)
    quick = {"config": SearchConfig(steps=5, ways=("asleep",)), "progress": False}
    result = search(x, y, widths=(2,), penalty_weights=[1e-2], calibrate=False, **quick)
    assert {each.temperature for each in (*result.front, result.linear)} == {1.0}
    assert result.linear.reliability is not None
    assert result.settings["calibrate"] is False
    page = result.report(tmp_path / "page.html").read_text()
    assert "They were not calibrated, as asked for." in page
    again = refit(result, x, y, steps=1, progress=False)
    assert {each.temperature for each in again.front} == {1.0}
    with pytest.raises(ValueError, match=r"Expected calibrate to be True or False. Got 'no'"):
        search(x, y, calibrate="no", **quick)
