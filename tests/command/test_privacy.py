"""What leaves this machine says nothing of whose it is: no paths, no user's name, no host's."""

import getpass
import platform
import socket
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shell import sparcs

import torchsparcs
from torchsparcs.export.formats import FORMATS
from torchsparcs.parallel.executor import Executor

pytestmark = pytest.mark.usefixtures("brief_searches")
QUICK = ("--steps", "20", "--widths", "8", "--penalty-weights", "0.01", "--validation", "2")
OWNER, HOST, PLACE = "mArKeDuSeR", "mArKeDhOsT", "mArKeDpLaCe"
HERE = str(Path(torchsparcs.__file__).parents[1])


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A folder of a user and a machine whose names cannot be overlooked, with a table."""
    for name in ("USER", "LOGNAME", "USERNAME"):
        monkeypatch.setenv(name, OWNER)
    monkeypatch.setattr(getpass, "getuser", lambda: OWNER)
    monkeypatch.setattr(socket, "gethostname", lambda: HOST)
    monkeypatch.setattr(platform, "node", lambda: HOST)
    folder = tmp_path / PLACE
    folder.mkdir()
    x = np.random.default_rng(0).normal(size=(120, 3))
    table = pd.DataFrame(x, columns=["a", "b", "c"])
    table.assign(kind=np.where(x[:, 0] * x[:, 1] > 0, "yes", "no")).to_csv(
        folder / "table.csv", index=False
    )
    return folder


def told(folder: Path) -> list[str]:
    """The files below ``folder``, of archives also what is inside, that name something they do
    not have to."""
    content = {}
    for path in folder.rglob("*"):
        if path.is_file():
            content[path.name] = path.read_bytes()
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    for name in archive.namelist():
                        content[f"{path.name}/{name}"] = archive.read(name)
    words = [word.encode() for word in (OWNER, HOST, PLACE, HERE, sys.prefix, "site-packages")]
    assert content
    return [name for name, text in content.items() if any(word in text for word in words)]


def test_a_finished_search_and_all_its_exports(home):
    run = home / "run"
    done = sparcs("search", home / "table.csv", "--target", "kind", "--out", run, *QUICK)
    assert done.code == 0, done.err
    for format, (ending, *_) in FORMATS.items():
        assert sparcs("export", run, "--pick", "best", "--format", format).code == 0
        assert (run / f"model-best{ending}").is_file()
    assert sparcs("predict", run, home / "table.csv", "-o", run / "answers.csv").code == 0
    assert told(run) == []
    assert torchsparcs.load_result(run).settings["data"] == "table.csv"


def test_a_search_that_was_interrupted_goes_on_where_its_folder_and_data_went(
    home, monkeypatch, tmp_path
):
    train = Executor.train

    def stop(executor, name, *rest, **more):
        if name == "training asleep":
            raise KeyboardInterrupt
        return train(executor, name, *rest, **more)

    link = home / "link.csv"
    (home / "table.csv").rename(home / "blob")  # the link's name has the ending, and is told
    link.symlink_to("blob")
    monkeypatch.chdir(home)
    with monkeypatch.context() as patch:
        patch.setattr(Executor, "train", stop)
        stopped = sparcs("search", link, "--target", "kind", "--out", "run", *QUICK)
    assert stopped.code == 130
    assert (home / "run" / "parts" / "job.json").is_file()
    assert told(home / "run") == []
    monkeypatch.chdir(tmp_path)
    home.rename(tmp_path / "moved")
    resumed = sparcs("search", "--resume", "moved/run")
    assert resumed.code == 0, resumed.err
    assert torchsparcs.load_result("moved/run").settings["data"] == "link.csv"
