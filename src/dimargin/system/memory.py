"""Memory that this process may use, and checks that work fits into it."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path


def memory_of_process() -> int:
    """Return the bytes that this process may use, which its container or its limits may restrict."""
    bounds = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        bounds.append(limit)
    with suppress(OSError, ValueError):  # no such file, or "max"
        bounds.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(bounds)


def out_of_memory(what: str) -> str:
    """Return a message that something needs more memory than there is."""
    return f"{what} needs more memory than there is; this process may use {memory_of_process()} bytes"


def check_memory(needed: int, limit: int | None, what: str = "this fit", advice: str = "") -> None:
    """Raise MemoryError, before any work, if something cannot fit into memory.

    Parameters
    ----------
    needed : int
        Bytes, beside the data that the caller already holds.
    limit : int or None
        ``memory_limit``; None compares with what the process may use.
    what : str, default="this fit"
        Name of the work, for the message.
    advice : str, optional
        Further advice in the message.
    """
    most = memory_of_process()
    if limit is not None and needed > limit:
        raise MemoryError(
            f"memory_limit={limit} bytes is too small: {what} needs about {needed} bytes beside the data. Raise the "
            f"limit, pass fewer rows or columns, or {advice or 'use tol >= 1e-4, which needs no float64 copy'}"
        )
    if needed > most:
        raise MemoryError(
            f"{what} needs about {needed} bytes beside the data, and the machine has {most}. Pass fewer rows or "
            f"columns{advice and ', or '}{advice}"
        )
