"""Does a small network answer at least twenty times faster than the boosting that taught it?

On the tables of which `teachers.py` has recorded how boosting is tuned, scikit-learn's and
LightGBM's are fitted by these options, and a short search with the first as its teacher gives the
best network within 16 kB. All answer the same test rows, one at a time and 1,024 at once, on one
thread of one process: as Python calls them and as ONNX, the network also as C, row by row. They
take turns; of each the least of the medians counts. What is counted is the time that this process
had the processor, for other work on the machine would interrupt the longest calls most.

    pip install lightgbm onnxmltools skl2onnx "protobuf<7"
    python benchmarks/teacher_clocks.py --tables FOLDER
    python benchmarks/teacher_clocks_page.py
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import onnxruntime
import torch
from by_size.boosting import boosted
from by_size.preparing import Split, load, prepared
from c_latency import ROWS, array_of, clocked
from latency import microseconds
from lightgbm import LGBMClassifier, LGBMRegressor
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType
from recording import RESULTS, record
from skl2onnx import to_onnx as converted
from threadpoolctl import threadpool_limits

from torchsparcs import Candidate, SearchConfig, SearchResult, search, to_c, to_onnx

NAME = "teacher_clocks"
BATCHES = (1, 1024)
MOST_ROWS = 5_000  # to train on
MOST_PARAMETERS = 4_096  # 16 kB of float32
STEPS, SECONDS, ROUNDS = 60, 0.1, 5
PACKAGES = ("lightgbm", "onnxmltools", "onnxruntime", "scikit-learn", "skl2onnx")
Answer = Callable[[np.ndarray], Any]
Times = dict[str, list[float]]


def lightgbm_fitted(split: Split, rows: np.ndarray, options: dict) -> Any:
    """LightGBM's boosting of as many rounds and leaves; without early stopping."""
    kind = LGBMClassifier if split.classes else LGBMRegressor
    model = kind(
        num_leaves=options["max_leaf_nodes"],
        learning_rate=options["learning_rate"],
        n_estimators=options["rounds"],
        random_state=split.seed,
        n_jobs=1,
        verbose=-1,
    )
    return model.fit(rows, split.y)


def session_answer(written: bytes) -> Answer:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(written, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda rows: session.run(None, {name: rows})


def answers_of(
    split: Split, recorded: dict, rows: np.ndarray
) -> tuple[dict[str, Answer], SearchResult]:
    """All that answer rows, by name, and the search of the network, its pick first."""
    teacher = boosted(split, rows, split.y, **recorded)
    lightgbm = lightgbm_fitted(split, rows, {**recorded, "rounds": teacher.n_iter_})
    result = search(
        rows,
        split.y,
        task="classification" if split.classes else "regression",
        teacher=teacher,
        config=SearchConfig(steps=STEPS),
        seed=split.seed,
        device="cpu",
        engine="local",
        progress=False,
    )
    told = "predict_proba" if split.classes else "predict"
    plain = {"options": {"zipmap": False}} if split.classes else {}
    given = [("input", FloatTensorType([None, rows.shape[1]]))]
    trees = converted(teacher, rows[:1], **plain).SerializeToString()
    made = convert_lightgbm(lightgbm, initial_types=given, zipmap=False).SerializeToString()
    return {
        "scikit-learn": getattr(teacher, told),
        "scikit-learn, ONNX": session_answer(trees),
        "lightgbm": getattr(lightgbm, told),
        "lightgbm, ONNX": session_answer(made),
        "network": partial(getattr(result, told), pick=result.within(MOST_PARAMETERS)),
    }, result


def clocks(answers: dict[str, Answer], in_c: Callable[[], float], rows: np.ndarray) -> Times:
    """Microseconds of a call with as many rows as each batch has, by name."""
    batches = [np.resize(rows, (batch, rows.shape[1])) for batch in BATCHES]
    found: dict[str, list[list[float]]] = {name: [] for name in (*answers, "network, C")}
    for _ in range(ROUNDS):
        for name, answer in answers.items():
            calls = [partial(answer, each) for each in batches]
            found[name].append([microseconds(call, SECONDS, process_time) for call in calls])
        row = in_c()
        found["network, C"].append([batch * row for batch in BATCHES])
    return {name: np.min(times, axis=0).round(3).tolist() for name, times in found.items()}


def measured(tables: Path, name: str, recorded: dict) -> dict[str, Any]:
    split = prepared(load(tables, name), 0, MOST_ROWS)
    rows, unseen = split.x.astype(np.float32), split.x_test.astype(np.float32)
    answers, result = answers_of(split, recorded, rows)
    pick: Candidate = result.within(MOST_PARAMETERS)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        to_onnx(result.deployed(pick), folder / "network.onnx", encoded=True)
        answers["network, ONNX"] = session_answer((folder / "network.onnx").read_bytes())
        to_c(result.deployed(pick), folder / "network.h")
        (folder / "rows.h").write_text(array_of("rows", torch.from_numpy(unseen[:ROWS])))
        answer = "predict_proba" if split.classes else "outputs"
        outputs = max(2, split.outputs)
        in_c = partial(clocked, "network", outputs, SECONDS, folder, answer)
        times = clocks(answers, in_c, unseen)
    return {"parameters": pick.parameters, "columns": rows.shape[1], "microseconds": times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, required=True, help="folder of tables")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    units = json.loads((RESULTS / "teachers.json").read_text())["cpu"]["units"]
    tables = {}
    with threadpool_limits(1):
        for name in [unit.split()[0] for unit in units if unit.endswith(" 0")]:
            options = units[f"{name} 0"]["teacher"]["options"]
            tables[name] = measured(arguments.tables, name, options)
            print(name, tables[name], file=sys.stderr, flush=True)
    about = {"unit": "microseconds per call", "batches": BATCHES, "threads": 1}
    packages = {name: version(name) for name in PACKAGES}
    print(record(NAME, "cpu", {**about, "packages": packages, "tables": tables}, arguments.out))


if __name__ == "__main__":
    main()
