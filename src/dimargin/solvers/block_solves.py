"""Solves of blocks by the compiled core."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dimargin import _core
from dimargin.solvers.active import RowCache
from dimargin.solvers.iterate import Iterate
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class BlockSolve:
    """Solve of a block, which may run while the margins of other rows are updated."""

    rows: Indices
    dual: Floats  # Coefficients of shape (n_outputs, len(rows)): the new ones at the end.
    change: Floats  # Changes of the signed coefficients, of the same shape, known at the end.
    begun: _core.BlockSolve


@dataclass
class BlockSolver:
    """Solver of the blocks of a problem, of which the next one may have begun already."""

    conjugate: Floats  # Parameters of the conjugate for the compiled core.
    is_one_block: bool  # Whether a block is the whole problem, which is solved up to rounding.
    upcoming: BlockSolve | None = None
    operations: float = 0.0  # Estimated floating-point operations so far.

    def begin(self, iterate: Iterate, block: Indices, margins: Floats, rows: RowCache | None) -> BlockSolve:
        """Begin to solve a block, given the margins of its rows and a cache of full kernel rows."""
        problem, kernel, threads = iterate.problem, iterate.problem.kernel, iterate.problem.kernel.n_threads
        labels, dual = np.ascontiguousarray(problem.labels[:, block]), np.ascontiguousarray(iterate.dual[:, block])
        change, conjugate = np.empty_like(dual), np.ascontiguousarray(self.conjugate[:, block])
        arguments = np.arange(len(block)), conjugate, labels, dual, margins, change, problem.n_sums
        if problem.loss.selection == "greedy" and not self.is_one_block:
            # Violations below this, of margins near one, are rounding.
            rounding = 1e-13 if kernel.double else 1e-5
            values = kernel.values(block, block) if rows is None else rows.among(block)
            begun = _core.solve_pairs(values, *arguments, 0.1, rounding, 30, threads)
        else:
            steps = 20 if problem.intercept else 2  # Those with an intercept are Newton steps to the optimum.
            tolerance, max_steps = (0.0, 200) if self.is_one_block else (0.1, steps)
            begun = _core.solve_block(kernel.block(block, block), *arguments, tolerance, 0.0, max_steps, threads)
        return BlockSolve(block, dual, change, begun)

    def finish(self, solve: BlockSolve, iterate: Iterate) -> tuple[Indices, Floats]:
        """Set the new coefficients; return the rows that moved, and changes of signed coefficients."""
        self.operations += solve.begun.finish()
        iterate.dual[:, solve.rows] = solve.dual
        changed = np.flatnonzero(solve.change.any(axis=0))
        return solve.rows[changed], solve.change[:, changed]
