"""What a search was found with, as titled lists of names and facts."""

from collections.abc import Mapping, Sequence
from typing import Any

from torchsparcs.export.predicting import error_of
from torchsparcs.files.visible import shortened
from torchsparcs.report.choices import choices, sample_words
from torchsparcs.report.columns import kinds_words
from torchsparcs.report.wording import counted, ended_by, judged_by, shape_words
from torchsparcs.results.result import SearchResult
from torchsparcs.results.sizes import SIZES
from torchsparcs.tables.target import Target
from torchsparcs.training.progress import duration_words

MOST_CLASSES, MOST_OUTPUTS = 20, 10  # by name


def about(result: SearchResult) -> list[dict[str, Any]]:
    """Titled lists of names and facts; what has no meaning for this search is left out."""
    sections: dict[str, Mapping[str, str | None]] = {
        "Data": _data(result),
        "Search": _search(result),
        **({} if result.preprocessing is None else {"What the data decided": choices(result)}),
        "Settings": _settings(result),
        "Made with": made_with(result.settings),
    }
    return [
        {"title": title, "facts": [[name, text] for name, text in facts.items() if text]}
        for title, facts in sections.items()
    ]


def _data(result: SearchResult) -> dict[str, str | None]:
    settings, is_table = result.settings, result.preprocessing is not None
    used, seen = settings["rows"], settings.get("rows_seen", settings["rows"])
    return {
        "name": shortened(settings.get("data", "not recorded" if is_table else "")),
        "rows": f"{used:,}" if seen <= used else f"{used:,} drawn from {seen:,}",
        "searched on": sample_words(settings),
        "row": None if is_table else shape_words(result),
        "columns": kinds_words(result.inputs.columns) if is_table else None,
        "dropped": ", ".join(map(shortened, settings.get("dropped", []))),
        "judged on": judged_by(settings),
        "judged by": _score(result),
        **_aim(result, result.target),
    }


def _score(result: SearchResult) -> str:
    """The score, and who chose it."""
    is_chosen = result.settings.get("scoring_is_auto", True)
    told = f"{result.scoring.label}, {'by default' if is_chosen else 'as asked for'}"
    if result.settings.get("teacher_is_target"):
        told += "; without a target it is agreement with the teacher"
    return told


def _teacher(settings: Mapping[str, Any]) -> str | None:
    """The name of a teacher, and whether it had seen what it was asked."""
    if "teacher" not in settings:
        return None
    name = shortened(settings["teacher"])
    if settings.get("teacher_is_refitted"):
        return f"{name}, fitted again for each fold, so that it answers rows it has not seen"
    return f"{name}, as given: on rows that it was fitted to, its answers look better than they are"


def _aim(result: SearchResult, target: Target) -> dict[str, str]:
    """The target, its classes with how often each came up, or its outputs with their moments."""
    if target.classes is None:
        moments = zip(target.names[:MOST_OUTPUTS], target.mean, target.scale, strict=False)
        outputs = [f"{shortened(name)}, {m:.4g} ± {s:.4g}" for name, m, s in moments]
        if result.preprocessing is None:
            outputs = [shortened(name) for name in target.names[:MOST_OUTPUTS]]
        return {"target": "; ".join([*outputs, *_rest(len(target.names) - MOST_OUTPUTS)])}
    counts, shown = result.best().answers, [shortened(c) for c in target.classes[:MOST_CLASSES]]
    if counts is not None:
        rows = counts.sum(dim=1).tolist()
        shown = [f"{label} ({n:,})" for label, n in zip(shown, rows, strict=False)]
    return {
        "target": f"{shortened(target.names[0])}, {len(target.classes)} classes",
        "classes": ", ".join([*shown, *_rest(len(target.classes) - MOST_CLASSES)]),
    }


def _rest(count: int) -> list[str]:
    return [f"{count} more"] if count > 0 else []


