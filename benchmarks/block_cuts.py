"""Trained feed-forward blocks cut at once: by least squares or by Torch-Pruning, with a teacher?

A model is trained once and loses hidden units of its blocks, in one cut, down to shares of what
they had: the small language model of ``text_front.py``, or the vision transformer of
``vit_front.py``. Both cutters look at the same rows, and both are fine-tuned for as long, by the
targets alone or half by what the uncut model says:

- ours: units by what their removal costs the loss, readers refitted, as in ``extract``
- torch_pruning: units by first-order Taylor importance; ``pip install torch-pruning``, or, where
  there is no network, what ``pip install --no-deps --target FOLDER torch-pruning`` made elsewhere,
  by ``PYTHONPATH=FOLDER``
- plain: models as narrow as that from the start, trained for as long as both together

The learning rate of each fine-tuning is chosen on validation data; test data decide nothing.

    python benchmarks/block_cuts.py --device cuda --workers 3
    python benchmarks/block_cuts.py --model vit --data cifar10.npz --device cuda --workers 3
    python benchmarks/block_cuts.py --quick     # a minute on a CPU: does all of it run?
    python benchmarks/block_cuts.py --page      # writes the tables into docs/results.md
"""

import argparse
import copy
import importlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import text_front
import torch
import vit_front
from marking import filled, rewrite
from recording import RESULTS
from rounds import Job, Rounds
from torch import Tensor, nn

from torchsparcs.cutting.ladder import constant_loss
from torchsparcs.cutting.teacher import Teacher
from torchsparcs.cutting.units import BlockCuts, block_cuts
from torchsparcs.images.datasets import load_images
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Pair
from torchsparcs.training.tasks import evaluate
from torchsparcs.training.train import train

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results.md"
SHARES = (0.7, 0.5, 0.3)
TEACHING = (0.0, 0.5)
LOOKED_AT = 512  # rows that a cut looks at
AT_ONCE = 64
TUNING_SHARE = 5  # as many epochs of the training for the fine-tuning of a cut
QUICK = {"epochs": 1, "rows": 16, "seeds": 1, "shares": (0.5,)}


# of the widest model the best that was tried on validation data, by its record in docs/results/
RECIPES = {
    "text": text_front.PLAIN[2],
    "vit": dict(zip(("lr", "weight_decay"), vit_front.RATES[2], strict=True)),
}
LRS = {"text": (4e-3, 1.6e-2), "vit": (5e-4, 2e-3)}  # of a fine-tuning
EPOCHS = {"text": 10, "vit": 20}
RECORDS = {"text": "block_cuts", "vit": "block_cuts_vit"}


class Subject(NamedTuple):
    """What is cut: a model by the width of its blocks, and its data."""

    model: Callable[[int], nn.Module]
    parts: tuple[Pair, Pair, Pair]  # training, validation, test
    widest: int
    batch_size: int


def text(options: argparse.Namespace) -> Subject:
    counts = enumerate(text_front.ROWS.values(), start=1)
    parts = [text_front.windows(min(count, options.rows or count), seed) for seed, count in counts]
    training, validation, test = ((x.to(options.device), y.to(options.device)) for x, y in parts)
    return Subject(
        text_front.Transformer,
        (training, validation, test),
        max(text_front.WIDTHS),
        text_front.BATCH,
    )


