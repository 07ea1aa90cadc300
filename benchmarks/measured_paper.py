"""What the paper's experiments gave, in the words that measured.py puts on pages.

Each function takes the records by their names.
"""

import json
from pathlib import Path
from statistics import mean, median

from chips import table
from marking import between
from recording import RESULTS

from torchsparcs import experiments
from torchsparcs.experiments.readings import READINGS
from torchsparcs.experiments.remarks import FITS
from torchsparcs.experiments.teacher_student import layers_off
from torchsparcs.experiments.verdicts import FILE, PARTS
from torchsparcs.experiments.writing import best


def teacher(found: dict) -> str:
    runs = found["teacher-student"]["results"]["runs"]
    own, paper = runs["own"], runs["paper"]
    hits = sum(run["architecture"] == "20 → 20 → 20" for run in own)
    awake = between((sum(run["kept"]) for run in paper), "d")
    return (
        f"{hits} of {len(own)} seeds (new ones, settings fixed before) end as 20 → 20 → 20 without "
        f"a skip connection, test R² {between((run['r2_compact'] for run in own), '.4f')} (paper: "
        f"30 neurons, 0.98; its recipe trained here, before any cut: {awake} eigenvalues, R² "
        f"{between((run['r2_full'] for run in paper), '.3f')})"
    )


def teacher_hits(found: dict) -> str:
    own = found["teacher-student"]["results"]["runs"]["own"]
    return f"{sum(run['architecture'] == '20 → 20 → 20' for run in own)} of {len(own)} seeds"


def teacher_work(found: dict) -> str:
    own = found["teacher-student"]["results"]["runs"]["own"]
    awake = between((sum(run["kept"]) for run in own), "d")
    work = between((run["neurons_at_work"] for run in own), "d")
    return f"{awake} eigenvalues in two layers put {work} neurons to work"


def teacher_penalties(found: dict) -> str:
    """Of the page of penalties: the paper's norm of each layer beside our proximal l1."""
    record = found["teacher-student"]["results"]
    runs, configs = record["runs"], record["configs"]
    paper, own = runs["paper"], runs["own"]
    off = sum(len(layers) == 1 for layers in layers_off(paper))
    both = [run["architecture"] == "20 → 20 → 20" for run in (*paper, *own)]
    kept = {key: between((sum(run["kept"]) for run in runs[key]), "d") for key in runs}
    return (
        f"`l2` (ρ = {configs['paper']['penalty_weight']:g}, added to the loss) switches one layer "
        f"off in {off} of {len(paper)} seeds and needs {kept['paper']} eigenvalues of the other. "
        f"`l1` (ρ = {configs['own']['penalty_weight']:g}, proximal) needs {kept['own']}, in both "
        f"layers together. `extract` with data finds one layer of 20 in {sum(both)} of {len(both)} "
        "networks"
    )


def teacher_recipes(found: dict) -> str:
    runs = found["teacher-student"]["results"]["runs"]
    (paper, r2_paper), (own, r2_own) = (
        (
            between((sum(run["kept"]) for run in runs[key]), "d"),
            between((run["r2_pruned"] for run in runs[key]), form),
        )
        for key, form in (("paper", ".3f"), ("own", ".4f"))
    )
    return (
        f"its recipe finds the function of the teacher (R² {r2_paper}) with {paper} eigenvalues, "
        f"and this one with {own} (R² {r2_own})"
    )


def _last(run: dict) -> str:
    """Mean accuracy after the last epoch, in per cent."""
    return f"{100 * mean(run['accuracy'][-1]):.1f}"


def head(found: dict) -> str:
    runs = found["cifar10"]["results"]["runs"]
    own, paper = runs["own"], runs["paper"]
    spectral = own["spectral"]
    return (
        f"spectral head after cutting {100 * mean(spectral['compact_accuracy']):.1f} % with "
        f"{between(spectral['recruited'], 'd')} of 526 neurons; plain MLP head of 526 "
        f"{_last(own['mlp'])} %, linear head {_last(own['linear'])} %, each with its best dropout "
        f"(the paper's 73.9 and 68.2 % are not reproduced on our extractor: its recipe ends at "
        f"{_last(paper['spectral'])} and {_last(paper['linear'])} %)"
    )


def head_by_the_paper(found: dict) -> str:
    """The paper's recipe after the last epoch, and at the best one."""
    paper = found["cifar10"]["results"]["runs"]["paper"]
    spectral, linear = (
        (_last(paper[name]), f"{100 * mean(best(paper[name]['accuracy'])):.1f}")
        for name in ("spectral", "linear")
    )
    return (
        f"{spectral[0]} % after the last epoch, and {spectral[1]} % at the best epoch of each "
        f"seed, where its linear head has {linear[0]} and {linear[1]} %"
    )


