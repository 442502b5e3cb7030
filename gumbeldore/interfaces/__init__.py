"""The contracts between the core and what a user brings: problems and policies.

Shape legend, used in every comment of the project:
    B instances, in the sampler their beams: b instances have C beams each (samples, groups, equivalents)
    K beam width · A actions · T horizon (decisions per solution)
    R flat rows (usually B*K) · L solutions per instance · W trie nodes per depth

An *instance*, a *state* and a *context* are immutable NamedTuples of tensors whose leading dimension is
the batch; the core only ever indexes that dimension or moves them between devices (`gumbeldore.batches`).
Costs are to be minimised, everywhere a user sees them.
"""

from gumbeldore.interfaces.abilities import (
    HasIndependentDecisions,
    HasLocalSearch,
    HasPieces,
    HasRules,
    HasStoredForm,
    Pieces,
)
from gumbeldore.interfaces.policy import Policy
from gumbeldore.interfaces.problem import Problem, size_name, without_references

__all__ = [
    "HasIndependentDecisions",
    "HasLocalSearch",
    "HasPieces",
    "HasRules",
    "HasStoredForm",
    "Pieces",
    "Policy",
    "Problem",
    "size_name",
    "without_references",
]
