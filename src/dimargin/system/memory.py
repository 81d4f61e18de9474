"""The memory limit of this process, and checks that work fits into it."""

from __future__ import annotations

import os
import resource
import time
from functools import lru_cache

from dimargin.system.control_groups import memory_limits


def memory_of_process() -> int:
    """Return the bytes that machine, resource limits and control groups allow this process."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # The other limits, such as RLIMIT_RSS, do not make an allocation fail.
    limits = map(resource.getrlimit, (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    own = [limit for limit, _ in limits if limit != resource.RLIM_INFINITY]
    return min([machine, *own, *_limits_of_groups(int(time.monotonic()))])


@lru_cache(maxsize=1)
def _limits_of_groups(second: int) -> list[int]:
    """Return the control groups' limits, read once a second: reading slows single predictions."""
    return memory_limits()


def out_of_memory(what: str) -> str:
    """Return the message that something needs more memory than is available."""
    return f"{what} needs more memory than there is; this process may use {memory_of_process()} bytes"


def check_memory(needed: int, limit: int | None, what: str = "this fit", advice: str = "") -> None:
    """Raise MemoryError, before any work, if something cannot fit into memory.

    Parameters
    ----------
    needed : int
        Bytes, in addition to the data that the caller already holds.
    limit : int or None
        The parameter ``memory_limit``; None means that only the limit of the process counts.
    what : str, default="this fit"
        Name of the work, for the message.
    advice : str, optional
        Further advice in the message.
    """
    available = memory_of_process()
    if limit is not None and needed > limit:
        raise MemoryError(
            f"memory_limit={limit} bytes is too small: {what} needs about {needed} bytes in addition to the data. "
            "Raise the limit, pass fewer rows or columns, or "
            f"{advice or 'use tol >= 1e-4, which needs no float64 copy'}"
        )
    if needed > available:
        raise MemoryError(
            f"{what} needs about {needed} bytes in addition to the data, and this process may use {available}. "
            f"Pass fewer rows or columns{advice and ', or '}{advice}"
        )
