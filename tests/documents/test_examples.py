"""The examples run, are short, and what they print is what they promise."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGEST = 50  # lines
# Whoever runs a deployed network need not have any of these.
ABSENT = ("torch", "torchsparcs", "sklearn", "pandas", "safetensors", "onnx")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs an example in a folder of its own; what it prints, and the names it leaves behind."""

    def run(name):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name])
        names = runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out, names

    return run


def numbers(pattern, text):
    """What the group of ``pattern`` finds in ``text``, as numbers."""
    return [float(found.replace(",", "")) for found in re.findall(pattern, text)]


def test_every_example_is_tested_here():
    tested = set(re.findall(r"""['"](\w+\.py)['"]""", Path(__file__).read_text()))
    assert {path.name for path in EXAMPLES.glob("*.py")} <= tested


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_are_short(path):
    assert len(path.read_text().splitlines()) <= LONGEST


def test_the_quickstart_finds_its_teacher(run):
    out, _ = run("quickstart.py")
    assert "what validation needs:  10 → 8 → 4: 124 parameters" in out
    assert numbers(r"validation error (\S+)", out)[0] < 1e-5


def test_a_table_needs_few_of_its_columns(run):
    out, names = run("table.py")
    (score,), (linear,) = (numbers(rf"{who}: (\S+)", out) for who in ("rows", "linear model"))
    assert score > 0.96 > linear + 0.02
    assert {"area", "year"} <= names["needed"] < set(names["X"].columns)
    assert names["small"].network.widths[1:-1]  # a line would not do
    assert len(re.findall(r"\d+\.", out.splitlines()[-1])) == 2


def test_a_head_becomes_small_and_stays_good(run):
    out, names = run("pytorch_head.py")
    trained, extracted = numbers(r"test accuracy (\S+)", out)
    assert min(trained, extracted) > 0.9
    head = names["small"][4]
    assert 0 < head.widths[1] < 40
    assert head.size.parameters < names["model"][4].size.parameters / 3
    assert not any("spectral" in type(part).__name__.lower() for part in names["small"].modules())


def test_blocks_of_a_transformer_become_small_and_say_the_same(run):
    out, _ = run("transformer_block.py")
    before, after = numbers(r"([\d,]+) parameters in the blocks", out)
    assert after < 0.6 * before
    trained, extracted = numbers(r"test accuracy (\S+)", out)
    assert trained > 0.85
    assert abs(trained - extracted) < 0.005
    assert out.count("cut from 16 → 64 → 16") == 2


def test_larger_penalties_recruit_less(run):
    out, names = run("population.py")
    recruited = [int(counts[0]) for counts in names["population"].recruited]
    sums = [sum(recruited[place : place + 3]) for place in range(0, 12, 3)]
    assert sums == sorted(sums)
    assert sums[0] == 0 < sums[-1]
    scores = numbers(r"mean R² (\S+)", out)
    assert scores[0] < 0.1 < 0.99 < scores[-1]
    assert names["small"].widths == (5, 2, 1)  # |x| = 2 max(x, 0) − x: one neuron for each


def test_a_deployed_network_needs_numpy_and_onnxruntime_alone(run, tmp_path):
    run("deployment.py")
    lines = [
        "import runpy, sys",
        f"sys.modules.update(dict.fromkeys({ABSENT!r}))  # to import one of them is an error",
        f"sys.argv = ['', {str(tmp_path)!r}]",
        f"runpy.run_path({str(EXAMPLES / 'deployed.py')!r})",
    ]
    command = [sys.executable, "-W", "error", "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = [line.split()[0] for line in done.stdout.splitlines()]
    assert said == (tmp_path / "expected.csv").read_text().split()
    assert set(said) == {"passes", "fails"}


def test_notebooks_of_the_tutorials_are_those_pages():
    """Their code is run with the pages; here they are compared."""
    writer = runpy.run_path(str(EXAMPLES.parent / "docs" / "notebooks.py"))
    for name in writer["TUTORIALS"]:
        kept = (EXAMPLES / f"{name}.ipynb").read_text()
        assert kept == writer["notebook"](name), "run docs/notebooks.py"
        cells = json.loads(kept)["cells"]
        assert sum(cell["cell_type"] == "code" for cell in cells) > 5
        for link in re.findall(r"\]\((\.\.[^)#]*)", kept):
            assert (EXAMPLES / link).exists(), link


@pytest.mark.parametrize("has_archive", [True, False])
def test_the_notebook_of_the_paper_installs_what_it_needs(tmp_path, monkeypatch, has_archive):
    """On a machine without torchsparcs, from the archive of the repository beside it."""
    first = json.loads((EXAMPLES / "paper.ipynb").read_text())["cells"][1]
    calls: list = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("subprocess.run", lambda command, **options: calls.append(command))
    if not has_archive:
        with pytest.raises(FileNotFoundError, match=r"Expected torchsparcs\.zip beside"):
            exec("".join(first["source"]), {})
        return
    with ZipFile("torchsparcs.zip", "w") as archive:
        archive.writestr("pyproject.toml", "")
    exec("".join(first["source"]), {})
    ((*_, asked),) = calls
    assert asked == f"{tmp_path / 'repository'}[plot]"


def test_the_notebook_of_the_paper(tmp_path, monkeypatch, capsys):
    """Its cells run one after the other, as they would in Jupyter; figures are drawn to nowhere."""
    import matplotlib
    from matplotlib import pyplot as plt

    notebook = json.loads((EXAMPLES / "paper.ipynb").read_text())
    assert notebook["nbformat"] == 4
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: plt.close("all"))
    names: dict = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"]
            exec("".join(cell["source"]), names)
    out = capsys.readouterr().out
    exact = numbers(r"(?m)^.*(?:equation 4\.\d|all at once|off by)\D*? (\d\S*)$", out)
    assert len(exact) == 5
    assert all(error < 1e-4 for error in exact)
    assert "not zero: 41 42 43 and then also 21 31 32\n" in out  # 31 and 32: not in its caption
    assert numbers(r"between the two rules: (\S+)", out)[0] > 0.01
    linear, bent = numbers(r"‖Γ‖ (\S+),", out)
    assert linear < 0.05 * bent
    assert numbers(r"bent: .* error (\S+)", out)[0] < 1e-2
    assert 0 < names["pruned"].recruited[0] < 40
    assert names["smaller"].size.parameters <= names["compact"].size.parameters
