"""Established solvers as references and experts; needs the packages of the extra `solvers` once it solves."""

from problems.solvers.answer import SolverError
from problems.solvers.baseline import SolverBaseline
from problems.solvers.solver import Solver, SolverResult, with_references

__all__ = ["Solver", "SolverBaseline", "SolverError", "SolverResult", "with_references"]
