"""study=diversity: how good solutions are, and how different from each other [SBS, figure 2, on their edges]."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.batches import repeated, take
from gumbeldore.evaluation.solved_sets import have_gaps
from gumbeldore.instance_set import InstanceSet, mean_reference
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.checked import at_least
from gumbeldore.runtime.errors import instance_errors
from gumbeldore.sampler.methods import Method
from gumbeldore.seeding import fold
from gumbeldore.studies.curves import MARKERS
from gumbeldore.studies.study import About, Asked, ChosenMethod, Context, Shown, Study, Table, how_often
from gumbeldore.training.true_costs import SampledSolutions, true_costs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class DiversityPoint(NamedTuple):
    """A search: means over the instances and repetitions."""

    curve: str
    setting: str  # what differs between the points of a curve
    solutions: float  # per instance
    diversity: float  # share of different edges among those of all solutions of an instance
    lowest: float  # gap of the best solution of an instance, or cost where references are missing
    mean: float  # of all its solutions
    highest: float


@dataclass(frozen=True, kw_only=True)
class Diversity(Study[Method, DiversityPoint]):
    """A curve for each method, with a point for each combination of the values that `search` lists for it.

    Arguments:
        repetitions: searches of each instance for each point, with other random numbers
    """

    repetitions: int = at_least(2, 5)

    def searches(self, methods: list[ChosenMethod]) -> list[Asked[Method]]:
        return [asked for method in methods for asked in method.combinations()]

    def measure(self, context: Context, searches: list[Asked[Method]]) -> Iterator[DiversityPoint]:
        references = [each.references.tolist() for each in context.instance_sets]  # a point has gaps to them
        for asked in searches:
            names = asked.method, asked.setting, references  # in whatever order the methods are asked for
            yield DiversityPoint(*context.kept.value(partial(self._point, context, asked), *names))

    def _point(self, context: Context, asked: Asked[Method]) -> DiversityPoint:
        found: list[list[float]] = []
        relative, repetitions = have_gaps(context.instance_sets), asked.repetitions(self.repetitions)
        advance = context.advancing(asked.label, context.instance_sets * repetitions)
        scale = mean_reference(context.instance_sets)
        for repetition in range(repetitions):
            seed = int(fold(context.seed, "diversity", repetition))
            for place, instance_set in enumerate(context.instance_sets):
                keys = fold(seed, place, torch.arange(len(instance_set.names)))
                gaps = partial(instance_set.gaps, scale=scale) if relative else None
                found += _searched(context.pool, instance_set, keys, asked.search, gaps, advance)
        return DiversityPoint(asked.method, asked.setting, *map(statistics.fmean, zip(*found, strict=True)))

    def content(self, searches: list[Asked[Method]], found: list[DiversityPoint], about: About) -> dict[str, Any]:
        points = [point._asdict() for point in found]
        quality = {"quality": "gap" if about.gaps else "cost"}
        return {**quality, **about._asdict(), "repetitions": self.repetitions, "points": points}

    def show(self, searches: list[Asked[Method]], found: list[DiversityPoint], about: About) -> Shown:
        """A row for each point."""
        form = ".2%" if about.gaps else ".4f"
        rows = [
            [", ".join(filter(None, (x.curve, x.setting))), f"{x.diversity:.1%}"]
            + [f"{value:{form}}" for value in (x.lowest, x.mean, x.highest)]
            for x in found
        ]
        header = ["gap" if about.gaps else "cost", "different edges", "lowest", "mean", "highest"]
        often = how_often(self.repetitions, ((asked.method, asked) for asked in searches))
        return Shown([Table(about.title, header, rows)], f"{about.compared}; means over instances and {often}")

    def plot(self, found: list[DiversityPoint], about: About) -> Figure:
        """Lowest, mean and highest cost over the diversity, a line per search."""
        from matplotlib.figure import Figure  # the object interface: no pyplot, no global state, no display
        from matplotlib.ticker import PercentFormatter

        figure = Figure(figsize=(10.5, 4.2), layout="constrained")
        every = figure.subplots(1, 3, sharex=True)
        for axes, kind in zip(every, ("lowest", "mean", "highest"), strict=True):
            for number, curve in enumerate(dict.fromkeys(point.curve for point in found)):
                mine = [x for x in found if x.curve == curve]
                x, y = [x.diversity for x in mine], [getattr(x, kind) for x in mine]
                axes.plot(x, y, marker=MARKERS[number % len(MARKERS)], markersize=5, label=curve)
            axes.set(title=f"{kind} {'gap' if about.gaps else 'cost'}", xlabel="different edges")
            axes.xaxis.set_major_formatter(PercentFormatter(1.0))
            if about.gaps:
                axes.yaxis.set_major_formatter(PercentFormatter(1.0))
            axes.grid(alpha=0.3)
        figure.suptitle(about.title, parse_math=False)
        figure.legend(*every[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
        return figure


def _searched(
    pool: SearchPool,
    instance_set: InstanceSet,
    keys: Tensor,
    search: Method,
    gaps: Callable[[Tensor, slice], Tensor] | None,
    progress: Callable[[int], None],
) -> Iterator[list[float]]:
    """Of each instance: number of solutions, share of different edges, lowest, mean and highest cost.

    Arguments:
        gaps: (costs [m, L] of some instances, their rows) -> what is shown in place of the costs; None: the costs
    """
    with instance_errors(instance_set, keys):
        for _, chunk, sampled in pool.map_all(instance_set.instances, keys, [search], read=SampledSolutions.of):
            costs = true_costs(instance_set, chunk, sampled)
            costs = costs if gaps is None else gaps(costs, chunk)
            share = distinct_share(edges_of(pool, instance_set, chunk, sampled), sampled.valid)
            number = sampled.valid.sum(dim=1)
            low = costs.masked_fill(~sampled.valid, torch.inf).amin(dim=1)
            high = costs.masked_fill(~sampled.valid, -torch.inf).amax(dim=1)
            mean = costs.masked_fill(~sampled.valid, 0.0).sum(dim=1) / number
            yield from torch.stack([number.double(), share, low, mean, high], dim=1).tolist()
            progress(chunk.stop - chunk.start)


def edges_of(pool: SearchPool, instance_set: InstanceSet, chunk: slice, sampled: SampledSolutions) -> Tensor:
    """The edges of all solutions of a chunk, [B, L, E]."""
    batch, per_instance, horizon = sampled.actions.shape
    instances = repeated(take(instance_set.instances, chunk), per_instance)
    return pool.problem.edges(instances, sampled.actions.reshape(-1, horizon)).view(batch, per_instance, -1)


def distinct_share(edges: Tensor, valid: Tensor) -> Tensor:
    """The number of different edges of each instance, as a share of all edges of its solutions, [B] float64.

    Arguments:
        edges: [B, L, E] int64 of each solution; below 0: none
        valid: which entries are solutions [B, L]
    """
    codes = edges.masked_fill(~valid[..., None], -1).flatten(1).sort(dim=1).values
    real = codes >= 0
    first = torch.ones_like(real)
    first[:, 1:] = codes[:, 1:] != codes[:, :-1]
    return (first & real).sum(dim=1).double() / real.sum(dim=1)
