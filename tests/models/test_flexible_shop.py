"""The network for the flexible job shop, against plain loops and in what it must not depend on."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from gumbeldore.batches import take
from gumbeldore.testing import policy_contract
from models.attention import bias_against
from models.flexible_shop import CrossLayer, FlexibleShop
from problems.fjsp import Instance
from problems.jssp.instances import with_times, work_bound
from tests.helpers.flexible_shops import drawn, one_size
from tests.helpers.networks import WAYS, attend_by, awake


def network(**options):
    torch.manual_seed(0)
    return awake(FlexibleShop(**{"width": 16, "blocks": 2, "heads": 4, "feedforward": 32, **options}))


def logits_of(instance, state):
    policy = network()
    return policy(policy.encode(instance), state)


def played(n, jobs, machines, step, seed=0, far=1, **options):
    """Instances, the state after `step` decisions, and the decisions to come; releases are `far` times as late."""
    instance, actions = drawn(n, jobs, machines, seed=seed)
    instance = instance._replace(release=far * instance.release, machine_release=far * instance.machine_release)
    return instance, one_size(jobs, machines, **options).replay(instance, actions[:, :step]), actions[:, step:]


@pytest.mark.parametrize("options", [{}, {"window": 2, "jobs_in_view": 3}])
def test_contract(options):
    for size in ((4, 3), (5, 1), (1, 4)):
        policy_contract(network(), one_size(*size, **options))


@pytest.mark.parametrize("step", [0, 4, 11])
def test_numbers_of_jobs_and_machines_make_no_difference(step):
    instance, actions = drawn(5, 4, 3, seed=2)
    problem, policy = one_size(4, 3), network()
    jobs, machines = torch.tensor([2, 0, 3, 1]), torch.tensor([1, 2, 0])
    fields = instance.stored()
    renumbered = {name: field[:, machines if name == "machine_release" else jobs] for name, field in fields.items()}
    other = Instance.restored({**renumbered, "times": renumbered["times"][..., machines]})
    moved = jobs.argsort()[actions // 3] * 3 + machines.argsort()[actions % 3]
    assert torch.equal(problem.cost(instance, actions), problem.cost(other, moved))
    states = [problem.replay(each, made[:, :step]) for each, made in ((instance, actions), (other, moved))]
    logits = [
        policy(policy.encode(each), state).view(5, 4, 3) for each, state in zip((instance, other), states, strict=True)
    ]
    before, legal = (x[:, jobs][..., machines] for x in (logits[0], problem.mask(instance, states[0]).view(5, 4, 3)))
    assert torch.allclose(before[legal], logits[1][legal], atol=1e-5)


def test_the_unit_of_time_makes_no_difference():
    instance, state, _ = played(5, 4, 3, 5)
    longer = with_times(instance, lambda times: 7 * times)
    _, actions = drawn(5, 4, 3)
    after = one_size(4, 3).replay(longer, actions[:, :5])
    assert torch.allclose(logits_of(instance, state), logits_of(longer, after), atol=1e-4)


@pytest.mark.parametrize("field", ["release", "machine_release"])
def test_a_release_far_away_changes_no_decision_of_today(field):
    drawn = one_size(5, 3).generate(4, torch.Generator().manual_seed(0))
    found = []
    for date in (3_000.0, 3_000_000.0):
        released = torch.zeros_like(getattr(drawn, field))
        released[:, -1] = date
        instance = drawn._replace(**{field: released})
        found.append(logits_of(instance, one_size(5, 3).reset(instance)))
    assert torch.equal(*found)


@pytest.mark.parametrize("far", [1, 50])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("step", [0, 5, 11])
def test_features_equal_plain_loops(step, window, far):
    instance, state, _ = played(4, 4, 3, step, window=window, far=far)
    policy = network()
    of_operations, of_machines, options = policy._features(
        policy.encode(instance), policy.canonical_state(instance, state)
    )
    decisions = policy._decisions(policy.encode(instance), policy.canonical_state(instance, state))
    for row in range(4):
        found = (of_operations[row], of_machines[row], options[row], decisions[row])
        _check_row(*(take(each, slice(row, row + 1)) for each in (instance, state)), *found)


def _check_row(instance, state, of_operations, of_machines, options, decisions):
    """The features of one row, in plain Python."""
    _, jobs, ops, machines = instance.times.shape
    times, waits = instance.times[0].tolist(), instance.waits[0].tolist()
    free, ready = state.machine_free[0].tolist(), state.job_free[0].tolist()
    next_op, unit = state.next_op[0].tolist(), work_bound(instance)[0].item() / 4

    def start(job, ready, free):
        takes = times[job][next_op[job]]
        return min(max(ready[job], free[m] if takes[m] else 0) for m in range(machines) if takes[m] < math.inf)

    starts = {job: start(job, ready, free) for job in range(jobs) if next_op[job] < ops}
    now = min(starts.values())
    # Nobody waits longer for a release than the work takes.
    release, machine_release = (field[0].tolist() for field in (instance.release, instance.machine_release))
    latest = now + 4 * unit
    starts = {job: min(at, latest) if at == start(job, release, machine_release) else at for job, at in starts.items()}
    free = [min(free[m], latest) if free[m] == machine_release[m] else free[m] for m in range(machines)]
    remaining = [(job, op) for job in starts for op in range(next_op[job], ops)]
    able = {(job, op): [m for m in range(machines) if times[job][op][m] < math.inf] for job, op in remaining}
    load = [sum(times[j][o][m] / len(able[j, o]) for j, o in remaining if m in able[j, o]) for m in range(machines)]
    alone = [sum(times[j][o][m] for j, o in remaining if able[j, o] == [m]) for m in range(machines)]
    busy = [max(0, free[m] - now) if any(m in each for each in able.values()) else 0 for m in range(machines)]
    until = [busy[m] + load[m] for m in range(machines)]
    for m in range(machines):
        expected = [busy[m], load[m], alone[m], until[m] - max(until)]
        assert of_machines[m].mul(unit).tolist() == pytest.approx(expected, abs=1e-3)
    for place, number in enumerate(state.view[0].tolist()):
        job, op = divmod(number, ops)
        mine = [times[job][op][m] for m in able[job, op]]
        before = sum(min(times[job][o]) + waits[job][o] for o in range(next_op[job], op))
        after = waits[job][op] + sum(min(times[job][o]) + waits[job][o] for o in range(op + 1, ops))
        begin = starts[job] - now
        expected = [begin, begin + before, min(mine), sum(mine) / len(mine), after, unit * len(mine) / machines]
        assert of_operations[place].mul(unit).tolist() == pytest.approx(expected, abs=1e-3)
        for m in range(machines):
            expected = [times[job][op][m], times[job][op][m] - min(mine)]
            assert options[place, m].mul(unit).tolist() == pytest.approx(expected, abs=1e-3)
    for job, m in [(each, m) for each in starts for m in able[each, next_op[each]]]:
        takes = times[job][next_op[job]][m]
        # A machine that nothing needs is free at once; this one is needed.
        begin = max(starts[job] - now, busy[m] if takes else 0)
        expected = [begin, takes, begin + takes, takes - min(times[job][next_op[job]]), max(0, begin - busy[m])]
        assert decisions[job, m].mul(unit).tolist() == pytest.approx(expected, abs=1e-3)


def test_cross_attention_equals_plain_loops():
    torch.manual_seed(0)
    layer = awake(CrossLayer(8, 2, 16))
    x, y, options = torch.randn(3, 5, 8), torch.randn(3, 4, 8), torch.rand(3, 5, 4, 2)
    options[torch.rand(3, 5, 4) < 0.3] = math.inf
    options[0, 0] = math.inf  # sees nothing: finite all the same
    options[:, 1:, 0] = 1.0
    cannot = options[..., 0].isinf()
    found = layer(x, y, options.masked_fill(cannot[..., None], 0), bias_against(cannot)[:, None])
    assert found.isfinite().all()
    key, value = layer.key_value(y).chunk(2, dim=2)
    query = layer.query(x)
    for row in range(3):
        for i in range(1, 5):
            heads = []
            for head in range(2):
                mine = slice(4 * head, 4 * head + 4)
                seen = [j for j in range(4) if options[row, i, j, 0] < math.inf]
                bias = [layer.bias.weight[head] @ options[row, i, j] for j in seen]
                scores = [query[row, i, mine] @ key[row, j, mine] / 2 + b for j, b in zip(seen, bias, strict=True)]
                heads.append(torch.stack(scores).softmax(0) @ value[row, seen][:, mine])
            token = x[row, i] + 0.5 * layer.output_projection(torch.cat(heads))
            token = token + 0.5 * layer.down_projection(F.gelu(layer.up_projection(token)))
            assert torch.allclose(found[row, i], token, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"window": 2}, {"window": 2, "jobs_in_view": 3}])
def test_attention_in_groups_equals_attention_over_all_pairs(options, monkeypatch):
    for step in (0, 5, 14):
        instance, state, _ = played(4, 5, 3, step, **options)
        legal, found = one_size(5, 3, **options).mask(instance, state), {}
        for way in WAYS:
            attend_by(way, monkeypatch)
            found[way] = logits_of(instance, state)[legal]
        assert torch.allclose(found["groups"], found["dense"], atol=1e-5)


def test_every_parameter_gets_a_gradient():
    instance, state, rest = played(16, 5, 3, 4)
    policy = network()
    logits = policy(policy.encode(instance), state).masked_fill(~one_size(5, 3).mask(instance, state), -math.inf)
    F.cross_entropy(logits, rest[:, 0]).backward()
    for name, parameter in policy.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0 or name in WITHOUT_EFFECT, name


WITHOUT_EFFECT = {"head.bias"}  # it is added to all logits


def test_rows_are_alone(monkeypatch):
    """Micro-batches give what one pass gives."""
    instance, state, _ = played(9, 5, 3, 4)
    with torch.no_grad():
        whole = logits_of(instance, state)
        monkeypatch.setattr("models.micro_batches.CPU_MAX_ACTIVATIONS", 1)
        parts = logits_of(instance, state)
        alone = logits_of(take(instance, slice(3, 4)), take(state, slice(3, 4)))
    assert torch.allclose(whole, parts, atol=1e-5) and torch.allclose(whole[3:4], alone, atol=1e-5)
