"""How many bytes of a chip does generated C take, and how well does a formula say so?

Networks drawn at random, for tables drawn at random, leave as C in float and in int8 and are
compiled for each chip whose compiler is here. The constants are counted, the code is fitted by
least squares as a sum of parts (`torchsparcs/export/predicting.py`) to two thirds of the networks;
the error is that of the flash of the others. The formulas of chips that were measured are written
into the package, where `size="bytes"` reads them.

    python benchmarks/flash.py
"""

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from recording import RESULTS, record

import torchsparcs.export
from torchsparcs import CompactNetwork, quantize, to_c
from torchsparcs.compact.direct import is_read
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.export.folding import program_of
from torchsparcs.export.measuring import CHIPS, Cost, measure
from torchsparcs.export.predicting import FLOAT, INT8, parts_of, stacked_of
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

FORMULAS = Path(torchsparcs.export.__file__).with_name("formulas.json")
ROWS = 200
RIDGE = 1e-3  # so that parts which always come together share their bytes


class Drawn(NamedTuple):
    """A network, in float or in int8, and what it has."""

    kind: str
    network: object
    parts: list[float]
    stacked: list[float]


def table(draw: np.random.Generator) -> pd.DataFrame:
    """Numbers, some of them missing, and text."""
    count = 1 if draw.random() < 0.1 else draw.integers(2, 40)
    found = pd.DataFrame({f"x{i}": draw.normal(size=ROWS) for i in range(count)})
    for name in found.columns[: draw.integers(0, 3)]:
        found.loc[draw.random(ROWS) < 0.2, name] = None
    for i in range(draw.integers(0, 3)):
        texts = [f"text {t}" for t in range(draw.integers(2, 7))]
        column = pd.Series(draw.choice(texts, ROWS))
        found.insert(int(draw.integers(0, 2)), f"t{i}", column)
    return found


def target(draw: np.random.Generator) -> object:
    """Two classes, more of them, a number or several."""
    classes = draw.integers(3, 11)
    kinds = (
        np.arange(ROWS) % 2 > 0,
        np.arange(ROWS) % classes,
        draw.normal(size=ROWS),
        pd.DataFrame(draw.normal(size=(ROWS, 3)), columns=[*"abc"]),
    )
    return kinds[draw.choice(4, p=(0.35, 0.35, 0.25, 0.05))]


def drawn(seed: int) -> Iterator[Drawn]:
    """A network in float, and where that can be in int8."""
    draw = np.random.default_rng(seed)
    torch.manual_seed(seed)
    x, y = table(draw), target(draw)
    preprocessing = Preprocessing(Inputs.fit(x), Target.fit(y))
    hidden = [int(draw.integers(2, 20)) for _ in range(draw.choice(3, p=(0.2, 0.6, 0.2)))]
    inputs, outputs = len(preprocessing.inputs.encoded_names), preprocessing.target.outputs
    widths = [inputs, *hidden, outputs]
    pairs = [(t, t - 1) for t in range(1, len(widths))]
    if hidden and draw.random() < 0.5:
        pairs.append((len(widths) - 1, 0))
    kept = None
    if draw.random() < 0.8:
        share = draw.uniform(0.03, 0.9)
        sizes = {f"{t}_{s}": widths[t] * (widths[s] + 1) for t, s in pairs}
        kept = {
            name: np.flatnonzero(draw.random(n) < share).tolist() or [0]
            for name, n in sizes.items()
        }
    others = ("tanh", "gelu", "silu", "sigmoid")
    activation = str(draw.choice(others)) if draw.random() < 0.25 else "relu"
    network = CompactNetwork(widths, pairs, activation=activation, kept=kept)
    if not is_read(network.to_direct()).any():
        return  # a constant, of which compilers leave nothing
    deployed = DeployedNetwork(network, preprocessing)
    program = program_of(deployed)
    if program.features == 1 and not program.numbers:
        return  # one question, which compilers ask without the network
    yield of(FLOAT, deployed, program)
    if activation == "relu" or not hidden:
        small = quantize(deployed, x)
        yield of(INT8, small, small)


def of(kind: str, network: object, program: object) -> Drawn:
    parts, stacked = parts_of(program), stacked_of(program)
    return Drawn(kind, network, [*parts.values()], [*stacked.values()])


def fitted(parts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """What each of the ``parts`` adds to ``values``, by least squares."""
    damped = parts.T @ parts + RIDGE * np.eye(parts.shape[1])
    return np.linalg.solve(damped, parts.T @ values)


def formula(some: list[Drawn], costs: list[Cost], names: tuple[list[str], list[str]]) -> dict:
    """The bytes of each part, and how far off they are for networks that were kept apart."""
    parts = np.array([each.parts for each in some], dtype=float)
    stacked = np.array([each.stacked for each in some], dtype=float)
    flash, data = (np.array([getattr(c, name) for c in costs]) for name in ("flash", "data"))
    stack = np.array([cost.stack for cost in costs])
    apart = np.arange(len(some)) % 3 == 2
    code = fitted(parts[~apart], (flash - data)[~apart])
    off = (data + parts @ code - flash)[apart] / flash[apart]
    whole = fitted(parts, flash - data)
    return {
        "code": {name: round(value, 1) for name, value in zip(names[0], whole, strict=True)},
        "stack": dict(zip(names[1], fitted(stacked, stack).round(2).tolist(), strict=True)),
        "error": round(float(np.abs(off).mean()), 4),
        "largest_error": round(float(np.abs(off).max()), 4),
        "networks": len(some),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=int, default=90)
    parser.add_argument("--chips", nargs="+", choices=CHIPS, default=[*CHIPS])
    parser.add_argument("--formulas", type=Path, default=FORMULAS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    networks = [each for seed in range(arguments.networks) for each in drawn(seed)]
    example = program_of(CompactNetwork([2, 1], [(1, 0)]))
    names = ([*parts_of(example)], [*stacked_of(example)])
    found = {}
    for chip in arguments.chips:
        if shutil.which(CHIPS[chip].compiler) is None:
            print(f"{chip}: no {CHIPS[chip].compiler}")
            continue
        costs = []
        with tempfile.TemporaryDirectory() as folder:
            for each in networks:
                to_c(each.network, Path(folder, "model.h"))
                costs.append(measure(Path(folder, "model.h"), chip))
        # where less is left than the constants, compilers have seen that the answer is always one
        pairs = zip(networks, costs, strict=True)
        kept = [(each, cost) for each, cost in pairs if cost.flash > cost.data]
        found[chip] = {
            kind: formula(
                [each for each, _ in kept if each.kind == kind],
                [cost for each, cost in kept if each.kind == kind],
                names,
            )
            for kind in (FLOAT, INT8)
        }
        print(chip, {kind: (f["error"], f["largest_error"]) for kind, f in found[chip].items()})
    known = json.loads(arguments.formulas.read_text()) if arguments.formulas.exists() else {}
    text = json.dumps(known | found, indent=1) + "\n"
    arguments.formulas.write_text(text)
    print(record("flash", "cpu", {"chips": found}, arguments.out))


if __name__ == "__main__":
    main()
