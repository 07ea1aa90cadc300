"""What the files of a run folder hold, as declared types that ``read_as`` checks."""

import math
import re
from typing import Annotated, Any, NotRequired, TypedDict

from torchsparcs.tables.preprocessing import Preprocessing

FORMAT = 1
MOST_LAYERS = 10_000
NETWORK = re.compile(r"networks/[\w-]+\.safetensors", re.ASCII)  # the only path that is followed

Count = Annotated[int, lambda count: 0 <= count < 2**63]
Counts = Annotated[list[int], lambda counts: all(0 <= count < 2**63 for count in counts)]
Finite = Annotated[float, math.isfinite]
Positive = Annotated[float, lambda number: 0 < number < math.inf]
Share = Annotated[float, lambda share: -1e-6 <= share <= 1 + 1e-6]
Size = Annotated[float, lambda size: 0 <= size < math.inf]
Answers = list[Counts] | list[list[tuple[float, float]]]  # (classes, classes) or (rows, outputs, 2)


def _is_inside(path: str) -> bool:
    if not NETWORK.fullmatch(path):
        raise ValueError(f"{path!r} is no path like networks/00.safetensors")
    return True


def _is_shape(sides: list[int]) -> bool:
    return all(0 < side < 2**31 for side in sides) and math.prod(sides) < 2**31


def _are_widths(widths: list[int]) -> bool:
    return 2 <= len(widths) <= MOST_LAYERS and all(0 < width < 2**31 for width in widths)


def _is_table(rows: list[list[float]]) -> bool:
    return len(rows) > 0 and len(rows[0]) > 0 and len({len(row) for row in rows}) == 1


def _is_range(ends: list[float]) -> bool:
    return len(ends) == 3 and 0 <= ends[1] - ends[0] < math.inf and ends[2] in (0, 1)


def _is_front(rows: list) -> bool:
    if len({row["network"] for row in rows}) < max(1, len(rows)):
        raise ValueError("its front is empty, or some of its networks are the same")
    if not all(math.isfinite(row["score"]) and row["standard_error"] >= 0 for row in rows):
        raise ValueError("a network of its front has no score")
    return True


def _are_told(kept: dict) -> bool:
    """As many answers as rows that they are of; labels may be missing."""
    count = len(kept["disagreed"])
    return len(kept["said"]) == len(kept["teacher_said"]) == count and (
        len(kept["labels"]) in (0, count)
    )


def is_history(history: "HistoryFile") -> bool:
    """An entry for each epoch, or none; of one network, or each of as many members."""
    measured = (history["train_loss"], history["validation_loss"], history["validation_score"])
    epochs = len(history["train_loss"])
    if any(len(each) not in (0, epochs) for each in (*measured, history["recruited"])):
        raise ValueError("its entries are not one for each epoch")
    members = {len(each) if isinstance(each, list) else None for part in measured for each in part}
    if len(members) > 1:
        raise ValueError("it has more members in some epochs than in others")
    counted = [each for each in history["recruited"] if each]
    of_members = {len(each) if isinstance(each[0], list) else None for each in counted}
    if not of_members <= members:
        raise ValueError("it has recruits of other members")
    return True


class Kept(TypedDict):
    """What a network kept of its teacher, as ``Fidelity`` names it."""

    teacher: str
    agreement: Finite | None
    correlation: Finite | None
    divergence: Finite | None
    score: Finite | None
    teacher_score: Finite | None
    rows: Count
    seconds: NotRequired[Size]  # these where the teacher was asked for the purpose
    teacher_seconds: NotRequired[Size]
    one_row: NotRequired[Size]
    teacher_one_row: NotRequired[Size]
    teacher_bytes: NotRequired[Count | None]
    parameters: Count
    disagreed: list[Count]
    said: list[str]
    teacher_said: list[str]
    labels: list[str]
    is_of_folds: NotRequired[bool]  # on the rows that judged, by the fits that had not seen them


