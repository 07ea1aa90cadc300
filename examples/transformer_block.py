"""The feed-forward blocks of a small transformer, each as wide as it turns out to need.

The rows of 8 x 8 digits are eight tokens. Each of two blocks is offered 64 hidden neurons and
recruits a few; ``extract`` gives plain ``nn.Linear`` again, in a model that answers as before.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from torchsparcs import TrainConfig, evaluate, extract, spectralize, train

SIZE, HIDDEN = 16, 64


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(SIZE), nn.LayerNorm(SIZE)
        self.attention = nn.MultiheadAttention(SIZE, num_heads=2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(SIZE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, SIZE))

    def forward(self, x: Tensor) -> Tensor:
        heard = self.before_attention(x)
        x = x + self.attention(heard, heard, heard, need_weights=False)[0]
        return x + self.mlp(self.before_mlp(x))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.position = nn.Linear(8, SIZE), nn.Parameter(torch.randn(8, SIZE) / 10)
        self.blocks, self.head = nn.Sequential(Block(), Block()), nn.Linear(SIZE, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.blocks(self.tokens(images) + self.position).mean(dim=1))


torch.manual_seed(0)
digits = load_digits()
x, y = torch.tensor(digits.images).float() / 8 - 1, torch.tensor(digits.target)
model = spectralize(Transformer(), target="blocks.*.mlp", hidden=[HIDDEN])
config = TrainConfig(task="multiclass", epochs=40, batch_size=64, lr=3e-3, penalty_weight=1e-3)
train(model, (x[:1300], y[:1300]), config, progress=False)
small = extract(model)
for name, module in (("trained", model), ("extracted", small)):
    parameters = sum(p.numel() for p in module.blocks.parameters())
    accuracy = evaluate(module, (x[1300:], y[1300:]), "multiclass").score
    print(f"{name}: {parameters:,} parameters in the blocks, test accuracy {accuracy:.3f}")
print(*(block.mlp.describe() for block in small.blocks), sep="\n")
