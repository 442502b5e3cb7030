"""Checks that an own problem or policy keeps the contracts of `gumbeldore.interfaces`; call them from a test."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gumbeldore.batches import batch_size, repeated, take
from gumbeldore.interfaces import (
    HasIndependentDecisions,
    HasLocalSearch,
    HasPieces,
    HasRules,
    Policy,
    Problem,
    size_name,
)


def problem_contract(problem: Problem, n: int = 6, seed: int = 0) -> None:
    """Play n random solutions of random instances and check every rule. Raises AssertionError naming the rule."""
    _check_class(type(problem))
    instance = _checked_instances(problem, n, seed)
    generator = torch.Generator().manual_seed(seed)
    solution, forced = _checked_play(problem, instance, generator)
    cost = _checked_cost(problem, instance, solution)
    _check_choices(problem, instance, solution, forced)
    _check_other_forms(problem, instance, solution, cost, generator)
    _check_equivalents(problem, instance, generator)
    if isinstance(problem, HasPieces):
        _check_pieces(problem, instance, solution, generator)
    if isinstance(problem, HasLocalSearch) and problem.prefers_local_search:
        _check_local_search(problem, instance, solution, cost)
    if isinstance(problem, HasRules):
        problem.cost(instance, problem.by_rules(instance))  # which raises ValueError if these are no solutions
    _check_reports(problem, instance, solution)


def policy_contract(policy: Policy, problem: Problem, n: int = 6, seed: int = 0) -> None:
    """Ask the policy about the states of n random solutions. Raises AssertionError naming the broken rule."""
    kind = f"{type(policy).__module__}.{type(policy).__qualname__}"
    assert isinstance(policy, Policy), f"a policy must inherit gumbeldore.Policy, {kind} does not"
    fits = policy.problem in (None, problem.name)
    assert fits, f"the policy is for the problem {policy.problem}, not for {problem.name}"
    generator = torch.Generator().manual_seed(seed)
    instance = problem.generate(n, generator)
    actions = random_solution(problem, instance, generator)
    was_training = policy.training
    policy.eval()
    for step in range(problem.last_choice(instance) + 1):
        state = problem.replay(instance, actions[:, :step])
        legal = problem.mask(instance, state)
        context = policy.encode(instance)
        _check_rows("encode", context, n)
        logits = policy(context, state)
        assert logits.shape == legal.shape, f"logits must be {tuple(legal.shape)}, got {tuple(logits.shape)}"
        assert logits.dtype in (torch.float32, torch.float64), f"logits must be float32 or float64, got {logits.dtype}"
        assert logits[legal].isfinite().all(), f"logits of legal actions must be finite (step {step})"
        with torch.no_grad():
            order = torch.randperm(n, generator=generator)
            shuffled = policy(take(context, order), take(state, order))  # as a search does
            alone = policy(policy.encode(take(instance, order)), take(state, order))
        for found in (shuffled, alone):
            close = torch.allclose(found[legal[order]], logits[order][legal[order]], rtol=1e-4, atol=1e-4)
            assert close, f"rows must not depend on each other (step {step})"
        same = policy(context, policy.canonical_state(instance, state))
        assert torch.equal(same[legal], logits[legal]), "a state and its canonical_state must have the same logits"
        again, loss = policy.with_auxiliary_loss(context, state, actions[:, step:])
        assert torch.equal(again[legal], logits[legal]), "with_auxiliary_loss must give the logits of forward"
        usable = loss.shape == () and loss.isfinite() and loss >= 0
        assert usable, f"the auxiliary loss must be one finite number that is not negative, got {loss}"
    _check_precision(policy, problem, instance)
    _check_gradient(policy, problem, instance, actions[:, 0])
    policy.train(was_training)


def _checked_instances(problem: Problem, n: int, seed: int) -> Any:
    """n random instances, after checks of `generate`, of the curriculum and of the sizes."""
    instance, again, first, last = (
        each.generate(n, torch.Generator().manual_seed(seed))
        for each in (problem, problem, problem.curriculum(0.0), problem.curriculum(1.0))
    )
    _check_rows(f"generate({n})", instance, n)
    assert _equal(instance, again), "generate must depend on its generator alone"
    assert 0 <= problem.last_choice(instance) < problem.horizon(instance), "last_choice must be a decision"
    assert batch_size(first) == n, f"curriculum(0.0) must generate {n} instances as asked"
    assert _equal(last, instance), "curriculum(1.0) must generate the instances of the problem itself"
    for name, values in problem.size_of(instance).items():
        above_zero = values.shape == (n,) and (values > 0).all()
        assert above_zero, f"size_of must give a number {name} above 0 for each instance"
    problem.check(instance)  # what is generated must be well-formed
    return instance


def _checked_play(problem: Problem, instance: Any, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random solutions [n, T], and which of their decisions had one legal action; every mask and step is checked."""
    state = problem.reset(instance)
    _check_rows("reset", state, batch_size(instance))
    actions = torch.empty(batch_size(instance), 0, dtype=torch.int64)
    forced: list[Tensor] = []
    for step in range(problem.horizon(instance)):
        legal = _check_mask(problem, instance, state, step)
        forced.append(legal.sum(dim=1) == 1)
        action = torch.multinomial(legal.double(), 1, generator=generator)
        _check_step(problem, instance, state, action.squeeze(1))
        if isinstance(problem, HasIndependentDecisions) and step + 1 < problem.horizon(instance):
            other = torch.multinomial(legal.double(), 1, generator=generator).squeeze(1)
            _check_independent(problem, instance, state, action.squeeze(1), other)
        assert _equal(problem.replay(instance, actions), state), f"replay of {step} decisions differs from {step} steps"
        if not legal.all():
            _check_refused(problem, instance, actions, (~legal).int().argmax(dim=1), step)
        actions = torch.cat([actions, action], dim=1)
        state = problem.step(instance, state, action.squeeze(1))
    return actions, torch.stack(forced, dim=1)


