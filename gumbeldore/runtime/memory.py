"""Freed CPU memory is kept for the next step instead of given back to the system.

By default glibc unmaps large blocks when they are freed, so every layer of every step faults its pages in anew: a
third of the sampling time of a small network on two threads (measured, see docs/decisions.md).
"""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # <malloc.h>
LARGEST = 2**31 - 1


def keep_freed_memory() -> None:
    """Tell glibc's allocator; does nothing where there is another one."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGEST)
        mallopt(M_TRIM_THRESHOLD, LARGEST)
