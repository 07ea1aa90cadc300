"""A search, and one file with the network and its preprocessing, for machines without torch.

Out come ``cars.onnx``, which takes the columns of the table, ``new_cars.csv`` and
what the network says of it, ``expected.csv``. ``deployed.py`` then needs NumPy and onnxruntime
alone.

    python examples/deployment.py FOLDER && python examples/deployed.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from torchsparcs import SearchConfig, search, to_onnx

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
draw = np.random.default_rng(0)
cars = pd.DataFrame(
    {
        "weight": draw.uniform(700, 2500, 250),
        "age": draw.uniform(0, 20, 250),
        "fuel": draw.choice(["petrol", "diesel", "electric"], 250),
    }
)
passes = (cars["weight"] / 500 + cars["age"] / 4 < 6.5) | (cars["fuel"] == "electric")
verdict = np.where(passes, "passes", "fails")

result = search(cars, verdict, widths=(8,), config=SearchConfig(steps=100), progress=False)
small = result.smallest()
to_onnx(result.deployed(small), folder / "cars.onnx")
print(f"{small.architecture}: {small.parameters} parameters, accuracy {small.expected:.3f}")

new = cars[:20]
new.to_csv(folder / "new_cars.csv", index=False)
pd.Series(result.predict(new, small)).to_csv(folder / "expected.csv", index=False, header=False)
print(f"wrote cars.onnx, {(folder / 'cars.onnx').stat().st_size / 1000:.0f} kB")