def _checked_cost(problem: Problem, instance: Any, solution: Tensor) -> Tensor:
    """The costs [n] of solutions, which have one in the units of training, too."""
    n = len(solution)
    cost = problem.cost(instance, solution)
    finite = isinstance(cost, Tensor) and cost.shape == (n,) and cost.isfinite().all()
    assert finite, f"cost must be a tensor of n finite numbers, got {cost}"
    assert problem.cost(problem.in_training_units(instance), solution).isfinite().all()  # and it must be legal there
    return cost


def _check_choices(problem: Problem, instance: Any, solution: Tensor, forced: Tensor) -> None:
    """The decisions after the last choice are `forced`."""
    n = len(solution)
    choices = problem.num_choices(instance, solution)
    assert choices.shape == (n,) and choices.dtype == torch.int64, f"num_choices must be n integers, got {choices}"
    learnt = torch.arange(solution.shape[1]) < choices[:, None]
    assert (learnt | forced).all(), "decisions after num_choices must be forced"


def _check_other_forms(
    problem: Problem, instance: Any, solution: Tensor, cost: Tensor, generator: torch.Generator
) -> None:
    """What training makes of an expert is a solution, too."""
    other, moved = problem.augment(instance, solution, 0, generator)
    assert moved.shape == solution.shape, "augment must keep the number of decisions"
    assert problem.cost(other, moved).isfinite().all()  # and they must be legal
    turned = problem.reorder(instance, solution, 0, generator)
    assert turned.shape == solution.shape, "reorder must keep the number of decisions"
    after = problem.cost(instance, turned)
    assert ((after <= cost) | after.isclose(cost)).all(), "reorder must not raise the cost"


def _check_rows(what: str, found: Any, n: int) -> None:
    """A NamedTuple of tensors with n rows."""
    fields = getattr(found, "_fields", None)
    assert fields, f"{what} must give a NamedTuple of tensors, got {type(found).__name__}"
    for name, field in zip(fields, found, strict=True):
        rows = field.shape[:1] == (n,) if isinstance(field, Tensor) else False
        got = f"{list(field.shape)}" if isinstance(field, Tensor) else type(field).__name__
        assert rows, f"{what} must give tensors whose first dimension is the batch, {n} here; {name} is {got}"


def random_solution(problem: Problem, instance: Any, generator: torch.Generator) -> Tensor:
    """Uniformly random legal decisions [n, T]."""
    state, actions = problem.reset(instance), []
    for _ in range(problem.horizon(instance)):
        legal = problem.mask(instance, state).double()
        actions.append(torch.multinomial(legal, 1, generator=generator).squeeze(1))
        state = problem.step(instance, state, actions[-1])
    return torch.stack(actions, dim=1)