class Settings(TypedDict):
    """What decided the outcome; older folders lack what is not required."""

    widths: Annotated[list[int], _are_widths]
    rows: Count
    judged_rows: Count
    fits: Annotated[int, lambda fits: 0 < fits < 2**63]
    seed: Annotated[int, lambda seed: abs(seed) < 2**64]
    task: NotRequired[str]
    data: NotRequired[str]
    dropped: NotRequired[list[str]]
    pick: NotRequired[str | int]
    way: NotRequired[str]
    rows_seen: NotRequired[Count]
    rows_searched: NotRequired[Count]
    rows_without_target: NotRequired[Count]
    penalty_weights: NotRequired[list[float]]
    max_parameters: NotRequired[Count | None]
    max_bytes: NotRequired[Count | None]
    size: NotRequired[str]
    chip: NotRequired[str | None]
    int8: NotRequired[bool]
    scoring: NotRequired[str]
    scoring_is_auto: NotRequired[bool]
    scoring_is_own: NotRequired[bool]
    score_unit: NotRequired[Positive]
    score_is_weighted: NotRequired[bool]
    constant_score: NotRequired[Finite | None]
    time_budget: NotRequired[Positive | None]
    ended: NotRequired[str | None]
    taught_by_boosting: NotRequired[bool]
    teacher: NotRequired[str]
    teacher_is_refitted: NotRequired[bool]
    teacher_is_target: NotRequired[bool]
    fidelity: NotRequired[Annotated[Kept, _are_told]]
    costs: NotRequired[dict[str, Size]]
    relevance: NotRequired[dict[str, Share]]  # of columns, where it was asked for
    worth: NotRequired[dict[str, Finite]]  # likewise
    ranges: NotRequired[dict[str, Annotated[list[float], _is_range]]]  # as ranges_of has them
    class_weight: NotRequired[str | dict[str, float] | None]
    group: NotRequired[str | None]
    time: NotRequired[str | None]
    refitted: NotRequired[bool]
    refit_steps: NotRequired[Count]
    config: NotRequired[dict[str, Any]]
    device: NotRequired[str]
    seconds: NotRequired[Annotated[float, lambda seconds: 0 <= seconds < math.inf]]
    hardware: NotRequired[str]
    version: NotRequired[str]
    versions: NotRequired[dict[str, str]]


class SettingsFile(TypedDict):
    format: Annotated[int, lambda version: version <= FORMAT]
    settings: Settings
    preprocessing: Preprocessing | None
    hardware: NotRequired[str]  # where older folders have them
    versions: NotRequired[dict[str, str]]


class CandidateRow(TypedDict):
    network: Annotated[str, _is_inside]
    score: float
    expected: NotRequired[float | None]  # older folders have none
    standard_error: float
    loss: float
    penalty_weight: float | None
    member: Count | None
    row_shape: NotRequired[Annotated[list[int], _is_shape]]
    temperature: NotRequired[Positive]  # older folders have none
    reliability: NotRequired[list[tuple[Share, Share, Share]] | None]
    residuals: NotRequired[Annotated[list[list[Size]], _is_table] | None]
    bytes: NotRequired[Count | None]  # where they were asked for
    int8_score: NotRequired[Finite | None]
    cost: NotRequired[Size]  # where columns have prices


class AttemptRow(TypedDict):
    member: Count | None
    cut: Count
    neurons: Count
    parameters: Count
    score: float
    standard_error: float
    loss: float
    macs: NotRequired[Count | None]  # older folders have none
    bytes: NotRequired[Count | None]  # where they were asked for


class FrontFile(TypedDict):
    front: Annotated[list[CandidateRow], _is_front]
    linear: CandidateRow | None
    by_cost: NotRequired[list[CandidateRow]]
    answers: NotRequired[list[Answers | None]]
    attempts: NotRequired[list[AttemptRow]]


class HistoryFile(TypedDict):
    train_loss: list[float] | list[list[float]]
    validation_loss: list[float] | list[list[float]]
    validation_score: list[float] | list[list[float]]
    recruited: list[Counts] | list[list[Counts]]
    seconds: list[Finite]
    stopped_early: bool
    best_epoch: Count | None
    snapshot_epochs: Counts
