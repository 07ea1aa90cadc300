"""One step of training: the loss, the optimizer's step and the proximal one."""

import contextlib
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs.spectral.groups import other_groups, parameter_groups
from torchsparcs.spectral.network import SpectralModule
from torchsparcs.spectral.penalties import eigenvalue_penalty, shrink_eigenvalues_
from torchsparcs.spectral.population import members_of
from torchsparcs.training.config import AMP_DTYPES, SCHEDULES, TrainConfig
from torchsparcs.training.devices import Ranks
from torchsparcs.training.nests import called, mapped, rows_of, tensors_in
from torchsparcs.training.tasks import resolve_task

VECTOR = 16  # numbers that the optimizer's kernel works on at once
CAPTURE_AFTER = 3  # eager steps, in which everything that is allocated once gets allocated


class TrainingStep:
    """The optimizer of a module and what belongs to it, driven by a :class:`TrainConfig`.

    ``own_targets``: the targets of a population have a leading axis of members. ``ranks``: the
    processes that each have a part of every batch and take the same step. ``is_part``: the members
    of a population get the same bits among any others, for a price.
    """

    def __init__(
        self,
        module: nn.Module,
        config: TrainConfig,
        own_targets: bool,
        ranks: Ranks,
        *,
        is_part: bool = False,
    ):
        self.module, self.config, self.own_targets = module, config, own_targets
        self.ranks, self.is_part = ranks, is_part
        self.device = next(module.parameters()).device
        self.spectral = [p for p in module.modules() if isinstance(p, SpectralModule)]
        self.members = members_of(module)
        if config.capture and self.device.type != "cuda":
            raise ValueError("Expected a module on a GPU to capture its step. Got one on the CPU.")
        if config.capture and ranks.world > 1:
            raise ValueError(
                "Expected capture=False where several processes share a training. Got True."
            )

        self.task = resolve_task(config.task)
        self.forward = torch.compile(module) if config.compile else module
        fused = all(map(_is_fusible, module.parameters()))
        apart = is_part and fused and self.device.type == "cpu"
        self.optimizer = torch.optim.AdamW(
            _with_tails_apart(self._groups()) if apart else self._groups(),
            weight_decay=config.weight_decay,
            capturable=config.capture,
            fused=fused,
        )
        self.base_lrs = [group["lr"] for group in self.optimizer.param_groups]
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.amp == "float16")
        self.penalty_weight = self._per_member(config.penalty_weight)
        self.lr_scales = self._per_member(config.member_lr_scales or 1.0)
        # those whose steps are scaled member by member
        scaled = self.spectral if config.member_lr_scales else []
        self.scaled = [p for part in scaled for p in part.parameters()]
        self.warmth = torch.ones((), device=self.device, dtype=torch.float64)  # of the penalty
        self.lr_factor: float | None = None  # that the learning rates have now
        self.noise = torch.Generator().manual_seed(config.seed + ranks.rank)
        self._place_learning_rates()

    def set_progress(self, progress: float) -> None:
        """Learning rates and penalty as they are at ``progress``, 0 to 1, of the training."""
        factor = SCHEDULES[self.config.schedule](progress)
        if factor != self.lr_factor:
            self.lr_factor = factor
            for group, lr in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(lr * factor)
                else:
                    group["lr"] = lr * factor
        if self.config.penalty_warmup > 0:
            self.warmth.fill_(min(1.0, progress / self.config.penalty_warmup))

    def __call__(self, x: Any, y: Any, weights: Tensor | None = None) -> Tensor:
        """Train on one batch, its rows with ``weights`` if they have any; the loss, detached.

        On a CPU a step whose loss is not finite is not taken.
        """
        config = self.config
        self.optimizer.zero_grad(set_to_none=True)
        if config.input_dropout:
            x = mapped(self._dropped, x)
        with self._autocast():
            loss = self._losses(called(self.forward, x), y, weights)
        if self.ranks.world == 1 and self._is_lost(loss):
            return loss.detach()
        total = loss.sum()
        weight = self.penalty_weight * self.warmth
        if self.spectral and not config.proximal:
            total = total + (weight * self._penalty()).sum()
        before = [parameter.detach().clone() for parameter in self.scaled]
        scale = self.scaler.get_scale()
        self.scaler.scale(total).backward()
        rows = y.shape[1] if self.own_targets else rows_of(y)
        loss = self._over_all_rows_(loss.detach(), rows)
        if self.ranks.world > 1 and self._is_lost(loss):
            return loss
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.scaler.get_scale() < scale:
            return loss  # the optimizer's step was skipped, so is the proximal one
        for parameter, old in zip(self.scaled, before, strict=True):
            scales = self.lr_scales.to(old.dtype).view(-1, *[1] * (parameter.dim() - 1))
            parameter.data.copy_(old + scales * (parameter.data - old))
        if self.spectral and config.proximal:
            shrink_eigenvalues_(
                self.module,
                self.optimizer,
                weight * self.lr_scales,
                config.penalty,
                layer_scales=config.layer_penalty_scales,
            )
        return loss

    def _penalty(self) -> Tensor:
        scales = self.config.layer_penalty_scales
        return eigenvalue_penalty(self.module, self.config.penalty, layer_scales=scales)

    def state_dict(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict(), "scaler": self.scaler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.lr_factor = None
        self._place_learning_rates()

    def _groups(self) -> list[dict[str, Any]]:
        """Parameter groups; those that are treated alike are one, and take one kernel."""
        if not self.spectral:
            groups = other_groups(self.module, self.config.lr)
        else:
            groups = parameter_groups(
                self.module,
                self.config.lr,
                eigenvalue_lr_scale=self.config.eigenvalue_lr_scale,
                transfer_weight_decay=self.config.transfer_weight_decay,
            )
        alike: dict[tuple[float, float], list[Tensor]] = {}
        for group in groups:
            treatment = group["lr"], group.get("weight_decay", self.config.weight_decay)
            alike.setdefault(treatment, []).extend(group["params"])
        return [{"params": p, "lr": lr, "weight_decay": d} for (lr, d), p in alike.items()]

    def _per_member(self, value: float | tuple[float, ...]) -> Tensor:
        """A scalar, or (members,)."""
        if isinstance(value, tuple) and len(value) != self.members:
            raise ValueError(
                f"Expected one number, or one for each of {self.members or 'no'} members. "
                f"Got {len(value)}."
            )
        return torch.tensor(value, device=self.device, dtype=torch.float64)

    def _place_learning_rates(self) -> None:
        """A captured step reads its learning rates from the device."""
        if self.config.capture:
            for group in self.optimizer.param_groups:
                group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32).to(self.device)

    def _is_lost(self, loss: Tensor) -> bool:
        return self.device.type == "cpu" and not self.is_part and not torch.isfinite(loss).any()

    def _over_all_rows_(self, loss: Tensor, rows: int) -> Tensor:
        """The loss over the rows of all processes, and the gradients in place.

        Of means over nᵣ rows each, with Σ nᵣ = n, it is Σ (nᵣ / n) mean_r.
        """
        if self.ranks.world == 1:
            return loss
        share = torch.tensor([rows], device=loss.device, dtype=torch.float64)
        self.ranks.sum_([count := share.clone()])
        share /= count
        loss = loss * share.to(loss.dtype).squeeze()
        gradients = [p.grad for p in self.module.parameters() if p.grad is not None]
        for gradient in gradients:
            gradient.mul_(share.to(gradient.dtype))
        self.ranks.sum_([*gradients, loss])
        return loss

    def _dropped(self, x: Tensor) -> Tensor:
        """Dropout that on a CPU draws from a generator of its own, whatever other threads draw."""
        if not x.is_floating_point():
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.config.input_dropout)
        kept = 1 - self.config.input_dropout
        shape = x.shape[1:] if self.members is not None and x.dim() == 3 else x.shape
        drawn = torch.rand(shape, generator=self.noise, dtype=x.dtype)
        return torch.where(drawn < kept, x / kept, 0)

    def _losses(self, output: Any, target: Any, weights: Tensor | None) -> Tensor:
        """A scalar, or one loss for each member, (members,)."""
        loss = self.task.loss if weights is None else self.task.losses
        assert loss is not None
        if self.members is not None:
            loss = torch.vmap(loss, in_dims=(0, 0 if self.own_targets else None))
        losses = loss(output, target)
        if weights is None:
            return losses
        rank = 1 if self.members is None else 2
        if losses.dim() > rank:  # a row of several places counts with their mean
            losses = losses.flatten(rank).mean(dim=-1)
        return (losses * weights).mean(dim=-1)

    def _autocast(self) -> contextlib.AbstractContextManager:
        if self.config.amp is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=AMP_DTYPES[self.config.amp])


