"""The recipes: `recipe=paper` is the paper's algorithm alone, `recipe=fast` adds to it, whatever the sizes."""

from __future__ import annotations

import inspect

import pytest
import yaml
from hydra.utils import get_class
from omegaconf import OmegaConf

import train
from gumbeldore.cli.configuration import Configuration
from gumbeldore.cli.setup import set_up
from gumbeldore.cli.words import CONFIGS, check_overrides
from gumbeldore.sampler import methods
from gumbeldore.training.settings import TrainSettings
from tests.helpers.commands import compose, configured, defaults_of, options, refused
from tests.helpers.pages import write

CHOICES = [*options("problem"), "experiment=paper_tsp100", "experiment=paper_cvrp100", "experiment=paper_jssp"]
# What a recipe decides; all else is a size or a length, and belongs to a preset or an experiment.
ALGORITHM = ("learning_rate_end_factor", "cooldown_epochs", "muon_learning_rate", "muon_weight_decay", "gradient_clip")


def composed(*words):
    config = configured("train", *words)
    config.apply_recipe()
    return OmegaConf.to_container(config.cfg)


def search_of(cfg):
    return Configuration(OmegaConf.create(cfg)).training_search()


ELSEWHERE = {"distances", "validation_capacity"}  # what files say, and what follows from another key


@pytest.mark.parametrize("choice", options("problem"))
def test_what_a_problem_takes_is_a_key_of_its_preset(choice):
    """What is not there cannot be typed."""
    problem = compose("train", choice).problem
    assert set(inspect.signature(get_class(problem._target_)).parameters) - set(problem) <= ELSEWHERE


@pytest.mark.parametrize("choice", CHOICES)
def test_the_recipe_of_the_paper_adds_nothing(choice):
    cfg = composed(choice, "recipe=paper")
    defaults = defaults_of("train")
    assert {key: cfg["train"][key] for key in ALGORITHM} == {key: defaults[key] for key in ALGORITHM}
    off = additions("paper").get(cfg["problem"]["_target_"].split(".")[1], {})
    assert not any(off.values()) and off.items() <= (cfg["problem"] | cfg["model"]).items()
    start = 0.7 if choice == "problem=fjsp" else 0.95  # the paper has no flexible job shop
    assert (cfg["search"]["top_p_start"], cfg["search"]["top_p_end"]) == (start, 1.0)


@pytest.mark.parametrize("choice", CHOICES)
def test_recipes_differ_in_the_algorithm_alone(choice):
    """Sizes, lengths and search are those of preset or experiment; presets have a rate for each optimiser."""
    fast, paper = composed(choice), composed(choice, "recipe=paper")
    assert fast == composed(choice, "recipe=fast")
    rates = [cfg["train"]["learning_rate"] for cfg in (fast, paper)]
    assert rates == [additions(name)["learning_rate"] for name in ("fast", "paper")] or rates == [2e-4, 2e-4]
    on = additions("fast").get(fast["problem"]["_target_"].split(".")[1], {})
    assert all(on.values()) and on.items() <= (fast["problem"] | fast["model"]).items()
    for cfg in (fast, paper):
        for group, keys in (("train", (*ALGORITHM, "learning_rate")), ("problem", on), ("model", on)):
            for key in keys:
                cfg[group].pop(key, None)
    assert fast == paper


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ("wor", methods.WithoutReplacement(16, 2, top_p_start=0.95)),
        ("self_labeling", methods.Sampling(256, 1)),
        ("tasar", methods.Tasar(16, 1, 10)),
    ],
)
def test_recipes_of_the_literature_differ_from_ours_in_how_experts_are_found_alone(recipe, expected):
    ours, theirs = composed(), composed(f"recipe={recipe}")
    assert search_of(theirs) == expected
    for cfg in (ours, theirs):
        del cfg["methods"], cfg["search"]
    if recipe == "self_labeling":
        for switch in ("sample_with_best", "keep_experts"):
            assert ours["train"].pop(switch) is True and theirs["train"].pop(switch) is False
    assert ours == theirs


@pytest.mark.parametrize("choice", ["problem=tsp", "experiment=paper_tsp100"])
def test_what_is_typed_wins_over_the_search_of_a_recipe(choice):
    words = [choice, "recipe=self_labeling", "search={beam_width: 64}"]
    assert search_of(composed(*words)) == methods.Sampling(64, 1)
    words = [choice, "recipe=tasar", "search.num_rounds=3", "search.beam_width=5"]
    assert search_of(composed(*words)) == methods.Tasar(5, 3, 10)
    assert search_of(composed("debug=fast", "recipe=self_labeling")) == methods.Sampling(4, 2)  # short ones, too


@pytest.mark.parametrize("recipe", ["wor", "self_labeling", "tasar"])
def test_a_recipe_that_is_a_search_admits_no_other(recipe):
    rule = f"recipe={recipe} is fast with a search method of its own, leave out method=theory"
    with pytest.raises(ValueError, match=rule):
        check_overrides(["problem=tsp", f"recipe={recipe}", "method=theory"], "train")
    check_overrides(["problem=tsp", "recipe=paper", "method=theory"], "train")


