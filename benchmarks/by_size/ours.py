"""One `torchsparcs.search` with its defaults: its whole front, and what it picks.

Each network is also measured in int8, fitted to the training rows. Its bytes: one for a weight that
is not zero, four for a bias, three for the unit of a hidden neuron and four for that of an output,
one a layer, and eight for the range of each column that is read. It is chosen by the score of the
float network.
"""

import time

import numpy as np

from by_size.preparing import Split, judged, point
from torchsparcs import Candidate, QuantizedNetwork, SearchResult, quantize, search


def int8_bytes(network: QuantizedNetwork) -> int:
    """What has to be stored of whole numbers."""
    columns = len(network.inputs.middles)
    read = np.zeros(columns, dtype=bool)
    size = 0
    for place, layer in enumerate(network.layers):
        is_last = place == len(network.layers) - 1
        size += 1 + len(layer.bias) * (4 + (4 if is_last else 3))
        for block in layer.blocks:
            size += int(np.count_nonzero(block.weights))
            used = block.first + np.flatnonzero(block.weights.any(axis=0))
            read[used[used < columns]] = True
    return size + 8 * int(read.sum())


def ours(split: Split) -> dict:
    """Every network of the front and what it claims; ``pick`` is the place of the default one."""
    start = time.process_time()
    result = search(
        split.x.astype(np.float32),
        split.y,
        task="classification" if split.classes else "regression",
        scoring="accuracy" if split.classes else "r2",
        seed=split.seed,
        device="cpu",
        engine="local",
        progress=False,
    )
    seconds = round(time.process_time() - start, 2)  # what follows is no part of a search
    points = []
    for candidate in result.front:
        answer = result.outputs if split.classes else result.predict
        outputs = np.asarray(answer(split.x_test.astype(np.float32), candidate))
        size = sum(int(p.count_nonzero()) for p in candidate.network.parameters())
        test = judged(outputs, split.y_test, split.classes)
        made = point(size, candidate.architecture, candidate.score, test)
        claimed = float(f"{candidate.expected:.6g}")
        points.append({**made, "claimed": claimed, "int8": int8(result, candidate, split)})
    pick = result.front.index(result.smallest())
    return {"points": points, "pick": pick, "seconds": seconds}


def int8(result: SearchResult, candidate: Candidate, split: Split) -> dict:
    """Bytes, and what whole numbers score on the test rows."""
    small = quantize(result.deployed(candidate), split.x.astype(np.float32))
    outputs = small.outputs(split.x_test.astype(np.float32))
    score, loss = judged(outputs, split.y_test, split.classes)
    return {"bytes": int8_bytes(small), "test": float(f"{score:.6g}"), "loss": float(f"{loss:.6g}")}
