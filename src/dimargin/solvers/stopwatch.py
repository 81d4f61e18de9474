"""How long kernel values take, by which a solve tells whether a pass over the rows would end before its time limit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dimargin.kernels.matrix import KernelMatrix

_MIN_SECONDS = 0.05
"""Less time says nothing of values: it may be that of a few calls, or of other work of the processor."""


@dataclass
class Stopwatch:
    """Seconds that kernel values have taken, over all calls so far.

    A single call tells too little: one that computes hardly any value would make each of them seem to take for ever,
    and a time limit that is far away would end the solve.
    """

    seconds: float = 0.0
    values: int = 0

    @contextmanager
    def timing(self, kernel: KernelMatrix) -> Iterator[None]:
        """Count the values that a matrix computes, or leaves out as negligible, until the block ends."""
        before, began = kernel.evaluations + kernel.left_out, time.perf_counter()
        yield
        self.add(time.perf_counter() - began, kernel.evaluations + kernel.left_out - before)

    def add(self, seconds: float, values: int) -> None:
        """Count values that took so long."""
        self.seconds += seconds
        self.values += values

    def seconds_for(self, values: float) -> float:
        """Return the seconds that so many values would take, or zero while too few have been timed to tell."""
        return self.seconds * values / max(1, self.values) if self.seconds >= _MIN_SECONDS else 0.0
