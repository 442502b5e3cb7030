"""The settings of the methods have one default, which stands in the class of a method."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from gumbeldore.cli.schema import SEARCH
from gumbeldore.sampler import methods
from tests.helpers.commands import ROOT


def test_methods_with_the_same_setting_have_the_same_default():
    for method in methods.METHODS.values():
        for name, parameter in inspect.signature(method).parameters.items():
            if name != "start":  # its default is an object: greedy
                assert methods.DEFAULTS[name] == parameter.default, f"{method.__name__}: {name}"


def test_every_setting_of_the_command_line_is_read_by_a_method_and_has_no_other_default():
    read = set().union(*(methods.settings_of(method) for method in methods.METHODS.values()))
    assert set(SEARCH) == read and SEARCH == {**methods.DEFAULTS, "time_limit": None}


def test_every_method_has_a_default_for_each_setting():
    assert [method() for method in methods.METHODS.values()]


def test_settings_of_a_class_of_the_user_are_checked_whether_its_annotations_are_text_or_not():
    for switch, text, count in ((bool, str, int), ("bool", "str", "int")):
        fields = [("strict", switch, True), ("word", text, "a"), ("steps", count, methods.method.at_least_one(1))]
        own = dataclasses.make_dataclass("Own", fields, bases=(methods.Greedy,), frozen=True)
        for wrong in ({"strict": "no"}, {"word": 3}, {"steps": 1.5}):
            with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be "):
                own(**wrong)


def test_a_wrapper_is_made_of_a_setting_that_the_method_does_not_read_itself():
    assert methods.made(methods.Sampling, {"equivalents": 1}) == methods.Sampling()
    for wrong in (True, 1.0, 0):
        with pytest.raises(ValueError, match="equivalents must be an integer of at least 1"):
            methods.made(methods.Sampling, {"equivalents": wrong})

    def limited(time_limit, equivalents):
        return methods.Anytime(methods.Equivalents(methods.Sampling(), equivalents), 2 * time_limit)

    assert methods.made(limited, {"time_limit": 3, "equivalents": 2}) == limited(3, 2)


def test_every_method_has_an_option_of_its_name():
    options = {path.stem for path in (ROOT / "configs/method").glob("*.yaml")}
    assert options == {*methods.METHODS, "heuristic", "solver"}
