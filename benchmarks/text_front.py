"""Feed-forward blocks of a small language model: spectral, or plain of several widths?

A transformer reads a made-up language character by character: words of a lexicon, verbs and
articles that agree with their nouns, clauses in brackets, sums and products. The grammar is seeded,
so the text is the same everywhere. Loss in nats a character, counted in ordinary parameters:

- plain: blocks of each width, trained for all epochs;
- penalised: spectral blocks of the largest width, one run for each penalty, all epochs, extracted;
- spectral: a third of the epochs without a penalty and at a constant rate, then cut to the size of
  each plain model but the largest and trained for the other epochs as ordinary blocks;
- cut: the same with plain blocks of the largest width, to tell what the cutting alone is worth.

Recipes are chosen on validation text, for the largest width; test text decides nothing. This goes
beyond the paper.

    python benchmarks/text_front.py
"""

import argparse
import copy
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from recording import RESULTS, record
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs import SpectralNetwork, TrainConfig, evaluate, extract, spectralize, train
from torchsparcs.compact import CompactNetwork
from torchsparcs.direct import reoriented

WIDTHS = (8, 24, 64, 128)
PENALTIES = (1e-4, 3e-4)
PLAIN = [{"lr": lr, "weight_decay": 0.05} for lr in (8e-3, 1.6e-2, 3.2e-2)]
SPECTRAL = [  # starting from the plain weights or as perceptrons
    {
        "keep_weights": kept,
        "lr": lr,
        "weight_decay": 0.05,
        "eigenvalue_lr_scale": scale,
        "transfer_weight_decay": decay,
    }
    for kept, lr, scale, decay in (
        (False, 1.6e-2, 30.0, 1.0),
        (False, 1.6e-2, 10.0, 0.3),
        (True, 1.6e-2, 10.0, 0.3),
        (True, 1.6e-2, 3.0, 0.1),
        (True, 1.6e-2, 1.0, 0.05),
        (True, 3.2e-2, 1.0, 0.05),
    )
]

CONTEXT = 64
BATCH = 16
ALPHABET = "\n ()*+.0123456789=abcdefghijklmnopqrstuvwxyz"
ROWS = {"training": 4000, "validation": 500, "test": 500}  # windows of the context's length
DIMENSION, DEPTH, HEADS = 32, 2, 4
LOOKED_AT = 600  # training windows that a cut looks at
RIDGE = 1e-2  # of the mean square of the neurons; less leaves weights too large to train on

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


# --- cutting blocks -------------------------------------------------------------------------------


def cut(model: nn.Module, data: Pair, width: int) -> nn.Module:
    """A copy whose blocks have ``width`` neurons on average and no skip connection.

    The output of a block is fitted by least squares from its hidden neurons alone. With the Gram
    matrix of their activities M, P = M⁻¹ and G the mean of g gᵀ over the gradients g of the loss at
    that output, the loss grows by w_qᵀ G w_q / P_qq without neuron q, to second order. Over all
    blocks together the cheapest goes, one by one, and what is left of its block is refitted.
    """
    fits = [
        _Fit(block.mlp, *seen) for block, seen in zip(model.blocks, _seen(model, data), strict=True)
    ]
    for _ in range(sum(len(fit.kept) for fit in fits) - width * len(fits)):
        fit = min(fits, key=lambda one: one.prices().min().item())
        fit.remove(int(fit.prices().argmin()))
    smaller = copy.deepcopy(model)
    for block, fit in zip(smaller.blocks, fits, strict=True):
        block.mlp = fit.block()
    return smaller


