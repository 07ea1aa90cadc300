"""A spectral head on a minimal convolutional network, trained from scratch: does it grow?"""

from statistics import median
from typing import Any

import numpy as np
import torch

from torchsparcs.cutting.eigenvalues import eigenvalue_gap
from torchsparcs.experiments import plots
from torchsparcs.experiments.cifar10_training import HEADS, QUICK, RECIPES, Setting, run
from torchsparcs.experiments.experiment import Claim, Experiment
from torchsparcs.experiments.writing import Content, Figures, spread

PAPER_LINEAR, PAPER_GAIN = 0.682, 5.7  # and points above it
ALIKE = 3.0  # times that two of the same order of magnitude differ by, at most
PAPER_MEMORY, PAPER_TIME = 21.2 / 17.9, 1361.98 / 1357.0  # spectral over linear, MB and seconds


def final(run: Content) -> np.ndarray:
    """The accuracy of each seed after the last epoch."""
    return np.array(run["accuracy"][-1])


def above_gap(run: Content) -> list[int]:
    """Eigenvalues above the gap between the two clusters; of older records, of the first seed."""
    if "above_gap" in run:
        return run["above_gap"]
    values = torch.tensor(run["hidden_eigenvalues"])
    return [int((values > eigenvalue_gap(values)).sum())]


def clusters_claim(run: Content, hidden: int) -> Claim:
    """A limited fraction of the hidden eigenvalues is far from zero."""
    found = above_gap(run)
    return Claim(
        "the paper's recipe: hidden eigenvalues in two clusters, the larger ones fewer than half",
        f"{spread(found, '{:.0f}')} of {hidden} above the gap",
        max(found) < hidden / 2,
        ("Figure 17",),
    )


def magnitude_claim(run: Content) -> Claim:
    """The larger hidden eigenvalues grow to the size of the output's; of the first seed."""
    hidden = sorted(run["hidden_eigenvalues"], reverse=True)[: above_gap(run)[0]]
    ratio = (median(hidden) if hidden else 0.0) / median(run["output_eigenvalues"])
    return Claim(
        "the larger ones are about as large as the output's (medians within three times)",
        f"{ratio:.2g} times as large",
        1 / ALIKE <= ratio <= ALIKE,
        ("Figure 17",),
    )


def draw(content: Content) -> Figures:
    runs, colour = content["results"]["runs"], HEADS["spectral"].colour
    eigenvalues = [
        [
            (f"{recipe.name}: {layer} layer", runs[key]["spectral"][f"{layer}_eigenvalues"], colour)
            for layer in ("hidden", "output")
        ]
        for key, recipe in RECIPES.items()
    ]
    # test accuracy against epochs, mean and standard deviation over the seeds
    figure = plots.new_figure(6, 7)
    panels: Any = figure.subplots(len(RECIPES), 1, sharey=True)
    for axes, (key, recipe) in zip(panels, RECIPES.items(), strict=True):
        own = runs[key]
        lines = [(head.name, own[name]["accuracy"], head.colour) for name, head in HEADS.items()]
        lines.append(("spectral, hidden removed", own["spectral"]["removed"], plots.RED))
        if "zeroed" in own["spectral"]:
            lines.append(("spectral, eigenvalues zero", own["spectral"]["zeroed"], plots.PURPLE))
        for label, values, colour in lines:
            accuracy = 100 * np.array(values)  # (epochs, seeds)
            epochs = np.arange(1, len(accuracy) + 1)
            mean, std = accuracy.mean(axis=1), accuracy.std(axis=1)
            plots.draw_band(axes, epochs, mean, std, color=colour, label=label, linewidth=1.2)
        axes.set(title=recipe.name, xlabel="epoch")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("test accuracy, %")
    panels[0].legend(frameon=False, fontsize=8)
    return {"accuracy": figure, "eigenvalues": plots.histograms(eigenvalues)}


# --- what was to be seen --------------------------------------------------------------------------


def claims(content: Content) -> list[Claim]:
    results, setting = content["results"], content["setting"]
    paper, own = results["runs"]["paper"], results["runs"]["own"]
    linear = final(paper["linear"]).mean()
    gains = {
        key: 100 * (np.mean(run["spectral"]["compact_accuracy"]) - linear)
        for key, run in results["runs"].items()
    }
    same = 100 * (np.mean(own["spectral"]["compact_accuracy"]) - final(own["linear"]).mean())
    recruited = own["spectral"]["recruited"]
    resources = results["resources"]
    time = resources["spectral"]["epoch_seconds"] / resources["linear"]["epoch_seconds"]
    found = [
        Claim(
            f"the linear head is within 1 point of the paper's {100 * PAPER_LINEAR:.1f} %",
            f"{100 * linear:.1f} %",
            bool(round(100 * abs(linear - PAPER_LINEAR), 1) <= 1),
        ),
        Claim(
            "the paper's recipe: the spectral head, cut, is 5.7 points above the linear one",
            f"{gains['paper']:+.1f} points",
            bool(gains["paper"] >= PAPER_GAIN),
            ("Figure 16", "Table 1"),
        ),
        Claim(
            "our recipe: the spectral head, cut, is 5.7 points above that linear one",
            f"{gains['own']:+.1f} points ({same:+.1f} above a linear head trained our way)",
            bool(gains["own"] >= PAPER_GAIN),
        ),
        clusters_claim(paper["spectral"], setting["hidden"]),
        magnitude_claim(paper["spectral"]),
        Claim(
            f"our recipe recruits fewer than {setting['hidden']} neurons",
            f"{min(recruited)} to {max(recruited)}",
            max(recruited) < setting["hidden"],
        ),
        Claim(
            f"training takes {PAPER_TIME:.3f} times as long as with the linear head, or less",
            f"{time:.2f} times",
            time <= PAPER_TIME,
            ("Table 1",),
        ),
        Claim(
            "an epoch takes at most 1.25 times as long as with the linear head",
            f"{time:.2f} times",
            time <= 1.25,
        ),
    ]
    if "peak_bytes" in resources["spectral"]:
        seconds = 300 * resources["spectral"]["epoch_seconds"]
        linear_bytes, spectral_bytes = (resources[n]["peak_bytes"] for n in ("linear", "spectral"))
        images = resources["linear"]["image_bytes"]
        share = (spectral_bytes + images) / (linear_bytes + images)
        found += [
            Claim(
                f"training takes {PAPER_MEMORY:.2f} times the memory of the linear head, or less",
                f"{spectral_bytes / linear_bytes:.2f} times, without the images",
                spectral_bytes / linear_bytes <= PAPER_MEMORY,
                ("Table 1",),
            ),
            Claim("300 epochs take at most 60 s", f"{seconds:.0f} s", seconds <= 60),
            Claim(
                "peak memory, with the images on the GPU, within 1.3 times",
                f"{share:.2f} times ({spectral_bytes / linear_bytes:.2f} without the images)",
                share <= 1.3,
            ),
        ]
    return found


CIFAR10 = Experiment(
    name="cifar10",
    shows="A spectral head on a convolutional network trained from scratch grows where that helps.",
    figures="Figures 16 and 17 and the resource table of the paper's CIFAR-10",
    cost="30 models: 28 min on an H200 as recorded; needs CIFAR-10 in the folder data",
    quick_cost="12 models on a part of the images: 5 min on two cores",
    full=Setting(),
    quick=QUICK,
    run=run,
    draw=draw,
    claims=claims,
    page_names={"recipes": RECIPES, "heads": HEADS, "above_gap": above_gap},
)
