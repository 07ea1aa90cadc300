"""The figures and the page of the heads on CIFAR-10."""

from typing import TYPE_CHECKING, Any

import numpy as np

from torchsparcs.experiments import plots
from torchsparcs.experiments.heads import HEADS, RECIPES
from torchsparcs.experiments.recipes import hyperparameter_table
from torchsparcs.experiments.work import Content
from torchsparcs.report.document import markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def final(run: Content, key: str = "accuracy") -> np.ndarray:
    """The accuracy of each seed after the last epoch."""
    return np.array(run[key][-1])


def draw(content: Content) -> "dict[str, Figure]":
    runs = content["results"]["runs"]
    return {"accuracy": _draw_accuracy(runs), "eigenvalues": _draw_eigenvalues(runs)}


def _draw_accuracy(runs: Content) -> "Figure":
    """Test accuracy against epochs, mean and standard deviation over the seeds."""
    figure = plots.new_figure(10, 4)
    panels: Any = figure.subplots(1, len(RECIPES), sharey=True)
    for axes, (key, recipe) in zip(panels, RECIPES.items(), strict=True):
        own = runs[key]
        lines = [(head.name, own[name]["accuracy"], head.colour) for name, head in HEADS.items()]
        lines.append(("spectral, hidden removed", own["spectral"]["removed"], plots.RED))
        for label, values, colour in lines:
            accuracy = 100 * np.array(values)
            epochs = np.arange(1, len(accuracy) + 1)
            mean, std = accuracy.mean(axis=1), accuracy.std(axis=1)
            axes.plot(epochs, mean, color=colour, label=label, linewidth=1.2)
            axes.fill_between(epochs, mean - std, mean + std, color=colour, alpha=0.2, linewidth=0)
        axes.set(title=recipe.name, xlabel="epoch")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("test accuracy, %")
    panels[0].legend(frameon=False, fontsize=8)
    return figure


def _draw_eigenvalues(runs: Content) -> "Figure":
    """Of the first seed."""
    figure = plots.new_figure(8, 5)
    panels: Any = figure.subplots(len(RECIPES), 2)
    for line, (key, recipe) in zip(panels, RECIPES.items(), strict=True):
        for axes, layer in zip(line, ("hidden", "output"), strict=True):
            values = runs[key]["spectral"][f"{layer}_eigenvalues"]
            plots.draw_histogram(axes, values, colour=HEADS["spectral"].colour)
            axes.set_title(f"{recipe.name}: {layer} layer", fontsize=9)
    return figure


def tell(content: Content) -> dict[str, Any]:
    results, setting = content["results"], content["setting"]
    rows = []
    for key, recipe in RECIPES.items():
        for name, head in HEADS.items():
            run = results["runs"][key][name]
            sizes = run.get("recruited")
            rows.append(
                [
                    recipe.name,
                    head.name,
                    _percent(final(run)),
                    "" if sizes is None else f"{min(sizes)} to {max(sizes)}",
                    "" if sizes is None else f"{np.mean(run['compact_parameters']):,.0f}",
                    "" if sizes is None else _percent(run["compact_accuracy"]),
                    "" if sizes is None else _percent(final(run, "removed")),
                ]
            )
    numbers = markdown_table(
        [
            "",
            "head",
            "test accuracy, %",
            "recruited",
            "parameters, cut",
            "accuracy, cut",
            "accuracy, hidden removed",
        ],
        rows,
    )
    used = [
        [
            HEADS[name].name,
            f"{found['parameters']:,}",
            f"{300 * found['epoch_seconds']:.1f}",
            f"{found['peak_bytes'] / 1e6:.1f}" if "peak_bytes" in found else "not measured",
        ]
        for name, found in results["resources"].items()
    ]
    return {
        "hidden": setting["hidden"],
        "seeds": setting["seeds"],
        "timed": setting["timed_epochs"],
        "numbers": numbers,
        "resources": markdown_table(
            ["one model alone", "parameters", "300 epochs, s", "peak memory, MB"], used
        ),
        "hyperparameters": _hyperparameters(results["configs"], setting),
    }


def _percent(values: Any) -> str:
    share = 100 * np.array(values)
    return f"{share.mean():.2f} ± {share.std():.2f}"


def _hyperparameters(configs: Content, setting: Content) -> str:
    rates = [
        ", ".join(f"{rate:g} ({name})" for name, rate in recipe.dropout.items()) or "0"
        for recipe in RECIPES.values()
    ]
    return hyperparameter_table(
        {"lr": "1e-3", "batch_size": 128, "epochs": 300, "penalty": "L1", "penalty_weight": "1e-4"},
        {recipe.name: configs[key] for key, recipe in RECIPES.items()},
        [
            ["dropout of the features", "not said", *rates],
            ["hidden neurons, at most", 526, *[setting["hidden"]] * 2],
            ["models", 100, *[setting["seeds"]] * 2],
        ],
    )
