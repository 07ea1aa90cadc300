"""Networks as generated code, and hosts that run it: rows of numbers in, rows of answers out.

An answer is the outputs, then what ``predict`` says, then the probabilities of classes.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

STRICT = (
    *("-Wall", "-Wextra", "-Werror", "-pedantic"),
    *("-Wconversion", "-Wsign-conversion", "-Wdouble-promotion", "-Wshadow", "-Wundef"),
)
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
C_CASE = """
#include "{name}.h"
static int {name}(void)
{{
    float x[{P}_INPUTS], y[{P}_OUTPUTS];
    int i;
    for (;;) {{
        for (i = 0; i < {P}_INPUTS; i++)
            if (scanf("%f", x + i) != 1)
                return 0;
        {name}_outputs(x, y);
        for (i = 0; i < {P}_OUTPUTS; i++)
            printf("%.9g ", (double)y[i]);
        {answers}
        printf("\\n");
    }}
}}
"""
C_VALUE = 'printf("%.9g ", (double){name}_predict(x));'
C_VALUES = """{name}_predict(x, y);
        for (i = 0; i < {P}_OUTPUTS; i++)
            printf("%.9g ", (double)y[i]);"""
C_CLASSES = """{{
            float p[{P}_CLASSES];
            {name}_predict_proba(x, p);
            for (i = 0; i < {P}_CLASSES; i++)
                printf("%.9g ", (double)p[i]);
        }}
        (void){name}_classes;"""
NODE = """
import { readFileSync } from "node:fs";
const number = { NaN, Infinity, "-Infinity": -Infinity };
const answers = {};
for (const [name, rows] of Object.entries(JSON.parse(readFileSync(0, "utf8")))) {
  const network = await import(`./${name}.mjs`);
  answers[name] = rows.map((row) => {
    const x = row.map((value) => (value in number ? number[value] : Number(value)));
    const shares = network.predictProba ? network.predictProba(x) : [];
    return [...network.outputs(x), ...[network.predict(x)].flat(), ...shares];
  });
}
console.log(JSON.stringify(answers));
"""
MICROPYTHON = """
import json
answers = {}
for name, rows in json.load(open("rows.json")).items():
    network = __import__(name)
    answers[name] = []
    for row in rows:
        x = [float(word) for word in row]
        answer = network.predict(x)
        several = answer if isinstance(answer, list) else [answer]
        shares = network.predict_proba(x) if hasattr(network, "predict_proba") else []
        answers[name].append([str(value) for value in network.outputs(x) + several + shares])
print(json.dumps(answers))
"""


def c_program(folder: Path, names: list[str]) -> Path:
    """A C file that runs the headers of all ``names``: the one that its argument says."""
    text = "#include <stdio.h>\n#include <string.h>\n"
    for name in names:
        header = (folder / f"{name}.h").read_text()
        answers = C_VALUE if f"{name}_predict(const float *x)" in header else C_VALUES
        answers += C_CLASSES if "_predict_proba(" in header else ""
        words = {"name": name, "P": name.upper()}
        text += C_CASE.format(answers=answers.format(**words), **words)
    text += "int main(int count, char **words)\n{\n    if (count < 2) return 1;\n"
    text += "".join(
        f'    if (strcmp(words[1], "{name}") == 0) return {name}();\n' for name in names
    )
    (folder / "host.c").write_text(text + "    return 1;\n}\n")
    return folder / "host.c"


def compiled(folder: Path, names: list[str]) -> Path:
    """The program of all ``names``, with sanitizers."""
    source = c_program(folder, names)
    command = ["gcc", "-std=c99", *STRICT, *SANITIZED, source, "-o", folder / "host", "-lm"]
    subprocess.run(command, check=True, timeout=120)
    return folder / "host"


def run_c(program: Path, name: str, rows: np.ndarray) -> np.ndarray:
    said = subprocess.run(
        [program, name], input=_text(rows), capture_output=True, text=True, timeout=60
    )
    assert said.returncode == 0, said.stderr
    return np.array([line.split() for line in said.stdout.splitlines()], dtype=float)


def run_python(path: Path, rows: np.ndarray) -> np.ndarray:
    """Without imports: whoever needs one finds none."""
    known = ("ValueError", "abs", "float", "int", "isinstance", "len", "list", "max", "min")
    known += ("range", "sum", "zip")
    builtins = __builtins__ if isinstance(__builtins__, dict) else vars(__builtins__)
    names: dict[str, Any] = {"__builtins__": {name: builtins[name] for name in known}}
    exec(path.read_text(), names)
    answers = []
    for row in rows.tolist():
        answer = names["predict"](row)
        shares = names["predict_proba"](row) if "predict_proba" in names else []
        several = answer if isinstance(answer, list) else [answer]
        answers.append([*names["outputs"](row), *several, *shares])
    return np.array(answers, dtype=float)


def run_micropython(folder: Path, rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    words = {name: [_text(row[None]).split() for row in some] for name, some in rows.items()}
    (folder / "rows.json").write_text(json.dumps(words))
    (folder / "host.py").write_text(MICROPYTHON)
    said = subprocess.run(
        ["micropython", "host.py"], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert said.returncode == 0, said.stdout + said.stderr
    answers = json.loads(said.stdout)
    return {name: np.array(some, dtype=float) for name, some in answers.items()}


def run_javascript(folder: Path, rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    (folder / "host.mjs").write_text(NODE)
    texts = {
        name: [[_javascript_number(value) for value in row] for row in some.tolist()]
        for name, some in rows.items()
    }
    said = subprocess.run(
        ["node", folder / "host.mjs"],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert said.returncode == 0, said.stderr
    return {name: np.array(answers) for name, answers in json.loads(said.stdout).items()}


def has(program: str) -> bool:
    return shutil.which(program) is not None


def _text(rows: np.ndarray) -> str:
    return "\n".join(" ".join(f"{value:.9g}" for value in row) for row in rows.tolist())


def _javascript_number(value: float) -> str:
    return str(value).replace("nan", "NaN").replace("inf", "Infinity")
