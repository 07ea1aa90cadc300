"""The experiments of the paper, one file for each."""

from torchsparcs.experiments import cifar10_narrow, readings, remarks, student
from torchsparcs.experiments.cifar10 import CIFAR10
from torchsparcs.experiments.cifar100 import CIFAR100
from torchsparcs.experiments.experiment import Experiment, reproduce
from torchsparcs.experiments.scaling import SCALING
from torchsparcs.experiments.teacher_student import TEACHER_STUDENT
from torchsparcs.experiments.transition import TRANSITION

EXPERIMENTS: dict[str, Experiment] = {
    row.name: row
    for row in (
        TRANSITION,
        TEACHER_STUDENT,
        readings.EXPERIMENT,
        SCALING,
        CIFAR10,
        cifar10_narrow.EXPERIMENT,
        CIFAR100,
        remarks.EXPERIMENT,
        student.EXPERIMENT,
    )
}

__all__ = ["EXPERIMENTS", "Experiment", "reproduce"]
