"""Do trained input eigenvalues rank columns as permutation importance does?

Tables of scikit-learn's; a short search on two thirds of the rows, permutation importance of its
best network on the others, input eigenvalues trained on the same two thirds. Spearman's rank
correlation between the two, and how many of the five columns that are worth most are among the five
most relevant.

    python benchmarks/relevance.py
"""

import argparse
from pathlib import Path

from recording import RESULTS, record
from scipy.stats import spearmanr
from sklearn import datasets
from sklearn.model_selection import train_test_split

from torchsparcs import SearchConfig, search

TABLES = {
    "diabetes": datasets.load_diabetes,
    "breast cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "friedman": lambda **_: datasets.make_friedman1(600, 10, noise=1.0, random_state=0),
}
FIRST = 5


def compared(name: str, seed: int, steps: int) -> dict:
    X, y = TABLES[name](return_X_y=True)
    seen_x, x, seen_y, y = train_test_split(X, y, test_size=1 / 3, random_state=seed)
    config = SearchConfig(steps=steps, ways=("asleep",))
    result = search(seen_x, seen_y, config=config, seed=seed, engine="local", progress=False)
    worth = result.importance(x, y, "best", seed=seed)["worth"]
    relevance = result.input_relevance(seen_x, seen_y, seed=seed)["relevance"]
    both = spearmanr(worth, relevance.loc[worth.index]).statistic
    shared = len({*worth.index[:FIRST]} & {*relevance.index[:FIRST]})
    return {"table": name, "seed": seed, "spearman": float(both), "shared_of_five": shared}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100, help="of each search")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.tables:
        for seed in range(arguments.seeds):
            rows.append(compared(name, seed, arguments.steps))
            print(rows[-1], flush=True)
    record("relevance", "cpu", {"steps": arguments.steps, "runs": rows}, arguments.out)


if __name__ == "__main__":
    main()
