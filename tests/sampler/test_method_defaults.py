"""The settings of the methods have one default."""

from __future__ import annotations

import inspect

import yaml

from gumbeldore.evaluation import solve
from gumbeldore.sampler import methods
from tests.helpers.commands import ROOT


def test_defaults_of_methods_are_those_of_the_configuration():
    """But for the rounds, of which a method called from Python has one, and the step size, which a run decides."""
    settings = yaml.safe_load((ROOT / "configs/search.yaml").read_text())["search"]
    seen = set()
    for method in (*methods.SEARCHES.values(), methods.reconstruct):
        for name, parameter in inspect.signature(method).parameters.items():
            if name not in ("num_rounds", "step_size") and parameter.default is not parameter.empty:
                assert settings[name] == parameter.default, f"{method.__name__}: {name}"
                seen.add(name)
    assert {"temperature", "equivalents", "replan_steps", "max_rounds", "groups", "diversity", "iterations"} <= seen


def test_solve_has_the_defaults_of_the_command():
    settings: dict = {}
    for name in ("search", "evaluate"):
        settings |= yaml.safe_load((ROOT / f"configs/{name}.yaml").read_text())["search"]
    assert {name: settings[name] for name in solve.DEFAULTS} == solve.DEFAULTS


def test_every_method_has_an_option_of_its_name():
    options = {path.stem for path in (ROOT / "configs/method").glob("*.yaml")}
    assert options == {*methods.SEARCHES, "reconstruct", "heuristic", "solver"}
