"""The benchmarks run, and write figures."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
import torch

import gumbeldore
from benchmarks import generalisation, machine, quality, same, tsp_solvers
from benchmarks.__main__ import main
from benchmarks.machine import flop_counter
from benchmarks.sampling import cases_of, savings
from benchmarks.training import decisions_to_come
from gumbeldore.evaluation.loading import load_policy
from gumbeldore.sampler.solutions import SearchStats
from models.attention import MAX_TOKENS_OF_PRODUCTS, attention

ROOT = Path(__file__).parent.parent
SHARES = ("evaluated", "prefixes", "transpositions", "forced")


def benchmark(*words):
    """What a measurement prints, which runs in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "benchmarks", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def printed_by(*words):
    """The same in this process, whose number of threads stays, without the seconds that a start takes."""
    out = StringIO()
    with patch("sys.argv", ["benchmarks", *words]), patch("torch.set_num_threads"), redirect_stdout(out):
        try:
            main()
        except SystemExit as ended:
            assert ended.code == 0, ended.code
    return out.getvalue()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sampling", "case=tsp20"], "there is no case; sampling has cases"),
        (["sampling", "cases=tsp"], "a case is called like tsp100, cvrp50 or jssp10x10, not 'tsp'"),
        (["sampling", "rows=abc"], "rows must be an integer, got 'abc'"),
        (["sampling", "rows"], "rows: values are given as key=value"),
        (["growth", "cases=tsp20", "cases=tsp50"], "cases= is given twice"),
        (
            ["sampling", "cases=cvrp20", "models=lehd"],
            "nothing to measure: no network of models= or checkpoints= is for",
        ),
        (["sampling", "beam=0"], "beam must be an integer of at least 1, got 0"),
        (["sampling", "threads=0"], "threads must be an integer of at least 1, got 0"),
        (["sampling", "sharpness=1,0"], "sharpness must be finite numbers above 0, such as 1,10,100, got '1,0'"),
        (["growth", "sizes=12,x"], "sizes must be whole numbers above 0, such as 1,10,100, got '12,x'"),
        (["same", "before=a"], "same needs out=, or before= and after="),
        (["same", "out=x", "policies=docs"], "policies=docs: there is no */best.pt"),
        (["quality", "problem=vrp"], "problem must be one of tsp, cvrp, jssp, got 'vrp'"),
        (["tsp_solvers", "seconds=0"], "seconds must be finite numbers above 0, such as 1,10,100, got '0'"),
        (["tsp_solvers"], "fast_tsp is missing: pip install fast-tsp==0.2.2 elkai==2.0.1"),
    ],
)
def test_wrong_words_end_in_one_line(words, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "fast_tsp", None)  # as if it were not installed
    monkeypatch.setattr("sys.argv", ["benchmarks", *words])
    with pytest.raises(SystemExit) as wrong:
        main()
    assert wrong.value.code.startswith(f"error: {message}") and "\n" not in wrong.value.code


def test_the_list():
    listed = printed_by()
    for path in (ROOT / "benchmarks").glob("[!_]*.py"):
        assert f"python -m benchmarks {path.stem}" in listed


def test_a_measurement_that_does_not_exist_is_an_error(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "nope"])
    with pytest.raises(SystemExit, match="error: there is no measurement nope"):
        main()
    assert "python -m benchmarks quality" in capsys.readouterr().out


def test_a_measurement_explains_itself():
    printed = printed_by("generalisation", "seconds=1", "--help")
    assert printed.startswith(generalisation.__doc__.splitlines()[0]) and "\n  seconds=10.0\n" in printed


