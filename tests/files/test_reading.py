"""What JSON reads is what was declared, or a ValueError that names the place."""

import json
import math
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, TypedDict

import pytest

from torchsparcs.files.reading import Record, read_as


@dataclass(frozen=True)
class Point(Record):
    x: float
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Path(Record):
    points: tuple[Point, ...]
    closed: bool = False


class Settings(TypedDict):
    widths: list[int]
    seed: NotRequired[int]


SHARE = Annotated[float, lambda share: 0 <= share <= 1]


def test_records_come_back_as_they_were():
    path = Path((Point(1.5, ("a", "b")), Point(math.inf)), closed=True)
    assert Path.from_json(json.loads(json.dumps(path.to_json()))) == path


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], r"Expected Path as to_json wrote it\. it is \[\], not dict"),
        ({}, "it lacks points"),
        ({"points": [], "open": 1, 3: 4}, "it has no 'open', 3"),
        ({"points": {}}, r"points is \{\}, not list"),
        ({"points": [], "closed": 1}, "closed is 1, not bool"),
        ({"points": [{"x": "1"}]}, r"Expected Point as to_json wrote it\. x is '1', not float"),
        ({"points": [{"x": True}]}, "x is True, not float"),
        ({"points": [{"x": 10**400}]}, r"x is 1000+\.\.\.0+, not float"),
        ({"points": [{"x": 1, "labels": ["a", 2]}]}, r"labels is \['a', 2\], not list or None"),
        ({"points": [None]}, "it is None, not dict"),
    ],
)
def test_what_does_not_fit_is_named(data, words):
    with pytest.raises(ValueError, match=words):
        Path.from_json(data)


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (Any, {"a": [1]}, {"a": [1]}),
        (int | None, None, None),
        (int | str, "a", "a"),
        (float, 3, 3.0),
        (list[float], [1, 2.5], [1.0, 2.5]),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[str, SHARE], {"a": 0.5}, {"a": 0.5}),
        (Settings, {"widths": [3], "other": None}, {"widths": [3], "other": None}),
    ],
)
def test_what_fits_is_read(kind, value, read):
    found = read_as(kind, value, "it")
    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (str | None, 0, "it is 0, not str or None"),
        (int | str, 1.0, "it is 1.0, not int or str"),
        (int, True, "it is True, not int"),
        (list[int], [1, 2, "3"], r"it\[2\] is '3', not int"),
        (list[int], (1, 2), r"it is \(1, 2\), not list"),
        (tuple[int, str], [1], r"it is \[1\], not list"),
        (dict[str, SHARE], {"a": 2}, "a of it is 2, out of its range"),
        (SHARE, math.nan, "it is nan, out of its range"),
        (Settings, {"seed": 1}, "it lacks widths"),
        (Settings, {"widths": [], "seed": None}, "seed is None, not int"),
        (Settings, [], r"it is \[\], not dict"),
    ],
)
def test_what_does_not_fit_a_type(kind, value, words):
    with pytest.raises(ValueError, match=words):
        read_as(kind, value, "it")


def test_what_is_deep_or_long_is_shown_in_short():
    deep: Any = 0
    for _ in range(10**5):
        deep = [deep]
    for value in (deep, "a" * 10**6, [{}] * 10**6):
        with pytest.raises(ValueError, match=r"it is .*, not int") as caught:
            read_as(int, value, "it")
        assert len(str(caught.value)) < 200


def test_a_mistake_in_a_record_surfaces():
    @dataclass(frozen=True)
    class Broken(Record):
        x: int

        def __post_init__(self) -> None:
            self.y  # noqa: B018

    with pytest.raises(AttributeError, match="no attribute 'y'"):
        Broken.from_json({"x": 1})
