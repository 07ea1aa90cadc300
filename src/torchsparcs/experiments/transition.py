"""From a linear to a non-linear target: when does a network recruit its hidden layer?

Two inputs and the bias neuron, at most 300 hidden neurons, one output. The target goes from the
mean of the inputs (α = 0) to the mean of their squares (α = 1); β says how abruptly. The strength
of the paths through the hidden layer, ‖Γ‖, tells how much of it is used.
"""

import math
import time
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product

import numpy as np
import torch
from torch import Tensor

from torchsparcs.experiments.experiment import Claim, Experiment, Work
from torchsparcs.experiments.peers import BlockNetwork
from torchsparcs.experiments.plots import on_a_path
from torchsparcs.experiments.transition_figures import draw, of_beta
from torchsparcs.experiments.writing import Content
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.spectral.paths import path_norm, path_strengths
from torchsparcs.spectral.penalties import eigenvalue_penalty
from torchsparcs.spectral.population import Population
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.tasks import evaluate

SMOOTH, ABRUPT = 5.0, 1000.0  # β
EVALUATED_AT_ONCE = 500  # rows: all models have activations for them


@dataclass(frozen=True)
class Setting:
    """The paper's protocol; ``drawn`` points of each dataset are shown with the fit of model 0."""

    alphas: tuple[float, ...] = tuple(round(0.05 * step, 2) for step in range(21))
    betas: tuple[float, ...] = (SMOOTH, ABRUPT)
    models: int = 100
    points: int = 10_000
    hidden: int = 300
    epochs: int = 300
    batch_size: int = 100
    lr: float = 1e-3
    penalty: str = "l2"
    penalty_weight: float = 1e-4
    cutoff: float = 0.01
    data_seed: int = 42
    drawn: int = 400
    peer_steps: int = 300

    def __post_init__(self) -> None:
        if not {0.0, 0.5, 1.0} <= set(self.alphas):
            raise ValueError(f"Expected alphas with 0, 0.5 and 1. Got {self.alphas}.")
        if not self.betas or not all(beta > 0 for beta in self.betas):
            raise ValueError(f"Expected betas above 0. Got {self.betas}.")


QUICK = Setting(
    alphas=(0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0),
    models=3,
    epochs=100,
    peer_steps=100,
)


def target(x: Tensor, alpha: float, beta: float) -> Tensor:
    """½(1 − t)·mean(x) + ½(1 + t)·mean(x²) with t = tanh(β(α − ½)); (n, d) → (n,)."""
    t = math.tanh(beta * (alpha - 0.5))
    return (1 - t) / 2 * x.mean(dim=-1) + (1 + t) / 2 * x.square().mean(dim=-1)


def run(setting: Setting, work: Work) -> Content:
    draw_points = np.random.default_rng(setting.data_seed)
    x = torch.from_numpy(draw_points.uniform(-1, 1, (setting.points, 2))).float().to(work.device)
    config = TrainConfig.paper(
        epochs=setting.epochs,
        batch_size=setting.batch_size,
        lr=setting.lr,
        penalty=setting.penalty,
        penalty_weight=setting.penalty_weight,
        compile=work.on_gpu,
        capture=work.on_gpu,
        snapshot_every=setting.epochs,
    )
    devices = {x.device.type, "cpu"}  # small models may be faster on the CPU
    peer = work.part(
        "one after another",
        lambda: {"step_seconds": {name: _step_seconds(setting, x.to(name)) for name in devices}},
    )
    trained = work.part("all together", partial(_all_together, setting, config, x, work))
    steps = setting.epochs * math.ceil(setting.points / setting.batch_size)
    members = setting.models * len(setting.alphas) * len(setting.betas)
    alone = min(peer["step_seconds"].values()) * steps * members
    return {
        **trained,
        "config": asdict(config),
        "trainings": members,
        "steps": steps,
        "step_seconds_of_one": peer["step_seconds"],
        "seconds_one_after_another": alone,
        "ratio": alone / trained["seconds"],
    }


