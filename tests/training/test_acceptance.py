"""Which policy is the best from now on: a race decides as all instances do, from fewer greedy searches."""

from __future__ import annotations

import math

import pytest
import torch

import train
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.races.settings import RaceSettings
from gumbeldore.runtime import checkpoint
from gumbeldore.training.acceptance import judge
from gumbeldore.training.validation import quality_of, validate, validation_set
from problems.tsp import TSP
from tests.helpers.commands import typed
from tests.helpers.interruptions import Killed, dies_after
from tests.helpers.learners import new_learner, reports_of, same_weights, trained
from tests.helpers.runs import metrics_of, same_runs
from tests.helpers.supervised import experts, supervised

PROBLEM, COUNT = TSP(7), 240
SIZES = [*validation_set(TSP(7), 140, seed=1), *validation_set(TSP(5), 100, seed=0)]
RACE = RaceSettings(delta=0.05, first_batch=20)
TO_THE_END = RaceSettings(delta=1e-300, first_batch=20)


@pytest.fixture(scope="module")
def weights():
    """Of an untrained policy, a trained one, and one that is trained a little more."""
    state, _ = trained(epochs=2, batches_per_epoch=60, learning_rate=5e-3)
    return new_learner().policy.state_dict(), state.best.state_dict(), state.policy.state_dict()


def compared(best, new, settings, known=math.nan):
    """The state and the judgement after `new` has come up against `best`, of which some costs are known."""
    state = new_learner()
    state.best.load_state_dict(best)
    state.policy.load_state_dict(new)
    state.best_costs = torch.full((COUNT,), math.nan, dtype=torch.float64)
    state.best_costs[:] = torch.as_tensor(known)
    told = []
    with SearchPool(PROBLEM, state.policy) as pool:
        judgement = judge(state, pool, SIZES, settings, 0, lambda *progress: told.append(progress))
    assert told[-1][1] == judgement.searches
    return state, judgement


def costs_of(weights):
    policy = new_learner().policy
    policy.load_state_dict(weights)
    with SearchPool(PROBLEM, policy) as pool:
        return validate(pool, SIZES, lambda *_: None).each


def test_the_gap_is_that_of_the_instances_that_have_a_reference():
    (benchmark,) = validation_set(TSP(5), 3, seed=0)
    each = torch.tensor([2.0, 3.0, 5.0], dtype=torch.float64)
    for known, gap in (([1.0, math.nan, 4.0], 0.625), ([math.nan] * 3, math.nan)):
        references = torch.tensor(known, dtype=torch.float64)
        quality = quality_of(TSP(5), [benchmark._replace(references=references)], each)
        assert quality.gap == pytest.approx(gap, nan_ok=True) and quality.cost == pytest.approx(10 / 3)


def test_clear_cases_are_decided_by_few_searches(weights):
    untrained, better, _ = weights
    for best, new, improves in ((untrained, better, True), (better, untrained, False)):
        state, judgement = compared(best, new, RACE)
        assert judgement.improved == improves == (costs_of(new).mean() < costs_of(best).mean())
        assert judgement.searches <= 2 * 2 * RACE.first_batch < COUNT  # two batches of each policy
        assert same_weights(state.best, state.policy) == improves
        seen = ~judgement.quality.each.isnan()
        assert seen.sum() == judgement.searches / 2
        assert torch.allclose(judgement.quality.each[seen], costs_of(new)[seen])
        assert judgement.quality.cost == pytest.approx(costs_of(new)[seen].mean().item())
        assert set(judgement.quality.costs) == {"5", "7"}
        assert state.since_best == (0 if improves else 1)


@pytest.mark.parametrize("pair", [(0, 1), (1, 0), (1, 2), (2, 1), (1, 1)])
def test_a_tiny_delta_decides_as_all_instances_do(pair, weights):
    """Equally good policies, too: the best one stays."""
    best, new = (weights[i] for i in pair)
    raced, by_race = compared(best, new, TO_THE_END)
    costs = costs_of(best), costs_of(new)
    assert by_race.improved == (costs[1].mean() < costs[0].mean()) and by_race.searches == 2 * COUNT
    assert torch.allclose(raced.best_costs, costs[by_race.improved])
    assert raced.best_cost == pytest.approx(raced.best_costs.mean().item())
    assert by_race.quality.cost == pytest.approx(costs[1].mean().item())


