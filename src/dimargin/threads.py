"""How many threads, and how many of them for linear algebra."""

from __future__ import annotations

from contextlib import AbstractContextManager

from threadpoolctl import threadpool_limits

from dimargin import _core


def effective_n_threads(n_jobs: int | None) -> int:
    """Return the threads to use for an ``n_jobs`` parameter.

    None and -1 mean all that OpenMP and threadpoolctl allow, -2 all but one, and so on; a positive number is
    obeyed up to what they allow.

    Raises
    ------
    ValueError
        For ``n_jobs=0``.
    """
    allowed = int(_core.max_threads())
    if n_jobs is None:
        return allowed
    if n_jobs == 0:
        raise ValueError("n_jobs must be None or a whole number other than 0, got 0")
    return min(n_jobs, allowed) if n_jobs > 0 else max(1, allowed + 1 + n_jobs)


def single_threaded_blas() -> AbstractContextManager[object]:
    """Keep BLAS to one thread: its sums depend on the number of threads, ours must not."""
    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return limits
