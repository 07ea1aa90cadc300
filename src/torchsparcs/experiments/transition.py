"""From a linear to a non-linear target: when does a network recruit its hidden layer?

Two inputs and the bias neuron, at most 300 hidden neurons, one output. The target goes from the
mean of the inputs (α = 0) to the mean of their squares (α = 1); β says how abruptly. The strength
of the paths through the hidden layer, ‖Γ‖, tells how much of it is used.
"""

import math
import time
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from torchsparcs.config import TrainConfig
from torchsparcs.experiments.experiment import Claim, Content, Experiment, Work, markdown_table
from torchsparcs.experiments.peers import BlockNetwork
from torchsparcs.network import SpectralNetwork
from torchsparcs.paths import path_norm, path_strengths
from torchsparcs.penalties import eigenvalue_penalty
from torchsparcs.population import Population
from torchsparcs.report import prints
from torchsparcs.tasks import evaluate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"5": prints.BLUE, "1000": prints.RED}
INSETS = (0.1, 0.5, 0.9)  # α of the architectures drawn beside the curve
SHOWN = (0, 0.2, 0.4, 0.45, 0.5, 0.55, 0.6, 0.8, 1)  # α of the rows on the page


@dataclass(frozen=True)
class Setting:
    """The paper's protocol; ``drawn`` points of each dataset are shown with the fit of model 0."""

    alphas: tuple[float, ...] = tuple(round(0.05 * step, 2) for step in range(21))
    betas: tuple[float, ...] = (5.0, 1000.0)
    models: int = 100
    points: int = 10_000
    hidden: int = 300
    epochs: int = 300
    batch_size: int = 100
    lr: float = 1e-3
    penalty_weight: float = 1e-4
    cutoff: float = 0.01
    data_seed: int = 42
    drawn: int = 400
    peer_steps: int = 300


QUICK = Setting(
    alphas=(0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0),
    models=3,
    epochs=100,
    peer_steps=100,
)


def config_of(setting: Setting, *, on_gpu: bool) -> TrainConfig:
    """Plain Adam and the penalty, a norm for each layer, as part of the loss."""
    return TrainConfig(
        task="regression",
        epochs=setting.epochs,
        batch_size=setting.batch_size,
        lr=setting.lr,
        schedule="constant",
        eigenvalue_lr_scale=1.0,
        transfer_weight_decay=0.0,
        penalty="l2",
        penalty_weight=setting.penalty_weight,
        proximal=False,
        compile=on_gpu,
        capture=on_gpu,
        snapshot_every=setting.epochs,
    )


def target(x: Tensor, alpha: float, beta: float) -> Tensor:
    """½(1 − t)·mean(x) + ½(1 + t)·mean(x²) with t = tanh(β(α − ½)); (n, d) → (n,)."""
    t = math.tanh(beta * (alpha - 0.5))
    return (1 - t) / 2 * x.mean(dim=-1) + (1 + t) / 2 * x.square().mean(dim=-1)


def run(setting: Setting, work: Work) -> Content:
    draw = np.random.default_rng(setting.data_seed)
    x = torch.from_numpy(draw.uniform(-1, 1, (setting.points, 2))).float().to(work.device)
    peer = work.part("one_after_another", lambda: _peer(setting, x))
    trained = work.part("all_together", lambda: _trained(setting, x, work))
    steps = setting.epochs * math.ceil(setting.points / setting.batch_size)
    members = setting.models * len(setting.alphas) * len(setting.betas)
    alone = peer["seconds_per_step"] * steps * members
    return {
        **trained,
        "config": asdict(config_of(setting, on_gpu=work.on_gpu)),
        "trainings": members,
        "steps": steps,
        "seconds_one_after_another": alone,
        "ratio": alone / trained["seconds"],
    }


