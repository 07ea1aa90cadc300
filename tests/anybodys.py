"""Blocks as others write them: activations anywhere, gates, convolutions with norms."""

import torch
from torch import nn
from torch.nn import functional as F


class Conv1D(nn.Module):
    """A Linear with its weight the other way round, as in GPT-2."""

    def __init__(self, nf: int, nx: int):
        super().__init__()
        self.nf, self.nx = nf, nx
        self.weight = nn.Parameter(torch.randn(nx, nf) / nx**0.5)
        self.bias = nn.Parameter(torch.randn(nf) / 9)

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(
            *x.size()[:-1], self.nf
        )


class Gpt(nn.Module):
    """Attention by hand and an MLP whose activation is registered last; a head that is tied."""

    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(9, 8)
        self.c_attn, self.c_out = Conv1D(24, 8), Conv1D(8, 8)
        self.c_fc, self.c_proj = Conv1D(12, 8), Conv1D(8, 12)
        self.act, self.norm = nn.GELU("tanh"), nn.LayerNorm(8)
        self.lm_head = nn.Linear(8, 9, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids):
        x = self.wte(ids)
        q, k, v = self.c_attn(x).split(8, dim=2)
        x = x + self.c_out(torch.softmax(q @ k.mT, dim=-1) @ v)
        x = x + self.c_proj(self.act(self.c_fc(self.norm(x))))
        return {"logits": self.lm_head(x), "hidden": (x,)}


class Gated(nn.Module):
    """Half of the hidden units gate the other half: two projections, or one that is split."""

    def __init__(self, is_one: bool = False):
        super().__init__()
        self.act_fn = nn.SiLU()
        self.norm, self.is_one = nn.LayerNorm(8), is_one
        self.down_proj = nn.Linear(12, 8, bias=False)
        if is_one:
            self.gate_up_proj = nn.Linear(8, 24, bias=False)
        else:
            self.gate_proj, self.up_proj = (nn.Linear(8, 12, bias=False) for _ in range(2))

    def forward(self, x):
        y = self.norm(x)
        both = (
            self.gate_up_proj(y).chunk(2, dim=-1)
            if self.is_one
            else (self.gate_proj(y), self.up_proj(y))
        )
        return x + self.down_proj(self.act_fn(both[0]) * both[1])


class Bottleneck(nn.Module):
    """As torchvision writes it, with one ReLU for all, in place."""

    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU(inplace=True)
        self.conv1, self.bn1 = nn.Conv2d(3, 6, 1, bias=False), nn.BatchNorm2d(6)
        self.conv2, self.bn2 = nn.Conv2d(6, 5, 3, padding=1, bias=False), nn.BatchNorm2d(5)
        self.conv3, self.bn3 = nn.Conv2d(5, 3, 1, bias=False), nn.BatchNorm2d(3)

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x
        return self.relu(out)


class InvertedResidual(nn.Module):
    """As in MobileNetV2: channels are widened, convolved one by one, and narrowed."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            *(nn.Conv2d(3, 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(inplace=True)),
            *(nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), nn.BatchNorm2d(8)),
            *(nn.ReLU6(inplace=True), nn.Conv2d(8, 3, 1, bias=False), nn.BatchNorm2d(3)),
        )

    def forward(self, x):
        return x + self.conv(x)


class Residuals(nn.Module):
    """Two residual blocks whose activations are functions."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 3, 3, padding=1)
        self.first, self.second = Bottleneck(), InvertedResidual()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        x = self.second(self.first(F.relu(self.stem(x))))
        return self.fc(x.mean(dim=(2, 3)))


def settled(model: nn.Module) -> nn.Module:
    """``model`` with statistics in its normalisations, in evaluation."""
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.running_mean, module.weight.data, module.bias.data):
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
            module.running_var.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return model.eval()
