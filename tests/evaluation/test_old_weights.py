"""Checkpoints of earlier versions: their parameters have other names, and load."""

from __future__ import annotations

import pytest
import torch

from gumbeldore.evaluation.loading import load_policy, start_from
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.building import build
from gumbeldore.runtime.old_versions import PARAMETERS, of_this_version, weights_of_this_version
from tests.helpers.commands import ROOT
from tests.helpers.published import content, policy_of, problem_of

FOLDER = ROOT / "pretrained"
SHIPPED = {"tsp": "tsp20", "cvrp": "cvrp20", "jssp": "jssp6x6"}  # one of each network


def backwards(weights):
    """The weights by their earlier names."""
    old = {}
    for name, weight in weights.items():
        path = f".{name}"
        for before, now in PARAMETERS.items():
            path = path.replace(f".{now}.", f".{before}.")
        old[path[1:]] = weight
    return old


def fresh(name, seed=0):
    """A shipped policy's checkpoint, problem and network, the network with random weights."""
    saved = checkpoint.load(FOLDER / SHIPPED[name] / "best.pt")
    config = of_this_version(saved)
    torch.manual_seed(seed)
    policy = build(config["model"], "model").eval()
    return {**saved, "config": config}, build(config["problem"], "problem"), policy


def save(path, saved, weights, format):
    """A checkpoint of an earlier format, whose configuration already has the names of this version."""
    content = {key: saved[key] for key in ("config", "problem", "epoch", "best_cost")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "FORMAT", format)
        checkpoint.save(path, {**content, "weights": weights})


@pytest.mark.parametrize("name", SHIPPED)
def test_old_names_are_those_of_the_shipped_policies(name):
    saved, _, policy = fresh(name)
    assert backwards(policy.state_dict()).keys() == saved["weights"].keys() != policy.state_dict().keys()
    renamed = weights_of_this_version(saved, policy.state_dict())
    assert all(
        torch.equal(renamed[new], saved["weights"][old]) for old, new in zip(saved["weights"], renamed, strict=True)
    )


@pytest.mark.parametrize("format", [3, 4])
@pytest.mark.parametrize("name", SHIPPED)
def test_a_checkpoint_with_old_names_loads(name, format, tmp_path):
    saved, problem, policy = fresh(name)
    save(tmp_path / "old.pt", saved, backwards(policy.state_dict()), format)
    instance = problem.generate(5, torch.Generator().manual_seed(0))
    state = problem.reset(instance)
    _, _, other = fresh(name, seed=1)
    assert not torch.equal(other(instance, state), policy(instance, state))
    start_from(other, problem, tmp_path / "old.pt", saved["config"]["model"])
    for loaded in (load_policy(tmp_path / "old.pt").policy, other):
        assert torch.equal(loaded(instance, state), policy(instance, state))
        for key, weight in policy.state_dict().items():
            assert torch.equal(loaded.state_dict()[key], weight), key


@pytest.mark.parametrize(("name", "ours"), [("cvrp_bq", "bq_cvrp"), ("cvrp_lehd", "lehd_cvrp")])
def test_a_published_policy_does_not_become_another_network(name, ours, tmp_path):
    """Its weights have the same shapes; what is computed of them is not the same."""
    checkpoint.save(tmp_path / "published.pt", content(name))
    problem, theirs = problem_of(name), content(name)["config"]["model"]
    start_from(policy_of(name), problem, tmp_path / "published.pt", theirs)
    model = {**theirs, "_target_": f"models.{ours}.{ours.partition('_')[0].upper()}", "route_loss": 0.0}
    if ours == "bq_cvrp":
        model["canonical_coordinates"] = False
    network = build(model, "model")
    with pytest.raises(ValueError, match="the networks differ: its model._target_ is models.published.CVRP"):
        start_from(network, problem, tmp_path / "published.pt", model)


def test_the_weight_of_an_auxiliary_loss_may_differ(tmp_path):
    saved, problem, policy = fresh("tsp")
    save(tmp_path / "new.pt", saved, policy.state_dict(), checkpoint.FORMAT)
    _, _, other = fresh("tsp", seed=1)
    start_from(other, problem, tmp_path / "new.pt", {**saved["config"]["model"], "successor_loss": 0.3})
    assert all(torch.equal(weight, policy.state_dict()[key]) for key, weight in other.state_dict().items())


def test_a_name_that_the_network_has_stays():
    weights = {"out.weight": torch.zeros(1), "layers.0.out.bias": torch.zeros(2)}
    names = ["out.weight", "layers.0.output_projection.bias"]
    assert list(weights_of_this_version({"format": 4, "weights": weights}, names)) == names
