"""A network from ``deployment.py`` at work: NumPy and onnxruntime, no torch, no torchsparcs.

The file says what it needs: an input for each column that the network reads, and the classes among
its metadata. Out come the predictions for ``new_cars.csv``, a line for each row.

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
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])

with open(folder / "new_cars.csv", newline="") as file:
    rows = [*csv.DictReader(file)]
columns = {}
for column in session.get_inputs():
    values = np.array([row[column.name] for row in rows], dtype=object)
    columns[column.name] = values if column.type == "tensor(string)" else values.astype(np.float64)
(probabilities,) = session.run(["output"], columns)
for said, chance in zip(probabilities.argmax(axis=1), probabilities.max(axis=1), strict=True):
    print(f"{classes[said]} {chance:.3f}")
