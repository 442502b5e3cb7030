"""Schedules of job shops in plain Python."""

from __future__ import annotations


def makespan(times: list[list[int]], machines: list[list[int]], sequence: list[int]) -> int:
    done, job_free, machine_free = [0] * len(times), [0] * len(times), [0] * len(times[0])
    for job in sequence:
        machine = machines[job][done[job]]
        job_free[job] = machine_free[machine] = max(job_free[job], machine_free[machine]) + times[job][done[job]]
        done[job] += 1
    return max(job_free)


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