class CapturedStep:
    """``step(*batch) -> loss``, recorded as a CUDA graph after a few calls and replayed from then.

    What changes between steps (learning rates) must live in tensors. Batches of another shape than
    the recorded one are taken as they come.
    """

    def __init__(self, step: Callable[..., Tensor]):
        self.step, self.eager_steps = step, 0
        self.batch: tuple[Any, ...] = ()
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, *batch: Any) -> Tensor:
        if self.graph is None and self.eager_steps >= CAPTURE_AFTER:
            self.batch, self.graph = mapped(torch.clone, batch), torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
                self.loss = self.step(*self.batch)
        pairs = [*zip_longest(tensors_in(self.batch), tensors_in(batch))]
        is_known = all(a is not None and b is not None and a.shape == b.shape for a, b in pairs)
        if self.graph is None or not is_known:
            self.eager_steps += 1
            return self.step(*batch)
        for recorded, given in pairs:
            recorded.copy_(given)
        self.graph.replay()
        return self.loss.clone()


def _is_fusible(parameter: Tensor) -> bool:
    """Whether the optimizer's fused kernel may step it: on a CPU it ignores strides."""
    if parameter.is_cuda and parameter.dim() == 4:
        return (
            parameter.is_contiguous(memory_format=torch.channels_last) or parameter.is_contiguous()
        )
    return parameter.device.type in ("cpu", "cuda") and parameter.is_contiguous()


def _with_tails_apart(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Groups without fusion for parameters whose members do not fill the kernel's vectors.

    At the end of a parameter the fused kernel rounds otherwise; where that is depends on how many
    members there are.
    """
    apart = []
    for group in groups:
        for fused in (True, False):
            chosen = [p for p in group["params"] if (p[0].numel() % VECTOR == 0) == fused]
            if chosen:
                apart.append({**group, "params": chosen, "fused": fused, "foreach": not fused})
    return apart
