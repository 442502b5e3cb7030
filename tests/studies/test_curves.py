"""The study of samplers: what a point is, which curves a command line asks for, what is written."""

from __future__ import annotations

import csv
import io
import json
import math
import shlex

import pytest

import study
from gumbeldore import SearchPool, methods, search
from gumbeldore.cli.configuration import Configuration
from gumbeldore.cli.study import chosen_study
from gumbeldore.evaluation.solved_sets import have_gaps, instance_keys
from gumbeldore.seeding import fold
from gumbeldore.studies.curves import Curves
from gumbeldore.studies.study import Asked
from gumbeldore.training.validation import validation_set
from tests.helpers.commands import ROOT, compose, done, refused
from tests.helpers.studies import COSTS, GAPS, context, searches_of
from tests.helpers.trees import TablePolicy, TreeProblem, enumerate_leaves

PROBLEM, POLICY = TreeProblem(), TablePolicy()
(INSTANCES,) = validation_set(PROBLEM, 20, seed=0)  # without references: qualities are costs
WORDS = ["checkpoint=x", "instances=y"]


def point(config, repetitions=4):
    with SearchPool(PROBLEM, POLICY) as pool:
        study = Curves(repetitions=repetitions)
        (found,) = study.measure(context(pool, [INSTANCES], 3), [Asked("a curve", {}, config)])
    return found


def rows(found, about):
    (table,) = Curves().show([], found, about).tables
    return table.rows


def curves_of(*words):
    """The searches of each curve."""
    found = {}
    for asked in searches_of(*words):
        found.setdefault(asked.label, []).append(asked.search)
    return found


def test_a_point_is_the_mean_of_repetitions_with_their_standard_error():
    found = point(methods.WithoutReplacement(2, 2))
    means = []
    for repetition in range(4):
        keys = instance_keys(INSTANCES, int(fold(3, "repetition", repetition)))
        _, costs = search(PROBLEM, POLICY, INSTANCES.instances, methods.WithoutReplacement(2, 2), keys=keys).best()
        means.append(costs.mean().item())
    assert len(set(means)) == 4
    mean = sum(means) / 4
    assert found.quality == pytest.approx(mean)
    assert found.error == pytest.approx(math.sqrt(sum((x - mean) ** 2 for x in means) / 3 / 4))
    assert found.samples == 4 and 2 < found.solutions <= 4


def test_everything_sampled_leaves_nothing_to_chance():
    optimum = [-max(leaf.outcome for leaf in enumerate_leaves(INSTANCES.instances, i)) for i in range(20)]
    found = point(methods.WithoutReplacement(9, 3), repetitions=2)
    assert found.quality == pytest.approx(sum(optimum) / 20) and found.error == 0
    assert found.solutions < found.samples == 27


def test_what_is_always_the_same_is_searched_once_and_has_no_error():
    found = point(methods.Greedy())
    assert (found.samples, found.solutions, found.error) == (1, 1, None)
    assert rows([found], GAPS) == [["a curve", f"{found.quality:.3%}"]]


def test_a_method_has_a_curve_for_each_value_it_reads():
    words = ["method=[greedy,sampling,wor,gumbeldore]", "search.step_size=[0.1,0.3]", "search.num_rounds=[4,1]"]
    found = curves_of(*words, "search.beam_width=8")
    assert list(found) == [
        "greedy",
        "sampling",
        *(f"wor, top_p_start={p}" for p in (1.0, 0.8)),
        *(f"gumbeldore, step_size={x}, top_p_start={p}" for x in (0.1, 0.3) for p in (1.0, 0.8)),
    ]
    assert found["greedy"] == [methods.Greedy()]
    assert found["sampling"] == [methods.Sampling(8, rounds) for rounds in (1, 4)]
    last = found["gumbeldore, step_size=0.3, top_p_start=0.8"]
    assert last == [methods.Gumbeldore(8, rounds, 0.3, top_p_start=0.8) for rounds in (1, 4)]
    single = curves_of("method=[greedy,wor]", "search.num_rounds=3")
    assert single["wor, top_p_start=1.0"] == [methods.WithoutReplacement(32, 3)]


def test_the_usual_study_has_the_curves_of_the_paper():
    found = curves_of("search.step_size=0.3")
    names = [f"{name}, top_p_start={p}" for name in ("wor", "gumbeldore", "theory") for p in (1.0, 0.8)]
    assert list(found) == ["sampling", *names]


FIXED = ["instances=kool/tsp20", "num_instances=4", "repetitions=2", "workers=0", "search.beam_width=3", "out_dir=out"]


