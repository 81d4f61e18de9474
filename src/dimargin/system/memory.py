"""Memory that this process may use, and checks that work fits into it."""

from __future__ import annotations

import os
import resource
import time
from functools import lru_cache

from dimargin.system.control_groups import memory_limits

_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_DATA)  # the others, RLIMIT_RSS above all, refuse no memory


def memory_of_process() -> int:
    """Return the bytes that this process may use, which its limits and all its control groups may restrict."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    own = [limit for limit, _ in map(resource.getrlimit, _LIMITS) if limit != resource.RLIM_INFINITY]
    return min([machine, *own, *_limits_of_groups(int(time.monotonic()))])


@lru_cache(maxsize=1)
def _limits_of_groups(second: int) -> list[int]:
    """Return the limits of control groups, read once a second, which would be felt in the prediction of one row."""
    return memory_limits()


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
            f"{what} needs about {needed} bytes beside the data, and this process may use {most}. Pass fewer rows or "
            f"columns{advice and ', or '}{advice}"
        )
