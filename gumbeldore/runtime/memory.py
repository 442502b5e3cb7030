"""CPU memory: the machine's, the peak of this process, and that freed memory is kept."""

from __future__ import annotations

import ctypes
import os
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # <malloc.h>
LARGEST = 2**31 - 1


def physical_memory() -> int:
    """The bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def peak_memory() -> int:
    """The most bytes that this process has held so far."""
    import resource  # Linux and macOS have it

    unit = 1 if sys.platform == "darwin" else 2**10  # ru_maxrss is in bytes there, in KiB elsewhere
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def keep_freed_memory() -> None:
    """Keep freed memory for the next step instead of giving it back to the system.

    By default glibc unmaps large blocks when they are freed, so every layer of every step faults its pages in anew: a
    third of the sampling time of a small network on two threads (measured, see docs/decisions.md). Does nothing where
    there is another allocator than glibc's.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGEST)
        mallopt(M_TRIM_THRESHOLD, LARGEST)
