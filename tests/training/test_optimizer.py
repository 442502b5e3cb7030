"""Muon's update, and who is updated by it."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from torch import nn

from gumbeldore.training.optimizer import Muon, optimizer_of, scale_rates
from gumbeldore.training.settings import TrainSettings
from tests.helpers.learners import SIZES

SETTINGS = TrainSettings(**{**SIZES, "muon_learning_rate": 0.02})


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 32), nn.Linear(32, 96), nn.Linear(96, 32), nn.Linear(32, 1))


def loss_of(policy: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return (policy(x) - x.prod(dim=1, keepdim=True)).square().mean()


@pytest.mark.parametrize("decay", [0.0, 5.0])
def test_same_update_as_torch_one_matrix_at_a_time(decay):
    ours, theirs = network(), network()
    matrices = lambda policy: [p for p in policy.parameters() if p.dim() == 2 and min(p.shape) >= 32]  # noqa: E731
    muon = Muon(matrices(ours), lr=0.02, weight_decay=decay, dtype=torch.bfloat16)
    reference = torch.optim.Muon(matrices(theirs), lr=0.02, weight_decay=decay)
    x = torch.randn(64, 2, generator=torch.Generator().manual_seed(1))
    for _ in range(3):
        for policy, optimizer in ((ours, muon), (theirs, reference)):
            policy.zero_grad()
            loss_of(policy, x).backward()
            optimizer.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=2e-3)  # of bf16 products in another order
    assert not torch.equal(next(iter(matrices(ours))), next(iter(matrices(network()))))


def test_a_stack_is_updated_like_its_matrices():
    stack = nn.Parameter(torch.randn(3, 32, 40, generator=torch.Generator().manual_seed(0)))
    alone = [nn.Parameter(matrix.clone()) for matrix in stack.detach()]
    stack.grad = torch.randn(3, 32, 40, generator=torch.Generator().manual_seed(1))
    for parameter, gradient in zip(alone, stack.grad, strict=True):
        parameter.grad = gradient.clone()
    Muon([stack], lr=0.1).step()
    Muon(alone, lr=0.1).step()
    torch.testing.assert_close(stack.detach(), torch.stack([p.detach() for p in alone]))


def test_adam_takes_embeddings_heads_and_biases():
    policy = network()
    adam, muon = optimizer_of(policy, SETTINGS).param_groups
    assert [tuple(p.shape) for p in muon["params"]] == [(96, 32), (32, 96)]
    assert len(adam["params"]) + len(muon["params"]) == len(list(policy.parameters()))
    everything = optimizer_of(policy, dataclasses.replace(SETTINGS, muon_learning_rate=None)).param_groups
    assert len(everything) == 1 and len(everything[0]["params"]) == len(list(policy.parameters()))


def test_settings_without_effect_are_errors():
    with pytest.raises(ValueError, match="muon_weight_decay has no effect"):
        optimizer_of(network(), dataclasses.replace(SETTINGS, muon_learning_rate=None, muon_weight_decay=0.1))
    with pytest.raises(ValueError, match="muon_learning_rate has no effect"):
        optimizer_of(nn.Linear(2, 15), SETTINGS)


def test_rates_fall_together_and_state_continues_exactly():
    x = torch.randn(64, 2, generator=torch.Generator().manual_seed(1))

    def steps(policy, optimizer, shares):
        for share in shares:
            scale_rates(optimizer, share)
            optimizer.zero_grad()
            loss_of(policy, x).backward()
            optimizer.step()

    policy = network()
    optimizer = optimizer_of(policy, SETTINGS)
    steps(policy, optimizer, [1.0, 0.5])
    assert [group["lr"] for group in optimizer.param_groups] == [0.5e-2, 0.5 * 0.02]
    other = copy.deepcopy(policy)
    continued = optimizer_of(other, SETTINGS)
    continued.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    steps(policy, optimizer, [0.25, 0.1])
    steps(other, continued, [0.25, 0.1])
    for a, b in zip(policy.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
