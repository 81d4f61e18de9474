"""Tasks of a cascade: select the rows that a part passes on, and merge them into parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dimargin.shards.parts import Part
from dimargin.strategies.gap import coefficients_of
from dimargin.strategies.levels import joined_starts
from dimargin.strategies.solves import Solved
from dimargin.system.arrays import Indices

PassedOn = Callable[[Solved], Indices]


def passed_on(solved: Solved) -> Indices:
    """Return the rows of a part with a nonzero coefficient, or all rows if there are none.

    With an intercept, a part of one class has no nonzero coefficient.
    """
    kept = solved.part.support
    return kept if len(kept) else np.arange(solved.part.n_rows)


def merged(children: Sequence[Solved], value: tuple[PassedOn, bool]) -> Part:
    """Join the rows that several parts pass on into one part, with its warm start."""
    passed, represent = value
    return joined_starts([child.part.take(passed(child), child.part.problem.mass) for child in children], represent)


def start_of(part: Part, _: None) -> Part:
    """Task that returns the rows of a part with a nonzero initial coefficient, as a piece of the whole problem."""
    return part.take(part.support, part.problem.total)


def with_support(part: Part, support: Part) -> Part:
    """Join the rows of a part with the support vectors, with global coefficients."""
    own = replace(part, dual=coefficients_of(part, support))
    others = support.take(np.flatnonzero(~np.isin(support.indices, part.indices)), support.problem.mass)
    return Part.joined([own, others], support.problem.total).in_order()


def best_of(children: Sequence[Solved], _: None = None) -> Part:
    """Join the support vectors of overlapping parts, with the coefficients of the best part for each output."""
    total = children[0].part.problem.total
    kept = Part.joined([child.part.take(passed_on(child), total) for child in children], total)
    together = kept.take(np.unique(kept.indices, return_index=True)[1], total)
    best = np.argmax([child.solution.objectives.dual for child in children], axis=0)
    dual = np.array([coefficients_of(together, children[child].part)[output] for output, child in enumerate(best)])
    return replace(together, dual=dual)
