"""Models as others write them, and how far two are apart."""

import copy
import itertools

import torch
from torch import nn
from torch.nn import functional as F

DOUBLE = torch.float64


class ResNet(nn.Module):
    """As torchvision writes it: features and ``fc``."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(6)
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        return self.fc(F.relu(self.bn1(self.conv1(x))).mean(dim=(2, 3)))


class Vgg(nn.Module):
    """As torchvision writes it: a classifier of three Linears, with dropout."""

    def __init__(self, p: float = 0.5):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(inplace=True))
        act = nn.ReLU(inplace=True)
        self.classifier = nn.Sequential(
            nn.Linear(8, 7),
            act,
            nn.Dropout(p),
            nn.Linear(7, 6),
            act,
            nn.Dropout(p),
            nn.Linear(6, 5),
        )

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class MlpBlock(nn.Sequential):
    """As in torchvision's vision transformer, a Sequential with a history."""

    _version = 2

    def __init__(self, width: int = 8, dropout: float = 0.0):
        super().__init__(
            nn.Linear(width, 12),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(12, width),
            nn.Dropout(dropout),
        )


class Mlp(nn.Module):
    """As timm writes it."""

    def __init__(self, width: int = 8, drop: float = 0.0, act=nn.GELU):
        super().__init__()
        self.fc1 = nn.Linear(width, 12)
        self.act = act()
        self.drop1 = nn.Dropout(drop)
        self.norm = nn.Identity()
        self.fc2 = nn.Linear(12, width)
        self.drop2 = nn.Dropout(drop)

    def forward(self, x):
        return self.drop2(self.fc2(self.norm(self.drop1(self.act(self.fc1(x))))))


class Block(nn.Module):
    def __init__(self, mlp: nn.Module):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.attn = nn.MultiheadAttention(8, 2, batch_first=True)
        self.mlp = mlp

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self, mlp=Mlp, blocks: int = 3):
        super().__init__()
        self.blocks = nn.ModuleList(Block(mlp()) for _ in range(blocks))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=1))


class Bert(nn.Module):
    """As Hugging Face writes it: a Linear here, a Linear there, and an embedding used twice."""

    class Part(nn.Module):
        def __init__(self, n_in, n_out):
            super().__init__()
            self.dense = nn.Linear(n_in, n_out)

    def __init__(self):
        super().__init__()
        self.embeddings = nn.Embedding(11, 8)
        self.layer = nn.ModuleList()
        for _ in range(2):
            layer = nn.Module()
            layer.intermediate, layer.output = self.Part(8, 12), self.Part(12, 8)
            self.layer.append(layer)
        self.lm_head = nn.Linear(8, 11, bias=False)
        self.lm_head.weight = self.embeddings.weight

    def forward(self, ids):
        x = self.embeddings(ids)
        for layer in self.layer:
            x = x + layer.output.dense(F.gelu(layer.intermediate.dense(x)))
        return self.lm_head(x)


class Functional(nn.Module):
    """An MLP whose activation is no child."""

    def __init__(self, function, width: int = 5):
        super().__init__()
        self.function = function
        self.c_fc, self.c_proj, self.drop = nn.Linear(width, 7), nn.Linear(7, 3), nn.Dropout(0.1)

    def forward(self, x):
        return self.drop(self.c_proj(self.function(self.c_fc(x))))


def perceptrons(*widths: int, act=None, bias: bool = True, dtype=DOUBLE) -> nn.Sequential:
    act = nn.ReLU() if act is None else act
    linears = [nn.Linear(*pair, bias=bias, dtype=dtype) for pair in itertools.pairwise(widths)]
    return nn.Sequential(*[part for linear in linears for part in (linear, act)][:-1])


def gap(one: nn.Module, other: nn.Module, x: torch.Tensor) -> float:
    one, other = copy.deepcopy(one).eval(), copy.deepcopy(other).eval()
    with torch.no_grad():
        return (one(x) - other(x)).abs().max().item()
