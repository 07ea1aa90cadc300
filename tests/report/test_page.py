"""The page as text: what is escaped, allowed and written."""

import base64
import dataclasses
import hashlib
import html
import json
import re

import pytest
from reports import COLUMN, LABEL, chain_result, huge_result, small_result, unjudged_result

import torchsparcs.judging.judgement
import torchsparcs.report
from torchsparcs.report import write_page
from torchsparcs.report.page import page_of


def test_data_are_text():
    content = page_of(small_result("multiclass"))
    assert COLUMN not in content
    assert LABEL not in content
    assert content.count("<script") == content.count("</script>") == 2
    facts = re.search(r'<script type="application/json" id="facts">(.*?)</script>', content)
    assert COLUMN in json.loads(facts[1])["inputs"]
    assert LABEL in json.loads(facts[1])["outputs"]
    assert not re.search(r"[<>&\u2028\u2029]", facts[1])


def test_a_name_cannot_fill_in_for_the_script():
    small = small_result("binary")
    named = dataclasses.replace(small, settings={**small.settings, "data": "{{script}} <b>"})
    content = page_of(named)
    assert "<strong>{{script}} &lt;b&gt;</strong>" in content


def test_only_its_own_script_may_run():
    content = page_of(small_result("binary"))
    policy = html.unescape(re.search(r'Policy" content="([^"]*)"', content)[1])
    own = {}
    for kind in ("script", "style"):
        (part,) = re.findall(rf"<{kind}>(.*?)</{kind}>", content, flags=re.DOTALL)
        own[kind] = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{own['script']}'; "
        f"style-src 'sha256-{own['style']}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    assert not re.search(r"https?://(?!www\.w3\.org)", content)


def test_numbers_that_are_none():
    content = page_of(unjudged_result())
    assert '"score":null,"error":null' in content
    assert "nan" not in content


def test_a_file_is_only_replaced_by_force(tmp_path):
    result, path = small_result("binary"), tmp_path / "new" / "report.html"
    assert result.report(path) == path
    with pytest.raises(ValueError, match=r"a file that is not there yet\. .*report\.html is"):
        result.report(path)
    assert write_page(result, path, force=True) == path
    with pytest.raises(ValueError, match=r"a file to write to\. .* is a folder"):
        result.report(tmp_path)


def test_a_new_result_takes_the_old_page_with_it(tmp_path):
    result = small_result("binary")
    result.save(tmp_path / "run")
    result.report(tmp_path / "run" / "report.html")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    result.save(tmp_path / "run", force=True)
    assert not (tmp_path / "run" / "report.html").exists()
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_how_to_load_it(tmp_path):
    result = small_result("binary")
    result.save(tmp_path / "run")
    inside = result.report(tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert '"folder":"run"' in inside
    outside = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert '"folder":null' in outside
    named = result.report(tmp_path / "named.html", folder="runs/mine")
    assert '"folder":"runs/mine"' in named.read_text(encoding="utf-8")
    for folder in (tmp_path / "mine", "../elsewhere/mine"):  # a page is passed on
        named = result.report(tmp_path / "named.html", folder=folder, force=True)
        assert '"folder":"mine"' in named.read_text(encoding="utf-8")


def test_a_huge_network_makes_a_small_page():
    assert len(page_of(huge_result()).encode()) < 500_000


def test_the_names_are_listed():
    assert {*torchsparcs.report.__all__} <= {*dir(torchsparcs.report)}


def test_the_names_for_networks_make_the_same_page(tmp_path):
    result = chain_result()
    assert torchsparcs.report.chain_page(result) == page_of(result)
    path = torchsparcs.report.write_chain_page(result, tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == page_of(result)
    with pytest.raises(ValueError, match="a file that is not there yet"):
        result.report(path)
