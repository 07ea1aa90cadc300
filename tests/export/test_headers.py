"""Headers of C beside each other, and for C++."""

import subprocess

import numpy as np
import pandas as pd
import pytest
from generated import STRICT, compiled, has, run_c

from torchsparcs import CompactNetwork, to_c
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.export.folding import program_of
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

ROWS = 40
HOST = """
#include <cstdio>
#include "small.hpp"
int main()
{{
    float x[SMALL_INPUTS];
    for (;;) {{
        for (int i = 0; i < SMALL_INPUTS; i++)
            if (std::scanf("%f", x + i) != 1)
                return 0;
        {answers}
        std::printf("\\n");
    }}
}}
"""
ONE = 'std::printf("%.9g ", static_cast<double>(small_network::{}(x)));'
SEVERAL = 'for (float y : small_network::{}(x).of) std::printf("%.9g ", static_cast<double>(y));'
ANSWERS = {
    "classes": [SEVERAL.format("outputs"), ONE.format("predict"), SEVERAL.format("predict_proba")],
    "value": [SEVERAL.format("outputs"), ONE.format("predict")],
    "values": [SEVERAL.format("outputs"), SEVERAL.format("predict")],
}


def deployed(kind: str) -> DeployedNetwork:
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(ROWS, 3))).add_prefix("x")
    number = table["x0"] * 3
    targets = {
        "classes": np.arange(ROWS) % 3,
        "value": number,
        "values": pd.DataFrame({"u": number, "v": -number}),
    }
    preprocessing = Preprocessing(Inputs.fit(table), Target.fit(targets[kind]))
    widths = [3, 4, preprocessing.target.outputs]
    return DeployedNetwork(CompactNetwork(widths, [(1, 0), (2, 1)]), preprocessing)


@pytest.mark.skipif(not (has("gcc") and has("g++")), reason="no gcc, or no g++")
@pytest.mark.parametrize("kind", ANSWERS)
def test_cpp_is_wrapped_where_it_is_asked_for(kind, tmp_path):
    network = deployed(kind)
    to_c(network, tmp_path / "small.h")
    to_c(network, tmp_path / "small.hpp")
    assert "small_network" not in (tmp_path / "small.h").read_text()
    rows = np.random.default_rng(1).normal(size=(ROWS, len(program_of(network).fields)))
    expected = run_c(compiled(tmp_path, ["small"]), "small", rows.astype(np.float32))
    source = HOST.format(answers="\n".join(ANSWERS[kind]))
    (tmp_path / "host.cpp").write_text(source)
    command = ["g++", "-std=c++11", *STRICT, "host.cpp", "-o", "wrapped"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    got = run_c(tmp_path / "wrapped", "small", rows.astype(np.float32))
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    (tmp_path / "host.cpp").write_text(source.replace("_INPUTS];", "_INPUTS + 1];"))
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "invalid initialization of reference" in said.stderr


@pytest.mark.skipif(not has("gcc"), reason="no gcc")
def test_two_networks_of_one_name_are_refused(tmp_path):
    """Names are cut, and the second header would else be skipped without a word."""
    first, second = (CompactNetwork([2, 1], [(1, 0)]) for _ in range(2))
    for name, network in {"inside": first, "outside": second, "again": first}.items():
        to_c(network, tmp_path / f"temperature_of_a_room_{name}.h")

    def said_of(*names):
        lines = [f'#include "temperature_of_a_room_{name}.h"\n' for name in names]
        (tmp_path / "main.c").write_text("".join(lines))
        command = ["gcc", "-fsyntax-only", tmp_path / "main.c"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stderr

    assert "names begin with temperature_of_a_roo_. Got two" in said_of("inside", "outside")
    assert said_of("inside", "again") == ""


def test_names_begin_with_that_of_the_file(tmp_path):
    network = CompactNetwork([2, 1], [(1, 0)])
    for name, prefix in (("2 fast.h", "m2_fast"), ("温度.h", "x"), ("A-b.h", "a_b")):
        to_c(network, tmp_path / name)
        assert f"float {prefix}_predict(" in (tmp_path / name).read_text()
