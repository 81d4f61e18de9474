"""Numbers of threads for the compiled core and for BLAS."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController

from dimargin.system.control_groups import processor_limits


def effective_n_threads(n_jobs: int | None) -> int:
    """Return the number of threads to use for an ``n_jobs`` parameter.

    None and -1 mean one thread per processor that this process may use: by affinity, by the quotas
    of its control groups (a container, a batch job, a service) and by LOKY_MAX_CPU_COUNT. -2 means
    all but one, and so on. A positive number may exceed these limits. OMP_NUM_THREADS and
    threadpoolctl limit the number in every case.

    Raises
    ------
    ValueError
        For ``n_jobs=0``.
    """
    from dimargin import _core  # Sites need no compiled core, which takes 10 MB.

    allowed = int(_core.max_threads())
    if n_jobs == 0:
        raise ValueError("n_jobs must be None or a nonzero integer, got 0")
    if n_jobs is not None and n_jobs > 0:
        return min(n_jobs, allowed)
    usable = min(_processors(int(time.monotonic())), allowed)
    return usable if n_jobs is None else max(1, usable + 1 + n_jobs)


@lru_cache(maxsize=1)
def _processors(second: int) -> int:
    """Return how many processors this process may use, counted once a second.

    Reading the files of control groups at every call would slow the prediction of single rows.
    """
    # The import is slow, but scikit-learn has done it in every process that fits estimators.
    from joblib import cpu_count

    # Joblib reads the quota of the root group only: of a container, but not of a job or a service.
    return min([int(cpu_count()), *(math.ceil(limit) for limit in processor_limits())])


class _SingleThreadedBlas:
    """Context manager that limits BLAS to one thread.

    The limit is one of the whole process: the first of several overlapping fits sets it, and the
    last one lifts it.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.users = 0
        self.limits: Any = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Limit BLAS to one thread, since results must not depend on the number of threads."""
        with self.lock:
            if self.users == 0:
                _take_control()
                self.limits = _libraries(len(sys.modules)).limit(limits=1, user_api="blas")
            self.users += 1
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                if self.users == 0:
                    _take_control()
                    self.limits.restore_original_limits()
                    OpenBLASController.clear_controlling_thread()

    def renew_lock(self) -> None:
        """Replace the lock after a fork: the child lacks the thread that may have held it."""
        self.lock = Lock()


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """Return the controller of the loaded libraries.

    Searching for them takes longer than a small fit, so the search is repeated only after imports
    have changed `n_modules`.
    """
    return ThreadpoolController()


def _take_control() -> None:
    """Let this thread limit OpenBLAS even if threadpoolctl granted that to another one."""
    OpenBLASController.clear_controlling_thread(force=True)


single_threaded_blas = _SingleThreadedBlas()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=single_threaded_blas.renew_lock)
