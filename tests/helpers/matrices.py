"""Instances whose distances are a matrix, and their files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

# The entries that each format of TSPLIB95 lists, in its order.
ENTRIES = {
    "FULL_MATRIX": lambda n: [(i, j) for i in range(n) for j in range(n)],
    "UPPER_ROW": lambda n: [(i, j) for i in range(n) for j in range(i + 1, n)],
    "LOWER_ROW": lambda n: [(i, j) for i in range(n) for j in range(i)],
    "UPPER_DIAG_ROW": lambda n: [(i, j) for i in range(n) for j in range(i, n)],
    "LOWER_DIAG_ROW": lambda n: [(i, j) for i in range(n) for j in range(i + 1)],
    "UPPER_COL": lambda n: [(i, j) for j in range(n) for i in range(j)],
    "LOWER_COL": lambda n: [(i, j) for j in range(n) for i in range(j + 1, n)],
    "UPPER_DIAG_COL": lambda n: [(i, j) for j in range(n) for i in range(j + 1)],
    "LOWER_DIAG_COL": lambda n: [(i, j) for j in range(n) for i in range(j, n)],
}


def random_matrix(n: int, seed: int = 0, symmetric: bool = False, diagonal: float = 9999) -> np.ndarray:
    """Whole distances [n, n] of 1..99."""
    matrix = np.random.RandomState(seed).randint(1, 100, (n, n)).astype(float)
    if symmetric:
        matrix = np.triu(matrix) + np.triu(matrix, 1).T
    np.fill_diagonal(matrix, diagonal)
    return matrix


def section(matrix: np.ndarray, form: str = "FULL_MATRIX", per_line: int = 7) -> str:
    words = [f"{matrix[entry]:.12g}" for entry in ENTRIES[form](len(matrix))]
    lines = [" ".join(words[first : first + per_line]) for first in range(0, len(words), per_line)]
    return "EDGE_WEIGHT_SECTION\n" + "\n".join(lines) + "\n"


def write_matrix(
    path: Path, matrix: np.ndarray, form: str = "FULL_MATRIX", kind: str = "TSP", per_line: int = 7, more: str = ""
) -> Path:
    """A file of TYPE `kind`; `more` follows the matrix."""
    header = f"NAME: {path.stem}\nTYPE: {kind}\nDIMENSION: {len(matrix)}\nEDGE_WEIGHT_TYPE: EXPLICIT\n"
    header += f"EDGE_WEIGHT_FORMAT: {form}\n" + ("CAPACITY: 10\n" if "CVRP" in kind else "")
    path.write_text(header + section(matrix, form, per_line) + more + "EOF\n")
    return path


def loads(demands: list[int], depot: int = 1) -> str:
    """The sections that a CVRP has beside its distances."""
    lines = "".join(f"{i} {demand}\n" for i, demand in enumerate(demands, start=1))
    return f"DEMAND_SECTION\n{lines}DEPOT_SECTION\n{depot}\n-1\n"


ASYMMETRIC = random_matrix(6)
SYMMETRIC = random_matrix(6, symmetric=True)
DEMANDS = [0, 4, 6, 5, 5, 1]


def length(matrix: np.ndarray, walk: list[int]) -> float:
    """Of a closed walk, node by node."""
    return sum(matrix[a, b] for a, b in zip(walk, [*walk[1:], walk[0]], strict=True) if a != b)


def cost_of(instance_set, actions, index: int = 0) -> float:
    return float(instance_set.true_cost(torch.tensor([index]), torch.as_tensor(actions)[None]))
