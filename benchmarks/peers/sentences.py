"""What README says of the contest: between ``<!-- peers: NAME -->`` and ``<!-- end -->``."""

from judging import best_of, finished, is_teacher, mean_and_error, smallest_student
from records import Contest, runs_of, tasks_of
from sparcs import TODAY

OURS = "torchsparcs"


def earlier_tasks(contest: Contest) -> list[str]:
    """Those that an earlier search did."""
    return [
        task
        for task in tasks_of(contest)
        if any(run["remark"] != TODAY for run in finished(runs_of(contest, OURS, task)))
    ]


def earlier(contest: Contest) -> str:
    """Which of our runs are of an earlier search, and what that was."""
    tasks = earlier_tasks(contest)
    if not tasks:
        return ""
    which = "" if tasks == tasks_of(contest) else f" on {', '.join(tasks)}"
    text = (
        f"**Our runs{which} are of an earlier search.** It chose one of three ways to train by "
        "short rehearsals, then trained once, and cut neurons and columns only: it neither fitted "
        "by L-BFGS, nor drew plain networks, nor cut single connections"
    )
    if "wine" in tasks:
        text += (
            ", so that neat-python, which keeps single connections, is far above it at ten "
            "parameters on wine"
        )
    if "teacher_student" in tasks:
        text += ". For teacher_student it had been changed after a look at that task"
    return f"{text}."


def over_linear(contest: Contest) -> str:
    """Test score of scikit-learn's best MLP less that of its best linear model."""
    words = []
    for task in ("breast_cancer", "wine"):
        gains = []
        for run in finished(runs_of(contest, "scikit-learn", task)):
            line, mlp = (
                best_of({"found": [one for one in run["found"] if bool(one["hidden"]) is bent]})
                for bent in (False, True)
            )
            gains.append(mlp["test"] - line["test"])
        gain, error = mean_and_error(gains)
        words.append(f"{gain:z.3f} ± {error:.3f}")
    return f"{' and '.join(words)} in accuracy, by [the runs of scikit-learn](../comparison.md)"


def teacher(contest: Contest) -> str:
    """Who finds the teacher, the most often first."""
    hits = {}
    for name in contest:
        runs = finished(runs_of(contest, name, "teacher_student"))
        hits[name] = (sum(is_teacher(smallest_student(run)) for run in runs), len(runs))
    found = sorted((name for name in hits if hits[name][0]), key=lambda name: -hits[name][0])
    if not found:
        return "found by nobody"
    counts = ", ".join(f"{name} in {hits[name][0]} of {hits[name][1]} seeds" for name in found)
    return f"found by {counts}"
