"""What a front was found with: data, settings, versions. Summaries, never rows."""

from typing import Any

from torchsparcs.report.words import counted, duration_words, judged_by, shortened
from torchsparcs.tables.inputs import Column

MOST_COLUMNS = 200  # of the table, one by one


def about(result: Any) -> list[dict[str, Any]]:
    """Titled lists of names and facts."""
    settings = result.settings
    return [
        {"title": "Data", "facts": _data(result)},
        {"title": "Search", "facts": _search(settings)},
        {"title": "Configuration", "facts": _listed(settings.get("config", {}))},
        {"title": "Made with", "facts": _made_with(settings)},
    ]


def columns_of(result: Any) -> dict[str, Any]:
    """Of each column its name, what is in it, and where its encoded columns start and end."""
    inputs, place, rows = result.preprocessing.inputs, 0, []
    for column in inputs.columns[:MOST_COLUMNS]:
        width = len(column.encoded_names)
        mean, scale = inputs.mean[place : place + 1], inputs.scale[place : place + 1]
        rows.append([shortened(column.name), _content(column, mean, scale), place, place + width])
        place += width
    return {"rows": rows, "more": len(inputs.columns) - len(rows)}


def _content(column: Column, mean: tuple[float, ...], scale: tuple[float, ...]) -> str:
    if column.categories is None:
        return f"number, {mean[0]:.4g} ± {scale[0]:.4g}"
    if not column.categories:
        return "constant, left out"
    return f"text, {len(column.categories):,} categories"


def _data(result: Any) -> list[list[str]]:
    settings, target = result.settings, result.preprocessing.target
    columns = result.preprocessing.inputs.columns
    numbers = sum(column.categories is None for column in columns)
    constant = sum(column.categories == () for column in columns)
    texts = len(columns) - numbers - constant
    kinds = [f"{numbers:,} of numbers"] * bool(numbers) + [f"{texts:,} of text"] * bool(texts)
    kinds += [f"{constant:,} constant, left out"] * bool(constant)
    dropped = settings.get("dropped", [])
    facts = [
        ["name", shortened(settings.get("data", "not recorded"))],
        ["rows", _rows(settings)],
        ["columns", f"{len(columns):,}: {', '.join(kinds)}"],
        *([["dropped", ", ".join(map(shortened, dropped))]] if dropped else []),
        ["judged on", judged_by(settings)],
    ]
    if target.classes is not None:
        facts.append(["target", f"{shortened(target.names[0])}, {len(target.classes)} classes"])
        counts = result.best().answers
        shown = [shortened(label) for label in target.classes[:20]]
        if counts is not None:
            rows = counts.sum(dim=1).tolist()
            shown = [f"{label} ({n:,})" for label, n in zip(shown, rows, strict=False)]
        shown += [f"{len(target.classes) - 20} more"] * (len(target.classes) > 20)
        return [*facts, ["classes", ", ".join(shown)]]
    moments = zip(target.names[:10], target.mean, target.scale, strict=False)
    texts_of_targets = [f"{shortened(name)}, {m:.4g} ± {s:.4g}" for name, m, s in moments]
    more = [f"{len(target.names) - 10} more"] * (len(target.names) > 10)
    return [*facts, ["target", "; ".join([*texts_of_targets, *more])]]


def _search(settings: dict[str, Any]) -> list[list[str]]:
    budget, path = settings.get("max_parameters"), settings.get("penalty_weights", [])
    steps = settings.get("refit_steps")
    return [
        *([["refitted", f"from an earlier search, {counted(steps, 'step')}"]] if steps else []),
        ["widths allowed", " → ".join(map(str, settings["widths"]))],
        ["activation", str(settings.get("activation"))],
        ["trained", str(settings.get("way", "not recorded"))],
        ["penalty weights", ", ".join(["kept linear", *(f"{weight:.3g}" for weight in path[1:])])],
        ["fits", f"{settings['fits']} for each penalty weight, each to its part of the rows"],
        ["budget", "none" if budget is None else counted(budget, "parameter")],
        ["seed", str(settings["seed"])],
    ]


def _listed(values: dict[str, Any]) -> list[list[str]]:
    def text(value: Any) -> str:
        return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)

    return [[name.replace("_", " "), text(value)] for name, value in values.items()]


def _made_with(settings: dict[str, Any]) -> list[list[str]]:
    own = {"torchsparcs": settings.get("version", "not recorded")}  # of an older folder
    versions = {**own, **settings.get("versions", {})}
    seconds = settings.get("seconds")
    return [
        *([name, str(version)] for name, version in versions.items()),
        ["hardware", str(settings.get("hardware", "not recorded"))],
        ["device", str(settings.get("device", "not recorded"))],
        ["wall time", "not recorded" if seconds is None else duration_words(seconds)],
    ]


def _rows(settings: dict[str, Any]) -> str:
    used, seen = settings["rows"], settings.get("rows_seen", settings["rows"])
    return f"{used:,}" if seen <= used else f"{used:,} drawn from {seen:,}"
