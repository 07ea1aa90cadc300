"""The head of a convolutional network found while the network trains, in a loop of one's own.

``spectralize`` puts a spectral network of up to 100 hidden neurons where the last Linear of a model
for 8 x 8 digits stood. The loop is an ordinary one but for two lines. Out comes the same model,
plain ``nn.Linear`` again, with a head as small as the validation images allow. (Two channels are
few, and a linear head on them is worse: ``weight=1e6`` recruits nothing and shows it.)
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

from torchsparcs import evaluate, extract, parameter_groups, shrink_eigenvalues_, spectralize

torch.manual_seed(0)
digits = load_digits()
x, y = torch.tensor(digits.images).float()[:, None] / 8 - 1, torch.tensor(digits.target)
order = torch.randperm(len(x))
training, validation, test = [(x[part], y[part]) for part in order.split([1200, 300, 297])]

model = nn.Sequential(
    nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 10)
)
model = spectralize(model, target="4", hidden=[100])
optimizer = torch.optim.AdamW(parameter_groups(model, lr=5e-3), weight_decay=0.01)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40 * 10)
for epoch in range(40):
    for rows in torch.randperm(1200).split(128):
        loss = nn.functional.cross_entropy(model(training[0][rows]), training[1][rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shrink_eigenvalues_(model, optimizer, weight=1e-3)
        schedule.step()
    if epoch % 10 == 9:
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}, recruited {model[4].recruited}")

small = extract(model, data=training, validation=validation, task="multiclass", progress=False)
print(small[4].describe())
for name, module in (("trained", model), ("extracted", small)):
    print(f"{name}: test accuracy {evaluate(module, test, 'multiclass').score:.3f}")
