"""The method that `solve` is asked for, which may depend on the policy."""

from __future__ import annotations

import inspect
from collections.abc import Container
from pathlib import Path
from typing import Any, NamedTuple

from gumbeldore.evaluation.baseline import Baseline, SolverSettings
from gumbeldore.evaluation.loading import LoadedPolicy, decisions_per_pass, prefers_local_search
from gumbeldore.runtime.building import imported
from gumbeldore.runtime.checkpoint import checkpoint_errors
from gumbeldore.sampler import methods
from gumbeldore.sampler.methods import Method

# Methods without the policy; their modules know problems, which the core does not import.
BASELINES = {"solver": "problems.solvers.SolverBaseline", "heuristic": "problems.heuristics.Heuristic"}
METHODS = (*methods.METHODS, *BASELINES)
COMMAND = Path(__file__).parents[2] / "configs/evaluate.yaml"  # chooses some settings for the methods


class Asked(NamedTuple):
    """What a caller of `solve` says of the method."""

    method: str | Method | Baseline | None
    settings: dict[str, Any]  # of a method that is given by its name, or of none
    time_limit: float | None
    seed: int
    has_start: bool  # whether solutions are given

    def method_for(self, loaded: LoadedPolicy) -> Method | Baseline:
        """The method: one that is given by its name has those settings that are its parameters.

        Raises ValueError for a setting that is none of them, for settings beside a method that is whole, and for a
        start of a method that takes none.
        """
        method = self._method_for(loaded)
        if self.has_start and not (isinstance(method, Method) and method.takes_start):
            name = self.method if isinstance(self.method, str) else type(method).__name__
            raise ValueError(f"start has no effect on method={name}: local_search improves a start")
        return method

    def _method_for(self, loaded: LoadedPolicy) -> Method | Baseline:
        name, time_limit = self._best(loaded) if self.method is None else self.method, self.time_limit
        if isinstance(name, methods.Timed) and time_limit is not None:
            greedy = methods.Greedy(decisions_per_pass(loaded.problem))
            name, time_limit = methods.Anytime(name, time_limit, greedy), None
        if isinstance(name, (Method, Baseline)):
            if given := [*self.settings, *(["time_limit"] if time_limit is not None else [])]:
                kind = type(name).__name__
                raise ValueError(f"{', '.join(given)} must be part of the {kind}, which is the whole method")
            return name
        if name not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)} or a Method, got {name!r}")
        return self._baseline(name) if name in BASELINES else self._search(loaded, name)

    def _best(self, loaded: LoadedPolicy) -> str:
        """The method if none is asked for; settings are those of Gumbeldore."""
        timed = self.time_limit is not None and not self.settings and prefers_local_search(loaded.problem)
        return "local_search" if self.has_start or timed else "gumbeldore"

    def _baseline(self, name: str) -> Baseline:
        make = imported(BASELINES[name], "method")
        read = set(inspect.signature(make).parameters)
        self._check_read(name, read)
        default = SolverSettings()
        limit = default.time_limit if self.time_limit is None else self.time_limit
        own = {"time_limit": limit, "workers": 0, "seed": self.seed, "threads": default.threads}
        return make(**{key: value for key, value in own.items() if key in read})

    def _search(self, loaded: LoadedPolicy, name: str) -> Method:
        """The search, with what evaluate.py sets by default and the step size of the policy's training."""
        import yaml  # by this function alone

        make = methods.METHODS[name]
        read = methods.settings_of(make)
        self._check_read(name, read)
        own = {"time_limit": self.time_limit, "step_size": None}
        own["decisions_per_pass"] = decisions_per_pass(loaded.problem)
        if "start" in read:
            own["start"] = methods.DEFAULTS["start"]
        if loaded.config:
            with checkpoint_errors(loaded.path):
                own["step_size"] = loaded.config["search"]["step_size"]
        if "step_size" in read and own["step_size"] is None:
            rule = f"method must be methods.{make.__name__}(...) with one"
            raise ValueError(f"the policy has no step size of a training: {rule}")
        return methods.made(make, {**yaml.safe_load(COMMAND.read_text())["search"], **self.settings, **own})

    def _check_read(self, name: str, read: Container[str]) -> None:
        """Raises ValueError for a setting that the method of that name does not read."""
        if self.time_limit is not None and "time_limit" not in read:
            raise ValueError(f"method={name} has no time_limit: it ends when it has found its solutions")
        if unused := [key for key in self.settings if key not in read]:
            raise ValueError(f"{', '.join(unused)} has no effect on method={name}")