def _check_precision(policy: Policy, problem: Problem, instance: Any) -> None:
    """Where the network runs in bf16, its logits are not rounded to it."""
    state = problem.reset(instance)
    legal = problem.mask(instance, state)
    with torch.no_grad():
        plain = policy(policy.encode(instance), state)
        with torch.autocast("cpu", torch.bfloat16):
            logits = policy(policy.encode(instance), state)
    assert logits.dtype == plain.dtype, f"logits must be {plain.dtype} under autocast, too, got {logits.dtype}"
    rounded, round_anyway = (torch.equal(each[legal], each[legal].bfloat16().to(each)) for each in (logits, plain))
    assert round_anyway or not rounded, "logits must not be rounded to bf16 under autocast: use FullPrecisionLinear"


def _check_gradient(policy: Policy, problem: Problem, instance: Any, action: Tensor) -> None:
    """Imitating an action changes some weights, where there is a choice."""
    if problem.num_actions(instance) == 1:
        return
    state = problem.reset(instance)
    policy.train()
    policy.zero_grad()
    logits = policy(policy.encode(instance), state).masked_fill(~problem.mask(instance, state), -torch.inf)
    logits.log_softmax(dim=1).gather(1, action[:, None]).sum().backward()
    assert any(p.grad is not None and p.grad.any() for p in policy.parameters()), "no gradient arrives"
    policy.zero_grad()


def _check_equivalents(problem: Any, instance: Any, generator: torch.Generator) -> None:
    """Solutions of equivalent instances are solutions of the instance itself, at no higher cost."""
    n, most = batch_size(instance), problem.num_equivalents(instance)
    for count in {1, min(2, most), min(11, most)}:
        each, restored = problem.equivalents(instance, count)
        assert batch_size(each) == n * count, f"{count} equivalents of {n} instances are {n * count}"
        itself = torch.arange(n) * count
        assert _equal(take(each, itself), instance), "the first of the equivalents must be the instance itself"
        solutions = torch.stack([random_solution(problem, each, generator) for _ in range(2)], dim=1)  # [n*c, 2, T]
        turned = restored(solutions)
        assert torch.equal(turned[itself], solutions[itself]), "a solution of the instance itself must stay as it is"
        for a, b in zip(solutions.unbind(1), turned.unbind(1), strict=True):
            cost = problem.cost(repeated(instance, count), b)
            assert (cost <= problem.cost(each, a) + 1e-4).all(), "a solution of an equivalent must be as good"


