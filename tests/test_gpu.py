"""What only a GPU can show: `pytest tests/test_gpu.py`, which needs neither Hydra nor Ray.

What a CPU can do, too, is asked of both, so that a GPU finds tests that have passed before.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend
from torch.profiler import ProfilerActivity, profile

from gumbeldore import methods, search
from gumbeldore.batches import to
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.compiling import compile_layers
from gumbeldore.runtime.gpu import use_device
from gumbeldore.runtime.precision import InPrecision
from gumbeldore.seeding import generator
from gumbeldore.training.dataset import PseudoExperts, Shard
from gumbeldore.training.execution import Execution
from gumbeldore.training.imitation import fit
from gumbeldore.training.optimizer import optimizer_of
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.state import TrainState
from models.attention import MASKED_SCORE, attention
from models.bq_cvrp import BQ as BQforCVRP
from models.bq_tsp import BQ
from models.fused_attention import MAX_ROWS, fused_attention
from models.job_shop import JobShop
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.networks import awake
from tests.helpers.repeated_states import CASES, KEYS
from tests.helpers.solutions import random_solutions

GPU_MARKS = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
CUDA = pytest.param("cuda", marks=GPU_MARKS)
SLOW_CPU = pytest.param("cpu", marks=pytest.mark.slow)
on_both = pytest.mark.parametrize("device", ["cpu", CUDA])
on_a_gpu = pytest.mark.parametrize("device", [CUDA])

# Heads of 16, 8 and 12 numbers: the last ones are padded on a GPU.
LEARNERS = {
    "tsp": (TSP, lambda: BQ(64, 3, 4, 128, canonical_coordinates=True, successor_loss=1)),
    "cvrp": (lambda n: CVRP(n, [30, 30]), lambda: BQforCVRP(64, 3, 8, 128, canonical_coordinates=True, route_loss=1)),
    "jssp": (
        lambda n: JSSP([[n // 2, 5]], [[n // 2, 5]], reversal=True),
        lambda: JobShop(48, 2, 4, 96, lookahead=True, order_loss=3),
    ),
}
LEARNERS_OR_SLOW = ["tsp", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cvrp", "jssp"))]
SETTINGS = TrainSettings(
    epochs=2,
    instances_per_epoch=16,
    batches_per_epoch=30,
    batch_size=32,
    learning_rate=2e-3,
    learning_rate_end_factor=1.0,
    muon_learning_rate=0.01,
    muon_weight_decay=0.1,
    nucleus_after=0,
    validation_instances=1,
)


@pytest.fixture(autouse=True)
def as_a_run_would():
    if torch.cuda.is_available():
        use_device(torch.device("cuda"))


def as_double(instances):
    return type(instances)(*(field.double() if field.is_floating_point() else field for field in instances))


def run(case: str, device: str, config, precision: str = "float64", compiled: bool = False):
    problem, network = CASES[case]
    torch.manual_seed(1)
    policy: Any = awake(network()).to(device)
    if compiled:
        compile_layers(policy)
    instances = problem.generate(len(KEYS), torch.Generator().manual_seed(2))
    if precision == "float64":
        policy, instances = policy.double(), as_double(instances)
    else:
        policy = InPrecision(policy, torch.device(device), precision)
    instances = to(instances, device)
    return problem.horizon(instances), lambda: search(problem, policy, instances, config, keys=KEYS.to(device))


# ---- searches


@pytest.mark.parametrize("precision", ["float64", "bf16"])
@pytest.mark.parametrize("case", CASES)
@on_a_gpu
def test_one_host_sync_per_step(device, case, precision):
    """Packing the rows that need the network; and per search and round the stops, the sums and the deadline."""
    rounds = 3
    horizon, searched = run(case, device, methods.Gumbeldore(8, rounds, 0.3), precision)
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
@on_a_gpu
def test_same_solutions_as_on_the_cpu(device, case):
    config = methods.Gumbeldore(8, 3, 0.3)
    there, here = run(case, device, config)[1](), run(case, "cpu", config)[1]()
    assert torch.equal(there.valid.cpu(), here.valid)
    assert torch.equal(there.actions.cpu()[here.valid], here.actions[here.valid])
    torch.testing.assert_close(there.log_probs.cpu()[here.valid], here.log_probs[here.valid])


@pytest.mark.parametrize("case", CASES)
@on_both
def test_a_search_in_bf16_knows_what_its_solutions_cost_and_how_likely_they_are(device, case):
    problem, network = CASES[case]
    found = run(case, device, methods.Gumbeldore(8, 2, 0.3), "bf16")[1]()
    torch.manual_seed(1)
    exact = awake(network()).double().eval()
    instances = problem.generate(len(KEYS), torch.Generator().manual_seed(2))
    for beam in range(found.actions.shape[1]):
        valid, actions = found.valid[:, beam].cpu(), found.actions[:, beam].cpu()
        if not valid.all():
            continue
        torch.testing.assert_close(  # costs are sums in float32, in another order
            found.costs[:, beam].cpu(), problem.cost(instances, actions).double(), rtol=1e-6, atol=1e-6
        )
        expected = log_probability(problem, exact, as_double(instances), actions)
        torch.testing.assert_close(found.log_probs[:, beam].cpu(), expected, rtol=0.02, atol=0.1)
    assert found.valid[:, :8].all()


@torch.no_grad()
def log_probability(problem, policy: nn.Module, instances, actions: Tensor) -> Tensor:
    """[B] float64 of the decisions [B, T], one after the other."""
    state, total = problem.reset(instances), torch.zeros(len(actions), dtype=torch.float64)
    context = policy.encode(instances)
    for action in actions.T:
        logits = policy(context, state).double().masked_fill(~problem.mask(instances, state), -torch.inf)
        total += logits.log_softmax(dim=1).gather(1, action[:, None])[:, 0]
        state = problem.step(instances, state, action)
    return total


@pytest.mark.parametrize("case", CASES)
@on_a_gpu
def test_compiled_layers_find_the_same_solutions(device, case):
    config = methods.Gumbeldore(8, 3, 0.3)
    plain, compiled = (run(case, device, config, compiled=compiled)[1]() for compiled in (False, True))
    assert torch.equal(plain.valid, compiled.valid)
    assert torch.equal(plain.actions[plain.valid], compiled.actions[plain.valid])
    torch.testing.assert_close(plain.log_probs[plain.valid], compiled.log_probs[plain.valid])


# ---- networks


def bf16_error(case: str, device: str, size: int, steps: int, compiled: bool = False) -> tuple[float, set[str]]:
    """How far the logits of legal actions are from those in float64, relatively; and the kernels of attention."""
    make, network = LEARNERS[case]
    problem = make(size)
    instances, actions = random_solutions(problem, 16, seed=steps)
    state = problem.replay(instances, actions[:, :steps])
    legal = problem.mask(instances, state)
    if case == "jssp" and steps:
        assert (state.next_op == instances.times.shape[2]).any()  # places that are hidden from attention
    torch.manual_seed(3)
    policy = awake(network()).eval()
    precise = copy.deepcopy(policy).double()
    exact = precise(precise.encode(as_double(instances)), as_double(state))
    policy = policy.to(device)
    if compiled:
        compile_layers(policy)
    there = InPrecision(policy, torch.device(device), "bf16")
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as profiled:
        logits = there(there.encode(to(instances, device)), to(state, device))
    assert logits.dtype == torch.float32
    apart, exact = logits.cpu()[legal].double() - exact[legal].double(), exact[legal].double()
    names = {event.key for event in profiled.key_averages()}
    return (apart.norm() / exact.norm()).item(), {name for name in names if "scaled_dot_product" in name}


@pytest.mark.parametrize(("size", "steps"), [(6, 0), (6, 4), (20, 0), (20, 13), (70, 0), (70, 50)])
@pytest.mark.parametrize("case", LEARNERS_OR_SLOW)
@on_both
def test_logits_in_bf16_are_close(device, case, size, steps):
    if case == "jssp":
        steps = steps * (size // 2 * 5) * 9 // (size * 8)  # of its decisions, of which there are more
    error, kernels = bf16_error(case, device, size, steps)
    assert error < 2e-2
    if device == "cuda":
        assert not any("cudnn" in name or "math" in name for name in kernels), kernels


@pytest.mark.parametrize("case", LEARNERS)
@on_a_gpu
def test_compiled_logits_in_bf16_are_close(device, case):
    error, kernels = bf16_error(case, device, 40, 0, compiled=True)
    assert error < 2e-2
    assert kernels and not any("cudnn" in name or "math" in name for name in kernels), kernels


FUSED = {(8, 0): None, (20, 0): None, (21, 0): "EFFICIENT", (64, 0): "EFFICIENT", (65, 0): "FLASH"} | {
    (20, 1): None,
    (21, 4): "EFFICIENT",
    (65, 1): "EFFICIENT",
}


@pytest.mark.parametrize("size", [8, 12, 16])
@pytest.mark.parametrize(("tokens", "biased"), FUSED)
@on_a_gpu
def test_attention_takes_the_kernel_for_its_length_but_never_that_of_cudnn(device, tokens, biased, size, monkeypatch):
    chosen = []

    def noted(query, key, value, bias=None, scale=None, original=torch.nn.functional.scaled_dot_product_attention):
        chosen.append(SDPBackend(torch._fused_sdp_choice(query, key, value, attn_mask=bias, scale=scale)))
        return original(query, key, value, bias, scale=scale)

    monkeypatch.setattr("models.fused_attention.F.scaled_dot_product_attention", noted)
    query, key, value, bias = qkv_and_bias(1000, tokens, size, biased, torch.bfloat16, device)
    found = attention(torch.stack([query, key, value]), bias)
    kernel = FUSED[tokens, biased]
    assert chosen == ([] if kernel is None else [getattr(SDPBackend, f"{kernel}_ATTENTION")])
    *qkv, bias = (None if x is None else x.cpu().double() for x in (query, key, value, bias))
    torch.testing.assert_close(found.cpu().double(), attention(torch.stack(qkv), bias), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("biased", [False, True])
@on_both
def test_attention_and_its_gradient_take_more_rows_than_a_kernel(device, biased):
    rows = MAX_ROWS + 500
    query, key, value, bias = qkv_and_bias(rows, 3, 8, int(biased), torch.float32, device)
    query.requires_grad_()
    found = fused_attention(query, key, value, bias)
    found.square().sum().backward()
    last = slice(rows - 1000, None)  # across the border
    asked = query.detach()[last].cpu().requires_grad_()
    key, value, bias = (None if x is None else x[last].cpu() for x in (key, value, bias))
    expected = attention(torch.stack([asked, key, value]), bias)
    expected.square().sum().backward()
    torch.testing.assert_close(found.detach()[last].cpu(), expected.detach(), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(query.grad[last].cpu(), asked.grad, rtol=1e-3, atol=1e-4)


def qkv_and_bias(rows: int, tokens: int, size: int, biased: int, dtype: torch.dtype, device: str) -> list[Any]:
    """Queries, keys and values as views of one tensor, as in a layer; and a bias of so many heads that hides keys."""
    draws = torch.Generator().manual_seed(0)
    packed = torch.randn(rows, tokens, 3, 4, size, generator=draws).to(device, dtype)
    bias = None
    if biased:
        bias = torch.where(torch.rand(rows, biased, 1, tokens, generator=draws) < 0.3, MASKED_SCORE, 0.0)
        bias[..., 0] = 0.0  # where all keys are hidden nobody reads the result
        bias = bias.to(device)
    return [*packed.permute(2, 0, 3, 1, 4), bias]


# ---- training


@pytest.mark.parametrize("case", CASES)
@on_a_gpu
def test_same_examples_as_on_the_cpu(device, case):
    problem, network = CASES[case]
    instances = problem.generate(6, torch.Generator().manual_seed(2))
    found = search(problem, network(), instances, methods.Sampling(1, 1), torch.Generator().manual_seed(3))
    dataset = PseudoExperts()
    dataset.add(Shard("random", instances, *found.best()))
    here, there = (
        dataset.batch(problem, 16, torch.Generator().manual_seed(4), torch.device(kind)) for kind in ("cpu", device)
    )
    assert there.remaining_actions.is_cuda and torch.equal(there.remaining_actions.cpu(), here.remaining_actions)
    for ours, theirs in zip((*here.instance, *here.state), (*there.instance, *there.state), strict=True):
        torch.testing.assert_close(theirs.cpu(), ours)


class Learner:
    """A training of a network, in bf16 with Muon, on good solutions of a few instances."""

    def __init__(self, case: str, device: str, folder, seed: int = 0, precision: str = "bf16"):
        make, network = LEARNERS[case]
        self.problem, self.device, self.precision = make(8), torch.device(device), precision
        torch.manual_seed(seed)
        policy = awake(network()).to(device)
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        optimizer = optimizer_of(policy, SETTINGS, dtype)
        self.state = TrainState(policy, copy.deepcopy(policy), optimizer, PseudoExperts(folder))

    def with_experts(self) -> Learner:
        instances = self.problem.generate(SETTINGS.instances_per_epoch, torch.Generator().manual_seed(0))
        torch.manual_seed(0)
        policy = copy.deepcopy(self.state.policy).cpu()
        found = search(
            self.problem, policy, instances, methods.WithoutReplacement(16, 1), keys=torch.arange(len(instances[0]))
        )
        self.state.dataset.add(Shard("epoch_1", instances, *found.best()))
        return self

    def epoch(self) -> dict[str, float]:
        draws = generator(5, "batches", self.state.epoch)
        found = fit(self.problem, self.state, SETTINGS, draws, Execution(device=self.device, precision=self.precision))
        self.state.epoch += 1
        return found

    def save(self, path) -> None:
        weights = self.state.best.state_dict()
        checkpoint.save(path, {"config": {"of": "a test"}, "weights": weights, "train_state": self.state.state_dict()})

    def load(self, path) -> None:
        saved = checkpoint.load(path)
        instance_type = type(self.problem.generate(1, torch.Generator()))
        self.state.load_state_dict(saved["train_state"], saved["weights"], instance_type)

    def tensors(self) -> list[Tensor]:
        """Everything that training changes."""
        states = [state for each in self.state.optimizer.optimizers for state in each.state.values()]
        kept = [value for state in states for value in state.values() if isinstance(value, Tensor)]
        networks = (self.state.policy, self.state.best)
        return [*kept, *(tensor for network in networks for tensor in network.state_dict().values())]


@pytest.mark.parametrize("case", LEARNERS)
@pytest.mark.parametrize("device", [SLOW_CPU, CUDA])
def test_training_in_bf16_with_muon_learns_as_in_float32_on_a_cpu(device, case, tmp_path):
    learner, exact = Learner(case, device, tmp_path / "a"), Learner(case, "cpu", tmp_path / "b", precision="float32")
    runs = ([each.with_experts().epoch(), each.epoch()] for each in (learner, exact))
    found, expected = ([metrics["training/loss"] for metrics in epochs] for epochs in runs)
    assert all(tensor.device.type == device for tensor in learner.tensors())
    assert found != expected and found == pytest.approx(expected, rel=0.01)


ON_A_CPU = pytest.param("cpu", "cpu", marks=pytest.mark.slow)
ACROSS = [ON_A_CPU, *(pytest.param(*pair, marks=GPU_MARKS) for pair in (("cuda",) * 2, ("cuda", "cpu")))]


@pytest.mark.parametrize(("device", "then"), [*ACROSS, pytest.param("cpu", "cuda", marks=GPU_MARKS)])
@pytest.mark.parametrize("case", LEARNERS_OR_SLOW)
def test_a_training_goes_on_from_its_checkpoint(device, then, case, tmp_path):
    """On the device it was saved on, or on another."""
    whole = Learner(case, device, tmp_path / "experts").with_experts()
    whole.epoch()
    whole.save(tmp_path / "last.pt")
    kept = torch.load(tmp_path / "last.pt", weights_only=True)  # where it says
    assert all(tensor.device.type == "cpu" for tensor in kept["weights"].values())
    continued = Learner(case, then, tmp_path / "experts", seed=1)
    continued.load(tmp_path / "last.pt")
    assert all(tensor.device.type == then for tensor in continued.tensors())
    for ours, theirs in zip(whole.tensors(), continued.tensors(), strict=True):
        torch.testing.assert_close(theirs.cpu(), ours.cpu(), rtol=0, atol=0)
    expected, found = whole.epoch(), continued.epoch()
    assert found == (expected if device == then == "cpu" else pytest.approx(expected, rel=0.02))
