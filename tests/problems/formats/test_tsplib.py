"""TSPLIB files: known optima, roundings worked out by hand, and what happens to malformed files."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from problems.formats.tsplib import METRICS, edge_lengths, read_tour, read_tsplib, tour_lengths
from tests.helpers.instance_files import TSPLIB, raises_with

DATA = Path(__file__).parents[2] / "data"
VALID_TOUR = b"NAME : five.opt.tour\nTYPE : TOUR\nDIMENSION : 5\nTOUR_SECTION\n3\n1 2\n5\n4\n-1\nEOF\n"


def points(*rows: tuple[float, float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def length(metric: str, a: tuple[float, float], b: tuple[float, float]) -> float:
    return edge_lengths(points(a), points(b), metric).item()


@pytest.mark.parametrize(
    ("name", "metric", "num_nodes", "optimum"),
    [
        ("eil51", "EUC_2D", 51, 426),
        ("berlin52", "EUC_2D", 52, 7542),
        ("kroA100", "EUC_2D", 100, 21282),
        ("att48", "ATT", 48, 10628),
        ("ulysses16", "GEO", 16, 6859),
    ],
)
def test_optimal_tours_have_the_published_length(name, metric, num_nodes, optimum):
    instance = read_tsplib(DATA / f"{name}.tsp")
    assert (instance.name, instance.metric, instance.coords.shape) == (name, metric, (num_nodes, 2))
    assert instance.coords.dtype == np.float64
    tour = torch.tensor([read_tour(DATA / f"{name}.opt.tour")])
    coords = torch.from_numpy(instance.coords)
    assert tour_lengths(coords, tour, metric).tolist() == [optimum]
    others = [m for m in METRICS if m != metric]
    assert all(tour_lengths(coords, tour, other).item() != optimum for other in others)


@pytest.mark.parametrize(
    ("metric", "b", "expected"),
    [
        ("EUCLIDEAN", (3.0, 4.0), 5.0),
        ("EUC_2D", (2.5, 0.0), 3.0),  # halves go up, where round() and torch.round give 2
        ("EUC_2D", (2.49, 0.0), 2.0),
        ("EUC_2D", (1.0, 1.0), 1.0),  # sqrt(2)
        ("CEIL_2D", (1.0, 1.0), 2.0),
        ("CEIL_2D", (3.0, 4.0), 5.0),  # whole lengths stay
        ("ATT", (10.0, 0.0), 4.0),  # sqrt(10) = 3.16, nearest 3 is smaller: 4
        ("ATT", (12.0, 0.0), 4.0),  # sqrt(14.4) = 3.79, nearest 4
        ("ATT", (1.0, 3.0), 1.0),  # sqrt(1), exact
    ],
)
def test_roundings(metric, b, expected):
    assert length(metric, (0.0, 0.0), b) == expected


def test_geographical_minutes_degrees_and_close_points():
    coords = torch.from_numpy(read_tsplib(DATA / "ulysses16.tsp").coords)
    published = [509, 501, 312, 1019, 736, 656, 60, 1039, 726, 2314, 479, 448, 479, 619, 150]
    assert edge_lengths(coords[:1], coords[1:], "GEO").tolist() == published
    assert length("GEO", (0.0, 0.0), (0.0, 0.30)) == 56  # half a degree: 6378.388 * pi / 360 = 55.66, plus 1, cut
    assert length("GEO", (0.0, 0.0), (0.0, -0.30)) == 56  # int() cuts towards 0 on both sides
    assert length("GEO", (-51.0, -31.0), (-41.0, 57.0)) == 6484  # 6484.00004; the true pi gives 6483.99999
    grid = torch.linspace(-89, 89, 2001, dtype=torch.float64)
    near = torch.stack([grid, grid.flip(0)], dim=-1)
    assert (edge_lengths(near, near, "GEO") == 1).all()  # rounding errors must not leave the domain of acos


def test_metric_and_precision_are_checked():
    with pytest.raises(ValueError, match="EUC_2D, CEIL_2D, ATT, GEO, EXACT_2D, EUCLIDEAN, got 'MAN_2D'"):
        length("MAN_2D", (0.0, 0.0), (1.0, 1.0))
    with pytest.raises(ValueError, match="float64 points, got torch.float32"):
        edge_lengths(torch.zeros(2), torch.zeros(2), "EUC_2D")


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b" : ", b": "),
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b"\n", b"\r"),
        lambda data: b"\xef\xbb\xbf" + data,  # a byte order mark
        lambda data: data.replace(b"TYPE : TSP", b"TYPE : TSP (a remark)"),
        lambda data: data.replace(b"SECTION", b"SECTION :").replace(b"\n", b"\n \n"),
        lambda data: data.replace(b"EOF", b"eof"),
        lambda data: data + b"\x1a",  # which old editors write
        lambda data: data.replace(b": 5\n", b": 5.0\n").replace(b"2 3 -4.5", b"2.00 3 -4.5"),
        lambda data: (
            data.replace(b"EOF", b"NAME: five\nEDGE_WEIGHT_TYPE :EUC_2D\nEOF")
            .replace(b"NAME : five\n", b"", 1)
            .replace(b"EDGE_WEIGHT_TYPE : EUC_2D\n", b"", 1)
        ),  # behind the section
        lambda data: data.replace(b"a small file", b"edges of NODE_COORD_SECTION"),
        lambda data: data.replace(b"EOF", b"DISPLAY_DATA_SECTION\n1 0 0\nEOF"),  # of pictures
        lambda data: data.replace(b"EOF", b"-1\nEOF"),  # which some programs write
        lambda data: data.replace(b": TSP", b": tsp").replace(b"EUC_2D", b"Euc_2d"),
        lambda data: data.replace(b"DIMENSION", b"dimension").replace(b"NODE_COORD_SECTION", b"Node_Coord_Section"),
        lambda data: data.replace(b"a small", b"a sm\xe4ll"),  # Latin-1
        gzip.compress,
    ],
)
def test_header_spellings_and_line_ends(tmp_path, change):
    (tmp_path / "other.tsp").write_bytes(change(TSPLIB))
    name, coords, metric = read_tsplib(tmp_path / "other.tsp")
    assert (name, metric) == ("five", "EUC_2D")
    assert coords.tolist() == [[0.0, 0.0], [3.0, -4.5], [100.0, 7.0], [2.5, 0.5], [-1.0, -1.0]]


def test_nodes_may_come_in_any_order_and_eof_and_name_may_be_missing(tmp_path):
    swapped = TSPLIB.replace(b"1 0.0 0.0\n2 3 -4.5\n", b"2 3 -4.5\n1 0.0 0.0\n")
    swapped = swapped.replace(b"EOF\n", b"").replace(b"NAME : five\n", b"")
    (tmp_path / "mine.txt").write_bytes(swapped)
    instance = read_tsplib(tmp_path / "mine.txt")
    assert instance.name == "mine"
    assert instance.coords[:2].tolist() == [[0.0, 0.0], [3.0, -4.5]]


UNIT_SQUARE = b"NODE_COORD_SECTION\n1 .5 0\n2 0 1\n3 .25 1\n4 0 .125\n5 1 1\nEOF\n"
ON_A_CIRCLE = [f"{i + 1} {math.cos(i)} {math.sin(i)}" for i in range(20)]  # wider than 1
CIRCLE = f"DIMENSION : 20\nEDGE_WEIGHT_TYPE : EUC_2D\nNODE_COORD_SECTION\n{chr(10).join(ON_A_CIRCLE)}\nEOF\n".encode()
TWO_NODES = b"DIMENSION : 2\nEDGE_WEIGHT_TYPE : EUC_2D\nNODE_COORD_SECTION\n1 0 0\n2 1 1\nEOF\n"
MALFORMED = {  # what is replaced in TSPLIB -> by what, the line named, the rule
    "empty file": (TSPLIB, b"", None, "the file is empty"),
    "cut in a line": (b" -1 -1\nEOF\n", b" -1", 12, "a node is `id x y`, got 2 words: '5 -1'"),
    "cut in the header": (TSPLIB[60:], b"", None, "lacks EDGE_WEIGHT_TYPE"),
    "three coordinates": (b"2 3 -4.5", b"2 3 -4.5 1", 9, "a node is `id x y`, got 4 words: '2 3 -4.5 1'"),
    "a node too many": (b"EOF", b"6 1 1\nEOF", 5, "DIMENSION is 5, but NODE_COORD_SECTION has 6"),
    "no section": (TSPLIB[TSPLIB.index(b"NODE") :], b"EOF\n", None, "there is no NODE_COORD_SECTION"),
    "two sections": (
        b"EOF",
        b"NODE_COORD_SECTION\nEOF",
        13,
        "data sections: NODE_COORD_SECTION, DISPLAY_DATA_SECTION, once; got 'NODE_COORD_SECTION'",
    ),
    "another section": (b"EOF", b"FIXED_EDGES_SECTION\nEOF", 13, "got 'FIXED_EDGES_SECTION'"),
    "no dimension": (b"DIMENSION : 5\n", b"", None, "lacks DIMENSION"),
    "no type": (b"TYPE : TSP\n", b"", None, "lacks TYPE"),
    "no metric": (b"EDGE_WEIGHT_TYPE : EUC_2D\n", b"", None, "lacks EDGE_WEIGHT_TYPE"),
    "dimension twice": (b"DIMENSION : 5\n", b"DIMENSION : 5\nDIMENSION : 5\n", 6, "already given in line 5"),
    "dimension not whole": (b"DIMENSION : 5", b"DIMENSION : 5.5", 5, "a whole number, got '5.5'"),
    "dimension endless": (b"DIMENSION : 5", b"DIMENSION : " + b"9" * 5000, 5, "a whole number, got '999"),
    "dimension huge": (b"DIMENSION : 5", b"DIMENSION : 99999999999999", 5, "is 99999999999999, but"),
    "two nodes": (TSPLIB[TSPLIB.index(b"DIM") :], TWO_NODES, 5, "at least 3 nodes, DIMENSION is 2"),
    "unit square": (TSPLIB[TSPLIB.index(b"NODE") :], UNIT_SQUARE, None, "rounding to whole numbers changes distances"),
    "unit circle": (TSPLIB[TSPLIB.index(b"DIM") :], CIRCLE, None, "rounding to whole numbers changes distances by"),
    "explicit": (b"EUC_2D", b"EXPLICIT", None, "there is no EDGE_WEIGHT_SECTION"),
    "another metric": (b"EUC_2D", b"MAN_2D", 6, "CEIL_2D, ATT, GEO, EXACT_2D, EXPLICIT, got 'MAN_2D'"),
    "another type": (b"TYPE : TSP", b"TYPE : CVRP", 2, "TYPE must be one of TSP, ATSP, got 'CVRP'"),
    "header without colon": (b"COMMENT : a small", b"a small", 3, "`KEYWORD: value`, got 'a small file'"),
    "words for numbers": (b"2 3 -4.5", b"2 three -4.5", 9, "a coordinate must be a number, got 'three'"),
    "python's underscore": (b"2 3 -4.5", b"2 1_000 -4.5", 9, "a coordinate must be a number, got '1_000'"),
    "nan": (b"2 3 -4.5", b"2 nan -4.5", 9, "within +-1e+12, got 'nan'"),
    "too large": (b"2 3 -4.5", b"2 1e300 4", 9, "within +-1e+12, got '1e300'"),
    "id twice": (b"4 +2.5 .5", b"2 2.5 .5", 11, "node 2 is given twice"),
    "id too large": (b"5 -1 -1", b"6 -1 -1", 12, "node ids are 1..5, got '6'"),
    "id not whole": (b"5 -1 -1", b"5.01 -1 -1", 12, "a node id must be a whole number, got '5.01'"),
    "binary": (b"a small", b"a sm\xe4\x00ll", None, "this is not a text but a binary file"),
    "two files in one": (b"EOF\n", b"EOF\n" + TSPLIB, 14, "nothing may follow EOF"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_instances_are_refused_with_file_line_and_rule(tmp_path, case):
    old, new, line, rule = MALFORMED[case]
    path = tmp_path / "bad.tsp"
    assert TSPLIB.count(old) == 1
    path.write_bytes(TSPLIB.replace(old, new))
    with raises_with(path, line, rule) as caught:
        read_tsplib(path)
    assert len(str(caught.value)) < len(str(path)) + 200


def test_exact_distances_are_advised_where_there_are_such(tmp_path):
    for metric, advised in (("EUC_2D", True), ("CEIL_2D", True), ("ATT", False)):
        header = TSPLIB[: TSPLIB.index(b"NODE")].replace(b"EUC_2D", metric.encode())
        (tmp_path / "unit.tsp").write_bytes(header + UNIT_SQUARE)
        with pytest.raises(ValueError, match="multiply the coordinates") as caught:
            read_tsplib(tmp_path / "unit.tsp")
        assert ("problem.distances=exact" in str(caught.value)) == advised


def test_tour_is_counted_from_0_and_may_lack_dimension_and_end_marks(tmp_path):
    path = tmp_path / "five.tour"
    changes = ((b"EOF", b"EOF"), (b"DIMENSION : 5\n", b""), (b"-1\nEOF\n", b""), (b"-1\n", b"-1\n-1\n"))
    for old, new in changes:
        path.write_bytes(VALID_TOUR.replace(old, new))
        assert read_tour(path) == [2, 0, 1, 4, 3]


@pytest.mark.parametrize(
    ("old", "new", "line", "rule"),
    [
        (VALID_TOUR, b"", None, "the file is empty"),
        (b"5\n4\n-1\nEOF\n", b"", 3, "DIMENSION is 5, but TOUR_SECTION has 3 nodes"),
        (b"1 2", b"1 1", 6, "node 1 is visited twice"),
        (b"1 2", b"1 6", 6, "node ids are 1..5, got '6'"),
        (b"1 2", b"1 -1", 6, "-1 ends a tour, and another tour follows"),
        (b"EOF", b"3 1 2 5 4 -1\n-1\nEOF", 9, "-1 ends a tour, and another tour follows"),
        (b"1 2", b"1 b", 6, "a node id must be a whole number, got 'b'"),
        (b"DIMENSION : 5\nTOUR_SECTION\n3\n1 2\n5\n4\n", b"TOUR_SECTION\n", None, "TOUR_SECTION has no nodes"),
        (b"TYPE : TOUR", b"TYPE : TSP", 2, "TYPE must be one of TOUR, got 'TSP'"),
        (b"TOUR_SECTION\n", b"", 4, "`KEYWORD: value`, got '3'"),
        (b"EOF", b"TOUR_SECTION\n1", 10, "data sections: TOUR_SECTION, once; got 'TOUR_SECTION'"),
        (b"five.opt", b"\xff\x00", None, "this is not a text but a binary file"),
    ],
)
def test_malformed_tours_are_refused_with_file_line_and_rule(tmp_path, old, new, line, rule):
    path = tmp_path / "bad.tour"
    assert VALID_TOUR.count(old) == 1
    path.write_bytes(VALID_TOUR.replace(old, new))
    with raises_with(path, line, rule):
        read_tour(path)
