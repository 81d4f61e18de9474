"""Time per kernel value, to predict whether a pass over the rows fits into the time limit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from dimargin.kernels.matrix import KernelMatrix


@dataclass
class Stopwatch:
    """Seconds that kernel values took in all calls so far.

    A single call would say too little: one that computes few values has a large overhead for each,
    with which a distant time limit could end the solve.
    """

    # A shorter time may be that of few calls, or of other work of the processor.
    min_seconds: ClassVar[float] = 0.05
    seconds: float = 0.0
    values: int = 0

    @contextmanager
    def timing(self, kernel: KernelMatrix) -> Iterator[None]:
        """Time the values that a matrix computes, or leaves out as negligible, within the block."""
        before, began = kernel.evaluations + kernel.left_out, time.perf_counter()
        yield
        self.add(time.perf_counter() - began, kernel.evaluations + kernel.left_out - before)

    def add(self, seconds: float, values: int) -> None:
        """Add the seconds that some values took."""
        self.seconds += seconds
        self.values += values

    def seconds_for(self, values: float) -> float:
        """Return the seconds that `values` values would take, or zero while too few were timed."""
        return self.seconds * values / max(1, self.values) if self.seconds >= self.min_seconds else 0.0