def _check_pieces(problem: Any, instance: Any, solution: Tensor, generator: torch.Generator) -> None:
    """Pieces can be decoded anew, each by itself: what a solution gains by several is the sum of their gains."""
    n, horizon = solution.shape
    cost = problem.cost(instance, solution).double()
    for length in {1, min(2, horizon), -(-horizon // 3), horizon}:
        pieces = problem.pieces(
            instance, solution, length, lambda count: torch.rand(n, count, generator=generator, dtype=torch.float64)
        )
        count = len(pieces.row)
        assert torch.equal(pieces.row.unique(), torch.arange(n)), "every instance must have a piece"
        places = pieces.first[:, None] + torch.arange(length)
        own = pieces.sequence[pieces.row[:, None], places]
        everything = torch.stack([pieces.row[:, None].expand_as(places), places]).flatten(1)
        assert everything.unique(dim=1).shape == everything.shape, "pieces must have no decision in common"
        chosen = torch.ones(count, dtype=torch.bool)
        same = problem.cost(instance, pieces.with_all(own, chosen)).double()
        assert torch.allclose(same, cost, atol=1e-4), "pieces as they are must give the same solution"

        whole, state, decisions = take(instance, pieces.row), pieces.state, []
        for _ in range(length):
            legal = problem.mask(whole, state).double()
            assert (legal.sum(dim=1) > 0).all(), "a piece must have legal decisions"
            decisions.append(torch.multinomial(legal, 1, generator=generator).squeeze(1))
            state = problem.step(whole, state, decisions[-1])
        new = torch.stack(decisions, dim=1)
        gain = problem.cost(whole, pieces.with_one(torch.arange(count), new)).double() - cost[pieces.row]
        total = torch.zeros_like(cost).index_add(0, pieces.row, gain)
        together = problem.cost(instance, pieces.with_all(new, chosen)).double() - cost
        assert torch.allclose(together, total, atol=1e-4), "pieces must not depend on each other"


def _check_class(cls: type) -> None:
    """The class of a problem inherits Problem; a class that inherits it and lacks a method makes no instances."""
    lacking = sorted(name for name in Problem.__abstractmethods__ if not hasattr(cls, name))
    rule = f"{cls.__name__} must inherit gumbeldore.Problem" + (f"; it lacks {', '.join(lacking)}" if lacking else "")
    assert issubclass(cls, Problem), rule


def _check_reports(problem: Problem, instance: Any, solution: Tensor) -> None:
    """What tables ask of every problem; `details`, `solution_file` and `render` need an evaluation's instances."""
    assert isinstance(size_name(problem, instance), str), "reports.size must be text"
    assert list(problem.reports.solution(solution[0])), "reports.solution must list at least one thing"
    for name, values in problem.reports.describe(solution).items():
        assert values.shape == (len(solution),), f"reports.describe must give a number {name} for each solution"


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def _check_mask(problem: Problem, instance: Any, state: Any, step: int) -> Tensor:
    legal = problem.mask(instance, state)
    shape = (batch_size(instance), problem.num_actions(instance))
    assert legal.shape == shape and legal.dtype == torch.bool, (
        f"mask must be bool {shape}, got {legal.dtype} {tuple(legal.shape)}"
    )
    assert legal.any(dim=1).all(), f"mask is all False at step {step}"
    if step > problem.last_choice(instance):
        assert (legal.sum(dim=1) == 1).all(), f"step {step} comes after last_choice but is not forced"
    return legal


def _check_step(problem: Problem, instance: Any, state: Any, action: Tensor) -> None:
    """`step` leaves its arguments alone and treats each row by itself."""
    before = type(state)(*(field.clone() for field in state))
    after = problem.step(instance, state, action)
    _check_rows("step", after, batch_size(instance))
    assert _equal(before, state), "step must not change the state it is given"
    rows = torch.arange(batch_size(instance)).flip(0)
    alone = problem.step(take(instance, rows), take(state, rows), action[rows])
    assert _equal(alone, take(after, rows)), "rows of step must not depend on each other"


def _check_independent(problem: Any, instance: Any, state: Any, one: Tensor, other: Tensor) -> None:
    """Of two decisions with other resources, either can be the first one."""
    resources = problem.resources(instance, state)
    shape = problem.mask(instance, state).shape
    well = resources.dtype == torch.int64 and resources.dim() == 3 and resources.shape[:2] == shape
    assert well, f"resources must be int64 [{shape[0]}, {shape[1]}, k], got {resources.dtype} {list(resources.shape)}"
    rows = torch.arange(len(one))
    apart = (resources[rows, one] != resources[rows, other]).all(dim=1)
    for first, second in ((one, other), (other, one)):  # a decision may also forbid another
        apart &= problem.mask(instance, problem.step(instance, state, first))[rows, second]
    rows = apart.nonzero().squeeze(1)
    instance, state, one, other = take(instance, rows), take(state, rows), one[rows], other[rows]
    ends = [
        problem.step(instance, problem.step(instance, state, first), second)
        for first, second in ((one, other), (other, one))
    ]
    assert _equal(*ends), "decisions that share no resources must lead to the same state in either order"


def _check_local_search(problem: Any, instance: Any, solution: Tensor, cost: Tensor) -> None:
    """Its solutions cost no more than those given, and do not depend on other rows."""
    problem.prepare_local_search()
    n = len(solution)
    starts = solution[:, None].expand(-1, 2, -1)  # the same one twice
    seeds = torch.arange(n)
    found = problem.local_search(instance, starts, 20, seeds)
    assert (problem.cost(instance, found) <= cost).all(), "local_search must give nothing worse than what it is given"
    last = slice(n - 1, n)
    alone = problem.local_search(take(instance, last), starts[last], 20, seeds[last])
    assert torch.equal(alone, found[last]), "local_search must be decided by a row's own arguments"


def _check_refused(problem: Problem, instance: Any, before: Tensor, illegal: Tensor, step: int) -> None:
    """`cost` raises ValueError on a sequence with an illegal decision."""
    rest = torch.zeros(len(before), problem.horizon(instance) - step - 1, dtype=torch.int64)
    try:
        problem.cost(instance, torch.cat([before, illegal[:, None], rest], dim=1))
    except ValueError:
        return
    raise AssertionError(f"cost must raise ValueError on a sequence with an illegal decision at step {step}")
