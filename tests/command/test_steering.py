"""Control characters from a table, its labels or its name reach neither terminal nor page."""

import io
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from shell import sparcs

from torchsparcs.command.messages import one_line_warnings, tell
from torchsparcs.files.visible import STEERING

pytestmark = pytest.mark.usefixtures("brief_searches")
QUICK = ("--steps", "20", "--widths", "4", "--penalty-weights", "0.01", "--validation", "2")
RED, TURNED, TITLE = "\x1b[31m", "\u202e", "\x9d0;title\x07"
RAW = (RED[0], TURNED, TITLE[0], TITLE[-1], "\u2066", "\x7f")


def assert_harmless(text: str) -> None:
    assert not [character for character in RAW if character in text]
    assert not STEERING.search(text.replace("\n", ""))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("steering")
    table, run = folder / f"a{RED}\n{TURNED}.parquet", folder / f"run{RED}{TITLE}\n"
    x = np.random.default_rng(0).normal(size=(80, 2))
    kinds = np.where(x[:, 0] > 0, f"yes{RED}{TURNED}", f"no\n{TITLE}\u2066\x7f")
    columns = {f"a{RED}": x[:, 0], f"b{TITLE}\n": x[:, 1], f"c{TURNED}": 1.0}
    pd.DataFrame({**columns, f"t{RED}\n": kinds}).to_parquet(table)
    done = sparcs("search", table, "--target", f"t{RED}\n", "--out", run, *QUICK)
    assert done.code == 0, done.err
    return table, run, done


def test_what_a_search_prints(outcome):
    _, run, done = outcome
    shown = sparcs("show", run)
    for text in (done.out, done.err, shown.out, shown.err):
        assert_harmless(text)
    assert r"a\x1b[31m\x0a\u202e.parquet: 80 rows" in done.out
    assert r"run\x1b[31m\x9d0;title\x07\x0a:" in done.out


def test_errors_and_warnings(outcome, capsys):
    table, run, _ = outcome
    missing = sparcs("predict", run, table.with_name(f"none{RED}{TURNED}.csv"))
    assert (missing.code, missing.err.count("\n")) == (1, 1)
    assert_harmless(missing.err)
    assert r"none\x1b[31m\u202e.csv" in missing.err
    with one_line_warnings():
        warnings.warn(f"of {RED}", UserWarning, stacklevel=1)
    assert r"of \x1b[31m" in capsys.readouterr().err


def test_the_page(outcome):
    source = (outcome[1] / "report.html").read_text(encoding="utf-8")
    assert_harmless(source)
    facts = source.split('id="facts">')[1].split("</script>")[0]
    assert r"a\\x1b[31m\\x0a\\u202e.parquet" in facts
    assert r"yes\\x1b[31m\\u202e" in facts


def test_a_program_gets_what_there_is_and_a_terminal_what_can_be_seen(outcome, monkeypatch):
    table, run, _ = outcome
    printed = sparcs("predict", run, table)
    assert RED in printed.out
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stdout", stream)
    for text in (f"one{RED}\ntwo", f"one{RED}\ntwo".encode()):
        tell(text)
    assert stream.getvalue() == "one\\x1b[31m\ntwo\n" * 2
