"""Local search for job shops: moves of operations on their machines, without a policy.

- `graph`: a schedule as a disjunctive graph, and moves in it
- `moves`: which moves can shorten a schedule, and estimates of how much
- `tabu_search`: the best move that is not tabu, again and again
- `job_shop`: one job shop, and tabu searches in it
- `path_relinking`: tabu searches from schedules between elite ones
- `solutions`: all of it for batches of instances
"""
