"""The network for the JSSP and its auxiliary loss, against slow loops."""

from __future__ import annotations

import itertools
import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F

import models.job_shop
from gumbeldore import policy_contract, search
from gumbeldore.sampler.methods import Beam
from models.attention import MASKED_SCORE
from models.job_shop import JobShop
from problems.jssp import State
from problems.jssp.instances import job_shop as shop_of
from problems.jssp.instances import random_general_instances, random_instances
from problems.jssp.state import earliest_starts
from problems.jssp.window import Window
from tests.helpers.networks import WAYS, attend_by, awake, slow_layer
from tests.helpers.schedules import one_size

SIZES = [(4, 3), (3, 5), (2, 2), (1, 4), (5, 1)]


def job_shop(seed=0, **options):
    """A small network whose layers matter (ReZero starts them at 0)."""
    torch.manual_seed(seed)
    plain = {"width": 16, "blocks": 2, "heads": 2, "feedforward": 32, "lookahead": False, "order_loss": 0.0}
    return awake(JobShop(**{**plain, **options})).eval()


def played(n, jobs, ops, step, seed=0, zeros=0.0, general=False):
    """Instances, of every second one a share `zeros` of the times is 0, and the state after `step` random decisions.

    Arguments:
        general: with releases and waits; with releases that are far away, if "far"
    """
    generator = torch.Generator().manual_seed(seed)
    instance = (random_general_instances if general else random_instances)(n, jobs, ops, generator)
    order = torch.rand(n, jobs * ops, generator=generator).argsort(dim=1)
    actions = (instance.operations // instance.times.shape[2]).gather(1, order)
    none = (torch.rand(instance.times.shape, generator=generator) < zeros) & (torch.arange(n) % 2 == 1)[:, None, None]
    instance = instance._replace(times=instance.times.masked_fill(none, 0.0))
    if general == "far":
        instance = instance._replace(release=40 * instance.release, machine_release=20 * instance.machine_release)
    return instance, one_size(jobs, ops).replay(instance, actions[:, :step]), actions[:, step:]


def steps(jobs, ops):
    """Every decision that is learnt."""
    return range(jobs * ops - 1)


OPTIONS = [{}, {"lookahead": True}, {"order_loss": 0.5}, {"lookahead": True, "order_loss": 2.0}]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("size", [size for size in SIZES if size[0] > 1])  # with one job there is nothing to learn
def test_contract(size, options):
    policy_contract(job_shop(**options), one_size(*size))
    policy_contract(job_shop(**options), one_size(*size, general=1.0))
    policy_contract(job_shop(**options), one_size(*size, general=0.5, window=2, jobs_in_view=3))


# ---- features


def machine_of(instance, row):
    """{(job, operation): its machine}; one of time 0 has a machine to itself, which is always free."""
    times, machines = instance.times[row].tolist(), instance.machines[row].tolist()
    operations = [divmod(number, len(times[0])) for number in instance.operations[row].tolist()]
    return {(j, o): machines[j][o] if times[j][o] else (j, o) for j, o in operations}


def slow_bound(instance, row):
    """The work of the busiest machine or of the longest job, in plain Python."""
    times, on, waits = instance.times[row].tolist(), machine_of(instance, row), instance.waits[row].tolist()
    jobs = [sum(times[job]) + sum(waits[job]) for job in range(len(times))]
    return max(jobs + [sum(times[j][o] for j, o in on if on[j, o] == machine) for machine in on.values()]) or 1


def slow_times(instance, state, row):
    """Earliest starts of unfinished jobs {job: start} and when machines are free {machine: time}, in plain Python."""
    on, ops = machine_of(instance, row), instance.times.shape[2]
    next_op, job_free, machine_free = (field[row].tolist() for field in state[:3])
    free, start = dict(enumerate(machine_free)), {}
    for job in [job for job, op in enumerate(next_op) if op < ops]:
        start[job] = max(job_free[job], free.get(on[job, next_op[job]], 0))
    return start, free


def slow_features(instance, state, row, lookahead):
    """{(job, operation): features}, in plain Python [GD, eq. 33]."""
    times, on, waits = instance.times[row].tolist(), machine_of(instance, row), instance.waits[row].tolist()
    next_op, ops = state.next_op[row].tolist(), range(len(times[0]))
    start, machine_free = slow_times(instance, state, row)
    now = min(start.values())
    bounds = slow_bounds(instance, state, row)
    largest = max(max(chain, relaxed) for chain, relaxed, *_ in bounds.values())
    unit = slow_bound(instance, row) / 4 if lookahead else 100
    features = {}
    for job in start:
        for op in ops[next_op[job] :]:
            numbers = [start[job] - now]
            if lookahead:
                before = times[job][next_op[job] : op] + waits[job][next_op[job] : op]
                after = times[job][op + 1 :] + waits[job][op:]
                numbers.append(start[job] - now + sum(before))
                numbers.append(sum(after))
                numbers.append(max(0.0, machine_free.get(on[job, op], 0) - now))
                numbers += [bound - largest for bound in bounds[job, op]]
            features[job, op] = [times[job][op] / 100, *(number / unit for number in numbers)]
    return features


def slow_bounds(instance, state, row):
    """{(job, operation): lower bounds on the makespan}, in plain Python.

    By its job, by its machine, and by its machine if the operation is the first, and if it is the last there.
    """
    times, waits, machine = instance.times[row].tolist(), instance.waits[row].tolist(), machine_of(instance, row)
    start, machine_free = slow_times(instance, state, row)
    head, tail, on = {}, {}, {}
    for job, free in start.items():
        first = state.next_op[row, job].item()
        for op in range(first, len(times[job])):
            chain = free + sum(times[job][first:op]) + sum(waits[job][first:op])
            head[job, op] = max(chain, machine_free.get(machine[job, op], 0))
            tail[job, op] = sum(times[job][op + 1 :]) + sum(waits[job][op:])
            on.setdefault(machine[job, op], []).append((job, op))
    bounds = {}
    for job, op in head:
        there = on[machine[job, op]]
        work, earliest, shortest = (
            sum(times[j][o] for j, o in there),
            min(head[other] for other in there),
            min(tail[other] for other in there),
        )
        bounds[job, op] = [
            head[job, op] + times[job][op] + tail[job, op],
            earliest + work + shortest,
            head[job, op] + work + shortest,
            earliest + work + tail[job, op],
        ]
    return bounds


@pytest.mark.parametrize("general", [False, True, "far"])
@pytest.mark.parametrize("lookahead", [False, True])
@pytest.mark.parametrize(("jobs", "ops"), SIZES)
def test_features_equal_plain_loops(jobs, ops, lookahead, general):
    policy = job_shop(lookahead=lookahead)
    for step in steps(jobs, ops):
        instance, state, _ = played(20, jobs, ops, step, seed=step, zeros=0.4, general=general)
        features = policy._features(policy.encode(instance), policy.canonical_state(instance, state)).tolist()
        for row in range(20):
            expected = slow_features(instance, state, row, lookahead)
            assert [job * instance.times.shape[2] + op for job, op in expected] == state.remaining[row].tolist()
            assert features[row] == [pytest.approx(numbers, abs=2e-6, rel=1e-6) for numbers in expected.values()]


def test_the_network_sees_less_than_the_state():
    """What the clock shows, when a job waiting for its machine was done, and machines without operations to come."""
    instance = shop_of(torch.tensor([[[30.0, 40.0, 5.0], [5.0, 7.0, 5.0]]]), torch.tensor([[[0, 1, 2], [2, 1, 0]]]))
    # Job 0 starts on machine 1 at 60; job 1 waits for it, too. Machine 2 is busy until 70, machine 0 until 65.
    # The places of the jobs, when jobs and machines are free, what remains, and what of it is in view.
    rows = [1, 1], [50.0, 20.0], [65.0, 60.0, 70.0], [1, 2, 4, 5], [1, 2, 4, 5]
    state = State(*(torch.tensor([row]) for row in rows))
    policy = job_shop(lookahead=True)
    seen = policy.canonical_state(instance, state)
    assert seen.job_free.tolist() == [[0.0, 0.0]] and seen.machine_free.tolist() == [[5.0, 0.0, 10.0]]
    for same in (
        state._replace(job_free=torch.tensor([[60.0, 5.0]])),
        state._replace(job_free=state.job_free + 100, machine_free=state.machine_free + 100),
    ):
        assert all(torch.equal(a, b) for a, b in zip(policy.canonical_state(instance, same), seen, strict=True))
    without = job_shop(lookahead=False).canonical_state(instance, state)
    assert without.job_free.tolist() == [[0.0, 0.0]] and without.machine_free.tolist() == [[0.0, 0.0, 0.0]]
    last = State(*(torch.tensor([row]) for row in ([3, 2], [90.0, 80.0], [85.0, 90.0, 95.0], [5], [5])))
    seen = policy.canonical_state(instance, last)  # job 0 has ended, and only machine 0 is needed
    assert seen.job_free.tolist() == [[0.0, 0.0]] and seen.machine_free.tolist() == [[0.0, 0.0, 0.0]]


def test_a_search_makes_it_once_a_step(monkeypatch):
    made = []
    counted = models.job_shop.earliest_starts
    monkeypatch.setattr(models.job_shop, "earliest_starts", lambda *given: made.append(1) or counted(*given))
    instances = one_size(4, 3).generate(3, torch.Generator().manual_seed(0))
    search(one_size(4, 3), job_shop(lookahead=True), instances, Beam(2))
    assert len(made) == 12


# ---- the network against loops


def slow_operations(policy, instance, state, row):
    """{(job, operation): the transformed operation}; scheduled ones are not there for anyone to see."""
    machine, tokens = machine_of(instance, row), {}
    seen = {divmod(number, instance.times.shape[2]) for number in state.view[row].tolist()}
    for (job, op), numbers in slow_features(instance, state, row, policy.lookahead).items():
        if (job, op) not in seen:
            continue
        token = policy.embed(torch.tensor(numbers))
        width = len(token)
        for k in range(0 if policy.lookahead else width):
            angle = op / 10_000 ** ((k - k % 2) / width)
            token = token + torch.eye(width)[k] * (math.cos(angle) if k % 2 else math.sin(angle))
        tokens[job, op] = token
    heads = policy.between_jobs.heads
    for job_wise, machine_wise in zip(policy.job_wise, policy.machine_wise, strict=True):
        tokens = slow_layer(
            job_wise,
            tokens,
            sees=lambda a, b: a[0] == b[0],
            bias=lambda query, key, head: 2 ** (-8 * (head + 1) / heads) * (key[1] - query[1]),
        )
        tokens = slow_layer(machine_wise, tokens, sees=lambda a, b: machine[a] == machine[b])
    return tokens


def slow_logits(policy, instance, state, row):
    """{job: logit} of the jobs that are not finished."""
    tokens = slow_operations(policy, instance, state, row)
    following = {}
    for job, op in tokens:
        if op == state.next_op[row, job]:
            following[job] = tokens[job, op]
    following = slow_layer(policy.between_jobs, following)
    return {job: policy.head(token).item() for job, token in following.items()}


def viewed(view, instance, state):
    """The state of which a network sees so many operations of each of so many jobs."""
    if view is None:
        return state
    starts = partial(earliest_starts, instance, state)
    return state._replace(view=Window(*view).view(state, starts, instance.times.shape[2]))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("options", [{}, {"lookahead": True, "heads": 4, "width": 24}])
@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize(
    ("jobs", "ops", "view"), [(4, 3, None), (3, 5, None), (1, 4, None), (5, 1, None), (5, 4, (2, None)), (5, 4, (2, 3))]
)
def test_forward_equals_plain_loops(jobs, ops, view, options, way, general, monkeypatch):
    """What is out of view is not there for the network; the features of what is in view are those of the whole shop."""
    attend_by(way, monkeypatch)
    policy = job_shop(**options)
    for step in sorted({0, 1, jobs * ops // 2, jobs * ops - 3, jobs * ops - 2} & {*steps(jobs, ops)}):
        instance, state, _ = played(2, jobs, ops, step, seed=step, zeros=0.4, general=general)
        state = viewed(view, instance, state)
        with torch.no_grad():
            logits = policy(policy.encode(instance), state)
            for row in range(2):
                for job, logit in slow_logits(policy, instance, state, row).items():
                    assert logits[row, job].item() == pytest.approx(logit, abs=1e-5), (step, row, job)


@pytest.mark.parametrize("way", WAYS)
def test_hidden_keys_leave_no_trace(way, monkeypatch):
    """Finite logits, loss and gradients where jobs are finished, down to two operations; MASKED_SCORE is never seen."""
    attend_by(way, monkeypatch)
    assert math.isfinite(MASKED_SCORE)
    for jobs, ops in (*SIZES, (6, 2)):
        policy = job_shop(order_loss=1.0)
        for step in steps(jobs, ops):
            instance, state, rest = played(16, jobs, ops, step, seed=step)
            legal = one_size(jobs, ops).mask(instance, state)
            logits, loss = policy.with_auxiliary_loss(policy.encode(instance), state, rest)
            assert logits.isfinite().all() and logits[legal].abs().max() < 100 and loss.isfinite()
            policy.zero_grad()
            (F.cross_entropy(logits.masked_fill(~legal, -torch.inf), rest[:, 0]) + loss).backward()
            assert all(p.grad is None or p.grad.isfinite().all() for p in policy.parameters())


# ---- the auxiliary loss


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("view", [None, (2, None), (2, 3)])
@pytest.mark.parametrize(("jobs", "ops"), [(4, 3), (3, 5), (5, 1), (1, 4)])
def test_order_loss_equals_plain_loops(jobs, ops, view, way, general, monkeypatch):
    """Of every two open operations of a machine, the one that the expert schedules first should win."""
    attend_by(way, monkeypatch)
    policy = job_shop(order_loss=0.25)
    for step in (0, jobs * ops // 2):
        instance, state, rest = played(4, jobs, ops, step, zeros=0.4, general=general)
        state = viewed(view, instance, state)
        means = []
        for row in range(4):
            losses = []
            tokens, machine = slow_operations(policy, instance, state, row), machine_of(instance, row)
            done, sequence = state.next_op[row].tolist(), []
            for job in rest[row].tolist():
                sequence.append((job, done[job]))
                done[job] += 1
            assert view or sorted(sequence) == sorted(tokens)
            for first, second in itertools.combinations([each for each in sequence if each in tokens], 2):
                if machine[first] == machine[second]:
                    wins = policy.order_loss.earlier(tokens[first]) @ policy.order_loss.later(tokens[second])
                    loses = policy.order_loss.earlier(tokens[second]) @ policy.order_loss.later(tokens[first])
                    losses.append(-F.logsigmoid((wins - loses) / 4.0))  # 4 is the root of the width
            means.append(torch.stack(losses).mean() if losses else torch.zeros(()))
        loss = policy.with_auxiliary_loss(policy.encode(instance), state, rest)[1]
        assert loss.item() == pytest.approx(0.25 * torch.stack(means).mean().item(), rel=1e-4)
        assert job_shop().with_auxiliary_loss(policy.encode(instance), state, rest)[1] == 0


def test_a_loss_of_negative_weight_is_refused():
    with pytest.raises(ValueError, match="order_loss must be at least 0, got -1.0"):
        job_shop(order_loss=-1.0)
