"""Self-improvement training for neural combinatorial optimization [GD, SBS].

The public names. The room of a name is its module's folder: `sampler` (the paper's algorithms 1 of [SBS] and 2 of
[GD]), `races` [MAB], `training`, `parallel` (workers, devices), `evaluation`, `studies`, `reporting`, `runtime` (files,
faults) and `cli`.
"""

from gumbeldore.evaluation.loading import load_policy, save_policy
from gumbeldore.evaluation.result import Result
from gumbeldore.evaluation.solve import solve
from gumbeldore.evaluation.sources import load_instances
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.reports import Reports
from gumbeldore.runtime import program
from gumbeldore.sampler import estimators, methods
from gumbeldore.sampler.methods import Method
from gumbeldore.sampler.search import search
from gumbeldore.sampler.solutions import Solutions
from gumbeldore.testing import policy_contract, problem_contract

__version__ = program.VERSION

__all__ = [
    "InstanceSet",
    "Method",
    "Policy",
    "Problem",
    "Reports",
    "Result",
    "SearchPool",
    "Solutions",
    "estimators",
    "load_instances",
    "load_policy",
    "methods",
    "policy_contract",
    "problem_contract",
    "save_policy",
    "search",
    "solve",
]