def vit(options: argparse.Namespace) -> Subject:
    (x, y), test = load_images(options.data).tensors(options.device)
    x, y, classes = x[: options.rows], y[: options.rows], int(y.max()) + 1
    held = max(1, len(x) // 10)
    return Subject(
        lambda width: vit_front.Transformer(x.shape[1:], classes, width),
        ((x[:-held], y[:-held]), (x[-held:], y[-held:]), test),
        max(vit_front.WIDTHS),
        256,
    )


SUBJECTS = {"text": text, "vit": vit}


class Cuts:
    """The contest of models that are cut at once."""

    def __init__(self, options: argparse.Namespace):
        self.subject = SUBJECTS[options.model](options)
        self.recipe, self.lrs = RECIPES[options.model], LRS[options.model]
        self.device, self.epochs = options.device, options.epochs
        self.tuning = max(1, self.epochs // TUNING_SHARE)
        self.training, self.validation, self.test = self.subject.parts
        self.uncut: dict[int, nn.Module] = {}
        some = [part[:LOOKED_AT].split(AT_ONCE) for part in self.training]
        self.rows = [*zip(*some, strict=True)]

    def model(self, seed: int) -> nn.Module:
        """The uncut model, trained once in each process."""
        if seed not in self.uncut:
            self.uncut[seed] = self.plain(self.subject.widest, self.epochs, seed)
        return self.uncut[seed]

    def plain(self, width: int, epochs: int, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        model = self.subject.model(width).to(self.device)
        config = self.config(epochs, seed, self.recipe["lr"])
        train(model, self.training, config, progress=False)
        return model

    def config(self, epochs: int, seed: int, lr: float) -> TrainConfig:
        return TrainConfig(
            task="multiclass",
            epochs=epochs,
            batch_size=self.subject.batch_size,
            seed=seed,
            lr=lr,
            weight_decay=self.recipe["weight_decay"],
            schedule="warm_cosine",
        )

    def both(self, model: nn.Module) -> dict[str, float]:
        """Parameters, losses, and shares of right answers."""
        found: dict[str, float] = {"parameters": sum(p.numel() for p in model.parameters())}
        for name, part in (("validation", self.validation), ("test", self.test)):
            found[name], found[f"{name}_score"] = evaluate(model, part, "multiclass")
        return found

    def whole(self, seed: int) -> Iterator[dict]:
        yield {"seed": seed, "epochs": self.epochs, **self.both(self.model(seed))}

    def narrow(self, share: float, seed: int) -> Iterator[dict]:
        epochs = self.epochs + self.tuning
        model = self.plain(round(share * self.subject.widest), epochs, seed)
        yield {"kind": "plain", "share": share, "seed": seed, "epochs": epochs, **self.both(model)}

    def cut(self, kind: str, share: float, seed: int) -> Iterator[dict]:
        """Each fine-tuning of one cut; the learning rate with the lowest validation loss."""
        whole = self.model(seed)
        cuts = block_cuts(
            whole, self.training, self.validation, "multiclass", "blocks.*.mlp", "parameters"
        )
        small = CUTTERS[kind](self, whole, cuts, share)
        row = {"kind": kind, "share": share, "seed": seed, "units": _widths(small)}
        yield {**row, "teaching": None, **self.both(small)}
        constant = constant_loss(whole, self.validation, "multiclass")
        for teaching in TEACHING:
            found = []
            for lr in self.lrs:
                tuned = copy.deepcopy(small)
                config = self.config(self.tuning, seed, lr)
                pupil: Any = tuned
                if teaching:
                    teacher = Teacher(whole, "multiclass", teaching, cuts.stays, constant)
                    pupil, config = teacher.taught(tuned, config)
                train(pupil, self.training, config, progress=False)
                found.append({"lr": lr, **self.both(tuned)})
            yield {**row, "teaching": teaching, **min(found, key=lambda one: one["validation"])}


def _widths(model: nn.Module) -> list[int]:
    return [block.mlp[0].out_features for block in model.blocks]


def ours(contest: Cuts, model: nn.Module, cuts: BlockCuts, share: float) -> nn.Module:
    mlp, widest = model.blocks[0].mlp, contest.subject.widest
    per_unit = mlp[0].in_features + 1 + mlp[2].out_features
    gone = round((1 - share) * widest * len(model.blocks)) * per_unit
    return cuts.cut(model, contest.rows, "multiclass", cuts.size(model) - gone)["units"]


def torch_pruning(contest: Cuts, model: nn.Module, cuts: BlockCuts, share: float) -> nn.Module:
    tp = importlib.import_module("torch_pruning")
    small = copy.deepcopy(model).eval()
    kept = {block.mlp[0] for block in small.blocks}
    fixed = nn.Linear | nn.Conv2d | nn.Embedding | nn.LayerNorm
    others = [m for m in small.modules() if isinstance(m, fixed) and m not in kept]
    pruner = tp.pruner.BasePruner(
        small,
        contest.rows[0][0][:2],
        importance=tp.importance.TaylorImportance(),
        global_pruning=True,
        pruning_ratio=1 - share,
        ignored_layers=[m for m in others if m not in {b.mlp[2] for b in small.blocks}],
    )
    for x, y in contest.rows:
        _loss(small, x, y).backward()
    pruner.step()
    small.zero_grad(set_to_none=True)
    return small


def _loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten())


CUTTERS = {"ours": ours, "torch_pruning": torch_pruning}


@lru_cache
def contest_of(options: tuple) -> Cuts:
    """The contest, made once in each process."""
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    return Cuts(argparse.Namespace(**dict(options)))


# --- the page -------------------------------------------------------------------------------------

WORDS = {"ours": "cut as by `extract`", "torch_pruning": "Torch-Pruning"}
TUNED = {None: "before fine-tuning", 0.0: "targets alone", 0.5: "half by the uncut model"}
FIGURES = {"text": ("test", 1.0, ".3f"), "vit": ("test_score", 100.0, ".1f")}


def tables(found: dict[str, Any], model: str) -> str:
    """A table for each device: means over the seeds, as the page has them."""
    return "\n\n" + "\n\n".join(_table(one, model) for one in found.values()) + "\n\n"


def _table(found: dict[str, Any], model: str) -> str:
    settings, hardware = found["settings"], found["hardware"]
    shares, seeds = settings["shares"], settings["seeds"]
    made = f"{hardware}, {seeds} {'seed' if seeds == 1 else 'seeds'}"
    rows = [f"| {made} | " + " | ".join(f"{share:.0%}" for share in shares) + " |"]
    rows.append("| --- |" + " --- |" * len(shares))
    arms = {
        f"{WORDS[kind]}, {TUNED[teaching]}": {"kind": kind, "teaching": teaching}
        for kind, teaching in product(WORDS, TUNED)
    }
    arms["as narrow from the start"] = {"kind": "plain"}
    for name, wanted in arms.items():
        some = [*found["cuts"], *found["plain"]]
        cells = [_cell(some, wanted | {"share": share}, *FIGURES[model]) for share in shares]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(rows: list[dict], wanted: dict[str, Any], figure: str, scale: float, form: str) -> str:
    found = [row[figure] for row in rows if {**row, **wanted} == row]
    return f"{scale * sum(found) / len(found):{form}}" if found else ""


def page(results: Path = RESULTS) -> str:
    """The page with the tables of what was recorded."""
    said = {}
    for model, name in RECORDS.items():
        path = results / f"{name}.json"
        if path.exists():
            said[model] = tables(json.loads(path.read_text()), model)
        else:
            said[model] = "**This was not measured yet.**"
    sentences = {model: lambda found, model=model: found[model] for model in said}
    return filled(PAGE.read_text(), "cuts", sentences, said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the tables into the docs")
    parser.add_argument("--model", default="text", choices=[*SUBJECTS])
    parser.add_argument("--data", type=Path, help="the images, for the vision transformer")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, help="of the uncut model")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="of the training data at most")
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="one seed, one share, a few rows")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--resume", action="store_true", help="leave out what is recorded already")
    options = parser.parse_args()
    if options.page:
        rewrite(PAGE, page(options.out))
        return
    if options.model == "vit" and options.data is None:
        parser.error("--model vit takes images: --data cifar10.npz")
    if options.quick:
        vars(options).update(QUICK)
        if options.out == RESULTS:
            parser.error("--quick is no record: name another folder by --out")
    options.epochs = options.epochs or EPOCHS[options.model]
    known = importlib.util.find_spec("torch_pruning") is not None
    if not known:
        print("torch_pruning is not installed, and left out")
    version = importlib.metadata.version("torch-pruning") if known else None
    shared = {
        name: getattr(options, name) for name in ("model", "data", "device", "epochs", "rows")
    }
    rounds = Rounds(
        RECORDS[options.model],
        contest_of,
        tuple(shared.items()),
        device=options.device,
        settings={name: getattr(options, name) for name in ("epochs", "rows", "shares", "seeds")}
        | {"recipe": RECIPES[options.model], "tuning_lrs": LRS[options.model]}
        | {"teaching": TEACHING, "torch_pruning": version},
        out=options.out,
        workers=options.workers,
        resume=options.resume,
    )
    seeds = range(options.seeds)
    kinds = [kind for kind in CUTTERS if known or kind == "ours"]
    rounds.play(
        [Job("whole", "whole", (seed,)) for seed in seeds]
        + [
            Job("cuts", "cut", (kind, share, seed))
            for seed, share, kind in product(seeds, options.shares, kinds)
        ]
        + [Job("plain", "narrow", (share, seed)) for seed, share in product(seeds, options.shares)]
    )


if __name__ == "__main__":
    main()
