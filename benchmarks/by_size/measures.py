"""What the records say, table by table and over all tables; nothing here chooses by test scores.

The answer of a method to a budget is its predictor of at most that size with the best validation
score. A curve is the test score of the answers, budget by budget, split by split. Errors are
standard errors over the splits, of differences paired by split, or by leaving out one split at a
time; over tables, of the mean of the tables.

The ratio of a table: for nine scores that lie evenly between that of the linear model and that of
the best MLP (its answer to 16,384 parameters), the size at which our mean curve reaches the score,
divided by the smallest size at which one of the curves of plain MLPs does: optimiser by optimiser
and family by family, so that the test rows choose the family, in favour of the MLPs. A ratio is
kept between 1/8 and 8, and is 8 where we never reach the score; the geometric mean of the nine is
the table's. A table whose best MLP is not above the linear model by 0.005, and by a standard error
of the difference, has none.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, studentized_range

BUDGETS = tuple(2**power for power in range(4, 15))  # parameters
BYTES = (256, 1_024, 4_096, 16_384)
FINE = np.unique(np.floor(2 ** (np.arange(16, 113) / 8)).astype(int))  # 4 to 16,384
LEVELS = np.arange(1, 10) / 10
MOST = 8.0
WORTH = 0.005
MLPS = ("lbfgs", "adamw")
CORE = ("ours", "linear", *MLPS)
RANKED = (*CORE, "lassonet")  # by parameters; by bytes boosting too
INT8 = "ours, int8"


def answer(points: Iterable[dict], budget: float, size: str = "parameters") -> dict | None:
    """The best validation score of at most that size, the smaller of two that are level."""
    fitting = [one for one in points if one[size] is not None and one[size] <= budget]
    return max(fitting, key=lambda one: (one["validation"], -one[size]), default=None)


def scores(points: list[dict], budgets: Iterable[int], size: str = "parameters") -> list[float]:
    """Test scores of the answers; none is NaN."""
    found = [answer(points, budget, size) for budget in budgets]
    return [math.nan if one is None else one["test"] for one in found]


def mean_error(values: Iterable[float]) -> list[float | None]:
    """Mean and its standard error, which one value alone does not have."""
    values = np.asarray(list(values), dtype=float)
    if not len(values) or np.isnan(values).any():
        return [None, None]
    error = None if len(values) < 2 else float(values.std(ddof=1) / math.sqrt(len(values)))
    return [float(values.mean()), error]


def left_out(value: Callable[[NDArray], float], splits: int) -> list[float | None]:
    """A value of all splits, and its standard error by leaving out one at a time."""
    everything = np.arange(splits)
    whole = value(everything)
    if splits < 2 or math.isnan(whole):
        return [None if math.isnan(whole) else whole, None]
    parts = np.array([value(np.delete(everything, one)) for one in everything])
    if np.isnan(parts).any():
        return [whole, None]
    return [whole, math.sqrt((splits - 1) / splits * float(np.square(parts - parts.mean()).sum()))]


def reached(curve: NDArray, level: float) -> float:
    """The smallest size at which a mean curve has a score; infinite if nowhere."""
    above = np.flatnonzero(curve >= level)  # no answer, NaN, is not above
    return float(FINE[above[0]]) if len(above) else math.inf


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


class Curves:
    """Those of a table: test scores (splits, budgets) on a fine grid of sizes."""

    def __init__(self, record: dict) -> None:
        units = record["units"]
        core = [m for m in (*CORE, "boosting", "unlimited boosting") if units.get(m)]
        splits = sorted(set.intersection(*(set(units[m]) for m in core)) if core else ())
        guests = [m for m in ("lassonet",) if splits and {*splits} <= {*units.get(m, ())}]
        self.units = {m: [units[m][split] for split in splits] for m in (*core, *guests)}
        self.tabm = {int(split): unit for split, unit in units.get("tabm", {}).items()}
        self.splits, self.task = [int(split) for split in splits], record["task"]
        self.mlps = [
            [point for method in MLPS if method in core for point in units[method][split]["points"]]
            for split in splits
        ]
        self.families = {
            f"{method}, {family}": np.array(
                [
                    scores([one for one in unit["points"] if one["family"] == family], FINE)
                    for unit in self.units[method]
                ]
            )
            for method in MLPS
            if method in core
            for family in dict.fromkeys(
                p["family"] for u in self.units[method] for p in u["points"]
            )
        }
        self.ours = np.array([scores(unit["points"], FINE) for unit in self.units.get("ours", ())])

    def against_tabm(self) -> list[float]:
        """Our best score less TabM's, on the splits that it did."""
        return [
            score - self.tabm[split]["points"][0]["test"]
            for split, score in zip(self.splits, self.tops("ours"), strict=True)
            if split in self.tabm
        ]

    @property
    def is_whole(self) -> bool:
        """Whether there is something to compare."""
        return bool(self.splits) and {"ours", "linear"} <= {*self.units} and bool(self.families)

    def tops(self, method: str) -> NDArray:
        """Test score of the best predictor of a method, split by split."""
        if method == "mlp":
            return np.array([scores(points, BUDGETS[-1:])[0] for points in self.mlps])
        size = "bytes" if "boosting" in method else "parameters"
        return np.array([scores(u["points"], [math.inf], size)[0] for u in self.units[method]])

    def sizes(self, chosen: NDArray) -> list[tuple[float, float, float]]:
        """Score, our size and that of the best curve of MLPs, level by level."""
        gain, error = mean_error(self.tops("mlp") - self.tops("linear"))
        low, high = (self.tops(method)[chosen].mean() for method in ("linear", "mlp"))
        if gain < max(WORTH, error or 0) or high <= low:
            return []
        mine = self.ours[chosen].mean(0)
        theirs = [curve[chosen].mean(0) for curve in self.families.values()]
        return [
            (level, reached(mine, level), min(reached(curve, level) for curve in theirs))
            for level in low + LEVELS * (high - low)
        ]

    def log_ratio(self, chosen: NDArray) -> float:
        pairs = [(a, b) for _, a, b in self.sizes(chosen) if math.isfinite(b)]
        if not pairs:
            return math.nan
        most = math.log(MOST)
        return float(np.mean([np.clip(math.log(a / b), -most, most) for a, b in pairs]))

    def needed(self, method: str, chosen: NDArray) -> float:
        """Size for the best MLP's score less its standard error, NaN where it is not reached."""
        goal = self.tops("mlp")[chosen]
        error = goal.std(ddof=1) / math.sqrt(len(goal)) if len(goal) > 1 else 0.0
        if method == "mlp":
            curves = np.array([scores(self.mlps[split], FINE) for split in chosen])
        else:
            curves = np.array([scores(self.units[method][s]["points"], FINE) for s in chosen])
        size = reached(curves.mean(0), goal.mean() - error)
        return size if math.isfinite(size) else math.nan


