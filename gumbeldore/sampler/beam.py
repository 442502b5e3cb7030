"""The one beam loop: sampling and beam search are this loop with other settings [SBS, algorithm 1].

expand the beam's nodes -> perturb the children's log-probabilities -> keep the best K -> step, T times over.
Nodes met in earlier rounds come from the trie. Only new nodes with a real choice go through the network, and nodes in
the same state only once.
"""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.batches import take
from gumbeldore.interfaces import Policy
from gumbeldore.runtime.errors import raise_for_instance
from gumbeldore.sampler import trie as trie_ops
from gumbeldore.sampler.task import SearchTask
from gumbeldore.sampler.transpositions import first_in_same_state, state_hash
from gumbeldore.sampler.trie import Children, Trie

NO_PROBABILITIES = (
    "the policy's logits are NaN, +inf or all -inf on the legal actions of a state, or its mask has no legal one"
)

NO_COST = "the cost of a solution is NaN or infinite"

# (log-probabilities of the children [B, K, A], perturbed log-probability of their parents [B, K], depth) -> scores
Perturb = Callable[[Tensor, Tensor, int], Tensor]
# (scores [B, K, A], -inf: impossible) -> those of the K children that are kept [B, K], and their places among all K * A
Select = Callable[[Tensor], tuple[Tensor, Tensor]]


def most_likely(score: Tensor) -> tuple[Tensor, Tensor]:
    """The K children of the highest scores."""
    return score.flatten(1).topk(score.shape[1], dim=1)


class Root(NamedTuple):
    """Where the rounds start in the search tree."""

    slot: Tensor  # [B] of its node in the first level of the trie
    state: Any  # [B*K, ...]
    horizon: int  # T, decisions below it
    complete: Callable[[Tensor], Tensor]  # decisions below it [B*K, T] -> all decisions of the solutions


class SearchContext(NamedTuple):
    """What stays the same from round to round, as long as the root does."""

    task: SearchTask
    instance: Any  # [B*K, ...] each instance of the task K times
    root: Root
    width: int  # K
    temperature: float
    select: Select


class OutOfTime(Exception):
    """A round has been abandoned at the deadline. Its states so far count all the same."""

    def __init__(self, states: Count):
        super().__init__()
        self.states = states


class Leaves(NamedTuple):
    """The leaves of one round in decreasing order of what `select` ranks by, and the beams that led to them."""

    actions: Tensor  # [B, K, T]
    log_prob: Tensor  # [B, K] of all decisions under the policy
    phi: Tensor  # [B, K] under the distribution this round sampled from
    gumbel: Tensor  # [B, K] perturbed log-probability
    valid: Tensor  # [B, K] False where fewer than K leaves were left
    node: Tensor  # [T+1, B, K] trie slot of each beam position
    parent: Tensor  # [T+1, B, K] position in the beam one level up (0 at the root)
    path: Tensor  # [T+1, B, K] beam position of each leaf's ancestor
    filled: int  # trie slots used per depth, this round included


class Prefixes(NamedTuple):
    """The prefixes of one depth, in decreasing order of what `select` ranks by; empty positions come last."""

    node: Tensor  # [B, K] trie slot
    phi: Tensor  # [B, K] log-probability under the distribution of the round
    gumbel: Tensor  # [B, K] perturbed log-probability
    alive: Tensor  # [B, K] False: the position is empty


class Count(NamedTuple):
    """How the states of the beam got their action probabilities."""

    evaluated: int = 0  # by the network
    forced: int | Tensor = 0  # not at all: one legal action (summed up on the device)
    reused: int | Tensor = 0  # from an earlier round
    repeated: int | Tensor = 0  # from another node in the same state

    def plus(self, other: Count) -> Count:
        return Count(*map(operator.add, self, other))


