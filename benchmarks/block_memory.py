"""How much memory does it take to extract a wide feed-forward block?

Blocks of 4096 → 11008 → 4096 with GELU and a residual around them, half of the units silent or, of
the plain one, to go; each in a process of its own. The peak is what the process has at most while
it extracts, less what it had before, and beside it the seconds of the processor.

    where it stands  eigenvalues by ``spectralize(..., example=)``, extracted without data
    replaced         a SpectralNetwork in its place, which has a skip connection of its own
    plain            cut to half of its parameters with 1,000 rows, fine-tuned for one epoch

    python benchmarks/block_memory.py           # Linux; 8 GB of memory
    python benchmarks/block_memory.py --quick   # a narrow block: does all of it run?
    python benchmarks/block_memory.py --page    # writes the sentence into docs/results.md
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from block_cost import Block
from marking import rewrite, shown
from recording import RESULTS, record
from torch import nn

from torchsparcs import RefineConfig, extract, spectralize
from torchsparcs.blocks.spectral import spectral_blocks

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results.md"
OWN = Path("/proc/self")
WIDTHS, ROWS = (4096, 11008), 1000
KINDS = ("where it stands", "replaced", "plain")


def extraction_of(kind: str, width: int, hidden: int) -> Callable[[], nn.Module]:
    """What is measured, with all that it needs."""
    torch.manual_seed(0)
    plain, x = Block(width, hidden), torch.randn(ROWS, width)
    if kind == "plain":
        with torch.no_grad():
            pair = x, plain(x)
        budget, config = width * hidden, RefineConfig(epochs=1, batch_size=64)
        given = {"data": pair, "validation": pair, "task": "regression", "progress": False}
        return lambda: extract(plain, **given, max_parameters=budget, config=config)
    if kind == "replaced":
        block = spectralize(plain, target="mlp", keep_weights=True)
        eigenvalues = block.mlp.hidden_eigenvalues[0]
    else:
        block = spectralize(plain, target="*", example=x[:2])
        eigenvalues = spectral_blocks(block)[0].hidden_eigenvalues[0]
    eigenvalues.data[::2] = 0
    return lambda: extract(block)


def measured(kind: str, width: int, hidden: int) -> dict[str, float]:
    """The peak and the seconds, in a process that has done nothing before."""
    work = extraction_of(kind, width, hidden)
    before = _status("VmRSS")
    (OWN / "clear_refs").write_text("5")  # forget the peak so far
    start = time.process_time()
    small = work()
    seconds = time.process_time() - start
    return {
        "before_mb": before,
        "peak_mb": _status("VmHWM") - before,
        "processor_seconds": seconds,
        "parameters": 2 * width * hidden + width + hidden,
        "left": sum(parameter.numel() for parameter in small.parameters()),
    }


def _status(name: str) -> float:
    """What Linux says of this process, in MB."""
    lines = (OWN / "status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024 / 1e6


def alone(kind: str, widths: tuple[int, int]) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--only", kind, "--widths", *map(str, widths)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, float] = json.loads(said.splitlines()[-1])
    return found


def sentence(found: dict) -> str:
    """The record as the page has it."""
    results = found["cpu"]
    width, hidden = results["widths"]
    parts = {kind: f"{results['kinds'][kind]['peak_mb'] / 1000:.1f} GB" for kind in KINDS}
    own = results["kinds"]["plain"]["parameters"] * 4 / 1e6
    return (
        f"A block of {width} → {hidden} → {width} has {own:.0f} MB of weights. To `extract` it "
        f"takes, beside the model, {parts['where it stands']} with eigenvalues where it stands, "
        f"half of them zero; {parts['replaced']} with a `SpectralNetwork` in its place; "
        f"{parts['plain']} to cut the plain one to half with {ROWS:,} rows and one epoch of "
        "fine-tuning."
    )


def page(results: Path = RESULTS) -> str:
    """The page with what was recorded."""
    return shown(PAGE, {"sentence": sentence}, results / "block_memory.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the sentence into the docs")
    parser.add_argument("--only", choices=KINDS, help="measure this one, in this process")
    parser.add_argument("--widths", type=int, nargs=2, default=WIDTHS)
    parser.add_argument("--quick", action="store_true", help="a narrow block")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.page:
        rewrite(PAGE, page(options.out))
        return
    widths = (16, 64) if options.quick else tuple(options.widths)
    if options.only:
        print(json.dumps(measured(options.only, *widths)))
        return
    kinds = {}
    for kind in KINDS:
        kinds[kind] = alone(kind, widths)
        print(kind, kinds[kind], flush=True)
    print(record("block_memory", "cpu", {"widths": widths, "kinds": kinds}, options.out))


if __name__ == "__main__":
    main()
