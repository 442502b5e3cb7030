"""Schedules of job shops in plain Python."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import torch

from problems.jssp import JSSP
from problems.jssp.instances import lengths_of, random_instances

JSSP_FILES = Path(__file__).parents[1] / "data" / "jssp"


def plain_rule(instance, row, rule, generation):
    """The job and the machine of each decision of a dispatching rule, in plain Python; `instance` may be flexible.

    Each operation goes to the machine where it ends first. Finished jobs count in the mean time with the last place.
    """
    options, (_, jobs, ops) = _options(instance, row), instance.waits.shape
    ready, free = instance.release[row].tolist(), instance.machine_release[row].tolist()
    due, weight, waits = (field[row].tolist() for field in (instance.due, instance.weight, instance.waits))
    place = (ops - lengths_of(instance)[row]).tolist()
    decisions = []
    while len(decisions) < instance.operations.shape[1]:
        end, begin, machine, takes = {}, {}, {}, {}
        for job in (job for job in range(jobs) if place[job] < ops):
            each = []
            for on, time in options[job][place[job]]:
                start = max(ready[job], free[on] if time else 0)
                each.append((start + time, on, start, time))
            end[job], machine[job], begin[job], takes[job] = min(each)
        busy = {job: machine[job] if takes[job] else None for job in end}  # an operation of time 0 takes no machine
        now, first = min(begin.values()), min(end, key=end.get)
        if generation == "non_delay":
            candidates = [job for job in end if begin[job] == now]
        else:
            rivals = [job for job in end if busy[job] == busy[first] and begin[job] < end[first]]
            candidates = sorted({*rivals, first})
        mean = max(1e-9, sum(options[job][min(place[job], ops - 1)][0][1] for job in range(jobs)) / jobs)
        worth = {}
        for job in candidates:
            work = sum(min(time for _, time in each) for each in options[job][place[job] :])
            urgency = math.exp(-max(0, due[job] - work - now) / (2 * mean))
            worth[job] = {
                "SPT": -takes[job],
                "LPT": takes[job],
                "MWR": work,
                "LWR": -work,
                "MOR": ops - place[job],
                "LOR": place[job] - ops,
                "FIFO": -ready[job],
                "EDD": -due[job],
                "MOD": -max(due[job] - (work - takes[job]), now + takes[job]),
                "ATC": weight[job] / max(takes[job], 1e-9) * urgency,
            }[rule]
        job = max(worth, key=worth.get)  # the first of equals
        ready[job] = end[job] + waits[job][place[job]]
        if takes[job]:
            free[machine[job]] = end[job]
        place[job] += 1
        decisions.append((job, machine[job]))
    return decisions


def _options(instance, row):
    """The machines that can do each operation, with their times."""
    times = instance.times[row].tolist()
    if "machines" in instance._fields:
        machines = instance.machines[row].tolist()
        return [[[each] for each in zip(*rows, strict=True)] for rows in zip(machines, times, strict=True)]
    return [[list(enumerate(each)) for each in row] for row in times]


def read_job_shop(name: str) -> tuple[list[list[int]], list[list[int]]]:
    """Times and machines, from 0, of a file of tests/data in the standard format."""
    lines = [line.split() for line in (JSSP_FILES / f"{name}.txt").read_text().splitlines()]
    numbers = [list(map(int, words)) for words in lines if words and all(word.isdigit() for word in words)][1:]
    return [row[1::2] for row in numbers], [row[::2] for row in numbers]


def one_size(jobs, ops, **options):
    return JSSP(sizes=[[jobs, ops]], validation_sizes=[[jobs, ops]], **options)


def random_sequences(n, jobs, ops, seed=0):
    """Instances, every second with 40% of its times 0, and the jobs in random order [n, J*M], each M times."""
    generator = torch.Generator().manual_seed(seed)
    instance = random_instances(n, jobs, ops, generator)
    actions = torch.rand(n, jobs * ops, generator=generator).argsort(dim=1) % jobs
    zeros = torch.rand(n, jobs, ops, generator=generator) < 0.4
    zeros[::2] = False
    return instance._replace(times=instance.times.masked_fill(zeros, 0.0)), actions


def plain_schedule(times, machines, actions):
    """{(job, operation): start}, one decision after the other."""
    job_free, machine_free, done, start = {}, {}, Counter(), {}
    for job in actions:
        op = done[job]
        machine = machines[job][op]
        takes = times[job][op]
        start[job, op] = max(job_free.get(job, 0), machine_free.get(machine, 0) if takes else 0)
        job_free[job] = start[job, op] + takes
        if takes:
            machine_free[machine] = job_free[job]
        done[job] += 1
    return start


def plain_makespan(times, machines, actions):
    return max(start + times[job][op] for (job, op), start in plain_schedule(times, machines, actions).items())


def plain_general_schedule(instance, row, actions):
    """{(job, place): (start, end)} of a general job shop, flexible or not, one decision after the other."""
    options, waits = _options(instance, row), instance.waits[row].tolist()
    job_free, machine_free = instance.release[row].tolist(), instance.machine_release[row].tolist()
    numbers = [divmod(number, len(waits[0])) for number in instance.operations[row].tolist()]
    places = {job: iter([place for other, place in numbers if other == job]) for job in range(len(waits))}
    found = {}
    for action in actions:
        job, choice = (action, 0) if "machines" in instance._fields else divmod(action, len(machine_free))
        op = next(places[job])
        machine, takes = options[job][op][choice]
        start = max(job_free[job], machine_free[machine] if takes else 0)
        found[job, op] = start, start + takes
        job_free[job] = start + takes + waits[job][op]
        if takes:
            machine_free[machine] = start + takes
    return found


def plain_general_cost(instance, row, actions):
    """The makespan, or with due dates the sum over the jobs of weight times lateness."""
    ends = {}
    for (job, _), (_, end) in plain_general_schedule(instance, row, actions).items():
        ends[job] = max(ends.get(job, 0), end)
    due, weight = instance.due[row].tolist(), instance.weight[row].tolist()
    late = sum(weight[job] * max(0, end - due[job]) for job, end in ends.items())
    return late if any(weight) else max(ends.values())
