"""Networks that have only some of their weights: the same function, fewer parameters."""

import numpy as np
import pytest
import torch

from torchsparcs import CompactNetwork, load, save, to_onnx
from torchsparcs.compact.direct import DirectSpace, connection_count
from torchsparcs.compact.sparse import SparseLinear, with_zeros


@pytest.fixture
def direct() -> DirectSpace:
    """3 inputs, one of them unread, 2 hidden neurons, 2 outputs; half of the weights are zero."""
    weights = torch.tensor(
        [
            [1.0, 0.0, 0.0, 0.0, 0.0],
            [0.5, -2.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0, 3.0, 0.0],
            [0.0, 1.5, 0.0, 0.0, -1.0],
        ],
        dtype=torch.float64,
    )
    bias = torch.tensor([0.0, 0.25, 1.0, -1.0], dtype=torch.float64)
    return DirectSpace(weights, bias, torch.tensor([1, 1]), "relu")


def both(direct: DirectSpace) -> tuple[CompactNetwork, CompactNetwork]:
    options = {"maximal": None, "dtype": torch.float64}
    dense = CompactNetwork.from_direct(direct, **options)
    return dense, CompactNetwork.from_direct(direct, **options, sparse=True)


class TestSparseNetworks:
    def test_count_what_is_not_zero(self, direct):
        dense, sparse = both(direct)
        assert dense.parameter_count == 2 * 2 + 2 * 2 + 2 * 2 + 4
        assert sparse.parameter_count == connection_count(direct) == 9
        assert sum(p.numel() for p in sparse.parameters()) == 9
        assert sparse.size.macs == 6
        assert sparse.architecture == "2 of 3 → 2 → 2, skip 2 → 2, 6 of 12 weights"

    def test_compute_the_same(self, direct):
        dense, sparse = both(direct)
        x = torch.randn(50, 3, dtype=torch.float64)
        assert torch.equal(dense(x), sparse(x))
        assert torch.equal(with_zeros(sparse)(x), dense(x))

    def test_are_the_same_in_direct_space(self, direct):
        again = both(direct)[1].to_direct()
        assert torch.equal(again.weights, direct.weights)
        assert torch.equal(again.bias, direct.bias)

    def test_are_dense_where_nothing_is_zero(self):
        weights, bias = torch.ones(1, 2, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
        full = DirectSpace(weights, bias, torch.empty(0, dtype=torch.long), "relu")
        assert isinstance(both(full)[1].block(1, 0), torch.nn.Linear)

    def test_go_through_a_file(self, direct, tmp_path):
        sparse = both(direct)[1]
        save(sparse, tmp_path / "sparse.safetensors")
        again = load(tmp_path / "sparse.safetensors")
        x = torch.randn(5, 3, dtype=torch.float64)
        assert again.parameter_count == 9
        assert torch.equal(again(x), sparse(x))

    def test_of_very_wide_inputs_have_room_for_those_that_are_read(self, tmp_path):
        wide = CompactNetwork(
            [400_000, 100, 1], [(1, 0), (2, 1)], reads=[1, 5], kept={"1_0": [0, 1, 2]}
        )
        save(wide, tmp_path / "wide.safetensors")
        assert load(tmp_path / "wide.safetensors").parameter_count == wide.parameter_count

    def test_go_to_onnx_with_their_zeros(self, direct, tmp_path):
        onnxruntime = pytest.importorskip("onnxruntime")
        sparse = both(direct)[1].float()
        to_onnx(sparse, tmp_path / "sparse.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "sparse.onnx")
        x = torch.randn(5, 3)
        (got,) = session.run(None, {"input": x.numpy()})
        np.testing.assert_allclose(got, sparse(x).detach().numpy(), rtol=1e-5, atol=1e-6)

    def test_are_trained_as_they_are(self, direct):
        sparse = both(direct)[1]
        optimizer = torch.optim.SGD(sparse.parameters(), lr=0.1)
        sparse(torch.randn(9, 3, dtype=torch.float64)).square().mean().backward()
        optimizer.step()
        after = sparse.to_direct()
        assert ((after.weights == 0) == (direct.weights == 0)).all()
        assert not torch.equal(after.weights, direct.weights)


class TestPlaces:
    @pytest.mark.parametrize("places", [(), (3, 3), (4, 2), (-1, 2), (0, 6), (0.5,)])
    def test_must_be_ascending_and_inside(self, places):
        with pytest.raises((ValueError, TypeError)):
            SparseLinear(2, 2, places)

    def test_of_blocks_that_are_not_there_are_refused(self):
        with pytest.raises(ValueError, match="names of blocks"):
            CompactNetwork([2, 1], [(1, 0)], kept={"2_1": [0]})