def _seen(model: nn.Module, data: Pair) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Inputs and outputs of each block, and the gradients of the loss there, (n, dimension)."""
    seen: list[tuple[Tensor, Tensor]] = []
    hooks = [
        block.mlp.register_forward_hook(lambda _, inputs, output: seen.append((*inputs, output)))
        for block in model.blocks
    ]
    total = loss(model(data[0]), data[1]) * data[1].numel()
    for hook in hooks:
        hook.remove()
    gradients = torch.autograd.grad(total, [output for _, output in seen])
    return [
        tuple(part.detach().flatten(0, -2).double() for part in (*pair, gradient))
        for pair, gradient in zip(seen, gradients, strict=True)
    ]


class _Fit:
    """The output of a block, fitted from fewer and fewer of its hidden neurons.

    Shapes, the bias last in each: ``readers`` (H, dimension + 1), ``weights`` (H + 1, dimension),
    ``inverse`` (H + 1, H + 1).
    """

    def __init__(self, part: nn.Module, inputs: Tensor, outputs: Tensor, gradients: Tensor):
        if isinstance(part, CompactNetwork):  # its neurons with the signs that need the skip least
            direct = reoriented(part.to_direct(), inputs, 2, 0)
            weight, bias = direct.weights[: direct.hidden, :DIMENSION], direct.bias[: direct.hidden]
        else:
            weight, bias = (p.detach().double() for p in part[0].parameters())
        self.readers = torch.cat([weight, bias[:, None]], dim=1)
        one = torch.ones_like(inputs[:, :1])
        active = torch.cat([F.gelu(torch.cat([inputs, one], dim=1) @ self.readers.T), one], dim=1)
        gram = active.T @ active / len(active)
        gram.diagonal().add_(RIDGE * gram.diagonal()[:-1].mean())
        self.inverse = torch.linalg.inv(gram)
        self.weights = self.inverse @ (active.T @ outputs / len(active))
        self.importance = gradients.T @ gradients / len(gradients)
        self.kept = list(range(len(self.readers)))

    def prices(self) -> Tensor:
        weights, certainty = self.weights[self.kept], self.inverse.diagonal()[self.kept]
        return ((weights @ self.importance) * weights).sum(dim=1) / certainty

    def remove(self, place: int) -> None:
        q = self.kept.pop(place)
        reach = self.inverse[q] / self.inverse[q, q]
        self.weights = self.weights - torch.outer(reach, self.weights[q])
        self.inverse = self.inverse - torch.outer(reach, self.inverse[q])

    def block(self) -> nn.Sequential:
        hidden = len(self.kept)
        first, last = nn.Linear(DIMENSION, hidden), nn.Linear(hidden, DIMENSION)
        with torch.no_grad():
            first.weight.copy_(self.readers[self.kept, :-1])
            first.bias.copy_(self.readers[self.kept, -1])
            last.weight.copy_(self.weights[self.kept].T)
            last.bias.copy_(self.weights[-1])
        return nn.Sequential(first, nn.GELU(), last)


# --- the contest ----------------------------------------------------------------------------------


class Contest:
    """The text, and what all models are trained with."""

    def __init__(self, options: argparse.Namespace):
        self.options, self.widest = options, max(options.widths)
        rows = {name: min(n, options.rows or n) for name, n in ROWS.items()}
        self.training, self.validation, self.test = (
            windows(rows[name], seed) for seed, name in enumerate(ROWS, start=1)
        )
        self.few = tuple(part[:LOOKED_AT] for part in self.training)

    def trained(self, model: nn.Module, epochs: int, seed: int, **recipe: Any) -> nn.Module:
        recipe = {"schedule": "warm_cosine", **recipe}
        config = TrainConfig(task=loss, epochs=epochs, batch_size=BATCH, seed=seed, **recipe)
        train(model, self.training, config, progress=False)
        return model

    def plain(self, width: int, epochs: int, seed: int, **recipe: Any) -> nn.Module:
        torch.manual_seed(seed)
        return self.trained(Transformer(width), epochs, seed, **recipe)

    def spectral(
        self, epochs: int, seed: int, penalty_weight: float, *, keep_weights: bool, **recipe: Any
    ) -> nn.Module:
        """Spectral blocks of the largest width, and one neuron more for the bias that is kept."""
        torch.manual_seed(seed)
        model = spectralize(
            Transformer(self.widest),
            target="blocks.*.mlp",
            hidden=[self.widest + keep_weights],
            keep_weights=keep_weights,
        )
        return self.trained(model, epochs, seed, penalty_weight=penalty_weight, **recipe)

    def plain_choices(self) -> Iterator[dict]:
        for recipe in PLAIN:
            model = self.plain(self.widest, self.options.epochs, 0, **recipe)
            yield {"recipe": recipe, **self.judged(model, self.validation, "validation")}

    def spectral_choices(self) -> Iterator[dict]:
        """Without a penalty, so that all of them have one size, and for half of the epochs."""
        for recipe in SPECTRAL:
            model = self.spectral(self.options.epochs // 2, 0, 0.0, **recipe)
            yield {"recipe": recipe, **self.judged(model, self.validation, "validation")}

    def runs(self, seed: int, plain: dict, spectral: dict) -> Iterator[dict]:
        """Every model of one seed, judged; each has seen as many epochs."""
        epochs = self.options.epochs
        for width in self.options.widths:
            model = self.plain(width, epochs, seed, **plain)
            yield {"kind": "plain", "seed": seed, "width": width, **self.both(model)}
        for weight in self.options.penalties:
            model = self.spectral(epochs, seed, weight, **spectral)
            networks = [part for part in model.modules() if isinstance(part, SpectralNetwork)]
            yield {
                "kind": "penalised",
                "seed": seed,
                "penalty_weight": weight,
                "recruited": [network.recruited[0] for network in networks],
                **self.both(extract(model)),
            }
        first = epochs // 3
        constant = {"schedule": "constant"}
        wide = {
            "spectral": extract(self.spectral(first, seed, 0.0, **spectral, **constant)),
            "cut": self.plain(self.widest, first, seed, **plain, **constant),
        }
        for kind, model in wide.items():
            for width in sorted(self.options.widths)[:-1]:
                small = cut(model, self.few, width)
                before = self.judged(small, self.validation, "validation_before")
                self.trained(small, epochs - first, seed, **plain, schedule="cosine")
                yield {
                    "kind": kind,
                    "seed": seed,
                    "width": width,
                    "hidden": [block.mlp[0].out_features for block in small.blocks],
                    **before,
                    **self.both(small),
                }

    def both(self, model: nn.Module) -> dict:
        return {
            **self.judged(model, self.validation, "validation"),
            **self.judged(model, self.test, "test"),
        }

    def judged(self, model: nn.Module, data: Pair, name: str) -> dict:
        return {"parameters": count(model), name: evaluate(model, data, loss).loss}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="of each text at most, for a quick look")
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    parser.add_argument("--penalties", type=float, nargs="*", default=PENALTIES)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(1)  # the model is too small for more
    contest, start = Contest(options), time.perf_counter()
    results: dict = {"epochs": options.epochs}

    def keep(name: str, rows: Iterator[dict]) -> list[dict]:
        """All of them, recorded one by one."""
        kept = results.setdefault(name, [])
        for row in rows:
            print(name, row, flush=True)
            kept.append(row)
            results["seconds"] = time.perf_counter() - start
            record("text_front", "cpu", results, options.out)
        return kept

    plain, spectral = (
        min(keep(name, rows), key=lambda one: one["validation"])["recipe"]
        for name, rows in (
            ("plain_choices", contest.plain_choices()),
            ("spectral_choices", contest.spectral_choices()),
        )
    )
    for seed in range(options.seeds):
        keep("runs", contest.runs(seed, plain, spectral))


if __name__ == "__main__":
    main()
