"""Write docs/licences.md: what an installation brings along, as the installed packages say it.

python docs/licences.py
"""

import datetime
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HEAD = """# Licences of what is installed

torchsparcs itself is under the MIT licence. Below is what `torchsparcs[{extra}]` needs,
directly or not, as it was installed on {date} on Linux; each package says of itself what
stands here. Made by `python docs/licences.py`.

`constraints.txt` pins what was tested, `requirements.lock` all of this but torch, with hashes.
Known weaknesses of what you have installed are listed by
[pip-audit](https://pypi.org/project/pip-audit/), which asks a public database:
`pip install pip-audit && pip-audit`.

| package | version | licence |
| --- | --- | --- |
"""


def brought_along(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> None:
    """Add ``name`` and everything that it needs here to ``seen``."""
    known = (canonicalize_name(name), extras)
    if known in seen:
        return
    try:
        needed = distribution(name).requires or []
    except PackageNotFoundError:  # an extra that is not installed
        return
    seen.add(known)
    for requirement in map(Requirement, needed):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": each}) for each in extras | {""}):
            brought_along(requirement.name, frozenset(requirement.extras), seen)


def licence(name: str) -> str:
    """The expression, the classifiers or the first line of the text that a package declares."""
    facts = distribution(name).metadata
    kinds = [
        each.split(" :: ")[-1] for each in facts.get_all("Classifier", []) if "License" in each
    ]
    lines = (facts.get("License") or "").strip().splitlines()
    found = facts.get("License-Expression") or ", ".join(kinds) or next(iter(lines), "not declared")
    return found.replace("|", "/")


def main(extra: str = "test") -> None:
    seen: set[tuple[str, frozenset[str]]] = set()
    brought_along("torchsparcs", frozenset({extra}), seen)
    names = sorted({name for name, _ in seen} - {"torchsparcs"})
    rows = (f"| {name} | {distribution(name).version} | {licence(name)} |" for name in names)
    head = HEAD.format(extra=extra, date=datetime.datetime.now(datetime.UTC).date())
    path = Path(__file__).with_name("licences.md")
    path.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