@pytest.mark.slow
def test_sampling(tmp_path):
    out = tmp_path / "sampling.json"
    words = ["cases=tsp20,jssp6x6", "rows=4", "beam=2", "rounds=2", "repeats=1", "threads=1", "sharpness=1,1000"]
    printed = benchmark("sampling", *words, f"out={out}")
    figures = json.loads(out.read_text())["sampling"]
    assert list(figures) == ["tsp20 untrained", "tsp20 x1000", "jssp6x6 untrained", "jssp6x6 x1000"]
    for name, row in figures.items():
        assert name in printed and row["solutions_per_second"] > 0
        assert sum(row[part] for part in ("forward", "trie", "states", "beam")) == pytest.approx(1)
        assert 0 < row["gflops"] and 1 < row["evaluations_per_solution"] < 40
        assert sum(row[share] for share in SHARES) == pytest.approx(1) and min(row[share] for share in SHARES) >= 0
    for size, horizon in (("tsp20", 19), ("jssp6x6", 36)):
        untrained, sharp = figures[f"{size} untrained"], figures[f"{size} x1000"]
        assert untrained["evaluations_per_solution"] == pytest.approx(horizon * untrained["evaluated"])
        assert sharp["evaluated"] < untrained["evaluated"] and sharp["prefixes"] > untrained["prefixes"]
    assert max(map(len, printed.splitlines())) <= 130


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["tsp", "cvrp", "jssp"])
def test_growth_leaves_out_what_would_take_too_long(problem):
    words = ["sizes=30,10,900000", "nearest=3", "window=2", "jobs_in_view=5", "seconds=30"]
    lines = printed_by("growth", f"problem={problem}", *words).splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["10", "30", "900000"]
    assert lines[-1].split()[1:] == ["-", "-"] and "-" not in lines[-2]


def test_networks_are_compared_at_the_sizes_of_their_problems():
    found = cases_of("tsp20,cvrp20", "bq,lehd,lehd_cvrp", "", True, "1,100")
    assert [case.name for case in found] == [
        *(f"tsp20 {model} {factor}" for model in ("bq", "lehd") for factor in ("untrained", "x100")),
        *("cvrp20 lehd_cvrp untrained", "cvrp20 lehd_cvrp x100"),
    ]
    assert sum(weight.numel() for weight in found[2].policy.parameters()) == 1_417_857


def test_checkpoints_of_one_name_keep_their_paths(tmp_path):
    """As `benchmarks quality` names them."""
    paths = [f"{tmp_path}/{recipe}/seed0" for recipe in ("fast", "paper")]
    for path in paths:
        shutil.copytree(ROOT / "pretrained/tsp20", path)
    found = cases_of("tsp20", "", ",".join(paths), False, "1")
    assert [case.name for case in found] == [f"tsp20 {path}" for path in paths]


def test_savings():
    """Two searches with 100 decisions in all, by hand; what is reused is part of the prefixes."""
    ended = {"rejected": 0, "rounds": 2, "full": False}
    first = SearchStats(evaluations=30, forced=4, reused=7, repeated=6, **ended)
    second = SearchStats(evaluations=20, forced=6, reused=1, repeated=9, **ended)
    found = savings([first, second], decisions=100)
    assert found == {"evaluated": 0.5, "prefixes": 0.25, "transpositions": 0.15, "forced": 0.1}


def test_operations_of_the_fused_attention_are_counted(monkeypatch):
    """Which of the two ways of attention is faster does not change what is to be computed."""
    qkv = torch.randn(3, 2, 4, MAX_TOKENS_OF_PRODUCTS + 1, 8)
    with torch.no_grad(), flop_counter() as fused:
        attention(qkv)
    monkeypatch.setattr("models.attention.products_are_faster", lambda qkv: True)
    with torch.no_grad(), flop_counter() as explicit:
        attention(qkv)
    assert fused.get_total_flops() == explicit.get_total_flops() > 0


def test_quality_trains_every_alternative_with_every_seed(tmp_path, monkeypatch, capsys):
    commands = []

    def run(command, **options):
        commands.append(command[1:])
        if "evaluate.py" in command:
            folder = Path(next(word for word in command if word.startswith("out_dir=")).removeprefix("out_dir="))
            folder.mkdir(parents=True)
            gap = 0.01 if "gradient_clip" in str(folder) else 0.02
            (folder / "results.json").write_text(json.dumps({"methods": {"greedy": {"mean_gap": gap}}}))

    monkeypatch.setattr(quality.subprocess, "run", run)
    words = "train.batch_size=8 | train.gradient_clip=0.5"
    quality.main("tsp", seconds=1, seeds="3,4", words=words, experts="", out=str(tmp_path))
    checks, trainings = commands[:2], [command for command in commands[2:] if "train.py" in command]
    assert all(command[-2:] == ["--cfg", "job"] for command in checks)
    chosen = [[seed, word] for seed in ("seed=3", "seed=4") for word in words.split(" | ")]
    assert [command[-3:-1] for command in trainings] == chosen
    assert len({command[-1] for command in trainings}) == 4  # folders
    assert "train.gradient_clip=0.5 greedy: median 1.000%" in capsys.readouterr().out


