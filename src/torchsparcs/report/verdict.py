"""What is said of the picked network below the headline: beside others, what scores are worth."""

import math

from torchsparcs.files.visible import shortened
from torchsparcs.judging.default_scoring import RARE
from torchsparcs.judging.scoring import scoring_of
from torchsparcs.report.wording import (
    columns_words,
    counted,
    measured,
    ratio_words,
    reads_words,
    where_judged,
)
from torchsparcs.results.result import Attempt, Candidate, SearchResult, is_same


def verdict(result: SearchResult, picked: Candidate) -> str:
    """What the answer reads, how it compares with others, and what the scores are worth."""
    sentences = [reads_words(result, picked), _typical_errors(result, picked)]
    sentences += [beside_one_answer(result, picked), *_beside_others(result, picked)]
    sentences += _of_a_rare_class(result, picked)
    if result.settings.get("refitted"):
        sentences.append("The networks were found by an earlier search and refitted to these rows.")
    sentences.append(_caveat(result, picked))
    return " ".join(sentence for sentence in sentences if sentence)


def _caveat(result: SearchResult, picked: Candidate) -> str:
    """What the choice among many networks has to do with the scores."""
    if picked.expected is not None:
        score = measured(result.scoring, picked.score)
        among = f" out of {counted(len(result.attempts), 'network')}" * bool(result.attempts)
        return (
            f"It was picked{among} by validation, where it has {score}; the scores on this page "
            "are corrected for that choice, unless they say otherwise."
        )
    if result.settings["fits"] == 1:
        return "It was picked by the same rows that gave its score: test it on others."
    return ""


def plain_alike(result: SearchResult) -> Attempt | None:
    """The plain network, nothing cut, that is picked among those as the pick is among all.

    It is the smallest within one standard error of the best of them; None where there are none.
    """
    if result.preprocessing is None:
        return None
    plain = [
        found
        for found in result.attempts
        if found.member is None
        and found.cut == 0
        and found.neurons > 0
        and math.isfinite(found.score)
    ]
    if not plain:
        return None
    top = max(plain, key=lambda found: found.score)
    enough = top.score - max(top.standard_error, 0.0)
    alike = [found for found in plain if found.score >= enough]
    return min(alike, key=lambda found: (found.parameters, -found.score))


def typical_error(result: SearchResult, score: float) -> float | None:
    """√(1 − R²) times the standard deviation of the target: a root mean square, in its unit.

    None of several outputs, and where the score is another one.
    """
    scoring, scale = result.scoring, result.target.scale
    if scoring.name != "r2" or scoring.is_weighted or result.preprocessing is None:
        return None
    if len(scale) != 1 or not score <= 1:
        return None
    return scale[0] * math.sqrt(1 - score)


def error_words(result: SearchResult, score: float) -> str:
    """The typical error with four digits; nothing where there is none."""
    error = typical_error(result, score)
    return "" if error is None else scoring_of("mae", result.target).words(-error)


def _typical_errors(result: SearchResult, picked: Candidate) -> str:
    """That of the pick, of the linear model and of one answer for all rows."""
    linear, own = result.linear, error_words(result, picked.told)
    if not own:
        return ""
    others = []
    if linear is not None and not is_same(picked, linear):
        others.append(("the linear model has", error_words(result, linear.told)))
    if (constant := result.scoring.constant) is not None:
        others.append(("one answer for all rows", error_words(result, constant)))
    beside = ", ".join(f"{name} {words}" for name, words in others if words)
    named = shortened(result.target.names[0])
    return f"Its typical error of {named} (root mean square) is {own}{'; ' * bool(beside)}{beside}."


def beside_one_answer(result: SearchResult, candidate: Candidate) -> str:
    """That a network is hardly better than one answer for all rows, where that is so."""
    scoring = result.scoring
    constant, error = scoring.constant, candidate.standard_error
    if constant is None or not candidate.told <= constant + (error if error > 0 else 0.0):
        return ""
    answer = f"one answer for all rows ({measured(scoring, constant)})"
    words = f"It is not better than {answer} by more than a standard error"
    if scoring.name == "accuracy":
        words += "; --scoring log_loss or roc_auc asks which rows are likelier than others"
    return f"{words}."


def _beside_others(result: SearchResult, picked: Candidate) -> list[str]:
    """How large the linear model and a plain network are, or without these the best one."""
    linear, plain, best = result.linear, plain_alike(result), result.best()
    others: list[tuple[str, int, str]] = []
    sentences = []
    if linear is not None and is_same(picked, linear):
        sentences.append("It is the linear model: nothing larger was worth its parameters.")
    elif linear is not None:
        name = f"the linear model {columns_words(result, linear)}"
        others.append((name, linear.parameters, measured(result.scoring, linear.told)))
    if plain is not None and (plain.parameters, plain.score) == (picked.parameters, picked.score):
        sentences.append("It is itself a plain MLP, drawn and fitted: it did not grow.")
    elif plain is not None:
        score = f"{measured(result.scoring, plain.score)} {where_judged(result.settings)}"
        score += f", this one {result.scoring.words(picked.score)} there"
        has_pupils = result.settings.get("taught_by_boosting") or "teacher" in result.settings
        taught = ", pupils of the teacher among them" * bool(has_pupils)
        name = f"a plain MLP picked in the same way{taught}"
        others.append((name, plain.parameters, score))
    if linear is None and not is_same(picked, best):
        score = measured(result.scoring, best.told)
        others.append(("the best network", best.parameters, score))
    larger = [other for other in others if other[1] >= 1.05 * picked.parameters]
    for name, parameters, score in others:
        if (name, parameters, score) not in larger:
            has = f"has {counted(parameters, 'parameter')} and reaches {score}"
            sentences.append(f"{name[0].upper()}{name[1:]} {has}.")
    if larger:
        fewer = [
            f"{ratio_words(parameters, picked.parameters)} times fewer{' parameters' * (not place)}"
            f" than {name} ({parameters:,}; {score})"
            for place, (name, parameters, score) in enumerate(larger)
        ]
        sentences.append(f"This network has {' and '.join(fewer)}.")
    return sentences


def _of_a_rare_class(result: SearchResult, picked: Candidate) -> list[str]:
    """What a score may hide: the rarest class. What one answer is worth is in the table."""
    scoring, sentences = result.scoring, []
    if result.settings.get("scoring_is_auto") and scoring.name == "log_loss":
        sentences = [
            "One class is rare, and accuracy would hide it: networks are compared by log loss, of "
            "which less is better."
        ]
    counts = picked.answers
    if counts is not None and (target := result.target).classes is not None:
        rows = counts.sum(dim=1)
        rarest = int(rows.argmin())
        if 0 < rows[rarest] * len(rows) < RARE * rows.sum():
            of_class = f"{counted(int(rows[rarest]), 'row')} of {shortened(target.classes[rarest])}"
            sentences.append(f"It finds {int(counts[rarest, rarest]):,} of {of_class}.")
    return sentences
