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
    listed = re.findall(r"^  (\w+)\.py  ", text, flags=re.MULTILINE)
    files = {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    assert set(listed) == files
    for name in listed:
        tree = ast.parse((SOURCE / f"{name}.py").read_text())
        imported = {
            part
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torchsparcs")
            for part in (
                [alias.name for alias in node.names]
                if node.module == "torchsparcs"
                else [node.module.split(".")[1]]
            )
        }
        above = set(listed[: listed.index(name)])
        assert imported <= above, f"{name}.py imports {imported - above}"


def test_importing_loads_torch_and_little_else():
    heavy = ["sklearn", "pandas", "onnx", "onnxruntime", "onnxscript", "typer", "matplotlib"]
    code = f"import sys, torchsparcs; print(*({{*{heavy}}} & {{*sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
