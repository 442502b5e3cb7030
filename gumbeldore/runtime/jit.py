"""Functions that Numba compiles at their first call and keeps in the user's cache, and random numbers in them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np

from gumbeldore.runtime.files import cache_folder

Function = TypeVar("Function", bound=Callable)


def compiled(function: Function) -> Function:
    """Compile a function for the types of its first call; what was compiled is kept, if the user's folder can be used.

    Numba takes what was kept while the function's own file is unchanged, even if another file has changed, with
    functions that it calls. So each version of the files beside it has a folder of its own.
    """
    version = hashlib.sha256()
    for path in (Path(__file__), *sorted(Path(function.__code__.co_filename).parent.glob("*.py"))):
        version.update(path.read_bytes())
    compiler: Any = numba  # its own types do not say that a compiled function is called like the function
    try:
        folder = cache_folder("numba") / version.hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError):
        return compiler.njit(function)
    others, compiler.config.CACHE_DIR = compiler.config.CACHE_DIR, str(folder)
    try:
        return compiler.njit(cache=True)(function)
    finally:
        compiler.config.CACHE_DIR = others


@contextlib.contextmanager
def compiling(function: Any, what: str) -> Iterator[None]:
    """Around calls of a compiled function: at the first one, one of several processes compiles it, the others wait.

    Arguments:
        what: is compiled, as a line says that announces the wait
    """
    folder = function.stats.cache_path
    if function.signatures:  # compiled in this process
        yield
        return
    if folder is None:
        print(f"compiling {what}, which {cache_folder('numba')} cannot keep", file=sys.stderr)
        yield
        return
    with open(Path(folder) / "lock", "ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not any(Path(folder).glob("*.nbi")):
            print(f"compiling {what} for this machine, once", file=sys.stderr)
        yield


@compiled
def below(state, count):
    """A random number of 0..count - 1; the next one of the stream `state[0].random` [Vigna 2016, xorshift64*]."""
    x = state[0].random
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0].random = x
    return np.int64((x * np.uint64(2685821657736338717)) >> np.uint64(33)) % count