def _trained(setting: Setting, x: Tensor, work: Work) -> Content:
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
    config = config_of(setting, on_gpu=work.on_gpu)
    history = work.train("all_together", population, (x, own_targets), config)
    errors = evaluate(population, (x, own_targets), "regression", batch_size=500).loss
    measured = {
        "gamma": path_norm(population),
        "eigenvalues": torch.cat(
            [population.input_eigenvalues, population.hidden_eigenvalues[0]], dim=1
        ).norm(dim=1),
        "mse": torch.tensor(errors),
    }
    gammas = path_strengths(population)
    datasets = []
    for index, (beta, alpha) in enumerate(pairs):
        models = slice(index * setting.models, (index + 1) * setting.models)
        row: Content = {"alpha": alpha, "beta": beta}
        for name, values in measured.items():
            own = values[models].double()
            row |= {f"{name}_mean": own.mean().item(), f"{name}_max": own.max().item()}
            row[f"{name}_std"] = own.std().item() if setting.models > 1 else 0.0
        row["square_norm_of_mean_gamma"] = gammas[models].mean(dim=0).square().sum().item()
        first = population.member(models.start)
        row["edges"] = _edges(first, setting.cutoff)
        row["shown_targets"] = targets[index, : setting.drawn]
        with torch.no_grad():
            row["shown_outputs"] = first(x[: setting.drawn]).squeeze(-1)
        datasets.append(row)
    return {
        "datasets": datasets,
        "shown_inputs": x[: setting.drawn],
        "seconds": sum(history.seconds),
        "first_epoch_seconds": history.seconds[0],  # on a GPU it compiles and captures
    }


def _edges(network: SpectralNetwork, cutoff: float) -> list[tuple[int, int, int, int, float]]:
    """Source layer and neuron, target layer and neuron, and weight of all |weights| > cutoff."""
    edges = []
    for source, goal in ((0, 1), (1, 2), (0, 2)):
        block = network.weight_block(goal, source).detach().cpu()
        for j, i in (block.abs() > cutoff).nonzero().tolist():
            edges.append((source, i, goal, j, block[j, i].item()))
    return edges


def _peer(setting: Setting, x: Tensor) -> Content:
    """A step of one model, its blocks formed as the paper writes them, in a plain loop."""
    y = target(x, 1.0, 5.0)
    network = BlockNetwork([2, setting.hidden, 1], train_input_eigenvalues=True, device=x.device)
    optimizer = torch.optim.Adam(network.parameters(), lr=setting.lr)

    def steps(count: int) -> None:
        for rows in torch.randint(len(x), (count, setting.batch_size)).to(x.device):
            optimizer.zero_grad()
            loss = (network(x[rows]).squeeze(-1) - y[rows]).square().mean()
            loss = loss + setting.penalty_weight * eigenvalue_penalty(network, "l2")
            loss.backward()
            optimizer.step()
        loss.item()

    steps(20)
    start = time.perf_counter()
    steps(setting.peer_steps)
    return {"seconds_per_step": (time.perf_counter() - start) / setting.peer_steps}


# --- what was to be seen --------------------------------------------------------------------------


def claims(content: Content) -> list[Claim]:
    results = content["results"]
    found = []
    abrupt, smooth = (_of(results, beta) for beta in (1000.0, 5.0))
    if abrupt:
        low = max(row["gamma_mean"] for row in abrupt if row["alpha"] < 0.5)
        high = min(row["gamma_mean"] for row in abrupt if row["alpha"] >= 0.55)
        held = low < 0.001 and high > 0.3
        says = "β = 1000: mean ‖Γ‖ below 0.001 for α < 0.5, above 0.3 for α ≥ 0.55"
        found.append(Claim(says, f"at most {low:.2g}, at least {high:.2f}", held))
    if smooth:
        rise = rank_correlation([(row["alpha"], row["gamma_mean"]) for row in smooth])
        middle = next(row["gamma_mean"] for row in smooth if row["alpha"] == 0.5)
        share = middle / max(row["gamma_mean"] for row in smooth)
        says = "β = 5: ‖Γ‖ rises with α (Spearman ≥ 0.98), half-way between 35 and 75 % of the top"
        seen = f"Spearman {rise:.3f}, {100 * share:.0f} % at α = 0.5"
        found.append(Claim(says, seen, rise >= 0.98 and 0.35 <= share <= 0.75))
    worst = max(row["mse_mean"] for row in results["datasets"])
    single = max(row["mse_max"] for row in results["datasets"])
    says = "fits with a mean squared error below 1e-4 on every dataset"
    seen = f"at most {worst:.1e} (single models: {single:.1e})"
    found.append(Claim(says, seen, worst < 1e-4))
    if results["trainings"] == 4200 and results["config"]["capture"]:
        seconds = results["seconds"]
        says = "on a GPU all 4,200 trainings take at most 60 s"
        found.append(Claim(says, f"{seconds:.0f} s", seconds <= 60))
    return found


