"""Checkpoints: what is packed comes back, and anything else is refused."""

import pytest
import torch

from torchsparcs.files.checkpoint import packed, unpacked


class TestPacking:
    def test_a_round_trip(self):
        state = {
            "tensors": [torch.arange(3), torch.tensor(2.5), torch.zeros(0, 3), torch.ones(1) > 0],
            "numbers": [float(n) / 3 for n in range(40)],
            "whole": list(range(40)),
            "mixed": (None, True, 1, 0.1, "text", float("inf"), -0.0),
            3: {"nested": ((), [], {})},
        }
        found = unpacked(packed(state))
        pairs = zip(found.pop("tensors"), state.pop("tensors"), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
        assert found == state
        assert str(found) == str(state)  # types and the sign of zero too

    def test_views_of_one_memory_are_packed_apart(self):
        whole = torch.arange(6.0).view(2, 3)
        found = unpacked(packed({"whole": whole, "turned": whole.T, "row": whole[1]}))
        assert torch.equal(found["turned"], whole.T)
        assert torch.equal(found["row"], whole[1])

    def test_what_is_no_data_is_refused(self):
        with pytest.raises(TypeError, match=r"values and tensors.*Got object"):
            packed([object()])

    def test_a_changed_number_is_noticed(self):
        content = bytearray(packed({"weights": torch.ones(100)}))
        content[-100] ^= 1
        with pytest.raises(ValueError, match="cut short or was changed"):
            unpacked(bytes(content))

    @pytest.mark.parametrize("content", [b"", b"\0" * 20, packed([1])[:-3], b"\xff" * 40])
    def test_anything_else_is_refused(self, content):
        with pytest.raises(ValueError, match="a state that was packed"):
            unpacked(content)
