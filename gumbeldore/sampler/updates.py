"""What a round teaches the next one: changes of the trie between rounds [GD, section 4].

Objectives [B, K] are to be maximised (negative costs); everything is float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from gumbeldore.sampler import trie as trie_ops
from gumbeldore.sampler.beam import Leaves
from gumbeldore.sampler.estimators import estimate_expectation, importance_log_weights
from gumbeldore.sampler.trie import Trie

Update = Callable[[Trie, Leaves, Tensor], None]  # writes into the trie what a round with these objectives teaches


def without_replacement(trie: Trie, leaves: Leaves) -> None:
    """Take the sampled leaves out of the tree.

    The masses of their ancestors are recomputed bottom-up from their children's, not subtracted: nothing cancels,
    and an exhausted subtree has exactly no mass left.
    """
    horizon = len(leaves.path) - 1
    passed = _per_beam_node(leaves, leaves.valid.long()) > 0
    trie.log_mass[horizon].scatter_(1, leaves.node[-1], _leaf_mass(trie, leaves))
    for depth in range(horizon - 1, -1, -1):
        node = leaves.node[depth]
        of_children = trie_ops.read_log_mass(trie, depth, node, leaves.filled)
        mass = of_children.logsumexp(dim=-1).where(passed[depth], trie.log_mass[depth].gather(1, node))
        trie.log_mass[depth].scatter_(1, node, mass)


def gumbeldore(trie: Trie, leaves: Leaves, objective: Tensor, step_size: float, baseline: str = "estimate") -> None:
    """Shift the policy toward better leaves [GD, eq. 6, algorithm 2].

    step_size * (objective - baseline) of every leaf is added to every edge of its path.

    Arguments:
        step_size: sigma >= 0, in units of 1 / objective
        baseline: "estimate" (of the round's expectation from its weights) or "none" (the raw outcome; for games)
    """
    without_replacement(trie, leaves)
    advantage = objective - BASELINES[baseline](objective, leaves)[:, None]
    advantage = advantage.masked_fill(~leaves.valid, 0.0)
    added = _per_beam_node(leaves, step_size * advantage)[1:]  # [T, B, K]; no edge leads into the root
    trie.advantage[1:].scatter_add_(2, leaves.node[1:], added)


def theory(trie: Trie, leaves: Leaves, objective: Tensor, step_size: float, threshold: str = "node") -> None:
    """The update with a guarantee: each edge gets step_size * (E[f | child] - E[f | parent]) [GD, eq. 1 and 5].

    Both expectations are estimated from the round's leaves through the node; parents with a single leaf are left
    alone. With exact expectations the expected objective cannot fall [GD, appendix B].

    Arguments:
        step_size: sigma >= 0, in units of 1 / objective
        threshold: kappa of a node's importance weights. "node": the smallest perturbed log-probability of its own
            leaves, as equation 5 is printed. "round": that of the round, which leaves out one leaf in all, not one of
            each node, and is the better estimate (docs/decisions.md)
    """
    without_replacement(trie, leaves)
    kappa = _smallest_per_beam_node(leaves) if threshold == "node" else None
    log_weights = importance_log_weights(leaves.phi, leaves.gumbel, leaves.valid, kappa)
    expected = _expectation_per_beam_node(leaves, log_weights, objective)
    passed = _per_beam_node(leaves, leaves.valid.long())
    parent = leaves.parent[1:]  # [T, B, K]
    gain = expected[1:] - expected[:-1].gather(2, parent)
    gain = gain.where((passed[1:] > 0) & (passed[:-1].gather(2, parent) >= 2), 0.0)
    trie.advantage[1:].scatter_add_(2, leaves.node[1:], step_size * gain)


def _estimated(objective: Tensor, leaves: Leaves) -> Tensor:
    return estimate_expectation(objective, leaves.phi, leaves.gumbel, leaves.valid)


def _none(objective: Tensor, leaves: Leaves) -> Tensor:
    return objective.new_zeros(len(objective))


BASELINES = {"estimate": _estimated, "none": _none}


def _leaf_mass(trie: Trie, leaves: Leaves) -> Tensor:
    return trie.log_mass[-1].gather(1, leaves.node[-1]).masked_fill(leaves.valid, -math.inf)


def _per_beam_node(leaves: Leaves, values: Tensor) -> Tensor:
    """Sum [T+1, B, K] of the leaves' values [B, K], or [T+1, B, K], over those through each beam position."""
    values = values.masked_fill(~leaves.valid, 0).expand_as(leaves.path)
    return torch.zeros_like(leaves.path, dtype=values.dtype).scatter_add_(2, leaves.path, values)


def _smallest_per_beam_node(leaves: Leaves) -> Tensor:
    """For each node on a leaf's path [T+1, B, K] the smallest perturbed log-probability of the leaves through it."""
    gumbel = leaves.gumbel.masked_fill(~leaves.valid, math.inf).expand_as(leaves.path)
    smallest = torch.full_like(gumbel, math.inf).scatter_reduce_(2, leaves.path, gumbel, "amin")
    return smallest.gather(2, leaves.path)


def _expectation_per_beam_node(leaves: Leaves, log_weights: Tensor, objective: Tensor) -> Tensor:
    """Weighted mean [T+1, B, K] of the objective of the leaves through each beam position, NaN where there are none."""
    log_weights = log_weights.expand_as(leaves.path)
    largest = log_weights.new_full(leaves.path.shape, -math.inf).scatter_reduce_(2, leaves.path, log_weights, "amax")
    largest = largest.gather(2, leaves.path)  # -inf if its only leaf sets the threshold and has the weight 0
    weights = (log_weights - largest).exp().where(largest > -math.inf, 1.0)
    return _per_beam_node(leaves, weights * objective) / _per_beam_node(leaves, weights)