def sample_round(
    context: SearchContext, trie: Trie, filled: int, perturb: Perturb, root_gumbel: Tensor, top_p: float
) -> tuple[Leaves, Count]:
    """Run the beam from the root to the leaves.

    Arguments:
        trie: from the depth of the root on
        filled: trie slots per depth used by earlier rounds
        root_gumbel: perturbed log-probability [B] of the root
        top_p: nucleus: each node keeps its smallest set of most likely actions with at least this probability

    Raises InstanceError if the policy gives no usable probabilities, and OutOfTime at the deadline.
    """
    task, root = context.task, context.root
    batch, device = task.batch, root_gumbel.device
    row = torch.arange(batch, device=device)[:, None] * context.width  # first flat row of each instance
    beam = _root_beam(trie, filled, context, root_gumbel)
    state = root.state
    history = [(beam.node, torch.zeros_like(beam.node), torch.zeros_like(beam.node))]
    broken = torch.zeros(batch, dtype=torch.bool, device=device)
    count = Count()

    for depth in range(root.horizon):
        if time.monotonic() >= task.deadline:
            raise OutOfTime(count)
        legal = task.problem.mask(context.instance, state)  # [B*K, A]
        new = beam.alive & (beam.node >= filled)
        log_pi, asked = _log_pi(context, trie, depth, filled, state, legal, new)
        count = count.plus(asked._replace(reused=(beam.alive & ~new).sum()))
        broken |= (new & ~log_pi.amax(dim=-1).isfinite()).any(dim=1)

        children = trie_ops.read_children(trie, depth, beam.node, filled)
        phi = beam.phi[..., None] + nucleus(normalised(children.log_mass + children.advantage), top_p)  # [B, K, A]
        score = perturb(phi, beam.gumbel, depth).masked_fill(~beam.alive[..., None], -math.inf)
        kept = _selected(context.select, children, phi, score, legal)
        beam = _entered(trie, depth + 1, filled, beam.node, kept)

        history.append((beam.node, kept.parent, kept.action))
        if depth + 1 < root.horizon:
            origin = (row + kept.parent).flatten()
            state = task.problem.step(context.instance, take(state, origin), kept.action.flatten())

    check_instances(task, broken, NO_PROBABILITIES)
    return _trace_back(history, trie.log_prob[-1], beam, filled + context.width), count


def _root_beam(trie: Trie, filled: int, context: SearchContext, root_gumbel: Tensor) -> Prefixes:
    """Beam position 0 holds the root; the other positions are empty."""
    batch, width = context.task.batch, context.width
    root = context.root.slot
    position = torch.arange(width, device=root_gumbel.device)
    node = (filled + position).expand(batch, -1).where(position > 0, root[:, None])
    alive = trie_ops.unsampled(trie, root)[:, None] & (position == 0)
    phi = torch.zeros(batch, width, dtype=torch.float64, device=root_gumbel.device)
    return Prefixes(node, phi, root_gumbel[:, None].where(alive, -math.inf), alive)


class Kept(NamedTuple):
    """The K children that a step keeps, all [B, K]; slot and mass as in `Children`, the last three as in `Prefixes`."""

    parent: Tensor  # position in the beam
    action: Tensor
    slot: Tensor
    mass: Tensor
    phi: Tensor
    gumbel: Tensor
    alive: Tensor


