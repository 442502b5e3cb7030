"""Sets of the TSP of a line for each instance, with its tour behind the word `output`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gumbeldore
from problems.tsp.sets import TSPSets
from tests.helpers.instance_files import raises_with

SQUARE = "0 0 1 0 1 1 0 1 output 1 2 3 4 1"
CROSSED = "0 0 1 0 1 1 0 1 output 3 1 2 4 3"
TRIANGLE = "0.0 0.0 3e0 0.0 0.0 4.0 output 2 3 1"  # a tour need not name its first node again


def test_lines_are_instances_and_their_tours_references(tmp_path):
    path = tmp_path / "test.txt"
    path.write_text(f"{SQUARE}\n{TRIANGLE}\n\n{CROSSED}\n")
    three, four = TSPSets().load(str(path))
    assert (three.names, four.names) == (["test/2"], ["test/1", "test/3"])
    assert three.references.tolist() == [3 + 4 + 5]
    assert four.references.tolist() == pytest.approx([4, 2 + 2 * 2**0.5]) and four.kinds == ["tour of test.txt"] * 2
    assert four.originals.coords[1].tolist() == [[0, 0], [1, 0], [1, 1], [0, 1]]
    assert {place: actions.tolist() for place, actions in four.solutions.items()} == {0: [1, 2, 3], 1: [1, 3, 2]}
    solutions = torch.stack(list(four.solutions.values()))
    assert four.costs(solutions).tolist() == four.references.tolist()
    (first,) = TSPSets().load(str(path), 1)
    assert first.names == ["test/1"]
    results = gumbeldore.solve(instances=str(path), method="greedy")  # no policy is named: they are of the TSP
    assert len(results) == 3 and results[0].cost == 12
    with pytest.raises(ValueError, match="problem.distances=rounded is for TSPLIB files"):
        TSPSets("rounded").load(str(path))
    path.write_text(SQUARE)
    assert TSPSets().load(str(path))[0].names == ["test"]


def test_many_are_as_their_numbers(tmp_path):
    random = np.random.default_rng(0)
    coords = random.random((50, 9, 2))
    tours = random.permuted(np.tile(np.arange(1, 10), (50, 1)), axis=1)
    lines = [
        f"{' '.join(map(repr, each.flatten().tolist()))} output {' '.join(map(str, [*tour, tour[0]]))}"
        for each, tour in zip(coords, tours, strict=True)
    ]
    (tmp_path / "many.txt").write_text("\n".join(lines))
    (found,) = TSPSets().load(str(tmp_path / "many.txt"))
    assert np.array_equal(found.originals.coords.numpy(), coords)
    steps = [points[tour - 1] - points[np.roll(tour, 1) - 1] for points, tour in zip(coords, tours, strict=True)]
    assert np.allclose(found.references, np.linalg.norm(steps, axis=2).sum(axis=1))


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("0 0 1 0 1 1 0 output 1 2 3 1", "with 3 nodes at least, got 7 numbers before output"),
        ("0 0 1 0 output 1 2 1", "with 3 nodes at least, got 4 numbers before output"),
        ("0 0 1 0 1 1", "a line is `x y x y ... output tour` with 3 nodes at least, got 6 numbers"),
        ("0 0 1 0 1 x output 1 2 3 1", "a coordinate must be a number, got 'x'"),
        ("0 0 1 0 1 1_0 output 1 2 3 1", "a coordinate must be a number, got '1_0'"),
        ("0 0 1 0 1 nan output 1 2 3 1", "coordinates must lie within +-1e+12, got 'nan'"),
        ("0 0 1 0 1 2e12 output 1 2 3 1", "coordinates must lie within +-1e+12, got '2e12'"),
        ("0 0 1 0 1 1 output 0 1 2 0", "node ids are 1..3, got '0'"),
        ("0 0 1 0 1 1 output 1 2 4 1", "node ids are 1..3, got '4'"),
        ("0 0 1 0 1 1 output 1 2 2 1", "the tour must visit each of the 3 nodes once and return to the first one"),
        ("0 0 1 0 1 1 output 1 2 3 2", "the tour must visit each of the 3 nodes once"),
        ("0 0 1 0 1 1 output", "the tour must visit each of the 3 nodes once"),
    ],
)
def test_malformed_lines_are_refused_with_file_line_and_rule(tmp_path, line, rule):
    path = tmp_path / "bad.txt"
    path.write_text(f"{SQUARE}\n{line}\n")
    with raises_with(path, 2, rule):
        TSPSets().read(path)
