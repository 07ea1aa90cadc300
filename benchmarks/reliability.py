"""What the page of reliability says was tried, written from what other scripts recorded.

    python benchmarks/reliability.py

The records are those of repeats.py, kills.py, fuzz.py, streams.py and estimator_checks.py; one that
is not there yet is said not to be.
"""

import json
from pathlib import Path
from typing import Any

from chips import table
from marking import filled, rewrite
from recording import RESULTS

RECORDS = ("repeats", "kills", "fuzz", "streams", "estimator_checks")
PAGE = RESULTS.parent / "reliability.md"
SAME = "the same"
NOT_YET = "not measured yet"


def tried(found: dict) -> str:
    """The table: what was tried, how much of it, and what happened."""
    rows = [
        ["the same call again", *_repeats(found)],
        ["`kill -9` of searches of tables drawn at random, at random moments", *_kills(found)],
        [
            "`kill -9` at every operation on files of one small search: opened, flushed, renamed, "
            "removed",
            *_operations(found),
        ],
        [
            "damaged files: networks, checkpoints, files of run folders, CSV, TSV, gzip, NPZ, "
            "Parquet, images",
            *_fuzz(found, "files"),
        ],
        [
            "run folders whose files say something else: infinities, truth values for numbers, "
            "indices below zero, keys lacking or too many, lists in lists; of tables, of networks, "
            "unfinished",
            *_fuzz(found, "folders"),
        ],
        ["more rows than memory", *_streams(found)],
        ["all checks of scikit-learn, with the defaults of both estimators", *_checks(found)],
    ]
    return table(["what", "how much was tried", "what happened", "made by"], *rows)


def _repeats(found: dict) -> list[str]:
    record, small = found["repeats"], "in small `tests/searching/test_repeats.py`"
    if record is None:
        return [NOT_YET, NOT_YET, f"`python benchmarks/repeats.py`; {small}"]
    counts = record["counts"]
    plain = counts["plain instructions"]
    wrong = counts["tables"] - counts["all_the_same"]
    return [
        f"{counts['searches']:,} searches of {counts['tables']} of 20 small tables of all kinds, "
        f"at least {counts['fewest_searches']} of each, with 1 and 2 threads",
        f"the same bits in all searches of {counts['all_the_same']} of {counts['tables']} tables"
        f"{f', others in {wrong}' if wrong else ''}; where sums round otherwise (the plainest "
        f"instructions), another network is picked in {plain['another_pick']} of "
        f"{plain['tables']}",
        f"{_made(record, 'repeats')}; {small}",
    ]


def _kills(found: dict) -> list[str]:
    record = found["kills"]
    part = record["at_random"]
    apart = part["killed_before_the_beginning"] + part["killed_after_the_end"]
    tables = len(part["tables"])
    return [
        f"{tables} tables of numbers, text and constants, for regression and classes; "
        f"{part['resumed']} resumes, and {apart} kills before the beginning or after the end",
        f"every file of {part['identical']} of {part['resumed']} the same, bit for bit, as of a "
        "search left alone",
        f"{_made(record, 'kills')}; in small `tests/parallel/test_steps.py`",
    ]


def _operations(found: dict) -> list[str]:
    record = found["kills"]
    part = record.get("at_every_operation")
    if part is None:
        return [NOT_YET, NOT_YET, SAME]
    return [
        f"{part['killed_at']} of {part['operations']} operations, once each",
        f"every file of {part['identical']} of {part['killed_at']} the same, and nothing left "
        "beside them",
        f"{SAME}, {_when(record)}",
    ]


def _fuzz(found: dict, name: str) -> list[str]:
    record = found["fuzz"]
    part = record[name]
    other = part["anything_else"] or "nothing"
    late = part["beyond_seconds_or_megabytes"]
    happened = (
        f"{part['loaded']:,} were still whole enough, {part['refused']:,} refused with an error "
        f'that begins "Expected" or names what is not there, {other} else came out; at most '
        f"{part['megabytes_more_at_most']} MB more than an intact one, the slowest took "
        f"{part['slowest_seconds']:.1f} s of the processor"
        f"{f'; {late} took more than 5 s or 200 MB' if late else ''}"
    )
    if name == "files":
        small = "`tests/files/test_hostile_files.py`, `tests/files/test_reading_bounds.py`"
        much = f"{part['tried']:,} files of {len(part['kinds'])} kinds"
        return [much, happened, f"{_made(record, 'fuzz')}; in small {small}"]
    much = "each read by `load_result`, show, report, export to safetensors and predict, or resumed"
    return [f"{part['tried']:,} folders, {much}", happened, f"{SAME}, {_when(record)}"]


def _streams(found: dict) -> list[str]:
    record = found["streams"]
    streamed = [each["peak"] for name, each in record["growth"].items() if "streamed" in name]
    kinds = " and ".join(sorted({name.split(", ")[2] for name in record["growth"]}))
    size = record["cases"][0]["file_megabytes"]
    return [
        f"streams of about {size / 1000:.1f} and of {size / 100:.0f} GB, {kinds}",
        f"with ten times the data, {min(streamed):.2f} to {max(streamed):.2f} times the peak "
        "memory",
        _made(record, "streams"),
    ]


def _checks(found: dict) -> list[str]:
    record, small = found["estimator_checks"], "`tests/test_estimators.py`, with short searches"
    if record is None:
        return [NOT_YET, NOT_YET, f"`python benchmarks/estimator_checks.py`; {small}"]
    done = record["passed"] + record["skipped"] + record["failed"]
    return [
        f"{done} of {record['checks_of_all']} checks, {record['workers']} at a time",
        f"{record['passed']} passed, {record['skipped']} skipped by scikit-learn, "
        f"{record['failed'] or 'none'} failed; {record['minutes']:.1f} minutes",
        f"{_made(record, 'estimator_checks')}; {small}",
    ]


def _made(record: dict[str, Any], name: str) -> str:
    """The command, and the record with what it was made on, and when."""
    where = f"[{name}.json](results/{name}.json), {record['hardware']}"
    return f"`{record['command']}` → {where}, {_when(record)}"


def _when(record: dict[str, Any]) -> str:
    """The date, and the digest of the library's files where it was recorded."""
    return record["date"] + (f", code `{record['code']}`" if "code" in record else "")


SENTENCES = {"tried": tried}


def recorded() -> dict[str, Any]:
    """The records by their names; None for one that is not there."""
    paths = {name: RESULTS / f"{name}.json" for name in RECORDS}
    return {
        name: json.loads(path.read_text())["cpu"] if path.exists() else None
        for name, path in paths.items()
    }


def page(path: Path) -> str:
    """What the page is to be."""
    return filled(path.read_text(), "reliability", SENTENCES, recorded())


def main() -> None:
    rewrite(PAGE, page(PAGE))


if __name__ == "__main__":
    main()
