"""What a policy has without saying so, what `policy_contract` refuses, and what our networks do not round to bf16."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gumbeldore import Policy, policy_contract
from gumbeldore.runtime.precision import InPrecision
from models.layers import FullPrecisionLinear
from problems.tsp import TSP
from tests.helpers.networks import awake
from tests.helpers.repeated_states import CASES

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


def with_loss(factor, loss):
    """Other logits by this factor in training, and this auxiliary loss."""

    class WithLoss(Nearest):
        def with_auxiliary_loss(self, context, state, remaining_actions):
            return factor * self(context, state), torch.tensor(loss)

    return WithLoss


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
        (with_loss(2, 0.0), "with_auxiliary_loss must give the logits of forward"),
        (with_loss(1, -1.0), "the auxiliary loss must be one finite number that is not negative, got -1.0"),
        (Rounded, "logits must be torch.float32 under autocast, too, got torch.bfloat16"),
        (RoundedBefore, "logits must not be rounded to bf16 under autocast"),
        (with_loss(1, [0.0] * 6), "the auxiliary loss must be one finite number that is not negative, got tensor"),
    ],
)
def test_what_breaks_a_rule_is_refused_by_its_name(policy, rule):
    with pytest.raises(AssertionError, match=rule):
        policy_contract(policy(), PROBLEM)


def is_bf16(x: torch.Tensor) -> torch.Tensor:
    """Which numbers bf16 can hold."""
    return x == x.to(torch.bfloat16)


@pytest.mark.parametrize("case", CASES)
def test_the_first_and_the_last_map_of_a_network_are_not_rounded(case):
    """What reads coordinates, and what writes logits."""
    torch.manual_seed(0)
    problem, network = CASES[case]
    policy = awake(network()).eval()
    assert isinstance(policy.embed, FullPrecisionLinear) and isinstance(policy.head, FullPrecisionLinear)
    seen = []
    policy.embed.register_forward_hook(lambda module, given, found: seen.append(found))
    instances = problem.generate(6, torch.Generator().manual_seed(0))
    asked = InPrecision(policy, torch.device("cpu"), "bf16")
    logits = asked(asked.encode(instances), problem.reset(instances))
    for numbers in (*seen, logits[problem.mask(instances, problem.reset(instances))]):
        assert numbers.dtype == torch.float32 and is_bf16(numbers).double().mean() < 0.1