def _search(result: SearchResult) -> dict[str, str | None]:
    settings, is_table = result.settings, result.preprocessing is not None
    steps, fits = (settings.get(name) for name in ("refit_steps", "fits"))
    ways = settings.get("config", {}).get("ways", "not recorded")
    penalties = (f"{weight:.3g}" for weight in settings.get("penalty_weights", []))
    shares = f"{fits}{' for each penalty weight' * is_table}, each to its part of the rows"
    return {
        "refitted": f"from an earlier search, {counted(steps, 'step')}" if steps else None,
        "widths allowed": " → ".join(map(str, settings["widths"])),
        "activation": result.best().network.activation_name,
        "teacher": _teacher(settings),
        "trained": _ways(settings.get("way", ways)) if is_table else None,
        "penalty weights": ", ".join(penalties) if is_table else None,
        "fits": None if fits == 1 else shares,
        "size": _size(result),
        "budget": _budget(settings),
        "ended": ended_by(settings),
        "seed": str(settings["seed"]),
    }


def _size(result: SearchResult) -> str | None:
    """What the front is drawn against; of bytes, whose, and how far they are off on average."""
    chip = result.settings.get("chip")
    if chip is None:
        return None if result.size is SIZES["parameters"] else result.size.unit
    is_int8 = bool(result.settings.get("int8"))
    off = f"predicted to {100 * error_of(chip, is_int8=is_int8):.1f} %"
    kind = "int8" if is_int8 else "float"
    return f"{result.size.unit}; bytes are those of {chip}, in {kind}, {off}"


def _budget(settings: Mapping[str, Any]) -> str:
    limits = {name: settings.get(f"max_{name}s") for name in ("parameter", "byte")}
    words = [counted(limit, name) for name, limit in limits.items() if limit is not None]
    return ", ".join(words) or "none"


# Settings by the names of their options, in words.
WORDS = {
    "steps": "steps of a training, at least",
    "epochs": "epochs, as asked for",
    "longest": "steps, at most",
    "batch_size": "rows in a step",
    "lr": "learning rate",
    "path": "penalty weights tried",
    "shrink": "size of each cut beside the one before",
    "tune_share": "steps of a fine-tuning beside the training",
    "paper": "by the paper's recipe",
    "sample": "rows to search on, at most",
    "schedule": "learning rate over time",
    "eigenvalue_lr_scale": "eigenvalues learn faster by",
    "transfer_weight_decay": "decay of eigenvectors",
    "train_transfers": "eigenvectors are trained",
    "weight_decay": "decay of other weights",
    "penalty_weight": "penalty weight",
    "proximal": "zeros are exact",
    "patience": "epochs without gain that end it",
    "amp": "mixed precision",
    "compile": "compiled",
    "capture": "recorded as a CUDA graph",
    "snapshot_every": "epochs between pictures",
}


# Strategies by their names, in words.
WAYS = {
    "asleep": "all neurons asleep at first, their eigenvalues zero",
    "asleep with dropout": "the same with dropout of inputs",
}


def _ways(known: str | Sequence[str]) -> str:
    names = [known] if isinstance(known, str) else known
    return "; ".join(WAYS.get(name, name) for name in names)


def _settings(result: SearchResult) -> dict[str, str | None]:
    """What was asked for, in words, and how long networks really were trained."""
    known = {
        n: v for n, v in result.settings.get("config", {}).items() if n != "ways"
    }  # told above
    run = counted(result.history.epochs, "epoch") if result.history.epochs else None
    return {"trained": run and f"{run} really run"} | {
        WORDS.get(name, name.replace("_", " ")): _text(value) for name, value in known.items()
    }


def _text(value: Any) -> str | None:
    """A setting as people say it; None of what was not asked for."""
    if value is None or value is False:
        return None
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return "yes" if value is True else f"{value:,}" if isinstance(value, int) else str(value)


def made_with(settings: dict[str, Any]) -> dict[str, str]:
    """Versions, machine and time; what an older folder has not is "not recorded"."""
    version = {"torchsparcs": settings.get("version", "not recorded")}  # of an older folder
    seconds = settings.get("seconds")
    return {
        **{name: str(known) for name, known in (version | settings.get("versions", {})).items()},
        "hardware": str(settings.get("hardware", "not recorded")),
        "device": str(settings.get("device", "not recorded")),
        "wall time": "not recorded" if seconds is None else duration_words(seconds),
    }
