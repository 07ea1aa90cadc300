"""The proximal step inside trainers of others: on real steps only, as in a loop of one's own.

transformers, accelerate and lightning are not among what the tests need: their tests are for
whoever has them.
"""

import copy
import warnings

import pytest
import torch
from torch import nn

from torchsparcs import (
    SpectralNetwork,
    attach_penalty,
    extract,
    parameter_groups,
    shrink_eigenvalues_,
)

ACCUMULATED, BATCHES = 3, 24
WEIGHT = 3e-2


class Model(nn.Module):
    """What a trainer is given: it says its loss itself, and remembers what it was called with."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = SpectralNetwork([3, 20, 1])
        nn.init.normal_(self.body.hidden_eigenvalues[0], std=0.3)
        self.seen = []

    def forward(self, x, labels):
        self.seen.append((x.clone(), labels.clone()))
        answer = self.body(x)
        return {"loss": (answer - labels).square().mean(), "logits": answer}


class Counted:
    """The weight of a penalty, and how many proximal steps asked for it."""

    def __init__(self):
        self.steps = -1  # attaching asks once

    def __call__(self):
        self.steps += 1
        return WEIGHT


def data():
    x = torch.rand(BATCHES * 10, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return x, x[:, :2].abs().sum(dim=1, keepdim=True)


def batches():
    return list(zip(*(part.split(10) for part in data()), strict=True))


def optimizer_of(model, kind=torch.optim.AdamW, **options):
    return kind(parameter_groups(model, lr=2e-2, transfer_weight_decay=0), **options)


def own_loop(seen, accumulated=ACCUMULATED):
    """The same batches in a loop of one's own."""
    model = Model()
    optimizer = optimizer_of(model)
    attach_penalty(model, optimizer, WEIGHT)
    for start in range(0, len(seen), accumulated):
        for x, labels in seen[start : start + accumulated]:
            (model(x, labels)["loss"] / accumulated).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def check(model, counted, steps=BATCHES // ACCUMULATED, seen=None):
    """Exact zeros, as many proximal steps as steps, and what one's own loop gives."""
    assert counted.steps == steps
    eigenvalues = model.body.hidden_eigenvalues[0]
    assert 0 < model.body.recruited[0] < 20
    assert extract(model.body).widths[1] == model.body.recruited[0]
    expected = own_loop(seen or model.seen).body.hidden_eigenvalues[0]
    assert torch.equal(eigenvalues == 0, expected == 0)
    assert torch.allclose(eigenvalues, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.AdamW, {}),
        (torch.optim.AdamW, {"fused": True}),  # which takes no step, but is called to take one
        (torch.optim.Adam, {"fused": True, "amsgrad": True}),
        (torch.optim.SGD, {"fused": True}),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_step_that_a_scaler_skips_moves_nothing(kind, options, first):
    model, counted = Model(), Counted()
    optimizer = optimizer_of(model, kind, **options)
    attach_penalty(model, optimizer, counted)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    skipped = {0, 4} if first else {4}
    for index, (x, labels) in enumerate(batches()[:6]):
        before = copy.deepcopy(model.state_dict())
        loss = model(x, labels)["loss"]
        scaler.scale(loss * torch.inf if index in skipped else loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        same = [torch.equal(value, before[name]) for name, value in model.state_dict().items()]
        assert all(same) if index in skipped else not all(same)
    assert counted.steps == 6 - len(skipped)
    assert model.body.hidden_eigenvalues[0].isfinite().all()


def test_by_hand_after_a_first_step_that_was_skipped():
    model = Model()
    optimizer = optimizer_of(model, fused=True)
    scaler = torch.amp.GradScaler("cpu")
    x, labels = batches()[0]
    before = model.body.hidden_eigenvalues[0].detach().clone()
    scaler.scale(model(x, labels)["loss"] * torch.inf).backward()
    scaler.step(optimizer)
    shrink_eigenvalues_(model, optimizer, WEIGHT)
    assert torch.equal(model.body.hidden_eigenvalues[0], before)


class TestFabric:
    def fabric(self, **options):
        module = pytest.importorskip("lightning_fabric", reason="needs lightning-fabric")
        return module.Fabric(accelerator="cpu", devices=1, **options)

    @pytest.mark.parametrize("before", [True, False])
    def test_accumulation(self, before):
        fabric, own, counted = self.fabric(), Model(), Counted()
        optimizer = optimizer_of(own)
        if before:
            attach_penalty(own, optimizer, counted)
        model, optimizer = fabric.setup(own, optimizer)
        if not before:
            attach_penalty(model, optimizer, counted)
        for index, (x, labels) in enumerate(batches()):
            fabric.backward(model(x, labels)["loss"] / ACCUMULATED)
            if (index + 1) % ACCUMULATED == 0:
                optimizer.step()
                optimizer.zero_grad()
        check(own, counted)

    @pytest.mark.parametrize("options", [{}, {"fused": True}])
    def test_its_scaler_skips_a_step(self, options):
        pytest.importorskip("lightning_fabric", reason="needs lightning-fabric")
        from lightning_fabric.plugins import MixedPrecision

        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30)  # too much for half numbers
        fabric = self.fabric(plugins=[MixedPrecision("16-mixed", "cpu", scaler)])
        own, counted = Model(), Counted()
        model, optimizer = fabric.setup(own, optimizer_of(own, **options))
        attach_penalty(model, optimizer, counted)
        skipped = 0
        for x, labels in batches():
            before, scale = own.body.hidden_eigenvalues[0].detach().clone(), scaler.get_scale()
            fabric.backward(model(x, labels)["loss"])
            optimizer.step()
            optimizer.zero_grad()
            if scaler.get_scale() < scale:
                skipped += 1
                assert torch.equal(own.body.hidden_eigenvalues[0], before)
        assert 0 < skipped < BATCHES - 5
        assert counted.steps == BATCHES - skipped
        assert 0 < own.body.recruited[0] < 20


class TestAccelerate:
    @pytest.fixture
    def accelerator(self):
        accelerate = pytest.importorskip("accelerate", reason="needs accelerate")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield accelerate.Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATED)

    @pytest.mark.parametrize("before", [True, False])
    @pytest.mark.filterwarnings("ignore")
    def test_accumulation(self, accelerator, before):
        own, counted = Model(), Counted()
        optimizer = optimizer_of(own)
        if before:
            attach_penalty(own, optimizer, counted)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data()), 10)
        model, optimizer, loader = accelerator.prepare(own, optimizer, loader)
        if not before:
            attach_penalty(model, optimizer, counted)
        for x, labels in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(x, labels)["loss"])
                optimizer.step()
                optimizer.zero_grad()
        check(own, counted)

    @pytest.mark.parametrize("options", [{}, {"fused": True}])
    @pytest.mark.filterwarnings("ignore")
    def test_its_scaler_skips_a_step(self, accelerator, options):
        accelerator.gradient_accumulation_steps = 1
        accelerator.scaler = torch.amp.GradScaler("cpu")
        own, counted = Model(), Counted()
        model, optimizer = accelerator.prepare(own, optimizer_of(own, **options))
        attach_penalty(model, optimizer, counted)
        for index, (x, labels) in enumerate(batches()[:6]):
            before = own.body.hidden_eigenvalues[0].detach().clone()
            loss = model(x, labels)["loss"]
            accelerator.backward(loss * torch.inf if index in (0, 4) else loss)
            optimizer.step()
            optimizer.zero_grad()
            moved = not torch.equal(own.body.hidden_eigenvalues[0], before)
            assert moved == (index not in (0, 4))
        assert counted.steps == 4


