"""A table with numbers and text, searched for the smallest network that predicts its last column.

Rents are made up: they depend on the area, on the year in a way that is not a line, and on the
district. The floor and the number of the house have nothing to do with them. Out come the front, a
small network that does not read those two columns, and its score on rows that nobody has seen.
"""

import numpy as np
import pandas as pd

from torchsparcs import SearchConfig, search

draw = np.random.default_rng(0)
rows = 800
flats = pd.DataFrame(
    {
        "area": draw.uniform(20, 140, rows),
        "year": draw.integers(1900, 2025, rows),
        "floor": draw.integers(0, 9, rows),
        "house_number": draw.integers(1, 200, rows),
        "district": draw.choice(["centre", "harbour", "hills"], rows),
    }
)
charm = 4 * np.abs(flats["year"] - 1965) / 60  # old is charming, new is comfortable
place = flats["district"].map({"centre": 5, "harbour": 2, "hills": 3})
flats["rent"] = flats["area"] * (8 + charm + place) + draw.normal(0, 40, rows)

X, y = flats.drop(columns="rent"), flats["rent"]
seen = np.arange(rows) < 600
result = search(
    X[seen], y[seen], widths=(16,), config=SearchConfig(steps=300), seed=0, progress=False
)

for found in result.front:
    print(f"{found.parameters:4} parameters, R² {found.expected:.3f}: {found.architecture}")
small = result.smallest()
names = result.preprocessing.inputs.encoded_names
read = [names[place] for place in small.network.reads or range(len(names))]
print(f"picked: {small.architecture}, which reads {', '.join(read)}")
print(f"R² on unseen rows: {result.score(X[~seen], y[~seen]):.3f}")
print(f"  of the linear model: {result.score(X[~seen], y[~seen], 'linear'):.3f}")
needed = {name.split("=")[0] for name in read}  # the other columns need not be there
new = X[~seen][:2][sorted(needed)]
print("two rents:", result.predict(new).round())
