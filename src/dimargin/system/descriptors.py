"""File descriptors of the process, of which some are reserved for its own files when connections take all others."""

from __future__ import annotations

import errno
import os
import resource
import select
import threading

# Each connection of a stranger takes about 10 kB, so that this many take 650 MB.
MAX_DESCRIPTORS = 65_536
_MAX_RESERVED = 64  # A site opens one file at a time; the others replace those that connections get in that moment.

_lock = threading.Lock()
_reserved = 0


def reserve_descriptors() -> None:
    """Raise the soft limit of descriptors to the hard one, but for a few that only `open_reserved` uses.

    Limits above `MAX_DESCRIPTORS` count as that many.
    """
    global _reserved
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    _reserved = min(_MAX_RESERVED, most // 8)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most - _reserved, hard))


def open_reserved(path: str, flags: int, mode: int = 0o666) -> int:
    """Open a file, by a reserved descriptor if all others are taken; an `opener` for `open`.

    The limit is raised while the file is being opened, by as little as possible, since a connection may be accepted
    first. A descriptor above the limit stays valid.
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
    """Return whether a descriptor that is not reserved can be had now."""
    try:
        with _lock:  # nobody opens a file with a reserved one now
            os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno not in (errno.EMFILE, errno.ENFILE)
    return True


def share_hung_up() -> float:
    """Return the share of all possible descriptors that are connections which the other side has ended."""
    with _lock:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    ended, every = getattr(select, "POLLRDHUP", 0), select.poll()
    for descriptor in range(soft):
        every.register(descriptor, ended)
    return sum(bool(event & ended) for _, event in every.poll(0)) / soft
