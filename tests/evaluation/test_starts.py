"""Evaluations in which a solver starts from what the policy finds."""

from __future__ import annotations

import hydra
import pytest
import torch

import evaluate
from gumbeldore.cli.evaluation import Machine, start_search
from gumbeldore.evaluation.benchmarks import solve_benchmark
from gumbeldore.evaluation.loading import load_policy
from gumbeldore.evaluation.starts import Starts, StartSearch, weights_hash
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.sampler import methods
from tests.helpers.commands import CONFIGS, ROOT, done, typed
from tests.helpers.evaluations import evaluated, rows_of
from tests.helpers.interruptions import interrupted_after

pytestmark = pytest.mark.slow

PRETRAINED = ROOT / "pretrained"
TSP = ["instances=kool/tsp20", "num_instances=3"]
STARTED = ["method=solver", "solver.time_limit=0.3"]


@pytest.fixture
def searched(monkeypatch):
    """The sizes of the instances of which starts were searched for, in no time on however slow a machine."""
    sizes, find = [], Starts.find

    def counted(self, indices):
        for i, start in find(self, indices):
            sizes.append(self.benchmark.instances[0].shape[1])
            yield i, start._replace(seconds=0.01)

    monkeypatch.setattr(Starts, "find", counted)
    return sizes


# ---- starts


def test_starts_are_what_the_method_finds_alone():
    loaded = load_policy("tsp20")
    (benchmark,) = loaded.problem.load("kool/tsp20", 5)
    config = methods.gumbeldore(4, 2, loaded.config["search"]["step_size"])
    with SearchPool(loaded.problem, loaded.policy) as pool:
        alone = solve_benchmark(pool, benchmark, config, seed=3)
        starts = Starts(pool, benchmark, StartSearch(config, "x"), 3).part(slice(2, 5))
        found = dict(starts.find([0, 2]))
        other = dict(Starts(pool, benchmark, StartSearch(config, "x"), 4).find([2]))
    assert torch.equal(found[0].actions, alone.actions[2]) and torch.equal(found[2].actions, alone.actions[4])
    assert all(0 < start.seconds < 10 for start in found.values())
    assert starts.decisive(0) != starts.decisive(1) and list(other) == [2]


def test_all_that_decides_a_start_is_known_before_the_search():
    tsp20, tsp50 = load_policy("tsp20"), load_policy("tsp50")
    cpu = Machine(torch.device("cpu"), "float32", False, 0, 8)

    def decisive(*words, loaded=tsp20, machine=cpu):
        words = ["checkpoint=x", "instances=x", "method=solver", "search.step_size=1", *words]
        with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
            return start_search(hydra.compose("evaluate", words), loaded, machine).decisive

    gumbeldore = "solver.start=gumbeldore"
    others = [("solver.start=wor",), ("solver.start=greedy",), (gumbeldore, "search.num_rounds=2")]
    others += [(gumbeldore, "search.step_size=2"), (gumbeldore, "search.time_limit=1")]
    texts = [decisive(*words) for words in [(gumbeldore,), *others]]
    texts += [decisive(gumbeldore, loaded=tsp50), decisive(gumbeldore, machine=cpu._replace(precision="bf16"))]
    assert len(set(texts)) == len(texts) == 8 and decisive(gumbeldore) == texts[0]
    assert decisive("solver.start=greedy", "search.num_rounds=9") == texts[2]  # which greedy does not read
    assert weights_hash(tsp20.policy) != weights_hash(tsp50.policy)


# ---- the command


@pytest.mark.parametrize("problem", ["cvrp", *(pytest.param(each, marks=pytest.mark.slow) for each in ("tsp", "jssp"))])
def test_the_solver_starts_from_the_policy(problem, tmp_path, own_cache, searched):  # noqa: F811
    instances = {"tsp": "kool/tsp20", "cvrp": "kool/cvrp20", "jssp": "l2d/6x6"}[problem]
    policy = PRETRAINED / {"tsp": "tsp20", "cvrp": "cvrp20", "jssp": "jssp6x6"}[problem]
    words = [f"instances={instances}", "num_instances=2", "method=[greedy,solver]", "solver.time_limit=0.5"]
    found = evaluated(policy, tmp_path, *words, "solver.start=greedy")
    pairs = zip(found.of("solver"), found.of("greedy"), strict=True)
    assert all(float(ours["cost"]) <= float(start["cost"]) for ours, start in pairs) and len(searched) == 2
    assert problem == "jssp" or 1 <= found.methods["solver"]["seconds"] < 8  # CP-SAT proves the optimum earlier

    again = evaluated(policy, tmp_path, *words, "solver.start=greedy", out="again")
    assert len(searched) == 2 and again.of("solver") == found.of("solver")
    assert again.methods["solver"]["seconds"] == found.methods["solver"]["seconds"]
    evaluated(policy, tmp_path, *words, "solver.start=greedy", "seed=1", out="other")
    assert len(searched) == 4


def test_a_method_of_the_users_is_a_start_and_reads_this_configuration(tmp_path, own_cache, searched, monkeypatch):  # noqa: F811
    (tmp_path / "method").mkdir()
    text = "# @package methods.mine\n_target_: gumbeldore.methods.wor\nnum_rounds: ${num_instances}\n"
    (tmp_path / "method" / "mine.yaml").write_text(text)
    configs, init = [], Starts.__init__
    monkeypatch.setattr(Starts, "__init__", lambda self, *rest: configs.append(rest[2].config) or init(self, *rest))
    words = [f"checkpoint={PRETRAINED / 'tsp20'}", *TSP, *STARTED, "solver.start=mine", "search.beam_width=2"]
    done(evaluate, "--config-dir", str(tmp_path), *words, "workers=0", "solver.workers=0", cwd=tmp_path)
    assert (configs[0].num_rounds, configs[0].beam_width) == (3, 2)


