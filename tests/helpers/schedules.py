"""Schedules of job shops in plain Python."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import torch

from problems.jssp import JSSP
from problems.jssp.instances import random_instances

JSSP_FILES = Path(__file__).parents[1] / "data" / "jssp"


def sequence_of(rule: str, generation: str, times: list[list[int]], machines: list[list[int]]) -> list[int]:
    """The jobs in the order in which the rule schedules their operations, in plain Python."""
    next_op, job_free, machine_free = [0] * len(times), [0] * len(times), [0] * len(times[0])
    sequence = []
    while len(sequence) < len(times) * len(times[0]):
        open_jobs = [job for job in range(len(times)) if next_op[job] < len(times[0])]
        time = {job: times[job][next_op[job]] for job in open_jobs}
        machine = {job: machines[job][next_op[job]] if time[job] else None for job in open_jobs}  # 0 takes no machine
        begin = {job: max(job_free[job], machine_free[machine[job]] if time[job] else 0) for job in open_jobs}
        end = {job: begin[job] + time[job] for job in open_jobs}
        if generation == "non_delay":
            candidates = [job for job in open_jobs if begin[job] == min(begin.values())]
        else:
            first = min(open_jobs, key=end.get)
            rivals = [job for job in open_jobs if machine[job] == machine[first]]
            candidates = [job for job in rivals if job == first or begin[job] < end[first]]
        worth = {
            "SPT": lambda job: -times[job][next_op[job]],
            "LPT": lambda job: times[job][next_op[job]],
            "MWR": lambda job: sum(times[job][next_op[job] :]),
            "LWR": lambda job: -sum(times[job][next_op[job] :]),
            "MOR": lambda job: -next_op[job],
            "LOR": lambda job: next_op[job],
            "FIFO": lambda job: -job_free[job],
        }[rule]
        job = max(candidates, key=worth)  # the first of equals
        job_free[job] = end[job]
        if time[job]:
            machine_free[machine[job]] = end[job]
        next_op[job] += 1
        sequence.append(job)
    return sequence


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
    """{(job, place): start} of a general job shop, one decision after the other."""
    times, machines, waits = (field[row].tolist() for field in (instance.times, instance.machines, instance.waits))
    job_free, machine_free = instance.release[row].tolist(), instance.machine_release[row].tolist()
    numbers = [divmod(number, len(times[0])) for number in instance.operations[row].tolist()]
    places = {job: iter([place for other, place in numbers if other == job]) for job in range(len(times))}
    start = {}
    for job in actions:
        op = next(places[job])
        machine, takes = machines[job][op], times[job][op]
        start[job, op] = max(job_free[job], machine_free[machine] if takes else 0)
        job_free[job] = start[job, op] + takes + waits[job][op]
        if takes:
            machine_free[machine] = start[job, op] + takes
    return start
