"""A network from ``deployment.py`` at work: NumPy and onnxruntime, no torch, no torchsparcs.

The file says what it needs: its metadata hold the columns, zeros and ones for text as in
"fuel=diesel", and the classes. Out come the predictions for ``new_cars.csv``, a line for each row.

    python examples/deployed.py FOLDER
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
session = onnxruntime.InferenceSession(folder / "cars.onnx", providers=["CPUExecutionProvider"])
facts = session.get_modelmeta().custom_metadata_map
columns, classes = json.loads(facts["columns"]), json.loads(facts["classes"])


def encoded(row: dict[str, str]) -> list[float]:
    """The columns the network takes; "fuel=diesel" is one where the text is that, else zero."""
    values = []
    for column in columns:
        name, is_text, text = column.partition("=")
        values.append(float(row[name] == text) if is_text else float(row[name]))
    return values


with open(folder / "new_cars.csv", newline="") as file:
    rows = np.array([encoded(row) for row in csv.DictReader(file)], dtype=np.float32)
(probabilities,) = session.run(["output"], {"input": rows})
for said, chance in zip(probabilities.argmax(axis=1), probabilities.max(axis=1), strict=True):
    print(f"{classes[said]} {chance:.3f}")
