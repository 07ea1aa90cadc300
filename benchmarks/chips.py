"""What the pages say of generated C on chips, written from what other scripts recorded.

    python benchmarks/chips.py

The records are those of c_latency.py, generated_c.py, code_fuzz.py, cycles.py, flash.py and
flash_front.py.
"""

import json
from collections.abc import Iterable
from math import isinf
from pathlib import Path
from statistics import mean, median

from marking import filled, rewrite
from recording import RESULTS

RECORDS = ("c_latency", "generated_c", "code_fuzz", "cycles", "flash", "flash_front")
DOCS = RESULTS.parent
PAGES = (DOCS / "results.md", DOCS / "how-to" / "microcontrollers.md")
CHIPS = {"cortex-m4": "Cortex-M4", "cortex-m0": "Cortex-M0", "avr": "AVR", "x86": "x86"}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
GAIN = 0.003  # of score, beyond which a table is named
WITHOUT_FLOATS = ("cortex-m0", "avr")  # no floating-point unit


def table(*rows: list[str]) -> str:
    """Rows of Markdown, the first of them the names of columns."""
    head, *others = (f"| {' | '.join(row)} |" for row in rows)
    return "\n\n" + "\n".join([head, f"|{' --- |' * len(rows[0])}", *others]) + "\n\n"


def shares(found: dict) -> str:
    """Bytes of int8 as a share of those of float, by the size of networks."""
    data, flash = (found["generated_c"][f"int8_share_of_{part}"] for part in ("data", "flash"))
    names = _sizes(data)
    rows = [
        [name, *(f"{each[size]:.2f}" for each in (data, *flash.values()))]
        for size, name in names.items()
    ]
    first, *others = (CHIPS[chip] for chip in flash)
    return table(["parameters", "data", f"flash, {first}", *others], *rows)


def _sizes(recorded: Iterable[str]) -> dict[str, str]:
    """The sizes of networks in words, by what the record calls them: "up to" so many."""
    names, least = {}, 0
    for size in recorded:
        most = float(size.removeprefix("up to "))
        if isinf(most):
            names[size] = f"above {least - 1}"
        else:
            names[size] = f"{least} to {most:.0f}" if least else size
            least = int(most) + 1
    return names


def difference(found: dict) -> str:
    """How many networks were compared with torch, and the largest difference in float."""
    record = found["generated_c"]
    digits, power = f"{record['largest_relative_difference']['float']:.1e}".split("e")
    tables = record["tables"]
    rows = {each["rows"] for each in tables.values()}
    return (
        f"{len(tables)} real tables, {record['networks'] // 2} networks, {max(rows):,} rows each: "
        f"the largest difference from torch is {digits} · 10{str(int(power)).translate(RAISED)} of "
        "the largest output"
    )


def fuzzed(found: dict) -> str:
    """How many hostile rows there were, and what they did."""
    record = found["code_fuzz"]
    drawn = f"{record['networks']} networks and {record['rows']:,} rows of hostile numbers"
    return f"{drawn}, {len(record['found']) or 'nothing'} found"


def int8_score(found: dict) -> str:
    """What int8 changes of scores: in the mean, and at worst."""
    changes = {}
    for name, each in found["generated_c"]["tables"].items():
        of = {k: [n["score"] for n in each["networks"] if n["int8"] is k] for k in (False, True)}
        changes[name] = [b - a for a, b in zip(of[False], of[True], strict=True)]
    means = {name: mean(some) for name, some in changes.items()}
    gains = [name for name, change in means.items() if change > GAIN]
    others = mean(change for name, change in means.items() if name not in gains)
    worst, worst_network = min(means, key=means.get), min(changes, key=lambda n: min(changes[n]))
    return (
        f"{mean(means.values()):+.4f} in the mean over the tables ({', '.join(gains)} gain more "
        f"than {GAIN}; the mean of the others is {others:+.4f}), {means[worst]:+.4f} in the worst, "
        f"{worst}, and {min(changes[worst_network]):+.3f} in the worst network, one of "
        f"{worst_network}"
    ).replace("-", "−")


