"""Files of any origin: only regular ones are read, and sizes of arrays are checked before memory is taken for them."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path

from numpy.lib import format as npy

SMALL = 2**28  # bytes that any `.npz` may unpack to ...
EXPANSION = 20  # ... and beyond, bytes per byte of the file: int64 packs by 8 and more, zeros of a hostile file by 1000


def regular(path: Path) -> Path:
    """The path of a file to be read. Raises ValueError for a pipe or a device, which may never end."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: this is a pipe, a device or a folder, not a file")
    return path


def check_sizes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays of a `.npz`.

    Raises ValueError, or what zipfile raises of a damaged archive, unless every array is as large as its header says,
    and all together are not much larger than the file.
    """
    shapes = {}
    largest = max(SMALL, EXPANSION * regular(path).stat().st_size)
    with zipfile.ZipFile(path) as archive:
        claimed = sum(member.file_size for member in archive.infolist())
        if claimed > largest:
            raise ValueError(f"it claims to hold {claimed} bytes, a file of its size may hold {largest}")
        for member in archive.infolist():
            with archive.open(member) as file:
                readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
                version = npy.read_magic(file)
                if version not in readers:
                    raise ValueError(f"{member.filename} has the version {version} of .npy, supported are 1.0 and 2.0")
                shape, _, dtype = readers[version](file)
                size = member.file_size - file.tell()
            if math.prod(shape) * dtype.itemsize != size and not dtype.hasobject:  # objects are refused by numpy
                raise ValueError(f"{member.filename} claims {dtype} {list(shape)}, but holds {size} bytes")
            shapes[member.filename.removesuffix(".npy")] = shape
    return shapes
