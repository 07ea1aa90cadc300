"""The preprocessing of a table: standardised tensors and back, as data that JSON can hold."""

from dataclasses import dataclass

from torchsparcs.files.records import Record
from torchsparcs.tables.inputs import Inputs
from torchsparcs.tables.target import Target

__all__ = ["Inputs", "Preprocessing", "Target"]


@dataclass(frozen=True)
class Preprocessing(Record):
    """The encoding and standardisation of X and y, learnt before the network is.

    >>> import json
    >>> X, y = [[1, 4], [2, 8], [3, 2]], [0.5, 1.5, 1.0]
    >>> preprocessing = Preprocessing(Inputs.fit(X), Target.fit(y))
    >>> text = json.dumps(preprocessing.to_json())
    >>> Preprocessing.from_json(json.loads(text)) == preprocessing
    True
    """

    inputs: Inputs
    target: Target

    def __post_init__(self) -> None:
        if not isinstance(self.inputs, Inputs) or not isinstance(self.target, Target):
            raise ValueError(f"Expected Inputs and Target. Got {self.inputs!r}, {self.target!r}.")
