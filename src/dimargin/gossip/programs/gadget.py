r"""GADGET: a linear support vector machine of the rows of all sites, by messages between neighbours only.

All sites minimise ``alpha/2 |w|^2 + 1/N sum_i max(0, 1 - y_i w.x_i)`` over the N rows of all of
them (GADGET paper, equation 1; its lambda is `alpha`). The paper's iteration pulls every site to its
own rows (local_gadget.py). Here the sums n_i L_i of the pulls of the n_i rows of site i are gossiped
by Push-Sum, as a contribution that is replaced at every step (`PushSum.contribute`), so that every
site follows the gradient of *all* rows,

    w_i <- mean of w_i and the w_j that neighbours have sent,   w_i <- w_i - eta_t (alpha w_i - L^),

(gradient tracking: Pu, Shi, Xu, Nedic, "Push-Pull gradient methods", IEEE TAC 2021), and sites that
agree stay so. The step is ``eta_t = 1 / (alpha t + p)``. Pegasos has p = 0, whose first steps of
1/alpha move the iterate far away. With ``step_size="auto"`` steps are as long as the rows'
curvature and the network allow (steps.py); the statistics for this are gossiped too.

Smooth losses (squared hinge, optimal margin distribution), whose pull is
``sum_i -loss'(m_i) y_i x_i``, need no shrinking steps: with gradients of all rows,
``eta = 1 / (alpha + p)`` and Nesterov's momentum, the distance from the optimum falls at a linear
rate, as for gradient tracking in general (Nedic, Olshevsky, Shi, SIAM J. Optim. 2017; with
momentum: Qu, Li, IEEE TAC 2020).

The gossiped sums also give the objective of all rows and, with the rows' averaged activity as dual
coefficients, a bound of its distance from the optimum. See docs/algorithms.md#gadget.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from dimargin.gossip.differences import Change
from dimargin.gossip.limits import LIMITS
from dimargin.gossip.neighbourhood import Neighbourhood, lower_median
from dimargin.gossip.program import Action, Report, Send, Stop, Wake
from dimargin.gossip.programs.exchange import Answer, Difference, Exchange, Sums, bounded
from dimargin.gossip.programs.gadget_differences import Differences
from dimargin.gossip.programs.gadget_settings import GadgetSettings
from dimargin.gossip.programs.learner import Learner
from dimargin.gossip.programs.site_progress import Progress
from dimargin.gossip.programs.steps import Steps
from dimargin.gossip.push_sum import PushSum
from dimargin.gossip.schema import Schema
from dimargin.problems.hinge import HingeEvaluation, HingeRows, shrinkage_into_ball
from dimargin.problems.objectives import relative
from dimargin.system.arrays import Floats


class Gadget(Learner):
    """Learner of one site by tracked gradients, whose random batches follow from `seed`.

    `push_sum` has the sums over all rows, in the layout of `Sums`.
    """

    shares = "parameters"
    messages = (Exchange, Difference)
    settings: GadgetSettings
    has_finished = False

    def __init__(self, rows: HingeRows, settings: GadgetSettings, seed: tuple[int, ...] = (0,)) -> None:
        self.rows, self.settings = rows, settings
        shape = rows.signs.shape[0], rows.X.shape[1]
        self.weights = np.zeros(shape)  # The last iterate, of shape (n_outputs, n_features).
        self.average = np.zeros(shape)  # Average of the iterates of all steps t, weighted by t.
        self.dual = np.zeros(rows.signs.shape)  # Coefficients of this site's rows, of shape (n_outputs, n).
        self.rounds = self.steps = 0
        self._rng = np.random.default_rng(seed)
        self._steps = Steps(np.zeros(shape[1]))
        self._statistics = self._statistics_of_rows()
        self.push_sum = PushSum(self._contribution(rows.evaluate(self.weights)))
        self._dual_means = Answer.of(shape)
        self._progress = Progress()
        self.neighbourhood = Neighbourhood(settings.lease, settings.max_messages)
        self._iterates: dict[str, Floats] = {}
        self._differences = Differences(shape, len(self.push_sum.mass))
        self._leads: dict[str, int] = {}
        self._waiting_since: float | None = 0.0  # Start of the wait for a neighbour, at first or after all have gone.
        self._has_met = False

    @property
    def _shape(self) -> tuple[int, int]:
        n_outputs, n_features = self.weights.shape
        return n_outputs, n_features

    # ---- events --------------------------------------------------------------------------------------------------

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Set the timer of the first round; the site listens until then, since others may be far ahead."""
        self.neighbourhood.change(neighbours)
        self._waiting_since = now
        yield Wake(self.settings.interval)

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """Run a round: drop neighbours that have gone, take a step if one is due, and send shares."""
        self.rounds += 1
        yield from self._drop_silent_neighbours(now)
        if self._may_learn(now):
            yield from self._learn()
        yield from self._send_shares()
        yield Wake(self.settings.interval)

    def take(self, sender: str, message: Exchange | Difference) -> str | None:
        """Add a neighbour's share to the mass, and keep its iterate."""
        whole = self._differences.read(sender, message)
        if not isinstance(whole, Exchange):
            return whole or self.neighbourhood.judge(sender, False)
        bounds = self.settings.norm_bound, self.settings.mass_bound
        fault = whole.fault(sender, self.push_sum, self._shape, *bounds)
        if fault is not None:
            return fault
        is_new = self.push_sum.take(sender, whole.mass)
        if is_new:
            self._differences.keep(sender, message, whole)
        if is_new or sender not in self._leads:
            self._leads[sender] = message.steps
            if len(whole.iterate) and not (isinstance(message, Difference) and message.is_new):
                self._iterates[sender] = bounded(whole.iterate, self.settings.norm_bound)
        return self.neighbourhood.judge(sender, is_new)

    def append(self, rows: HingeRows) -> None:
        """Add rows of this site."""
        self.rows, self.has_finished = self.rows.with_more(rows), False
        self.dual = np.concatenate([self.dual, np.zeros(rows.signs.shape)], axis=1)
        self._count_rows()

    def inherit(self, state: dict[str, Any], schema: Schema, before: Schema) -> None:
        """Start with the weights that were learnt under the earlier schema, if they are of use."""
        if not self.settings.inherits_weights:
            return
        moved = (schema.moved(state[name], before) for name in ("weights", "average"))
        self.weights, self.average = (bounded(weights, self.settings.norm_bound) for weights in moved)
        self.steps, self.rounds, self._has_met = state["steps"], state["rounds"], state["has_met"]
        self.push_sum.contribute(self._contribution(self.rows.evaluate(self.weights)))

    def leave(self, name: str) -> None:
        """Undo all contributions of a neighbour."""
        self.neighbourhood.heard.pop(name, None)
        self._undo_edge(name)
        self._iterates.pop(name, None)
        self._leads.pop(name, None)
        self._differences.forget(name)

    # ---- neighbours ----------------------------------------------------------------------------------------------

    def _drop_silent_neighbours(self, now: float) -> Iterator[Action]:
        """Undo the exchange with neighbours that have sent, or acknowledged, nothing for too long."""
        near = self.neighbourhood
        for name in near.gone(now):
            self.leave(name)
            yield Report("silent", {"site": name, "seconds": self.settings.lease})
        for name in near.heard:
            silence = self.push_sum.unanswered(name) * self.settings.interval
            if silence > self.settings.lease and self.push_sum.has_given(name):
                self._undo_edge(name)
                yield Report("deaf", {"site": name, "messages": self.push_sum.unanswered(name)})
        if self._has_met and not near.heard and self._waiting_since is None:
            self._waiting_since = now
            yield Report("alone", {"steps": self.steps})

    def _undo_edge(self, name: str) -> None:
        self.push_sum.forget(name)

    def _may_learn(self, now: float) -> bool:
        """Return whether to learn in this round.

        A site that has met others waits until it hears one, so that it keeps their model. A site
        that has met nobody waits for those within reach, but no longer than a lease.
        """
        if self._waiting_since is None:
            return True
        near, is_late = self.neighbourhood, now - self._waiting_since > self.settings.lease
        if not near.heard and (self._has_met or (near.names and not is_late)):
            return False
        self._waiting_since = None
        if near.heard:
            self._has_met = True
            self.steps = max(self.steps, min(lower_median(self._leads.values()), LIMITS.count // 2))
            if self._iterates:  # This site has started or returned, while these neighbours have been learning.
                self.weights = np.mean(list(self._iterates.values()), axis=0)
        return True

    def _send_shares(self) -> Iterator[Action]:
        """Send shares to the neighbours that take them, and a sign of life to the others."""
        spoken_to = self.neighbourhood.spoken_to
        takers = [name for name in spoken_to if self._takes_shares(name)]
        iterate = np.zeros((0, 0)) if self._waiting_since is not None else self._sent_iterate
        if self.settings.compression != "none":
            yield from self._send_differences(spoken_to, takers, iterate)
            return
        given = self.push_sum.shares(takers)
        for name in spoken_to:
            mass = given[name] if name in given else self.push_sum.sign_of_life(name)
            yield Send(name, Exchange(mass, self.steps, iterate, self.settings.schema))

    def _send_differences(self, spoken_to: list[str], takers: list[str], iterate: Floats) -> Iterator[Action]:
        """Send what `_send_shares` sends as differences from earlier messages, where neighbours have these."""
        is_new, changes = self._waiting_since is not None, dict[str, Change]()

        def rounded(name: str, sent: Floats, share: Floats) -> Floats:
            found = self._differences.change(name, self.push_sum.edge(name), sent, share, self.weights)
            if found is None:
                return sent
            changes[name] = found[0]
            return found[1]

        given = self.push_sum.shares(takers, rounded)
        for name in spoken_to:
            edge = self.push_sum.edge(name)
            if not self.push_sum.has_given(name):
                rounded(name, edge.sent, edge.sent)  # These sums are zero, and sent exactly.
            mass = given[name] if name in given else self.push_sum.sign_of_life(name)
            if name in changes:
                steps, schema = self.steps, self.settings.schema
                yield Send(name, Difference.of(mass, self._shape, changes[name], steps, schema, is_new))
                continue
            if not is_new:
                self._differences.sent_whole(name, edge, mass, iterate)
            yield Send(name, Exchange(mass, self.steps, iterate, self.settings.schema, not is_new))

    @property
    def _sent_iterate(self) -> Floats:
        return self.weights

    def _takes_shares(self, name: str) -> bool:
        """Return whether a neighbour is heard and answers; shares that nobody receives would drain this site.

        While the mass of rows is negative, because an edge was undone a moment ago, no neighbour
        gets a share: no correct site sends a negative number of rows.
        """
        if self._sums.rows < 0:
            return False
        if np.isinf(self.settings.lease):
            return True
        return name in self.neighbourhood.heard and self.push_sum.unanswered(name) <= 4

    # ---- learning ------------------------------------------------------------------------------------------------

    def _learn(self) -> Iterator[Action]:
        """Average with the neighbours, and take a step if one is due."""
        if self._sums.rows <= 0:  # There are no rows here, or an edge was undone a moment ago.
            return
        self._average_with_neighbours()
        rounds = self.settings.gossip_rounds
        is_due = self._progress.is_step_due(rounds, None if rounds >= 1 else self._means.pull)
        if not (is_due and self._means.may_be_of(self.rows)):  # Undone edges may make means invalid.
            return
        self._progress.rounds = 0
        before = self.weights
        self.steps += 1
        self._step()
        self.weights = bounded(self.weights, self.settings.norm_bound)
        self.average = self.average + (self.weights - self.average) * (2 / (self.steps + 1))
        yield from self._check_stop(float(np.linalg.norm(self.weights - before)))

    def _average_with_neighbours(self) -> None:
        if self._iterates:
            self.weights = np.mean([self.weights, *self._iterates.values()], axis=0)

    def _step(self) -> None:
        """Step against the tracked gradient of all rows, and update this site's contribution to it."""
        is_auto, means = self.settings.step_size == "auto", self._means
        curvature, first, second = means.statistics
        if is_auto and self._steps.move_centre(first, second):
            self._statistics = self._statistics_of_rows()
        weight = self._weight
        self._dual_means.add(means, weight)
        gradient = self.settings.alpha * self.weights - means.pull
        if is_auto:
            whole = self.settings.batch_size is None
            step = self._steps.step(gradient, self._shrinkage, self.rows.steepness, curvature, whole)
        else:
            step = self._step_size() * gradient
        self.weights = self._projected(self.weights - step)
        if self._is_linear and is_auto:
            self.weights = self._steps.carried_on(self.weights, gradient)
        self.push_sum.contribute(self._contribution(self._evaluate(weight)))

    def _evaluate(self, weight: float) -> HingeEvaluation:
        """Evaluate a batch, update its dual coefficients, and scale the sums up to all rows of the site."""
        n, size = self.rows.n_rows, self.settings.batch_size
        if size is None or not n:
            evaluation = self.rows.evaluate(self.weights)
            self.dual = self.dual + (evaluation.dual - self.dual) * weight
            return evaluation
        chosen = self._rng.integers(n, size=size)
        evaluation = self.rows.evaluate(self.weights, chosen)
        self.dual[:, chosen] += (evaluation.dual - self.dual[:, chosen]) * weight
        by, loss, active = n / size, evaluation.loss, evaluation.active
        return HingeEvaluation(evaluation.pull * by, loss * by, active * by, evaluation.dual)

    @property
    def _is_linear(self) -> bool:
        """Return whether steps need not shrink: the gradient has a Lipschitz constant, and is exact."""
        return self.rows.loss.smooth and self.settings.batch_size is None

    @property
    def _weight(self) -> float:
        """Weight of the latest step in the dual coefficients: step t has about t^8, at a linear rate only the last."""
        return 1.0 if self._is_linear else 9 / (self.steps + 8)

    @property
    def _shrinkage(self) -> float:
        """Return the term that steps add to the curvature of the losses."""
        return self.settings.alpha * (1 if self._is_linear else self.steps)

    def _step_size(self) -> Floats:
        """Return the step size of every feature, or one for all features."""
        first = self.settings.step_size
        if first == "auto":
            curvature: Floats = self.rows.steepness * np.maximum(self._means.statistics[0], 0)
        else:
            curvature = np.array([0.0 if first == "pegasos" else 1 / float(first)])
        return 1 / (self._shrinkage + curvature)

    def _projected(self, weights: Floats) -> Floats:
        if not self.settings.projection:
            return weights
        factors = shrinkage_into_ball(weights, self.settings.alpha)
        return weights if (factors == 1).all() else weights * factors

    # ---- sums over all rows --------------------------------------------------------------------------------------

    def _statistics_of_rows(self) -> Floats:
        """Return the curvature and the first and second moments of the rows, if the step size needs them."""
        if self.settings.step_size != "auto":
            return np.zeros((3, 0))
        return np.array([self.rows.curvature(self._steps.centre), *self.rows.moments()])

    def _count_rows(self) -> None:
        """Replace this site's contribution after its rows have changed."""
        self._statistics = self._statistics_of_rows()
        self.push_sum.contribute(self._contribution(self.rows.evaluate(self.weights)))

    def _contribution(self, evaluation: HingeEvaluation) -> Floats:
        n_rows, statistics = float(self.rows.n_rows), self._statistics
        return Sums(evaluation.pull, n_rows, statistics, evaluation.loss, evaluation.active).vector

    @property
    def _sums(self) -> Sums:
        """Share of the sums over all rows that this site holds, whose parts are views of Push-Sum's mass."""
        return Sums.of(self.push_sum.mass, self._shape)

    @property
    def _means(self) -> Sums:
        return Sums.of(self.push_sum.mass / self._sums.rows, self._shape)

    @property
    def objective(self) -> Floats:
        """Estimate of the objective of all rows at this site's weights, of shape (n_outputs,), or NaN."""
        if self._sums.rows <= 0:
            return np.full(self._shape[0], np.nan)
        return np.asarray(0.5 * self.settings.alpha * (self.weights**2).sum(axis=1) + self._means.loss)

    @property
    def dual_objective(self) -> Floats:
        """Estimate of the dual objective at this site, of shape (n_outputs,); see `HingeRows.best_dual`."""
        means = self._dual_means
        return self.rows.best_dual(means.activity, means.price, means.pull, self.settings.alpha)

    @property
    def estimated_gap(self) -> Floats:
        """Estimate of the relative duality gap, of shape (n_outputs,).

        It is ``(objective - dual objective) / objective``, both from gossiped sums: a bound of the
        objective's relative excess over the optimum, apart from the errors of these sums. It is NaN
        without an estimate. A negative value shows that the sums err by at least as much.
        """
        objective = self.objective
        return relative(objective - self.dual_objective, objective)

    def _check_stop(self, change: float) -> Iterator[Action]:
        """Stop when the stopping rule has held `n_quiet` times in a row."""
        settings = self.settings
        variation = self._progress.add(self.steps, float(self.objective.sum()))
        gap = float(np.abs(self.estimated_gap).max())
        quiet = (change if settings.stop == "quiet" else min(variation, gap)) < settings.tol
        self._progress.quiet = self._progress.quiet + 1 if quiet else 0
        if self._progress.quiet >= settings.n_quiet:
            self.has_finished = True
            yield Stop(settings.stop)

    def status(self) -> dict[str, Any]:
        """Return this site's progress, for display."""
        return {
            "round": self.rounds,
            "steps": self.steps,
            "neighbours": sorted(self.neighbourhood.heard),
            "refused": dict(self.neighbourhood.refused),
            "objective": self.objective.tolist(),
            "dual_objective": self.dual_objective.tolist(),
            "estimated_gap": self.estimated_gap.tolist(),
            "waiting": self._waiting_since is not None,
        }

    # ---- state ---------------------------------------------------------------------------------------------------

    def checkpoint(self) -> dict[str, Any]:
        """Return the iterates, the mass, and the states of the edges and of the random generator."""
        return {
            "weights": self.weights,
            "average": self.average,
            "dual": self.dual,
            "rounds": self.rounds,
            "steps": self.steps,
            "push_sum": self.push_sum.checkpoint(),
            **vars(self._dual_means),
            "progress": self._progress.entries,
            "smooth": self._progress.smooth,
            "has_met": self._has_met,
            "has_finished": self.has_finished,
            "step_sizes": vars(self._steps),
            "draws": json.dumps(self._rng.bit_generator.state),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint; the rows may have changed since.

        Quiet steps and messages of neighbours are not kept, and refused neighbours get another
        chance. Raises ValueError if the state has NaN or infinite values.
        """
        state = {"price": np.zeros(self._shape[0])} | state  # States of former versions have no price.
        for name in ("weights", "average", "dual", "pull", "activity", "price"):
            if not np.isfinite(state[name]).all():
                raise ValueError(f"its {name} are NaN or infinite")
        self.weights, self.average = state["weights"], state["average"]
        known = min(self.rows.n_rows, state["dual"].shape[1])
        self.dual[:, :known] = state["dual"][:, :known]
        self.rounds, self.steps, self._has_met = state["rounds"], state["steps"], state["has_met"]
        self.has_finished = state["has_finished"]
        self.push_sum = PushSum.restore(state["push_sum"])
        self._steps = Steps(**state["step_sizes"])
        self._statistics = self._statistics_of_rows()
        self._dual_means = Answer(state["pull"], state["activity"], state["price"])
        self._progress = Progress([tuple(entry) for entry in state["progress"]], state["smooth"])
        self._rng.bit_generator.state = json.loads(state["draws"])
        if self.rows.n_rows != state["dual"].shape[1]:
            self.has_finished = False
            self._count_rows()
