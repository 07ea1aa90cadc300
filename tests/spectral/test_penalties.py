"""Penalty values, and the proximal step against its definition."""

import math

import pytest
import torch
from torch import nn

from torchsparcs import (
    SpectralNetwork,
    attach_penalty,
    eigenvalue_penalty,
    parameter_groups,
    shrink_eigenvalues_,
)
from torchsparcs.spectral.penalties import PENALTIES
from torchsparcs.spectral.step_sizes import step_size_of


def network(train_input=False, **options) -> SpectralNetwork:
    net = SpectralNetwork([2, 2, 2, 1], train_input_eigenvalues=train_input, **options)
    net.hidden_eigenvalues[0].data = torch.tensor([3.0, -4.0], dtype=net.transfers[0].dtype)
    net.hidden_eigenvalues[1].data = torch.tensor([0.0, 12.0], dtype=net.transfers[0].dtype)
    if train_input:
        net.input_eigenvalues.data = torch.tensor([1.0, 2.0, -2.0])
    return net


@pytest.mark.parametrize(
    ("kind", "hidden", "with_input"),
    [
        ("l1", 19.0, 24.0),
        ("l2", 5.0 + 12.0, 20.0),
        ("l2_squared", 169.0, 178.0),
        ("sparse_group", 19.0 + 17.0, 44.0),
    ],
)
def test_values(kind, hidden, with_input):
    assert eigenvalue_penalty(network(), kind).item() == pytest.approx(hidden)
    assert eigenvalue_penalty(network(True), kind).item() == pytest.approx(with_input)


def test_sums_over_every_network_in_a_module():
    model = nn.Sequential(nn.Linear(4, 2), network(), nn.ModuleDict({"head": network()}))
    assert eigenvalue_penalty(model, "l1").item() == pytest.approx(38.0)


def test_gradients_reach_the_penalised_eigenvalues_only():
    net = network()
    eigenvalue_penalty(net, "sparse_group").backward()
    assert net.output_eigenvalues.grad is None
    assert net.transfers[0].grad is None
    torch.testing.assert_close(
        net.hidden_eigenvalues[0].grad, torch.tensor([1 + 3 / 5, -1 - 4 / 5])
    )


@pytest.mark.parametrize("kind", PENALTIES)
def test_the_gradient_at_the_start_is_finite(kind):
    net = SpectralNetwork([2, 3, 1])
    eigenvalue_penalty(net, kind).backward()
    assert torch.isfinite(net.hidden_eigenvalues[0].grad).all()


def test_a_network_without_hidden_layer_has_no_penalty():
    assert eigenvalue_penalty(SpectralNetwork([3, 2])).item() == 0


def test_bad_input():
    with pytest.raises(ValueError, match=r"l1, l2, l2_squared, sparse_group\. Got 'l3'"):
        eigenvalue_penalty(network(), "l3")
    with pytest.raises(ValueError, match=r"SpectralNetwork inside\. Got Linear"):
        eigenvalue_penalty(nn.Linear(2, 2))


class TestProximalMaps:
    @pytest.mark.parametrize("kind", PENALTIES)
    @pytest.mark.parametrize("scale", [0.02, 0.3, 2.0])
    def test_minimise_their_objective(self, kind, scale):
        """No step from the proximal point lowers Σ (λ − y)² / 2t + Ω(λ)."""
        generator = torch.Generator().manual_seed(0)
        y = torch.randn(7, generator=generator, dtype=torch.float64)
        t = scale * torch.rand(7, generator=generator, dtype=torch.float64)
        point = PENALTIES[kind].shrink(y, t)

        def objective(value):
            return ((value - y).square() / (2 * t)).sum(-1) + PENALTIES[kind].value(value)

        for size in (1e-1, 1e-2, 1e-3):
            moves = size * torch.randn(2000, 7, generator=generator, dtype=torch.float64)
            assert (objective(point + moves) >= objective(point) - 1e-12).all()
        assert objective(torch.zeros_like(y)) >= objective(point) - 1e-12

    @pytest.mark.parametrize("kind", PENALTIES)
    def test_no_threshold_no_change(self, kind):
        y = torch.tensor([0.0, -2.0, 3.0])
        torch.testing.assert_close(PENALTIES[kind].shrink(y, torch.zeros(3)), y)
        zeros = torch.zeros(3)
        assert torch.equal(PENALTIES[kind].shrink(zeros, zeros), zeros)

    def test_the_group_goes_to_zero_as_one(self):
        y = torch.tensor([0.3, 0.4])  # norm ½
        assert torch.equal(PENALTIES["l2"].shrink(y, torch.full((2,), 0.6)), torch.zeros(2))
        torch.testing.assert_close(PENALTIES["l2"].shrink(y, torch.full((2,), 0.25)), y / 2)


