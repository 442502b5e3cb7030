"""Importing the authors' checkpoints: what is read is safe, what is wrong ends in one line, what is written is used."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import evaluate
from gumbeldore import load_policy
from gumbeldore.cli.import_checkpoint import WORDS, imported_checkpoint, main
from gumbeldore.cli.published import NETWORKS
from gumbeldore.cli.words import check_overrides
from tests.helpers.commands import ROOT, done
from tests.helpers.mutations import Trap, repacked
from tests.helpers.pages import steps_of
from tests.helpers.published import FOLDER, STAND_INS, content, policy_of

TSP_BQ = FOLDER / "tsp_bq.pt"
TYPED = ["problem=tsp", "model=bq", "heads=2"]


def command(*words, cwd=ROOT):
    line = [sys.executable, "-m", "gumbeldore.cli.import_checkpoint", *map(str, words)]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})


@pytest.mark.slow
def test_the_command_writes_a_checkpoint_that_evaluate_takes(tmp_path):
    written = command(TSP_BQ, *TYPED, "out=my.pt", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    line = "wrote my.pt: tsp, width 16, layers 3, heads 2, feedforward 32, 6,580 parameters, 1 epochs trained\n"
    assert written.stdout == line
    loaded = load_policy(tmp_path / "my.pt")
    assert loaded.config["imported"]["file"] == "tsp_bq.pt" and loaded.problem.num_nodes == 100
    assert loaded.config["search"]["step_size"] == 0.3
    for name, weight in policy_of("tsp_bq").state_dict().items():
        assert torch.equal(loaded.policy.state_dict()[name], weight)
    words = ["checkpoint=my.pt", "instances=kool/tsp20", "num_instances=3", "method=[greedy,gumbeldore]", "out_dir=out"]
    done(evaluate, *words, "workers=0", cwd=tmp_path)
    assert json.loads((tmp_path / "out" / "results.json").read_text())["methods"]["greedy"]["mean_gap"] > 0
    again = command(TSP_BQ, *TYPED, "out=my.pt", cwd=tmp_path)
    assert again.returncode == 2 and again.stderr == "error: out=my.pt is there already; choose another\n"


@pytest.mark.parametrize("core", ["numpy.core", "numpy._core"])
def test_a_numpy_scalar_is_read_under_both_of_its_names(core, tmp_path):
    body = (FOLDER / "tsp_bq_numpy_scalar.pt").read_bytes()
    old = b"numpy.core.multiarray"
    assert old in body
    path = tmp_path / "scalar.pt"
    path.write_bytes(repacked(body, lambda name, x: {name: x.replace(old, f"{core}.multiarray".encode())}))
    found = imported_checkpoint(path, *STAND_INS["tsp_bq"])
    for name, weight in content("tsp_bq")["weights"].items():
        assert torch.equal(found["weights"][name], weight)


@pytest.mark.parametrize("place", ["model_weights", "optimizer_state", "validation_opt_gap"])
def test_nothing_in_a_file_is_executed(place, tmp_path):
    trap = Trap(tmp_path / "trapped")
    saved = torch.load(TSP_BQ, weights_only=True)
    torch.save({**saved, place: trap}, tmp_path / "bad.pt")
    rule = "is not a checkpoint of grimmlab/gumbeldore: it holds more than tensors and plain values$"
    with pytest.raises(ValueError, match=rule):
        imported_checkpoint(tmp_path / "bad.pt", *STAND_INS["tsp_bq"])
    assert not (tmp_path / "trapped").exists()
    torch.load(tmp_path / "bad.pt", weights_only=False)
    assert (tmp_path / "trapped").exists()  # the trap works


def test_other_objects_of_numpy_are_refused(tmp_path):
    """Of NumPy a float64 alone: a scalar of objects could bring anything."""
    saved = torch.load(TSP_BQ, weights_only=True)
    for value in (np.float32(0.5), np.arange(3.0), np.str_("x"), np.dtype("V200000000")):  # the last takes 200 MB
        torch.save({**saved, "validation_opt_gap": value}, tmp_path / "bad.pt")
        with pytest.raises(ValueError, match="it holds (more than tensors and plain values|a number of NumPy's type)"):
            imported_checkpoint(tmp_path / "bad.pt", *STAND_INS["tsp_bq"])


def test_a_file_claims_no_memory_that_it_does_not_have(tmp_path):
    """A width of ten million, from one vector: its network would have 10^15 weights."""
    saved = torch.load(TSP_BQ, weights_only=True)
    saved["model_weights"]["policy_linear_out.weight"] = torch.zeros(1, 10**6)
    torch.save({**saved, "optimizer_state": None, "best_model_weights": None}, tmp_path / "wide.pt")
    with pytest.raises(ValueError, match="cannot be imported: the networks differ: its layer"):
        imported_checkpoint(tmp_path / "wide.pt", *STAND_INS["tsp_bq"])


def changed(**values):
    def change(saved):
        for key, value in values.items():
            if value is None:
                del saved["model_weights"][key]
            else:
                saved["model_weights"][key] = value
        return saved

    return change


BEYOND = torch.full((2,), 1e300, dtype=torch.float64)
FORGED = {
    "no weights": (lambda saved: {"weights": saved["model_weights"]}, "it has no model_weights"),
    "of another kind": (changed(more="text"), "its model_weights are not named tensors of numbers"),
    "beyond float32": (changed(more=BEYOND), "model_weights.more holds NaN or infinity"),
    "no network": (changed(**{"first_last_marker.weight": None}), "its model_weights are of no network of theirs"),
    "no head": (changed(**{"policy_linear_out.weight": None}), "there is no 'policy_linear_out.weight'"),
    "a layer without a part": (
        changed(**{"graph_encoder.1.linear1.weight": None}),
        r"its layer layers.1.up_projection.weight is not there, here it is \[32, 16\]",
    ),
}


@pytest.mark.parametrize("case", FORGED)
def test_other_content_is_refused_in_one_line(case, tmp_path):
    change, rule = FORGED[case]
    path = tmp_path / "forged.pt"
    torch.save(change(torch.load(TSP_BQ, weights_only=True)), path)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} .*{rule}") as caught:
        imported_checkpoint(path, *STAND_INS["tsp_bq"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", STAND_INS)
def test_the_file_must_hold_what_is_asked_for(name):
    problem, model, heads = STAND_INS[name]
    for network in NETWORKS.values():
        if (network.problem, network.model) != (problem, model):
            rule = rf"holds .* \(problem={problem} model={model}\), not problem={network.problem} model={network.model}"
            with pytest.raises(ValueError, match=rule):
                imported_checkpoint(FOLDER / f"{name}.pt", network.problem, network.model, heads)


@pytest.mark.parametrize(("epochs", "expected"), [(7, 7), (-5, 0), (True, 0), ("7", 0)])
def test_an_epoch_that_is_none_is_not_taken_over(epochs, expected, tmp_path):
    torch.save({**torch.load(TSP_BQ, weights_only=True), "epochs_trained": epochs}, tmp_path / "x.pt")
    assert imported_checkpoint(tmp_path / "x.pt", *STAND_INS["tsp_bq"])["epoch"] == expected


def test_half_precision_becomes_float32(tmp_path):
    saved = torch.load(TSP_BQ, weights_only=True)
    saved["model_weights"] = {key: weight.half() for key, weight in saved["model_weights"].items()}
    torch.save(saved, tmp_path / "half.pt")
    found = imported_checkpoint(tmp_path / "half.pt", *STAND_INS["tsp_bq"])
    assert all(weight.dtype == torch.float32 for weight in found["weights"].values())


@pytest.mark.parametrize("name", STAND_INS)
def test_the_search_of_the_authors_comes_with_the_policy(name):
    """Theirs goes on to the 250 nearest customers alone."""
    assert content(name)["config"]["problem"].get("nearest") == (250 if "cvrp" in name else None)


TSP = ["problem=tsp", "model=bq"]
OUT = "out=x.pt"
WRONG = [
    ([*TSP, OUT], "heads= is missing; a file does not tell its heads: the published ones have 8 (tsp, jssp) and 12"),
    ([*TSP, "heads=two", OUT], "heads must be a whole number above 0, got 'two'"),
    ([*TSP, "heads=0", OUT], "width must be a multiple of heads, got width=16 and heads=0"),
    (["problem=tsp", "model=bq_cvrp", "heads=2", OUT], "problem=tsp model=bq_cvrp cannot be imported; there are"),
    ([*TSP, "heads=2", "heads=4", OUT], "heads= is given twice"),
    ([*TSP, "heads=2", "out=nowhere/x.pt"], "nowhere"),
]
OTHERS = {
    "nowhere.pt": "there is no file nowhere.pt",
    str(ROOT / "pretrained/tsp20/best.pt"): "is not a checkpoint of grimmlab/gumbeldore: ",
    str(Path(__file__)): "is not a checkpoint of grimmlab/gumbeldore: ",
    str(FOLDER): "there is no file ",
}


@pytest.mark.parametrize(
    ("file", "words", "rule"),
    [(TSP_BQ, *each) for each in WRONG] + [(path, [*TYPED, OUT], rule) for path, rule in OTHERS.items()],
)
def test_mistakes_end_in_one_line(file, words, rule, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main([str(file), *words])
    line = capsys.readouterr().err
    assert ended.value.code == 2 and line.startswith("error: ") and line.count("\n") == 1 and rule in line
    assert not list(tmp_path.iterdir())


def test_the_commands_of_the_page_are_accepted():
    """The files are not at hand: their words alone."""
    steps, known = steps_of(ROOT / "docs/papers.md"), [(x.problem, x.model) for x in NETWORKS.values()]
    made = []
    for script, words, _ in steps:
        if script == "gumbeldore.cli.import_checkpoint":
            file, *words = words
            given = dict(word.split("=") for word in words)
            assert list(given) == list(WORDS) and file.endswith("checkpoint.pt")
            assert (given["problem"], given["model"]) in known
            made.append(given["out"])
        else:
            assert script == "evaluate.py"
            check_overrides(words, "evaluate")
            assert words[0].removeprefix("checkpoint=") in made
    assert len(made) == 4 and len(steps) > 8
