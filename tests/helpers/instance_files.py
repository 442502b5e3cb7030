"""Files of instances in the formats of other programs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def write_vrp(path: Path, coords: list, demands: list[int], capacity: int, metric: str = "EUC_2D", name="") -> Path:
    nodes = "".join(f"{i} {x} {y}\n" for i, (x, y) in enumerate(coords, start=1))
    loads = "".join(f"{i} {demand}\n" for i, demand in enumerate(demands, start=1))
    header = f"NAME: {name or path.stem}\nTYPE: CVRP\nDIMENSION: {len(coords)}\nEDGE_WEIGHT_TYPE: {metric}\n"
    sections = f"NODE_COORD_SECTION\n{nodes}DEMAND_SECTION\n{loads}DEPOT_SECTION\n1\n-1\nEOF\n"
    path.write_text(f"{header}CAPACITY: {capacity}\n{sections}")
    return path


def write_tsp(path: Path, coords: list) -> Path:
    nodes = "".join(f"{i} {x} {y}\n" for i, (x, y) in enumerate(coords, start=1))
    header = f"NAME: {path.stem}\nTYPE: TSP\nDIMENSION: {len(coords)}\nEDGE_WEIGHT_TYPE: EUC_2D\n"
    path.write_text(f"{header}NODE_COORD_SECTION\n{nodes}EOF\n")
    return path


def raises_with(path: Path, line: int | None, rule: str):
    """The error of a reader, which names the file, the line and the rule."""
    where = f"{path}: " if line is None else f"{path}, line {line}: "
    return pytest.raises(ValueError, match=f"^{re.escape(where)}.*{re.escape(rule)}")


def write_tour(path: Path, tour: list[int]) -> None:
    path.write_text("TYPE: TOUR\nTOUR_SECTION\n" + "\n".join(str(node + 1) for node in tour) + "\n-1\nEOF\n")


CVRPLIB = b"""NAME : four
COMMENT : (a small file, No of trucks: 2)
COMMENT : with two remarks
TYPE : CVRP
DIMENSION : 5
EDGE_WEIGHT_TYPE : EUC_2D
CAPACITY : 10
NODE_COORD_SECTION
1 0.0 0.0
2 3 -4.5
3 1e2 7
4 +2.5 .5
5 -1 -1
DEMAND_SECTION
1 0
2 10
3 4
4 0
5 6
DEPOT_SECTION
1
-1
EOF
"""
TSPLIB = b"""NAME : five
TYPE : TSP
COMMENT : a small file
COMMENT : with two remarks
DIMENSION : 5
EDGE_WEIGHT_TYPE : EUC_2D
NODE_COORD_SECTION
1 0.0 0.0
2 3 -4.5
3 1e2 7
4 +2.5 .5
5 -1 -1
EOF
"""
JSPLIB = b"""# a small instance
# of three jobs
3 2
0 5 1 7
1 12 0 0

  1   3 0 +4
"""
