"""Base of the solvers of dual problems, between which strategies choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic

from dimargin.problems.dual import DualProblem
from dimargin.problems.solution import Solution
from dimargin.solvers.loop import Solver, State

CACHE = 2**31  # Default number of bytes of cached kernel rows.


@dataclass(frozen=True)
class DualSolver(Solver[DualProblem, State, Solution], Generic[State]):
    """Base of solvers of dual problems, which start from coefficients of shape (n_outputs, n).

    Strategies make instances of the class that is their attribute `solver`; a solver may ignore
    parameters that do not concern it.

    Parameters
    ----------
    cache : int, default=2 GiB
        Largest number of bytes of cached kernel rows.
    random_state : int or numpy Generator seed, default=0
        Seed of all random choices.
    gram : int, default=2 GiB
        Largest number of bytes of a kernel matrix that is factored or cached in full. It must not
        depend on the number of threads, because the results depend on it.
    is_certified : bool, default=True
        Check a gap on float32 kernel values with float64 ones before it is believed. A caller that
        certifies the result itself may leave this out.

    Attributes
    ----------
    small : int
        Problems of at most this many rows are solved up to rounding, whatever the tolerance.
    """

    small: ClassVar[int] = 512
    cache: int = CACHE
    random_state: int = 0
    gram: int = CACHE
    is_certified: bool = True
