"""A compact chain with normalised signals computes the same, and so does what it becomes."""

import pytest
import torch
from chains import EXTRACTED, built
from torch import nn

from torchsparcs import extract
from torchsparcs.compact.normalised_chain import NormalisedChain


@pytest.mark.parametrize("name", EXTRACTED)
def test_a_compact_chain_normalised_and_back(name):
    chain, x = built(name, silent=0.5, normalise=True)
    compact = extract(chain)
    normalised = NormalisedChain(compact, x).eval()
    torch.testing.assert_close(normalised(x), compact(x))
    torch.testing.assert_close(normalised.folded()(x), compact(x))
    normalised.train()
    for norm in normalised.norms:  # a training changes all of it
        nn.init.normal_(norm.gain)
        nn.init.normal_(norm.shift)
    normalised(2 * x + 1)
    torch.testing.assert_close(normalised.folded()(x), normalised.eval()(x))
