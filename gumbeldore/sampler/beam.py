"""The one beam loop: every decoder of the project is a round of it with other knobs [SBS, algorithm 1].

expand the beam's nodes -> perturb the children's log-probabilities -> keep the best K -> step, T times over.
Nodes met in earlier rounds come from the trie; only new ones with a real choice go through the network, and of those
in the same state, reached by different decisions, only one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.interfaces import Policy, Problem, take
from gumbeldore.runtime.errors import refuse
from gumbeldore.sampler import trie as trie_ops
from gumbeldore.sampler.transpositions import state_hash
from gumbeldore.sampler.trie import Trie

# (log-probabilities of the children [B, K, A], perturbed log-probability of their parents [B, K], depth) -> scores
Perturb = Callable[[Tensor, Tensor, int], Tensor]


class SearchContext(NamedTuple):
    """What stays the same from round to round."""

    problem: Problem
    policy: Policy
    instance: Any  # [B*K, ...] each instance K times
    context: Any  # [B, ...] the policy's view of each instance
    state: Any  # [B*K, ...] before the first decision
    keys: Tensor  # [b] the random keys these instances came with
    batch: int
    width: int
    horizon: int
    actions: int


class Leaves(NamedTuple):
    """The leaves of one round in decreasing order of their score, and the beams that led to them."""

    actions: Tensor  # [B, K, T]
    log_prob: Tensor  # [B, K] of all decisions under the policy
    phi: Tensor  # [B, K] under the distribution this round sampled from
    gumbel: Tensor  # [B, K] perturbed log-probability
    valid: Tensor  # [B, K] False where fewer than K leaves were left
    node: Tensor  # [T+1, B, K] trie slot of each beam position
    parent: Tensor  # [T+1, B, K] position in the beam one level up (0 at the root)
    path: Tensor  # [T+1, B, K] beam position of each leaf's ancestor
    filled: int  # trie slots used per depth, this round included


class Count(NamedTuple):
    """How the states of the beam got their action probabilities."""

    evaluated: int = 0  # by the network
    forced: int = 0  # not at all: one legal action
    reused: int = 0  # from an earlier round
    repeated: int = 0  # from another node in the same state


def sample_round(
    roots: SearchContext, trie: Trie, filled: int, perturb: Perturb, root_gumbel: Tensor, top_p: float
) -> tuple[Leaves, Count]:
    """Run the beam from the root to the leaves.

    Arguments:
        filled: trie slots per depth used by earlier rounds
        root_gumbel: perturbed log-probability [B] of the root
        top_p: nucleus: each node keeps its smallest set of most likely actions with at least this probability

    Raises InstanceError if the policy gives no usable probabilities.
    """
    batch, width, horizon = roots.batch, roots.width, roots.horizon
    device = root_gumbel.device
    position = torch.arange(width, device=device)
    reserved = (filled + position).expand(batch, -1)  # slot of a new node at each beam position
    row = torch.arange(batch, device=device)[:, None] * width  # first flat row of each instance

    # Only beam position 0 holds a node at first: the root, which always lives in slot 0.
    node = reserved.where(position > 0, 0)
    alive = (trie.log_mass[0][:, :1] > -math.inf) & (position == 0)
    phi = torch.zeros(batch, width, dtype=torch.float64, device=device)
    gumbel = root_gumbel[:, None].where(alive, -math.inf)
    parent = torch.zeros_like(node)
    state = roots.state
    history = [(node, parent, parent)]  # (slot, parent position, action) per depth
    broken = torch.zeros(batch, dtype=torch.bool, device=device)
    count = Count()

    for depth in range(horizon):
        legal = roots.problem.mask(roots.instance, state)  # [B*K, A]
        new = alive & (node >= filled)
        log_probs, count = evaluate(roots, trie, depth, filled, state, legal, new, count)
        count = count._replace(reused=count.reused + (alive & ~new).sum())
        broken |= (new & ~log_probs.amax(dim=-1).isfinite()).any(dim=1)

        children = trie_ops.read_children(trie, depth, node, filled)
        conditional = nucleus(normalised(children.log_mass + children.advantage), top_p)
        child_phi = phi[..., None] + conditional  # [B, K, A]
        score = perturb(child_phi, gumbel, depth).masked_fill(~alive[..., None], -math.inf)

        gumbel, best = score.flatten(1).topk(width, dim=1)  # [B, K]
        alive = gumbel > -math.inf
        # An empty beam position follows the first node along any legal action: harmless, and legal to step.
        fallback = legal.view(batch, width, -1)[:, 0].int().argmax(dim=1, keepdim=True)
        best = best.where(alive, fallback)
        parent, action = best // roots.actions, best % roots.actions
        phi = child_phi.flatten(1).gather(1, best)
        slot = children.slot.flatten(1).gather(1, best)
        mass = children.log_mass.flatten(1).gather(1, best)
        grown = alive & (slot == trie_ops.NO_NODE)
        trie_ops.write_nodes(trie, depth + 1, filled, grown, node.gather(1, parent), action, mass)
        node = slot.where(alive & ~grown, reserved)
        history.append((node, parent, action))
        if depth + 1 < horizon:
            origin = (row + parent).flatten()
            state = roots.problem.step(roots.instance, take(state, origin), action.flatten())

    rule = "the policy's logits are NaN, +inf or all -inf on the legal actions of a state, or its mask has no legal one"
    check_instances(roots, broken, rule)
    return _trace_back(history, trie.log_prob[-1], phi, gumbel, alive, filled + width), count


def evaluate(
    roots: SearchContext, trie: Trie, depth: int, filled: int, state: Any, legal: Tensor, new: Tensor, count: Count
) -> tuple[Tensor, Count]:
    """Store and return log pi [B, K, A] of the nodes in `new` [B, K]; other entries mean nothing.

    Packing the rows that need the network is the one host sync of a step.
    """
    batch, width = new.shape
    choice = (legal.sum(dim=-1) > 1).view(batch, width)
    ask = new & choice
    canonical = roots.policy.canonical_state(roots.instance, state)
    key = state_hash(canonical).view(batch, width).where(ask, trie_ops.NO_KEY)
    known = trie_ops.find_states(trie, depth, filled, key)
    own = trie_ops.places(trie, filled + torch.arange(width, device=new.device))
    rows = (ask & (known == own)).flatten().nonzero().squeeze(1)
    dtype = trie.log_probs.dtype
    if len(rows):
        with torch.profiler.record_function("policy"):
            logits = roots.policy(take(roots.context, rows // width), take(state, rows))
        logits = logits.double().masked_fill(~legal.index_select(0, rows), -math.inf)
        trie_ops.write_log_probs(trie, depth, own.flatten().index_select(0, rows), normalised(logits).to(dtype))
    certain = torch.zeros_like(legal, dtype=dtype).masked_fill_(~legal, -math.inf).view(batch, width, -1)
    log_probs = trie_ops.read_log_probs(trie, depth, known).where(ask[..., None], certain)
    trie_ops.write_log_probs(trie, depth, own, log_probs)
    count = count._replace(
        evaluated=count.evaluated + len(rows),
        forced=count.forced + (new & ~choice).sum(),
        repeated=count.repeated + ask.sum() - len(rows),
    )
    return log_probs, count


def check_instances(roots: SearchContext, wrong: Tensor, rule: str) -> None:
    """Raises InstanceError for the first instance of which a copy is `wrong` [B]; a host sync, so once per round."""
    refuse(wrong.view(len(roots.keys), -1).any(dim=1), roots.keys, rule)


def nucleus(log_probs: Tensor, top_p: float) -> Tensor:
    """Keep the smallest set of most likely actions that reaches probability top_p, renormalised [GD, section 4.2.2]."""
    if top_p >= 1:
        return log_probs
    ordered, order = log_probs.sort(dim=-1, descending=True)
    probabilities = ordered.exp_()
    before = probabilities.cumsum(dim=-1) - probabilities  # of the more likely ones
    kept = torch.zeros_like(log_probs, dtype=torch.bool).scatter_(-1, order, before < top_p)
    return normalised(log_probs.masked_fill(~kept, -math.inf))


def normalised(log_probs: Tensor) -> Tensor:
    """Log-probabilities [..., A] that sum to one: log_softmax, in half of its time where A is small.

    Its rounding is relative to the largest of them, which torch's first subtracts: 1e-13 for masses of e^-700.
    """
    return log_probs - log_probs.logsumexp(dim=-1, keepdim=True)


def _trace_back(history: list, log_prob: Tensor, phi: Tensor, gumbel: Tensor, valid: Tensor, filled: int) -> Leaves:
    """Follow every leaf up to the root.

    Arguments:
        log_prob: [B, W] of the trie's leaves
    """
    node, parent, action = (torch.stack(field) for field in zip(*history, strict=True))  # [T+1, B, K]
    path = torch.empty_like(parent)
    actions = torch.empty_like(action[1:])  # [T, B, K]
    path[-1] = torch.arange(parent.shape[2], device=parent.device)
    for depth in range(len(path) - 1, 0, -1):
        actions[depth - 1] = action[depth].gather(1, path[depth])
        path[depth - 1] = parent[depth].gather(1, path[depth])
    log_prob = log_prob.gather(1, node[-1])
    return Leaves(actions.permute(1, 2, 0), log_prob, phi, gumbel, valid, node, parent, path, filled)
