"""Adam, and Muon for the matrices in the middle of a network [Jordan et al. 2024, "Muon"]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gumbeldore.training.settings import ImitationSettings

SMALLEST = 16  # Adam updates matrices with a shorter side: embeddings of few numbers, and heads
QUINTIC = (3.4445, -4.7750, 2.0315)  # Newton-Schulz coefficients whose fixed interval is near 1 [Jordan et al. 2024]
STEPS = 5
MOMENTUM = 0.95  # share of the old in the running average of gradients (Nesterov's)


class Muon(torch.optim.Optimizer):
    """Moves every matrix by its momentum with all singular values set to about 1.

    torch.optim.Muon goes matrix by matrix, which takes half of a training step with the small networks of this field.
    Here all matrices of the same shape are updated at once. A parameter of more than two dimensions is a stack of
    matrices.

    Arguments:
        lr: length of the update per singular value, for matrices not taller than wide; times the root of
            height / width for taller ones
        weight_decay: share of the weights, times lr, that is lost at every step
        dtype: of the iteration
    """

    def __init__(
        self, params: list[nn.Parameter], lr: float, weight_decay: float = 0.0, dtype: torch.dtype = torch.float32
    ):
        super().__init__(params, {"lr": lr, "momentum": MOMENTUM, "weight_decay": weight_decay})
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not parameters:
                continue
            lr, momentum = group["lr"], group["momentum"]
            gradients = [parameter.grad for parameter in parameters]
            for parameter in parameters:
                if "average" not in self.state[parameter]:
                    self.state[parameter]["average"] = torch.zeros_like(parameter)
            averages = [self.state[parameter]["average"] for parameter in parameters]
            torch._foreach_lerp_(averages, gradients, 1 - momentum)
            updates = self._orthogonalised(torch._foreach_lerp(gradients, averages, momentum))
            torch._foreach_mul_(updates, [-lr * max(1.0, p.shape[-2] / p.shape[-1]) ** 0.5 for p in parameters])
            torch._foreach_mul_(parameters, 1 - lr * group["weight_decay"])
            torch._foreach_add_(parameters, updates)

    def _orthogonalised(self, matrices: Sequence[Tensor]) -> list[Tensor]:
        """Each of these stacks of matrices `orthogonalised`; stacks of matrices of the same shape at once."""
        stacks = [x.flatten(0, -3) if x.dim() > 2 else x[None] for x in matrices]
        lying = [x if x.shape[1] <= x.shape[2] else x.mT for x in stacks]
        same: dict[tuple[int, ...], list[int]] = {}
        for index, x in enumerate(lying):
            same.setdefault(tuple(x.shape[1:]), []).append(index)
        found = list(matrices)
        for members in same.values():
            result = orthogonalised(torch.cat([lying[i] for i in members]).to(self.dtype))
            for i, x in zip(members, result.split([len(lying[i]) for i in members]), strict=True):
                x = x if lying[i] is stacks[i] else x.mT
                found[i] = x.to(matrices[i].dtype).reshape(matrices[i].shape)
        return found


def orthogonalised(matrices: Tensor) -> Tensor:
    """Matrices with the same singular vectors and all singular values near 1 (0 stays 0).

    Arguments:
        matrices: [n, height, width], not taller than wide
    """
    x = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    a, b, c = QUINTIC
    for _ in range(STEPS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x


class Optimizers:
    """Several optimizers as one."""

    def __init__(self, *optimizers: torch.optim.Optimizer):
        self.optimizers = optimizers

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none)

    def step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()

    def state_dict(self) -> list[dict[str, Any]]:
        return [optimizer.state_dict() for optimizer in self.optimizers]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        """Take over what `state_dict` has given. Raises ValueError for other types, which torch takes."""
        for optimizer, state in zip(self.optimizers, states, strict=True):
            for mine, given in zip(optimizer.param_groups, state["param_groups"], strict=True):
                known = {"initial_lr": mine["lr"], **mine}  # the former since the first step
                if wrong := [key for key in given if type(given[key]) is not type(known[key])]:
                    raise ValueError(f"{wrong[0]} of the optimizer must not be {given[wrong[0]]!r:.50}")
            optimizer.load_state_dict(state)
            for parameter, entry in optimizer.state.items():
                if any(value.dim() and value.shape != parameter.shape for value in entry.values()):
                    raise ValueError("the optimizer's state has other shapes than the network")


def optimizer_of(policy: nn.Module, settings: ImitationSettings, dtype: torch.dtype = torch.float32) -> Optimizers:
    """Adam for all parameters, or with `muon_learning_rate` Muon for the matrices and Adam for the rest.

    Arguments:
        dtype: of Muon's iteration
    """
    parameters = list(policy.parameters())
    matrices = [p for p in parameters if p.dim() >= 2 and min(p.shape[-2:]) >= SMALLEST]
    if settings.muon_learning_rate is None:
        return Optimizers(torch.optim.Adam(parameters, lr=settings.learning_rate, fused=True))
    if not matrices:
        rule = f"train.muon_learning_rate has no effect: no matrix of the model has {SMALLEST} rows and columns"
        raise ValueError(f"{rule}; train.muon_learning_rate=null train.muon_weight_decay=0 is Adam for all")
    muons = {id(p) for p in matrices}
    rest = [p for p in parameters if id(p) not in muons]
    return Optimizers(
        torch.optim.Adam(rest, lr=settings.learning_rate, fused=True),
        Muon(matrices, settings.muon_learning_rate, weight_decay=settings.muon_weight_decay, dtype=dtype),
    )


def scale_rates(optimizer: Any, share: float) -> None:
    """Set every learning rate to a share of the one the optimizer began with."""
    for group in optimizer.param_groups:
        group["lr"] = share * group.setdefault("initial_lr", group["lr"])
