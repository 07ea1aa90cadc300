"""What training and answering cost, in the words and tables that measured.py puts on pages.

Each function takes the records by their names.
"""

from chips import table
from marking import between


def _at(found: dict, device: str, layers: int) -> dict:
    rows = found["forward_cost"][device]["depth"]
    return next(row for row in rows if row["layers"] == layers)


def _times(row: dict, who: str) -> str:
    if who not in row:
        return ""
    ratio = row[who]["seconds"] / row["mlp"]["seconds"]
    return f"{ratio:.2f}" if ratio < 3 else f"{ratio:.1f}"


def cost_table(found: dict) -> str:
    names = {
        "spectral": "SpectralNetwork",
        "blocks": "blocks formed as the paper writes them",
        "folded": "blocks formed, shared products formed once",
        "skips": "MLP with an independent weight on every skip",
    }
    rows = []
    for who, name in names.items():
        for device, key in (("cpu", "saved_bytes"), ("cuda", "peak_bytes")):
            some = [_at(found, device, layers) for layers in (3, 10, 18)]
            memory = some[1][who][key] / some[1]["mlp"][key]
            where = "CPU" if device == "cpu" else "GPU"
            rows.append([f"{name}, {where}", *(_times(r, who) for r in some), f"{memory:.2f}"])
    heads = ["3 layers", "10 layers", "18 layers", "activation memory, 10 layers"]
    return table(["plain MLP = 1", *heads], *rows)


def cost(found: dict) -> str:
    gpu, cpu = (_times(_at(found, device, 3), "spectral") for device in ("cuda", "cpu"))
    deep = [_times(_at(found, device, 10), "spectral") for device in ("cuda", "cpu")]
    blocks = _times(_at(found, "cuda", 10), "blocks")
    return (
        f"{gpu} (GPU) and {cpu} times (CPU) with one hidden layer, {' and '.join(deep)} times at "
        f"10 layers, where forming the paper's blocks takes {blocks} times"
    )


LATENCY = {
    "compact": "compact",
    "spectral": "maximal spectral",
    "mlp": "plain MLP, maximal widths",
    "onnx_compact": "compact, onnxruntime",
    "onnx_spectral": "spectral, onnxruntime",
    "onnx_mlp": "MLP, onnxruntime",
}


def latency_table(found: dict) -> str:
    rows = []
    for cases in found["latency"]["cpu"]["cases"].values():
        for case in cases:
            name = case["architecture"].split(",")[0] + " with skip"
            times = [case[key] for key in LATENCY]
            cells = [f"{time:,.0f}" if time >= 30 else f"{time:.1f}" for time in times]
            rows.append([name, f"{case['batch']:,}", *cells])
    return table(["network", "batch", *LATENCY.values()], *rows)


def latency(found: dict) -> str:
    cases = [case for some in found["latency"]["cpu"]["cases"].values() for case in some]
    faster: dict[int, list[float]] = {}
    for case in cases:
        faster.setdefault(case["batch"], []).append(case["onnx_mlp"] / case["onnx_compact"])
    eager = [c["compact"] / c["mlp"] for c in cases if c["batch"] == 1]
    one, many = sorted(faster)
    return (
        f"{between(faster[one], '.1f')} times as fast at batch 1, {between(faster[many], '.0f')} "
        f"times at batch {many:,}; in eager torch at batch 1 it takes {between(eager, '.1f')} "
        "times as long as the MLP"
    )


FRONT_CHIPS = {"cortex-m4": "Cortex-M4", "cortex-m0": "Cortex-M0"}


def in_a_kilobyte(found: dict) -> str:
    """On how many tables ours alone is the best within 1 kB of flash."""
    count = len(found["flash_front"]["cpu"]["tables"])
    ahead = {name: _ahead(found, chip, "1000") for chip, name in FRONT_CHIPS.items()}
    return " and ".join(f"on {each} of {count} tables on a {name}" for name, each in ahead.items())


def in_other_sizes(found: dict) -> str:
    """The same within less flash, and within more."""
    parts = []
    for chip, name in FRONT_CHIPS.items():
        less, more, most = (_ahead(found, chip, size) for size in ("256", "4000", "16000"))
        parts.append(f"{less}, {more} and {most} tables on a {name}")
    return f"within 256 B, 4 kB and 16 kB on {', on '.join(parts)}"


def _ahead(found: dict, chip: str, size: str) -> int:
    count = 0
    for each in found["flash_front"]["cpu"]["tables"].values():
        best = each["best"][chip][size]
        tests = {who: round(one["test"], 3) for who, one in best.items() if one}
        count += tests.pop("ours", -1.0) > max(tests.values(), default=0.0)
    return count


def int8(found: dict) -> str:
    """What one byte a weight costs in score, on real tables."""
    change = found["generated_c"]["cpu"]["int8_change_of_score"]
    count = len(found["generated_c"]["cpu"]["tables"])
    return (
        f"int8 changes accuracy or R² by {change['mean']:+.3f} on average over {count} real "
        f"tables, and by {change['worst_table']:+.3f} on the worst"
    )


def search_times(found: dict) -> str:
    """Seconds from the command to the folder, on each machine."""
    machines = found["search_time"]
    names = dict.fromkeys(name for each in machines.values() for name in each["searches"])
    rows = []
    for name in names:
        some = [each["searches"].get(name) for each in machines.values()]
        one = next(filter(None, some))[0]
        times = ["" if not runs else f"{_mean(runs, 'seconds'):.0f}" for runs in some]
        rows.append([name, f"{one['rows']:,}", f"{one['rows_searched']:,}", *times])
    heads = [f"s, {each['hardware']}" for each in machines.values()]
    return table(["table", "rows", "searched on", *heads], *rows)


def digits_time(found: dict) -> str:
    """Seconds of README's first job, without the installation."""
    cpu = found["search_time"]["cpu"]
    return f"{_mean(cpu['searches']['digits'], 'seconds'):.0f} s on {cpu['hardware']}"


def predict_times(found: dict) -> str:
    """Seconds in which the command predicts a million rows, by the format of the file."""
    cpu = found["search_time"]["cpu"]
    times = cpu["predict_a_million"]
    formats = {"csv": "CSV", "parquet": "Parquet"}
    words = (f"{times[name]['seconds']:.0f} s from {said}" for name, said in formats.items())
    return f"{' and '.join(words)} on {cpu['hardware']}"


def _mean(runs: list[dict], key: str) -> float:
    return sum(run[key] for run in runs) / len(runs)
