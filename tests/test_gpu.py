"""What only a GPU can show: `pytest -m gpu`."""

from __future__ import annotations

import warnings

import pytest
import torch

from gumbeldore.interfaces import to
from gumbeldore.runtime.compiling import compile_layers
from gumbeldore.sampler import methods
from gumbeldore.sampler.rounds import search
from gumbeldore.training.dataset import PseudoExperts
from tests.networks import awake
from tests.sampler.test_repeated_states import CASES, KEYS

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def run(case: str, device: str, config, compiled: bool = False):
    problem, network = CASES[case]
    torch.manual_seed(1)
    policy = awake(network()).double().to(device)
    if compiled:
        compile_layers(policy)
    instances = problem.generate(len(KEYS), torch.Generator().manual_seed(2))
    as_double = (f.double() if f.is_floating_point() else f for f in instances)
    instances = to(type(instances)(*as_double), device)
    return problem.horizon(instances), lambda: search(problem, policy, instances, config, keys=KEYS.to(device))


@pytest.mark.parametrize("case", CASES)
def test_one_host_sync_per_step(case):
    """Packing the rows that need the network; and per search and round the stops, the sums and the deadline."""
    rounds = 3
    horizon, searched = run(case, "cuda", methods.gumbeldore(8, rounds, step_size=0.3))
    searched()  # first uses may synchronise
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            searched()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    syncs = [str(w.message) for w in caught if "synchroniz" in str(w.message)]
    assert len(syncs) <= rounds * (horizon + 6) + 8, syncs


@pytest.mark.parametrize("case", CASES)
def test_same_solutions_as_on_the_cpu(case):
    config = methods.gumbeldore(8, 3, step_size=0.3)
    there, here = run(case, "cuda", config)[1](), run(case, "cpu", config)[1]()
    assert torch.equal(there.valid.cpu(), here.valid)
    assert torch.equal(there.actions.cpu()[here.valid], here.actions[here.valid])
    torch.testing.assert_close(there.log_probs.cpu()[here.valid], here.log_probs[here.valid])


@pytest.mark.parametrize("case", CASES)
def test_compiled_layers_find_the_same_solutions(case):
    config = methods.gumbeldore(8, 3, step_size=0.3)
    plain, compiled = (run(case, "cuda", config, compiled)[1]() for compiled in (False, True))
    assert torch.equal(plain.valid, compiled.valid)
    assert torch.equal(plain.actions[plain.valid], compiled.actions[plain.valid])
    torch.testing.assert_close(plain.log_probs[plain.valid], compiled.log_probs[plain.valid])


@pytest.mark.parametrize("case", CASES)
def test_same_examples_as_on_the_cpu(case):
    problem, network = CASES[case]
    instances = problem.generate(6, torch.Generator().manual_seed(2))
    found = search(problem, network(), instances, methods.sampling(1), torch.Generator().manual_seed(3))
    dataset = PseudoExperts()
    dataset.add("random", instances, *found.best())
    here, there = (
        dataset.batch(problem, 16, torch.Generator().manual_seed(4), torch.device(kind)) for kind in ("cpu", "cuda")
    )
    assert there.remaining_actions.is_cuda and torch.equal(there.remaining_actions.cpu(), here.remaining_actions)
    for ours, theirs in zip((*here.instance, *here.state), (*there.instance, *there.state), strict=True):
        torch.testing.assert_close(theirs.cpu(), ours)
