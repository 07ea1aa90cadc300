"""Score against size on real tables: our search beside linear models, MLPs, LassoNet and boosting.

For each table of a folder and five outer splits every method is tuned on the training rows alone,
and each of its predictors meets the test rows once. What was done is recorded table by table;
`--resume` goes on, and does ours anew where other code made it. Without it the units that are asked
for are done anew while those of other methods stay. `--quick` does ours anew on five tables and two
splits, the others where they are not recorded. With `--summary` nothing is run: what is recorded is
measured and printed; `--page` writes docs/tables.md from it as well, with what is recorded of the
tables of unseen_tables.py in the folder beside.

    python benchmarks/tables.py --tables FOLDER --workers 15 --resume
    python benchmarks/tables.py --tables FOLDER --workers 2 --quick
    python benchmarks/tables.py --tables FOLDER --workers 15 --methods ours
    python benchmarks/tables.py --tables FOLDER --workers 2 --quick --doubled
    python benchmarks/tables.py --tables unseen --out docs/results/unseen --splits 3 --resume
    python benchmarks/tables.py --summary
    python benchmarks/tables.py --page
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

from by_size import page, records
from by_size.measures import measured, with_unseen
from by_size.methods import DOUBLED, METHODS, PACKAGES
from by_size.preparing import SPLITS, listed
from by_size.records import Unit
from by_size.running import Place, run
from recording import RESULTS, command
from resuming import code

QUICK = ("vowel", "phoneme", "german", "insurance", "car_prices")
QUICK_SPLITS = 2
MOST_ROWS = 10_000


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, help="folder of tables, to run")
    parser.add_argument("--workers", type=int, default=1, help="processes of one thread each")
    parser.add_argument("--resume", action="store_true", help="do only what is not recorded")
    parser.add_argument("--quick", action="store_true", help="five tables, two splits")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these tables")
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, *DOUBLED], metavar="METHOD")
    parser.add_argument("--doubled", action="store_true", help="MLPs with twice the effort")
    parser.add_argument("--splits", type=int, choices=range(1, SPLITS + 1), help="of five")
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="to train on, at most")
    parser.add_argument("--device", default="cpu", help="of AdamW, LassoNet and TabM")
    parser.add_argument("--summary", action="store_true", help="run nothing, print what is known")
    parser.add_argument("--page", action="store_true", help="run nothing, write docs/tables.md")
    parser.add_argument("--docs", type=Path, default=RESULTS.parent, help="folder of the page")
    parser.add_argument("--out", type=Path, default=records.RECORDS)
    arguments = parser.parse_args()
    if arguments.tables is None and not (arguments.summary or arguments.page):
        parser.error("expected --tables FOLDER, or --summary or --page of what is recorded")
    if arguments.page and arguments.out.name == records.UNSEEN:
        parser.error(f"expected --page of the development tables. Got --out {arguments.out}")
    if arguments.tables is not None:
        names = listed(arguments.tables)
        unknown = [name for name in arguments.only or () if name not in names]
        if unknown:
            parser.error(f"expected tables of {', '.join(names)}. Got {', '.join(unknown)}")
    return arguments


def installed() -> list[str]:
    """All methods but those whose packages are not here, which are named."""
    absent = [m for m, needed in PACKAGES.items() if any(find_spec(p) is None for p in needed)]
    if absent:
        print(f"left out, as their packages are not installed: {', '.join(absent)}")
    return [method for method in METHODS if method not in absent]


def wanted(arguments: argparse.Namespace, known: dict[str, dict]) -> list[Unit]:
    """The units that are asked for, less those that are recorded and may stay."""
    names = arguments.only or (QUICK if arguments.quick else listed(arguments.tables))
    methods = arguments.methods or (DOUBLED if arguments.doubled else installed())
    missing = [p for m in methods for p in PACKAGES.get(m, ()) if find_spec(p) is None]
    if missing:
        raise SystemExit(f"expected the packages {', '.join(missing)}: pip install them")
    if absent := [name for name in names if not any(arguments.tables.glob(f"{name}.*"))]:
        raise SystemExit(
            f"{arguments.tables} has no file of {', '.join(absent)}: name others by --only"
        )
    splits = arguments.splits or (QUICK_SPLITS if arguments.quick else SPLITS)
    units = [Unit(n, method, split) for n in names for method in methods for split in range(splits)]

    def stays(unit: Unit) -> bool:
        is_kept = arguments.resume or (arguments.quick and unit.method != "ours")
        if not (is_kept and records.has(known.get(unit.table), unit)):
            return False
        return (
            unit.method != "ours" or records.run_of(known[unit.table], unit).get("code") == code()
        )

    return [unit for unit in units if not stays(unit)]


def main() -> None:
    arguments = parsed()
    if not (arguments.summary or arguments.page):
        known = records.read(arguments.out)
        place = Place(arguments.tables, arguments.rows, arguments.device)
        units = wanted(arguments, known)
        run(place, units, known, arguments.out, command(), arguments.workers)
    names = arguments.only or (QUICK if arguments.quick else None)
    known = records.read(arguments.out, names)
    print(page.summary(measured(known)))
    print(page.of_today(known))
    if arguments.page:
        others = records.read(arguments.out.parent / records.UNSEEN)
        page.write(with_unseen(known, others), known, others, arguments.docs)


if __name__ == "__main__":
    main()
