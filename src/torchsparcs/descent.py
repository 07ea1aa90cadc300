"""One step of training: the loss, the optimizer's step and the proximal one."""

import contextlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs.capture import CapturedStep
from torchsparcs.config import AMP_DTYPES, SCHEDULES, TrainConfig
from torchsparcs.network import SpectralModule
from torchsparcs.optimization import parameter_groups
from torchsparcs.penalties import eigenvalue_penalty, shrink_eigenvalues_
from torchsparcs.population import members_of
from torchsparcs.tasks import resolve_task

CAPTURE_AFTER = 3  # eager steps, in which everything that is allocated once gets allocated


class Descent:
    """The optimizer of a module and what belongs to it, driven by a :class:`TrainConfig`.

    ``own_targets``: the targets of a population have a leading axis of members.
    """

    def __init__(self, module: nn.Module, config: TrainConfig, own_targets: bool):
        self.module, self.config, self.own_targets = module, config, own_targets
        self.device = next(module.parameters()).device
        self.spectral = [p for p in module.modules() if isinstance(p, SpectralModule)]
        self.members = members_of(module)
        if config.capture and self.device.type != "cuda":
            raise ValueError("Expected a module on a GPU to capture its step. Got one on the CPU.")

        self.task = resolve_task(config.task)
        self.forward = torch.compile(module) if config.compile else module
        self.optimizer = torch.optim.AdamW(
            self._groups(),
            weight_decay=config.weight_decay,
            capturable=config.capture,
            # on a GPU the compiler does better; on a CPU it is wrong for strided parameters
            fused=self.device.type == "cpu" and all(p.is_contiguous() for p in module.parameters()),
        )
        self.base_lrs = [group["lr"] for group in self.optimizer.param_groups]
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.amp == "float16")
        self.penalty_weight = self._per_member(config.penalty_weight)
        self.lr_scales = self._per_member(config.member_lr_scales or 1.0)
        # those whose steps are scaled member by member
        scaled = self.spectral if config.member_lr_scales else []
        self.scaled = [p for part in scaled for p in part.parameters()]
        self.warmth = torch.ones((), device=self.device, dtype=torch.float64)  # of the penalty
        self.replay: CapturedStep | None = None
        self.eager_steps = 0
        self._place_learning_rates()

    def step(self, batch: tuple[Tensor, ...], progress: float) -> Tensor:
        """Train on one batch at ``progress``, 0 to 1, of the whole; returns the loss, detached.

        A batch is inputs, targets and, where rows count differently, their weights. On a CPU a
        step whose loss is not finite is not taken.
        """
        self._set_pace(progress)
        if self.config.capture and self.replay is None and self.eager_steps >= CAPTURE_AFTER:
            self.replay = CapturedStep(self._descend, *batch)
        if self.replay is not None and self.replay.fits(*batch):
            return self.replay(*batch)
        self.eager_steps += 1
        return self._descend(*batch)

    def state_dict(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict(), "scaler": self.scaler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self._place_learning_rates()

    def _groups(self) -> list[dict[str, Any]]:
        if not self.spectral:
            return [{"params": list(self.module.parameters()), "lr": self.config.lr}]
        return parameter_groups(
            self.module,
            self.config.lr,
            eigenvalue_lr_scale=self.config.eigenvalue_lr_scale,
            transfer_weight_decay=self.config.transfer_weight_decay,
        )

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

    def _set_pace(self, progress: float) -> None:
        factor = SCHEDULES[self.config.schedule](progress)
        for group, lr in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr * factor)
            else:
                group["lr"] = lr * factor
        if self.config.penalty_warmup > 0:
            self.warmth.fill_(min(1.0, progress / self.config.penalty_warmup))

    def _descend(self, x: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
        config = self.config
        self.optimizer.zero_grad(set_to_none=True)
        if config.input_dropout:
            x = F.dropout(x, config.input_dropout)
        with self._autocast():
            loss = self._losses(self.forward(x), y, weights)
        if self.device.type == "cpu" and not torch.isfinite(loss).any():
            return loss.detach()
        total = loss.sum()
        weight = self.penalty_weight * self.warmth
        if self.spectral and not config.proximal:
            total = total + (weight * eigenvalue_penalty(self.module, config.penalty)).sum()
        before = [parameter.detach().clone() for parameter in self.scaled]
        scale = self.scaler.get_scale()
        self.scaler.scale(total).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.scaler.get_scale() < scale:
            return loss.detach()  # the optimizer's step was skipped, so is the proximal one
        for parameter, old in zip(self.scaled, before, strict=True):
            scales = self.lr_scales.to(old.dtype).view(-1, *[1] * (parameter.dim() - 1))
            parameter.data.copy_(old + scales * (parameter.data - old))
        if self.spectral and config.proximal:
            shrink_eigenvalues_(
                self.module, self.optimizer, weight * self.lr_scales, config.penalty
            )
        return loss.detach()

    def _losses(self, output: Tensor, target: Tensor, weights: Tensor | None) -> Tensor:
        """A scalar, or one loss for each member, (members,)."""
        loss = self.task.loss if weights is None else self.task.losses
        assert loss is not None
        if self.members is not None:
            loss = torch.vmap(loss, in_dims=(0, 0 if self.own_targets else None))
        losses = loss(output, target)
        return losses if weights is None else (losses * weights).mean(dim=-1)

    def _autocast(self) -> contextlib.AbstractContextManager:
        if self.config.amp is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=AMP_DTYPES[self.config.amp])
