"""Generated code answers as the network does, whatever the names and the numbers."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from generated import (
    STRICT,
    compiled,
    has,
    run_c,
    run_javascript,
    run_micropython,
    run_python,
)
from simulated import SIMULATORS, needs, run_on

from torchsparcs import (
    CompactNetwork,
    SpectralNetwork,
    quantize,
    to_c,
    to_javascript,
    to_python,
)
from torchsparcs.export.blocks import FORMS
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.export.folding import PARTS, program_of
from torchsparcs.export.formats import CODE, FORMATS
from torchsparcs.spectral.activations import ACTIVATIONS
from torchsparcs.tables import dates
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

ROWS = 120
HOSTILE = (
    *("int", "*/ int x; /*", "città", "a\nb", "x" * 300, "what??/", '"', "\\", "\u202e", "湿度"),
    *("", "2 fast", "a b", "a-b", "__class__", "${x}", "</script>", "{{ x }}", "%d"),
)
needs_gcc = pytest.mark.skipif(not has("gcc"), reason="no gcc")


@dataclass
class Case:
    """A network, the rows that its code takes, and its answers to them."""

    network: object
    rows: np.ndarray
    answers: np.ndarray


def drawn(widths, connections, **options) -> CompactNetwork:
    network = CompactNetwork(widths, connections, **options)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return network


def gappy(seed=0) -> pd.DataFrame:
    """Every kind of column, with gaps in some; a name that comes far from zero."""
    draw = np.random.default_rng(seed)
    level = pd.Categorical(draw.choice(["low", "mid", "high"], ROWS), ["low", "mid", "high"], True)
    many = [f"town {place}" for place in draw.integers(0, 50, ROWS)]
    table = pd.DataFrame(
        {
            "city": draw.choice(["Rome", "Oslo", "Bern"], ROWS),
            "a": draw.normal(size=ROWS),
            "far": draw.normal(40_000, 20, ROWS).astype(np.float32).astype(float),
            "two": draw.choice(["yes", "no"], ROWS),
            "day": pd.date_range("2023-01-01", periods=ROWS, freq="31h"),
            "level": level,
            "town": many,
            "b": draw.normal(5, 2, ROWS),
        }
    )
    for name in ("a", "city", "day"):
        table.loc[draw.random(ROWS) < 0.2, name] = None
    return table


def deployed_for(table: pd.DataFrame, y, activation="relu") -> DeployedNetwork:
    preprocessing = Preprocessing(Inputs.fit(table), Target.fit(y))
    widths = [len(preprocessing.inputs.encoded_names), 5, preprocessing.target.outputs]
    network = drawn(widths, [(1, 0), (2, 1), (2, 0)], activation=activation)
    return DeployedNetwork(network, preprocessing, ["R² 0.5, found by */ somebody"])


def of_table(table: pd.DataFrame, y, activation="relu") -> Case:
    deployed = deployed_for(table, y, activation)
    target = deployed.preprocessing.target
    with torch.no_grad():
        raw = deployed.network(deployed.preprocessing.inputs.transform(table))
    if target.classes is None:
        values, outputs = target.predict(raw).reshape(len(table), -1), target.in_units(raw)
        assert (values != outputs).any()  # some end at the bounds
        answers = np.concatenate([outputs, values], axis=1)
    else:
        shares = target.probabilities(raw)
        answers = np.column_stack([raw, shares.argmax(axis=1), shares])
    return Case(deployed, program_of(deployed).rows(table), answers)


def of_network(network: CompactNetwork) -> Case:
    rows = torch.randn(ROWS, network.widths[0], generator=torch.Generator().manual_seed(1))
    output = network(rows).detach().numpy()
    return Case(network, program_of(network).rows(rows), np.concatenate([output, output], axis=1))


def sparse(widths, share=0.15, **options) -> CompactNetwork:
    """With few of the weights in each of its blocks."""
    draw = np.random.default_rng(0)
    pairs = [(1, 0), (2, 0), (2, 1)]
    sizes = {f"{t}_{s}": widths[t] * (widths[s] + 1) for t, s in pairs}
    kept = {
        name: np.flatnonzero(draw.random(size) < share).tolist() for name, size in sizes.items()
    }
    return drawn(widths, pairs, kept=kept, **options)


def hostile_table() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    table = pd.DataFrame(draw.normal(size=(ROWS, len(HOSTILE))), columns=[*HOSTILE])
    return table.assign(text=draw.choice(HOSTILE, ROWS))


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    torch.manual_seed(0)
    table = gappy()
    number = table["b"] * 3 + 900
    constant = drawn([3, 1], [(1, 0)])
    torch.nn.init.zeros_(constant.block(1, 0).weight)
    return {
        "binary": of_table(table, np.where(table["b"] > 5, "passes", "fails")),
        "classes": of_table(table, np.arange(ROWS) % 4),
        "value": of_table(table, number),
        "values": of_table(table, pd.DataFrame({"u": number, "v": -number / 7})),
        "linear": of_table(table[["city", "b"]], number, activation="identity"),
        "texts": of_table(table[["city", "two"]], np.arange(ROWS) % 2 > 0),
        "hostile": of_table(hostile_table(), np.resize([name for name in HOSTILE if name], ROWS)),
        "sparse": of_network(sparse([40, 12, 3])),
        "wide": of_network(sparse([700, 6, 2], share=0.03)),
        "deep": of_network(drawn([4, 3, 3, 2], [(1, 0), (2, 1), (3, 2), (3, 0)])),
        "some": of_network(drawn([9, 3, 2], [(1, 0), (2, 1)], reads=[1, 5, 6], biased=[1])),
        "constant": of_network(constant),
        **{
            f"f_{name}": of_network(drawn([4, 6, 1], [(1, 0), (2, 1), (2, 0)], activation=name))
            for name in ACTIVATIONS
        },
    }


@pytest.fixture(scope="module")
def folder(cases, tmp_path_factory) -> Path:
    """With all cases in all languages."""
    folder = tmp_path_factory.mktemp("code")
    for name, case in cases.items():
        for format, write in CODE.items():
            write(case.network, folder / f"{name}{FORMATS[format][0]}")
    return folder


@pytest.fixture(scope="module")
def host(cases, folder) -> Path:
    return compiled(folder, [*cases])


def assert_equal(got: np.ndarray, expected: np.ndarray, case: str) -> None:
    size = np.abs(expected).max()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * size, err_msg=case)


@needs_gcc
def test_c_equals_the_network(cases, host):
    for name, case in cases.items():
        assert_equal(run_c(host, name, case.rows), case.answers, name)


@pytest.mark.parametrize("chip", SIMULATORS)
def test_chips_answer_as_the_network_does(chip, cases, folder):
    needs(chip)
    for name in cases.keys() - {"wide"}:  # it has more numbers than an AVR has memory for
        case = cases[name]
        got = run_on(chip, folder, name, case.rows[:8])
        assert_equal(got, case.answers[:8, : got.shape[1]], name)


def test_python_equals_the_network(cases, folder):
    for name, case in cases.items():
        assert_equal(run_python(folder / f"{name}.py", case.rows), case.answers, name)


@pytest.mark.skipif(not has("micropython"), reason="no MicroPython")
def test_micropython_equals_the_network(cases, folder):
    rows = {name: case.rows for name, case in cases.items()}
    rows["classes"], _ = strays(cases["classes"], "infinite")
    answers = run_micropython(folder, rows)
    assert_equal(answers.pop("classes"), run_python(folder / "classes.py", rows["classes"]), "")
    for name, got in answers.items():
        assert_equal(got, cases[name].answers, name)


@pytest.mark.skipif(not has("node"), reason="no Node")
def test_javascript_equals_the_network(cases, folder):
    answers = run_javascript(folder, {name: case.rows for name, case in cases.items()})
    for name, case in cases.items():
        assert_equal(answers[name], case.answers, name)


@pytest.mark.parametrize("command", [("clang", "-std=c99"), ("g++", "-std=c++11", "-x", "c++")])
def test_other_compilers_have_nothing_to_say(command, host, folder):
    if not has(command[0]):
        pytest.skip(f"no {command[0]}")
    options = ("-fsyntax-only", *STRICT)
    subprocess.run([*command, *options, folder / "host.c"], check=True, timeout=60)


@needs_gcc
def test_a_compiler_that_forgets_nan_is_refused(host, folder):
    command = ["gcc", "-ffast-math", "-fsyntax-only", folder / "host.c"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert said.returncode
    assert "Expected a compiler that keeps NaN" in said.stderr


def test_the_kinds_of_columns_are_all_there(cases):
    program = program_of(cases["classes"].network)
    fields = {field.name: field for field in program.fields}
    assert [*fields][:4] == ["city", "a", "far", "two"]
    assert fields["city"].texts == ("Bern", "Oslo", "Rome")
    assert fields["city"].missing == 3
    assert fields["level"].texts == ("low", "mid", "high")
    assert not fields["level"].is_code
    assert fields["town"].other == len(fields["town"].texts) > 0
    assert "day: days since 2000" in fields
    assert program.indicators
    assert program.is_scattered
    assert {*PARTS} | {*dates.WEEKDAYS} == {*dates.PARTS}
    networks = [program_of(case.network) for case in cases.values()]
    blocks = [block for each in networks for layer in each.layers for block in layer.blocks]
    assert {block.form for block in blocks} == {*FORMS}


def test_what_is_not_read_is_not_asked_for(cases, tmp_path):
    network = cases["some"].network
    assert [field.name for field in program_of(network).fields] == ["x1", "x5", "x6"]
    to_c(network, tmp_path / "some.h")
    assert "#define SOME_IN_X5 1\n" in (tmp_path / "some.h").read_text()


def strays(case: Case, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows with numbers and codes that are none, and rows that count as the same."""
    fields = program_of(case.network).fields
    given, same = case.rows[:40].copy(), case.rows[:40].copy()
    for place, field in enumerate(fields):
        if kind == "infinite":
            given[::3, place], same[::3, place] = np.inf, np.nan
            given[1::3, place], same[1::3, place] = -np.inf, np.nan
        elif field.is_code:
            count = len(field.texts)
            given[:, place] = np.resize([count, -1, 0.5, 1e30, -3e38], 40)
            same[:, place] = count if field.other >= 0 else -1
    return given, same


