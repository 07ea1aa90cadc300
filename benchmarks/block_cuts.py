"""Trained feed-forward blocks cut at once: by least squares or by Torch-Pruning, with a teacher?

The small language model of ``text_front.py`` is trained once and loses hidden units of its blocks,
in one cut, down to shares of what they had. Both cutters look at the same rows, and both are
fine-tuned for as long, by the targets alone or half by what the uncut model says:

- ours: units by what their removal costs the loss, readers refitted, as in ``extract``
- torch_pruning: units by first-order Taylor importance; ``pip install torch-pruning``
- plain: models as narrow as that from the start, trained for as long as both together

The learning rate of each fine-tuning is chosen on validation text; test text decides nothing.

    python benchmarks/block_cuts.py --seeds 1
    python benchmarks/block_cuts.py --page      # writes the table into docs/results.md
"""

import argparse
import copy
import importlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import torch
from marking import filled, rewrite
from recording import RESULTS
from rounds import Job, Rounds
from text_front import PLAIN, Contest
from torch import Tensor, nn

from torchsparcs.cutting.ladder import constant_loss
from torchsparcs.cutting.teacher import Teacher
from torchsparcs.cutting.units import BlockCuts, block_cuts
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.train import train

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results.md"
WIDEST = 128
SHARES = (0.7, 0.5, 0.3)
TEACHING = (0.0, 0.5)
LRS = (4e-3, 1.6e-2)
RECIPE = PLAIN[2]  # the best on validation text in docs/results/text_front.json
LOOKED_AT = 512  # windows that a cut looks at
AT_ONCE = 64
BATCH = 16


class Cuts(Contest):
    """The contest of ``text_front.py`` with models that are cut at once."""

    def __init__(self, epochs: int, rows: int | None):
        super().__init__(epochs, rows, (WIDEST,))
        self.uncut: dict[int, nn.Module] = {}
        some = [part[:LOOKED_AT].split(AT_ONCE) for part in self.training]
        self.rows = [*zip(*some, strict=True)]

    def model(self, seed: int) -> nn.Module:
        """The uncut model, trained once in each process."""
        if seed not in self.uncut:
            self.uncut[seed] = self.plain(WIDEST, self.epochs, seed, **RECIPE)
        return self.uncut[seed]

    def whole(self, seed: int) -> Iterator[dict]:
        yield {"seed": seed, "epochs": self.epochs, **self.both(self.model(seed))}

    def narrow(self, share: float, seed: int) -> Iterator[dict]:
        epochs = self.epochs + self.tuning
        model = self.plain(round(share * WIDEST), epochs, seed, **RECIPE)
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
            for lr in LRS:
                tuned = CUTTERS[kind](self, whole, cuts, share)
                config = self.tuned_by(seed, lr)
                pupil: Any = tuned
                if teaching:
                    teacher = Teacher(whole, "multiclass", teaching, cuts.stays, constant)
                    pupil, config = teacher.taught(tuned, config)
                train(pupil, self.training, config, progress=False)
                found.append({"lr": lr, **self.both(tuned)})
            yield {**row, "teaching": teaching, **min(found, key=lambda one: one["validation"])}

    def tuned_by(self, seed: int, lr: float) -> TrainConfig:
        return TrainConfig(
            task="multiclass",
            epochs=self.tuning,
            batch_size=BATCH,
            seed=seed,
            lr=lr,
            weight_decay=RECIPE["weight_decay"],
            schedule="warm_cosine",
        )


def _widths(model: nn.Module) -> list[int]:
    return [block.mlp[0].out_features for block in model.blocks]


def ours(contest: Cuts, model: nn.Module, cuts: BlockCuts, share: float) -> nn.Module:
    per_unit = sum(p.numel() for p in model.blocks[0].mlp.parameters()) // WIDEST
    gone = round((1 - share) * WIDEST * len(model.blocks)) * per_unit
    return cuts.cut(model, contest.rows, "multiclass", cuts.size(model) - gone)["units"]


def torch_pruning(contest: Cuts, model: nn.Module, cuts: BlockCuts, share: float) -> nn.Module:
    tp = importlib.import_module("torch_pruning")
    small = copy.deepcopy(model).eval()
    kept = {block.mlp[0] for block in small.blocks}
    others = [m for m in small.modules() if isinstance(m, nn.Linear) and m not in kept]
    others += [m for m in small.modules() if isinstance(m, nn.Embedding | nn.LayerNorm)]
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
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


CUTTERS = {"ours": ours, "torch_pruning": torch_pruning}


@lru_cache
def contest_of(options: tuple) -> Cuts:
    """The contest, made once in each process."""
    torch.set_num_threads(1)
    return Cuts(*options)


# --- the page -------------------------------------------------------------------------------------

WORDS = {"ours": "cut as by `extract`", "torch_pruning": "Torch-Pruning"}
TUNED = {None: "before fine-tuning", 0.0: "targets alone", 0.5: "half by the uncut model"}


def table(found: dict[str, Any]) -> str:
    """Test losses, means over the seeds, as the page has them."""
    shares = found["settings"]["shares"]
    rows = ["| | " + " | ".join(f"{share:.0%}" for share in shares) + " |"]
    rows.append("| --- |" + " --- |" * len(shares))
    arms = {
        f"{WORDS[kind]}, {TUNED[teaching]}": {"kind": kind, "teaching": teaching}
        for kind, teaching in product(WORDS, TUNED)
    }
    arms["as narrow from the start"] = {"kind": "plain"}
    for name, wanted in arms.items():
        cells = [_cell([*found["cuts"], *found["plain"]], wanted | {"share": s}) for s in shares]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n\n" + "\n".join(rows) + "\n\n"


def _cell(rows: list[dict], wanted: dict[str, Any]) -> str:
    losses = [row["test"] for row in rows if {**row, **wanted} == row]
    return f"{sum(losses) / len(losses):.3f}" if losses else ""


def page(results: Path = RESULTS) -> str:
    """The page with the table of what was recorded."""
    found = json.loads((results / "block_cuts.json").read_text())["cpu"]
    return filled(PAGE.read_text(), "cuts", {"table": table}, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the table into the docs")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="of each text at most, for a quick look")
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--resume", action="store_true", help="leave out what is recorded already")
    options = parser.parse_args()
    if options.page:
        rewrite(PAGE, page(options.out))
        return
    known = importlib.util.find_spec("torch_pruning") is not None
    version = importlib.metadata.version("torch-pruning") if known else None
    rounds = Rounds(
        "block_cuts",
        contest_of,
        (options.epochs, options.rows),
        device="cpu",
        settings={name: getattr(options, name) for name in ("epochs", "rows", "shares", "seeds")}
        | {"recipe": RECIPE, "tuning_lrs": LRS, "teaching": TEACHING, "torch_pruning": version},
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