def table_measures(record: dict) -> dict | None:
    """Everything about a table; None while too little of it is recorded."""
    found = Curves(record)
    if not found.is_whole:
        return None
    splits = len(found.splits)
    ours = found.units["ours"]
    best, mlp = found.tops("ours"), found.tops("mlp")
    picks = [unit["points"][unit["pick"]] for unit in ours]
    levels = found.sizes(np.arange(splits))
    log_ratio, log_error = left_out(found.log_ratio, splits)
    by_parameters = {
        **{m: [u["points"] for u in found.units[m]] for m in RANKED if m in found.units},
        "mlp": found.mlps,
    }
    by_bytes = dict(by_parameters)
    if "boosting" in found.units:
        by_bytes["boosting"] = [unit["points"] for unit in found.units["boosting"]]
    if all("int8" in one for unit in ours for one in unit["points"]):
        by_bytes[INT8] = [[one | one["int8"] for one in unit["points"]] for unit in ours]
    return {
        "task": found.task,
        "splits": splits,
        "rows": ours[0]["rows"],
        "columns": ours[0]["columns"],
        "ratio": None if log_ratio is None else math.exp(log_ratio),
        "log_ratio_error": log_error,
        "levels": [
            {"score": score, "ours": finite(mine), "mlp": finite(theirs)}
            for score, mine, theirs in levels
        ],
        "best": mean_error(best),
        "best_parameters": float(
            np.mean([answer(unit["points"], math.inf)["parameters"] for unit in ours])
        ),
        "best_mlp": mean_error(mlp),
        "against_mlp": mean_error(best - mlp),
        "against_linear": mean_error(best - found.tops("linear")),
        "against_boosting": mean_error(best - found.tops("unlimited boosting"))
        if "unlimited boosting" in found.units
        else [None, None],
        "against_tabm": mean_error(found.against_tabm()),
        "tabm_splits": len(found.against_tabm()),
        "needed": {
            method: left_out(lambda chosen, m=method: found.needed(m, chosen), splits)
            for method in ("ours", "mlp", *(m for m in RANKED[1:] if m in found.units))
        },
        "pick": {
            "score": mean_error(pick["test"] for pick in picks),
            "lowest": min(pick["test"] for pick in picks),
            "parameters": mean_error(pick["parameters"] for pick in picks),
            "claimed_less_test": mean_error(pick["claimed"] - pick["test"] for pick in picks),
            "against_others": mean_error(
                pick["test"] - scores([*mlps, *linear["points"]], [pick["parameters"]])[0]
                for pick, mlps, linear in zip(picks, found.mlps, found.units["linear"], strict=True)
            ),
        },
        "seconds": {m: core_seconds(units) for m, units in found.units.items()},
        "parameters": at_budgets(by_parameters, BUDGETS, "parameters"),
        "bytes": at_budgets(by_bytes, BYTES, "bytes"),
    }


