"""Names from the data in generated code: whatever they hold, they are names, texts and comments."""

import json
import re
import unicodedata

from torchsparcs.files.visible import visible

LONGEST_IDENTIFIER = 40  # characters: with prefixes less than the 63 that C tells apart
LONGEST_TEXT = 1000  # bytes of a text in C, whose compilers need not take more than 4095
COMMENT_MARKS = re.compile(r"\*(?=/)|/(?=\*)|<(?=/)|\?(?=\?)")  # and trigraphs


class Identifiers:
    """Identifiers that are made of texts, each of them once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def made(self, prefix: str, text: str) -> str:
        """``prefix`` and what ASCII has of ``text``, in capitals, with a number if that is taken.

        >>> identifiers = Identifiers()
        >>> [identifiers.made("IN_", text) for text in ("città (km²)", "citta km2", "湿度", "int")]
        ['IN_CITTA_KM2', 'IN_CITTA_KM2_2', 'IN_X', 'IN_INT']
        """
        name = first = prefix + identifier(text).upper()
        count = 1
        while name in self._taken:
            count += 1
            name = f"{first}_{count}"
        self._taken.add(name)
        return name


def identifier(text: str) -> str:
    """Letters, digits and underscores of ``text``, "x" where there are none."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^0-9A-Za-z]+", "_", plain).strip("_")[:LONGEST_IDENTIFIER].rstrip("_") or "x"


def commented(text: str) -> str:
    """``text`` as a comment of any language may have it, on one line.

    >>> print(commented("evil */ #include /* what??/"))
    evil * / #include / * what? ?/
    """
    return COMMENT_MARKS.sub(lambda mark: f"{mark[0]} ", visible(text))


def c_text(text: str) -> str:
    r"""``text`` as a string of C, in UTF-8, a long one cut.

    >>> print(c_text('"so"\\ città??'))
    "\"so\"\\ citt\303\240\?\?"
    """
    content = text.encode("utf-8", "replace")
    if len(content) > LONGEST_TEXT:
        content = content[:LONGEST_TEXT].decode("utf-8", "ignore").encode() + b"..."
    return '"' + "".join(map(_c_byte, content)) + '"'


def _c_byte(byte: int) -> str:
    character = chr(byte)
    if character in '"\\?':
        return f"\\{character}"
    return character if 32 <= byte < 127 else f"\\{byte:03o}"


def python_text(text: str) -> str:
    """``text`` as a string of Python, in ASCII."""
    return ascii(text)


def javascript_text(text: str) -> str:
    """``text`` as a string of JavaScript, in ASCII, on a page as in a file."""
    return json.dumps(text).replace("</", "<\\/")