def _selected(select: Select, children: Children, phi: Tensor, score: Tensor, legal: Tensor) -> Kept:
    """The children that `select` keeps.

    Arguments:
        phi, score: [B, K, A] log-probabilities of the children, and perturbed
    """
    batch, width, actions = score.shape
    gumbel, best = select(score)  # [B, K]
    alive = gumbel > -math.inf
    # An empty position copies the first node with a legal action, so that `step` gets one; its score stays -inf.
    fallback = legal.view(batch, width, -1)[:, 0].int().argmax(dim=1, keepdim=True)
    best = best.where(alive, fallback)
    slot, mass, phi = (x.flatten(1).gather(1, best) for x in (children.slot, children.log_mass, phi))
    return Kept(best // actions, best % actions, slot, mass, phi, gumbel, alive)


def _entered(trie: Trie, depth: int, filled: int, parents: Tensor, kept: Kept) -> Prefixes:
    """The beam of the kept children, which are in the trie from now on.

    Arguments:
        depth: of the children
        parents: [B, K] trie slots of the beam that they were selected from
    """
    batch, width = parents.shape
    grown = kept.alive & (kept.slot == trie_ops.NO_NODE)
    trie_ops.write_nodes(trie, depth, filled, grown, parents.gather(1, kept.parent), kept.action, kept.mass)
    reserved = (filled + torch.arange(width, device=parents.device)).expand(batch, -1)  # a new node's, by position
    return Prefixes(kept.slot.where(kept.alive & ~grown, reserved), kept.phi, kept.gumbel, kept.alive)


def _log_pi(
    context: SearchContext, trie: Trie, depth: int, filled: int, state: Any, legal: Tensor, new: Tensor
) -> tuple[Tensor, Count]:
    """Store and return log pi [B, K, A] of the nodes in `new` [B, K], with their count; other entries mean nothing.

    Packing the rows that need the network is the one host sync of a step.
    """
    batch, width = new.shape
    policy, encoded = context.task.policy, context.task.encoded
    choice = (legal.sum(dim=-1) > 1).view(batch, width)
    ask = new & choice
    canonical = policy.canonical_state(context.instance, state)
    own = known = trie_ops.places(trie, filled + torch.arange(width, device=new.device))  # [B, K]
    if not trie.is_path:  # which meets no state twice
        hashes = state_hash(canonical).view(batch, width).where(ask, trie_ops.NO_HASH)
        known = first_in_same_state(trie, depth, filled, hashes)
    rows = (ask & (known == own)).flatten().nonzero().squeeze(1)
    dtype = trie.log_pi[0].dtype
    if len(rows):
        of_rows = take(encoded, rows // width), take(canonical, rows), legal.index_select(0, rows)
        log_pi = log_probabilities(policy, *of_rows, context.temperature)
        trie_ops.write_policy(trie, depth, own.flatten().index_select(0, rows), log_pi.to(dtype))
    certain = torch.zeros_like(legal, dtype=dtype).masked_fill_(~legal, -math.inf).view(batch, width, -1)
    log_pi = trie_ops.read_policy(trie, depth, known).where(ask[..., None], certain)
    trie_ops.write_policy(trie, depth, own, log_pi)
    return log_pi, Count(len(rows), forced=(new & ~choice).sum(), repeated=ask.sum() - len(rows))


def log_probabilities(policy: Policy, context: Any, state: Any, legal: Tensor, temperature: float = 1.0) -> Tensor:
    """log pi [R, A] float64 of the policy in these states, -inf for actions that are not legal [R, A]."""
    with torch.profiler.record_function("policy"):
        logits = policy(context, state)
    check_logits(logits, *legal.shape)
    return normalised(_tempered(logits.double().masked_fill(~legal, -math.inf), temperature))


def check_logits(logits: Any, rows: int, actions: int) -> None:
    """Raises ValueError unless a policy has given floating-point numbers [rows, actions]."""
    found = type(logits).__name__
    if isinstance(logits, Tensor):
        if logits.shape == (rows, actions) and logits.is_floating_point():
            return
        found = f"{logits.dtype} {list(logits.shape)}"
    wanted = f"a Tensor of floating-point numbers [rows, actions] = {[rows, actions]}"
    raise ValueError(f"the logits of a policy must be {wanted}, got {found}")


def _tempered(logits: Tensor, temperature: float) -> Tensor:
    """The logits [R, A] divided by the temperature [SBS, eq. 5]; the largest are 0 then, so that nothing overflows."""
    if temperature == 1:
        return logits
    return (logits - logits.amax(dim=-1, keepdim=True)) / temperature


def check_instances(task: SearchTask, wrong: Tensor, rule: str) -> None:
    """Raises InstanceError for the first instance of which a copy is `wrong` [B]; a host sync, so once per round."""
    raise_for_instance(wrong.view(len(task.given_keys), -1).any(dim=1), task.given_keys, rule)


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

    torch's log_softmax subtracts the maximum first. Without that the error grows with the size of the inputs: it is
    about 1e-13 for log-masses of -700.
    """
    return log_probs - log_probs.logsumexp(dim=-1, keepdim=True)


def _trace_back(history: list[tuple[Tensor, Tensor, Tensor]], log_prob: Tensor, beam: Prefixes, filled: int) -> Leaves:
    """Follow every leaf up to the root.

    Arguments:
        history: (slot, parent's position, action) [B, K] per depth
        log_prob: [B, W] of the trie's leaves
        beam: of the leaves
    """
    node, parent, action = (torch.stack(field) for field in zip(*history, strict=True))  # [T+1, B, K]
    path = torch.empty_like(parent)
    actions = torch.empty_like(action[1:])  # [T, B, K]
    path[-1] = torch.arange(parent.shape[2], device=parent.device)
    for depth in range(len(path) - 1, 0, -1):
        actions[depth - 1] = action[depth].gather(1, path[depth])
        path[depth - 1] = parent[depth].gather(1, path[depth])
    log_prob = log_prob.gather(1, node[-1])
    return Leaves(actions.permute(1, 2, 0), log_prob, beam.phi, beam.gumbel, beam.alive, node, parent, path, filled)