@pytest.mark.slow
def test_a_study_leaves_a_table_for_programs_and_a_picture(policies, tmp_path):
    words = [f"checkpoint={policies}/tsp.pt", *FIXED, "method=[greedy,wor,gumbeldore]", "search.num_rounds=[1,2,4]"]
    words += ["search.step_size=5", "search.top_p_start=1.0"]
    out = tmp_path / "out"
    result = done(study, *words, cwd=tmp_path)
    content = json.loads((out / "study.json").read_text())
    points = content["points"]
    assert [(x["curve"], x["samples"]) for x in points] == [
        ("greedy", 1),
        *((name, samples) for name in ("wor", "gumbeldore") for samples in (3, 6, 12)),
    ]
    wor = [x["quality"] for x in points if x["curve"] == "wor"]
    assert wor[0] > wor[1] >= wor[2] > 0  # rounds go on where shorter searches ended
    assert points[4]["quality"] == points[1]["quality"] and points[6]["quality"] != points[3]["quality"]
    assert content["quality"] == "mean gap" and content["reference"] == "LKH" and content["repetitions"] == 2
    with open(out / "study.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [{key: "" if value is None else str(value) for key, value in x.items()} for x in points] == rows
    assert [x["error"] is None for x in points] == [True, *[False] * 6]  # greedy is the same each time
    assert (out / "study.png").read_bytes().startswith(b"\x89PNG")
    how = "gap to: LKH; mean and standard error of 2 repetitions (greedy: once, without random numbers)"
    assert "gumbeldore" in result.stdout and how in " ".join(result.stdout.split())
    assert sorted(path.name for path in out.iterdir()) == ["progress", "study.csv", "study.json", "study.png"]
    assert "holds results already" in refused(study, *words, cwd=tmp_path)


def test_the_default_number_of_instances_is_the_most_and_a_typed_one_is_meant(policies, tmp_path):
    words = [f"checkpoint={policies}/tsp.pt", f"instances={ROOT}/tests/data/berlin52.tsp", "method=[greedy]"]
    words += ["repetitions=2", "workers=0"]
    done(study, *words, "out_dir=out", cwd=tmp_path)
    assert json.loads((tmp_path / "out/study.json").read_text())["num_instances"] == 1
    line = refused(study, *words, "num_instances=100", "out_dir=asked", cwd=tmp_path)
    assert "has 1 instances, between 1 and 1 can be taken, not 100" in line


def test_costs_are_shown_where_references_are_missing():
    found = [point(methods.WithoutReplacement(2, rounds), 2) for rounds in (1, 2)]
    (table,) = Curves().show([], found, COSTS).tables
    assert table.header == ["samples", "2", "4"] and not have_gaps([INSTANCES])
    assert table.rows == [["a curve", *(f"{x.quality:.4f} ± {x.error:.4f}" for x in found)]]
    assert rows(found, GAPS)[0][1] == f"{found[0].quality:.3%} ± {found[0].error:.3%}"
    picture = Curves().plot(found, COSTS._replace(instances="a$^$b"))  # as a file may be called
    assert picture.axes[0].get_ylabel() == "mean cost"
    picture.savefig(io.BytesIO())


def test_a_wide_table_leaves_its_errors_out():
    found = [point(methods.WithoutReplacement(2, rounds), 2) for rounds in range(1, 6)]
    assert rows(found, GAPS) == [["a curve", *(f"{x.quality:.2%}" for x in found)]]
    notes = [Curves(axis=axis).show([], found, GAPS).note for axis in ("samples", "seconds")]
    assert ["mean and standard error" in note for note in notes] == [False, True]


NUCLEI = "search.top_p_start=[1.0,0.8,0.01]"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("curves method=[wor,heuristic]", "method=heuristic is no search with the policy, but a baseline"),
        ("curves search.time_limit=1", "search.time_limit would make the result depend on the machine's speed"),
        ("curves repetitions=1", "repetitions must be an integer of at least 2"),
        ("curves method=sampling search.step_size=[1,2]", "search.step_size has no effect on sampling"),
        ("curves method=sampling search.num_rounds=[1,null]", "search.num_rounds must list numbers, got None"),
        (
            "curves method=[wor,solver] solver.time_limit=1",
            "solver.time_limit has no effect without references=solver: a study's",
        ),
        ("curves method=[wor,solver]", "method=solver needs axis=seconds and search.time_limit"),
        ("curves method=reconstruct search.start=wor", "search.iterations lists no numbers of samples; choose axis="),
        ("curves method=sampling search.equivalents=[1,161]", "equivalents must be at most 160"),  # before any search
        (
            "curves 'race={delta: 0.1, first_batch: 2}'",
            "race.delta has no effect on study=curves, only on study=step_size",
        ),
        ("estimators search.beam_width=[]", "search.beam_width=[]: there must be one value at least"),
        ("estimators method=gumbeldore", "gumbeldore has no estimators; the methods that have: sampling, wor, beam"),
        ("estimators search.temperature=auto", "search.temperature must be a number above 0, got auto"),
        ("estimators search.top_p_end=0.9", "search.top_p_end must be 1.0, the estimators hold for no other, got 0.9"),
        # Elsewhere beams read neither num_rounds nor temperature: here a value is refused, and not the keys.
        (
            "estimators method=beam search.num_rounds=0",
            "beam_width must be an integer of at least 1 and at most 2147483647, got 0",
        ),
        ("estimators axis=seconds", "axis has no effect on study=estimators, only on study=curves"),
        ("estimators kind=curves", "kind is what study= sets"),
        ("step_size", "study=step_size needs several values to compare, for example 'search.step_size=[0.1,0.3,1]'"),
        (
            f"step_size method=[wor,gumbeldore] {NUCLEI}",
            "compares values of one search method, got method=[wor,gumbeldore]",
        ),
        ("step_size method=wor search.step_size=[1,2]", "search.step_size has no effect on wor"),
        (f"step_size axis=seconds {NUCLEI}", "axis has no effect on study=step_size, only on study=curves"),
        (
            f"step_size repetitions=3 {NUCLEI}",
            "repetitions has no effect on study=step_size, only on study=curves, estim",
        ),
        (
            f"step_size search.num_rounds=[1,2] {NUCLEI}",
            "search.num_rounds=[1,2]: the searches that study=step_size compares",
        ),
        (f"step_size race.delta=1 {NUCLEI}", "race.delta must be below 1, got 1"),
        (f"step_size race=null {NUCLEI}", "race=null: race has the keys delta, first_batch; change one of these"),
        (f"step_size race=5 {NUCLEI}", "race=5: race has the keys delta, first_batch; change one of these"),
    ],
)
def test_mistakes_end_in_one_line(policies, tmp_path, words, message):
    fixed, (kind, *words) = [f"checkpoint={policies}/tsp.pt", "instances=kool/tsp20", "workers=0"], shlex.split(words)
    assert message in refused(study, *fixed, f"study={kind}", *words, cwd=tmp_path)


