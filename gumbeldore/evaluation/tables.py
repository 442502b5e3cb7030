"""What an evaluation shows: tables, and lines beside them."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor

from gumbeldore.evaluation.references import contradicted, proven
from gumbeldore.evaluation.solved_sets import (
    SolvedSet,
    claims_of,
    have_gaps,
    have_references,
    pairs,
    summarise,
    unsolved,
)
from gumbeldore.instance_set import InstanceSet, count_of
from gumbeldore.interfaces import Problem, size_name

Results = dict[str, list[SolvedSet]]  # by method, one per instance set
MOST_NAMED = 5  # instances in a line for the eye


def reference_of(instance_sets: list[InstanceSet]) -> str | None:
    """How good the reference costs are, None if there are none: the kinds, with their numbers if there are several."""
    kinds = Counter(kind for instance_set in instance_sets for kind in instance_set.kinds if kind)
    if len(kinds) <= 1:
        return next(iter(kinds), None)
    return ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common())


def title_of(instances: str, count: int) -> str:
    """Of a table: the instances as they were asked for, and their number."""
    return f"{instances}: {count} instance{'s' if count > 1 else ''}"


def reference_note(instance_sets: list[InstanceSet]) -> str:
    """What gaps are measured against, in words."""
    known, count = (sum(numbers) for numbers in zip(*((_known(x), len(x.names)) for x in instance_sets), strict=True))
    if known == count:
        gap = "gap of the summed costs to" if instance_sets[0].pooled else "gap to"
        gap = gap if have_gaps(instance_sets) else "no gap, as the references sum to 0"
        return f"{gap}: {reference_of(instance_sets)}"
    return f"{known} of {count} have a reference, so no gap over all" if known else "no reference costs, so no gap"


def remarks(instance_sets: list[InstanceSet], problem: Problem) -> list[str]:
    """What the problem remarks on the instances, a line each."""
    return problem.reports.remarks([x.originals for x in instance_sets])


def method_rows(
    results: Results, instance_sets: list[InstanceSet], problem: Problem
) -> tuple[list[str], list[list[str]]]:
    """The table Method | Obj | Gap | Time, with further numbers of the solutions where the problem has them."""
    further = list(further_numbers(problem, next(iter(results.values()))))
    rows = []
    for name, solved in results.items():
        outcome = summarise(solved, instance_sets)
        gap = "-" if outcome.mean_gap is None else percentage(outcome.mean_gap, 3)
        each = f"{outcome.seconds / count_of(instance_sets):.3g} s"
        means = [values.double().nanmean() for values in further_numbers(problem, solved).values()]
        numbers = ["-" if value.isnan() else f"{value:.2f}" for value in means]
        rows.append([name, mean(solved), gap, *numbers, f"{outcome.seconds:.1f} s", each])
    return ["Method", "Obj", "Gap", *further, "Time", "per instance"], rows


def size_rows(
    results: Results, instance_sets: list[InstanceSet], problem: Problem
) -> tuple[list[str], list[list[str]]]:
    """The table of mean gaps (mean costs where there are no references) with a row per size and a column per method."""
    rows = []
    for size, places in by_size(instance_sets, problem).items():
        mine = [instance_sets[place] for place in places]
        outcomes = [summarise([solved[place] for place in places], mine) for solved in results.values()]
        means = [f"{x.mean_cost:.2f}" if x.num_instances else "-" for x in outcomes]
        shown = [y if x.mean_gap is None else percentage(x.mean_gap) for x, y in zip(outcomes, means, strict=True)]
        rows.append([size, str(count_of(mine)), *shown])
    return ["Size", "instances", *results], rows


def by_size(instance_sets: list[InstanceSet], problem: Problem) -> dict[str, list[int]]:
    """The places of the instance sets of each size: instances of one size may be solved by different policies."""
    found: dict[str, list[int]] = {}
    for place, instance_set in enumerate(instance_sets):
        found.setdefault(size_name(problem, instance_set.instances), []).append(place)
    return found


def instance_rows(
    results: Results, instance_sets: list[InstanceSet], problem: Problem, limit: int
) -> tuple[list[str], list[list[str]]]:
    """The table of the first instances: size, reference, and of each method the cost and, if there is one, the gap."""
    known = any(map(_known, instance_sets))
    rows: list[list[str]] = []
    for place, instance_set in enumerate(instance_sets):
        parts = [solved[place] for solved in results.values()]
        values = [(part.costs.tolist(), instance_set.gaps(part.costs).tolist()) for part in parts]
        references = instance_set.references.tolist()
        for i, name in enumerate(instance_set.names[: limit - len(rows)]):
            row = [name, size_name(problem, instance_set.instances)]
            for cost, gap in values:
                row += [number(cost[i]), *([percentage(gap[i]) if gap[i] == gap[i] else "-"] if known else [])]
            if known:
                row += [number(references[i]) if references[i] == references[i] else "-", instance_set.kinds[i] or "-"]
            rows.append(row)
    methods = [word for name in results for word in ([name, "gap"] if known else [name])]
    return ["Instance", "Size", *methods, *(["Reference", "Kind"] if known else [])], rows


def percentage(gap: float, digits: int = 2) -> str:
    """A gap as tables show it, without the sign of a zero."""
    text = f"{gap:.{digits}%}"
    return text.removeprefix("-") if float(text[:-1]) == 0 else text


def mean(solved: list[SolvedSet]) -> str:
    """The mean cost as tables show it: means of whole costs have two decimals, and none if they are whole, too."""
    costs = torch.cat([part.costs for part in solved])
    costs = costs[~costs.isnan()]
    found = float(costs.mean())
    whole = len(costs) and bool((costs == costs.round()).all())
    return f"{found:.2f}" if whole and not found.is_integer() else number(found)


def number(cost: float) -> str:
    """A cost as tables show it; NaN: there is none."""
    if cost != cost:
        return "-"
    return f"{cost:.0f}" if cost.is_integer() else f"{cost:.4f}"


def mean_lines(results: Results, instance_sets: list[InstanceSet]) -> list[str]:
    """A line for each reference of which only the mean cost is known."""
    lines = []
    for place, instance_set in enumerate(instance_sets):
        for kind, mean in instance_set.means.items():
            costs = {name: solved[place].costs.mean().item() for name, solved in results.items()}
            found = {name: cost / mean - 1 for name, cost in costs.items() if cost == cost}  # of all, as that mean
            gaps_to = (f"{name} {percentage(gap, 3)}" for name, gap in found.items())
            lines.append(f"gap of the mean cost to {kind} (mean {mean:g}): {', '.join(gaps_to)}")
    return lines


def reached_lines(results: Results, instance_sets: list[InstanceSet]) -> list[str]:
    """Where gaps are parts of the mean reference: how many references each method reaches."""
    if not (instance_sets[0].pooled and have_references(instance_sets)):
        return []
    found = []
    for name, solved in results.items():
        pairs = zip(solved, instance_sets, strict=True)
        reached = sum(int((part.costs <= instance_set.references).sum()) for part, instance_set in pairs)
        found.append(f"{name} {reached} of {count_of(instance_sets)}")
    return [f"reaches the reference: {', '.join(found)}"]


def shortage_lines(results: Results) -> list[str]:
    """A line for each method that had too little memory for its time limit, or too little time."""
    lines = []
    for name, solved in results.items():
        if short := sum(part.cut_short for part in solved):
            lines.append(f"{name}: for want of memory {short} instances were searched for less than the time limit")
        if alone := sum(part.greedy_alone for part in solved):
            took = sum(part.seconds for part in solved) / sum(len(part.costs) for part in solved)
            what = f"the greedy solution alone of {alone} instance{'s' if alone > 1 else ''}, {took:.2g} s for each"
            advice = "better ones need more time or method=local_search (JSSP) or reconstruct (TSP, CVRP)"
            lines.append(f"warning: {name}: the time limit sufficed for {what}; {advice}")
    return lines


def claim_lines(results: Results, instance_sets: list[InstanceSet]) -> list[str]:
    """A line for each solver: how good it calls its solutions."""
    found = {name: claims_of(solved, instance_sets).most_common() for name, solved in results.items()}
    return [f"{name}: {', '.join(f'{claim} ({n})' for claim, n in each)}" for name, each in found.items() if each]


def unsolved_lines(results: Results, instance_sets: list[InstanceSet]) -> list[str]:
    """A line for each method that has not solved all instances, which its row leaves out."""
    lines = []
    for name, solved in results.items():
        if missing := unsolved(solved, instance_sets):
            named = "; ".join(f"{instance} ({why})" for instance, why in missing[:MOST_NAMED])
            more = f"; and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
            rest = "the means of its row are over the others, and do not compare with other rows"
            what = f"{len(missing)} of {count_of(instance_sets)} instances not solved: {named}{more}"
            lines.append(f"warning: {name}: {what}" + (f"; {rest}" if pairs(solved, instance_sets) else ""))
    return lines


def notices(instance_sets: list[InstanceSet]) -> list[str]:
    """What is not as a user may expect of the instances, a line each: files left out and references not used."""
    left_out = [f"left out: {file}: {why}" for each in instance_sets for file, why in each.left_out.items()]
    return left_out + list(dict.fromkeys(f"warning: {line}" for each in instance_sets for line in each.warnings))


def proven_by(results: Results, instance_sets: list[InstanceSet]) -> list[InstanceSet]:
    """The instance sets with what the methods have proved, see `proven`."""
    return [
        proven(instance_set, [solved[place] for solved in results.values()])
        for place, instance_set in enumerate(instance_sets)
    ]


def contradictions(solved: list[SolvedSet], instance_sets: list[InstanceSet]) -> list[dict]:
    """Instances of which a method's solution is cheaper than a reference said to be optimal or best known."""
    found = []
    for part, instance_set in zip(solved, instance_sets, strict=True):
        for i in contradicted(part.costs, instance_set).nonzero().flatten().tolist():
            costs = {"cost": part.costs[i].item(), "reference": instance_set.references[i].item()}
            found.append({"instance": instance_set.names[i], **costs, "kind": instance_set.kinds[i]})
    return found