def test_an_experiment_leaves_the_lengths_of_active_search_alone():
    alone = composed("problem=jssp", "train=active_search", "train.instances=x")["train"]
    sized = composed("experiment=paper_jssp", "train=active_search", "train.instances=x")["train"]
    for key in ("epochs", "patience", "batches_per_epoch", "batch_size", "learning_rate", "muon_learning_rate"):
        assert sized[key] == alone[key], key
    longer = composed("experiment=demo", "train=supervised", "train.experts=x")["train"]
    assert (longer["epochs"], longer["patience"]) == (12, 20)


def additions(recipe):
    return yaml.safe_load((CONFIGS / "recipe" / f"{recipe}.yaml").read_text())["additions"]


def test_every_default_stands_in_one_place():
    """A preset says only what it changes, nothing of the algorithm, and the paper's TSP needs no change."""
    for path in [*(CONFIGS / "problem").glob("*.yaml"), *(CONFIGS / "experiment").glob("*.yaml")]:
        values = yaml.safe_load(path.read_text())
        assert not set(values.get("train", {})) & set(ALGORITHM), path.name  # the recipe's, so none is of one size
        for group in ("train", "search"):
            again = values.get(group, {}).items() & defaults_of(group).items()
            assert not again, f"{path.name} repeats {again} of configs/{group}.yaml"
    of_paper = configured("train", "experiment=paper_tsp100", "recipe=paper")
    assert of_paper.cfg.train == defaults_of("train") and of_paper.algorithm() == TrainSettings()


def test_a_preset_of_the_users_wins_over_the_recipe(tmp_path):
    """It needs no file of the recipe's: what every problem has in common applies, but for what it says itself."""
    text = "# @package _global_\ndefaults: [tsp]\ntrain: {muon_weight_decay: 0.5}\n"
    write({"problem/mine.yaml": text}, tmp_path)
    cfg = composed("problem=mine", f"hydra.searchpath=['file://{tmp_path}']")
    assert cfg["train"]["muon_weight_decay"] == 0.5 and cfg["train"]["muon_learning_rate"] == 0.02


def test_a_network_of_the_users_is_given_no_additions(tmp_path):
    write({"model/mine.yaml": "_target_: mine.Network\ndepth: 3\n"}, tmp_path)
    cfg = composed("problem=tsp", "model=mine", f"hydra.searchpath=['file://{tmp_path}']")
    assert cfg["model"] == {"_target_": "mine.Network", "depth": 3}


def test_all_values_may_refer_to_additions():
    assert composed("run_dir=runs/${additions.learning_rate}")["run_dir"] == "runs/0.002"


def test_additions_are_changed_where_they_act(tmp_path):
    for key, own in (("tsp.grow", "problem.grow or model.grow"), ("learning_rate", "train.learning_rate")):
        line = refused(train, f"additions.{key}=1", "debug=fast", cwd=tmp_path)
        assert f"additions.{key} is the recipe's: change {own}" in line
    assert composed("problem.grow=null")["problem"]["grow"] is None


def of_the_paper(experiment, step_size, nucleus_after, **settings):
    """What all of the paper's trainings have in common is checked, and the settings given here."""
    setup = set_up(configured("train", f"experiment={experiment}", "recipe=paper"))
    assert (setup.search.beam_width, setup.search.num_rounds, setup.search.step_size) == (32, 4, step_size)
    assert (setup.search.top_p_start, setup.search.top_p_end) == (0.95, 1.0)
    common = {"batches_per_epoch": 1000, "learning_rate": 2e-4, "learning_rate_end_factor": 1}
    expected = {**common, "nucleus_after": nucleus_after, **settings}
    assert {key: getattr(setup.settings, key) for key in expected} == expected
    return setup.problem, setup.policy


ROUTING = {"instances_per_epoch": 1000, "batch_size": 1024, "validation_instances": 10_000}


@pytest.mark.parametrize(
    ("experiment", "width", "heads", "step_size", "epochs"),
    [("paper_tsp100", 128, 8, 0.3, 2200), ("paper_cvrp100", 192, 12, 3.0, 2700)],
)
def test_paper_recipe_of_routing(experiment, width, heads, step_size, epochs):
    problem, policy = of_the_paper(experiment, step_size, 500, epochs=epochs, **ROUTING)
    assert (len(policy.layers), policy.embed.out_features, policy.layers[0].heads) == (9, width, heads)
    assert policy.layers[0].up_projection.out_features == 512
    if experiment == "paper_tsp100":
        assert problem.num_nodes == 100
    else:
        assert problem.num_customers == 100 and problem.capacity == (40, 100) and not problem.far_first
        (validation,) = problem.validation(3, seed=0)
        assert validation.names[0] == "kool/cvrp100-val/0" and validation.instances.capacity.tolist() == [50, 50, 50]


def test_paper_recipe_of_the_jssp():
    sizes = {"instances_per_epoch": 512, "batch_size": 512, "validation_instances": 100, "epochs": 100}
    problem, policy = of_the_paper("paper_jssp", 0.05, 50, **sizes)
    assert (len(policy.job_wise), len(policy.machine_wise), policy.embed.out_features) == (3, 3, 64)
    assert (policy.between_jobs.heads, policy.between_jobs.up_projection.out_features) == (8, 256)
    assert policy.embed.in_features == 2 and policy.order_loss is None
    assert not problem.reversal and not problem.chronological
    assert problem.sizes == [(15, 10), (15, 15), (15, 20)] and problem.validation_sizes == [(20, 20)]
