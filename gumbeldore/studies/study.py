"""What a study is: settings, searches, measure, tables, plot. study.py calls the methods in this order."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from gumbeldore.evaluation import tables
from gumbeldore.evaluation.baseline import Baseline
from gumbeldore.evaluation.kept import Kept
from gumbeldore.instance_set import InstanceSet
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.checked import Checked
from gumbeldore.sampler.methods import Method

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Searched = TypeVar("Searched", bound=Method | Baseline)
Found = TypeVar("Found")


@dataclass(frozen=True)
class ChosenMethod:
    """A method that is to be studied; its settings may be lists of values to compare.

    `build` and `build_search` make it with values in place of settings. They raise ValueError for a value that is
    wrong; `build_search` also for a baseline, and for a search whose length depends on the machine's speed.
    """

    name: str
    search: Mapping[str, Any]  # the settings of all searches, by key
    reads: list[str]  # the keys of those that this method is given
    own_limit: bool  # whether its file sets a time limit, as those of solvers do: search.time_limit replaces it
    build: Callable[[Mapping[str, Any]], Method | Baseline]
    build_search: Callable[[Mapping[str, Any]], Method]

    @property
    def lists(self) -> dict[str, list[Any]]:
        """The settings that the method reads and that are lists."""
        return {key: self.search[key] for key in self.reads if isinstance(self.search[key], list)}

    def combinations(self) -> list[Asked[Method]]:
        """A search for each combination of the listed values; equal ones once. Raises ValueError as `build_search`."""
        found: list[Asked[Method]] = []
        for values in choices_of(self.lists):
            search = self.build_search(values)
            if search not in [other.search for other in found]:  # else the method reads the value in no round
                found.append(Asked(self.name, values, search))
        return found


def choices_of(lists: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Every choice of one value for each key."""
    return (dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values()))


@dataclass(frozen=True)
class Asked(Generic[Searched]):
    """A search that a study measures."""

    method: str
    values: dict[str, Any]  # of what is varied, by key of `search`
    search: Searched

    @property
    def setting(self) -> str:
        """The values in words; none where nothing is varied."""
        return ", ".join(f"{key}={value}" for key, value in self.values.items())

    @property
    def label(self) -> str:
        """Method and values in words."""
        return f"{self.method}, {self.setting}" if self.values else self.method

    def repetitions(self, count: int) -> int:
        """How often it solves all instances: once if its answer is always the same."""
        return count if isinstance(self.search, Method) and self.search.random else 1


def how_often(count: int, searches: Iterable[tuple[str, Asked[Any]]]) -> str:
    """How often the searches, of these names, solve all instances, in words."""
    once = list(dict.fromkeys(name for name, asked in searches if asked.repetitions(count) == 1))
    return f"{count} repetitions" + (f" ({', '.join(once)}: once, without random numbers)" if once else "")


class Context(NamedTuple):
    """What a study measures with."""

    pool: SearchPool
    instance_sets: list[InstanceSet]
    seed: int
    kept: Kept
    # (phase, instance sets, instances done before) -> what is told the number of instances done since the last call
    advancing: Callable[..., Callable[[int], None]]


class About(NamedTuple):
    """What is measured and how, for the files of a study and the notes below its table."""

    checkpoint: str
    instances: str
    num_instances: int
    hardware: str
    command: str
    reference: str | None  # of the gaps; None: not all instances have one, and costs are compared
    remarks: list[str]

    @property
    def gaps(self) -> bool:
        return self.reference is not None

    @property
    def title(self) -> str:
        return tables.title_of(self.instances, self.num_instances)

    @property
    def compared(self) -> str:
        """What stands in the table, in words."""
        return f"gap to: {self.reference}" if self.gaps else "mean cost, as references are missing or sum to 0"


class Table(NamedTuple):
    title: str
    header: list[str]
    rows: list[list[str]]


class Shown(NamedTuple):
    """What a person sees of the results."""

    tables: list[Table]
    note: str  # what the numbers are
    conclusions: tuple[str, ...] = ()


class Study(Checked, ABC, Generic[Searched, Found]):
    """One kind of study. Its fields are the keys of configs/study.yaml that it reads, and other kinds may not."""

    reads: ClassVar[tuple[str, ...]] = ()  # settings of searches that the study itself reads, whatever the methods do
    lines: ClassVar[str] = "points"  # the key of the study's `content` whose list is study.csv

    @abstractmethod
    def searches(self, methods: list[ChosenMethod]) -> list[Asked[Searched]]:
        """The searches to measure. Raises ValueError for methods, or lists of values, that it cannot compare."""

    @abstractmethod
    def measure(self, context: Context, searches: list[Asked[Searched]]) -> Iterator[Found]:
        """The results one by one. What is kept of an earlier run is not searched again.

        Raises ValueError naming an instance that the policy or the problem cannot deal with.
        """

    def progress(
        self, kept: Kept, searches: list[Asked[Searched]], found: list[Found], about: About
    ) -> tuple[int, int | str]:
        """How many searches are finished where the study is interrupted, and how many there are (or words for it)."""
        return len(found), len(searches)

    @abstractmethod
    def content(self, searches: list[Asked[Searched]], found: list[Found], about: About) -> dict[str, Any]:
        """Of study.json. Here and below, there is one result at least."""

    @abstractmethod
    def show(self, searches: list[Asked[Searched]], found: list[Found], about: About) -> Shown:
        """The tables, and how to read them."""

    def plot(self, found: list[Found], about: About) -> Figure | None:
        """The picture, where the study has one."""
        return None
