"""The fast search against the slow reference, and what each method and option changes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from gumbeldore.batches import take
from gumbeldore.runtime.errors import InstanceError
from gumbeldore.runtime.precision import InPrecision
from gumbeldore.sampler import methods
from gumbeldore.sampler import trie as trie_ops
from gumbeldore.sampler.gumbel import gumbel_with_maximum, log1mexp, log_survival
from gumbeldore.sampler.noise import no_noise
from gumbeldore.sampler.search import search
from gumbeldore.sampler.task import SearchTask
from gumbeldore.sampler.trie_search import TrieSearch
from tests.helpers.reference import Reference, assert_same_round
from tests.helpers.trees import TablePolicy, TreeProblem, enumerate_leaves

PROBLEM, POLICY = TreeProblem(), TablePolicy()
TREES = PROBLEM.generate(60, torch.Generator().manual_seed(11))
KEYS = torch.arange(60) * 7919


def find(config, trees=TREES, keys=KEYS):
    return search(PROBLEM, POLICY, trees, config, keys=keys)


def reference_rounds(row, config, learn):
    slow = Reference(TREES, row, KEYS[row].item(), config.beam_width)
    rounds = []
    for round_ in range(config.num_rounds):
        slow.top_p = config.nucleus(round_)
        found = slow.round(round_)
        rounds.append(found)
        if found:
            slow.remove(found)
            learn(slow, found)
    return rounds


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_an_update_that_breaks_the_trie_is_refused(wrong):
    class Broken(methods.WithoutReplacement):
        def update(self, trie, leaves, objective):
            super().update(trie, leaves, objective)
            trie.advantage[1, 3, 0] = wrong

    with pytest.raises(InstanceError, match="the update made log-probabilities of the trie NaN or infinite"):
        find(Broken(4, 2))


def learn_nothing(slow, found):
    pass


def learn_gumbeldore(slow, found):
    mu = slow.expectation(found)
    for leaf in found:
        slow.add(leaf, 0.8 * (leaf.outcome - mu))


def learn_theory(slow, found):
    slow.theory(found, 0.8, "node")


def learn_theory_of_rounds(slow, found):
    slow.theory(found, 0.8, "round")


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize(
    ("method", "learn"),
    [
        (lambda k: methods.WithoutReplacement(k, 4), learn_nothing),
        (lambda k: methods.WithoutReplacement(k, 4, top_p_start=0.6, top_p_end=1.0), learn_nothing),
        (lambda k: methods.Gumbeldore(k, 4, 0.8), learn_gumbeldore),
        (lambda k: methods.Gumbeldore(k, 4, 0.8, top_p_start=0.5, top_p_end=0.9), learn_gumbeldore),
        (lambda k: methods.Theory(k, 4, 0.8), learn_theory),
        (lambda k: methods.Theory(k, 4, 0.8, threshold="round"), learn_theory_of_rounds),
    ],
)
def test_fast_and_slow_agree_on_the_same_noise(method, learn, width):
    config = method(width)
    fast = find(config)
    for row in range(len(KEYS)):
        for round_, found in enumerate(reference_rounds(row, config, learn)):
            assert_same_round(fast, row, round_, width, found)


@pytest.mark.parametrize(
    "config",
    [
        *[
            methods.Greedy(),
            methods.Beam(4),
            methods.Sampling(4, 3),
            methods.WithoutReplacement(2, 4, top_p_start=0.5, top_p_end=0.9),
        ],
        *[methods.Gumbeldore(3, 4, 0.8), methods.Theory(3, 4, 0.8)],
    ],
    ids=["greedy", "beam", "sampling", "nucleus", "gumbeldore", "theory"],
)
def test_log_probabilities_are_those_of_the_policy(config):
    """Not of the trie's masses, the round or the nucleus."""
    found = find(config)
    for row in range(20):
        probability = {leaf.actions: leaf.probability for leaf in enumerate_leaves(TREES, row)}
        valid = found.valid[row]
        expected = [probability[tuple(actions)] for actions in found.actions[row][valid].tolist()]
        assert found.log_probs[row][valid].exp().tolist() == pytest.approx(expected, rel=1e-9)


