"""One `torchsparcs.search` with its defaults: its whole front, and what it picks."""

import numpy as np

from by_size.preparing import Split, judged, point
from torchsparcs import search


def ours(split: Split) -> dict:
    """Every network of the front and what it claims; ``pick`` is the place of the default one."""
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
    points = []
    for candidate in result.front:
        answer = result.outputs if split.classes else result.predict
        outputs = np.asarray(answer(split.x_test.astype(np.float32), candidate))
        size = sum(int(p.count_nonzero()) for p in candidate.network.parameters())
        test = judged(outputs, split.y_test, split.classes)
        made = point(size, candidate.architecture, candidate.score, test)
        points.append({**made, "claimed": float(f"{candidate.expected:.6g}")})
    pick = result.front.index(result.smallest())
    return {"points": points, "pick": pick}
