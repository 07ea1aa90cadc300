"""The pages of every kind of search, written into a folder: what a browser is to look at."""

import dataclasses
from pathlib import Path

import numpy as np
from reports import (
    X,
    Y,
    chain_result,
    dense_result,
    huge_result,
    labelled_result,
    searched_dense_result,
    small_result,
    unjudged_result,
    validated_result,
)

from torchsparcs import History, SearchConfig, SearchResult, search
from torchsparcs.report import write_document
from torchsparcs.searching.refit import refit

WIDE = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 300"><path d="M0 0H720"/></svg>'
TEXT = """# A page of text

| name | size |
| --- | ---: |
| `one` | 1,200 |

![a wide figure](wide.svg)

```
x < 1
```
"""


def results_by_kind() -> dict[str, SearchResult]:
    """Of each task, of networks and chains of one's own, of a huge one, of a front and no more."""
    results = {task: small_result(task) for task in ("multiclass", "binary", "regression")}
    binary = results["binary"]
    front = [dataclasses.replace(found, answers=None) for found in binary.front]
    results["huge"] = huge_result()
    results["bare"] = dataclasses.replace(
        binary, front=tuple(front), history=History(), attempts=()
    )
    results["chain"], results["chain_regression"] = chain_result(), chain_result("regression")
    results["deep"] = chain_result(hidden=(6,) * 12, sizes=(2000, 1000))
    results["network"] = searched_dense_result()
    results["dense"], results["validated"] = dense_result(), validated_result()
    results["unjudged"], results["labels"] = unjudged_result(), labelled_result()
    results["refitted"] = refit(
        binary, X, Y["binary"], steps=3, validation=2, progress=False, device="cpu"
    )
    results["bytes"], results["teacher"] = bytes_result(), taught_result()
    stopped = {**binary.settings, "ended": "interrupt", "worth": {"c": 0.1}, "relevance": {"c": 1}}
    results["unfinished"] = dataclasses.replace(binary, settings=stopped)
    return results


def bytes_result() -> SearchResult:
    """Within bytes of a chip, in int8, with prices of columns."""
    config = SearchConfig(steps=30, longest=30, epochs=1, ways=("asleep",))
    limits = {"size": "bytes", "chip": "avr", "max_bytes": "1.5kB", "int8": True}
    options = {"widths": (8,), "penalty_weights": [1e-3], "validation": 2, "costs": {"c": 2.0}}
    return search(X, Y["binary"], **options, **limits, config=config, progress=False, device="cpu")


def taught_result() -> SearchResult:
    """With what it kept of a teacher."""
    binary = small_result("binary")
    taught = dataclasses.replace(binary, settings={**binary.settings})
    taught.fidelity(lambda rows: np.asarray(rows["c"].abs()), X, Y["binary"], keep=True)
    return taught


def write_pages(folder: Path) -> dict[str, Path]:
    """Files by kind; that of a document is no search's."""
    results = results_by_kind()
    pages = {name: result.report(folder / f"{name}.html") for name, result in results.items()}
    (folder / "wide.svg").write_text(WIDE)
    pages["document"] = write_document(TEXT, folder / "document.html")
    return pages