def rank_correlation(pairs: list[tuple[float, float]]) -> float:
    """Spearman's: the correlation of the ranks, for numbers without ties."""
    first, second = np.argsort(np.argsort(np.array(pairs), axis=0), axis=0).T
    return float(np.corrcoef(first, second).min())


def _of(results: Content, beta: float) -> list[Content]:
    return [row for row in results["datasets"] if row["beta"] == beta]


# --- figures --------------------------------------------------------------------------------------


def draw(content: Content) -> "dict[str, Figure]":
    results, hidden = content["results"], content["setting"]["hidden"]
    rows = _of(results, content["setting"]["betas"][0])
    return {
        "transition": _draw_transition(results, rows, hidden),
        "square_norm_of_mean_gamma": _draw_curves(
            results, "square_norm_of_mean_gamma", None, "‖mean Γ‖², normalised"
        ),
        "eigenvalue_norm": _draw_curves(
            results, "eigenvalues_mean", "eigenvalues_std", "‖(L₁, L₂)‖, normalised"
        ),
        "datasets": _draw_surfaces(
            results, rows, lambda row: {prints.BLUE: row["shown_targets"]}, "target"
        ),
        "fits": _draw_surfaces(
            results,
            rows,
            lambda row: {
                prints.RED: row["shown_outputs"],
                prints.GREEN: np.subtract(row["shown_outputs"], row["shown_targets"]),
            },
            "output of model 0 (red), its error (green)",
        ),
        "architectures": _draw_architectures(rows, hidden),
    }


def _draw_transition(results: Content, rows: list[Content], hidden: int) -> "Figure":
    figure = prints.new_figure(8, 5)
    axes = figure.add_subplot()
    for beta in sorted({row["beta"] for row in results["datasets"]}):
        own = _of(results, beta)
        x, mean, std = ([row[key] for row in own] for key in ("alpha", "gamma_mean", "gamma_std"))
        prints.draw_band(axes, x, mean, std, label=f"β = {beta:g}", color=COLOURS[f"{beta:g}"])
    top = max(row["gamma_mean"] + row["gamma_std"] for row in results["datasets"])
    axes.set(xlabel="α", ylabel="‖Γ‖", ylim=(-0.03 * top, 1.75 * top))
    axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= 1.1 * top])
    axes.legend(loc="center left", frameon=False)
    for place, alpha in enumerate(INSETS):
        row = min(rows, key=lambda row: abs(row["alpha"] - alpha))
        inset = axes.inset_axes((0.03 + 0.33 * place, 0.66, 0.28, 0.28))
        prints.draw_architecture(inset, [3, hidden, 1], row["edges"])
        inset.set_title(f"α = {row['alpha']:g}", fontsize=9)
    return figure


def _draw_curves(results: Content, key: str, spread: str | None, label: str) -> "Figure":
    """Of both β, divided by the largest value of all."""
    figure = prints.new_figure(5.5, 3.8)
    axes = figure.add_subplot()
    top = max(row[key] for row in results["datasets"])
    for beta in sorted({row["beta"] for row in results["datasets"]}):
        own = _of(results, beta)
        mean = [row[key] / top for row in own]
        std = [row[spread] / top if spread else 0.0 for row in own]
        alphas = [row["alpha"] for row in own]
        prints.draw_band(axes, alphas, mean, std, label=f"β = {beta:g}", color=COLOURS[f"{beta:g}"])
    axes.set(xlabel="α", ylabel=label)
    axes.legend(frameon=False)
    return figure


