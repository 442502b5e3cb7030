"""On a GPU everything is where it belongs, and the loops hardly wait for it: shown without one.

tests/test_gpu.py asks a real one.
"""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F

from gumbeldore.batches import to
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search
from gumbeldore.training.dataset import PseudoExperts
from gumbeldore.training.imitation import imitate
from gumbeldore.training.optimizer import optimizer_of
from tests.helpers.learners import WITH_MUON
from tests.helpers.networks import CASES, awake
from tests.helpers.pretended import GPU, Pretended, pretended_gpu

pytestmark = pytest.mark.slow  # tests/test_gpu.py is the check where there is a GPU


def instances_of(problem):
    return problem.generate(6, torch.Generator().manual_seed(2))


def policy_of(network):
    torch.manual_seed(1)
    return awake(network()).eval()


def test_the_pretended_gpu_refuses_what_a_gpu_would():
    with pretended_gpu() as gpu:
        there, here = torch.arange(3.0, device=GPU), torch.ones(3)
        assert isinstance(there, Pretended) and there.device == GPU
        for mix in (lambda: there + here, lambda: there[here.long()], lambda: there.index_add_(0, here.long(), there)):
            with pytest.raises(RuntimeError, match="same device"):
                mix()
        with pytest.raises(RuntimeError, match="numpy"):
            there.numpy()
        assert torch.zeros(10**5).pin_memory().to(GPU).device == GPU and gpu.waits == 0
        assert torch.zeros(10**5).to(GPU).device == GPU and gpu.waits == 1
        gpu.waits = 0
        assert torch.equal((there + here.to(GPU) * torch.tensor(2.0)).cpu(), torch.arange(3.0) + 2) and gpu.waits == 1
        assert there.sum().item() == 3 and there[there > 0].tolist() == [1, 2] and gpu.waits == 4
        there += there
        assert isinstance(there, Pretended) and there.max() > 3
    with pytest.raises(RuntimeError, match="no GPU"):
        there + there


METHODS = {
    "gumbeldore": methods.gumbeldore(8, 3, 0.3),
    "tasar": methods.tasar(4, 1, 2, temperature=2.0),
    "rejection": methods.rejection(3, 2, 4),
    "diverse beam": methods.diverse_beam(4, 2),
    "equivalents": methods.wor(3, equivalents=2),
    "reconstruct": methods.reconstruct("greedy", 3),
}


@pytest.mark.parametrize(
    ("case", "method"),
    [
        pytest.param(case, method, marks=[] if case == "tsp" or method == "gumbeldore" else pytest.mark.slow)
        for case, method in itertools.product(CASES, METHODS)
        if (case, method) != ("jssp", "reconstruct")  # there is no random reconstruction of schedules
    ],
)
def test_a_search_finds_the_same_there(case, method):
    problem, network = CASES[case]
    instances, keys = instances_of(problem), torch.arange(6)
    found = search(problem, policy_of(network), instances, METHODS[method], keys=keys)
    with pretended_gpu():
        policy = policy_of(network).to(GPU)
        there = search(problem, policy, to(instances, GPU), METHODS[method], keys=keys.to(GPU))
        assert isinstance(there.actions, Pretended)
        actions, valid, costs = there.actions.cpu(), there.valid.cpu(), there.costs.cpu()
    assert torch.equal(valid, found.valid)
    assert torch.equal(actions[valid], found.actions[valid])
    torch.testing.assert_close(costs[valid], found.costs[valid])


@pytest.mark.parametrize("case", CASES)
def test_a_step_of_a_search_waits_once(case):
    """To pack the rows that need the network; and per round and search for the stops, the checks and the sums."""
    problem, network = CASES[case]
    instances = instances_of(problem)
    rounds, horizon = 3, problem.horizon(instances)
    with pretended_gpu() as gpu:
        policy, instances, keys = policy_of(network).to(GPU), to(instances, GPU), torch.arange(6, device=GPU)
        search(problem, policy, instances, methods.gumbeldore(8, rounds, 0.3), keys=keys)
    assert rounds * horizon <= gpu.waits <= rounds * (horizon + 6) + 8


@pytest.mark.parametrize("case", CASES)
def test_a_training_step_waits_for_nothing(case):
    problem, network = CASES[case]
    instances = instances_of(problem)
    found = search(problem, network(), instances, methods.sampling(1), torch.Generator().manual_seed(3))
    dataset = PseudoExperts()
    dataset.add("random", instances, *found.best())
    with pretended_gpu() as gpu:
        policy = network().to(GPU)
        optimizer = optimizer_of(policy, WITH_MUON)
        for seed in range(4):
            example = dataset.batch(problem, 16, torch.Generator().manual_seed(seed), GPU)
            logits, _, auxiliary = imitate(problem, policy, *example, "float32")
            (F.cross_entropy(logits, example.remaining_actions[:, 0]) + auxiliary).backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
            assert all(isinstance(p.grad, Pretended) for p in policy.parameters() if p.grad is not None)
    assert gpu.waits == 0