def test_the_time_that_is_shown_includes_the_search(tmp_path, own_cache, monkeypatch):  # noqa: F811
    find = Starts.find
    monkeypatch.setattr(Starts, "find", lambda *rest: ((i, start._replace(seconds=1.5)) for i, start in find(*rest)))
    words = [*TSP[:1], "num_instances=1", "method=solver", "solver.time_limit=2", "solver.start=greedy"]
    found = evaluated(PRETRAINED / "tsp20", tmp_path, *words)
    assert 2 <= found.methods["solver"]["seconds"] < 3.5  # not 1.5 and another 2


def test_references_never_start_from_the_policy(tmp_path, own_cache, searched):  # noqa: F811
    answers = tmp_path / "cache"
    words = [f"instances={tmp_path / 'points.tsp'}", "solver.time_limit=0.5", "references=solver"]
    nodes = "\n".join(f"{i + 1} {(37 * i) % 101} {(61 * i) % 97}" for i in range(9))
    head = "NAME: mine\nTYPE: TSP\nDIMENSION: 9\nEDGE_WEIGHT_TYPE: EUC_2D\nNODE_COORD_SECTION"
    (tmp_path / "points.tsp").write_text(f"{head}\n{nodes}\nEOF\n")
    evaluated(PRETRAINED / "tsp20", tmp_path, *words)
    before = {path.name for path in answers.rglob("*.npz")}
    found = evaluated(PRETRAINED / "tsp20", tmp_path, *words, "method=solver", "solver.start=greedy", out="started")
    assert len(before) == 1 and len({path.name for path in answers.rglob("*.npz")}) == 2
    assert len(searched) == 1 and found.rows[0]["kind"].endswith(", 0.5 s")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["method=greedy", "references=solver", "solver.start=wor"],
            "solver.start=wor has no effect without method=so",
        ),
        (["method=greedy", "solver.start=wor"], "solver.start=wor has no effect without method=solver"),
        ([*STARTED, "solver.start=heuristic"], "solver.start=heuristic is no search with the policy"),
        ([*STARTED, "solver.start=solver"], "solver.start=solver is no search with the policy"),
        (
            [*STARTED, "solver.start=annealing"],
            "solver.start=annealing: there is no such method; there are beam, diverse_beam, greedy",
        ),
        ([*STARTED, "solver.start=[wor,greedy]"], "there is no such method"),
        ([*STARTED, "solver.start=greedy", "search.num_rounds=2"], "search.num_rounds has no effect on solver, greedy"),
        ([*STARTED, "search.num_rounds=2"], "search.num_rounds has no effect on solver"),
        (
            [*STARTED, "solver.start=wor", "search.time_limit=0.3"],
            "search.time_limit=0.3 must be below solver.time_limit=0.3",
        ),
        (
            [*STARTED, "solver.start=wor", "search.equivalents=999"],
            "method=solver, solver.start=wor: equivalents must be",
        ),
        (["method=solver", "solver.time_limit=0.001", "solver.start=wor"], "kool/tsp20/0: the search for a start took"),
    ],
)
def test_what_cannot_be_is_one_line(words, message, tmp_path, own_cache):  # noqa: F811
    all_words = [f"checkpoint={PRETRAINED / 'tsp20'}", *TSP, "workers=0", "solver.workers=0", "out_dir=out", *words]
    result = typed(evaluate, *all_words, cwd=tmp_path)
    assert result.returncode == 2 and message in result.stderr and result.stderr.count("\n") == 1, result.stderr


def test_the_longest_searches_come_first(tmp_path, own_cache, searched, monkeypatch):  # noqa: F811
    """One that leaves the solver no time ends the evaluation before anything is solved."""
    for nodes in (9, 12, 7):
        numbers = "\n".join(f"{i + 1} {(37 * i) % 101} {(61 * i) % 97}" for i in range(nodes))
        head = f"NAME: n{nodes}\nTYPE: TSP\nDIMENSION: {nodes}\nEDGE_WEIGHT_TYPE: EUC_2D\nNODE_COORD_SECTION"
        (tmp_path / f"n{nodes}.tsp").write_text(f"{head}\n{numbers}\nEOF\n")
    words = [f"instances={tmp_path}", "method=solver", "solver.time_limit=0.3", "solver.start=greedy"]
    found = evaluated(PRETRAINED / "tsp20", tmp_path, *words)
    assert searched == [12, 9, 7] and [row["instance"] for row in found.rows] == ["n7", "n9", "n12"]


def test_an_interrupted_evaluation_goes_on(tmp_path, own_cache, searched, monkeypatch):  # noqa: F811
    monkeypatch.setattr("problems.solvers.baseline.CALLS_PER_WORKER", 2)
    words = [f"checkpoint={PRETRAINED / 'tsp20'}", "instances=kool/tsp20", "num_instances=5", "workers=0"]
    words += ["solver.workers=0", *STARTED, "solver.start=greedy", "out_dir=out"]
    with monkeypatch.context() as patch:
        interrupted_after(patch, 2)
        assert typed(evaluate, *words, cwd=tmp_path).returncode == 130
    begun = rows_of(tmp_path / "out" / "unfinished")
    other = typed(evaluate, *words, "solver.start=wor", "resume=true", cwd=tmp_path)
    assert other.returncode == 2 and "solver.start was greedy and is wor now" in other.stderr
    assert len(searched) == 4
    done(evaluate, *words, "resume=true", cwd=tmp_path)
    assert rows_of(tmp_path / "out")[:5] == begun and len(searched) == 5
