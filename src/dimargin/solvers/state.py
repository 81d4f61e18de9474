"""Where block coordinate descent stands: the present iterate, the best one, and what is to be visited next."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from dimargin.kernels import Indices
from dimargin.solution import DualProblem, Floats, Objectives
from dimargin.solvers.active import ActiveRows, RowCache
from dimargin.solvers.loop import Limits


@dataclass
class Best:
    """The iterate with the smallest gap, output by output."""

    dual: Floats
    margins: Floats
    primal: Floats
    dual_objective: Floats
    gap: Floats
    intercept: Floats

    @classmethod
    def of(cls, problem: DualProblem, dual: Floats, margins: Floats) -> Best:
        """A first one."""
        now = problem.objectives(dual, margins)
        return cls(dual.copy(), margins.copy(), now.primal, now.dual, now.relative_gap, now.intercept)

    def update(self, outputs: Indices, dual: Floats, margins: Floats, objectives: Objectives) -> None:
        """Take over those of the given outputs whose gap has become smaller."""
        better = objectives.relative_gap < self.gap[outputs]
        places = outputs[better]
        self.dual[places], self.margins[places] = dual[better], margins[better]
        self.primal[places] = objectives.primal[better]
        self.dual_objective[places] = objectives.dual[better]
        self.gap[places] = objectives.relative_gap[better]
        self.intercept[places] = objectives.intercept[better]

    @property
    def objectives(self) -> Objectives:
        """Of all outputs, as they are now."""
        return Objectives(self.primal.copy(), self.dual_objective.copy(), self.gap.copy(), self.intercept.copy())


@dataclass
class State:
    """All that one solve knows; what stays as it is comes first."""

    limits: Limits
    rng: np.random.Generator
    memory: int  # bytes of remembered kernel rows, at most
    fixed_block_size: int | None  # asked for
    order: Indices | None  # canonical order of a problem of one block
    places: Indices | None  # of the rows in the problem as given, whose order is another where its kernel is local
    pieces: Floats  # of the conjugate, as the core takes them

    whole: DualProblem  # of all outputs; its kernel changes when float32 is left
    problem: DualProblem  # of the outputs that have not met the tolerance yet
    outputs: Indices  # which those are
    dual: Floats
    margins: Floats
    best: Best  # of all outputs
    spent: int  # evaluations of kernels left behind

    began: float = field(default_factory=time.perf_counter)
    queue: list[Indices | None] = field(default_factory=list)  # blocks of the pass; None: the worst violators then
    previous: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # worst violators, the last time
    block_size: int = 0  # in this pass
    passes: int = 0  # begun
    visited: int = 0  # rows visited in all
    since_check: int = 0  # rows visited since the last check
    unchecked: bool = True

    active: ActiveRows | None = None  # while others rest
    wake_at: int = 0  # passes after which they wake in any case
    wake_gap: float = 0.0  # of the active rows, at which they do
    cache: RowCache | None = None  # of the active rows, the last time that others rested
    whole_gap: float = np.inf  # at the last check of all rows

    improved_at: int = 0  # rows visited at the last improvement
    reached: tuple[float, Floats] = (np.inf, np.empty(0))  # worst gap and dual objectives then

    def as_given(self, values: Floats) -> Floats:
        """Values of all rows, of shape (n_outputs, n), in the order of the problem as given."""
        return values if self.places is None else np.ascontiguousarray(values[:, np.argsort(self.places)])

    def focus(self, outputs: Indices) -> None:
        """Go on with some of the present outputs: not from their best iterates, whose dual objective may be lower."""
        kept = np.isin(self.outputs, outputs)
        self.dual, self.margins = self.dual[kept], self.margins[kept]
        self.outputs = outputs
        self.problem = self.whole.select(outputs)
