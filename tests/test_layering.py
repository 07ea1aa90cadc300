"""The rooms of the house: imports point up the list that CONTRIBUTING.md shows."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import torchsparcs

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "torchsparcs"
# Doors upwards, inside a function: a result shows itself on a page, which is made of results.
DOORS = {("results", "report")}
FILES = sorted(
    path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem[0] != "_"
)


def _rooms() -> list[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return re.findall(r"^  (\w+)(?:\.py|/) ", text, flags=re.MULTILINE)


def _imported(path: Path) -> dict[str, bool]:
    """The rooms that a file imports from, and whether at its top."""
    tree = ast.parse(path.read_text())
    rooms: dict[str, bool] = {}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "torchsparcs":
            names = [f"torchsparcs.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "."]
        for name in names:
            first, _, rest = name.partition(".")
            if first in ("torchsparcs", ""):
                room = rest.split(".")[0]
                rooms[room] = rooms.get(room, False) or node in tree.body
    return rooms


def test_the_list_names_every_room():
    places = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert {*_rooms()} == places - {"__init__", "__main__", "__pycache__", "py"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_up_the_list(path):
    """Between rooms; ``import torchsparcs``, which leads everywhere, is nobody's."""
    rooms, room = _rooms(), path.relative_to(SOURCE).parts[0].removesuffix(".py")
    above = {*rooms[: rooms.index(room) + 1]}
    for other, is_at_top in _imported(path).items():
        assert other in above or ((room, other) in DOORS and not is_at_top)


def test_a_room_says_what_it_is_for_and_what_others_may_use():
    for path in SOURCE.glob("*/__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            module = (getattr(node, "module", None) or "").split(".")
            if len(module) != 3 or module[0] != "torchsparcs" or module[1] in path.parts:
                continue
            if module[1] in ("report", "command", "experiments"):  # the upper floors
                continue
            room = importlib.import_module(f"torchsparcs.{module[1]}")
            assert module[2] in room.__all__, f"{path} uses {'.'.join(module)}"


def test_the_public_names_are_those_that_type_checkers_see():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    (seen,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in seen.body if isinstance(node, ast.ImportFrom)]
    names: dict[str, set[str]] = {}
    for node in imports:
        home = names.setdefault(node.module.removeprefix("torchsparcs."), set())
        home |= {alias.name for alias in node.names if alias.asname == alias.name}
    assert names == {home: {*names} for home, names in torchsparcs.HOMES.items()}
    for name in torchsparcs.__all__:
        assert getattr(torchsparcs, name) is not None


def test_importing_loads_what_is_asked_for():
    """``import torchsparcs`` loads nothing; a network loads torch and little else."""
    code = (
        "import sys, torchsparcs; print('torch' in sys.modules)\n"
        "import torch; before = {*sys.modules}; torchsparcs.SpectralNetwork; torchsparcs.train\n"
        "print(*{*sys.modules} - before)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    alone, loaded = run.stdout.splitlines()
    assert alone == "False"
    homes = {name.split(".")[0] for name in loaded.split()} - {*sys.stdlib_module_names}
    assert homes == {"torchsparcs", "safetensors"}  # of torch too no more than it loads itself
    later_rooms = "estimators experiments report command judging searching tables"
    for later in later_rooms.split():
        assert f"torchsparcs.{later}" not in loaded.split()


def test_nobody_solves_by_a_driver_that_pivots_by_luck():
    """On a CPU ``lstsq`` by default reads memory that nobody has set: equal calls differ.

    Only gelsd, by singular values, is taken.
    """
    for path in FILES:
        calls = [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        ]
        solvers = [call for call in calls if ast.unparse(call.func).endswith("lstsq")]
        drivers = [{word.arg: ast.unparse(word.value) for word in c.keywords} for c in solvers]
        assert all(one.get("driver") == "'gelsd'" for one in drivers), path