def core_seconds(units: list[dict]) -> list[float | None]:
    """Seconds of one core; those of a GPU are none."""
    if not all(map(of_a_core, units)):
        return [None, None]
    return mean_error(unit["seconds"] for unit in units)


def hardware(known: dict[str, dict]) -> dict[str, str]:
    """What the seconds of each method are of; those of a GPU are none."""
    found: dict[str, set[str]] = {}
    for record in known.values():
        for method, units in record["units"].items():
            on = {record["runs"][u["run"]]["hardware"] for u in units.values() if of_a_core(u)}
            found.setdefault(method, set()).update(on)
    return {method: " and ".join(sorted(on)) for method, on in found.items() if on}


def of_a_core(unit: dict) -> bool:
    return unit.get("device", "cpu") == "cpu"


def at_budgets(points: dict[str, list[list[dict]]], budgets: Iterable[int], size: str) -> dict:
    """Mean test score and error of each method at each budget; and of ours less the best MLP."""
    found: dict[str, dict] = {}
    for budget in budgets:
        by_method = {m: [scores(p, [budget], size)[0] for p in by] for m, by in points.items()}
        row = {method: mean_error(values) for method, values in by_method.items()}
        row["ours less mlp"] = mean_error(np.subtract(by_method["ours"], by_method["mlp"]))
        found[str(budget)] = row
    return found


def ranks(tables: dict[str, dict], size: str, budget: int, methods: Iterable[str]) -> dict:
    """Average ranks over the tables, 1 is best and no answer last; and the critical difference.

    Two methods differ at the level of 5 % (Nemenyi) where their ranks are apart by more than that.
    """
    rows = [table[size][str(budget)] for table in tables.values()]
    methods = [method for method in methods if all(method in row for row in rows)]
    means = [[row[method][0] for method in methods] for row in rows]
    values = [[math.inf if mean is None else -mean for mean in row] for row in means]
    average = np.mean([rankdata(row) for row in values], 0)
    count = len(methods)
    spread = studentized_range.ppf(0.95, count, math.inf) / math.sqrt(2)
    critical = float(spread * math.sqrt(count * (count + 1) / (6 * len(rows))))
    return {
        "ranks": {m: float(r) for m, r in zip(methods, average, strict=True)},
        "critical_difference": critical,
    }


def doubling(known: dict[str, dict]) -> dict:
    """What twice the effort changes at equal size: mean over budgets, then splits and tables.

    ``score_error`` is the standard error over the splits of that mean score of a table, the root of
    its mean square over the tables.
    """
    found = {}
    for method in MLPS:
        changes, errors = [], []
        for record in known.values():
            plain, twice = (record["units"].get(m, {}) for m in (method, f"{method} doubled"))
            means = []
            for split in sorted({*plain} & {*twice}):
                a, b = (np.array(scores(u[split]["points"], BUDGETS)) for u in (plain, twice))
                changes.append(float(np.nanmean(b - a)))
                means.append(float(np.nanmean(np.where(np.isnan(b), np.nan, a))))
            error = mean_error(means)[1]
            errors += [] if error is None else [error]
        if changes:
            spread = math.sqrt(float(np.square(errors).mean())) if errors else None
            change = mean_error(changes)
            found[method] = {"units": len(changes), "change": change, "score_error": spread}
    return found


def with_unseen(known: dict[str, dict], unseen: dict[str, dict]) -> dict:
    """The measures of the development tables, and beside them those of the others."""
    return measured(known) | {"unseen": measured(unseen)}


def measured(known: dict[str, dict]) -> dict:
    """Of all tables that have enough recorded, and over them."""
    tables = {n: m for n, record in known.items() if (m := table_measures(record)) is not None}
    ratios = [math.log(table["ratio"]) for table in tables.values() if table["ratio"]]
    log_ratio, error = mean_error(ratios)
    kinds = (("parameters", BUDGETS, RANKED), ("bytes", BYTES, (*RANKED, "boosting")))
    in_bytes = (INT8, *kinds[1][2][1:])  # int8 in the place of ours
    return {
        "ratio": None if log_ratio is None else math.exp(log_ratio),
        "log_ratio_error": error,
        "ratio_tables": len(ratios),
        "claimed_less_test": mean_error(
            table["pick"]["claimed_less_test"][0] for table in tables.values()
        ),
        "ranks": {
            size: {str(b): ranks(tables, size, b, methods) for b in budgets}
            for size, budgets, methods in kinds
            if tables
        },
        "int8_ranks": {
            str(b): ranks(tables, "bytes", b, in_bytes)["ranks"][INT8]
            for b in BYTES
            if tables and all(INT8 in table["bytes"][str(b)] for table in tables.values())
        },
        "doubling": doubling(known),
        "hardware": hardware({name: known[name] for name in tables}),
        "tables": tables,
    }
