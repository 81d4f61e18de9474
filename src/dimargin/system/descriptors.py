"""File descriptors, some of them reserved for files in case connections take all others."""

from __future__ import annotations

import errno
import os
import resource
import select
import threading

# A connection of an unknown peer takes about 10 kB, so this many take 650 MB.
MAX_DESCRIPTORS = 65_536

_lock = threading.Lock()
_reserved = 0


def reserve_descriptors() -> None:
    """Raise the soft limit of descriptors to the hard one, less a few for `open_reserved` only.

    The soft limit and the reserved descriptors together never exceed `MAX_DESCRIPTORS`.
    """
    global _reserved
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    # A site opens one file at a time. The other reserved descriptors make up for those that new
    # connections take while it does.
    _reserved = min(64, limit // 8)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit - _reserved, hard))


def open_reserved(path: str, flags: int, mode: int = 0o666) -> int:
    """Open a file, with a reserved descriptor if all others are taken; an `opener` for `open`.

    The limit is raised only while the file is opened, and step by step, since a connection may take
    the new descriptor first. A descriptor above the limit stays valid.
    """
    with _lock:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        for more in range(_reserved + 1):
            try:
                if more:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft + more, hard))
                return os.open(path, flags, mode)
            except OSError as error:
                if error.errno != errno.EMFILE or more == _reserved:
                    raise
            finally:
                if more:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    raise AssertionError("unreachable")


def is_descriptor_free() -> bool:
    """Return whether a descriptor that is not reserved is free."""
    try:
        with _lock:  # The lock keeps `open_reserved` from raising the limit meanwhile.
            os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno not in (errno.EMFILE, errno.ENFILE)
    return True


def share_hung_up() -> float:
    """Return the share of the available descriptors that are connections closed by the peer."""
    with _lock:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    ended, every = getattr(select, "POLLRDHUP", 0), select.poll()
    for descriptor in range(soft):
        every.register(descriptor, ended)
    return sum(bool(event & ended) for _, event in every.poll(0)) / soft
