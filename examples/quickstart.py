"""From a maximal network to the small one a task needs, with a training loop of your own.

A teacher with one hidden layer of 8 ReLU neurons makes the data; the student is offered two hidden
layers of 100. It ends as the teacher: 10 → 8 → 4, no skip connection.
"""

import torch

from torchsparcs import SpectralNetwork, extract, parameter_groups, shrink_eigenvalues_

torch.manual_seed(0)
teacher = torch.nn.Sequential(
    torch.nn.Linear(10, 8, bias=False), torch.nn.ReLU(), torch.nn.Linear(8, 4, bias=False)
)
x = torch.rand(12_000, 10) * 2 - 1
with torch.no_grad():
    y = teacher(x)
y = y / y.std()
training, validation = (x[:10_000], y[:10_000]), (x[10_000:], y[10_000:])

network = SpectralNetwork([10, 100, 100, 4])  # a perceptron until the data ask for more
optimizer = torch.optim.AdamW(parameter_groups(network, lr=5e-3))
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40 * 79)
for epoch in range(40):
    for rows in torch.randperm(10_000).split(128):
        loss = (network(training[0][rows]) - training[1][rows]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shrink_eigenvalues_(network, optimizer, weight=1e-4)  # exact zeros, no threshold
        schedule.step()
    if epoch % 10 == 9:
        print(f"epoch {epoch + 1}: loss {loss.item():.5f}, recruited {network.recruited}")

exact = extract(network)
small = extract(network, data=training, validation=validation, task="regression")
print(f"the same function:      {exact.describe()}")
print(f"what validation needs:  {small.describe()}")
error = (small(validation[0]) - validation[1]).square().mean().item()
print(f"validation error {error:.2e}")
