"""The moves of the tabu search, and what they promise: the neighbourhood N7 [Zhang et al. 2007].

A block is a run of operations of a critical path that follow each other on a machine. A move that shortens the schedule
puts an operation before the first or behind the last one of a block, or the first or the last one between two others.
A move is what `move` of the graph takes: an operation, and the two between which it goes.
"""

from __future__ import annotations

from gumbeldore.runtime.jit import compiled


@compiled
def moves_of(operations, path, length, moves):
    """The moves in the blocks of a critical path, in `moves` [m, 3], but those that may make a cycle; their number."""
    count = first = 0
    while first < length:
        last = first
        while last + 1 < length and operations[path[last]].after == path[last + 1]:
            last += 1
        u, v = path[first], path[last]
        if last == first + 1:
            count = _add(operations, moves, count, u, v, True)
        elif last > first:
            for i in range(first, last):
                count = _add(operations, moves, count, path[i], v, True)
                count = _add(operations, moves, count, u, path[i + 1], False)
            for i in range(first + 1, last):
                count = _add(operations, moves, count, u, path[i], True)
                count = _add(operations, moves, count, path[i], v, False)
        first = last + 1
    return count


@compiled
def _add(operations, moves, count, u, v, behind):
    """Add the move of u to right behind v, or of v to right before u, if no path from u to v would close a cycle.

    Such a path goes on from u in its job, or comes to v in its job. There is none if the operation after u has no
    longer tail than v, or the one before v ends no later than u [Balas and Vazacopoulos 1998].
    """
    none = len(operations) - 1
    if operations[u].job == operations[v].job:
        return count
    if behind:
        x, before, after = u, v, operations[v].after
        y = operations[u].job_after
        can_be = y == none or operations[v].tail >= operations[y].tail
    else:
        x, before, after = v, operations[u].before, u
        y = operations[v].job_before
        can_be = y == none or operations[u].head + operations[u].time >= operations[y].head + operations[y].time
    if not can_be:
        return count
    moves[count, 0], moves[count, 1], moves[count, 2] = x, before, after
    return count + 1


@compiled
def passed(operations, x, before, after):
    """Which operations of the machine x passes in a move, the first and the last; and whether it comes behind them."""
    if before < len(operations) - 1 and operations[before].place > operations[x].place:
        return operations[x].after, before, True
    return after, operations[x].before, False


@compiled
def estimate(operations, x, before, after, sequence, heads, limit):
    """The longest path after a move through x and the operations that it passes [Balas and Vazacopoulos 1998].

    Of all other operations, heads and tails count as they are before the move.

    Arguments:
        sequence, heads: [n], any values
        limit: a longer path need not be exact
    """
    first, last, behind = passed(operations, x, before, after)
    count = 0
    if not behind:
        sequence[0] = x
        count = 1
    y = first
    while True:
        sequence[count] = y
        count += 1
        if y == last:
            break
        y = operations[y].after
    if behind:
        sequence[count] = x
        count += 1
        before = operations[x].before
    else:
        after = operations[x].after
    end = operations[before].head + operations[before].time
    for i in range(count):
        y = sequence[i]
        job_before = operations[operations[y].job_before]
        heads[i] = max(end, operations[y].release, job_before.head + job_before.lag)
        end = heads[i] + operations[y].time
    longest, tail = 0.0, operations[after].tail
    for i in range(count - 1, -1, -1):
        y = sequence[i]
        tail = max(operations[y].time + tail, operations[y].lag + operations[operations[y].job_after].tail)
        longest = max(longest, heads[i] + tail)
        if longest > limit:
            break
    return longest
