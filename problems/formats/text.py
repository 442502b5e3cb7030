"""What the readers of text formats share: lines with their numbers, numbers, and one form of error."""

from __future__ import annotations

from pathlib import Path


def lines(path: Path) -> list[tuple[int, str]]:
    """The stripped lines that are not blank, with their numbers from 1."""
    data = path.read_bytes().replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as undecodable:
        place = undecodable.start
        line = data.count(b"\n", 0, place) + 1
        raise error(path, line, f"the file must be UTF-8 text, got byte 0x{data[place]:02x}") from None
    found = [(place, line.strip()) for place, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not found:
        raise error(path, None, "the file is empty")
    return found


def number(path: Path, line: int, word: str, kind: type, what: str):
    """The number that `word` is: an int or a float, by `kind`."""
    try:
        return kind(word.replace("_", "?"))  # Python alone would read 1_000 as a number
    except ValueError:
        noun = "a whole number" if kind is int else "a number"
        raise error(path, line, f"{what} must be {noun}, got {short(word)}") from None


def short(text: str) -> str:
    """The text as it is shown in messages."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def error(path: Path, line: int | None, rule: str) -> ValueError:
    """What is wrong with a file, to be raised; `line` counts from 1, None where the whole file is meant."""
    return ValueError(f"{path}: {rule}" if line is None else f"{path}, line {line}: {rule}")