@needs_gcc
@pytest.mark.parametrize("kind", ["infinite", "unknown"])
def test_strays_do_what_the_comment_says(kind, cases, host, folder):
    given, same = strays(cases["classes"], kind)
    assert not np.array_equal(given, same, equal_nan=True)
    expected = run_c(host, "classes", same)
    np.testing.assert_array_equal(run_c(host, "classes", given), expected)
    np.testing.assert_allclose(run_python(folder / "classes.py", given), expected, rtol=1e-4)
    if has("node"):
        answers = run_javascript(folder, {"classes": given})["classes"]
        np.testing.assert_allclose(answers, expected, rtol=1e-4)


@needs_gcc
def test_a_code_that_is_a_number_is_known_or_missing(cases, host, folder):
    """In Python and JavaScript, where -1 is what a text that is not there has; C takes it as is."""
    ranked = program_of(cases["classes"].network).ranked
    assert {*ranked.values()} == {2, 3}
    given, same = cases["classes"].rows[:40].copy(), cases["classes"].rows[:40].copy()
    for place, count in ranked.items():
        given[:, place], same[:, place] = np.resize([-1, count, 0.5, 1e30], 40), np.nan
    expected = run_c(host, "classes", same)
    np.testing.assert_allclose(run_python(folder / "classes.py", given), expected, rtol=1e-4)
    if has("node"):
        answers = run_javascript(folder, {"classes": given})["classes"]
        np.testing.assert_allclose(answers, expected, rtol=1e-4)
    assert (run_c(host, "classes", given) != expected).any(axis=1).all()
    for ending, words in (
        (".h", "NaN is neither, another number is taken as it is"),
        (".h", "in the order; NaN is none of them, another number is taken as it is"),
        (".py", '1 "yes"; any other number is neither'),
        (".mjs", '1 "yes"; any other number is neither'),
    ):
        text = (folder / f"classes{ending}").read_text()
        assert words in " ".join(text.replace("\n *", " ").split())


