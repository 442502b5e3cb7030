"""Routes of the CVRP in plain Python."""

from __future__ import annotations


def plain_routes(actions, num_customers):
    """The routes as lists of customers; None if the first does not begin at the depot."""
    routes = []
    for action in actions:
        via_depot, customer = divmod(action, num_customers)
        if via_depot:
            routes.append([])
        if not routes:
            return None
        routes[-1].append(customer + 1)
    return routes


def plain_load(demands, route):
    return sum(demands[customer] for customer in route)
