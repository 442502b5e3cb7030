"""Where the nodes of random instances lie, and how often each distribution is drawn.

A distribution is a function (n, count, generator) -> float32 [n, count, 2] in the unit square: n instances of so many
nodes. Sources:
    [Bossek] Bossek et al. 2019, Evolving Diverse TSP Instances by Means of Novel and Creative Mutation Operators (FOGA)
    [Uchoa] Uchoa et al. 2017, New benchmark instances for the Capacitated Vehicle Routing Problem (EJOR 257)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gumbeldore.runtime.checked import is_number

REACH = 0.04  # the attraction of a seed falls with exp(-distance / REACH); 40 on the grid of 1,000 in [Uchoa]
SMALLEST, LARGEST = 0.1, 0.3  # radius of the disc that a mutation changes
THROWN = 0.1  # mean distance by which an explosion throws nodes beyond its disc


def uniform(n: int, count: int, generator: torch.Generator) -> Tensor:
    """Nodes uniform in the square."""
    return _uniform((n, count, 2), generator)


def clustered(n: int, count: int, generator: torch.Generator) -> Tensor:
    """The first 3 to 8 nodes are seeds, uniform in the square; they attract the others [Uchoa, customer positioning C].

    All seeds attract equally many here. Nodes may leave the square, which [Uchoa] rules out: the instance is scaled.
    """
    nodes = uniform(n, count, generator)
    seeds = torch.randint(3, 9, (n, 1), generator=generator).clamp(max=count)
    seed = (_uniform((n, count), generator) * seeds).long()
    # The attraction is a density in the plane, so the distance is a sum of two exponential numbers.
    distance = _exponential((n, count, 2), REACH, generator).sum(dim=2)
    angle = 2 * math.pi * _uniform((n, count), generator)
    beside = torch.stack([angle.cos(), angle.sin()], dim=2) * distance[..., None]
    attracted = nodes.gather(1, seed[..., None].expand(-1, -1, 2)) + beside
    return _into_square(torch.where((torch.arange(count) < seeds)[..., None], nodes, attracted))


def explosion(n: int, count: int, generator: torch.Generator) -> Tensor:
    """Uniform nodes, those in a random disc thrown out of it, away from its centre [Bossek, explosion mutation].

    Beyond the disc they fly an exponential distance. Where nodes leave the square the instance is scaled.
    """
    centre, radius, away, distance = _disc(n, count, generator)
    thrown = radius + _exponential((n, count), THROWN, generator)
    return _into_square(centre + away * torch.where(distance < radius, thrown, distance)[..., None])


def implosion(n: int, count: int, generator: torch.Generator) -> Tensor:
    """Uniform nodes, those in a random disc dragged towards its centre [Bossek, implosion mutation].

    Each keeps a share of its distance, uniform here.
    """
    centre, radius, away, distance = _disc(n, count, generator)
    dragged = distance * _uniform((n, count), generator)
    return _into_square(centre + away * torch.where(distance < radius, dragged, distance)[..., None])


DISTRIBUTIONS = {each.__name__: each for each in (uniform, clustered, explosion, implosion)}


def weights_of(distribution: list | None) -> dict[str, float]:
    """The weights of distributions, [name] or [name, weight] each, by their names; None is uniform.

    Raises ValueError for a name that is not known or comes twice, and for a weight that is not above 0.
    """
    if distribution is None:
        return {"uniform": 1.0}
    if not isinstance(distribution, (list, tuple)) or not distribution:
        raise ValueError(f"distribution must be like [[uniform, 3], [clustered, 1]] or null, got {distribution}")
    weights: dict[str, float] = {}
    for each in distribution:
        name, weight = [*each, 1.0][:2] if isinstance(each, (list, tuple)) and 1 <= len(each) <= 2 else (None, None)
        if name not in DISTRIBUTIONS or not is_number(weight) or weight <= 0:
            names = ", ".join(DISTRIBUTIONS)
            raise ValueError(f"a distribution is [name] or [name, weight above 0] with a name of {names}, got {each}")
        if name in weights:
            raise ValueError(f"each distribution must come once, {name} comes twice in {distribution}")
        weights[name] = float(weight)
    return weights


def drawn(weights: dict[str, float], n: int, generator: torch.Generator) -> dict[str, Tensor]:
    """The distribution of each of n instances, drawn with the weights: by its name, the rows int64 that have it.

    Nothing is drawn of a single distribution.
    """
    if len(weights) == 1:
        return {name: torch.arange(n) for name in weights}
    shares = torch.tensor([weight / max(weights.values()) for weight in weights.values()])  # float32 ends at 3e38
    which = torch.multinomial(shares, n, replacement=True, generator=generator)
    return {name: (which == place).nonzero().squeeze(1) for place, name in enumerate(weights)}


def scattered(rows: dict[str, Tensor], count: int, generator: torch.Generator) -> Tensor:
    """Nodes [n, count, 2] of instances whose distributions have been `drawn`."""
    nodes = torch.empty(sum(map(len, rows.values())), count, 2, dtype=torch.float32)
    for name, of_it in rows.items():
        nodes[of_it] = DISTRIBUTIONS[name](len(of_it), count, generator)
    return nodes


def _uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(shape, dtype=torch.float32, generator=generator)


def _exponential(shape: tuple[int, ...], mean: float, generator: torch.Generator) -> Tensor:
    return -mean * (1 - _uniform(shape, generator)).log()


def _disc(n: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A random disc among uniform nodes: its centre [n, 1, 2] and radius [n, 1], directions and distances from it.

    Returns further the directions [n, count, 2], of length 1, and distances [n, count] of the nodes from the centre.
    """
    nodes, centre = uniform(n, count, generator), uniform(n, 1, generator)
    radius = SMALLEST + (LARGEST - SMALLEST) * _uniform((n, 1), generator)
    distance = (nodes - centre).norm(dim=2)
    return centre, radius, (nodes - centre) / distance[..., None].clamp(min=1e-9), distance


def _into_square(nodes: Tensor) -> Tensor:
    """The nodes [n, count, 2], moved and scaled where some have left the square."""
    low, high = nodes.amin(dim=1, keepdim=True).clamp(max=0), nodes.amax(dim=1, keepdim=True).clamp(min=1)
    return (nodes - low) / (high - low).amax(dim=2, keepdim=True)
