"""Does a search survive kill -9 at any moment, and end with the same bits?

``sparcs search`` on a table, as a process of its own, is killed at random moments from its first
second to its last; each time ``sparcs search --resume`` goes on, to be killed again or to end. What
is in the folder afterwards is compared, bit for bit, with that of a run that was left alone; only
the times that it took may differ.

    python benchmarks/kills.py
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from recording import RESULTS, record

COMMAND = [sys.executable, "-m", "torchsparcs", "search"]


def contents(folder: Path) -> dict[str, bytes]:
    """Of all files but the page and the ONNX file, which hold times; seconds are left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in ("report.html", "model.onnx"):
            content = path.read_bytes()
            if path.name in ("settings.json", "history.json"):
                values = json.loads(content)
                values.get("settings", values).pop("seconds")
                content = json.dumps(values).encode()
            found[str(path.relative_to(folder))] = content
    return found


def run(arguments: list[str], limit: float | None) -> tuple[int, float]:
    """The exit code and the seconds it took; killed after ``limit`` seconds."""
    start = time.monotonic()
    process = subprocess.Popen([*COMMAND, *arguments, "--quiet"], stdout=subprocess.DEVNULL)
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return process.returncode, time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="wine")
    parser.add_argument("--steps", default="300")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    rng, moments, runs, resumed, differing = random.Random(arguments.seed), [], 0, 0, []
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "whole"
        asked = [arguments.data, "--steps", arguments.steps, "--out"]
        code, takes = run([*asked, str(whole)], None)
        assert code == 0
        expected = contents(whole)
        while len(moments) < arguments.kills:
            folder, runs = Path(place) / f"run{runs}", runs + 1
            options = [*asked, str(folder)]
            while True:
                limit = rng.uniform(0, takes) if len(moments) < arguments.kills else None
                code, seconds = run(options, limit)
                if code == 0:
                    break
                assert code == -signal.SIGKILL, code
                moments.append(round(seconds, 2))
                print(f"killed after {seconds:.1f} s, {len(moments)} of {arguments.kills}")
                if (folder / "parts" / "job.json").exists():
                    options, resumed = ["--resume", str(folder)], resumed + 1
                elif (folder / "settings.json").exists():
                    break  # it had just finished
            found = contents(folder)
            wrong = [n for n in {*found, *expected} if found.get(n) != expected.get(n)]
            differing += [f"{folder.name}/{name}" for name in wrong]
    results = {
        "data": arguments.data,
        "steps": arguments.steps,
        "undisturbed_seconds": takes,
        "killed_after_seconds": moments,
        "resumed": resumed,
        "runs": runs,
        "files_compared": len(expected),
        "differing": differing,
    }
    record("kills", "cpu", results, arguments.out)
    print(
        f"{len(moments)} kills in {runs} runs, {resumed} resumed, differing: {differing or 'none'}"
    )


if __name__ == "__main__":
    main()
