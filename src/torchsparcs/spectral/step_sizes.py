"""The length of an optimizer's step for each number: the metric of the proximal step after it."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

State = dict[str, Any]
SIGNS = 2.0  # steps of equal length: against one of them the proximal step goes back as far again


def threshold_of(
    parameter: Tensor, optimizer: Optimizer, weight: float | Tensor, scale: float
) -> Tensor | None:
    """How far the proximal step goes for each number: the size of its step times the two factors.

    None where no step was taken yet.
    """
    size = step_size_of(parameter, optimizer)
    if size is None:
        return None
    threshold = (size * weight * scale).to(parameter.dtype)
    if _is_lion(optimizer):
        longest = SIGNS * torch.as_tensor(_group_of(parameter, optimizer)["lr"])
        threshold = threshold.clamp_max(longest.to(threshold))
    return threshold.expand_as(parameter)


def step_size_of(parameter: Tensor, optimizer: Optimizer) -> Tensor | None:
    """What multiplies the (mean) gradient of each number; None where no step was taken yet.

    Optimizers with a second moment have a size for each number, and so has Lion, all of whose steps
    are as long. Others, and those that are not known, have their learning rate, in the metric of
    Euclid; of unknown ones a warning says so.
    """
    group, state = _group_of(parameter, optimizer), optimizer.state.get(parameter, {})
    rule = next((rule for known, rule in STEP_SIZES.items() if isinstance(optimizer, known)), None)
    if "z" in state:
        raise ValueError(
            "Expected an optimizer whose numbers are the weights themselves. Got "
            f"{type(optimizer).__name__}, which gives means of others, and those are never exactly "
            "zero. Use AdamW with a schedule, or an average that keeps zeros (docs, models)."
        )
    if isinstance(optimizer, torch.optim.LBFGS) or "lr" not in group:
        raise ValueError(
            "Expected an optimizer that steps along the gradient with a learning rate, like "
            f"{', '.join(known.__name__ for known in STEP_SIZES)}. Got {type(optimizer).__name__}."
        )
    if rule is None and {"exp_avg_sq", "step"} <= state.keys() and "betas" in group:
        rule = _adam
    if rule is None and _is_lion(optimizer) and (not state or "exp_avg" in state):
        rule = _lion
    if rule is None:
        warnings.warn(
            f"The steps of {type(optimizer).__name__} are not known: the threshold of the proximal "
            "step is its learning rate times the penalty weight, the same for all eigenvalues.",
            stacklevel=4,
        )
        rule = _euclidean
    return rule(parameter, group, state)


def _euclidean(parameter: Tensor, group: State, state: State) -> Tensor:
    return torch.as_tensor(group["lr"], dtype=parameter.dtype, device=parameter.device)


def _adam(parameter: Tensor, group: State, state: State) -> Tensor | None:
    if not state:
        return None  # not stepped yet, for instance while a gradient scaler skips its first steps
    second_moment = state["max_exp_avg_sq" if group.get("amsgrad") else "exp_avg_sq"]
    unbiased = second_moment / (1 - group["betas"][1] ** state["step"])
    unbiased = unbiased.nan_to_num(torch.inf, torch.inf)  # 0 / 0: no step yet, so none here
    return group["lr"] / (unbiased.sqrt() + group["eps"])


def _radam(parameter: Tensor, group: State, state: State) -> Tensor | None:
    """Adam's times the rectification r_t; the learning rate alone while ρ_t ≤ 5."""
    if not state:
        return None
    beta, step = group["betas"][1], float(state["step"])
    most = 2 / (1 - beta) - 1
    rho = most - 2 * step * beta**step / (1 - beta**step)
    if rho <= 5:
        return _euclidean(parameter, group, state)
    share = (rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho)
    adam = _adam(parameter, group, state)
    return None if adam is None else math.sqrt(share) * adam


def _rmsprop(parameter: Tensor, group: State, state: State) -> Tensor | None:
    if not state:
        return None
    second_moment = state["square_avg"]
    if group["centered"]:
        second_moment = second_moment - state["grad_avg"].square()
    return group["lr"] / (second_moment.clamp_min(0).sqrt() + group["eps"])


def _adagrad(parameter: Tensor, group: State, state: State) -> Tensor | None:
    if not state or not float(state["step"]):
        return None
    lr = group["lr"] / (1 + (float(state["step"]) - 1) * group["lr_decay"])
    return lr / (state["sum"].sqrt() + group["eps"])


def _lion(parameter: Tensor, group: State, state: State) -> Tensor | None:
    """η / |m|: a step η sign m, as a multiple of the mean gradient m."""
    if not state:
        return None
    return group["lr"] / state["exp_avg"].abs().clamp_min(torch.finfo(parameter.dtype).tiny)


def _is_lion(optimizer: Optimizer) -> bool:
    """Whether it is one of many that go by that name; torch has none."""
    return type(optimizer).__name__ == "Lion"


STEP_SIZES: dict[type[Optimizer], Callable[[Tensor, State, State], Tensor | None]] = {
    torch.optim.SGD: _euclidean,
    torch.optim.RAdam: _radam,
    torch.optim.NAdam: _adam,
    torch.optim.Adam: _adam,
    torch.optim.AdamW: _adam,
    torch.optim.RMSprop: _rmsprop,
    torch.optim.Adagrad: _adagrad,
}


def _group_of(parameter: Tensor, optimizer: Optimizer) -> State:
    for group in optimizer.param_groups:
        if any(parameter is member for member in group["params"]):
            return group
    raise ValueError(
        "Expected an optimizer that holds the eigenvalues of the network. Got one that does not; "
        "parameter_groups(module, lr) makes groups with all of them."
    )
