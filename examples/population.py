"""Twelve networks trained as one model: four penalties, three seeds of each.

The target is |x₁| + |x₂|, two columns of five. Out comes a line for each penalty: the larger it is,
the fewer neurons are recruited, until none is left and the network is linear. Among them is the
network that is cut and kept: the largest penalty whose validation loss is near the lowest one.
"""

import torch

from torchsparcs import Population, TrainConfig, evaluate, extract, train

torch.manual_seed(0)
x = torch.rand(2500, 5) * 2 - 1
y = x[:, 0].abs() + x[:, 1].abs()
y = (y - y.mean()) / y.std()
training, validation = (x[:2000], y[:2000]), (x[2000:], y[2000:])

penalties, seeds = (0.1, 0.01, 0.003, 0.001), (0, 1, 2)
members = [(penalty, seed) for penalty in penalties for seed in seeds]
population = Population([5, 64, 1], seeds=[seed for _, seed in members])
config = TrainConfig(
    epochs=40, batch_size=128, lr=5e-3, penalty_weight=tuple(penalty for penalty, _ in members)
)
history = train(population, training, config, progress=False)
losses, scores = evaluate(population, validation, "regression")
print(f"{len(members)} networks, {sum(history.seconds):.1f} s")

for penalty in penalties:
    mine = [place for place, member in enumerate(members) if member[0] == penalty]
    recruited = [population.recruited[place][0] for place in mine]
    r2 = sum(scores[place] for place in mine) / len(mine)
    print(f"penalty {penalty:5}: recruited {recruited}, mean R² {r2:.3f}")

enough = min(losses) + 0.01  # of a target of variance one
place = next(place for place, loss in enumerate(losses) if loss <= enough)
network = population.member(place)  # a SpectralNetwork of its own
small = extract(network, data=training, validation=validation, task="regression", progress=False)
print(f"kept, of penalty {members[place][0]}: {small.describe()}")
