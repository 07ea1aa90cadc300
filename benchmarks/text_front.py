"""Feed-forward blocks of a small language model: spectral and cut, or plain of several widths?

A transformer reads a made-up language character by character: words of a lexicon, verbs and
articles that agree with their nouns, clauses in brackets, sums and products. The grammar is seeded,
so the text is the same everywhere. Loss in nats a character, against ordinary parameters:

- plain: blocks of each width, trained for as long as a search takes to come down to their size;
- spectral: spectral blocks of the largest width, trained once, extracted and cut rung by rung, each
  fine-tuned for a fifth of the epochs;
- cut: plain blocks of the largest width cut in the same way: what is the cutting alone worth?

Recipes are chosen on validation text, for the largest width and half of the epochs; test text
decides nothing. This goes beyond the paper.

    python benchmarks/text_front.py --workers 2
"""

import argparse
import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import torch
from recording import RESULTS
from rounds import Job, Rounds
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs import TrainConfig, evaluate, extract, spectralize, train
from torchsparcs.cutting.model_ladder import SHRINK, model_rungs

WIDTHS = (128, 64, 24, 8)
PLAIN = [{"lr": lr, "weight_decay": 0.05} for lr in (8e-3, 1.6e-2, 3.2e-2, 6.4e-2)]
SPECTRAL = [  # starting from plain weights or as perceptrons
    {
        "keep_weights": kept,
        "lr": lr,
        "weight_decay": 0.05,
        "eigenvalue_lr_scale": scale,
        "transfer_weight_decay": decay,
        "penalty_weight": penalty,
    }
    for kept, lr, scale, decay, penalty in (
        (False, 1.6e-2, 10.0, 0.3, 1e-5),
        (True, 1.6e-2, 3.0, 0.1, 1e-5),
        (True, 1.6e-2, 1.0, 0.05, 1e-5),
        (True, 1.6e-2, 1.0, 0.05, 1e-4),
        (True, 1.6e-2, 0.3, 0.05, 1e-5),
        (True, 1.6e-2, 1.0, 0.0, 1e-5),
        (True, 8e-3, 1.0, 0.05, 1e-5),
    )
]
TUNING_SHARE = 5  # as many epochs of the training for one of a rung

CONTEXT = 64
BATCH = 16
ALPHABET = "\n ()*+.0123456789=abcdefghijklmnopqrstuvwxyz"
ROWS = {"training": 4000, "validation": 500, "test": 500}  # windows of the context's length
DIMENSION, DEPTH, HEADS = 32, 2, 4

Pair = tuple[Tensor, Tensor]


# --- the text -------------------------------------------------------------------------------------


class Language:
    """Invented words, and sentences that are made of them."""

    def __init__(self) -> None:
        numbers = random.Random(0)
        self.nouns, self.verbs, self.adjectives = (
            self._words(numbers, count, syllables)
            for count, syllables in ((400, 3), (150, 2), (150, 2))
        )

    @staticmethod
    def _words(numbers: random.Random, count: int, syllables: int) -> list[str]:
        words: dict[str, None] = {}  # each once, in order
        while len(words) < count:
            pairs = (
                numbers.choice("bdfgklmnprstvz") + numbers.choice("aeiou") for _ in range(syllables)
            )
            words["".join(pairs) + numbers.choice("nrsl")] = None
        return list(words)

    def text(self, characters: int, seed: int) -> str:
        numbers, lines, length = random.Random(seed), [], 0
        while length < characters:
            lines.append(self._line(numbers) + "\n")
            length += len(lines[-1])
        return "".join(lines)[:characters]

    def _line(self, numbers: random.Random) -> str:
        if numbers.random() < 0.2:
            a, b = numbers.randrange(2, 13), numbers.randrange(2, 13)
            return numbers.choice((f"{a}*{b}={a * b}.", f"{a}+{b}={a + b}."))
        many = numbers.random() < 0.4
        subject, verb = self._phrase(numbers, many, 0), self._verb(numbers, many)
        return f"{subject} {verb} {self._phrase(numbers, numbers.random() < 0.4, 1)}."

    def _phrase(self, numbers: random.Random, many: bool, depth: int) -> str:
        parts = ["these" if many else "this"]
        if numbers.random() < 0.5:
            parts.append(self._frequent(numbers, self.adjectives))
        parts.append(self._frequent(numbers, self.nouns) + "i" * many)
        if depth < 2 and numbers.random() < 0.3:
            clause = self._phrase(numbers, numbers.random() < 0.4, depth + 1)
            parts.append(f"({self._verb(numbers, many)} {clause})")
        return " ".join(parts)

    def _verb(self, numbers: random.Random, many: bool) -> str:
        return self._frequent(numbers, self.verbs) + ("un" if many else "a")

    @staticmethod
    def _frequent(numbers: random.Random, words: list[str]) -> str:
        """The first words more often than the last."""
        return words[int(len(words) * numbers.random() ** 2)]