def contradiction_lines(results: Results, instance_sets: list[InstanceSet]) -> list[str]:
    """A line for each method whose mean gap has instances that contradict their reference; it names them."""
    lines = []
    for name, solved in results.items():
        if found := contradictions(solved, instance_sets):
            named = [
                f"{x['instance']} ({number(x['cost'])} < {number(x['reference'])}, {x['kind']})"
                for x in found[:MOST_NAMED]
            ]
            more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
            what = f"{len(found)} solution{'s are' if len(found) > 1 else ' is'} cheaper than the reference"
            check = "the mean gap holds only if that reference is of this instance, with the same units and rounding"
            lines.append(f"warning: {name}: {what}: {', '.join(named)}{more}; {check}")
    return lines


def _known(instance_set: InstanceSet) -> int:
    """How many instances have a reference."""
    return int((~instance_set.references.isnan()).sum())


def further_numbers(problem: Problem, solved: list[SolvedSet]) -> dict[str, Tensor]:
    """Further numbers of the solutions of several instance sets, one after the other; NaN where there is none."""
    found: dict[str, list[Tensor]] = {}
    for part in solved:
        for key, values in problem.reports.describe(part.actions).items():
            found.setdefault(key, []).append(values.float().masked_fill(part.costs.isnan(), torch.nan))
    return {key: torch.cat(values) for key, values in found.items()}
