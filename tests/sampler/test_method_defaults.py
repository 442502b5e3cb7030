"""The settings of the methods have one default, which stands in the class of a method."""

from __future__ import annotations

import inspect

import yaml

from gumbeldore.sampler import methods
from tests.helpers.commands import ROOT


def test_methods_with_the_same_setting_have_the_same_default():
    for method in methods.METHODS.values():
        for name, parameter in inspect.signature(method).parameters.items():
            if name != "start":  # its default is an object: greedy
                assert methods.DEFAULTS[name] == parameter.default, f"{method.__name__}: {name}"


def test_every_setting_of_the_command_line_is_read_by_a_method_and_has_no_other_default():
    settings = yaml.safe_load((ROOT / "configs/search.yaml").read_text())["search"]
    read = set().union(*(methods.settings_of(method) for method in methods.METHODS.values()))
    assert set(settings) <= read
    assert {name: value for name, value in settings.items() if value is not None} == {"step_size": "???"}


def test_every_method_has_an_option_of_its_name():
    options = {path.stem for path in (ROOT / "configs/method").glob("*.yaml")}
    assert options == {*methods.METHODS, "heuristic", "solver"}