def _all_together(setting: Setting, config: TrainConfig, x: Tensor, work: Work) -> Content:
    """All models on all datasets as one population, and what they became."""
    pairs = list(product(setting.betas, setting.alphas))
    targets = torch.stack([target(x, alpha, beta) for beta, alpha in pairs])
    population = Population(
        [2, setting.hidden, 1],
        seeds=range(len(pairs) * setting.models),
        train_input_eigenvalues=True,
        device=work.device,
    )
    own_targets = targets.repeat_interleave(setting.models, dim=0)
    history = work.train("all together", population, (x, own_targets), config)
    measured = measures(population, (x, own_targets))
    gammas = path_strengths(population)
    datasets = []
    for index, (beta, alpha) in enumerate(pairs):
        models = slice(index * setting.models, (index + 1) * setting.models)
        row: Content = {"alpha": alpha, "beta": beta}
        for name, values in measured.items():
            own = values[models].double()
            row[f"{name}_mean"] = own.mean().item()
            row[f"{name}_std"] = own.std(correction=min(1, setting.models - 1)).item()
        row["mse_max"] = measured["mse"][models].max().item()
        row["square_norm_of_mean_gamma"] = gammas[models].mean(dim=0).square().sum().item()
        first = population.member(models.start)
        row["edges"] = edges_above(first, setting.cutoff)
        row["shown_targets"] = targets[index, : setting.drawn]
        with torch.no_grad():
            row["shown_outputs"] = first(x[: setting.drawn]).squeeze(-1)
        datasets.append(row)
    return {
        "datasets": datasets,
        "shown_inputs": x[: setting.drawn],
        "seconds": sum(history.seconds),
        "first_epoch_seconds": history.seconds[0],
    }