def test_quality_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    commands = []

    def run(command, **options):
        commands.append(command[1:])
        raise KeyboardInterrupt

    for seed in ("0", "1"):  # the second has been evaluated in part
        (tmp_path / f"seed{seed}").mkdir()
        (tmp_path / f"seed{seed}/config.yaml").touch()
    (tmp_path / "seed1/held_out").mkdir()
    for seed, first in (("0", ["train.py", f"resume={tmp_path}/seed0"]), ("1", ["evaluate.py"])):
        monkeypatch.setattr(sys, "argv", ["benchmarks", "quality", f"seeds={seed}", f"out={tmp_path}"])
        monkeypatch.setattr(quality.subprocess, "run", lambda command, **options: "--cfg" in command or run(command))
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 130 and commands[-1][: len(first)] == first
    assert "resume=true" in commands[-1]


@pytest.mark.slow
def test_quality_refuses_wrong_words_before_it_trains():
    words = ["quality", "words=seed=1 | train.batchsize=1"]
    wrong = subprocess.run([sys.executable, "-m", "benchmarks", *words], cwd=ROOT, capture_output=True, text=True)
    assert wrong.returncode == 2 and wrong.stdout == ""
    assert wrong.stderr.startswith("error: there is no key train.batchsize") and wrong.stderr.count("\n") == 1


@pytest.mark.parametrize("num_nodes", [4, 9])
def test_programs_for_the_tsp_get_whole_distances(num_nodes, monkeypatch):
    """The nodes lie on a circle in their order, so the shortest tour visits them in this order."""
    angles = torch.arange(num_nodes, dtype=torch.float64) * 2 * torch.pi / num_nodes
    coords, given = torch.stack([angles.cos(), angles.sin()], dim=1), []

    def find_tour(distances, seconds):
        given.append(np.array(distances))
        return range(num_nodes)

    class DistanceMatrix:
        def __init__(self, distances):
            given.append(np.array(distances))

        def solve_tsp(self, runs):
            return [*range(num_nodes), 0]

    monkeypatch.setitem(sys.modules, "fast_tsp", SimpleNamespace(find_tour=find_tour))
    monkeypatch.setitem(sys.modules, "elkai", SimpleNamespace(DistanceMatrix=DistanceMatrix))
    perimeter = num_nodes * 2 * math.sin(math.pi / num_nodes)
    assert tsp_solvers.by_fast_tsp(coords, 1.0) == pytest.approx(perimeter)
    assert tsp_solvers.by_lkh(coords) == pytest.approx(perimeter)
    assert [matrix.max() for matrix in given] == [65_535, 1_000_000]
    assert all((matrix == matrix.T).all() and matrix.dtype == np.int64 for matrix in given)
    with pytest.raises(ValueError, match="a program returned a sequence of nodes that is no tour"):
        tsp_solvers.length(coords, [0] * num_nodes)


