"""study=estimators: estimates of a policy's expected cost and entropy, beside what can be written down."""

from __future__ import annotations

import json
import math

import pytest
import torch

import study
from gumbeldore import SearchPool, methods
from gumbeldore.interfaces import without_references
from gumbeldore.studies import expectations
from gumbeldore.studies.estimators import rows
from gumbeldore.studies.expectations import ESTIMATORS, EstimatorPoint, Reference, measure, points, reference
from tests.helpers.commands import done, typed
from tests.helpers.instance_files import write_tsp
from tests.helpers.studies import searches_of
from tests.helpers.trees import TablePolicy, TreeProblem, enumerate_leaves

SEARCHES = {"sampling": methods.Sampling(3, 1), "wor": methods.WithoutReplacement(3, 1), "beam": methods.Beam(3)}


def tree_instance_set(count):
    problem = TreeProblem()
    return without_references(problem, problem.generate(count, torch.Generator().manual_seed(3)), "trees")


@pytest.fixture(scope="module")
def pool():
    with SearchPool(TreeProblem(), TablePolicy()) as opened:
        yield opened


def exact_values(instance_set):
    """Expected cost and entropy, as means over the instances."""
    totals = [0.0, 0.0]
    for index in range(len(instance_set.names)):
        for leaf in enumerate_leaves(instance_set.instances, index):
            totals[0] -= leaf.probability * leaf.outcome / len(instance_set.names)
            totals[1] -= leaf.probability * math.log(leaf.probability) / len(instance_set.names)
    return totals


def test_the_reference_is_exact_where_all_solutions_can_be_written_down(pool, monkeypatch):
    instance_set = tree_instance_set(4)
    cost, entropy = exact_values(instance_set)
    found = reference(pool, [instance_set], 1.0, 1, seed=0)
    assert (found.cost, found.entropy, found.samples) == (pytest.approx(cost), pytest.approx(entropy), 0)
    assert reference(pool, [instance_set], 2.0, 1, seed=0).entropy > entropy  # of the policy at this temperature
    monkeypatch.setattr(expectations, "MOST_SOLUTIONS", 3)
    sampled = reference(pool, [instance_set], 1.0, 40_001, seed=0)
    assert sampled.samples == 41_000 and 0 < sampled.cost_error < 0.01 and 0 < sampled.entropy_error < 0.01
    assert abs(sampled.cost - cost) < 4 * sampled.cost_error and found.cost_error == 0
    assert 0 < abs(sampled.entropy - entropy) < 4 * sampled.entropy_error


@pytest.mark.parametrize(("width", "rounds"), [(1, 40), (27, 3), (4, 12)])
def test_a_search_without_replacement_may_end_early(width, rounds, pool):
    """However many rounds were asked for, and whichever instances are searched together."""
    instance_set = tree_instance_set(4)
    found = measure("wor", methods.WithoutReplacement(width, rounds), pool, [instance_set], 3, seed=1)
    for quantity, exact in zip(("cost", "entropy"), exact_values(instance_set), strict=True):
        for values in found[quantity]:
            assert values == pytest.approx([exact] * 3)


@pytest.mark.parametrize("method", ESTIMATORS)
def test_estimates_of_several_instances_are_those_of_their_mean(method, pool):
    """Unbiased ones have the expectation as their mean; a beam gives the same number every time."""
    instance_set = tree_instance_set(4)
    exact = dict(zip(("cost", "entropy"), exact_values(instance_set), strict=True))
    repetitions = 1 if method == "beam" else 4_000
    found = measure(method, SEARCHES[method], pool, [instance_set], repetitions, seed=0)
    for quantity, each in found.items():
        values = torch.tensor(each, dtype=torch.float64)
        assert values.shape == (len(ESTIMATORS[method]), repetitions)
        if method == "beam":
            bound, normalised = values[:, 0].tolist()
            assert quantity == "cost" or bound < normalised
            assert quantity == "cost" or bound < exact[quantity]
        else:  # the first one of each is unbiased
            error = values[0].std().item() / math.sqrt(repetitions)
            assert abs(values[0].mean().item() - exact[quantity]) < 4.7 * error


def test_an_instance_without_solutions_is_named(pool):
    instance_set = tree_instance_set(3)
    instance_set.instances.logits[1] = torch.nan
    with pytest.raises(ValueError, match="^instance trees/1: "):
        measure("wor", methods.WithoutReplacement(2, 1), pool, [instance_set], 2, seed=0)
    with pytest.raises(ValueError, match="^instance trees/1: "):
        reference(pool, [instance_set], 1.0, 1, seed=0)


