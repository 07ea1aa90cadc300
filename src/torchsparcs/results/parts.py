"""Answers for some of the rows of a table, the same whatever rows are beside them."""

from typing import Any

import torch
from torch import Tensor

from torchsparcs.compact.network import CompactNetwork
from torchsparcs.judging.candidates import Candidate
from torchsparcs.results.result import SearchResult
from torchsparcs.tables.encoded import Surprises
from torchsparcs.training.tasks import evaluation_mode

BLOCK = 1024  # rows: how sums are rounded depends on how many are multiplied at once


def outputs_of_part(
    result: SearchResult, X: Any, candidate: Candidate, surprises: Surprises
) -> Tensor:
    """What the network puts out for some rows, raw, (rows, outputs).

    What is surprising in them is added to ``surprises``, which are told after the last part.
    """
    network = candidate.network
    assert isinstance(network, CompactNetwork)
    inputs = result.inputs.transform(X, network.reads, surprises)
    lacking = -len(inputs) % BLOCK
    padded = torch.nn.functional.pad(inputs, (0, 0, 0, lacking))
    with evaluation_mode(network):
        outputs = torch.cat([network(block) for block in padded.split(BLOCK)])
    return outputs[: len(inputs)]
