"""Shrinking of rows for losses with nonnegative coefficients, and caches of kernel rows.

Until shrinking is undone only the margins of the active rows are updated (`ActiveRows`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dimargin.problems.dual import DualProblem
from dimargin.solvers.active import ActiveRows, RowCache
from dimargin.solvers.iterate import Iterate
from dimargin.solvers.loop import Limits
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class ShrinkingRule:
    """Rule of shrinking for losses with nonnegative coefficients."""

    large: int = 4096  # Problems of more rows start on a quarter of them.
    passes_on_quarter: int = 3  # The number of passes over that quarter.
    first_pass: int = 2  # The first pass, counted from zero, in which rows may be shrunk.
    max_passes: int = 20  # Shrinking is undone after this many passes.
    distance: float = 0.1  # Distance of a shrunk row's margin from the kink, in slopes there.
    # Shrinking is undone once the active rows' gap is this fraction of the last whole gap. Compared
    # with this share, 0.4 took 1.06 to 1.32 times as many kernel values on five data sets, and 0.02
    # took 0.97 to 1.10 times as many (bench/scripts/bench_cited.py).
    gap_share: float = 0.05


@dataclass
class Shrinking:
    """The active rows, and the caches of kernel rows."""

    max_cache_bytes: int  # Kernel rows over the active rows may take this many bytes.
    whole_rows: RowCache | None  # Cache of full kernel rows; with it no row is shrunk.
    rule: ShrinkingRule
    active: ActiveRows | None = None  # The active rows while others are shrunk.
    cache: RowCache | None = None  # Cache of the active rows when rows were last shrunk.
    unshrink_at: int = 0  # Shrinking is undone after this pass.
    unshrink_gap: float = 0.0  # Shrinking is undone once the active rows' gap is below this.
    whole_gap: float = np.inf  # Gap at the last check of all rows.

    def shrink(self, iterate: Iterate, passes: int, rng: np.random.Generator) -> None:
        """Shrink three quarters of a large problem at first, later rows that are likely to stay at zero."""
        if self.active is not None or self.whole_rows is not None:
            return
        problem, rule, cache = iterate.problem, self.rule, self.cache or self.max_cache_bytes
        self.unshrink_gap = rule.gap_share * self.whole_gap
        if not passes and not iterate.dual.any() and problem.n_rows > rule.large:
            few = np.sort(rng.permutation(problem.n_rows)[: problem.n_rows // 4])
            self.active = ActiveRows.of(problem, iterate.dual, few, cache)
            self.unshrink_at = rule.passes_on_quarter
        elif passes >= rule.first_pass:
            self.active = ActiveRows.choose(problem, iterate.dual, iterate.margins, rule.distance, cache)
            self.unshrink_at = passes + rule.max_passes

    def may_continue(self, iterate: Iterate, passes: int, limits: Limits) -> bool:
        """Return whether some rows are shrunk and may stay so."""
        if self.active is None or passes >= self.unshrink_at:
            return False
        if limits.deadline is not None and not limits.allow(2 * self.seconds_to_unshrink(iterate)):
            return False  # All rows must count in the result at the time limit.
        return self.active.gap(iterate.dual, iterate.margins) > max(limits.tol, self.unshrink_gap)

    def seconds_to_unshrink(self, iterate: Iterate) -> float:
        """Estimate the seconds that `unshrink` would take, from past updates of margins."""
        if self.active is None:
            return 0.0
        return iterate.stopwatch.seconds_for(self.active.evaluations_to_unshrink(iterate.dual))

    def unshrink(self, iterate: Iterate) -> None:
        """Undo shrinking: bring all margins up to date, and make all rows active."""
        if self.active is not None:
            with iterate.stopwatch.timing(iterate.problem.kernel):
                self.active.unshrink(iterate.problem, iterate.dual, iterate.margins)
            self.cache, self.active = self.active.cache, None

    def forget(self) -> None:
        """Make all rows active without an update of their margins, which are recomputed."""
        self.active = self.cache = None

    def active_part(self, iterate: Iterate) -> tuple[DualProblem, Indices, Floats, Floats]:
        """Return the problem of the active rows, the rows, their coefficients and their margins."""
        if self.active is None:
            return iterate.problem, np.arange(iterate.problem.n_rows), iterate.dual, iterate.margins
        rows = self.active.rows
        return self.active.problem, rows, iterate.dual[:, rows], iterate.margins[:, rows]

    def update_margins(self, iterate: Iterate, moved: Indices, change: Floats) -> None:
        """Add the effect of changes of signed coefficients to the margins of the active rows."""
        with iterate.stopwatch.timing(iterate.problem.kernel):
            if self.active is not None:
                self.active.add(iterate.margins, moved, change)
            elif self.whole_rows is not None:
                iterate.margins += iterate.problem.labels * self.whole_rows.multiply(moved, change)
            else:
                iterate.margins += iterate.problem.labels * iterate.problem.kernel.multiply(moved, change)
        iterate.add_rounding(moved, change)
