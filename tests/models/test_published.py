"""Imported policies compute what the authors' code computes, along whole solutions."""

from __future__ import annotations

import pytest
import torch

from gumbeldore.batches import take
from gumbeldore.testing import policy_contract
from models.published import JSSPTransformer, second_depot_hidden
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.networks import awake
from tests.helpers.published import STAND_INS, policy_of, problem_of, recorded

TOLERANCE = 1e-5
SMALL = {"tsp": TSP(7), "cvrp": CVRP(7, [10, 20]), "jssp": JSSP([[3, 4]], [[3, 4]])}


def log_probs_of(policy, problem, instance, state):
    with torch.no_grad():
        logits = policy(policy.encode(instance), state).masked_fill(~problem.mask(instance, state), -torch.inf)
    return logits.log_softmax(dim=1)


@pytest.mark.parametrize("name", STAND_INS)
def test_log_probabilities_are_those_of_the_authors(name):
    """After every prefix, of the state as it is, of its canonical form, and of each row alone."""
    policy, problem = policy_of(name), problem_of(name)
    for instance, actions, _, expected in recorded(name):
        assert expected.shape[1] >= 9
        for step in range(expected.shape[1]):
            state = problem.replay(instance, actions[:, :step])
            for each in (state, policy.canonical_state(instance, state)):
                found = log_probs_of(policy, problem, instance, each)
                torch.testing.assert_close(found, expected[:, step], atol=TOLERANCE, rtol=0)
        for row in range(len(actions)):
            alone = slice(row, row + 1)
            found = log_probs_of(policy, problem, take(instance, alone), take(state, alone))
            torch.testing.assert_close(found, expected[alone, step], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", STAND_INS)
def test_costs_of_solutions_are_those_of_the_authors(name):
    problem = problem_of(name)
    for instance, actions, cost, _ in recorded(name):
        torch.testing.assert_close(problem.cost(instance, actions).double(), cost.double(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", STAND_INS)
def test_contract(name):
    for seed in range(3):
        policy_contract(policy_of(name), SMALL[STAND_INS[name].problem], seed=seed)


@pytest.mark.parametrize("name", ["cvrp_bq", "cvrp_lehd"])
def test_vehicles_in_the_depot_beside_others(name):
    """Pieces of solutions begin in the depot or on the way, in one batch."""
    policy, problem = policy_of(name), SMALL["cvrp"]
    instance = problem.generate(6, torch.Generator().manual_seed(0))
    state = problem.replay(instance, torch.arange(3).expand(6, -1) + 7)
    in_depot = torch.arange(6) % 2 == 0
    state = state._replace(origin=state.origin.masked_fill(in_depot, 0), left=instance.capacity)
    together = log_probs_of(policy, problem, instance, state)
    assert second_depot_hidden(state).shape == (6, 1, 1, 6)
    for row in range(6):
        alone = slice(row, row + 1)
        found = log_probs_of(policy, problem, take(instance, alone), take(state, alone))
        torch.testing.assert_close(found, together[alone], atol=TOLERANCE, rtol=0)
    assert second_depot_hidden(take(state, torch.tensor([1, 3, 5]))) is None


def test_any_number_of_layers_from_two_on():
    for layers in (2, 5, 6):
        torch.manual_seed(0)
        policy = awake(JSSPTransformer(16, layers, 2, 32))
        assert len([name for name, _ in policy.named_parameters() if name.endswith("scale")]) == layers + 1
        policy_contract(policy, SMALL["jssp"])
    with pytest.raises(ValueError, match="blocks must be an integer of at least 1"):
        JSSPTransformer(16, 1, 2, 32)
