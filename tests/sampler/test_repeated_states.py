"""No state goes through the network twice, and that changes no result."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from gumbeldore.interfaces import Policy, Problem
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search
from gumbeldore.sampler.transpositions import state_hash
from tests.helpers.repeated_states import CASES, KEYS, check_sharing

METHODS = {
    "gumbeldore": methods.Gumbeldore(8, 3, 0.3),
    "wor, one round": methods.WithoutReplacement(32, 1),
    "sampling": methods.Sampling(8, 2),
    "beam": methods.Beam(8),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_each_state_is_asked_about_once(case, method, monkeypatch):
    check_sharing(*CASES[case], METHODS[method], monkeypatch)


class Sample(NamedTuple):
    place: Tensor
    times: Tensor
    flag: Tensor


def test_fingerprints_tell_states_apart():
    n = 20_000
    generator = torch.Generator().manual_seed(0)
    state = Sample(
        torch.randint(0, 4, (n, 5), generator=generator),
        torch.randint(0, 3, (n, 4), generator=generator).float(),
        torch.rand(n, generator=generator) < 0.5,
    )
    rows = torch.cat([field.view(n, -1).double() for field in state], dim=1)
    _, same_row = rows.unique(dim=0, return_inverse=True)
    _, same_print = state_hash(state).unique(return_inverse=True)
    pairs = torch.stack([same_row, same_print]).unique(dim=1)
    assert pairs.shape[1] == same_row.max() + 1 == same_print.max() + 1  # one to one
    assert same_row.max() + 1 < n  # and some rows are equal


def test_no_two_of_a_million_regular_states_have_the_same_fingerprint():
    """Differences that a sum of multiples could lose: sets of numbers, and floats that differ in high bits only."""
    sets = torch.tensor(list(itertools.combinations(range(20), 10)))  # [184756, 10]
    digits = torch.arange(10).float()
    counts = torch.cartesian_prod(*[digits] * 6)  # [1000000, 6]
    for field in (sets, counts, counts * 2.0**60, counts.to(torch.bfloat16), counts.half(), counts.double()):
        state = Sample(field[:, :2], field[:, 2:], torch.zeros(len(field)))
        assert len(state_hash(state).unique()) == len(field)


def test_numbers_of_a_type_without_fingerprints_are_refused_by_the_name_of_their_field():
    for wrong in (torch.complex64, torch.float8_e4m3fn):
        state = Sample(torch.zeros(2), torch.zeros(2, 3).to(wrong), torch.zeros(2))
        with pytest.raises(ValueError, match=f"^field times of the state must be bool, .*; it is {wrong}$"):
            state_hash(state)


class Position(NamedTuple):
    x: Tensor  # [R]


class Walk(Problem):
    """Four steps to the left or to the right of 0, where at -2 and 2 the only way is back: a state of zeros alone."""

    name = "walk"

    def generate(self, n: int, generator: torch.Generator) -> Position:
        return Position(torch.zeros(n, dtype=torch.int64))

    def num_actions(self, instance: Position) -> int:
        return 2

    def horizon(self, instance: Position) -> int:
        return 4

    def last_choice(self, instance: Position) -> int:
        return 3

    def reset(self, instance: Position) -> Position:
        return Position(torch.zeros_like(instance.x))

    def step(self, instance: Position, state: Position, action: Tensor) -> Position:
        return Position(state.x + 2 * action - 1)

    def mask(self, instance: Position, state: Position) -> Tensor:
        return torch.stack([state.x > -2, state.x < 2], dim=1)

    def cost(self, instance: Position, actions: Tensor) -> Tensor:
        return actions.sum(dim=1).double()


class Leaning(Policy):
    """Goes on in the direction it took, so that nodes without a choice are the likeliest."""

    def forward(self, context: Position, state: Position) -> Tensor:
        return torch.stack([-state.x.double(), 0.5 + state.x.double()], dim=1)


@pytest.mark.parametrize("method", METHODS)
def test_a_state_of_zeros_is_a_state(method):
    """Behind nodes with no choice, whose missing state_hash must not be taken for its own."""
    walk, policy = Walk(), Leaning()
    instances = walk.generate(len(KEYS), torch.Generator())
    found = search(walk, policy, instances, METHODS[method], keys=KEYS)
    for actions, log_prob in zip(found.actions[found.valid], found.log_probs[found.valid], strict=True):
        state, wanted = walk.reset(Position(torch.zeros(1, dtype=torch.int64))), 0.0
        for action in actions:
            logits = policy(None, state).masked_fill(~walk.mask(None, state), -torch.inf)
            wanted += logits.log_softmax(dim=1)[0, action]
            state = walk.step(None, state, action[None])
        torch.testing.assert_close(log_prob, wanted)


def test_doubles_of_any_strides_have_fingerprints():
    table = torch.rand(3, 5, dtype=torch.float64)
    for rows in (1, 3):
        dense = Position(table[:rows, 0].clone()), Position(table[:rows, :1].clone())
        strided = Position(table[:rows, 0]), Position(table.t().contiguous().t()[:rows, :1])
        for one, other in zip(dense, strided, strict=True):
            assert torch.equal(state_hash(one), state_hash(other))


def test_fingerprints_depend_on_the_place_of_a_value():
    a, b = torch.tensor([[1, 2]]), torch.tensor([[2, 1]])
    zero = torch.zeros(1, 2)
    flag = torch.tensor([True])
    assert state_hash(Sample(a, zero, flag)) != state_hash(Sample(b, zero, flag))
    assert state_hash(Sample(a, zero, flag)) != state_hash(Sample(a[:, :1], torch.cat([zero, zero], 1), flag))