def test_two_rounds_by_hand():
    """K = 3, sigma = 1, outcomes 1..9 at the leaves of a complete tree of depth 2; no noise, no baseline.

    Root (.5, .3, .2), every child (.6, .3, .1): leaf probabilities .30 .15 .05 | .18 .09 .03 | .12 .06 .02.
    Round 1 takes the three most likely: .30 (outcome 1), .18 (outcome 4), .15 (outcome 2).
    The edge root->0 gets 1 + 2 = 3, root->1 gets 4, root->2 nothing.
    Masses left: .05 | .09 + .03 = .12 | .20, so the root's weights are .05 e^3, .12 e^4, .20.
    The leaf edges that are left carry no advantage: below 1 the leaves weigh .09/.12, .03/.12.
    """

    class Unperturbed(methods.Gumbeldore):
        random = False

        @property
        def beams(self):
            return super().beams._replace(noise=no_noise)

    instance = complete_tree([0.5, 0.3, 0.2], [0.6, 0.3, 0.1])
    found = search(COMPLETE, POLICY, instance, Unperturbed(3, 2, 1.0, baseline="none"))
    assert (-found.costs[0]).tolist() == [1, 4, 2, 5, 6, 3]
    root = [0.05 * math.exp(3), 0.12 * math.exp(4), 0.20]
    by_hand = [root[1] / sum(root) * 0.75, root[1] / sum(root) * 0.25, root[0] / sum(root)]
    assert found.round_log_probs[0, 3:].exp().tolist() == pytest.approx(by_hand, rel=1e-9)
    assert found.log_probs[0].exp().tolist() == pytest.approx([0.30, 0.18, 0.15, 0.09, 0.03, 0.05], rel=1e-9)


def complete_tree(root, child):
    logits = torch.zeros(1, 13, 3, dtype=torch.float64)
    logits[0, 0] = torch.tensor(root, dtype=torch.float64).log()
    logits[0, 1:4] = torch.tensor(child, dtype=torch.float64).log()
    outcome = torch.zeros(1, 13, dtype=torch.float64)
    outcome[0, 4:] = torch.arange(1, 10)
    return type(TREES)(torch.ones(1, 13, 3, dtype=torch.bool), logits, outcome)


class CompleteTree(TreeProblem):
    def horizon(self, instance):
        return 2


COMPLETE = CompleteTree()


def improved_policy_value(trees, row, config):
    """E[outcome] before and after one update from all leaves: the exact policies, by enumeration."""
    one = take(trees, slice(row, row + 1))
    task = SearchTask(PROBLEM, POLICY, one, POLICY.encode(one), KEYS[:1], KEYS[:1])
    every = TrieSearch(task, config.beams._replace(noise=no_noise), config.size(task))
    leaves, found = every.sample()
    objective, trie = -found.cost, every.trie
    every.learn(config.update, leaves, found)
    before = after = 0.0
    for k in leaves.valid[0].nonzero().flatten().tolist():
        value = 1.0
        for depth in range(task.horizon):
            node = leaves.node[depth, :, leaves.path[depth, 0, k]][:, None]
            child = trie_ops.read_children(trie, depth, node, leaves.filled)
            log_probs = trie.log_pi[depth][0, node[0, 0]]  # the policy's own: nothing taken out
            value *= (log_probs + child.advantage[0, 0]).softmax(0)[leaves.actions[0, k, depth]].item()
        before += leaves.log_prob[0, k].exp().item() * objective[0, k].item()
        after += value * objective[0, k].item()
    return before, after