class TestLightning:
    @pytest.fixture
    def module(self):
        lightning = pytest.importorskip("lightning", reason="needs lightning")

        class Module(lightning.LightningModule):
            def __init__(self, counted):
                super().__init__()
                self.model, self.counted = Model(), counted

            def training_step(self, batch, index):
                return self.model(*batch)["loss"]

            def configure_optimizers(self):
                optimizer = optimizer_of(self)
                attach_penalty(self, optimizer, self.counted)
                return optimizer

        return Module

    def fit(self, module, **options):
        import lightning

        trainer = lightning.Trainer(
            accelerator="cpu",
            max_epochs=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            **options,
        )
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data()), 10)
        trainer.fit(module, loader)
        return trainer

    @pytest.mark.filterwarnings("ignore")
    def test_accumulation(self, module):
        counted = Counted()
        one = module(counted)
        trainer = self.fit(one, accumulate_grad_batches=ACCUMULATED)
        assert trainer.global_step == counted.steps
        check(one.model, counted)

    @pytest.mark.filterwarnings("ignore")
    def test_its_scaler_skips_a_step(self, module):
        from lightning.pytorch.plugins import MixedPrecision

        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30, growth_interval=1000)
        one = module(Counted())
        self.fit(one, plugins=[MixedPrecision("16-mixed", "cpu", scaler)])
        skipped = round(torch.tensor(2.0**30 / scaler.get_scale()).log2().item())
        assert 0 < skipped < BATCHES - 5
        assert one.counted.steps == BATCHES - skipped
        assert 0 < one.model.body.recruited[0] < 20


class TestTransformers:
    def trainer(self, model, counted, folder, **options):
        transformers = pytest.importorskip("transformers", reason="needs transformers")
        pytest.importorskip("accelerate", reason="needs accelerate")
        optimizer = optimizer_of(model)
        attach_penalty(model, optimizer, counted)
        x, labels = data()
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=10,
            gradient_accumulation_steps=ACCUMULATED,
            num_train_epochs=1,
            max_grad_norm=0,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            **options,
        )
        return transformers.Trainer(
            model,
            arguments,
            train_dataset=[{"x": a, "labels": b} for a, b in zip(x, labels, strict=True)],
            optimizers=(optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)),
        )

    @pytest.mark.filterwarnings("ignore")
    def test_accumulation(self, tmp_path):
        model, counted = Model(), Counted()
        self.trainer(model, counted, tmp_path, save_strategy="no").train()
        check(model, counted)

    @pytest.mark.filterwarnings("ignore")
    def test_gone_on_from_a_checkpoint(self, tmp_path):
        whole, counted = Model(), Counted()
        self.trainer(whole, counted, tmp_path, save_steps=5).train()
        rest, again = Model(), Counted()
        trainer = self.trainer(rest, again, tmp_path, save_strategy="no")
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
        assert again.steps == BATCHES // ACCUMULATED - 5
        assert torch.equal(rest.body.hidden_eigenvalues[0], whole.body.hidden_eigenvalues[0])
        check(whole, counted)