def test_known_costs_are_not_computed_again(weights):
    untrained, better, _ = weights
    known = costs_of(better)
    state, judgement = compared(better, better, TO_THE_END, known)
    assert judgement.searches == COUNT and torch.equal(state.best_costs, known) and not judgement.improved
    known[:200] = math.nan
    state, judgement = compared(better, untrained, TO_THE_END, known)
    assert judgement.searches == COUNT + 200 and torch.allclose(state.best_costs, costs_of(better))
    assert torch.equal(state.best_costs[200:], known[200:])


def test_the_first_policy_is_validated_on_all_instances(weights):
    state = new_learner()
    with SearchPool(PROBLEM, state.policy) as pool:
        judgement = judge(state, pool, SIZES, RACE, 0, lambda *_: None)
    assert judgement.improved and judgement.searches == COUNT and torch.equal(state.best_costs, judgement.quality.each)


@pytest.mark.slow
def test_training_with_a_tiny_delta_is_the_training_without_a_race():
    def training(race):
        state = new_learner()
        with SearchPool(PROBLEM, state.policy) as pool:
            return state, reports_of(state, pool, race=race, epochs=4, batches_per_epoch=40)

    (alone, reports), (raced, others) = training(None), training(RaceSettings(delta=1e-300, first_batch=9))
    assert same_weights(alone.best, raced.best) and same_weights(alone.policy, raced.policy)
    assert [x.improved for x in reports] == [x.improved for x in others]
    for name in ("quality/greedy_cost", "quality/best_greedy_cost"):
        assert [x.metrics[name] for x in others] == pytest.approx([x.metrics[name] for x in reports])
    assert {x.metrics["quality/greedy_searches"] for x in [*reports, *others]} == {40}


WORDS = ["problem=jssp", "problem.sizes=[[4,3],[3,4]]", "problem.validation_sizes=[[4,3],[3,4]]", "model.blocks=1"]
WORDS += ["debug=fast", "images_every=100", "precision=float32", "model.width=16", "model.heads=2", "train.epochs=4"]
WORDS += ["train.batches_per_epoch=20", "train.validation_instances=120"]
WORDS += ["validation=race", "train.race.first_batch=5"]


@pytest.mark.slow
def test_a_race_of_several_sizes_goes_on_exactly(tmp_path, monkeypatch):
    """The run that dies in its third epoch has a best policy that is not known on all instances."""
    whole = typed(train, *WORDS, "run_dir=whole", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    with monkeypatch.context() as patch, pytest.raises(Killed):
        dies_after(patch, batches=50)
        typed(train, *WORDS, "run_dir=died", cwd=tmp_path)
    costs = checkpoint.load(tmp_path / "died/checkpoints/last.pt")["train_state"]["best_costs"]
    assert len(costs) == 120 and 5 <= sum(not math.isnan(cost) for cost in costs) < 120
    resumed = typed(train, "resume=died", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    same_runs(tmp_path / "whole", tmp_path / "died", epochs=4)
    searches = [metrics["quality/greedy_searches"] for metrics in metrics_of(tmp_path / "whole")]
    assert searches[0] == 120 and min(searches[1:]) < 120


@pytest.mark.slow
def test_a_given_policy_is_raced_against(tmp_path):
    words = ["problem.num_nodes=6", "problem.grow=null", *WORDS[3:][2:]]
    first = typed(train, "model.layers=1", *words, "run_dir=first", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    again = typed(train, "model.layers=1", *words, "run_dir=again", "init=first", "train.epochs=1", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert metrics_of(tmp_path / "again")[0]["quality/greedy_searches"] <= 120


def test_supervised_training_may_race_too(tmp_path):
    source, words = experts(tmp_path, "tsp"), ["train.validation_instances=80", "validation=race"]
    result = supervised("tsp", source, *words, "train.race.first_batch=10", "run_dir=run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert [metrics["quality/greedy_searches"] for metrics in metrics_of(tmp_path / "run")][0] == 80


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["train=active_search", "train.instances=kool/tsp20", "validation=race"],
            "validation=race has no effect on train=active_search, which validates no policy",
        ),
        (["train.race.delta=0.1"], "there is no key train.race.delta; train.race is set by validation=race"),
        (["validation=race", "train.race.delta=1.5"], "train.race.delta must be below 1, got 1.5"),
        (
            ["validation=race", "train.race.first_batch=0"],
            "train.race.first_batch must be an integer at least 1",
        ),
        (["train.race=yes"], "train.race must be null or have the keys delta and first_batch, got yes"),
        (["validation=some"], "validation=some: there is no such option; there are all, race"),
    ],
)
def test_mistakes_end_in_one_line(words, message, tmp_path):
    refused = typed(train, "debug=fast", *words, cwd=tmp_path)
    assert refused.returncode == 2 and message in refused.stderr and len(refused.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