@pytest.mark.parametrize("step_size", [0.1, 1.0, 5.0])
def test_theory_update_improves_the_expected_value(step_size):
    """With exact expectations (all leaves sampled) E_pi'[f] >= E_pi[f] [GD, appendix B]."""
    gains = []
    for row in range(30):
        config = methods.Theory(27, 2, step_size)
        before, after = improved_policy_value(TREES, row, config)
        exact = sum(leaf.probability * leaf.outcome for leaf in enumerate_leaves(TREES, row))
        assert before == pytest.approx(exact, abs=1e-9)
        assert after >= before - 1e-12
        gains.append(after - before)
    assert sum(gain > 1e-3 for gain in gains) > 20


def test_greedy_is_a_beam_of_one_and_beam_search_matches_the_reference():
    greedy, one = find(methods.Greedy()), find(methods.Beam(1))
    assert torch.equal(greedy.actions, one.actions) and torch.equal(greedy.costs, one.costs)
    wide = find(methods.Beam(4))
    for row in range(len(KEYS)):
        beam = [((), 0.0, 0)]
        for _ in range(3):
            options = []
            for actions, phi, node in beam:
                weights = TREES.logits[row, node].exp() * TREES.legal[row, node]
                options += [
                    ((*actions, a), phi + math.log(weights[a] / weights.sum()), 3 * node + a + 1)
                    for a in range(3)
                    if weights[a] > 0
                ]
            beam = sorted(options, key=lambda option: -option[1])[:4]
        assert [tuple(a) for a in wide.actions[row][wide.valid[row]].tolist()] == [actions for actions, *_ in beam]
        assert tuple(greedy.actions[row, 0].tolist()) == tuple(find_greedy(row))


def find_greedy(row):
    node = 0
    for _ in range(3):
        action = TREES.logits[row, node].where(TREES.legal[row, node], -math.inf).argmax().item()
        yield action
        node = 3 * node + action + 1


BASE = methods.Gumbeldore(2, 3, 1.0)


@pytest.mark.parametrize(
    "other",
    [
        methods.Gumbeldore(3, 3, 1.0),
        methods.Gumbeldore(2, 2, 1.0),
        methods.Gumbeldore(2, 3, 3.0),
        methods.Gumbeldore(2, 3, 0.0),
        methods.Gumbeldore(2, 3, 1.0, top_p_start=0.5, top_p_end=1.0),
        methods.Gumbeldore(2, 3, 1.0, top_p_start=1.0, top_p_end=0.5),
        methods.Gumbeldore(2, 3, 1.0, baseline="none"),
        methods.Gumbeldore(2, 3, 1.0, sampled_root=False),
        methods.Theory(2, 3, 1.0),
        methods.WithoutReplacement(2, 3),
        methods.Beam(2),
        methods.Sampling(2, 3),
        methods.Greedy(),
    ],
)
def test_every_option_changes_the_result(other):
    a, b = find(BASE), find(other)
    if a.gumbels.shape != b.gumbels.shape:
        assert a.valid.shape[1] != b.valid.shape[1]
    elif other == replace(BASE, sampled_root=False):
        assert torch.equal(a.actions, b.actions) and not torch.equal(a.gumbels, b.gumbels)
    else:
        assert not torch.equal(a.actions, b.actions)


def test_sigma_zero_is_sampling_without_replacement():
    assert torch.equal(find(methods.Gumbeldore(2, 3, 0.0)).actions, find(methods.WithoutReplacement(2, 3)).actions)


def test_gumbeldore_samples_get_better_from_round_to_round():
    """Mean over 4,000 trees; the standard error of a difference is about 0.02."""
    trees = PROBLEM.generate(4000, torch.Generator().manual_seed(5), branching=1.0)
    keys = torch.arange(4000)
    costs = {
        name: find(method, trees, keys).costs.view(4000, 4, 2).mean(dim=(0, 2))
        for name, method in (
            ("wor", methods.WithoutReplacement(2, 4)),
            ("gd", methods.Gumbeldore(2, 4, 1.0)),
            ("th", methods.Theory(2, 4, 1.0)),
        )
    }
    assert costs["gd"][1] < costs["wor"][1] - 0.1
    assert costs["th"][1] < costs["wor"][1] - 0.05


