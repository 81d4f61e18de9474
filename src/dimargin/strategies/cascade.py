"""The cascade (CascadeSVM; with the ODM loss Ca-ODM): random parts pass on their support vectors.

    1  p^L random parts
    2  for l = L, ..., 0: solve every part; merge p of them, keeping only the rows with a nonzero coefficient
    3  solve the whole problem from these coefficients; or, with a number of rounds,
    3' evaluate all rows: return if the gap is met, or after `rounds` rounds
    4' add the support vectors to every part of step 1 and go to 2 (feedback.py)

In the first round a part *represents* the whole, including rows filtered out at earlier levels: the
weight of its loss is W / W_k (ODM: W_k c), and coefficients are rescaled by W_k / W_merged, as in
DiODM. CascadeSVM uses C everywhere (``coefficients="global"``): its parts are more regularised than
the whole, and keep more rows. The last part represents all rows, so both variants end with the
coefficients of the whole problem.

Rounds are for parts that are far from each other: in one place, solving the whole problem from the
same start was cheaper in every measurement (docs/algorithms.md#cascades). The first round therefore
only provides a start: its last part, too, is solved to `level_tol`, and is left out if it would
have more than a third of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Literal

import numpy as np

from dimargin.problems.solution import History
from dimargin.shards.partition import Partition, RandomPartition
from dimargin.shards.parts import Part
from dimargin.shards.shards import Shards
from dimargin.shards.tree import Level, climb
from dimargin.solvers import Limits
from dimargin.solvers.loop import Verdict
from dimargin.strategies import levels
from dimargin.strategies.feedback import again, evaluate, finish
from dimargin.strategies.passing import PassedOn, merged, passed_on, start_of
from dimargin.strategies.solves import Summary, solve_parts, support_of
from dimargin.strategies.strategy import Outcome, Strategy, Training


@dataclass(eq=False, repr=False)
class Cascade(Strategy):
    """Cascade over random parts, of which only the support vectors are merged.

    Parameters
    ----------
    rounds : int or None, default=None
        Maximum number of rounds. With 1 the status is "max_iter" if the tolerance is missed after
        one round. Further rounds add the support vectors to every part. None solves the
        whole problem from the coefficients of one round, which costs less than further rounds.
    coefficients : {"represented", "global"}, default="represented"
        Weight of the loss of a part in the first round: "represented" is W / W_k, so that each part
        represents the whole problem; "global" is the weight of the whole problem, as in CascadeSVM.
    level_tol : float, default=0.1
        Relative gap to which parts above `stop_level` are solved in the first round, and its last
        part if it only starts the whole problem.

    Examples
    --------
    >>> from dimargin import Cascade, SVMClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(3000, noise=0.1, random_state=0)
    >>> machine = SVMClassifier(strategy=Cascade(), branching=2, n_levels=2, gamma=2.0, random_state=0).fit(X, y)
    >>> [(entry["level"], entry["partitions"]) for entry in machine.history_[:3]], machine.certificate_
    ([(2, 4), (1, 2), (0, 1)], 'global')
    """

    uses = frozenset({"branching", "n_levels", "stop_level"})

    rounds: int | None = None
    coefficients: Literal["represented", "global"] = "represented"
    level_tol: float = 0.1

    def validate(self) -> None:
        """Raise ValueError for an option out of its range."""
        super().validate()
        self._check_count("rounds")
        self._check_positive("level_tol")

    def train(self, training: Training) -> Outcome:
        """Train the levels of the first round, then the whole problem, or evaluate it after every round."""
        return levels.follow(training, self._levels, self._verdict)

    def _levels(self, training: Training, history: History) -> Iterator[levels.Step]:
        facts, p, n_vectors = training.facts, training.shape.branching, 0
        n_levels, rng = self.n_levels(facts.n_rows, training.shape), np.random.default_rng(training.random_state)
        represent = self.coefficients == "represented"
        dealt = self._partition().deal(training.rows, facts.n_rows, p**n_levels, rng, rescale=represent)

        def solve(level: int, parts: Shards[Part]) -> Level[Summary]:
            return self._solve(training, level, parts, levels.before_a_pass(training, n_vectors, history))

        unused = (*dealt.spent, dealt.parts) if self.rounds is None else ()
        for level in climb(dealt.parts, n_levels, p, solve, merged, (self._passed_on, represent), unused):
            if level.level:
                spent = dealt.evaluations if level.level == n_levels else 0
                yield levels.Step(level, partial(levels.model, level, facts.total), spent)
            elif training.limits.interrupted.is_set():  # An evaluation of all rows cannot be interrupted.
                return
            n_vectors = sum(part.n_support for part in level.results)
            if level.level == 1 and self.rounds is None and 3 * n_vectors > facts.n_rows:
                break  # The last part would cost nearly as much as the whole problem.
        if self.rounds is None:
            yield from self._whole(training, level)
            return
        (support,), spent = level.parts.collect(support_of), level.results[0].result.kernel_evaluations
        level.parts.release()
        for number in count(1):
            step, support = evaluate(training, support, number)
            yield replace(step, evaluations=spent, about={"round": number})
            if number == 1:
                dealt.keep()  # Later rounds reuse the partition.
            support, spent = again(training, dealt.parts, n_levels, support, number, history)
            if training.limits.interrupted.is_set():
                return

    def _whole(self, training: Training, level: Level[Summary]) -> Iterator[levels.Step]:
        """Solve the whole problem from the coefficients of level 1 or 0, unless interrupted."""
        if level.level == 0:
            (support,), spent = level.parts.collect(support_of), level.results[0].result.kernel_evaluations
        else:
            training.progress.level_begin(0, None)
            represent = self.coefficients == "represented"
            joined = level.parts.merge(merged, training.shape.branching, (passed_on, represent))
            (support,), spent = joined.collect(start_of), 0
            joined.release()
        level.parts.release()
        if not training.limits.interrupted.is_set():
            step, _ = finish(training, support, training.limits, 1)
            yield replace(step, evaluations=spent)

    def _partition(self) -> Partition:
        return RandomPartition()

    @property
    def _passed_on(self) -> PassedOn:
        """Function that returns the rows of a part that are merged in the first round; it must be picklable."""
        return passed_on

    def _solve(self, training: Training, level: int, parts: Shards[Part], last: Limits) -> Level[Summary]:
        """Solve a level of the first round; the gap of level 0, which lacks rows, is not reported."""
        mass = None if self.coefficients == "represented" else training.facts.total
        is_start = level > training.shape.stop_level or (level == 0 and self.rounds is None)
        tol = max(training.limits.tol, self.level_tol) if is_start else training.limits.tol
        if level:
            return levels.solve_level(training, level, parts, tol, mass)
        training.progress.level_begin(0, None)
        return solve_parts(training, parts, replace(last, tol=tol), 0, mass=mass)

    def _verdict(self, training: Training, history: History, step: levels.Step, requested: bool) -> Verdict:
        """Return status and reason if no level or round must follow, else None."""
        level, n, p = step.level.level, training.facts.n_rows, training.shape.branching
        if level:
            # The next level first computes the margins of its warm starts, at most one pass over
            # its kernels.
            n_support = sum(part.n_support for part in step.level.results)
            late = levels.out_of_time(training, f"no level below {level}", n_support, 1 / p ** (level - 1), history)
            return levels.last_level(training, step.level, requested) or late
        (whole,) = step.level.results
        evaluated = whole.result
        if self.rounds is None or evaluated.status != "max_iter":
            return evaluated.status, evaluated.reason
        number = history[-1]["round"]
        if number >= min(self.rounds, training.limits.max_iter):
            return evaluated.status, evaluated.reason
        if number > 1 and all(history[-1][key] == history[-2][key] for key in ("objective", "relative_gap")):
            return "precision", f"another round left the relative gap at {evaluated.objectives.worst_gap:.2e}"
        # A round computes all margins twice (for the starts of its parts and for the evaluation),
        # and those of every support vector in every part.
        passes = 2 + p ** self.n_levels(n, training.shape) * whole.n_support / n
        return levels.out_of_time(training, "no more rounds", whole.n_support, passes, history)