def _draw_surfaces(results: Content, rows: list[Content], values: Any, title: str) -> "Figure":
    """The drawn points of each dataset in three dimensions, one panel for each α."""
    columns = 7
    lines = math.ceil(len(rows) / columns)
    figure = prints.new_figure(2 * columns, 2.1 * lines)
    inputs = np.array(results["shown_inputs"])
    for place, row in enumerate(rows):
        axes: Any = figure.add_subplot(lines, columns, place + 1, projection="3d")
        for colour, heights in values(row).items():
            axes.scatter(*inputs.T, heights, s=1, color=colour, rasterized=True, depthshade=False)
        axes.set_title(f"α = {row['alpha']:g}", fontsize=9, pad=-4)
        axes.set(zlim=(-1, 1), xticks=[-1, 0, 1], yticks=[-1, 0, 1], zticks=[-1, 0, 1])
        axes.tick_params(labelsize=5, pad=-4)
    figure.suptitle(f"β = {rows[0]['beta']:g}: {title}", fontsize=11)
    return figure


def _draw_architectures(rows: list[Content], hidden: int) -> "Figure":
    columns = 7
    lines = math.ceil(len(rows) / columns)
    figure = prints.new_figure(2 * columns, 1.9 * lines)
    for place, row in enumerate(rows):
        axes = figure.add_subplot(lines, columns, place + 1)
        prints.draw_architecture(axes, [3, hidden, 1], row["edges"])
        axes.set_title(f"α = {row['alpha']:g}", fontsize=9)
    for line in figure.axes:
        line.set_rasterization_zorder(10)
    figure.suptitle(
        f"β = {rows[0]['beta']:g}: model 0, connections above the cut-off; blue through the "
        "hidden layer, orange past it, grey without a signal",
        fontsize=11,
    )
    return figure


# --- the page -------------------------------------------------------------------------------------


def tell(content: Content) -> dict[str, Any]:
    results, setting = content["results"], content["setting"]
    chosen = [row for row in results["datasets"] if row["alpha"] in SHOWN]
    numbers = markdown_table(
        ["β", "α", "‖Γ‖", "‖(L₁, L₂)‖", "mean squared error, mean and largest"],
        [
            [
                f"{row['beta']:g}",
                f"{row['alpha']:g}",
                f"{row['gamma_mean']:.5f} ± {row['gamma_std']:.5f}",
                f"{row['eigenvalues_mean']:.4f} ± {row['eigenvalues_std']:.4f}",
                f"{row['mse_mean']:.1e}, {row['mse_max']:.1e}",
            ]
            for row in chosen
        ],
    )
    config = results["config"]
    hyperparameters = markdown_table(
        ["hyperparameter", "the paper", "here"],
        [
            ["learning rate", "1e-3", f"{config['lr']:g}"],
            ["batch size", 100, config["batch_size"]],
            ["epochs", 300, config["epochs"]],
            ["hidden neurons, at most", 300, setting["hidden"]],
            ["optimizer", "Adam", "Adam (AdamW without decay)"],
            ["penalty", "L2", "the norm of each layer, input and hidden, in the loss"],
            ["its weight", "1e-4", f"{config['penalty_weight']:g}"],
            ["activation, loss", "ReLU, MSE", "ReLU, MSE"],
            ["seed of the data (NumPy)", 42, setting["data_seed"]],
            ["models for each dataset", 100, setting["models"]],
            ["points in each dataset", "not said", f"{setting['points']:,}"],
        ],
    )
    alone = results["seconds_one_after_another"]
    return {
        "numbers": numbers,
        "hyperparameters": hyperparameters,
        "trainings": f"{results['trainings']:,}",
        "steps": f"{results['steps']:,}",
        "seconds": f"{results['seconds']:.1f}",
        "peer_ms": f"{1000 * alone / results['trainings'] / results['steps']:.2f}",
        "hours": f"{alone / 3600:,.1f}",
        "ratio": f"{results['ratio']:,.0f}",
        "peer_steps": setting["peer_steps"],
        "drawn": setting["drawn"],
        "cutoff": f"{setting['cutoff']:g}",
    }


TRANSITION = Experiment(
    name="transition",
    shows="A hidden layer is recruited when the target stops being linear, smoothly or at once.",
    figures="Figures 7 and 11 to 15 of the paper",
    cost="4,200 trainings: 1 min on a GPU, hours on two cores",
    quick_cost="78 trainings: 3 min on two cores",
    full=Setting(),
    quick=QUICK,
    run=run,
    draw=draw,
    tell=tell,
    claims=claims,
)