def share(found: dict) -> str:
    """The least and the most of these shares on each chip without floats."""
    flash = found["generated_c"]["int8_share_of_flash"]
    ends = {chip: (min(flash[chip].values()), max(flash[chip].values())) for chip in WITHOUT_FLOATS}
    parts = [f"{a:.2f} to {b:.2f} on {_a(chip)}" for chip, (a, b) in ends.items()]
    return " and ".join(parts)


def share_with_floats(found: dict) -> str:
    """The same of a Cortex-M4, for each size."""
    flash = found["generated_c"]["int8_share_of_flash"]["cortex-m4"]
    (first, largest), *others = ((_sizes(flash)[size], each) for size, each in flash.items())
    rest = ", ".join(
        f"{each:.2f} {'' if 'above' in size else 'with '}{size}" for size, each in others
    )
    return f"{largest:.2f} of float {first} parameters, {rest}"


def library(found: dict) -> str:
    """How much less code int8 has, in the median of the networks, where there are no floats."""
    parts = []
    for chip in WITHOUT_FLOATS:
        saved = []
        for each in found["generated_c"]["tables"].values():
            kinds = [[n for n in each["networks"] if n["int8"] is kind] for kind in (False, True)]
            code = [[n["flash"][chip] - n["data"] for n in networks] for networks in kinds]
            saved += [a - b for a, b in zip(*code, strict=True)]
        parts.append(f"{median(saved):,.0f} bytes of code less on {_a(chip)}")
    return " and ".join(parts)


def cycles(found: dict) -> str:
    """Of a row with -Os, in float and in int8."""
    cases = found["cycles"]["cases"].values()
    chips = ("avr", "cortex-m4", "cortex-m0")
    head = [name for chip in chips for name in (f"{CHIPS[chip]}, float", "int8")]
    rows = [
        [
            _network(case),
            *(f"{case[f'{chip}, {kind}, -Os']:,}" for chip in chips for kind in ("float", "int8")),
        ]
        for case in cases
    ]
    return table(["network", *head], *rows)


def speed(found: dict) -> str:
    """How much faster int8 is than float where there is no floating-point unit."""
    cases = found["cycles"]["cases"].values()
    parts = []
    for chip in WITHOUT_FLOATS:
        ratios = [case[f"{chip}, float, -Os"] / case[f"{chip}, int8, -Os"] for case in cases]
        parts.append(f"{min(ratios):.1f} to {max(ratios):.1f} times on {_a(chip)}")
    return " and ".join(parts)


def slower(found: dict) -> str:
    """How much slower int8 is than float where there is a floating-point unit."""
    cycles, latency = (found[name]["cases"].values() for name in ("cycles", "c_latency"))
    chips = [case["cortex-m4, int8, -Os"] / case["cortex-m4, float, -Os"] for case in cycles]
    computers = [case["c_int8"] / case["c"] for case in latency]
    return (
        f"{min(chips):.1f} to {max(chips):.1f} times the instructions on a Cortex-M4, and "
        f"{min(computers):.1f} to {max(computers):.1f} times the microseconds on x86"
    )


def errors(found: dict) -> str:
    """Of the formula of flash: the mean and the largest, in per cent."""
    chips = found["flash"]["chips"]

    def words(chip: str, kind: str) -> str:
        each = chips[chip][kind]
        return f"{CHIPS[chip]} {100 * each['error']:.1f} % ({100 * each['largest_error']:.0f} %)"

    return "; ".join(
        f"in {kind} {', '.join(words(chip, kind) for chip in chips)}" for kind in ("float", "int8")
    )


def latency(found: dict) -> str:
    """Microseconds of a row on a computer, the least of each line bold."""
    ways = {"c": "C, float", "c_int8": "C, int8", "c_by_hand": "loops by hand"}
    ways |= {"onnxruntime": "onnxruntime", "torch": "torch"}
    rows = []
    for case in found["c_latency"]["cases"].values():
        least = min(case[way] for way in ways)
        words = [f"{case[way]:.3g}" for way in ways]
        words = [f"**{w}**" if case[n] == least else w for n, w in zip(ways, words, strict=True)]
        rows.append([_network(case), *words])
    return table(["network", *ways.values()], *rows)