class TestShrink:
    def test_sgd_by_hand(self):
        net = network()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
        shrink_eigenvalues_(net, optimizer, 7.0)  # threshold 3.5
        assert net.hidden_eigenvalues[0].tolist() == [0.0, -0.5]
        assert net.hidden_eigenvalues[1].tolist() == [0.0, 8.5]
        assert net.output_eigenvalues.tolist() == [1.0]

    @pytest.mark.parametrize("optimizer_type", [torch.optim.Adam, torch.optim.AdamW])
    @pytest.mark.parametrize("amsgrad", [False, True])
    def test_adam_by_hand(self, optimizer_type, amsgrad):
        net = SpectralNetwork([1, 1, 1], bias=False)
        optimizer = optimizer_type(
            net.parameters(), lr=0.1, betas=(0.9, 0.5), eps=0.1, weight_decay=0.0, amsgrad=amsgrad
        )
        eigenvalue = net.hidden_eigenvalues[0]
        eigenvalue.data.fill_(2.0)
        for gradient in (4.0, 2.0):
            eigenvalue.grad = torch.tensor([gradient])
            optimizer.step()
        before = eigenvalue.item()
        shrink_eigenvalues_(net, optimizer, 0.3)
        # v = ½(½·0 + ½·16) + ½·4 = 6, and v̂ = 6 / (1 − ½²) = 8 (amsgrad: the largest v, 8, / ¾)
        v = 8 / 0.75 if amsgrad else 8
        assert eigenvalue.item() == pytest.approx(before - 0.1 * 0.3 / (math.sqrt(v) + 0.1))

    def test_a_zeroed_eigenvalue_can_come_back(self):
        torch.manual_seed(0)
        net = SpectralNetwork([1, 20, 1])
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
        x = torch.linspace(-1, 1, 64)[:, None]

        def train(target, weight, steps):
            for _ in range(steps):
                optimizer.zero_grad()
                (net(x) - target).square().mean().backward()
                optimizer.step()
                shrink_eigenvalues_(net, optimizer, weight)
            return net.recruited[0]

        assert train(x, 1e-2, 150) == 0  # a line needs no hidden neuron
        assert train(x.abs() + x, 1e-4, 300) > 0  # a kink does
        assert train(x, 1e-1, 150) == 0

    def test_nothing_happens_before_the_first_step(self):
        net = network()
        optimizer = torch.optim.Adam(net.parameters())
        shrink_eigenvalues_(net, optimizer, 1.0)
        assert net.hidden_eigenvalues[0].tolist() == [3.0, -4.0]

    def test_frozen_eigenvalues_are_left_alone(self):
        net = network()
        net.hidden_eigenvalues[0].requires_grad_(False)
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        shrink_eigenvalues_(net, optimizer, 20.0)
        assert net.hidden_eigenvalues[0].tolist() == [3.0, -4.0]
        assert net.hidden_eigenvalues[1].tolist() == [0.0, 0.0]

    def test_works_compiled_with_autocast_and_a_gradient_scaler(self):
        net = SpectralNetwork([4, 8, 2])
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
        scaler = torch.amp.GradScaler("cpu")
        compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
        x = torch.randn(16, 4)
        for _ in range(20):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = compiled(x).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            shrink_eigenvalues_(net, optimizer, 10.0)
        assert net.recruited == [0]

    def test_the_step_itself_compiles(self):
        plain, compiled = (network(dtype=torch.float64) for _ in range(2))
        compiled.load_state_dict(plain.state_dict())
        shrink = torch.compile(shrink_eigenvalues_, backend="aot_eager")
        for net, step in ((plain, shrink_eigenvalues_), (compiled, shrink)):
            optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
            net(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
            optimizer.step()
            step(net, optimizer, 0.5, "sparse_group")
        for a, b in zip(plain.parameters(), compiled.parameters(), strict=True):
            torch.testing.assert_close(a, b)

    def test_a_decay_meant_for_adamw_is_pointed_out(self):
        net = network()
        groups = parameter_groups(net, 0.1)
        with pytest.warns(UserWarning, match="SGD adds a weight decay of 1.0 to the gradients"):
            shrink_eigenvalues_(net, torch.optim.SGD(groups), 0.0)
        shrink_eigenvalues_(net, torch.optim.AdamW(groups), 0.0)
        plain = parameter_groups(net, 0.1, transfer_weight_decay=0.0)
        shrink_eigenvalues_(net, torch.optim.SGD(plain), 0.0)

    @pytest.mark.parametrize("weight", [-1.0, float("nan")])
    def test_bad_weights(self, weight):
        net = network()
        with pytest.raises(ValueError, match="penalty weight >= 0"):
            shrink_eigenvalues_(net, torch.optim.SGD(net.parameters(), lr=0.1), weight)

    def test_bad_input(self):
        net = network()
        with pytest.raises(ValueError, match="holds the eigenvalues"):
            shrink_eigenvalues_(net, torch.optim.SGD([net.output_eigenvalues], lr=0.1), 1.0)
        with pytest.raises(ValueError, match="Got 'lasso'"):
            shrink_eigenvalues_(net, torch.optim.SGD(net.parameters(), lr=0.1), 1.0, "lasso")


class TestLayerScales:
    def test_each_layer_has_its_factor_in_the_loss(self):
        net = SpectralNetwork([2, 2, 2, 1])
        net.hidden_eigenvalues[0].data.copy_(torch.tensor([3.0, -4.0]))
        net.hidden_eigenvalues[1].data.copy_(torch.tensor([1.0, 1.0]))
        assert eigenvalue_penalty(net, "l1", layer_scales=(10, 1)).item() == 72
        assert eigenvalue_penalty(net, "l2", layer_scales=(0, 1)).item() == pytest.approx(2**0.5)

    def test_and_in_the_proximal_step(self):
        net = SpectralNetwork([2, 2, 2, 1])
        for eigenvalues in net.hidden_eigenvalues:
            nn.init.ones_(eigenvalues)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        shrink_eigenvalues_(net, optimizer, 1.0, layer_scales=(5, 0))
        assert net.hidden_eigenvalues[0].tolist() == pytest.approx([0.5, 0.5])
        assert net.hidden_eigenvalues[1].tolist() == [1.0, 1.0]

    def test_one_for_each_layer(self):
        with pytest.raises(ValueError, match=r"a factor for each of 2 penalised layers\. Got 1"):
            eigenvalue_penalty(SpectralNetwork([2, 2, 2, 1]), layer_scales=(1.0,))


class TestFlatRates:
    def optimizer(self, **options):
        torch.manual_seed(0)
        network = SpectralNetwork([2, 3, 1])
        groups = parameter_groups(network, 1e-2, transfer_weight_decay=0.0, **options)
        optimizer = torch.optim.AdamW(groups)
        network(torch.ones(4, 2)).sum().backward()
        return network, optimizer

    def test_one_learning_rate_for_all_groups_is_noticed(self):
        network, optimizer = self.optimizer()
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=10)
        optimizer.step()
        schedule.step()
        with pytest.warns(UserWarning, match=r"30 times faster: OneCycleLR"):
            shrink_eigenvalues_(network, optimizer, 1e-3)

    @pytest.mark.parametrize("scale", [1.0, 30.0])
    def test_what_was_asked_for_is_not(self, scale):
        network, optimizer = self.optimizer(eigenvalue_lr_scale=scale)
        rates = [group["lr"] for group in optimizer.param_groups]
        torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rates, total_steps=10)
        optimizer.step()
        shrink_eigenvalues_(network, optimizer, 1e-3)


