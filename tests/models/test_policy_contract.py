"""What a policy has without saying so, and what `policy_contract` refuses."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gumbeldore.interfaces import Policy
from gumbeldore.testing import policy_contract
from problems.tsp import TSP

PROBLEM = TSP(6)


class Nearest(Policy):
    """The nearer a node, the more likely it is next."""

    def __init__(self):
        super().__init__()
        self.nearness = nn.Parameter(torch.tensor(2.0))

    def forward(self, context, state):
        here = context.coords[torch.arange(len(state.origin)), state.origin]
        return -self.nearness * (context.coords - here[:, None]).norm(dim=-1)


class OfTheCVRP(Nearest):
    problem = "cvrp"


class Forgetful(Nearest):
    def canonical_state(self, instance, state):
        return state._replace(origin=torch.zeros_like(state.origin))


class OtherLogits(Nearest):
    def with_auxiliary_loss(self, context, state, remaining_actions):
        return 2 * self(context, state), torch.zeros(())


class NegativeLoss(Nearest):
    def with_auxiliary_loss(self, context, state, remaining_actions):
        return self(context, state), torch.tensor(-1.0)


class ManyLosses(Nearest):
    def with_auxiliary_loss(self, context, state, remaining_actions):
        return self(context, state), torch.zeros(6)


class EncodesATensor(Nearest):
    def encode(self, instance):
        return instance.coords


class EncodesADict(Nearest):
    def encode(self, instance):
        return {"coords": instance.coords}


class Rounded(Nearest):
    """As a last layer without full precision does it."""

    def forward(self, context, state):
        features = super().forward(context, state)[..., None]
        return (features @ torch.ones(1, 1)).squeeze(-1)


class RoundedBefore(Rounded):
    def forward(self, context, state):
        return super().forward(context, state).float()


class NoPolicy(nn.Module):
    encode, forward = Nearest.encode, Nearest.forward


def test_a_policy_needs_nothing_but_forward():
    policy = Nearest()
    policy_contract(policy, PROBLEM)
    instance = PROBLEM.generate(3, torch.Generator().manual_seed(0))
    state = PROBLEM.reset(instance)
    assert policy.problem is None
    assert policy.encode(instance) is instance and policy.canonical_state(instance, state) is state
    logits, loss = policy.with_auxiliary_loss(instance, state, torch.arange(1, 6).expand(3, -1))
    assert torch.equal(logits, policy(instance, state)) and loss.shape == () and loss == 0
    with pytest.raises(TypeError, match="abstract method '?forward"):
        Policy()


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        (EncodesATensor, "encode must give a NamedTuple of tensors, got Tensor"),
        (EncodesADict, "encode must give a NamedTuple of tensors, got dict"),
        (NoPolicy, r"a policy must inherit gumbeldore.Policy, \S+\.NoPolicy does not"),
        (OfTheCVRP, "the policy is for the problem cvrp, not for tsp"),
        (Forgetful, "a state and its canonical_state must have the same logits"),
        (OtherLogits, "with_auxiliary_loss must give the logits of forward"),
        (NegativeLoss, "the auxiliary loss must be one finite number that is not negative, got -1.0"),
        (Rounded, "logits must be torch.float32 under autocast, too, got torch.bfloat16"),
        (RoundedBefore, "logits must not be rounded to bf16 under autocast"),
        (ManyLosses, "the auxiliary loss must be one finite number that is not negative, got tensor"),
    ],
)
def test_what_breaks_a_rule_is_refused_by_its_name(policy, rule):
    with pytest.raises(AssertionError, match=rule):
        policy_contract(policy(), PROBLEM)
