"""What all studies work with."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from gumbeldore.benchmark import Benchmark
from gumbeldore.cli import parts
from gumbeldore.cli.settings import StudySettings
from gumbeldore.evaluation.baseline import Baseline
from gumbeldore.evaluation.kept import Kept
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.reporting.console import Terminal
from gumbeldore.sampler.methods import Method

NO_GAPS = "mean cost, as not all instances have a reference"


class Study(NamedTuple):
    """The open study: settings, machine, instances, terminal and folder."""

    run: StudySettings
    pool: SearchPool
    benchmarks: list[Benchmark]
    kept: Kept
    terminal: Terminal
    out_dir: Path
    about: dict[str, Any]  # what was measured and how


class Asked(NamedTuple):
    """A search that a study measures."""

    method: str
    setting: str  # its values of what is varied, for tables
    search: Method


def by_method(searches: list[Asked]) -> list[tuple[str, Method]]:
    """Every search, with the name to call it in messages."""
    return [(asked.method, asked.search) for asked in searches]


def written(out_dir: Path) -> str:
    """Which files of a study are there, in words."""
    return f"written: {', '.join(map(str, sorted(out_dir.glob('study.*'))))}"


def check_lists(search: Mapping[str, Any]) -> None:
    """Raises ValueError if a list of values for a key of `search` is empty."""
    if empty := [key for key, value in search.items() if OmegaConf.is_list(value) and not value]:
        raise ValueError(f"search.{empty[0]}=[]: there must be one value at least")


def repetitions_of(method: Method | Baseline, count: int) -> int:
    """How often a method solves all instances: once if its answer is always the same."""
    return count if isinstance(method, Method) and method.random else 1


def repeated(count: int, methods: Iterable[tuple[str, Method | Baseline]]) -> str:
    """How often the methods of a study solved all instances, in words."""
    once = list(dict.fromkeys(name for name, method in methods if repetitions_of(method, count) == 1))
    return f"{count} repetitions" + (f" ({', '.join(once)}: once, without random numbers)" if once else "")


def combinations(name: str, method: DictConfig, search: Mapping[str, Any]) -> list[tuple[dict[str, Any], Method]]:
    """A search for each combination of the values that `search` lists for the parameters of a method; equal ones once.

    Returns the values, by key of `search`, and the search.

    Raises ValueError for an empty list, and as `parts.build_search`.
    """
    check_lists(search)
    listed = {key: list(search[key]) for key in parts.search_keys(method, search) if OmegaConf.is_list(search[key])}
    found: list[tuple[dict[str, Any], Method]] = []
    for values in itertools.product(*listed.values()):
        mine = dict(zip(listed, values, strict=True))
        built = parts.build_search(name, method, {**search, **mine})
        if built not in [other for _, other in found]:  # else the method reads the value in no round
            found.append((mine, built))
    return found