def windows(rows: int, seed: int) -> Pair:
    """Characters and those that follow them, (rows, context) each."""
    text = Language().text(rows * CONTEXT + 1, seed)
    codes = torch.tensor([ALPHABET.index(character) for character in text])
    return codes[:-1].view(rows, CONTEXT), codes[1:].view(rows, CONTEXT)


# --- the model ------------------------------------------------------------------------------------


class Block(nn.Module):
    """Attention and a feed-forward block, each on a normalised copy of the signal."""

    def __init__(self, hidden: int):
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(DIMENSION), nn.LayerNorm(DIMENSION)
        self.queries_keys_values = nn.Linear(DIMENSION, 3 * DIMENSION)
        self.projection = nn.Linear(DIMENSION, DIMENSION)
        self.mlp = nn.Sequential(
            nn.Linear(DIMENSION, hidden), nn.GELU(), nn.Linear(hidden, DIMENSION)
        )

    def forward(self, x: Tensor, nearness: Tensor) -> Tensor:
        parts = self.queries_keys_values(self.before_attention(x)).chunk(3, dim=-1)
        split = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        attended = F.scaled_dot_product_attention(*split, attn_mask=nearness)
        x = x + self.projection(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.before_mlp(x))


class Transformer(nn.Module):
    """Its heads look back with a bias against distance, each head another one (ALiBi)."""

    def __init__(self, hidden: int):
        super().__init__()
        self.embedding = nn.Embedding(len(ALPHABET), DIMENSION)
        self.blocks = nn.ModuleList(Block(hidden) for _ in range(DEPTH))
        self.norm, self.head = nn.LayerNorm(DIMENSION), nn.Linear(DIMENSION, len(ALPHABET))
        distance = torch.arange(CONTEXT)[:, None] - torch.arange(CONTEXT)
        slopes = 0.25 ** torch.arange(HEADS)[:, None, None]
        nearness = (-slopes * distance).masked_fill(distance < 0, -torch.inf)
        self.register_buffer("nearness", nearness, persistent=False)

    def forward(self, codes: Tensor) -> Tensor:
        x = self.embedding(codes)
        for block in self.blocks:
            x = block(x, self.nearness)
        return self.head(self.norm(x))


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


# --- the contest ----------------------------------------------------------------------------------