class TestAttached:
    def given(self, kind=torch.optim.SGD, **options):
        torch.manual_seed(0)
        network, x = SpectralNetwork([3, 5, 1]), torch.randn(20, 3)
        nn.init.normal_(network.hidden_eigenvalues[0], std=0.1)
        optimizer = kind(network.parameters(), lr=1e-2, **options)
        return network, optimizer, lambda: network(x).square().mean().backward()

    def test_each_step_ends_with_the_proximal_one(self):
        networks = []
        for attached in (True, False):
            network, optimizer, backward = self.given(torch.optim.AdamW)
            if attached:
                attach_penalty(network, optimizer, 0.5)
            for _ in range(5):
                optimizer.zero_grad()
                backward()
                optimizer.step()
                if not attached:
                    shrink_eigenvalues_(network, optimizer, 0.5)
            networks.append(network)
        one, other = (network.hidden_eigenvalues[0] for network in networks)
        assert torch.equal(one, other)
        assert (one == 0).sum() > 0

    def test_through_what_a_trainer_wraps_around_it(self):
        network, optimizer, backward = self.given()

        class Wrapped:
            def __init__(self):
                self.optimizer = optimizer

        attach_penalty(network, Wrapped(), lambda: 1e9)
        backward()
        assert network.hidden_eigenvalues[0].all()
        optimizer.step()
        assert not network.hidden_eigenvalues[0].any()

    @pytest.mark.parametrize(
        ("kind", "options"),
        [
            (torch.optim.Adam, {"betas": (0.0, 0.9)}),
            (torch.optim.NAdam, {"betas": (0.0, 0.9), "momentum_decay": 0.0}),
            (torch.optim.RAdam, {"betas": (0.0, 0.9)}),
            (torch.optim.RMSprop, {}),
            (torch.optim.RMSprop, {"centered": True}),
            (torch.optim.Adagrad, {"lr_decay": 0.1}),
            (torch.optim.SGD, {}),
        ],
    )
    def test_the_threshold_is_a_step_of_the_optimizer(self, kind, options):
        """Without momentum a step is step size times gradient."""
        network, optimizer, backward = self.given(kind, **options)
        eigenvalues = network.hidden_eigenvalues[0]
        for _ in range(12):
            optimizer.zero_grad()
            backward()
            before = eigenvalues.detach().clone()
            optimizer.step()
        sizes = step_size_of(eigenvalues, optimizer)
        moved, expected = before - eigenvalues.detach(), sizes * eigenvalues.grad
        assert torch.allclose(moved, expected, rtol=1e-3, atol=1e-7)

    def test_steps_that_are_not_known_are_those_of_the_learning_rate(self):
        network, optimizer, backward = self.given(torch.optim.Rprop)
        backward()
        optimizer.step()
        with pytest.warns(UserWarning, match="Rprop are not known"):
            assert step_size_of(network.hidden_eigenvalues[0], optimizer) == 0.01

    def test_refusals(self):
        network, optimizer, _ = self.given()
        with pytest.raises(ValueError, match=r"Expected an optimizer of torch. Got int"):
            attach_penalty(network, 3, 1.0)
        with pytest.raises(ValueError, match="weight >= 0"):
            attach_penalty(network, optimizer, -1.0)
        with pytest.raises(ValueError, match=r"with a learning rate.*Got LBFGS"):
            shrink_eigenvalues_(network, torch.optim.LBFGS(network.parameters()), 1.0)
