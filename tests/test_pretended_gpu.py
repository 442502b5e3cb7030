"""On a GPU everything is where it belongs, and the loops hardly wait for it: shown without one.

tests/test_gpu.py asks a real one.
"""

from __future__ import annotations

import json
import math

import pytest
import torch
import torch.nn.functional as F

import evaluate
import train
from benchmarks.training import UniformPolicy
from configs import command
from gumbeldore import methods
from gumbeldore.dataset import PseudoExperts
from gumbeldore.imitation import imitate
from gumbeldore.interfaces import to
from gumbeldore.optimizer import optimizer_of
from gumbeldore.search import TopP, search
from gumbeldore.workers import SearchPool
from models.bq import BQ
from models.bq_cvrp import BQ as BQforCVRP
from models.job_shop import JobShop
from models.parts import rows_at_once
from models.savings import plan_of
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.networks import awake
from tests.pretended import GPU, Pretended, pretended_gpu
from tests.test_commands import compose, typed
from tests.test_optimizer import SETTINGS
from tests.test_supervised import Killed, dies_after, metrics_of

CASES = {
    "tsp": (TSP(7), lambda: BQ(16, 1, 2, 32, own_frame=True, successor_loss=1)),
    "cvrp": (CVRP(6, [12, 14]), lambda: BQforCVRP(16, 1, 2, 32, own_frame=True, route_loss=1)),
    "cvrp, far first": (CVRP(6, [12, 14], far_first=True), lambda: BQforCVRP(16, 1, 2, 32, False, route_loss=0)),
    "cvrp, nearest": (CVRP(6, [12, 14], nearest=3), lambda: BQforCVRP(16, 1, 2, 32, False, route_loss=0)),
    "cvrp, savings": (CVRP(6, [12, 14]), lambda: BQforCVRP(16, 1, 2, 32, True, route_loss=1, savings=[1, 1.3])),
    "jssp": (JSSP([[3, 4]], [3, 4]), lambda: JobShop(16, 1, 2, 32, lookahead=False, order_loss=0)),
    "jssp, all options": (
        JSSP([[3, 4]], [3, 4], chronological=True, reversal=True),
        lambda: JobShop(16, 1, 2, 32, lookahead=True, order_loss=3),
    ),
}
METHODS = {
    "gumbeldore": methods.gumbeldore(8, 3, step_size=0.3),
    "theory": methods.theory(8, 3, step_size=0.3),
    "wor, nucleus": methods.wor(8, 2, top_p=TopP(0.8, 1.0)),
    "sampling": methods.sampling(8, 2),
    "beam": methods.beam(8),
    "greedy": methods.greedy(),
}


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


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
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


def uncounted(gpu, function):
    """The function, whose waiting is known and said: a plan of savings waits after every joining of pairs."""

    def called(*args):
        before = gpu.waits
        result = function(*args)
        gpu.waits = before
        return result

    return called


@pytest.mark.parametrize("case", CASES)
def test_a_step_of_a_search_waits_once(case, monkeypatch):
    """To pack the rows that need the network; and per round and search for the stops, the checks and the sums."""
    problem, network = CASES[case]
    instances = instances_of(problem)
    rounds, horizon = 3, problem.horizon(instances)
    with pretended_gpu() as gpu:
        monkeypatch.setattr("models.bq_cvrp.plan_of", uncounted(gpu, plan_of))
        policy, instances, keys = policy_of(network).to(GPU), to(instances, GPU), torch.arange(6, device=GPU)
        search(problem, policy, instances, methods.gumbeldore(8, rounds, 0.3), keys=keys)
    assert rounds * horizon <= gpu.waits <= rounds * (horizon + 6) + 8


@pytest.mark.parametrize("case", CASES)
def test_a_training_step_waits_for_nothing(case, monkeypatch):
    problem, network = CASES[case]
    instances = instances_of(problem)
    found = search(problem, network(), instances, methods.sampling(1), torch.Generator().manual_seed(3))
    dataset = PseudoExperts()
    dataset.add("random", instances, *found.best())
    with pretended_gpu() as gpu:
        monkeypatch.setattr("models.bq_cvrp.plan_of", uncounted(gpu, plan_of))
        policy = network().to(GPU)
        optimizer = optimizer_of(policy, SETTINGS)
        for seed in range(4):
            example = dataset.batch(problem, 16, torch.Generator().manual_seed(seed), GPU)
            logits, further = imitate(problem, policy, *example[:3], "float32")
            (F.cross_entropy(logits, example.rest[:, 0]) + further).backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
            assert all(isinstance(p.grad, Pretended) for p in policy.parameters() if p.grad is not None)
    assert gpu.waits == 0


