"""Numbers written for people: thousands apart, a decimal comma, a currency, a unit, percent."""

import re
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from torchsparcs.files.reading import Record
from torchsparcs.tables.entries import number, text_of

CURRENCY = r"[A-Z]{0,2}[$€£¥₹₽₩]|EUR|USD|GBP|CHF|JPY|CNY|INR|kr\.?"
UNIT = r"%|‰|[^\W\d_]{1,3}[$€£]|[$€£¥₹₽₩]|[^\W\d_°]{0,10}[°/²³]?[^\W\d_]{1,10}[²³]?"
WRITTEN = re.compile(rf"([-+−]?)\s?({CURRENCY})?\s?([-+−]?)([0-9][0-9.,'’\s]*)({UNIT})?")
# By its decimal mark, what such a number is: groups of three digits apart, or none.
MARKS = {
    ".": re.compile(r"(?:[1-9][0-9]{0,2}([,'’\s])[0-9]{3}(?:\1[0-9]{3})*|[0-9]+)(?:\.[0-9]+)?"),
    ",": re.compile(r"(?:[1-9][0-9]{0,2}([.'’\s])[0-9]{3}(?:\1[0-9]{3})*|[0-9]+)(?:,[0-9]+)?"),
}


@dataclass(frozen=True)
class Writing(Record):
    """How the numbers of a column of text are written.

    Attributes:
        decimal: the decimal mark, "." or ",".
        unit: what stands before or behind each of them: "%", "€", "km"; "" for nothing.
        example: one of them, the first that shows the decimal mark; "" in older files.

    Example:
        >>> writing = Writing.of(["€ 900", "€ 1.250,50"])
        >>> writing, writing.number("€ 12,5")
        (Writing(decimal=',', unit='€', example='€ 1.250,50'), 12.5)
        >>> Writing.of(["A11", "A12"]) is None
        True
    """

    decimal: str
    unit: str
    example: str = ""

    def __post_init__(self) -> None:
        if self.decimal not in MARKS or not all(
            isinstance(text, str) for text in (self.unit, self.example)
        ):
            raise ValueError(
                "Expected '.' or ',' as the decimal mark, and a unit. "
                f"Got {self.decimal!r} and {self.unit!r}."
            )

    @classmethod
    def of(cls, values: Iterable[Any]) -> "Writing | None":
        """The way that all texts among ``values`` are written, None where there is not one.

        "1,250" and "1.250 €" are a thousand and more where nothing in the column says otherwise.
        """
        texts = [value for value in values if isinstance(value, str)]
        found = [_divided(text) for text in texts]
        units = {parts[2] for parts in found if parts is not None}
        if not texts or None in found or len(units) > 1:
            return None
        both = [cls(mark, next(iter(units))) for mark in MARKS]
        said = {text: [each.number(text) for each in both] for text in texts}
        fitting = [None not in {ones[place] for ones in said.values()} for place in (0, 1)]
        if not any(fitting):
            return None
        telling = [text for text, (point, comma) in said.items() if point != comma]
        if all(fitting):
            is_comma = bool(both[0].unit and telling) and all("." in text for text in telling)
        else:
            is_comma = fitting[1]
            telling = [text for text in telling if None in said[text]]
        return replace(both[is_comma], example=(telling or texts)[0])

    @classmethod
    def of_most(cls, values: Iterable[Any]) -> "Writing | None":
        """The way in which most of those among ``values`` are written that are numbers for people.

        None where there are no others than plain ones, or more than one way beside the unit.
        """
        divided = {text: _divided(text) for text in values if isinstance(text, str)}
        units = Counter(parts[2] for parts in divided.values() if parts is not None)
        unit = max(units, key=lambda unit: units[unit], default="")
        written = [text for text, parts in divided.items() if parts and parts[2] in (unit, "")]
        is_plain = all(number(text) is not None for text in written)
        return None if is_plain else cls.of(written)

    @classmethod
    def certain(cls, values: np.ndarray) -> "Writing | None":
        """The way that numbers without unit are written, where they can be read in no other way.

        "33,5" can, "1,250" cannot; None too where all are plain numbers.
        """
        if values.dtype.kind != "O":
            return None
        texts = [*dict.fromkeys(each for each in values.tolist() if isinstance(each, str))]
        writing = None if all(number(text) is not None for text in texts) else cls.of(texts)
        if writing is None or writing.unit:
            return None
        other = cls("." if writing.decimal == "," else ",", "")
        return writing if other.number(writing.example) is None else None

    @property
    def is_guess(self) -> bool:
        """Whether points are taken for thousands and nothing shows that: "1.250 €" alone.

        Nobody writes three decimals behind a comma in every row, so that "$1,250" is no guess.
        """
        point, comma = (Writing(mark, self.unit).number(self.example) for mark in MARKS)
        return self.decimal == "," and None not in (point, comma) and point != comma

    def number(self, value: Any) -> float | None:
        """``value`` as a float, NaN where it is missing, None where it is written otherwise."""
        plain = number(value)
        if not isinstance(value, str) or (plain is not None and self.decimal == "."):
            return plain
        parts = _divided(value)
        if parts is None or parts[2] not in (self.unit, ""):
            return None
        sign, digits, _ = parts
        if not MARKS[self.decimal].fullmatch(digits):
            return None
        whole, _, fraction = digits.partition(self.decimal)
        return float(f"{sign}{re.sub(r'[^0-9]', '', whole)}.{fraction or '0'}")


def tell_guesses(writings: Iterable[tuple[str, Writing | None]]) -> None:
    """Warn of thousands that are a guess, by the names of their columns."""
    guesses = [
        f"{writing.example!r} in {name!r} is read as {text_of(writing.number(writing.example))}"
        for name, writing in writings
        if writing is not None and writing.is_guess
    ]
    if guesses:
        warnings.warn(
            f"{'; '.join(guesses)}. Where it is not, make the column numbers.",
            UserWarning,
            stacklevel=5,
        )


def _divided(text: str) -> tuple[str, str, str] | None:
    """The sign, digits with their marks, and unit of a number; None for other text."""
    found = WRITTEN.fullmatch(text.strip())
    if found is None or (found[2] and found[5]) or (found[1] and found[3]):
        return None
    is_negative = (found[1] or found[3]) in ("-", "−")
    return "-" * is_negative, found[4].strip(), found[2] or found[5] or ""