def test_an_instance_does_not_depend_on_its_neighbours():
    for config in (methods.Gumbeldore(3, 3, 1.0), methods.Sampling(2, 2), methods.Theory(2, 3, 1.0)):
        together = find(config)
        for row in (0, 17, 59):
            alone = find(config, take(TREES, slice(row, row + 1)), KEYS[row : row + 1])
            length = alone.valid.shape[1]  # a search ends early when all its instances are exhausted
            assert not together.valid[row, length:].any()
            for name in ("actions", "costs", "log_probs", "round_log_probs", "gumbels"):
                a, b = getattr(together, name)[row, :length], getattr(alone, name)[0]
                valid = alone.valid[0]
                assert torch.equal(a[valid], b[valid]), name
            assert torch.equal(together.valid[row, :length], alone.valid[0])


def test_states_are_evaluated_once_and_forced_ones_never():
    asked = []

    class Recorder(TablePolicy):
        def forward(self, context, state):
            legal = context.legal[torch.arange(len(state.node)), state.node]
            assert (legal.sum(dim=1) > 1).all()
            rows = context.outcome[:, 0].tolist()  # names the tree
            asked.extend(zip(rows, state.node.tolist(), strict=True))
            return super().forward(context, state)

    found = search(PROBLEM, Recorder(), TREES, methods.Gumbeldore(4, 5, 1.0), keys=KEYS)
    assert len(asked) == len(set(asked)) == found.stats.evaluations
    assert found.stats.forced > 0 and found.stats.reused > 0


@pytest.mark.parametrize("keys", [KEYS[:1], KEYS[:, None], KEYS.double(), KEYS.int(), torch.cat([KEYS, KEYS])])
def test_keys_that_instances_would_share_are_refused(keys):
    with pytest.raises(ValueError, match=f"one torch.int64 of each of the {len(KEYS)} instances, got torch"):
        search(PROBLEM, POLICY, TREES, methods.WithoutReplacement(2, 1), keys=keys)


def test_best_is_the_cheapest_valid_solution():
    found = find(methods.WithoutReplacement(4, 8))
    actions, costs = found.best()
    for row in range(len(KEYS)):
        best = max(leaf.outcome for leaf in enumerate_leaves(TREES, row))
        assert costs[row].item() == -best
    assert torch.equal(PROBLEM.cost(TREES, actions), costs)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"beam_width": 0}, "beam_width must be an integer of at least 1"),
        ({"num_rounds": 10**12}, "num_rounds must be an integer of at least 1 and at most 2147483647"),
        ({"num_rounds": 2**30}, r"beam_width \* num_rounds must be .*, got 2147483648"),
        ({"num_rounds": 2.5}, "num_rounds must be an integer"),
        ({"top_p_start": 0.0}, "top_p_start must be a number above 0 and at most 1"),
        ({"step_size": -0.1}, "step_size must be a number of at least 0"),
        ({"baseline": "mean"}, "baseline must be one of estimate, none, got 'mean'"),
    ],
)
def test_wrong_settings_are_refused(changes, rule):
    with pytest.raises(ValueError, match=rule):
        methods.Gumbeldore(**{"beam_width": 2, **changes})


