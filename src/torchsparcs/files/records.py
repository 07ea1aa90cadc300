"""Frozen dataclasses of plain values as JSON and back. Data, never code."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Self


class Record:
    """A dataclass whose fields are text, numbers, None, tuples of them, or records again.

    What JSON reads is checked where the values are: in ``__post_init__``.
    """

    # How fields that hold records are read: one record, or a tuple of them.
    nested: ClassVar[dict[str, Callable[[Any], Any]]] = {}

    def to_json(self) -> dict[str, Any]:
        """The fields, by name, as JSON knows them."""
        return {
            field.name: _plain(getattr(self, field.name))
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
        }

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The record that :meth:`to_json` wrote; anything else is a ValueError."""
        try:
            values = {}
            for name, value in data.items():
                read = cls.nested.get(name, lambda value: value)
                values[name] = (
                    tuple(read(item) for item in value) if isinstance(value, list) else read(value)
                )
            return cls(**values)
        except (ArithmeticError, AttributeError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"Expected {cls.__name__} as to_json wrote it. {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_json()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
