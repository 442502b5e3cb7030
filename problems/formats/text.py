"""What the readers of text formats share: lines with their numbers, numbers, and one form of error."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from gumbeldore.runtime.arrays import regular

LARGEST = 2**28  # bytes of a file in memory: a hostile .gz can unpack to a thousand times its size
GZIP = b"\x1f\x8b"
BINARY = {  # how files of other kinds begin, and what to say of them
    b"\x93NUMPY": "this is a .npy, one array; instances come in an .npz of named arrays: {npz}",
    b"PK\x03\x04": "this is a zip archive, as .xlsx is; one of NumPy's must be called .npz, else {npz}",
    **{b"\x80" + bytes([version]): "this is a pickle, which can run any program; {npz}" for version in range(2, 6)},
}
MAKE_NPZ = "load it in Python and write the arrays that docs/data.md names, e.g. np.savez('{name}.npz', coords=coords)"


def lines(path: Path) -> list[tuple[int, str]]:
    """The stripped lines that are not blank, with their numbers from 1, of a text that may be packed by gzip."""
    text = text_of(path)
    return [(place, line.strip()) for place, line in enumerate(text.split("\n"), start=1) if line.strip()]


def text_of(path: Path) -> str:
    """A text that may be packed by gzip. Raises ValueError that names the file if it is empty or no text."""
    data = _content(path).replace(b"\r\n", b"\n").replace(b"\r", b"\n").rstrip(b"\x1a\n")  # the end mark of DOS
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        if b"\0" in data:
            raise error(path, None, "this is not a text but a binary file") from None
        text = data.decode("latin-1")  # of old files: names and remarks with accents
    if not text.strip():
        raise error(path, None, "the file is empty")
    return text


def _content(path: Path) -> bytes:
    """The bytes of a file, unpacked. Raises ValueError that says what the file is if it is a known kind of binary."""
    try:
        data = regular(path).read_bytes()
    except OSError as failure:
        if failure.filename is not None:
            raise
        raise error(path, None, f"it cannot be read: {failure.strerror}") from None
    if data.startswith(GZIP):
        try:
            with gzip.open(path) as packed:
                data = packed.read(LARGEST + 1)
        except (OSError, EOFError, zlib.error) as damage:
            raise error(path, None, f"the .gz is damaged: {damage}") from None
        if len(data) > LARGEST:
            raise error(path, None, f"the .gz unpacks to more than {LARGEST} bytes")
    for beginning, rule in BINARY.items():
        if data.startswith(beginning):
            raise error(path, None, rule.format(npz=MAKE_NPZ.format(name=stem(path))))
    return data


def unpacked(path: Path) -> Path:
    """The path without the suffix `.gz`."""
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def stem(path: Path) -> str:
    """The name of a file without its suffix, and without `.gz` behind that."""
    return unpacked(path).stem


def number(path: Path, line: int, word: str, kind: type, what: str):
    """The number that `word` is: an int or a float, by `kind`. Some programs write a whole number as 100.0."""
    whole, _, decimals = word.partition(".")
    try:
        # Python alone would read 1_000 as a number.
        return kind((whole if kind is int and not decimals.strip("0") else word).replace("_", "?"))
    except ValueError:
        noun = "a whole number" if kind is int else "a number"
        raise error(path, line, f"{what} must be {noun}, got {short(word)}") from None


def short(text: str) -> str:
    """The text as it is shown in messages."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def error(path: Path, line: int | None, rule: str) -> ValueError:
    """What is wrong with a file, to be raised; `line` counts from 1, None where the whole file is meant."""
    return ValueError(f"{path}: {rule}" if line is None else f"{path}, line {line}: {rule}")
