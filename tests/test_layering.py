"""A file imports only from files above it in the list that CONTRIBUTING.md shows."""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "torchsparcs"


def test_imports_point_up_the_list():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    listed = re.findall(r"^  (\w+)(?:\.py|/)  ", text, flags=re.MULTILINE)
    rooms = {path.stem: [path] for path in SOURCE.glob("*.py") if path.stem != "__init__"}
    rooms |= {path.parent.name: [*path.parent.glob("*.py")] for path in SOURCE.glob("*/*.py")}
    assert set(listed) == set(rooms)
    for name in listed:
        above = set(listed[: listed.index(name)]) | ({name} if len(rooms[name]) > 1 else set())
        for path in rooms[name]:
            imported = _imported(path)
            assert imported <= above, f"{path.name} of {name} imports {imported - above}"


def _imported(path: Path) -> set[str]:
    """The rooms of the house that a file imports from."""
    return {
        part
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torchsparcs")
        for part in (
            [alias.name for alias in node.names]
            if node.module == "torchsparcs"
            else [node.module.split(".")[1]]
        )
    }


def test_importing_loads_torch_and_little_else():
    """A twentieth of a second beyond torch, nearly all of it our own files."""
    code = (
        "import sys, torch; before = {*sys.modules}; import torchsparcs\n"
        "print(*{*sys.modules} - before)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = run.stdout.split()
    homes = {name.split(".")[0] for name in loaded} - {*sys.stdlib_module_names}
    assert homes == {"torchsparcs", "safetensors"}  # of torch too no more than it loads itself
    for later in ("estimators", "experiments", "report.page", "console", "cli"):
        assert f"torchsparcs.{later}" not in loaded
