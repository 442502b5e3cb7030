"""Keys of earlier versions: one line says that they are gone, wherever they are given."""

from __future__ import annotations

import re

import pytest

import evaluate
import train
from gumbeldore.cli.overrides import check_overrides
from gumbeldore.runtime.building import build
from gumbeldore.runtime.old_versions import REMOVED, REMOVED_ON, RENAMED
from tests.helpers.commands import compose, refused

GONE = "error: {} was removed on " + REMOVED_ON + ": "


@pytest.mark.parametrize("key", REMOVED)
@pytest.mark.parametrize("word", ["{}=null", "{}.after=0.5", "{}=0.1,1", "+{}=1", "~{}"])
def test_on_the_command_line(key, word):
    with pytest.raises(ValueError, match=f"^{re.escape(key)} was removed on {REMOVED_ON}: {re.escape(REMOVED[key])}$"):
        check_overrides(["problem=cvrp", word.format(key)], "train")


@pytest.mark.parametrize("key", RENAMED)
@pytest.mark.parametrize("word", ["{}=null", "{}=0.1,1", "+{}=1", "~{}"])
def test_renamed_keys_name_the_new_one(key, word):
    with pytest.raises(ValueError, match=f"^{re.escape(key)} is called {re.escape(RENAMED[key])} now$"):
        check_overrides(["problem=cvrp", word.format(key)], "train")


@pytest.mark.parametrize(
    ("program", "words", "new"),
    [
        (train, ["search=wor"], "method=wor"),
        (train, ["problem=cvrp", "+search=wor"], "method=wor"),
        (train, ["-m", "search=wor,gumbeldore"], "method=wor,gumbeldore"),
        (train, ["-m", "problem=tsp,cvrp", "search=wor"], "method=wor"),
        (evaluate, ["checkpoint=x", "instances=y", "search=[greedy,wor]"], "method=[greedy,wor]"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else None,
)
def test_the_group_search_is_called_method(program, words, new, tmp_path):
    old = new.replace("method", "search")
    assert refused(program, *words, cwd=tmp_path) == f"error: {old} is called {new} now\n"


def test_the_settings_of_search_can_be_given_together():
    check_overrides(["search={beam_width: 4}"], "train")
    assert compose("train", "search={beam_width: 4}").search.beam_width == 4


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (train, ["train.late=null"]),
        (train, ["train.late.after=0.5"]),
        (train, ["problem=jssp", "train.importance=1"]),
        (train, ["problem=cvrp", "model.savings=0"]),
        (train, ["experiment=cvrp100", "train.reorder_until=1"]),
        (train, ["train=supervised", "train.experts=x.npz", "train.early_steps=1"]),
        (train, ["resume=run", "train.skip_bad_steps=true"]),
        (train, ["-m", "train.importance=0.1,1"]),
        (train, ["-m", "seed=0,1", "train.late=null"]),
        (train, ["-m", "problem=tsp,cvrp", "train.sample_ahead=true"]),
        (train, ["--help", "train.late=null"]),
        (evaluate, ["checkpoint=x", "instances=kool/tsp20", "model.savings=0"]),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else None,
)
def test_as_typed(program, words, tmp_path):
    (key,) = (key for key in REMOVED if any(word.startswith(key) for word in words))
    assert refused(program, *words, cwd=tmp_path).startswith(GONE.format(key))


FILES = {  # what they add, and the beginning of the line that refuses it
    "null": ("train: {late: null}", GONE.format("train.late")),
    "part": ("train: {late: {after: 0.5}}", GONE.format("train.late")),
    "number": ("train: {importance: 0.1, epochs: 3}", GONE.format("train.importance")),
    "model": ("model: {savings: 0}", GONE.format("model.savings")),
    "unknown": ("train: {epoch: 3}", "error: there is no key train.epoch; train has batch_size, batches_per_epoch, "),
    "unknown of the model": ("model: {widht: 3}", "error: there is no key model.widht; model has canonical"),
    "unknown of the problem": (
        "problem: {size: 3}",
        "error: there is no key problem.size; problem has distances, distribution, grow, nearest, num_nodes",
    ),
}


@pytest.mark.parametrize("case", FILES)
@pytest.mark.parametrize(
    "way", ["experiment", *(pytest.param(x, marks=pytest.mark.slow) for x in ("problem", "sweep"))]
)
def test_in_a_file_of_the_users(case, way, tmp_path):
    text, line = FILES[case]
    group = "problem" if way == "problem" else "experiment"
    base = "defaults: [tsp]\n" if way == "problem" else ""
    (tmp_path / "own" / group).mkdir(parents=True)
    (tmp_path / "own" / group / "mine.yaml").write_text(f"# @package _global_\n{base}{text}\n")
    words = ["-m", "experiment=mine,tsp100"] if way == "sweep" else [f"{group}=mine"]
    assert refused(train, "--config-dir", "own", *words, cwd=tmp_path).startswith(line)


@pytest.mark.parametrize("key", ["late", "sample_ahead"])
def test_in_a_source_of_solutions_of_the_users(key, tmp_path):
    (tmp_path / "own/train").mkdir(parents=True)
    (tmp_path / "own/train/mine.yaml").write_text(f"experts: null\n{key}: false\n")
    line = refused(train, "--config-dir", "own", "train=mine", cwd=tmp_path)
    assert line.startswith(GONE.format(f"train.{key}"))


def test_no_configuration_has_one():
    for choice in ("problem=tsp", "problem=cvrp", "problem=jssp", "experiment=cvrp100"):
        assert not {f"train.{key}" for key in compose("train", choice).train} & set(REMOVED)


def test_a_class_that_takes_any_value_is_given_it():
    node = {"_target_": f"{__name__}.Anything", "savings": 3}
    assert build(node, "model").values == {"savings": 3}


class Anything:
    def __init__(self, **values):
        self.values = values
