"""Tabu search: again and again the best move that is not tabu [Glover 1989], in job shops as in Zhang et al. [2008]."""

from __future__ import annotations

import numpy as np

from gumbeldore.runtime.jit import below, compiled
from problems.jssp.local_search.graph import critical_path, makespan, move
from problems.jssp.local_search.moves import estimate, moves_of, passed

STATE = np.dtype(
    [
        ("random", "u8"),  # of the stream of random numbers, not 0
        ("step", "i8"),
        ("best", "f8"),  # the least makespan so far
        ("found", "i8"),  # the step that found it
    ]
)


@compiled
def tabu_search(operations, order, last, state, tabu, best, steps, patience, tenure, enough):
    """Go on with a search for some steps; True if it has ended: no gain in `patience` steps, or enough, or no moves.

    Arguments:
        operations, order: the graph of the schedule; the search leaves another one
        last: of each job, its last operation
        state: STATE [1]
        tabu: int64 [a power of two]: until which step an operation must not come before one of a job (`_slot`)
        best: int32 [n, 2]: before and after each operation, in the best schedule
        tenure: the least and the largest number of steps for which an operation that was passed is tabu
        enough: a makespan at which to end
    """
    none = len(order)
    path, sequence, buffer = np.empty(none, np.int32), np.empty(none, np.int32), np.empty(none, np.int32)
    moves, heads, moved = np.empty((4 * none, 3), np.int32), np.empty(none), np.zeros(none + 1, np.bool_)
    for step in range(state[0].step, state[0].step + steps):
        cost = makespan(operations, last)
        if cost < state[0].best:
            state[0].best, state[0].found = cost, step
            for x in range(none):
                best[x, 0], best[x, 1] = operations[x].before, operations[x].after
        if cost <= enough or step - state[0].found > patience:
            return True
        count = moves_of(operations, path, critical_path(operations, last, state, path), moves)
        if count == 0:
            return True
        chosen, least, ties = -1, np.inf, 0
        for i in range(count):
            x, before, after = moves[i, 0], moves[i, 1], moves[i, 2]
            value = estimate(operations, x, before, after, sequence, heads, least)
            if value > least or value >= state[0].best and is_tabu(operations, tabu, x, before, after, step):
                continue
            ties = ties + 1 if value == least else 1
            if ties == 1 or below(state, ties) == 0:
                chosen, least = i, value
        if chosen < 0:  # all are tabu
            chosen = below(state, count)
        x, before, after = moves[chosen, 0], moves[chosen, 1], moves[chosen, 2]
        until = step + tenure[0] + below(state, tenure[1] - tenure[0] + 1)
        forbid(operations, tabu, x, before, after, until)
        move(operations, order, moved, buffer, x, before, after)
        state[0].step = step + 1
    return False


@compiled
def is_tabu(operations, tabu, x, before, after, step):
    """Whether a move turns round a pair that must not be turned round yet."""
    y, last, behind = passed(operations, x, before, after)
    while True:
        if step < tabu[_slot(operations, tabu, y, x) if behind else _slot(operations, tabu, x, y)]:
            return True
        if y == last:
            return False
        y = operations[y].after


@compiled
def forbid(operations, tabu, x, before, after, until):
    """Before a move: the pairs that it turns round must not be turned back before a step."""
    y, last, behind = passed(operations, x, before, after)
    while True:
        tabu[_slot(operations, tabu, x, y) if behind else _slot(operations, tabu, y, x)] = until
        if y == last:
            return
        y = operations[y].after


@compiled
def _slot(operations, tabu, x, y):
    """Where the tabu of operation x before the job of y stands; in very large shops several have one slot."""
    return (x * operations[-1].job + operations[y].job) & (len(tabu) - 1)