@needs_gcc
def test_whatever_the_bits_there_is_an_answer(cases, host):
    """And the sanitizers have nothing to say."""
    draw = np.random.default_rng(0)
    for name in ("binary", "classes", "texts"):
        shape = (1000, cases[name].rows.shape[1])
        bits = draw.integers(0, 2**32, shape, dtype=np.uint32).view(np.float32)
        chosen = run_c(host, name, bits)[:, cases[name].network.preprocessing.target.outputs]
        assert len(chosen) == 1000
        assert {*chosen} <= {0, 1, 2, 3}


@needs_gcc
def test_a_bare_network_answers_nan_with_nan(cases, host, folder):
    rows = cases["deep"].rows[:3].copy()
    rows[0] = np.nan
    for answers in (run_c(host, "deep", rows), run_python(folder / "deep.py", rows)):
        assert np.isnan(answers[0]).all()
        assert np.isfinite(answers[1:]).all()


def test_the_comment_says_what_goes_in_and_what_comes_out(folder):
    text = (folder / "classes.h").read_text()
    comment = text[: text.index("#ifndef")]
    for line in (
        'x[0] "city": 0 "Bern", 1 "Oslo", 2 "Rome"; any other number is none of them; NaN is',
        '"day: days since 2000": days since 2000-01-01 00:00, with a fraction',
        "any other number is 'other'",
        'The network is told where "a", "day: days since 2000" is missing.',
        'It gives the class of "y": 0 "0", 1 "1", 2 "2", 3 "3".',
        "R² 0.5, found by * / somebody",
    ):
        assert line in " ".join(comment.replace("\n *", " ").split())
    assert "static const char *const classes_classes[CLASSES_CLASSES]" in text


def test_the_same_network_is_the_same_file(cases, folder, tmp_path):
    for format, write in CODE.items():
        name = f"hostile{FORMATS[format][0]}"
        write(cases["hostile"].network, tmp_path / name)
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_what_has_no_program_is_refused(cases, tmp_path):
    far = deployed_for(gappy()[["a", "b"]] * 1e-300, np.arange(ROWS) % 2)
    for network, message in (
        (SpectralNetwork([3, 2]), r"extract\(\) makes one of a SpectralNetwork\. Got Spectral"),
        (torch.nn.Linear(3, 2), "Got Linear"),
        (drawn([3, 2], [(1, 0)], activation=torch.sin), "activation by its name.*Got sin"),
        (far, "weights that float32 can hold"),
    ):
        for write in CODE.values():
            with pytest.raises(ValueError, match=message):
                write(network, tmp_path / "network")
    quantized = quantize(cases["deep"].network, torch.randn(20, 4))
    for write in (to_python, to_javascript):
        with pytest.raises(ValueError, match="Expected C for a network of int8"):
            write(quantized, tmp_path / "network")
    assert not [*tmp_path.iterdir()]