def test_a_study_of_no_kind_is_refused():
    """As of an own option (--config-dir)."""
    with pytest.raises(ValueError, match="^kind must be one of curves, step_size, estimators, diversity, got 'mine'$"):
        chosen_study(Configuration(compose("study", *WORDS, "kind=mine"), []))


def test_a_curve_goes_over_time_or_iterations_where_these_are_lists():
    words = ["method=[wor,tasar,reconstruct,solver]", "axis=seconds", "search.top_p_start=1.0"]
    words += ["search.num_rounds=[1,3]", "search.time_limit=[2,1]", "solver.workers=0"]
    found = curves_of(*words)
    assert found["wor"] == [methods.Anytime(methods.WithoutReplacement(32, 3), limit) for limit in (1, 2)]
    assert found["tasar"] == [methods.Anytime(methods.Tasar(32, 3, 10), limit) for limit in (1, 2)]
    assert [config.time_limit for config in found["reconstruct"]] == [1, 2]
    assert [each.solver.options.time_limit for each in found["solver"]] == [1, 2]

    words = ["method=[wor,reconstruct]", "axis=seconds", "search.top_p_start=1.0", "search.time_limit=2"]
    found = curves_of(*words)  # whose defaults list numbers of rounds and iterations
    assert [[config.time_limit for config in curve] for curve in found.values()] == [[2], [2]]

    words = ["method=reconstruct", "search.iterations=[5,2]", "axis=evaluations"]
    found = curves_of(*words)
    assert [config.iterations for config in found["reconstruct"]] == [2, 5]


def test_samples_are_those_of_all_roots_and_equivalents():
    assert point(methods.Tasar(2, 2, 1), 2).samples == 2 * 2 * 3
    assert point(methods.Rejection(2, 2, max_rounds=9), 2).samples == 4
    assert methods.Rejection(4, 8, max_rounds=3).most_solutions(5) == 12
    assert methods.Reconstruct(methods.WithoutReplacement(4, 2)).most_solutions(5) == 9
    assert methods.Equivalents(methods.WithoutReplacement(4, 2), 8).most_solutions(5) == 64


def test_a_study_over_time(policies, tmp_path):
    pytest.importorskip("pyvrp")
    words = ["method=[reconstruct,solver]", "axis=seconds", "search.time_limit=[0.1,1.0]", "num_instances=2"]
    words += ["search.start=wor", "search.num_rounds=2", "search.top_p_start=1.0"]
    result = done(study, f"checkpoint={policies}/tsp.pt", *FIXED, *words, cwd=tmp_path)
    points = json.loads((tmp_path / "out/study.json").read_text())["points"]
    assert [x["curve"] for x in points] == ["reconstruct"] * 2 + ["solver"] * 2
    assert [x["error"] is None for x in points] == [False] * 2 + [True] * 2  # a solver's answer is always the same
    assert points[1]["quality"] < points[0]["quality"] and 0.1 <= points[0]["seconds"] < points[1]["seconds"]
    assert points[2]["evaluations"] == 0 and points[2]["quality"] < 0.01
    assert "curve" in result.stdout and "evaluations" in result.stdout
