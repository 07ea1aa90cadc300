"""What the data decided, a sentence for each choice, and the option that forces it."""

from collections.abc import Mapping, Sequence
from typing import Any

from torchsparcs.files.visible import shortened
from torchsparcs.report.columns import LEFT_OUT, MARKS, order_words
from torchsparcs.report.wording import counted, judged_by
from torchsparcs.results.result import SearchResult
from torchsparcs.tables.encoding import Column

MOST_NAMED = 10  # columns, one by one
REASONS = {"constant": "one value", "identifier": "an identifier"}


def choices(result: SearchResult) -> dict[str, str | None]:
    """The choices of a search of a table, by what was chosen; None for what there was none of."""
    settings, columns = result.settings, result.inputs.columns
    return {
        "task": _task(result),
        "rows": _rows(settings),
        "columns": _kinds(columns),
        **_readings(columns),
        "gaps": _gaps(columns),
        "score": (
            f"Networks are compared by {result.scoring.label}, "
            f"{'the default for such a target' if _is_default(settings) else 'as asked for'}; "
            "--scoring chooses another."
        ),
        "validation": (
            f"Scores are of {judged_by(settings)}; --validation, --group or --time change that."
        ),
        "training": _training(result),
        "boosting": (
            "It was better than the networks on rows that neither had seen, so that some were "
            "trained to what it says as well; --no-boosting leaves that out."
            if settings.get("taught_by_boosting")
            else None
        ),
        "probabilities": _probabilities(result),
        "sample": (
            f"{sample_words(settings)}; --sample N chooses how many."
            if sample_words(settings)
            else None
        ),
    }


def sample_words(settings: Mapping[str, Any]) -> str | None:
    """The rows of the sample, where there was one."""
    searched = settings.get("rows_searched", settings["rows"])
    if searched >= settings["rows"]:
        return None
    return f"{searched:,} of the rows; what was found, fitted to all and validated on the others"


def _is_default(settings: Mapping[str, Any]) -> bool:
    return bool(settings.get("scoring_is_auto", True))


def _task(result: SearchResult) -> str:
    classes = result.target.classes
    kind = "numbers" if classes is None else f"{len(classes)} classes"
    return f"The target is taken as {kind}; --task changes that."


def _rows(settings: Mapping[str, Any]) -> str | None:
    without = settings.get("rows_without_target", 0)
    return f"{counted(without, 'row')} without a target left out." if without else None


def _kinds(columns: Sequence[Column]) -> str:
    chosen = sum(column.is_chosen for column in columns)
    kinds = "The kind of each column was recognised by its entries"
    if chosen:
        kinds = (
            f"{chosen:,} of {counted(len(columns), 'column')} are of the kind that was asked for, "
            "the others were recognised by their entries"
        )
    return f"{kinds}; --kind COL=KIND changes one."


def _readings(columns: Sequence[Column]) -> dict[str, str | None]:
    """How text was read, of columns whose kind nobody chose."""
    guessed = [column for column in columns if not column.is_chosen]
    return {
        "text as numbers": _listed(
            [(c, f"decimal {MARKS[c.writing.decimal]}") for c in guessed if c.writing],
            "read as numbers; --kind COL=text leaves them text.",
        ),
        "text as dates": _listed(
            [(c, order_words(c)) for c in guessed if c.kind == "date" and c.order],
            "read as dates; --kind COL=day-month-year, month-day-year or text changes that.",
        ),
        "as if missing": _listed(
            [(c, f"like {shortened(c.stray)}") for c in guessed if c.stray],
            "what is no number or date counts as missing, as nearly all others are; --kind "
            "COL=text keeps it.",
        ),
        "rare texts": _listed(
            [
                (c, f"all but {len(c.categories or ()):,}")
                for c in columns
                if c.kind == "text" and c.has_rest
            ],
            "texts that count as one, being rare; --drop COL leaves the column out.",
        ),
        "left out": _listed(
            [(c, c.reason or REASONS[c.kind]) for c in columns if c.kind in LEFT_OUT],
            "nothing can be learnt from them; --kind COL=number or COL=text keeps what varies and, "
            "as text, repeats.",
        ),
    }


def _listed(found: Sequence[tuple[Column, str]], end: str) -> str | None:
    """Columns by name, a word about each, and what is said of all; None where there are none."""
    if not found:
        return None
    names = [f"{shortened(column.name)} ({word})" for column, word in found[:MOST_NAMED]]
    names += [f"{len(found) - MOST_NAMED:,} more"] if len(found) > MOST_NAMED else []
    return f"{', '.join(names)}: {end}"


def _gaps(columns: Sequence[Column]) -> str | None:
    gappy = sum(column.gaps != "none" for column in columns)
    if not gappy:
        return None
    return (
        f"{counted(gappy, 'column')} had missing values: in numbers and dates they are "
        "replaced by the mean, and an extra input says where they were; in text they are a "
        "category of their own. --drop COL leaves a column out."
    )


def _training(result: SearchResult) -> str:
    widths = " → ".join(map(str, result.settings["widths"]))
    epochs = result.history.epochs
    length = f", for {counted(epochs, 'epoch')}" if epochs else ""
    return f"Networks of up to {widths} were trained{length}; --widths and --steps change that."


def _probabilities(result: SearchResult) -> str | None:
    if result.target.classes is None:
        return None
    if not result.settings.get("calibrate", True):
        return "They were not calibrated, as asked for."
    heat = result.pick(result.settings.get("pick", "smallest")).temperature
    words = f"They were calibrated in validation: outputs are divided by {heat:.3g}"
    if heat == 1:
        words = "They needed no calibration"
    return f"{words}; --no-calibration leaves that out."
