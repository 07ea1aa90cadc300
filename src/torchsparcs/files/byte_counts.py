"""Numbers of bytes as people write them."""

import re
from typing import Any

UNITS = {"": 1, "b": 1, "kb": 1000, "kib": 1024, "mb": 1000**2, "mib": 1024**2}


def bytes_of(text: Any) -> int:
    """A number of bytes, also of texts such as "2kB", "1.5 KiB" and "256".

    >>> [bytes_of(text) for text in ("256", "2kB", "1.5 KiB", 4096)]
    [256, 2000, 1536, 4096]
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(text).lower(), re.ASCII)
    if isinstance(text, bool) or found is None or found[2] not in UNITS:
        raise ValueError(f"Expected bytes, such as 256, 2kB or 1.5KiB. Got {text!r}.")
    return int(float(found[1]) * UNITS[found[2]])
