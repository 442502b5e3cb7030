"""The race of a search's settings: what it chooses, what it looks at, and that nothing is searched twice."""

from __future__ import annotations

import csv
import json
import re

import pytest
import torch

import study
from gumbeldore import SearchPool, methods
from gumbeldore.evaluation.parts import Parts
from gumbeldore.evaluation.solved_sets import solve_set
from gumbeldore.instance_set import by_set
from gumbeldore.races.outcome import Outcome
from gumbeldore.races.racing import RaceSettings
from gumbeldore.studies.step_size import StepSize, certainty, words_of
from gumbeldore.studies.study import Asked
from gumbeldore.training.validation import validation_set
from tests.helpers.commands import done, refused
from tests.helpers.studies import Remembered, context, searches_of
from tests.helpers.trees import TablePolicy, TreeProblem

PROBLEM, POLICY = TreeProblem(), TablePolicy()
SIZES = [*validation_set(PROBLEM, 30, seed=0), *validation_set(PROBLEM, 50, seed=1)]  # without references
# One sample, and far more of them: nothing is as clear.
ARMS = [Asked("wor", {"width": width}, methods.WithoutReplacement(width, 1)) for width in (1, 2, 8, 1)]
SETTINGS = RaceSettings(delta=0.05, first_batch=10)


def raced(instance_sets, settings=SETTINGS, **more):
    with SearchPool(PROBLEM, POLICY) as pool:
        (outcome,) = StepSize(race=settings).measure(context(pool, instance_sets, 3, **more), ARMS)
    return outcome


def test_the_race_finds_the_best_arm_and_leaves_others_early():
    progressed = []
    outcome = raced(SIZES, progress=progressed.append)
    assert outcome.arm == 2 and not outcome.exact and outcome.total < 0.8 * 4 * 80
    assert outcome.counts[0] < 80 and int(outcome.counts.sum()) == sum(progressed)


def test_to_the_end_the_means_are_those_of_searching_everything():
    """Samples depend neither on the order of the race nor on which instances are searched together."""
    outcome = raced(SIZES, RaceSettings(delta=1e-300, first_batch=7))
    with SearchPool(PROBLEM, POLICY) as pool:
        for arm, mean in zip(ARMS, outcome.means, strict=True):
            costs = torch.cat([solve_set(pool, each, arm.search, 3).costs for each in SIZES])
            assert -mean == pytest.approx(costs.mean())
    assert outcome.exact and outcome.total == 4 * 80 and outcome.arm == 2
    assert certainty(outcome, 0.05) == "exact, all instances were looked at"


def test_what_is_kept_is_not_searched_again(monkeypatch):
    kept = Remembered()
    first = raced(SIZES, kept=kept)
    monkeypatch.setattr(Parts, "add", None)
    progressed = []
    again = raced(SIZES, kept=kept, progress=progressed.append)
    assert torch.equal(first.means, again.means) and sum(progressed) == first.total


def test_gaps_count_where_all_have_references():
    """The cost of one instance is huge: by cost it alone would decide."""
    (instance_set,) = validation_set(PROBLEM, 30, seed=0)
    huge = torch.ones(30, dtype=torch.float64)
    huge[4] = 1e6

    def cost(index, actions):
        return (instance_set.true_cost(index, actions) + 10) * huge[index]

    scaled = instance_set._replace(true_cost=cost)
    known = scaled._replace(references=10 * huge)
    by_gap, by_cost = (raced([each], RaceSettings(delta=1e-300, first_batch=9)) for each in (known, scaled))
    with SearchPool(PROBLEM, POLICY) as pool:
        gaps = solve_set(pool, instance_set, ARMS[1].search, 3).costs / 10
    assert -by_gap.means[1] == pytest.approx(gaps.mean()) and -by_cost.means[1] > 1e5


def test_instances_are_numbered_through_the_sets():
    found = list(by_set(SIZES, torch.tensor([79, 0, 30, 29])))
    assert [(place, mine.tolist(), rows.tolist()) for place, mine, rows in found] == [
        (0, [False, True, False, True], [0, 29]),
        (1, [True, False, True, False], [49, 0]),
    ]
    assert [place for place, *_ in by_set(SIZES, torch.tensor([31]))] == [1]


def test_equally_good_arms_are_told():
    means, counts = torch.tensor([-1.0, -1.0, -2.0]).double(), torch.tensor([9, 9, 4])
    words = "confidence 0.9; 1 other is as good, the first of them is taken"
    assert certainty(Outcome(0, means, counts, False), 0.1) == words


# ---- the command


def test_every_combination_is_an_arm():
    words = ["study=step_size", "search.step_size=[0.1,0.3]"]
    arms = searches_of(*words, "search.top_p_start=[1.0,0.8]", "search.beam_width=8")
    assert [arm.values for arm in arms] == [{"step_size": x, "top_p_start": p} for x in (0.1, 0.3) for p in (1.0, 0.8)]
    assert arms[3].search == methods.Gumbeldore(8, 4, 0.3, top_p_start=0.8)
    assert words_of(arms[3]) == "search.step_size=0.3 search.top_p_start=0.8"
    arms = searches_of(words[0], "method=wor", "search.temperature=[1,2,1]")
    once = [methods.WithoutReplacement(32, 4, temperature=t) for t in (1, 2)]
    assert [arm.search for arm in arms] == once
    arms = searches_of(words[0], "method=tasar", "search.replan_steps=2", "search.temperature=[1,2]")
    assert [arm.search for arm in arms] == [methods.Tasar(32, 4, 2, temperature=t) for t in (1, 2)]


@pytest.mark.parametrize("words", ["tasar search.replan_steps=[2,5]", "rejection search.max_rounds=[1,9]"])
def test_searches_of_unequal_length_are_no_arms(words):
    method, listed = words.split()
    with pytest.raises(ValueError, match=f"^{re.escape(listed)}: the searches that .* must be equally long; give one"):
        searches_of("study=step_size", f"method={method}", listed)


RACE = ["study=step_size", "instances=kool/tsp20", "num_instances=12", "race.first_batch=4", "workers=0"]
RACE += ["search.beam_width=2", "search.num_rounds=2", "search.step_size=3", "out_dir=out", "precision=float32"]
NUCLEI = "search.top_p_start=[1.0,0.8,0.01]"  # of an untrained policy: next to nothing is better than greedy


def test_a_race_leaves_a_table_for_programs(policies, tmp_path):
    result = done(study, f"checkpoint={policies}/tsp.pt", *RACE, NUCLEI, cwd=tmp_path)
    content = json.loads((tmp_path / "out/study.json").read_text())
    with open(tmp_path / "out/study.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [{key: str(value) for key, value in arm.items()} for arm in content["arms"]]
    assert [arm["top_p_start"] for arm in content["arms"]] == [1.0, 0.8, 0.01]
    assert content["quality"] == "mean gap" and content["reference"] == "LKH" and content["delta"] == 0.05
    best = min(content["arms"], key=lambda arm: (-arm["instances"], arm["mean_gap"]))
    assert content["chosen"] == {"top_p_start": best["top_p_start"]}
    searches = sum(arm["instances"] for arm in content["arms"])
    assert content["searches"] == searches <= content["searches of the full grid"] == 36
    assert f"chosen: search.top_p_start={best['top_p_start']} (" in result.stdout
    assert f"searches: {searches} of the 36 of the full grid" in result.stdout
    assert "holds results already" in refused(study, f"checkpoint={policies}/tsp.pt", *RACE, NUCLEI, cwd=tmp_path)
