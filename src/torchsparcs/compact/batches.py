"""Fits of many small networks at once by minibatches: AdamW, all networks on the same rows."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torchsparcs.compact.direct import DirectSpace
from torchsparcs.compact.fitting import losses_of, with_rows_last
from torchsparcs.compact.stack import Stack
from torchsparcs.training.config import SCHEDULES
from torchsparcs.training.deadline import NEVER, Deadline

BATCH = 256  # rows
LR, DECAY = 2e-2, 1e-2
BETAS = (0.9, 0.99)  # the steps are few


@torch.no_grad()
def trained(
    directs: Sequence[DirectSpace],
    pair: tuple[Tensor, Tensor],
    weights: Tensor,
    task: str,
    *,
    steps: int,
    seed: int,
    deadline: Deadline = NEVER,
) -> list[DirectSpace]:
    """Take ``steps`` down the mean loss of each network from where it is.

    Connections and biases that are zero stay so.

    Args:
        pair: inputs (rows, I) and targets as the task has them, for all networks; or targets of
            each, (networks, rows, O), of classes their probabilities.
        weights: (networks, rows), how much each row counts for each.
        seed: of the order of the rows.
        deadline: when it ends, wherever it is.
    """
    stack = Stack(directs, torch.float32)
    inputs, target = with_rows_last(pair, task, torch.float32, directs[0].outputs)
    by_row = inputs.T.contiguous(), target.movedim(-1, 0).contiguous()
    losses, rows, device = losses_of(task), inputs.shape[1], inputs.device
    batch, share = min(BATCH, rows), (weights / weights.mean(dim=1, keepdim=True)).to(inputs)
    point = nn.Parameter(stack.start.clone())
    optimizer = torch.optim.AdamW([point], LR, BETAS, weight_decay=DECAY, fused=True)
    generator, order = torch.Generator().manual_seed(seed % 2**63), torch.empty(0, device=device)
    for step in range(steps):
        if deadline.is_over:
            break
        if len(order) < batch:
            order = torch.randperm(rows, generator=generator).to(device)
        some, order = order[:batch], order[batch:]
        aim, counted = by_row[1][some].movedim(0, -1), share[:, some] / batch

        def weighed(output: Tensor, aim=aim, counted=counted):  # type: ignore[no-untyped-def]
            each, by_output = losses(output, aim)
            return (each * counted).sum(dim=1), by_output * counted[:, None]

        _, slope = stack.loss_and_slope(point.detach(), by_row[0][some].T.contiguous(), weighed)
        point.grad = slope * stack.mask
        optimizer.param_groups[0]["lr"] = LR * SCHEDULES["warm_cosine"](step / steps)
        optimizer.step()
    return stack.directs_at(point.detach())
