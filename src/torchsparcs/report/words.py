"""The numbers of a report as people write them, and the sentences around them."""

from typing import Any

from torchsparcs.target import Target

LONGEST = 80  # characters of a name


def shortened(text: Any) -> str:
    """A name from the data, not longer than a line."""
    name = str(text)
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "row"), counted(1797, "row")
    ('1 row', '1,797 rows')
    """
    return f"{number:,} {noun}" + "s" * (number != 1)


def score_words(score: float, is_classes: bool, error: float | None = None) -> str:
    """
    >>> score_words(0.9705, True, 0.004), score_words(0.9705, False)
    ('97.0 % ± 0.4', '0.9705')
    """
    if is_classes:
        return f"{100 * score:.1f} %" + (f" ± {100 * error:.1f}" if error is not None else "")
    return f"{score:.4f}" + (f" ± {error:.4f}" if error is not None else "")


def ratio_words(larger: float, smaller: float) -> str:
    """
    >>> ratio_words(12480, 748), ratio_words(300, 200)
    ('17', '1.5')
    """
    ratio = larger / smaller
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


def duration_words(seconds: float) -> str:
    """
    >>> duration_words(43.5), duration_words(754), duration_words(9000)
    ('44 s', '12 min 34 s', '2 h 30 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def judged_by(settings: dict[str, Any]) -> str:
    """The rows that gave the scores."""
    rows, fits = settings["judged_rows"], settings["fits"]
    if fits > 2:
        return f"the {rows:,} rows in turn ({fits - 1}-fold cross-validation)"
    return f"{rows:,} held-out rows"


def data_words(settings: dict[str, Any], columns: int, target: Target) -> str:
    """One line about the data."""
    if target.classes is None:
        aim = f"regression of {', '.join(map(shortened, target.names[:3]))}"
        aim += f" and {len(target.names) - 3} more" * (len(target.names) > 3)
    else:
        aim = f"{len(target.classes)} classes of {shortened(target.names[0])}"
    return f"{counted(settings['rows'], 'row')}, {counted(columns, 'column')}, {aim}"


def headline(candidate: Any, is_classes: bool) -> str:
    """The answer in one sentence."""
    kind = "A network" if len(candidate.widths) > 2 else "A linear model"
    size = f"{kind} with {counted(candidate.parameters, 'parameter')}"
    if is_classes:
        return f"{size} gets {100 * candidate.score:.1f} % of held-out rows right."
    if candidate.score <= 0:
        return f"{size} predicts no better than the mean (R² {candidate.score:.3f})."
    return f"{size} explains {100 * candidate.score:.1f} % of the variance of held-out rows."


def verdict(result: Any, picked: Any, maximal: Any, is_classes: bool) -> str:
    """How the answer compares with the maximal network, the linear model and the best one."""
    measure = "" if is_classes else "R² "
    linear, best = result.linear, result.best()
    smaller, arrows = maximal.parameters > picked.parameters, "\u00a0→ "  # at no line's beginning
    of_maximal = (
        f"{ratio_words(maximal.parameters, picked.parameters)} times fewer parameters than the "
        f"network the search was allowed, {arrows.join(map(str, maximal.widths))}"
        if smaller
        else f"no fewer parameters than the network the search was allowed "
        f"({maximal.parameters:,}): in direct space each skip connection has weights of its own"
    )
    sentences = [f"That is {of_maximal}."]
    if same(picked, linear):
        sentences.append("It is the linear model: nothing larger was worth its parameters.")
    else:
        sentences.append(
            f"The linear model has {linear.parameters:,} and reaches "
            f"{measure}{score_words(linear.score, is_classes)}."
        )
    if not same(picked, best):
        sentences.append(
            f"The best network found has {best.parameters:,} and reaches "
            f"{measure}{score_words(best.score, is_classes)}."
        )
    return " ".join(sentences)


def tolerance_words(result: Any, is_classes: bool) -> str:
    """What the smallest network may give away."""
    best, allowed = result.best(), result.tolerance
    is_error = allowed == best.standard_error
    gap = "one standard error" if is_error else f"{score_words(allowed, is_classes)}"
    return f"{gap} below the best, {score_words(best.score - allowed, is_classes)}"


def same(one: Any, other: Any) -> bool:
    """Whether two candidates are one; read from files they are different objects."""
    return (one.parameters, one.score, one.loss) == (other.parameters, other.score, other.loss)
