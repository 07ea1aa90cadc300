"""What does a training step of a spectral feed-forward block cost beside a plain one?

Blocks of 1024 → 4096 → 1024 with a residual around them, whole steps of AdamW: forward, backward,
the optimizer and, for spectral ones, the proximal step; blocks take turns, medians.

    plain       two Linears with a GELU between them
    where it stands  the same with eigenvalues, by ``spectralize(..., example=)``
    replaced    a SpectralNetwork in its place, which has a skip connection of its own

    python benchmarks/block_cost.py                  # CPU, eager
    python benchmarks/block_cost.py --device cuda    # eager, and compiled
    python benchmarks/block_cost.py --quick          # a narrow block: does all of it run?
    python benchmarks/block_cost.py --page           # writes the table into docs/results.md
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from marking import rewrite, shown
from recording import RESULTS, record
from torch import Tensor, nn

from torchsparcs import attach_penalty, parameter_groups, spectralize
from torchsparcs.experiments.scaling import keep_page_faults_out, median_seconds

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results.md"
WIDTHS = (1024, 4096)
BATCHES = (128, 1024)
KINDS = ("plain", "where it stands", "replaced")


class Block(nn.Module):
    """``x + mlp(x)``."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(x)


def block_of(
    kind: str, widths: tuple[int, int], device: str
) -> tuple[nn.Module, torch.optim.AdamW]:
    """A block whose hidden units are all recruited, and its optimizer."""
    torch.manual_seed(0)
    plain = Block(*widths).to(device)
    if kind == "plain":
        return plain, torch.optim.AdamW(plain.parameters(), lr=1e-5)
    if kind == "replaced":
        block = spectralize(plain, target="mlp", keep_weights=True)
    else:
        block = spectralize(plain, target="*", example=torch.randn(2, widths[0], device=device))
    optimizer = torch.optim.AdamW(parameter_groups(block, lr=1e-5))
    attach_penalty(block, optimizer, 1e-6)
    return block, optimizer


def step_of(
    kind: str, widths: tuple[int, int], batch: int, device: str, *, is_compiled: bool
) -> Callable[[], None]:
    block, optimizer = block_of(kind, widths, device)
    x = torch.randn(batch, widths[0], device=device)
    forward = torch.compile(block) if is_compiled else block

    def step() -> None:
        optimizer.zero_grad()
        forward(x).square().mean().backward()
        optimizer.step()

    for _ in range(3):
        step()
    return step


def table(found: dict[str, dict]) -> str:
    """Times of the plain block's, as the page has them."""
    rows = ["| plain block = 1 | batch | where it stands | replaced by a SpectralNetwork |"]
    rows.append("| --- | --- | --- | --- |")
    for device, results in found.items():
        for row in results["rows"]:
            where = f"{'GPU' if device == 'cuda' else 'CPU'}, {row['how']}"
            times = [f"{row[kind] / row['plain']:.2f}" for kind in KINDS[1:]]
            rows.append(f"| {where} | {row['batch']:,} | {' | '.join(times)} |")
    return "\n\n" + "\n".join(rows) + "\n\n"


def page(results: Path = RESULTS) -> str:
    """The page with the table of what was recorded."""
    return shown(PAGE, {"table": table}, results / "block_cost.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the table into the docs")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seconds", type=float, default=10.0, help="time spent on each batch")
    parser.add_argument("--quick", action="store_true", help="a narrow block")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.page:
        rewrite(PAGE, page(options.out))
        return
    keep_page_faults_out()
    torch.set_float32_matmul_precision("high")
    widths = (16, 64) if options.quick else WIDTHS
    rows = []
    for how in ("eager", "compiled") if options.device == "cuda" else ("eager",):
        for batch in BATCHES:
            torch._dynamo.reset()
            steps = {
                kind: step_of(kind, widths, batch, options.device, is_compiled=how == "compiled")
                for kind in KINDS
            }
            rows.append({"how": how, "batch": batch, **median_seconds(steps, options.seconds)})
            print(rows[-1], flush=True)
    results = {"threads": torch.get_num_threads(), "widths": widths, "rows": rows}
    print(record("block_cost", options.device, results, options.out))


if __name__ == "__main__":
    main()
