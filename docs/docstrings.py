"""From docstrings as they are written here to Markdown, while the site is built."""

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"^( *)>>> .*\n(?:\1\S.*\n?)*", flags=re.MULTILINE)
FLAGS = re.compile(r" *# doctest: .*")
ROLE = re.compile(r":(?:func|class|meth|data|attr):`([\w.]+)`")
SHARED = re.compile(r"^( {4,})(\w+(?:, \w+)+): (.*(?:\n\1 +\S.*)*)", flags=re.MULTILINE)


class Docstrings(griffe.Extension):
    """Doctests in fences, roles as links, and what is said of several parameters said of each."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        public = {name for name, member in pkg.members.items() if member.is_alias}
        for part in _inside(pkg):
            if part.docstring is not None:
                text = SHARED.sub(_of_each, part.docstring.value)
                text = ROLE.sub(lambda role: _link(role[1], public), text)
                part.docstring.value = DOCTEST.sub(_fenced, text)


def _inside(part: griffe.Object) -> list[griffe.Object]:
    members = [found for found in part.members.values() if not found.is_alias]
    return [part, *(inner for found in members for inner in _inside(found))]


def _of_each(shared: re.Match) -> str:
    indent, names, text = shared.groups()
    return "\n".join(f"{indent}{name}: {text}" for name in names.split(", "))


def _link(name: str, public: set[str]) -> str:
    """To the reference where ``name`` is public."""
    name = name.removeprefix("torchsparcs.")
    if name.split(".")[0] not in public:
        return f"`{name}`"
    return f"[`{name}`][torchsparcs.{name}]"


def _fenced(doctest: re.Match) -> str:
    indent, text = doctest[1], FLAGS.sub("", doctest[0].rstrip("\n"))
    return f"{indent}```pycon\n{text}\n{indent}```\n"
