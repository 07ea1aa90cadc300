"""Results that several files of this room look at."""

import json

import pytest
from reports import (
    small_result,
)

from torchsparcs import load_result

TASKS = ("multiclass", "binary", "regression")


@pytest.fixture(params=TASKS)
def result(request):
    return small_result(request.param)


@pytest.fixture
def older(tmp_path):
    """A result from a folder that knows neither answers nor attempts nor what is to be expected."""
    small_result("multiclass").save(tmp_path / "run")
    found = json.loads((tmp_path / "run" / "front.json").read_text(encoding="utf-8"))
    del found["answers"], found["attempts"]
    for row in (*found["front"], found["linear"]):
        del row["expected"], row["temperature"], row["reliability"]
    (tmp_path / "run" / "front.json").write_text(json.dumps(found), encoding="utf-8")
    settings = json.loads((tmp_path / "run" / "settings.json").read_text(encoding="utf-8"))
    for name in ("scoring", "scoring_is_auto", "scoring_is_own", "score_unit", "constant_score"):
        del settings["settings"][name]
    outer = {name: settings["settings"].pop(name) for name in ("hardware", "versions")}
    (tmp_path / "run" / "settings.json").write_text(json.dumps({**settings, **outer}))
    return load_result(tmp_path / "run")
