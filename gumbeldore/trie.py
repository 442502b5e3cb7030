"""The search tree of a batch of instances, by depth, in preallocated tensors [GD, section 4.1].

A node is a visited prefix of decisions, addressed by its depth and its slot among the W slots of that depth.
Round r of beam width K writes new nodes into the slots r*K .. (r+1)*K - 1, beam position by beam position, so no
counter and no search is needed. The masses stay those of the original policy; what a policy update adds is kept
apart and only joined when a node is read.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

NO_NODE = -1  # parent of an empty slot; child that has not been visited
NO_KEY = 0


class Trie(NamedTuple):
    log_probs: Tensor  # [T or 1, B, W, A]  log pi(action | node), in the precision of the policy's logits
    log_prob: Tensor  # [T+1, B, W]  float64  log-probability of the prefix under the policy
    log_mass: Tensor  # [T+1, B, W]  float64  log of the part of it that has not been sampled yet
    advantage: Tensor  # [T+1, B, W]  float64  what the updates added to the edge into the node
    visits: Tensor  # [T+1, B, W]  int64  sampled leaves that passed through the node
    parent: Tensor  # [T+1, B, W]  int64  slot of the parent one level up, or NO_NODE
    action: Tensor  # [T+1, B, W]  int64  action on the edge into the node
    key: Tensor  # [T or 1, W, B]  int64  fingerprint of the state the network was asked about, or NO_KEY


class Children(NamedTuple):
    log_mass: Tensor  # [B, K, A]  unsampled mass of each child under the original policy
    advantage: Tensor  # [B, K, A]
    slot: Tensor  # [B, K, A]  the child's slot at the next depth, or NO_NODE


def create(batch: int, horizon: int, slots: int, actions: int, dtype: torch.dtype, device, keep: bool = True) -> Trie:
    """An empty trie for `slots` nodes per depth.

    Arguments:
        dtype: of the stored policy log-probabilities
        keep: False if no later round will read them back: one depth's worth of memory then serves all
    """

    def scalars(fill, dtype):
        return torch.full((horizon + 1, batch, slots), fill, dtype=dtype, device=device)

    trie = Trie(
        # Not initialised: memory that is never visited is never touched.
        log_probs=torch.empty(horizon if keep else 1, batch, slots, actions, dtype=dtype, device=device),
        log_prob=scalars(0.0, torch.float64),
        log_mass=scalars(0.0, torch.float64),
        advantage=scalars(0.0, torch.float64),
        visits=scalars(0, torch.int64),
        parent=scalars(NO_NODE, torch.int64),
        action=scalars(0, torch.int64),
        key=torch.full((horizon if keep else 1, slots, batch), NO_KEY, dtype=torch.int64, device=device),
    )
    return trie


def grow(trie: Trie, slots: int) -> Trie:
    """The same trie with room for `slots` nodes per depth."""
    old = trie.parent.shape[2]
    depths, batch, _, actions = trie.log_probs.shape
    new = create(batch, trie.parent.shape[0] - 1, slots, actions, trie.log_probs.dtype, trie.parent.device, depths > 1)
    for old_field, new_field in zip(trie[:-1], new[:-1], strict=True):
        new_field[:, :, :old] = old_field
    new.key[:, :old] = trie.key
    return new


def memory(trie: Trie) -> int:
    """Bytes of a trie."""
    return sum(field.numel() * field.element_size() for field in trie)


def find_states(trie: Trie, depth: int, first: int, key: Tensor) -> tuple[Tensor, Tensor]:
    """Note the fingerprints [B, K] of new nodes in slots first .. first + K - 1, and who had them first.

    Returns the batch index and the slot [B, K] of the first node of this depth with the same fingerprint, which may be
    the node itself.
    """
    batch, width = key.shape
    known = trie.key[depth % len(trie.key)][: first + width]  # [slots, B]
    known[first:] = key.t()
    ordered, place = known.flatten().sort(stable=True)  # earlier slots come first among equal ones
    found = place[torch.searchsorted(ordered, key)]
    return found % batch, found // batch


def read_log_probs(trie: Trie, depth: int, row: Tensor, slot: Tensor) -> Tensor:
    """The stored policy [..., A] of the nodes at these batch indices and slots."""
    return trie.log_probs[depth % len(trie.log_probs)][row, slot]


def write_log_probs(trie: Trie, depth: int, first: int, log_probs: Tensor) -> None:
    """Store the policy [B, K, A] of the new nodes in slots first .. first + K - 1."""
    trie.log_probs[depth % len(trie.log_probs)][:, first : first + log_probs.shape[1]] = log_probs


def write_nodes(trie: Trie, depth: int, first: int, new: Tensor, parent: Tensor, action: Tensor, mass: Tensor) -> None:
    """Fill slots first .. first + K - 1 with the nodes where `new` [B, K]; the other slots stay empty."""
    block = slice(first, first + new.shape[1])
    trie.parent[depth][:, block] = torch.where(new, parent, NO_NODE)
    trie.action[depth][:, block] = action
    trie.log_prob[depth][:, block] = mass
    trie.log_mass[depth][:, block] = mass


def read_children(trie: Trie, depth: int, node: Tensor, filled: int) -> Children:
    """Masses, advantages and slots of the children of `node` [B, K] (distinct slots).

    A child that was never visited has the mass the policy gives it; a visited one keeps its own account.

    Arguments:
        filled: slots used so far at the next depth
    """
    batch, width = node.shape
    actions = trie.log_probs.shape[-1]
    rows = torch.arange(batch, device=node.device)[:, None]
    log_probs = read_log_probs(trie, depth, rows, node).double()  # [B, K, A]
    log_mass = trie.log_prob[depth].gather(1, node)[..., None] + log_probs
    advantage = torch.zeros_like(log_mass)
    slot = torch.full_like(log_mass, NO_NODE, dtype=torch.int64)
    if filled == 0:
        return Children(log_mass, advantage, slot)

    # Which beam position holds the parent of each visited child; width where none does.
    parent = trie.parent[depth + 1][:, :filled]  # [B, filled]
    position = torch.full((batch, trie.parent.shape[2]), width, dtype=torch.int64, device=node.device)
    position.scatter_(1, node, torch.arange(width, device=node.device).expand(batch, -1))
    holder = position.gather(1, parent.clamp(min=0)).where(parent != NO_NODE, width)
    target = holder * actions + trie.action[depth + 1][:, :filled].where(holder < width, 0)

    def overlay(values: Tensor, visited: Tensor) -> Tensor:
        """`values` with the visited children's own written over them; one spare column takes the rest."""
        padded = torch.cat([values.flatten(1), values.new_zeros(batch, 1)], dim=1)
        return padded.scatter_(1, target, visited)[:, :-1].view(batch, width, actions)

    return Children(
        overlay(log_mass, trie.log_mass[depth + 1][:, :filled]),
        overlay(advantage, trie.advantage[depth + 1][:, :filled]),
        overlay(slot, torch.arange(filled, device=node.device).expand(batch, -1)),
    )
