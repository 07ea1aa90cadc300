"""Many small networks side by side: their outputs, and slopes of a loss by their numbers.

Rows are the last axis, so that a few neurons of many networks fill whole vectors. Slopes are
written out, as the products that autograd takes for them are two to four times as slow.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from torchsparcs.compact.direct import DirectSpace, from_biased, layer_slices, with_bias
from torchsparcs.spectral.activations import ACTIVATIONS, resolve_activation


class Stack:
    """Networks padded to common widths, the numbers of each in a row of ``start``.

    A row has, layer by layer, the weights from the inputs with the bias beside them, and those from
    earlier hidden neurons. ``mask`` is 1 where a number is free, ``decays`` where it is a weight as
    well.
    """

    def __init__(self, directs: Sequence[DirectSpace], dtype: torch.dtype):
        first = directs[0]
        self.directs, self.inputs = directs, first.inputs
        self.activation = resolve_activation(first.activation)[1]
        self.is_relu = self.activation is ACTIVATIONS["relu"]
        slices = [layer_slices(direct)[0] for direct in directs]
        depth = max(map(len, slices))
        widths = [[rows.stop - rows.start for rows in each[:-1]] for each in slices]
        hidden = [max(w[k] if k < len(w) else 0 for w in widths) for k in range(depth - 1)]
        self.ends = [0, *accumulate([*hidden, first.outputs])]
        like = first.weights
        numbers = like.new_zeros(len(directs), *self._shape(), dtype=dtype)
        self.places = [self._places(mine, first.outputs).to(like.device) for mine in widths]
        for mine, direct, places in zip(numbers, directs, self.places, strict=True):
            mine[places[:, None], self._sources(places, direct)] = with_bias(direct).to(dtype)
        blocks = self._blocks(numbers)
        self.lengths = [block[0].numel() for block in blocks]
        self.start = torch.cat([block.flatten(1) for block in blocks], dim=1)
        self.mask = (self.start != 0).to(dtype)
        is_weight = torch.ones_like(numbers[:1])
        is_weight[:, :, self.inputs] = 0
        weighed = torch.cat([block.flatten(1) for block in self._blocks(is_weight)], dim=1)
        self.decays = self.mask * weighed

    def outputs(self, point: Tensor, inputs: Tensor) -> Tensor:
        """(members, O, rows) of the networks whose numbers are ``point``, (members, P).

        ``inputs`` (I + 1, rows) have a last row of ones.
        """
        return self._forward(point, inputs)[-1][1]

    def loss_and_slope(
        self, point: Tensor, inputs: Tensor, loss: Callable[[Tensor], tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Of each network its loss, (members,), and the slope by its numbers, (members, P).

        ``loss`` takes the outputs, (members, O, rows), and gives losses and slopes by the outputs.
        """
        blocks, signals = self._split(point), self._forward(point, inputs)
        losses, felt = loss(signals[-1][1])
        slopes: list[Tensor] = []
        sent = felt.new_zeros(len(point), 0, inputs.shape[1])  # to earlier layers, all of them
        for layer in reversed(range(len(signals))):
            start, stop = self.ends[layer : layer + 2]
            heard, activity = signals[layer]
            if stop < self.ends[-1]:
                felt = self._felt(heard, activity, sent[:, start:])
                sent = sent[:, :start]
            if start:
                earlier = [signal.detach() for _, signal in signals[:layer]]
                activities = torch.cat(earlier, dim=1) if layer > 1 else earlier[0]
                slopes.append(torch.bmm(felt, activities.mT))
                back = _product(blocks[layer][1].mT, felt)
                sent = back + sent if sent.shape[1] else back
            by_inputs = inputs @ felt.reshape(-1, inputs.shape[1]).T  # faster than its transpose
            slopes.append(by_inputs.T.reshape(len(point), stop - start, -1))
        return losses, torch.cat([slope.flatten(1) for slope in reversed(slopes)], dim=1)

    def _forward(self, point: Tensor, inputs: Tensor) -> list[tuple[Tensor, Tensor]]:
        """What goes into each layer and what comes out, which can be derived by the former."""
        signals: list[tuple[Tensor, Tensor]] = []
        activities = inputs[:0]
        for layer, (by_inputs, by_hidden) in enumerate(self._split(point)):
            members, width = by_inputs.shape[:2]
            pre = (by_inputs.reshape(members * width, -1) @ inputs).view(members, width, -1)
            if layer:
                pre.baddbmm_(by_hidden, activities)
            if layer == len(self.ends) - 2:
                return [*signals, (pre, pre)]
            activity = self._activity(pre)
            signals.append((pre, activity))
            known = activity.detach()
            activities = torch.cat([activities, known], dim=1) if layer else known
        raise AssertionError

    def _activity(self, pre: Tensor) -> Tensor:
        """f(pre), which may take its place."""
        if self.is_relu:
            return pre.clamp_min_(0)
        with torch.enable_grad():
            return self.activation(pre.requires_grad_())

    def _felt(self, pre: Tensor, activity: Tensor, sent: Tensor) -> Tensor:
        """f′(pre) ⊙ ``sent``."""
        if self.is_relu:  # half the time of autograd
            return torch.ops.aten.threshold_backward(sent, activity, 0)
        (felt,) = torch.autograd.grad(activity, pre, sent)
        return felt

    def _split(self, point: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Layer by layer the weights from inputs and bias, and from all earlier neurons."""
        found, blocks = [], iter(point.split(self.lengths, dim=1))
        for start, stop in pairwise(self.ends):
            by_inputs = next(blocks).view(len(point), stop - start, -1)
            by_hidden = next(blocks) if start else by_inputs[:, :, :0].flatten(1)
            found.append((by_inputs, by_hidden.view(len(point), stop - start, start)))
        return found

    def directs_at(self, point: Tensor) -> list[DirectSpace]:
        """The networks with those numbers, in float64."""
        numbers = point.new_zeros(len(point), *self._shape(), dtype=torch.float64)
        for block, its in zip(self._blocks(numbers), point.split(self.lengths, dim=1), strict=True):
            block.copy_(its.view(block.shape))
        found = []
        for mine, direct, places in zip(numbers, self.directs, self.places, strict=True):
            found.append(from_biased(direct, mine[places[:, None], self._sources(places, direct)]))
        return found

    def _shape(self) -> tuple[int, int]:
        """Of one network's numbers: rows as its neurons, columns inputs, bias, hidden neurons."""
        return self.ends[-1], self.inputs + 1 + self.ends[-2]

    def _sources(self, places: Tensor, direct: DirectSpace) -> Tensor:
        """The columns of inputs, bias and hidden neurons of a network."""
        columns = torch.arange(self.inputs + 1, device=places.device)
        return torch.cat([columns, places[: direct.hidden] + self.inputs + 1])

    def _blocks(self, numbers: Tensor) -> list[Tensor]:
        """Views of what stands in a row of ``start``."""
        split, found = self.inputs + 1, []
        for start, stop in pairwise(self.ends):
            found.append(numbers[:, start:stop, :split])
            if start:
                found.append(numbers[:, start:stop, split : split + start])
        return found

    def _places(self, widths: list[int], outputs: int) -> Tensor:
        """Where the neurons and outputs of a network with those hidden layers stand, (H + O,)."""
        parts = [torch.arange(n) + start for n, start in zip(widths, self.ends, strict=False)]
        return torch.cat([*parts, torch.arange(outputs) + self.ends[-2]])


def _product(weights: Tensor, signals: Tensor) -> Tensor:
    """(members, S, T) @ (members, T, rows); of one output an outer product."""
    return weights * signals if signals.shape[1] == 1 else torch.bmm(weights, signals)
