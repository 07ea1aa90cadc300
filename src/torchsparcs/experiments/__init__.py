"""The experiments of the paper, one file for each."""

from torchsparcs.experiments.experiment import Experiment, reproduce
from torchsparcs.experiments.scaling import SCALING
from torchsparcs.experiments.teacher_student import TEACHER_STUDENT
from torchsparcs.experiments.transition import TRANSITION

EXPERIMENTS: dict[str, Experiment] = {
    row.name: row for row in (TRANSITION, TEACHER_STUDENT, SCALING)
}

__all__ = ["EXPERIMENTS", "Experiment", "reproduce"]
