"""The search tree of a batch of instances, by depth, in preallocated tensors [GD, section 4.1].

A node is a visited prefix of decisions, addressed by its depth and its slot among the W slots of that depth.
Round r of beam width K writes new nodes into the slots r*K .. (r+1)*K - 1, beam position by beam position, so no
counter and no search is needed. The masses stay those of the original policy; what a policy update adds is kept
apart and only joined when a node is read.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

NO_NODE = -1  # parent of an empty slot; child that has not been visited
NO_HASH = 0


class Trie(NamedTuple):
    log_pi: list[Tensor]  # T or 1 of [B, W, A]  log pi(action | node), in the precision of the policy's logits
    log_prob: Tensor  # [T+1, B, W]  float64  log-probability of the prefix under the policy
    log_mass: Tensor  # [T+1, B, W]  float64  log of the part of it that has not been sampled yet
    advantage: Tensor  # [T+1, B, W]  float64  what the updates added to the edge into the node
    parent: Tensor  # [T+1, B, W]  int64  slot of the parent one level up, or NO_NODE
    action: Tensor  # [T+1, B, W]  int64  action on the edge into the node
    # The transposition table: ascending hashes of the states that the network evaluated (NO_HASH where it was not),
    # and the entry slot * C + copy of each. The C beams that are copies of one of the b = B/C instances share a table.
    state_hash: Tensor  # [T or 1, b, W*C]  int64
    state_entry: Tensor  # [T or 1, b, W*C]  int64

    @property
    def slots(self) -> int:
        """W, nodes for which each depth has room."""
        return self.parent.shape[2]

    @property
    def is_path(self) -> bool:
        """Whether it has one node for each depth and no later round reads it, as in a beam search of width 1."""
        return self.state_hash.shape[-1] == 1 and len(self.log_pi) < len(self.parent) - 1


class Children(NamedTuple):
    log_mass: Tensor  # [B, K, A]  unsampled mass of each child under the original policy
    advantage: Tensor  # [B, K, A]
    slot: Tensor  # [B, K, A]  the child's slot at the next depth, or NO_NODE


def create(
    batch: int,
    horizon: int,
    slots: int,
    actions: int,
    dtype: torch.dtype,
    device: torch.device | str,
    keep: bool,
    copies: int,
) -> Trie:
    """An empty trie for `slots` nodes per depth.

    Arguments:
        batch: B, beams
        dtype: of the stored policy log-probabilities
        keep: False if no later round will read them back: one depth's worth of memory then serves all
        copies: C, number of beams one after the other that are copies of one instance, and share its states
    """

    def scalars(fill, dtype):
        return torch.full((horizon + 1, batch, slots), fill, dtype=dtype, device=device)

    table = torch.empty(horizon if keep else 1, batch // copies, slots * copies, dtype=torch.int64, device=device)
    return Trie(
        # Not initialised: memory that is never visited is never touched.
        log_pi=[torch.empty(batch, slots, actions, dtype=dtype, device=device) for _ in range(horizon if keep else 1)],
        log_prob=scalars(0.0, torch.float64),
        log_mass=scalars(0.0, torch.float64),
        advantage=scalars(0.0, torch.float64),
        parent=scalars(NO_NODE, torch.int64),
        action=scalars(0, torch.int64),
        state_hash=table,
        state_entry=torch.empty_like(table),
    )


def grow(trie: Trie, slots: int) -> Trie:
    """The same trie with room for `slots` nodes per depth, in place of the old one.

    Log-probabilities, most of the memory, move depth by depth: there are never two copies of all.
    """
    more = slots - trie.slots
    for depth, log_pi in enumerate(trie.log_pi):
        trie.log_pi[depth] = pad(log_pi, (0, 0, 0, more))
    scalars = (pad(field, (0, more), value=NO_NODE if field is trie.parent else 0) for field in trie[1:-2])
    copies = trie.state_hash.shape[-1] // trie.slots
    return Trie._make([trie.log_pi, *scalars, *(pad(field, (0, more * copies)) for field in trie[-2:])])


def below(trie: Trie, depth: int) -> Trie:
    """The same trie without the levels above `depth`, for beams that start there, in place of the old one."""
    return Trie._make(field[depth:] if len(field) > 1 else field for field in trie)


def unsampled(trie: Trie, root: Tensor) -> Tensor:
    """bool [B]: whether anything below the roots (slots [B] of the first level) has not been sampled yet."""
    return trie.log_mass[0].gather(1, root[:, None]).squeeze(1) > -math.inf


def memory(trie: Trie) -> int:
    """Bytes of a trie."""
    return sum(field.numel() * field.element_size() for field in [*trie.log_pi, *trie[1:]])


def places(trie: Trie, slot: Tensor) -> Tensor:
    """Where the nodes in these slots, [B, K] or the same [K] of all, are among all B * W of a depth: [B, K]."""
    return trie.slots * torch.arange(trie.parent.shape[1], device=slot.device)[:, None] + slot


def read_policy(trie: Trie, depth: int, place: Tensor) -> Tensor:
    """The stored policy [..., A] of the nodes at these places."""
    stored = trie.log_pi[depth % len(trie.log_pi)].flatten(0, 1)
    return stored.index_select(0, place.flatten()).view(*place.shape, -1)


def write_policy(trie: Trie, depth: int, place: Tensor, log_pi: Tensor) -> None:
    """Store the policy [..., A] of the nodes at these places."""
    stored = trie.log_pi[depth % len(trie.log_pi)].flatten(0, 1)
    stored.index_copy_(0, place.flatten(), log_pi.view(-1, stored.shape[1]))


def write_nodes(trie: Trie, depth: int, filled: int, new: Tensor, parent: Tensor, action: Tensor, mass: Tensor) -> None:
    """Fill slots filled .. filled + K - 1 with the nodes where `new` [B, K]; the other slots stay empty."""
    block = slice(filled, filled + new.shape[1])
    trie.parent[depth][:, block] = torch.where(new, parent, NO_NODE)
    trie.action[depth][:, block] = action
    trie.log_prob[depth][:, block] = mass
    trie.log_mass[depth][:, block] = mass


def read_children(trie: Trie, depth: int, node: Tensor, filled: int) -> Children:
    """Masses, advantages and slots of the children of `node` [B, K] (distinct slots).

    A child that was never visited has the mass the policy gives it, no advantage and no slot; a visited one its own.

    Arguments:
        filled: slots used so far at the next depth
    """
    visited = _visited(trie, depth, node, filled)
    log_mass = _log_mass(trie, depth, node, visited)
    slot = torch.arange(filled, device=node.device).expand(len(node), -1)
    return Children(
        log_mass,
        _overlaid(torch.zeros_like(log_mass), visited, trie.advantage[depth + 1]),
        _overlaid(torch.full_like(log_mass, NO_NODE, dtype=torch.int64), visited, slot),
    )


def read_log_mass(trie: Trie, depth: int, node: Tensor, filled: int) -> Tensor:
    """`read_children(...).log_mass` alone."""
    return _log_mass(trie, depth, node, _visited(trie, depth, node, filled))


def _log_mass(trie: Trie, depth: int, node: Tensor, visited: Tensor) -> Tensor:
    """The masses of `read_children`, given `_visited`."""
    log_pi = read_policy(trie, depth, places(trie, node))  # [B, K, A]
    unvisited = trie.log_prob[depth].gather(1, node)[..., None] + log_pi
    return _overlaid(unvisited, visited, trie.log_mass[depth + 1])


def _visited(trie: Trie, depth: int, node: Tensor, filled: int) -> Tensor:
    """Which of the K * A children of `node` each node [B, filled] one level deeper is; K * A: none of them."""
    batch, width = node.shape
    actions = trie.log_pi[0].shape[-1]
    parent = trie.parent[depth + 1][:, :filled]
    position = torch.full((batch, trie.slots), width, dtype=torch.int64, device=node.device)
    position.scatter_(1, node, torch.arange(width, device=node.device).expand(batch, -1))
    holder = position.gather(1, parent.clamp(min=0)).where(parent != NO_NODE, width)
    return holder * actions + trie.action[depth + 1][:, :filled].where(holder < width, 0)


def _overlaid(values: Tensor, visited: Tensor, own: Tensor) -> Tensor:
    """`values` [B, K, A] with the visited children's own [B, >= filled] written over them."""
    if visited.shape[1] == 0:
        return values
    padded = pad(values.flatten(1), (0, 1))  # one spare column takes those of other nodes
    return padded.scatter_(1, visited, own)[:, :-1].view(values.shape)
