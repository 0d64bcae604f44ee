"""How the C library keeps memory that is free.

Knows mallopt(3) of glibc; another C library is left as it is.
"""

from __future__ import annotations

import ctypes

_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

LARGE = 256 * 1024
"""Bytes from which a piece of memory is given back to the system as soon as it is free."""


def give_back_free_memory() -> None:
    """Have free memory given back to the system; for this process, before it has a second thread.

    Otherwise each thread has an arena of its own, of which the end is never given back, and what counts as large grows
    with what was freed last: a file of 50 KB that is hard to read leaves 6 MiB in each thread that has ever read it.
    Threads have nothing from arenas of their own here, as one of them runs at a time.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_ARENA_MAX, 1)
        library.mallopt(_M_MMAP_THRESHOLD, LARGE)
