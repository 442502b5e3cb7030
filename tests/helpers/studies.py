"""Studies as commands ask for them, and what they measure with where there is neither a folder nor a terminal."""

from __future__ import annotations

from gumbeldore.cli.searches import chosen_methods
from gumbeldore.cli.study import chosen_study
from gumbeldore.evaluation.parts import Parts
from gumbeldore.studies.study import About, Context
from tests.helpers.commands import configured

COSTS = About("x", "y", 3, "a machine", "a command", reference=None, remarks=[])
GAPS = COSTS._replace(reference="LKH")


class Remembered:
    """Parts in memory, by name."""

    def __init__(self):
        self.all = {}

    def parts(self, *names):
        return self.all.setdefault(names, Parts())

    def value(self, compute, *names):
        return compute()


def context(pool, instance_sets, seed, kept=None, progress=lambda done: None):
    return Context(pool, instance_sets, seed, kept or Remembered(), lambda *_: progress)


def searches_of(*words):
    """What the study of these words is to measure."""
    config = configured("study", "checkpoint=x", "instances=y", *words)
    return chosen_study(config).searches(chosen_methods(config))
