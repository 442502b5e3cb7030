"""LEHD: the encoder sees all of the instance, the decoder what is left (test_published.py compares the numbers)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from gumbeldore import methods, policy_contract, search
from gumbeldore.training.imitation import Imitation
from models.lehd_cvrp import LEHD as LEHDforCVRP
from models.lehd_tsp import LEHD
from problems.cvrp import CVRP
from problems.tsp import TSP
from tests.helpers.networks import legal_logits
from tests.helpers.solutions import random_solutions

SIZES = {"width": 16, "layers": 2, "heads": 2, "feedforward": 32}
KINDS = {
    "tsp": SimpleNamespace(problem=TSP(9), network=LEHD, loss="successor_loss", sees="remaining"),
    "cvrp": SimpleNamespace(problem=CVRP(8, [12, 20]), network=LEHDforCVRP, loss="route_loss", sees="view"),
}
ROUNDS = methods.Gumbeldore(4, 3, 0.3)
SEARCHES = [ROUNDS, methods.Anytime(ROUNDS, 0.05), methods.Sampling(4, 2), methods.Reconstruct(methods.Greedy(), 2)]
NEAREST = CVRP(9, [9, 30], nearest=3)


def network_of(name, loss=0.0, **sizes):
    torch.manual_seed(0)
    kind = KINDS[name]
    return kind.network(**{**SIZES, **sizes}, **{kind.loss: loss}).eval()


def played(name, n, step):
    """n instances, the state of each after `step` random decisions, and the decisions still to come."""
    instance, actions = random_solutions(KINDS[name].problem, n)
    return instance, KINDS[name].problem.replay(instance, actions[:, :step]), actions[:, step:]


def test_the_size_of_the_paper():
    assert sum(weight.numel() for weight in LEHD(128, 6, 8, 512, 0.0).parameters()) == 1_417_857


@pytest.mark.parametrize("loss", [0.0, 1.0])
@pytest.mark.parametrize(("name", "problem"), [*((n, k.problem) for n, k in KINDS.items()), ("cvrp", NEAREST)])
def test_contract(name, problem, loss):
    policy_contract(network_of(name, loss), problem)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("method", SEARCHES, ids=["rounds", "time_limit", "with_replacement", "reconstruct"])
def test_a_search_encodes_once(name, method, monkeypatch):
    policy, problem = network_of(name), KINDS[name].problem
    calls, inner = [], policy.encode
    monkeypatch.setattr(policy, "encode", lambda instance: calls.append(len(instance.coords)) or inner(instance))
    instances = problem.generate(4, torch.Generator().manual_seed(0))
    search(problem, policy, instances, method, torch.Generator().manual_seed(1))
    assert calls == [4]


@pytest.mark.parametrize("name", KINDS)
def test_micro_batches_give_the_same_embeddings_and_logits(name, monkeypatch):
    policy, (instance, state, _) = network_of(name), played(name, 50, 3)
    whole = legal_logits(KINDS[name].problem, policy, instance, state)
    sizes = []
    for layer in (policy.encoder, policy.decoder[0]):
        layer.register_forward_hook(lambda module, given, found: sizes.append(len(given[0])))
    monkeypatch.setattr("models.micro_batches.CPU_MAX_ACTIVATIONS", 1000)
    assert torch.allclose(legal_logits(KINDS[name].problem, policy, instance, state), whole, atol=1e-5)
    assert max(sizes) < 10 and sum(sizes) == 100


@pytest.mark.parametrize("name", KINDS)
def test_imitation_from_the_middle_of_solutions_teaches_encoder_and_decoder(name):
    """The nearest node first: a rule of the coordinates. With the auxiliary loss, and every weight gets a gradient."""
    policy, problem = network_of(name, loss=0.1).train(), KINDS[name].problem
    instance, state, rest = played(name, 64, 4)
    here = instance.coords[torch.arange(64), state.origin][:, None]
    sees = getattr(state, KINDS[name].sees)
    near = (instance.coords.gather(1, sees[..., None].expand(-1, -1, 2)) - here).norm(dim=2).argmin(dim=1)
    node = sees.gather(1, near[:, None])[:, 0]
    target = node if name == "tsp" else node - 1 + 8  # via the depot, which is always legal
    optimizer, losses = torch.optim.Adam(policy.parameters(), lr=3e-3), []
    for _ in range(80):
        logits, _, auxiliary = Imitation(problem, policy)(instance, state, rest)
        loss = F.cross_entropy(logits, target)
        optimizer.zero_grad()
        (loss + auxiliary).backward()
        assert all(weight.grad is not None for weight in policy.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"width": 10, "heads": 4}, "width=10 and heads=4"),
        ({"layers": 0}, "layers must be an integer of at least 1, got 0"),
        ({"loss": -1.0}, "_loss must be at least 0, got -1.0"),
    ],
)
@pytest.mark.parametrize("name", KINDS)
def test_impossible_networks_are_refused(name, wrong, rule):
    with pytest.raises(ValueError, match=rule):
        network_of(name, **wrong)
