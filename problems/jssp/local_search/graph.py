"""The disjunctive graph of a schedule: topological order, heads and tails, critical paths, and moves of operations.

An operation is a record that names its neighbours by their numbers. The record behind the last one stands for none. The
operations of a job follow each other for good, those of a machine as the schedule has it. An operation that takes no
machine, as its time is 0, has no neighbours on one.
"""

from __future__ import annotations

import numpy as np

from gumbeldore.runtime.jit import below, compiled

OPERATION = np.dtype(
    [
        ("head", "f8"),  # the longest path to its start: when it starts
        ("tail", "f8"),  # the longest path from its start to the end of a job
        ("time", "f8"),
        ("lag", "f8"),  # its time and the wait after it: then the job's next operation can start
        ("release", "f8"),  # of its job and its machine: it cannot start before
        ("job_before", "i4"),
        ("job_after", "i4"),
        ("before", "i4"),  # on the machine
        ("after", "i4"),
        ("place", "i4"),  # in the topological order
        ("job", "i4"),
    ]
)  # 64 bytes: what a step asks of an operation is in one line of the CPU's cache


@compiled
def makespan(operations, last):
    """The end of the job that ends last; `last` are the last operations of the jobs."""
    end = 0.0
    for x in last:
        end = max(end, operations[x].head + operations[x].time)
    return end


@compiled
def update_heads(operations, order, first):
    """The heads from a place of the topological order on."""
    for i in range(first, len(order)):
        x = order[i]
        job_before, before = operations[operations[x].job_before], operations[operations[x].before]
        operations[x].head = max(operations[x].release, job_before.head + job_before.lag, before.head + before.time)


@compiled
def update_tails(operations, order, last):
    """The tails up to a place of the topological order."""
    for i in range(last, -1, -1):
        x = order[i]
        job_after, after = operations[operations[x].job_after], operations[operations[x].after]
        operations[x].tail = max(operations[x].lag + job_after.tail, operations[x].time + after.tail)


@compiled
def update_all(operations, order):
    """The topological order, heads and tails of sequences of the machines without a cycle.

    The order is the order of the starts: operations that are moved are near each other in it.
    """
    none = len(order)
    waits_for = np.empty(none + 1, np.int32)  # so many operations
    ready = 0
    for x in range(none):
        waits_for[x] = (operations[x].job_before < none) + (operations[x].before < none)
        if waits_for[x] == 0:
            order[ready] = x
            ready += 1
    for i in range(none):
        for y in (operations[order[i]].job_after, operations[order[i]].after):
            waits_for[y] -= 1
            if y < none and waits_for[y] == 0:
                order[ready] = y
                ready += 1
    update_heads(operations, order, 0)
    starts = np.empty(none)
    for i in range(none):
        starts[i] = operations[order[i]].head
    order[:] = order[np.argsort(starts, kind="mergesort")]  # a stable sort: of equal starts, the order stays
    for i in range(none):
        operations[order[i]].place = i
    update_tails(operations, order, none - 1)


@compiled
def critical_path(operations, last, state, path):
    """A random longest path, from its first to its last operation, in `path`; returns its length."""
    none = len(operations) - 1
    end, ties, x = makespan(operations, last), 0, none
    for y in last:
        if operations[y].head + operations[y].time == end:
            ties += 1
            if ties == 1 or below(state, ties) == 0:
                x = y
    length = 0
    while x < none:
        path[length] = x
        length += 1
        head, a, b = operations[x].head, operations[x].job_before, operations[x].before
        by_job = a < none and operations[a].head + operations[a].lag == head
        by_machine = b < none and operations[b].head + operations[b].time == head
        if by_job and by_machine:
            x = a if below(state, 2) == 0 else b
        elif by_job:
            x = a
        else:
            x = b if by_machine else none
    for i in range(length // 2):
        path[i], path[length - 1 - i] = path[length - 1 - i], path[i]
    return length


@compiled
def move(operations, order, moved, buffer, x, before, after):
    """Put operation x between two others of its machine, one of which may be none; order, heads and tails follow.

    Returns False and changes nothing if the move would make a cycle.

    Arguments:
        moved: bool [n + 1], all False
        buffer: int32 [n], any values
    """
    none = len(order)
    old_before, old_after = operations[x].before, operations[x].after
    _insert(operations, x, before, after)
    if not _sort(operations, order, moved, buffer, x, before, after):
        _insert(operations, x, old_before, old_after)
        return False
    first = last = operations[x].place
    if old_after < none:
        first = min(first, operations[old_after].place)
    if after < none:
        first = min(first, operations[after].place)
    if old_before < none:
        last = max(last, operations[old_before].place)
    if before < none:
        last = max(last, operations[before].place)
    update_heads(operations, order, first)
    update_tails(operations, order, last)
    return True


@compiled
def _insert(operations, x, before, after):
    """Take x out of its machine's sequence, and put it between two neighbours."""
    _link(operations, operations[x].before, operations[x].after)
    _link(operations, before, x)
    _link(operations, x, after)


@compiled
def _link(operations, a, b):
    none = len(operations) - 1
    if a < none:
        operations[a].after = b
    if b < none:
        operations[b].before = a


@compiled
def _sort(operations, order, moved, buffer, x, before, after):
    """Make the order topological again, now that x is between two others; False if there is a cycle.

    Only one of the new arcs, before -> x -> after, can lead to an earlier place. The operation there, and all that
    follow it between both places, go behind the place where the arc begins.
    """
    none = len(order)
    if before < none and operations[before].place > operations[x].place:
        begin, end = before, x
    elif after < none and operations[after].place < operations[x].place:
        begin, end = x, after
    else:
        return True
    first, last = operations[end].place, operations[begin].place
    for i in range(first, last + 1):
        y = order[i]
        moved[y] = y == end or moved[operations[y].job_before] or moved[operations[y].before]
    is_cycle = moved[begin]
    place, count = first, 0
    for i in range(first, last + 1):
        y = order[i]
        if moved[y] and not is_cycle:
            buffer[count] = y
            count += 1
        else:
            order[place] = y
            operations[y].place = place
            place += 1
        moved[y] = False
    for i in range(count):
        order[place + i] = buffer[i]
        operations[buffer[i]].place = place + i
    return not is_cycle
