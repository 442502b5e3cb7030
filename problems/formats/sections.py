"""What files in the manner of TSPLIB share: a header of keywords, data sections, lines that each belong to a node."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np

from problems.formats.text import error, lines, number, short, stem

LARGEST_COORDINATE = 1e12  # beyond it the rounding of an edge to a whole number would lose digits in float64

Header = dict[str, tuple[int, str]]  # keyword -> line number, value


class Content(NamedTuple):
    header: Header
    rows: dict[str, list[tuple[int, str]]]  # section -> line number and text of each of its lines
    ended: bool  # by EOF


class Sections(NamedTuple):
    """Keywords of data sections."""

    needed: Collection[str]
    others: Collection[str] = ()  # that may be there, too


def read_content(
    path: Path,
    sections: Callable[[Header], Sections],
    required: dict[str, Collection[str]],
    optional: Collection[str] | None = None,
) -> Content:
    """The header and the data sections of a file; keywords may be in small letters, header lines between sections.

    Arguments:
        sections: the data sections that a file with this header has, and no others.
        required: the keywords the header must have, each with the values supported (empty: any).
        optional: the other keywords it may have, None for any.
    """
    header: Header = {}
    rows: dict[str, list[tuple[int, str]]] = {}
    begun: list[tuple[int, str]] = []  # line number and keyword of each section
    ended = False
    for line, text in lines(path):
        bare = text.rstrip(": \t").upper()
        if ended:
            raise error(path, line, f"nothing may follow EOF, got {short(text)}")
        elif bare == "EOF":
            ended = True
        elif re.fullmatch(r"[^\s:]*_SECTION", bare):  # a remark may end with such a word
            begun.append((line, bare))
            rows[bare] = []
        elif begun and not re.match(r"[A-Za-z_]+\s*:", text):
            rows[begun[-1][1]].append((line, text))
        else:
            keyword, value = _keyword(path, line, text, header, required)
            if optional is not None and keyword not in {*required, *optional}:
                raise error(path, line, f"the keyword {short(keyword)} is not supported")
            header[keyword] = (line, value)
    missing = [keyword for keyword in required if keyword not in header]
    if missing:
        raise error(path, None, f"the header lacks {', '.join(missing)}")
    needed, others = sections(header)
    for place, (line, keyword) in enumerate(begun):
        if keyword not in {*needed, *others} or keyword in [earlier for _, earlier in begun[:place]]:
            known = ", ".join([*needed, *others])
            raise error(path, line, f"supported data sections: {known}, once; got {short(keyword)}")
    absent = [keyword for keyword in needed if keyword not in rows]
    if absent:
        raise error(path, None, f"there is no {', '.join(absent)}")
    return Content(header, rows, ended)


def _keyword(path: Path, line: int, text: str, header: Header, required: dict[str, Collection[str]]) -> tuple[str, str]:
    """The keyword and the value in `KEYWORD: value`."""
    keyword, colon, value = (part.strip() for part in text.partition(":"))
    keyword = keyword.upper()
    if not colon:
        raise error(path, line, f"a header line is `KEYWORD: value`, got {short(text)}")
    if keyword in header and keyword != "COMMENT":
        raise error(path, line, f"{keyword} was already given in line {header[keyword][0]}")
    supported = required.get(keyword)
    if supported and first_word(value) not in supported:
        raise error(path, line, f"{keyword} must be one of {', '.join(supported)}, got {short(value)}")
    return keyword, value


def name_of(path: Path, header: Header, *suffixes: str) -> str:
    """The NAME of an instance, to which some files add their suffix; without one, that of the file."""
    name = header.get("NAME", (0, ""))[1]
    suffix = next((suffix for suffix in suffixes if name.lower().endswith(suffix)), "")
    return name[: len(name) - len(suffix)] or stem(path)


def first_word(value: str) -> str:
    """The value in capitals, without the remark that some files of TSPLIB put behind it."""
    return value.split()[0].upper() if value else ""


def check_count(path: Path, header: Header, section: str, count: int) -> None:
    """Refuses a `section` that has `count` nodes, if DIMENSION is given and says otherwise."""
    if "DIMENSION" in header:  # nothing is allocated by it
        line, word = header["DIMENSION"]
        num_nodes = number(path, line, word, int, "DIMENSION")
        if num_nodes != count:
            raise error(path, line, f"DIMENSION is {num_nodes}, but {section} has {count} nodes")


def node_coordinates(path: Path, content: Content, section: str = "NODE_COORD_SECTION") -> np.ndarray:
    """The coordinates [N, 2] float64 in a section."""
    nodes = node_lines(path, content, section, "id x y")
    coords = np.empty((len(nodes), 2))
    for line, node, words in nodes:
        coords[node] = [coordinate(path, line, word) for word in words]
    return coords


def node_lines(path: Path, content: Content, section: str, form: str) -> list[tuple[int, int, list[str]]]:
    """For each line of a section with one line per node: its number, its node from 0, its words after the id.

    Arguments:
        form: the words of a line, e.g. "id x y".
    """
    rows = content.rows[section]
    if rows and rows[-1][1] == "-1":  # an end mark, which some programs write
        rows = rows[:-1]
    check_count(path, content.header, section, len(rows))
    seen: dict[int, tuple[int, int, list[str]]] = {}
    for line, text in rows:
        words = text.split()
        if len(words) != len(form.split()):
            raise error(path, line, f"a node is `{form}`, got {len(words)} words: {short(text)}")
        node = node_id(path, line, words[0], len(rows))
        if node in seen:
            raise error(path, line, f"node {node + 1} is given twice")
        seen[node] = (line, node, words[1:])
    return list(seen.values())


def node_id(path: Path, line: int, word: str, num_nodes: int) -> int:
    """The node of an id from 1, counted from 0."""
    node = number(path, line, word, int, "a node id")
    if not 1 <= node <= num_nodes:
        raise error(path, line, f"node ids are 1..{num_nodes}, got {short(word)}")
    return node - 1


def coordinate(path: Path, line: int, word: str) -> float:
    """The coordinate that a word is; raises ValueError with file, line and rule if it is none."""
    value = number(path, line, word, float, "a coordinate")
    if not math.isfinite(value) or abs(value) > LARGEST_COORDINATE:
        raise error(path, line, f"coordinates must lie within +-{LARGEST_COORDINATE:g}, got {short(word)}")
    return value
