"""Numbers of threads, those of linear algebra among them."""

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

from dimargin import _core
from dimargin.system.control_groups import processor_limits


def effective_n_threads(n_jobs: int | None) -> int:
    """Return the number of threads to use for an ``n_jobs`` parameter.

    None and -1 mean one for every processor that this process may use: by affinity, by the quotas of its control groups
    (a container, a batch job, a service) and by LOKY_MAX_CPU_COUNT. -2 means all but one, and so on. A positive number
    is obeyed even where it is more than that. OpenMP (OMP_NUM_THREADS) and threadpoolctl limit all of these.

    Raises
    ------
    ValueError
        For ``n_jobs=0``.
    """
    allowed = int(_core.max_threads())
    if n_jobs == 0:
        raise ValueError("n_jobs must be None or a whole number other than 0, got 0")
    if n_jobs is not None and n_jobs > 0:
        return min(n_jobs, allowed)
    usable = min(_processors(int(time.monotonic())), allowed)
    return usable if n_jobs is None else max(1, usable + 1 + n_jobs)


@lru_cache(maxsize=1)
def _processors(second: int) -> int:
    """Return how many processors this process may use, counted once a second.

    To read the files of a control group at every call would be felt in the prediction of one row.
    """
    from joblib import cpu_count  # slow to import, and scikit-learn has done so wherever there is something to fit

    # joblib reads the quota of the root alone, which is that of a container, but not of a job or a service
    return min([int(cpu_count()), *(math.ceil(limit) for limit in processor_limits())])


class _SingleThreadedBlas:
    """Context manager that keeps BLAS to one thread.

    The limit belongs to the process: the first of the fits that overlap sets it, the last one lifts it.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.users = 0
        self.limits: Any = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Keep BLAS to one thread, because its sums depend on the number of threads, and results must not."""
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
        """Replace the lock after a fork, because another thread may have held it, which nobody would release."""
        self.lock = Lock()


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """Return the controller of the loaded libraries.

    To search for them takes longer than a small fit, so this is done anew only where imports have changed `n_modules`.
    """
    return ThreadpoolController()


def _take_control() -> None:
    """Let this thread limit OpenBLAS even where threadpoolctl granted that to another one."""
    OpenBLASController.clear_controlling_thread(force=True)


single_threaded_blas = _SingleThreadedBlas()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=single_threaded_blas.renew_lock)