class Contest:
    """The text, and what all models are trained with."""

    def __init__(self, epochs: int, rows: int | None, widths: tuple[int, ...]):
        self.epochs, self.widths, self.widest = epochs, widths, max(widths)
        self.tuning = max(1, epochs // TUNING_SHARE)
        self.training, self.validation, self.test = (
            windows(min(count, rows or count), seed)
            for seed, count in enumerate(ROWS.values(), start=1)
        )

    def config(self, epochs: int, seed: int, **recipe: Any) -> TrainConfig:
        recipe = {"schedule": "warm_cosine", **recipe}
        return TrainConfig(task=loss, epochs=epochs, batch_size=BATCH, seed=seed, **recipe)

    def trained(self, model: nn.Module, epochs: int, seed: int, **recipe: Any) -> nn.Module:
        train(model, self.training, self.config(epochs, seed, **recipe), progress=False)
        return model

    def plain(self, width: int, epochs: int, seed: int, **recipe: Any) -> nn.Module:
        torch.manual_seed(seed)
        return self.trained(Transformer(width), epochs, seed, **recipe)

    def spectral(self, epochs: int, seed: int, *, keep_weights: bool, **recipe: Any) -> nn.Module:
        torch.manual_seed(seed)
        model = self.spectralized(Transformer(self.widest), keep_weights=keep_weights)
        return self.trained(model, epochs, seed, **recipe)

    def spectralized(self, model: nn.Module, *, keep_weights: bool) -> nn.Module:
        """With blocks of the largest width, and one neuron more for a bias that is kept."""
        hidden = [self.widest + keep_weights]
        options = {"hidden": hidden, "keep_weights": keep_weights}
        return spectralize(model, target="blocks.*.mlp", **options)

    def plain_choice(self, recipe: dict) -> Iterator[dict]:
        model = self.plain(self.widest, self.epochs // 2, 0, **recipe)
        yield {"recipe": recipe, **self.judged(model, self.validation, "validation")}

    def spectral_choice(self, recipe: dict) -> Iterator[dict]:
        model = extract(self.spectral(self.epochs // 2, 0, **recipe))
        yield {"recipe": recipe, **self.judged(model, self.validation, "validation")}

    def plain_run(self, width: int, seed: int, recipe: dict) -> Iterator[dict]:
        epochs = self.epochs + self.rungs_to(width) * self.tuning
        row = {"kind": "plain", "seed": seed, "width": width, "epochs": epochs}
        yield {**row, **self.both(self.plain(width, epochs, seed, **recipe))}

    def front(self, kind: str, seed: int, plain: dict, spectral: dict) -> Iterator[dict]:
        """Every rung, down to the size of the narrowest plain model."""
        if kind == "spectral":
            model = self.spectral(self.epochs, seed, **spectral)
        else:
            model = self.plain(self.widest, self.epochs, seed, **plain)
            model = self.spectralized(model, keep_weights=True)
        tuning = self.config(self.tuning, seed, **plain)
        found = model_rungs(extract(model), self.training, self.validation, tuning)
        for place, rung in enumerate(found):
            blocks = [block.mlp.architecture for block in rung.network.blocks]
            epochs = self.epochs + place * self.tuning
            row = {"kind": kind, "seed": seed, "epochs": epochs, "blocks": blocks}
            yield {**row, **self.both(rung.network)}
            if count(rung.network) <= count(Transformer(min(self.widths))):
                return

    def rungs_to(self, width: int) -> int:
        """How many rungs it takes to come from the largest width to this one."""
        sizes = [count(Transformer(w).blocks[0].mlp) for w in (self.widest, width)]
        rungs = 0
        while sizes[0] * SHRINK**rungs > sizes[1]:
            rungs += 1
        return rungs

    def both(self, model: nn.Module) -> dict:
        return {
            **self.judged(model, self.validation, "validation"),
            **self.judged(model, self.test, "test"),
        }

    def judged(self, model: nn.Module, data: Pair, name: str) -> dict:
        return {"parameters": count(model), name: evaluate(model, data, loss).loss}


@lru_cache
def contest_of(options: tuple) -> Contest:
    """The contest, made once in each process."""
    torch.set_num_threads(1)  # the model is too small for more
    return Contest(*options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="of each text at most, for a quick look")
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    parser.add_argument("--choices", type=int, help="recipes of each kind, for a quick look")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--resume", action="store_true", help="leave out what is recorded already")
    options = parser.parse_args()
    settings = {name: getattr(options, name) for name in ("epochs", "seeds", "rows", "widths")}
    rounds = Rounds(
        "text_front",
        contest_of,
        (options.epochs, options.rows, tuple(options.widths)),
        device="cpu",
        settings={**settings, "plain_recipes": PLAIN, "spectral_recipes": SPECTRAL},
        out=options.out,
        workers=options.workers,
        resume=options.resume,
    )
    kinds = {"spectral_choice": SPECTRAL, "plain_choice": PLAIN}
    found = rounds.play(
        [
            Job(f"{method}s", method, (recipe,))
            for method, recipes in kinds.items()
            for recipe in recipes[: options.choices]
        ]
    )
    plain, spectral = (
        min(found[name], key=lambda one: one["validation"])["recipe"]
        for name in ("plain_choices", "spectral_choices")
    )
    seeds = range(options.seeds)
    rounds.play(
        [
            Job("runs", "front", (kind, seed, plain, spectral))
            for kind, seed in product(("spectral", "cut"), seeds)
        ]
        + [
            Job("runs", "plain_run", (width, seed, plain))
            for seed, width in product(seeds, options.widths)
        ]
    )


if __name__ == "__main__":
    main()