def test_a_point_sums_up_the_repetitions():
    found = {"cost": [[1.0, 2.0, 3.0, 6.0]], "entropy": [[0.0, 0.0, 1.0, 1.0]]}
    cost, entropy = points("sampling", methods.Sampling(4, 2, temperature=0.5), found, Reference(2.0, 0.5, 10))
    assert (cost.estimator, cost.samples, cost.rounds, cost.temperature) == ("Monte Carlo", 8, 2, 0.5)
    assert (cost.mean, cost.error, cost.reference) == (3.0, math.sqrt((1 + 0 + 1 + 16) / 4), 2.0)
    assert cost.low == pytest.approx(1.15) and cost.high == pytest.approx(5.55)
    assert entropy.error == 0.5 and entropy.quantity == "entropy"


def test_curves_of_different_rounds_are_told_apart():
    about = {"temperature": 1.0, "quantity": "cost", "mean": 0.0, "low": 0.0, "high": 0.0, "reference": 0.0}
    made = [
        EstimatorPoint(estimator="Monte Carlo", samples=8, rounds=rounds, error=error, **about)
        for rounds, error in ((1, 0.5), (2, 0.00031))
    ]
    assert rows(made)[1] == [["Monte Carlo", "0.5"], ["Monte Carlo, 2 rounds", "3e-04"]]


# ---- the command

WORDS = ["study=estimators", "checkpoint=tsp20", "instances=kool/tsp20", "workers=0", "search.beam_width=[2,4]"]
WORDS += ["search.temperature=[1,2]", "repetitions=3", "reference_samples=2000"]


def test_every_method_has_a_search_for_each_number_of_samples():
    asked = searches_of(*WORDS, "search.num_rounds=[1,3]", "search.step_size=1")
    assert len(asked) == 2 * 2 * 2 * 3  # all but the repeated beams (2, 4, 6, 12 wide at two temperatures)
    beams = {(x.search.beam_width, x.search.temperature) for x in asked if x.method == "beam"}
    assert beams == {(width, tau) for width in (2, 4, 6, 12) for tau in (1, 2)}
    assert all(x.search.num_rounds == 1 for x in asked if x.method == "beam")


@pytest.mark.slow
def test_it_writes_what_it_shows_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(expectations, "MOST_SOLUTIONS", 50)
    whole = done(study, *WORDS, "out_dir=whole", cwd=tmp_path)
    content = json.loads((tmp_path / "whole/study.json").read_text())
    assert len(content["points"]) == 2 * 2 * 5 * 2 and "2,000 independent samples" in content["reference"]
    for words in ("kool/tsp20, temperature 2: expected entropy", " ± 0.0", "Monte Carlo"):
        assert words in whole.stdout
    assert (tmp_path / "whole/study.png").stat().st_size > 10_000
    called, original = [], expectations.measure

    def interrupted(*arguments):
        called.append(arguments)
        if len(called) == 4:
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(expectations, "measure", interrupted)
        stopped = typed(study, *WORDS, "out_dir=part", cwd=tmp_path)
    assert stopped.returncode == 130 and "of 12 searches are finished and kept" in stopped.stderr
    finished = json.loads((tmp_path / "part/study.json").read_text())["points"]
    assert 0 < len(finished) < len(content["points"]) and finished == content["points"][: len(finished)]
    assert "written: part/study.csv, part/study.json, part/study.png" in stopped.stdout
    done(study, *WORDS, "out_dir=part", "resume=true", cwd=tmp_path)
    assert json.loads((tmp_path / "part/study.json").read_text())["points"] == content["points"]


def test_costs_are_those_of_the_file_and_stay_with_their_method(tmp_path):
    """A rectangle of 30 x 40 has three tours, of lengths 140, 160 and 180; the network sees it smaller."""
    write_tsp(tmp_path / "r.tsp", [(0, 0), (30, 0), (30, 40), (0, 40)])
    words = [*WORDS[:2], "instances=r.tsp", "num_instances=null", "workers=0", "repetitions=2"]
    words += ["method=[sampling,beam]", "search.beam_width=16", "search.temperature=1", "out_dir=out"]
    result = done(study, *words, cwd=tmp_path)
    points = json.loads((tmp_path / "out/study.json").read_text())["points"]
    costs = [value for x in points if x["quantity"] == "cost" for value in (x["reference"], x["mean"])]
    assert costs and all(140 <= cost <= 180 for cost in costs)
    assert "2 repetitions (beam: once, without random numbers)" in " ".join(result.stdout.split())
    words = [word.replace("[sampling,beam]", "[beam,sampling]") for word in words]
    done(study, *words, "resume=true", cwd=tmp_path)
    content = json.loads((tmp_path / "out/study.json").read_text())
    assert content["points"] == points[2:] + points[:2]
