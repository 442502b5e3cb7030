"""Distances that a file lists one by one (EDGE_WEIGHT_TYPE EXPLICIT), in all matrix formats of TSPLIB95."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from problems.formats.sections import LARGEST_COORDINATE, Content, first_word
from problems.formats.text import error, number, short

EXPLICIT = "EXPLICIT"
SECTION = "EDGE_WEIGHT_SECTION"
MOST_NODES = 5000  # of an instance with a matrix: 200 MB
LARGEST_DISTANCE = LARGEST_COORDINATE

# Which entries a format lists, row by row: a mask [n, n] for n nodes.
_ROWS: dict[str, Callable[[int], np.ndarray]] = {
    "FULL_MATRIX": lambda n: np.ones((n, n), dtype=bool),
    "UPPER_ROW": lambda n: np.tri(n, k=-1, dtype=bool).T,
    "LOWER_ROW": lambda n: np.tri(n, k=-1, dtype=bool),
    "UPPER_DIAG_ROW": lambda n: np.tri(n, dtype=bool).T,
    "LOWER_DIAG_ROW": lambda n: np.tri(n, dtype=bool),
}
FORMATS = {
    **_ROWS,  # and the columns of a triangle are the rows of the other one:
    "UPPER_COL": _ROWS["LOWER_ROW"],
    "LOWER_COL": _ROWS["UPPER_ROW"],
    "UPPER_DIAG_COL": _ROWS["LOWER_DIAG_ROW"],
    "LOWER_DIAG_COL": _ROWS["UPPER_DIAG_ROW"],
}


def read_matrix(path: Path, content: Content) -> np.ndarray:
    """The distances [N, N] float64 from row to column in EDGE_WEIGHT_SECTION; the diagonal is as in the file.

    Raises ValueError with file, line and rule for another format, too many nodes, a wrong count of numbers, and
    distances that are negative or no numbers.
    """
    mask, form = _entries(path, content)
    rows = content.rows[SECTION]
    counts = [len(text.split()) for _, text in rows]
    if sum(counts) != (expected := int(mask.sum())):
        rule = f"{SECTION} must have {expected} numbers ({form}, DIMENSION {len(mask)}), it has {sum(counts)}"
        raise error(path, content.header["DIMENSION"][0], rule)
    numbers = np.concatenate([_numbers(path, line, text) for line, text in rows])
    wrong = outside(numbers) & ~np.eye(len(mask), dtype=bool)[mask]
    if wrong.any():
        place = int(wrong.argmax())
        line, _ = rows[int(np.searchsorted(np.cumsum(counts), place, side="right"))]
        rule = f"distances must be numbers within 0..{LARGEST_DISTANCE:g}, got {numbers[place]:g}"
        raise error(path, line, rule)
    matrix = np.zeros(mask.shape)
    matrix[mask] = numbers
    if form != "FULL_MATRIX":
        matrix.T[mask] = numbers
    return matrix


def outside(distances: np.ndarray) -> np.ndarray:
    """Which distances [...] are none: NaN, negative, or too large for exact sums."""
    return ~((distances >= 0) & (distances <= np.float64(LARGEST_DISTANCE)))  # which float16 would take for infinite


def layouts(matrix: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The formats by rows that can hold a matrix [N, N], a triangle a symmetric one, and the numbers they list."""
    yield "FULL_MATRIX", matrix.ravel()
    off_diagonal = ~np.eye(len(matrix), dtype=bool)
    if (matrix == matrix.T)[off_diagonal].all():
        for form in list(_ROWS)[1:]:
            yield form, matrix[_ROWS[form](len(matrix))]


def _entries(path: Path, content: Content) -> tuple[np.ndarray, str]:
    """The mask of the entries that the file lists, and its format; a forged DIMENSION allocates nothing large."""
    if "EDGE_WEIGHT_FORMAT" not in content.header:
        raise error(path, None, "the header lacks EDGE_WEIGHT_FORMAT")
    line, form = content.header["EDGE_WEIGHT_FORMAT"]
    if (form := first_word(form)) not in FORMATS:
        raise error(path, line, f"EDGE_WEIGHT_FORMAT must be one of {', '.join(FORMATS)}, got {short(form)}")
    line, word = content.header["DIMENSION"]
    num_nodes = number(path, line, word, int, "DIMENSION")
    if not 2 <= num_nodes <= MOST_NODES:
        raise error(
            path, line, f"with {EXPLICIT} distances, DIMENSION must lie within 2..{MOST_NODES}, got {num_nodes}"
        )
    return FORMATS[form](num_nodes), form


def _numbers(path: Path, line: int, text: str) -> np.ndarray:
    words = text.split()
    try:
        if "_" not in text:  # numpy would read 1_000 as a number
            return np.array(words, dtype=np.float64)
    except ValueError:
        pass
    return np.array([number(path, line, word, float, "a distance") for word in words])