@pytest.mark.slow
def test_programs_for_the_tsp_beside_a_policy(monkeypatch):
    """A row for each, in one run; the two programs, which may not be installed, return the optimal tours of PyVRP."""
    pytest.importorskip("pyvrp")

    def optimal(coords):
        return gumbeldore.solve(coords=coords.numpy(), method="solver", time_limit=0.2).cost

    for name in ("fast_tsp", "elkai"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.setattr(tsp_solvers, "by_fast_tsp", lambda coords, seconds: optimal(coords))
    monkeypatch.setattr(tsp_solvers, "by_lkh", optimal)
    words = ["checkpoint=tsp20", "instances=kool/tsp20", "num_instances=2", "seconds=0.2"]
    rows = [
        re.fullmatch(r"(.*?) +(-?[\d.]+%) +([\d.]+) s", line)
        for line in printed_by("tsp_solvers", *words).splitlines()[1:]
    ]
    names = ["tsp20, greedy, all together", "tsp20, greedy", "tsp20, reconstruct, 0.2 s", None, "fast-tsp, 0.2 s"]
    names.append("LKH (elkai), one run")
    assert [name or row[1] for name, row in zip(names, rows, strict=True)] == [row[1] for row in rows]
    assert [row[2] for row in rows[3:]] == ["0.00%"] * 3 and rows[0][2] == rows[1][2]


@pytest.mark.parametrize(("has_bf16", "timed"), [(True, ["float32", "bf16"]), (False, ["float32"])])
def test_bf16_is_timed_only_where_auto_would_choose_it(has_bf16, timed, monkeypatch, capsys):
    """A CPU without its instructions emulates it for minutes."""
    asked = []
    monkeypatch.setattr(machine, "resolve_precision", lambda *of: "bf16" if has_bf16 else "float32")
    monkeypatch.setattr(machine, "matrix_peak", lambda precision, device: asked.append(precision) or 1.0)
    machine.main(torch.get_num_threads(), "cpu")
    assert asked == timed and [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == timed


@pytest.mark.parametrize(("took", "count"), [(0.1, 3), (40.0, 3), (41.0, 2), (61.0, 1), (500.0, 1)])
def test_turns_end_in_time(took, count, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(machine.time, "perf_counter", lambda: now[0])
    turns = []
    for turn in machine.turns(3, seconds=120.0):
        turns.append(turn)
        now[0] += took
    assert turns == list(range(count))


def test_decisions_to_come():
    """Against the mean of many draws."""
    step = torch.randint(20, (200_000,), generator=torch.Generator().manual_seed(0))
    assert decisions_to_come(20, 19) == pytest.approx((20 - step).double().mean().item(), abs=0.05)


@pytest.mark.slow
def test_training(tmp_path):
    out = tmp_path / "training.json"
    benchmark("training", "problems=tsp,jssp", "batches=2", "repeats=1", "threads=1", f"out={out}")
    for row in json.loads(out.read_text())["training"].values():
        assert row["tokens_per_second"] > row["examples_per_second"] > 0 and row["seconds_per_epoch"] > 0


def test_generalisation_groups(monkeypatch, capsys):
    """Mean gaps by family and by size, those of all folders together, each method in a column of its own."""

    def row(method, instance, size, gap):
        return {"method": method, "instance": instance, "size": size, "gap": gap}

    found = {
        ("instances=a", "at_once"): [row("greedy", "A-n32-k5", "31", "0.1"), row("greedy", "X-n101-k25", "100", "0.2")],
        ("instances=a", "in_time"): [row("tasar", "A-n32-k5", "31", "0.01"), row("tasar", "X-n101-k25", "100", "0.02")],
        ("instances=b", "at_once"): [row("greedy", "ta01", "15x15", "0.3"), row("greedy", "A-n33-k5", "32", "0.3")],
        ("instances=b", "in_time"): [row("tasar", "ta01", "15x15", "0"), row("tasar", "A-n33-k5", "32", "0")],
    }
    monkeypatch.setattr(generalisation, "evaluated", lambda command, folder: found[command[2], folder.name])
    monkeypatch.setattr(sys, "argv", ["benchmarks", "generalisation", "checkpoint=x", "folder=a,b", "method=tasar"])
    main()
    lines = [" ".join(re.findall(r"[\w.%]+", line)) for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line.endswith("%")] == [
        "A 2 20.00% 0.50%",
        "X 1 20.00% 2.00%",
        "ta 1 30.00% 0.00%",
        "21 to 50 2 20.00% 0.50%",
        "51 to 100 1 20.00% 2.00%",
        "201 to 500 1 30.00% 0.00%",
    ]


def test_generalisation_ends_with_the_long_part_whose_words_greedy_would_refuse(monkeypatch):
    commands = []
    monkeypatch.setattr(generalisation, "evaluated", lambda command, folder: commands.append(command[3:]) or [])
    monkeypatch.setattr(generalisation, "table", lambda *_: ([""], []))
    words = "workers=0 search.beam_width=8 search_batch_rows=64"
    generalisation.main("x", "a,b", 2.0, "tasar", words, "out")
    limits = ["search.time_limit=2.0", "solver.time_limit=2.0", "solver.workers=0"]
    at_once = ["method=[greedy,heuristic]", "workers=0", "search_batch_rows=64"]
    assert commands == [at_once] * 2 + [["method=[tasar,solver]", *limits, *words.split()]] * 2


@pytest.mark.slow
def test_generalisation(tmp_path):
    """The instances have references, and the solver needs none of the policy's help; what is done is not done again."""
    folders = [tmp_path / "small", tmp_path / "large"]  # whose best heuristics are not the same
    for folder, name in zip(folders, ("ulysses16.tsp", "berlin52.tsp"), strict=True):
        folder.mkdir()
        shutil.copy(ROOT / "tests/data" / name, folder)
    words = ["checkpoint=tsp20", f"folder={','.join(map(str, folders))}", "seconds=0.2", "words=workers=0"]
    words.append(f"out={tmp_path / 'out'}")
    first, again = benchmark("generalisation", *words), benchmark("generalisation", *words)
    table = first[first.index("by family") :]
    assert table == again[again.index("by family") :]
    assert all(re.search(rf"{family} +│ +1 │( +[\d.]+% │){{4}}", table) for family in ("berlin", "ulysses"))


def test_what_a_rebuild_changes_is_named(tmp_path, monkeypatch):
    """A search that finds something else differs; so does a method that is gone. Equal files are said to be equal."""
    shutil.copytree(ROOT / "pretrained/jssp", tmp_path / "policies/jssp")
    monkeypatch.setattr(same, "SHOPS", {name: same.SHOPS[name] for name in ("greedy", "gumbeldore", "heuristic")})
    first, second, third = (tmp_path / f"{name}.json" for name in ("first", "second", "third"))
    for path in (first, second):
        printed_by("same", f"policies={tmp_path / 'policies'}", f"out={path}")
    printed = printed_by("same", f"before={first}", f"after={second}")
    assert printed.endswith("\nall 15 results are the same\n") and "need not be equal" not in printed
    found = json.loads(first.read_text())
    kept = dict(found["results"])
    costs = kept.pop("jssp, view: greedy")["values"]
    searched = kept["jssp, general: gumbeldore"]
    kept["jssp, general: gumbeldore"] = {**searched, "actions": "other"}
    third.write_text(json.dumps({**found, "torch": "1.0", "results": kept}))
    out = StringIO()
    with redirect_stdout(out), pytest.raises(ValueError, match=r"^2 of 15 results are not the same$"):
        same.compare(found, json.loads(third.read_text()))
    other = f"{searched['values']} -> {searched['values']}"
    assert out.getvalue().splitlines() == [
        f"torch was {torch.__version__}, is 1.0: results need not be equal",
        f"commits {found['commit']} and {found['commit']}",
        f"jssp, view: greedy is missing: {costs}",
        f"jssp, general: gumbeldore differs (other actions, equal costs): {other}",
    ]


def test_every_method_without_a_clock_is_compared():
    methods = {path.stem for path in (ROOT / "configs/method").glob("*.yaml")}
    assert methods - {"solver"} <= {*same.ROUTING, *same.LOCAL_SEARCH}


def test_a_changed_action_changes_the_hash():
    """The seed alone differs; where the costs are equal, too, the hashes of costs are."""
    policy = load_policy(ROOT / "pretrained/tsp20")
    arrays = same.instance_sets(policy.problem, np.random.default_rng(0))["plane"].arrays
    first, second = (
        same.entry(policy, {"method": "sampling", "num_rounds": 1, "seed": seed, **arrays}) for seed in (0, 1)
    )
    assert first["actions"] != second["actions"] and first["costs"] != second["costs"]