class Answers(TablePolicy):
    """Gives what a function makes of the logits."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def forward(self, context, state):
        return self.change(super().forward(context, state))


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda logits: None, "NoneType"),
        (lambda logits: (logits, logits), "tuple"),
        (lambda logits: logits.to(torch.complex64), r"torch.complex64 \[60, 3\]"),
        (lambda logits: logits.long(), r"torch.int64 \[60, 3\]"),
        (lambda logits: logits[:, :1], r"torch.float64 \[60, 1\]"),
        (lambda logits: logits[:, 0], r"torch.float64 \[60\]"),
        (lambda logits: torch.cat([logits, logits[:1]]), r"torch.float64 \[61, 3\]"),
    ],
)
def test_what_is_no_logits_is_named(change, found, precision):
    policy = InPrecision(Answers(change), torch.device("cpu"), precision)
    rule = r"a policy must be a Tensor of floating-point numbers \[rows, actions\] = \[60, 3\], got "
    with pytest.raises(ValueError, match=f"{rule}{found}$"):
        search(PROBLEM, policy, TREES, methods.Greedy())


@pytest.mark.parametrize("training", [True, False])
def test_a_search_evaluates_the_policy_and_leaves_it_in_the_mode_it_was_in(training):
    modes = []

    class Watched(TablePolicy):
        def forward(self, context, state):
            modes.append(self.training)
            return super().forward(context, state)

    policy = Watched().train(training)
    search(PROBLEM, policy, TREES, methods.WithoutReplacement(2, 1), keys=KEYS)
    assert set(modes) == {False} and policy.training == training


@pytest.mark.parametrize("wrong", ["greedy", None, methods.Greedy])
def test_what_is_no_method_is_refused(wrong):
    with pytest.raises(ValueError, match="method must be a Method, such as methods.Greedy"):
        search(PROBLEM, POLICY, TREES, wrong, keys=KEYS)


def test_randomness_must_be_given_once():
    with pytest.raises(ValueError, match="generator or keys"):
        search(PROBLEM, POLICY, TREES, methods.WithoutReplacement(2, 1))
    with pytest.raises(ValueError, match="not both"):
        search(PROBLEM, POLICY, TREES, methods.WithoutReplacement(2, 1), torch.Generator(), keys=KEYS)
    with pytest.raises(ValueError, match="at least one instance"):
        search(PROBLEM, POLICY, take(TREES, slice(0, 0)), methods.Greedy())


def test_gumbel_numerics():
    x = torch.tensor([1e-12, 1e-3, 0.5, 1.0, 40.0, 800.0], dtype=torch.float64)
    exact = [math.log(-math.expm1(-v)) if v < 0.7 else math.log1p(-math.exp(-v)) for v in x.tolist()]
    assert log1mexp(x).tolist() == pytest.approx(exact, rel=1e-12, abs=1e-300)
    # log q on both sides of the switch to the series, against 40-digit values of log(1 - exp(-exp(-x)))
    assert log_survival(torch.tensor(9.999999), torch.tensor(0.0)).item() == pytest.approx(-10.000021699, abs=1e-4)
    smooth = log_survival(torch.linspace(9.99, 10.01, 21, dtype=torch.float64), torch.zeros((), dtype=torch.float64))
    assert (smooth.diff().diff().abs() < 1e-9).all()
    phi = torch.tensor([[-1.0, -math.inf, -2.0, -50.0]], dtype=torch.float64)
    g = gumbel_with_maximum(phi, torch.tensor([-700.25], dtype=torch.float64), torch.zeros_like(phi))
    assert g.max().item() == -700.25 and g[0, 1] == -math.inf and g[0, 3].isfinite()
    only = gumbel_with_maximum(phi[:, 1:3], torch.tensor([3.5], dtype=torch.float64), torch.randn(1, 2).double())
    assert only.tolist() == [[-math.inf, 3.5]]


def test_confident_policies_keep_their_small_masses():
    """Probabilities down to e^-300 are exhausted in order; float32 masses would lose them."""
    instance = complete_tree([1.0, 1e-130, 1e-131], [1.0, 1e-5, 1e-6])
    found = search(COMPLETE, POLICY, instance, methods.WithoutReplacement(2, 5), torch.Generator().manual_seed(0))
    assert found.valid[0].sum() == 9
    assert len({tuple(a) for a in found.actions[0][found.valid[0]].tolist()}) == 9
