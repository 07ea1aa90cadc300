"""Every figure and table of the paper: what it shows, who repeats it, and with what outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsparcs.experiments import EXPERIMENTS
from torchsparcs.experiments.experiment import Claim
from torchsparcs.experiments.writing import Content, changes
from torchsparcs.files.reading import read_json

FILE = "verdicts.json"
REPRODUCED, IN_PART, NOT, NOT_RUN = (
    "reproduced",
    "reproduced in part",
    "not reproduced",
    "not run in full",
)


@dataclass(frozen=True)
class Part:
    """A figure, a table or a remark of the paper, and the experiments that are about it."""

    name: str
    shows: str
    experiments: tuple[str, ...] = ()
    instead: str = ""  # what there is where nothing is to be measured


NOTEBOOK = "a drawing, for four layers in examples/paper.ipynb"
PARTS = (
    Part("Figure 1", "the transfer between two layers", instead="a drawing"),
    Part("Figure 2", "a bipartite graph and its matrix", instead="a drawing"),
    Part("Figure 3", "Φ, Λ and A of two layers", instead=NOTEBOOK),
    Part("Figure 4", "Φ, Λ and A of three layers", instead=NOTEBOOK),
    Part("Figure 5", "Φ, Λ and A of any number of layers", instead=NOTEBOOK),
    Part("Figure 6", "what is active at first, and once a layer is recruited", instead=NOTEBOOK),
    Part("Figure 7", "‖Γ‖ from a linear to a bent target", ("transition",)),
    Part("Figure 8", "parameters against layers", ("scaling",)),
    Part("Figure 9", "eigenvalues of the student", ("teacher-student", "readings")),
    Part("Figure 10", "loss against neurons removed", ("teacher-student", "readings")),
    Part("Figure 11", "the datasets of the first experiment", ("transition",)),
    Part("Figure 12", "the fits of model 0", ("transition",)),
    Part("Figure 13", "the size of the eigenvalues against α", ("transition",)),
    Part("Figure 14", "the square norm of the mean Γ against α", ("transition",)),
    Part("Figure 15", "architectures after training", ("transition",)),
    Part("Figure 16", "accuracy on CIFAR-10 against epochs", ("cifar10", "cifar10-narrow")),
    Part("Figure 17", "eigenvalues on CIFAR-10", ("cifar10", "cifar10-narrow")),
    Part("Figure 18", "eigenvalues on CIFAR-100", ("cifar100",)),
    Part("Table 1", "memory, time and accuracy on CIFAR-10", ("cifar10", "cifar10-narrow")),
    Part("Table 2", "memory, time and accuracy on CIFAR-100", ("cifar100",)),
    Part("Table 3", "hyperparameters of the first experiment", instead="used by transition"),
    Part("Table 4", "hyperparameters of the second", instead="used by teacher-student, readings"),
    Part("Table 5", "hyperparameters on images", instead="used by cifar10 and cifar100"),
    Part("Section 4", "shallow first; gradients at the start", ("remarks",)),
    Part("Section 5", "direct space from zero", ("remarks",)),
    Part("Appendix G", "ρ from 1e-3 to 1e-5", ("remarks",)),
)


@dataclass(frozen=True)
class Verdict:
    """What the records say about a part: a word, what was seen of each claim, what is missing."""

    word: str
    seen: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    run_in_part: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The word, what was seen and what was not, and what has not been run."""
        parts = {
            "Seen": self.seen if self.word == IN_PART else (),
            "Not seen": self.missed,
            "Run in part, and not judged here": self.run_in_part,
            "Not run": self.not_run if self.word != NOT_RUN else (),
        }
        told = [f"{name}: {'; '.join(claims)}" for name, claims in parts.items() if claims]
        return ". ".join([self.word, *told])


def verdict_of(
    part: Part, records: Mapping[str, Content], others: Sequence[Content] = ()
) -> Verdict:
    """The verdict on ``part`` by the claims of the ``records`` of experiments run in full.

    ``others`` are records under other settings: they are named where there is no full one.
    """
    if not part.experiments:
        return Verdict(part.instead)
    run = [name for name in part.experiments if name in records]
    claims: list[Claim] = [
        claim
        for name in run
        for claim in EXPERIMENTS[name].claims(dict(records[name]))
        if part.name in claim.of
    ]
    seen, missed = (
        tuple(f"{claim.says} ({claim.found})" for claim in claims if claim.held == held)
        for held in (True, False)
    )
    begun = {
        name: [other for other in others if other["experiment"] == name]
        for name in part.experiments
        if name not in records
    }
    run_in_part = tuple(
        f"{name} ({'; '.join(changes(EXPERIMENTS[name], other))})"
        for name, own in begun.items()
        for other in own
    )
    not_run = tuple(name for name, own in begun.items() if not own)
    word = NOT_RUN if not claims else REPRODUCED if not missed else IN_PART if seen else NOT
    return Verdict(word, seen, missed, run_in_part, not_run)


def recorded_verdicts() -> dict[str, Verdict]:
    """Those on the records that this version was released with, by the name of the part."""
    content = read_json(Path(__file__).parent / FILE)
    names = ("seen", "missed", "run_in_part", "not_run")
    return {
        name: Verdict(row["word"], *(tuple(row[key]) for key in names))
        for name, row in content.items()
    }
