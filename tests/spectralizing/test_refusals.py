"""What cannot be replaced says why."""

import pytest
import torch
from models import Bert, Block, Functional, Mlp, ResNet, Vit, perceptrons
from torch import nn
from torch.nn.utils import parametrizations, prune

from torchsparcs import spectralize


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.act, self.down = nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 8)

    def forward(self, x):
        return self.down(self.act(self.gate(x)) * x)


class Scaled(Mlp):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(8))


class Pooled(Mlp):
    def forward(self, x):
        return super().forward(x.flatten(1))


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def shared() -> nn.Module:
    model = Vit()
    model.again = model.blocks[1].mlp
    return model


def repeated() -> nn.Module:
    linear = nn.Linear(3, 3)
    return nn.Sequential(linear, nn.ReLU(), linear)


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 2))
    model[0].register_forward_hook(lambda module, inputs, output: 2 * output)
    return model


def pruned() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 2))
    prune.l1_unstructured(model[0], "weight", amount=1)
    return model


def without_hooks(model: nn.Module) -> nn.Module:
    model[0]._forward_pre_hooks.clear()
    return model


@pytest.mark.parametrize(
    ("model", "target", "message"),
    [
        (Vit(blocks=4), "headd", r"Got 'headd'\. There are 'blocks\.0\.mlp', .*, \.\.\.\."),
        (ResNet(), "blocks.*.mlp", r"There are 'fc'\. With example="),
        (nn.ReLU(), "fc", "There are none"),
        (nn.Linear(2, 2), "fc", "There are ''"),
        (ResNet(), 3, "a name or several. Got 3"),
        (ResNet(), [], "at least one target"),
        (Vit(), ["blocks.0.mlp", "blocks.0.mlp.fc1"], "'blocks.0.mlp.fc1', which is inside"),
        (Vit(), ["", "head"], "'head', which is inside ''"),
        (ResNet(), "conv1", r"'conv1' to be a Linear, .* Got a Conv2d\. With example=, what"),
        (ResNet(), "", "Got a ResNet that cannot be tried on an input of"),
        (
            nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)),
            "",
            "between the Linears of .*Got none",
        ),
        (
            nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)),
            "",
            "Got a BatchNorm1d at .1.: name its Linears one by one",
        ),
        (nn.Sequential(nn.Linear(3, 4), nn.Softmax(-1), nn.Linear(4, 2)), "", "Softmax"),
        (nn.Sequential(nn.Linear(3, 4), nn.PReLU(), nn.Linear(4, 2)), "", "PReLU"),
        (nn.Sequential(nn.Linear(3, 4), nn.GLU(), nn.Linear(2, 2)), "", "GLU"),
        (nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Tanh(), nn.Linear(4, 2)), "", "Tanh"),
        (
            nn.Sequential(*perceptrons(3, 4, 2), nn.Tanh(), nn.Linear(2, 2)),
            "",
            "Tanh between .2. and .4.",
        ),
        (Vit(Gated), "blocks.*.mlp", "Gated whose forward is not its children .* one by one"),
        (Block(Mlp()), "", r"Got a Block of LayerNorm, LayerNorm, .*, Mlp\."),
        (Scaled(), "", "Scaled with parameters of its own besides"),
        (Pooled(), "", r"Pooled that cannot be tried on an input of \(2, 3, 8\) \("),
        (Functional(torch.sin), "", "whose forward is not its children"),
        (nn.Sequential(nn.LazyLinear(3)), "0", "known widths at '0'. Got a LazyLinear: run"),
        (nn.Sequential(Doubled(3, 3)), "0", "plain Linear at '0'. Got a Doubled"),
        (nn.Sequential(Doubled(3, 3), nn.ReLU(), nn.Linear(3, 3)), "", "Got a Doubled"),
        (parametrizations.weight_norm(nn.Linear(3, 2)), "", "Got a ParametrizedLinear"),
        (hooked(), "0", "Linear without hooks at '0'"),
        (pruned(), "0", "pruning of torch are hooks"),
        (without_hooks(pruned()), "0", "makes its weight from bias, weight_orig"),
        (nn.Linear(3, 2, dtype=torch.complex64), "", "real weights at ''"),
        (
            nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2).double()),
            "",
            "in one precision",
        ),
        (Vit(), "blocks.0.attn.out_proj", "outside nn.MultiheadAttention"),
        (shared(), "again", r"one place\. Got 'again', shared by 'blocks\.1\.mlp', 'again'"),
        (shared(), "blocks.1.mlp.fc1", "shared by 'blocks.1.mlp.fc1', 'again.fc1'"),
        (repeated(), "", "shared by '0', '2'"),
        (Bert(), "lm_head", "one tensor is 'embeddings.weight', 'lm_head.weight'"),
    ],
)
def test_what_cannot_be_replaced_says_why(model, target, message):
    with pytest.raises(ValueError, match=message):
        spectralize(model, target=target, hidden=[5])


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        ([], r"Expected hidden to be widths, at least one\. Got \[\]"),
        (20, "Got 20"),
        ("20", "Got '20'"),
        ([0], "positive integers"),
        ([2.5], "positive integers"),
    ],
)
def test_bad_widths_are_refused(hidden, message):
    with pytest.raises(ValueError, match=message):
        spectralize(nn.Linear(3, 2), target="", hidden=hidden)