def measures(population: Population, data: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """‖Γ‖, ‖(L₁, L₂)‖, mean |(L₁, L₂)| and mean squared error of every member, (members,) each."""
    penalised = torch.cat(population.penalised_eigenvalues, dim=-1).detach()
    errors = evaluate(population, data, "regression", batch_size=EVALUATED_AT_ONCE).loss
    return {
        "gamma": path_norm(population),
        "eigenvalues": torch.linalg.vector_norm(penalised, dim=-1),
        "size": penalised.abs().mean(dim=-1),
        "mse": torch.tensor(errors),
    }


def edges_above(network: SpectralNetwork, cutoff: float) -> list[tuple[int, int, int, int, float]]:
    """Source layer and neuron, target layer and neuron, and weight of all |weights| > cutoff."""
    edges = []
    for source, goal in ((0, 1), (1, 2), (0, 2)):
        block = network.weight_block(goal, source).detach().cpu()
        for j, i in (block.abs() > cutoff).nonzero().tolist():
            edges.append((source, i, goal, j, block[j, i].item()))
    return edges


def _step_seconds(setting: Setting, x: Tensor) -> float:
    """Seconds for a step of a network whose blocks are formed as the paper writes them."""
    y = target(x, 1.0, SMOOTH)
    network = BlockNetwork([2, setting.hidden, 1], train_input_eigenvalues=True, device=x.device)
    optimizer = torch.optim.Adam(network.parameters(), lr=setting.lr)

    def steps(count: int) -> None:
        for rows in torch.randint(len(x), (count, setting.batch_size)).to(x.device):
            optimizer.zero_grad()
            loss = (network(x[rows]).squeeze(-1) - y[rows]).square().mean()
            loss = loss + setting.penalty_weight * eigenvalue_penalty(network, setting.penalty)
            loss.backward()
            optimizer.step()
        loss.item()

    steps(20)
    start = time.perf_counter()
    steps(setting.peer_steps)
    return (time.perf_counter() - start) / setting.peer_steps


# --- what was to be seen --------------------------------------------------------------------------


def claims(content: Content) -> list[Claim]:
    """The paper's claims are about its own two β; of others the fit alone is looked at."""
    results = content["results"]
    abrupt, smooth = (of_beta(results, beta) for beta in (ABRUPT, SMOOTH))
    found = []
    if abrupt:
        low = max(row["gamma_mean"] for row in abrupt if row["alpha"] < 0.5)
        high = min(row["gamma_mean"] for row in abrupt if row["alpha"] >= 0.55)
        found.append(
            Claim(
                "β = 1000: mean ‖Γ‖ below 0.001 for α < 0.5, above 0.3 for α ≥ 0.55",
                f"at most {low:.2g}, at least {high:.2f}",
                low < 0.001 and high > 0.3,
                ("Figure 7",),
            )
        )
    if smooth:
        rise = _rise(smooth, "gamma_mean")
        middle = next(row["gamma_mean"] for row in smooth if row["alpha"] == 0.5)
        share = middle / max(row["gamma_mean"] for row in smooth)
        found.append(
            Claim(
                "β = 5: mean ‖Γ‖ rises with α (Spearman ≥ 0.98), at α = 0.5 to 35-75 % of the top",
                f"Spearman {rise:.3f}, {100 * share:.0f} %",
                rise >= 0.98 and 0.35 <= share <= 0.75,
                ("Figure 7",),
            )
        )
        ways = {alpha: _ways_through(smooth, alpha) for alpha in (0.0, 1.0)}
        found.append(
            Claim(
                "β = 5, model 0, above the cut-off: no way through the hidden layer at α = 0, some "
                "at α = 1",
                f"{ways[0.0]} and {ways[1.0]} hidden neurons on a way",
                ways[0.0] == 0 < ways[1.0],
                ("Figure 15",),
            )
        )
    for name, (key, figure) in ELSEWHERE.items():
        if abrupt and smooth:
            rise, jump = _rise(smooth, key), _jump(abrupt, key)
            found.append(
                Claim(
                    f"the same of {name}: a rise (Spearman ≥ 0.95) and a jump (tenfold)",
                    f"Spearman {rise:.3f}, {jump:,.0f} times",
                    rise >= 0.95 and jump >= 10,
                    (figure,),
                )
            )
    worst = max(row["mse_mean"] for row in results["datasets"])
    single = max(row["mse_max"] for row in results["datasets"])
    found.append(
        Claim(
            "on every dataset a mean squared error below 1e-4, the mean over the models",
            f"at most {worst:.1e} (of single models {single:.1e})",
            worst < 1e-4,
            ("Figure 11", "Figure 12"),
        )
    )
    if results["trainings"] == 4200 and results["config"]["capture"]:
        seconds = results["seconds"]
        says = "on a GPU all 4,200 trainings take at most 60 s"
        found.append(Claim(says, f"{seconds:.0f} s", seconds <= 60))
    return found


ELSEWHERE = {  # what else the paper plots against α
    "‖(L₁, L₂)‖": ("eigenvalues_mean", "Figure 13"),
    "‖mean Γ‖²": ("square_norm_of_mean_gamma", "Figure 14"),
}


def _rise(rows: list[Content], key: str) -> float:
    return rank_correlation([(row["alpha"], row[key]) for row in rows])


def _jump(rows: list[Content], key: str) -> float:
    """The smallest value after the jump over the largest before it."""
    before = max(row[key] for row in rows if row["alpha"] < 0.5)
    return min(row[key] for row in rows if row["alpha"] >= 0.55) / before


def _ways_through(rows: list[Content], alpha: float) -> int:
    """Hidden neurons of model 0 on a way from input to output, at ``alpha``."""
    edges = next(row["edges"] for row in rows if row["alpha"] == alpha)
    return sum(layer == 1 for layer, _ in on_a_path(edges, 2))


def rank_correlation(pairs: list[tuple[float, float]]) -> float:
    """Spearman's: the correlation of the ranks, for numbers without ties."""
    first, second = np.argsort(np.argsort(np.array(pairs), axis=0), axis=0).T
    return float(np.asarray(np.corrcoef(first, second))[0, 1])


TRANSITION = Experiment(
    name="transition",
    shows="A hidden layer is recruited when the target stops being linear, smoothly or at once.",
    figures="Figures 7 and 11 to 15 of the paper",
    cost="4,200 trainings: 1 min on a GPU, about 10 hours on two cores",
    quick_cost="78 trainings: 4 min on two cores",
    full=Setting(),
    quick=QUICK,
    run=run,
    draw=draw,
    claims=claims,
)
