"""The cascade (CascadeSVM; with the ODM loss Ca-ODM): random parts pass on their support vectors.

    1  p^L random parts
    2  for l = L, ..., 0: solve every part; merge p of them, keeping only the rows with a nonzero coefficient
    3  evaluate at all rows: return if the gap is met, or after `rounds` rounds
    4  add the support vectors to every part of step 1 and go to 2 (feedback.py; the papers stop after one round),
       or, if every part would be given more rows than it has, solve the whole problem from these coefficients on

In the first round a part *represents* the whole, rows that were filtered out on the way included: the weight of its
loss is W / W_k (ODM: W_k c), and coefficients are rescaled by W_k / W_merged, as in DiODM. CascadeSVM has C everywhere
(``coefficients="global"``): parts are then more regularised than the whole, and keep more rows. The last part
represents all rows, so that both end with the coefficients of the whole problem; those of the rows that survived would
solve another one (3.9 relative from the optimum, measured with the ODM loss on exactly its support vectors). On 16,000
rows in 16 parts, hinge, one round reached 97.7% on ijcnn1 and 95.1% on cod-rna, with global coefficients 98.0 and
94.2%, the optimum 98.3 and 95.3%; both took three or four rounds to a gap of 1e-3. All parts with all support vectors
cost more than the whole problem where that is their number: with the ODM loss nearly all rows are support vectors, and
a second round in 16 parts, on 16,000 rows of cod-rna, took 19.4 n^2 kernel values where the whole problem from the same
start took 2.3. See docs/algorithms.md#cascades.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Literal

import numpy as np

from dimargin.partition import Partition, RandomPartition
from dimargin.problems.solution import History
from dimargin.sharding.parts import Part
from dimargin.sharding.shards import Shards
from dimargin.sharding.tree import Level, climb
from dimargin.solvers import Limits
from dimargin.solvers.loop import Verdict
from dimargin.strategies import levels
from dimargin.strategies.base import Outcome, Strategy, Training
from dimargin.strategies.feedback import again, evaluate, finish
from dimargin.strategies.passing import PassedOn, merged, passed_on
from dimargin.strategies.solves import Summary, solve_parts, support_of


@dataclass(eq=False, repr=False)
class Cascade(Strategy):
    """Cascade over random parts, of which only the support vectors are merged.

    Parameters
    ----------
    rounds : int or None, default=None
        Number of rounds, at most; 1 is the cascade of the papers, whose gap is what it is (status "max_iter" unless it
        is met). None goes on until the gap of the whole problem is met: by further rounds or, where these would give
        every part more rows than it has, by the whole problem, solved from the coefficients of the cascade on, whose
        entry of `history_` has ``exact``.
    coefficients : {"represented", "global"}, default="represented"
        Weight of the loss of a part in the first round, see the module; "global" is CascadeSVM's.
    level_tol : float, default=0.1
        Relative gap to which parts above `stop_level` are solved in the first round.

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
        """Train the levels of the first round, then evaluate the whole problem after every round."""
        return levels.follow(training, self._levels, self._verdict)

    def _levels(self, training: Training, history: History) -> Iterator[levels.Step]:
        facts, p, n_vectors = training.facts, training.shape.branching, 0
        n_levels, rng = self.n_levels(facts.n_rows, training.shape), np.random.default_rng(training.random_state)
        represent = self.coefficients == "represented"
        dealt = self._partition().deal(training.rows, facts.n_rows, p**n_levels, rng, rescale=represent)

        def solve(level: int, parts: Shards[Part]) -> Level[Summary]:
            return self._solve(training, level, parts, levels.before_a_pass(training, n_vectors, history))

        for level in climb(dealt.parts, n_levels, p, solve, merged, (self._passed_on, represent)):
            if level.level:
                spent = dealt.evaluations if level.level == n_levels else 0
                yield levels.Step(level, partial(levels.model, level, facts.total), spent)
            elif training.limits.interrupted.is_set():  # an evaluation of all rows would not wait
                return
            n_vectors = sum(part.n_support for part in level.results)
        (support,), spent = level.parts.collect(support_of), level.results[0].kernel_evaluations
        level.parts.release()
        for number in count(1):
            seen = evaluate(training, support, number)
            yield levels.Step(seen.level, seen.found, spent, {"round": number})
            if self.rounds is None and seen.support.n_rows * dealt.parts.n_shards > facts.n_rows:
                # every part would be given more rows than it has, and all of them together cost more than the whole
                last = levels.before_a_pass(training, seen.support.n_rows, history)
                whole = finish(training, seen.support, last, number + 1)
                yield levels.Step(whole.level, whole.found, 0, {"round": number + 1, "exact": True})
                return
            if number == 1:
                dealt.keep()  # rounds shall not deal the rows again
            support, spent = again(training, dealt.parts, n_levels, seen.support, number, history)
            if training.limits.interrupted.is_set():
                return

    def _partition(self) -> Partition:
        return RandomPartition()

    @property
    def _passed_on(self) -> PassedOn:
        """Function of a module that returns the rows of a part that the next one takes in the first round."""
        return passed_on

    def _solve(self, training: Training, level: int, parts: Shards[Part], last: Limits) -> Level[Summary]:
        """Solve a level of the first round; of level 0 only `evaluate` knows the gap, so it is not reported."""
        shape, tol = training.shape, training.limits.tol
        mass = None if self.coefficients == "represented" else training.facts.total
        if level:
            tol = tol if level == shape.stop_level else max(tol, self.level_tol)
            return levels.solve_level(training, level, parts, tol, mass)
        training.progress.level_begin(0, None)
        return solve_parts(training, parts, last, 0, mass=mass)

    def _verdict(self, training: Training, history: History, step: levels.Step, requested: bool) -> Verdict:
        """Return status and reason if there shall be no more levels, or rounds, else None."""
        level, n, p = step.level.level, training.facts.n_rows, training.shape.branching
        if level:
            needed = n**2 / p ** (level - 1)
            late = levels.out_of_time(training, f"no level below {level}", needed, history)
            return levels.last_level(training, step.level, requested) or late
        number, limit, evaluated = history[-1]["round"], training.limits.max_iter, step.level.results[0]
        is_last = history[-1].get("exact", False) or number >= min(self.rounds or limit, limit)
        if evaluated.status != "max_iter" or is_last:
            return evaluated.status, evaluated.reason
        if number > 1 and all(history[-1][key] == history[-2][key] for key in ("objective", "relative_gap")):
            return "precision", f"another round left the relative gap at {evaluated.objectives.worst_gap:.2e}"
        needed = (2 * n + p ** self.n_levels(n, training.shape) * evaluated.n_support) * evaluated.n_support
        return levels.out_of_time(training, "no more rounds", needed, history)