@pytest.mark.parametrize("problem", [TSP(100), CVRP(100, [40, 50]), JSSP([[9, 9]], [9, 9], chronological=True)])
def test_a_large_batch_is_made_without_waiting(problem):
    """Its random numbers are too many to be copied from any memory."""
    instances = problem.generate(40, torch.Generator().manual_seed(0))
    uniform = UniformPolicy()
    uniform.problem = problem
    found = search(problem, uniform, instances, methods.sampling(1), torch.Generator().manual_seed(3))
    dataset = PseudoExperts()
    dataset.add("random", instances, *found.best())
    with pretended_gpu() as gpu:
        example = dataset.batch(problem, 4096, torch.Generator().manual_seed(0), GPU)
        assert isinstance(example.rest, Pretended) and gpu.waits == 0


@pytest.mark.parametrize(
    ("recipe", "gib", "parts"),
    [("tsp100", 80, 1), ("tsp100", 8, 16), ("cvrp100", 80, 2), ("jssp", 80, 8), ("jssp", 4, 32)],
)
def test_a_batch_of_the_recipes_goes_through_in_parts_of_the_memory(recipe, gib, parts):
    """16,384 rows at the first step; of the JSSP at most 65,535 lines of attention."""
    cfg = compose("train", f"experiment={recipe}")
    problem, policy = command.build(cfg.problem, "problem"), command.build(cfg.model, "model")
    instance = problem.generate(1, torch.Generator().manual_seed(0))
    with pretended_gpu(gib):
        instance = to(instance, GPU)
        room = rows_at_once(policy, instance, problem.reset(instance))
    assert parts == 2 ** max(0, math.ceil(math.log2(16384 / room)))


def test_every_gpu_has_a_part_of_few_instances():
    problem, policy = CASES["tsp"][0], policy_of(CASES["tsp"][1])
    with pretended_gpu():
        pool = SearchPool(problem, policy, 0, 16384, str(GPU))
        for gpus, sizes in ((1, [6]), (4, [1, 2, 1, 2]), (8, [1] * 6)):
            pool.gpus = gpus
            chunks = [chunk for chunk, _ in pool.map(instances_of(problem), torch.arange(6), methods.greedy())]
            assert [chunk.stop - chunk.start for chunk in chunks] == sizes


@pytest.mark.parametrize(
    ("words", "instances"),
    [
        ("problem=tsp problem.num_nodes=6", "kool/tsp20"),
        ("problem=tsp problem.num_nodes=6 search=wor", "kool/tsp20"),
        ("problem=cvrp problem.num_customers=6", "kool/cvrp20"),
        ("problem=jssp problem.sizes=[[3,4]] problem.validation_size=[3,4]", "l2d/6x6"),
        ("experiment=tsp100 problem.num_nodes=6", "kool/tsp20"),
        ("experiment=cvrp100 problem.num_customers=6", "kool/cvrp20"),
        ("experiment=jssp problem.sizes=[[3,4]] problem.validation_size=[3,4]", "l2d/6x6"),
    ],
)
def test_trained_there_killed_continued_and_evaluated(words, instances, tmp_path, monkeypatch):
    """As on the CPU, up to rounding."""
    depth = "blocks" if "jssp" in words else "layers"
    small = ["debug=fast", f"model.{depth}=1", "model.width=16", "model.heads=2", "model.feedforward=32"]
    asked = [*words.split(), *small, "train.validation_instances=8", "precision=float32", "images_every=2"]
    evaluation = [f"instances={instances}", "num_instances=1", "search=[greedy,gumbeldore]", "search.beam_width=4"]

    def run(program, *tokens):
        result = typed(program, *tokens, cwd=tmp_path)
        assert result.returncode == 0, result.stderr

    def evaluated(run_dir, device):
        tokens = [f"checkpoint={run_dir}", *evaluation, f"device={device}", "workers=0", "precision=float32"]
        run(evaluate, *tokens, f"out_dir=of_{run_dir}")
        found = json.loads((tmp_path / f"of_{run_dir}" / "results.json").read_text())["methods"]
        return {name: method["mean_cost"] for name, method in found.items()}

    run(train, *asked, "device=cpu", "run_dir=here")
    with pretended_gpu():
        with monkeypatch.context() as patch:
            dies_after(patch, 6)  # in the second epoch
            with pytest.raises(Killed):
                typed(train, *asked, f"device={GPU}", "run_dir=there", cwd=tmp_path)
        run(train, "resume=there")
        costs = evaluated("there", GPU)
    assert costs == pytest.approx(evaluated("here", "cpu"), rel=1e-6)
    expected, found = metrics_of(tmp_path / "here"), metrics_of(tmp_path / "there")
    assert len(found) == len(expected) == 2
    for ours, theirs in zip(expected, found, strict=True):
        untimed = {name: value for name, value in ours.items() if "second" not in name}
        assert {name: theirs[name] for name in untimed} == pytest.approx(untimed, rel=1e-3)