def circumstances(found: dict) -> str:
    """The compiler of these microseconds, and what else the machine had to do."""
    record = found["c_latency"]
    compiler, options = record["compiler"].split(", ")
    version = compiler.split()[-1]
    return f"gcc {version} with `{options}`, load {record['load']} on {record['hardware']}"


def ahead(found: dict) -> str:
    """How many times faster than onnxruntime, and than loops by hand."""
    cases = found["c_latency"]["cases"].values()
    parts = []
    for case in cases:
        onnx, hand = case["onnxruntime"] / case["c"], case["c_by_hand"] / case["c"]
        parts.append(f"{onnx:.1f} and {hand:.1f} times for {_network(case)}")
    return ", ".join(parts)


def flash(found: dict) -> str:
    """Bytes of flash of these networks, by chip."""
    chips = ("cortex-m4", "cortex-m0", "avr")
    head = [name for chip in chips for name in (f"{CHIPS[chip]}, float", "int8")]
    rows = []
    for case in found["c_latency"]["cases"].values():
        sizes = [case["flash"][chip][kind] for chip in chips for kind in ("float", "int8")]
        words = [f"{size:,}" if size else "does not fit" for size in sizes]
        rows.append([_network(case), f"{case['parameters']:,}", *words])
    return table(["network", "parameters", *head], *rows)


def _network(case: dict) -> str:
    return f"{case['architecture'].split(',')[0]} with skip"


def _front(found: dict, chip: str) -> str:
    """Scores within so many bytes: ours, boosting and a forest, the best of them bold."""
    rows = []
    tables = found["flash_front"]["tables"]
    for name, each in tables.items():
        cells = []
        for best in each["best"][chip].values():
            scores = [f"{one['test']:.3f}" if one else "–" for one in best.values()]
            most = max(score for score in scores if score != "–")
            cells.append(" / ".join(f"**{s}**" if s == most else s for s in scores))
        rows.append([name, *cells])
    sizes = map(int, next(iter(tables.values()))["best"][chip])
    heads = [f"{size} B" if size < 1000 else f"{size // 1000} kB" for size in sizes]
    return table(["table", *heads], *rows)


def alone(found: dict) -> str:
    """On how many tables each method has the best score within each size, and no other has it."""
    tables = found["flash_front"]["tables"].values()
    parts = []
    for chip in ("cortex-m4", "cortex-m0"):
        ahead: dict[str, list[int]] = {}
        for size in next(iter(tables))["best"][chip]:
            firsts = []
            for each in tables:
                some = each["best"][chip][size]
                scores = {who: round(one["test"], 3) for who, one in some.items() if one}
                best = [who for who, score in scores.items() if score == max(scores.values())]
                firsts += best if len(best) == 1 else []
            for who in ("ours", "boosting", "forest"):
                ahead.setdefault(who, []).append(firsts.count(who))
        words = (f"{who} on {', '.join(map(str, counts))}" for who, counts in ahead.items())
        parts.append(f"{', '.join(words)} of {len(tables)} tables on {_a(chip)}")
    return "; ".join(parts)


def front_m4(found: dict) -> str:
    return _front(found, "cortex-m4")


def front_m0(found: dict) -> str:
    return _front(found, "cortex-m0")


def _a(chip: str) -> str:
    return f"{'an' if chip == 'avr' else 'a'} {CHIPS[chip]}"


SENTENCES = {
    each.__name__: each
    for each in (
        difference,
        fuzzed,
        int8_score,
        shares,
        share,
        share_with_floats,
        library,
        cycles,
        speed,
        slower,
        errors,
        latency,
        circumstances,
        ahead,
        flash,
        alone,
        front_m4,
        front_m0,
    )
}


def recorded() -> dict:
    """The records by their names."""
    return {name: json.loads((RESULTS / f"{name}.json").read_text())["cpu"] for name in RECORDS}


def page(path: Path) -> str:
    """What a page is to be."""
    return filled(path.read_text(), "chips", SENTENCES, recorded())


def main() -> None:
    for path in PAGES:
        rewrite(path, page(path))


if __name__ == "__main__":
    main()