def head_cost(found: dict) -> str:
    """Time and memory of a model alone, beside what was aimed at."""
    content = found["cifar10"]
    of, setting = content["results"]["resources"], content["setting"]
    seconds = {name: one["epoch_seconds"] for name, one in of.items()}
    peak = {name: one["peak_bytes"] for name, one in of.items()}
    images = of["linear"]["image_bytes"]
    steps = -(-setting["train_rows"] // setting["batch_size"])
    whole = (peak["spectral"] + images) / (peak["linear"] + images)
    return (
        f"{300 * seconds['linear']:.1f} s with the linear head, {300 * seconds['mlp']:.1f} s with "
        f"the MLP, {300 * seconds['spectral']:.1f} s with the spectral one: "
        f"**{seconds['spectral'] / seconds['linear']:.2f} times the linear head's time, where 1.25 "
        f"was the aim**, and {seconds['spectral'] / seconds['mlp']:.2f} times the MLP's. A step of "
        f"the linear model takes {1000 * seconds['linear'] / steps:.2f} ms, in which every small "
        f"kernel of a head counts. The peak of memory beside the images is "
        f"{peak['linear'] / 1e6:.0f}, {peak['mlp'] / 1e6:.0f} and {peak['spectral'] / 1e6:.0f} MB: "
        f"**{peak['spectral'] / peak['linear']:.2f} times the linear head's, where 1.3 was the "
        f"aim**; with the images, which have to be there, it is {whole:.2f} times"
    )


def trained_head(found: dict) -> str:
    runs = found["cifar100"]["results"]["runs"]
    spectral, linear = (
        100 * mean(run["accuracy"] for run in runs[name]) for name in ("spectral", "linear")
    )
    without = 100 * mean(run["removed"] for run in runs["spectral"])
    return (
        f"hidden neurons bring nothing: {spectral:.1f} % with them, {without:.1f} % after taking "
        f"them out, {linear:.1f} % with a linear head (seeds differ by more)"
    )


def verdicts(found: dict) -> str:
    """How many figures, tables and sections of the paper are reproduced."""
    kept = json.loads((Path(experiments.__file__).parent / FILE).read_text())
    words = [each["word"] for each in kept.values()]
    part = sum(word.startswith("reproduced in part") for word in words)
    whole = sum(word.startswith("reproduced") for word in words) - part
    lost, none = (sum(w.startswith(start) for w in words) for start in ("not repr", "not run"))
    waiting = sum(bool(each["not_run"] or each["run_in_part"]) for each in kept.values())
    return (
        f"of the {whole + part + lost + none} figures, tables and remarks of the paper that rest "
        f"on experiments, {whole} are reproduced, {part} in part, and {lost} are not"
        f"{f', and {none} are not run' * bool(none)}; for {waiting} of them a further experiment "
        "has not been run, or not in full"
    )


OUTCOMES = ("reproduced", "reproduced in part", "not reproduced")


def verdict_table(found: dict) -> str:
    """Which command is about which parts of the paper, by their verdicts."""
    kept = json.loads((Path(experiments.__file__).parent / FILE).read_text())
    by_command: dict[str, dict[str, list[str]]] = {}
    for part in PARTS:
        if part.experiments:
            named = by_command.setdefault(part.experiments[0], {word: [] for word in OUTCOMES})
            named[kept[part.name]["word"]].append(part.name)
    rows = [
        [f"`sparcs reproduce {name}`", *map(_joined, named.values())]
        for name, named in by_command.items()
    ]
    return table(["command", *OUTCOMES], *rows)


def _joined(names: list[str]) -> str:
    """ "Figures 7, 11; Table 2": numbers behind what they count, once."""
    kinds: dict[str, list[str]] = {}
    for kind, number in (name.split() for name in names):
        kinds.setdefault(kind, []).append(number)
    return "; ".join(f"{k}{'s' * (len(n) > 1)} {', '.join(n)}" for k, n in kinds.items())


def rho_range(found: dict) -> str:
    """Of the page of differences: the weights for which every model of both targets fits."""
    rows = found["remarks"]["results"]["range"]["rows"]
    told = []
    for penalty in ("l2", "l1"):
        own = [row for row in rows if row["penalty"] == penalty and 1e-5 <= row["weight"] <= 1e-3]
        lost = [row for row in own if max(row["mse"]) >= FITS]
        weights = sorted({row["weight"] for row in own} - {row["weight"] for row in lost})
        most = max(max(row["mse"]) for row in own if row["weight"] in weights)
        told.append(
            f"with {penalty.upper()} every model fits at {', '.join(f'{w:g}' for w in weights)} "
            f"(mean squared error at most {most:.0e})"
        )
        told += [
            f"at {row['weight']:g} {sum(error >= FITS for error in row['mse'])} of "
            f"{len(row['mse'])} do not on the {'bent' if row['alpha'] else 'linear'} target "
            f"({between(row['mse'], '.1e')})"
            for row in lost
        ]
    return "; ".join(told)


def shallow_first(found: dict) -> str:
    """Of the same: how much runs through two or more hidden layers, without a penalty."""
    depth = found["remarks"]["results"]["depth"]
    one, two = (
        between((100 * sum(shares[2:]) for shares in depth[key]["shares"]), ".0f")
        for key in ("1 0", "2 0")
    )
    return (
        f"of Σ‖Γ‖ {one} % runs through two or more hidden layers where the teacher has one, and "
        f"{two} % where it has two"
    )


def equal_starts(found: dict) -> str:
    """Of the same: equal weights over a whole training, in two precisions."""
    runs = found["equal_starts"]["cpu"]["runs"]
    single, double = runs["single"], runs["double"]
    still = sum(apart < 1e-6 for apart in single["apart"])
    return (
        f"in single precision weights are {single['apart'][0]:.0e} apart after the first epoch, "
        f"less than 1e-6 up to epoch {still}, and {single['apart'][-1]:.1f} at the end, of "
        f"{len(single['apart'])} epochs (mean squared error {single['mse']:.1e}); in double "
        f"precision {double['apart'][-1]:.0e} at the end ({double['mse']:.1e})"
    )


def by_the_table(found: dict) -> str:
    """Of the page of differences: the paper's own penalty on its own student."""
    return _pruned(found["teacher-student"]["results"]["runs"]["paper"])


def readings(found: dict) -> str:
    """Of the same: what the other readings gave, and which have not been run."""
    runs: dict[str, list[dict]] = {}
    for path in sorted(RESULTS.glob("readings*.json")):
        runs |= json.loads(path.read_text())["results"]["runs"]
    told = [f"{READINGS[key].name}: {_pruned(own)}" for key, own in runs.items()]
    left = [READINGS[key].name for key in READINGS if key not in runs and key != "l2-two"]
    return "; ".join(told) + f". Not run: {'; '.join(left)}" * bool(left)


def _pruned(runs: list[dict]) -> str:
    """What the 5 % rule leaves of students with two hidden layers."""
    first, second = ([run["kept"][layer] for run in runs] for layer in (0, 1))
    middle = median(sum(run["kept"]) for run in runs)
    return (
        f"in {len(runs)} seeds {between(first, 'd')} eigenvalues of the first hidden layer and "
        f"{between(second, 'd')} of the second (median together {middle:.0f}) keep the loss within "
        f"5 %, with R² {between((run['r2_pruned'] for run in runs), '.3f')} and "
        f"{between((run['neurons_at_work'] for run in runs), 'd')} neurons at work"
    )


def all_at_once(found: dict) -> str:
    results = found["transition"]["results"]
    hours = results["seconds_one_after_another"] / 3600
    milliseconds = 1000 * results["step_seconds_of_one"]["cpu"]
    return (
        f"{results['seconds']:.0f} s with compiling; one after another, as the paper writes it, "
        f"would take about {hours:.0f} hours (extrapolated from {milliseconds:.1f} ms a step on a "
        "CPU, not run)"
    )


def relevance(found: dict) -> str:
    """Of the page that explains answers: input eigenvalues beside permutation importance."""
    runs = found["relevance"]["cpu"]["runs"]
    made, real = (
        [run for run in runs if (run["table"] == "friedman") == is_made] for is_made in (1, 0)
    )
    ranks = [between((run["spearman"] for run in own), ".2f") for own in (made, real)]
    shared = [between((run["shared_of_five"] for run in own), "d") for own in (made, real)]
    return (
        f"Spearman's correlation was {ranks[0]} on made-up data whose columns are independent, "
        f"{ranks[1]} on {len({run['table'] for run in real})} public tables, where columns share "
        f"what they say; of the five columns worth most {shared[0]}, and {shared[1]}, were among "
        "the five most relevant"
    )


def products(found: dict) -> str:
    """Of the page of differences: products of two columns as inputs, as SHONN has them."""
    record = found["products"]["cpu"]
    of_tables: dict[str, int] = {}
    for run in record["runs"]:
        of_tables[run["table"]] = of_tables.get(run["table"], 0) + 1
    rows = record["summary"]
    gains = ", ".join(f"{row['gain']:+.3f}" for row in rows.values())
    at_100 = ", ".join(f"{gain:+.3f} on {name}" for name, gain in rows["100"]["tables"].items())
    return (
        f"{between(of_tables.values(), 'd')} splits of {len(of_tables)} tables, at most 1,000 rows "
        f"and short searches, accuracy or R² on unseen rows changed by {gains} in the mean at up "
        f"to {', '.join(rows)} parameters; at 100 by {at_100}"
    )
