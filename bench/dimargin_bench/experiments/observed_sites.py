"""Simulated sites whose weights are looked at after every iteration, as the GADGET paper's experiments need.

`dimargin.GossipSVMClassifier` runs the same programs and certifies their result, which takes longer
than many of these runs. Here only the sites are on the clock, and every site's convergence is noted
by the paper's rule (`dimargin_bench.kernel_rivals.quiet_rule`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_number
from dimargin.estimators.sites import check_sites
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.simulation.gossip_run import deal
from dimargin.gossip.simulation.observed_run import connected_graph, site_names
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats
from dimargin_bench.gossip_rivals import UniformGadget
from dimargin_bench.kernel_rivals.checked_rows import query_rows
from dimargin_bench.kernel_rivals.linear_rival import LinearRival
from dimargin_bench.kernel_rivals.quiet_rule import QuietRule, check_rule

_SPACING = 1.25  # factor by which iterations grow from one entry of the history to the next
_IN_TIME = 0.75  # part of a second by which the messages of a round have come


@dataclass(frozen=True)
class Entry:
    """The sites after an iteration, and what they have taken until then."""

    iteration: int
    seconds: float
    weights: Floats  # of shape (n_sites, n_outputs, n_features), with the constant feature last


class Convergence:
    """Record of when each of m sites first converged, and how often, by the rule with n quiet iterations."""

    def __init__(self, n_quiet: int, n_sites: int) -> None:
        self.n_quiet = n_quiet
        self.first = np.zeros(n_sites, dtype=np.int64)  # iteration, and zero for one that has not converged
        self.seconds = np.full(n_sites, np.nan)
        self.times = np.zeros(n_sites, dtype=np.int64)

    def look(self, counts: NDArray[np.int64], iteration: int, seconds: float) -> None:
        """Note which sites have just been quiet often enough."""
        now = counts == self.n_quiet
        new = now & (self.first == 0)
        self.times += now
        self.first[new], self.seconds[new] = iteration, seconds


@documented
@dataclass(eq=False, repr=False)
class ObservedSites(LinearRival):
    """Linear machines of sites that gossip, until all have converged by the GADGET paper's rule.

    A site learns on after it has converged, as the paper has it, until the last one has converged,
    too, for every number in `n_quiet`.

    Parameters
    ----------
    algorithm : SiteAlgorithm or None, default=None
        None is ``UniformGadget(form="equation 5", projection=False)``. With algorithms that send
        rows, the rows leave their sites.
    %(alpha, fit_intercept)s
    n_sites : int, default=10
    topology : str or networkx graph, default="ring"
    shards : str or array-like, default="random"
        As in `dimargin.GossipSVMClassifier`.
    epsilon : float or None, default=0.001
        Tolerance of the rule; None leaves the end to the algorithm.
    reading : {"norm", "weights"}, default="norm"
        Which reading of the rule.
    n_quiet : sequence of int, default=(3,)
        Numbers of successive quiet iterations, each a rule; the first is that of `site_seconds_`.
    runs_on : bool, default=False
        Whether all iterations are run, though all sites have converged.
    vote : bool, default=False
        Whether sites predict by a vote of the models in their caches; `coef_` is of the last ones.
    max_iter : int, default=2000
        Iterations at most.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_, coef_, intercept_, objective_)s
    site_coef_ : ndarray of shape (n_sites, n_outputs, n_features_in_)
    site_intercept_ : ndarray of shape (n_sites, n_outputs)
    site_seconds_ : ndarray of shape (n_sites,)
        Seconds of the simulation of all sites, in one process, until each had converged; all
        seconds, of one that has not.
    convergence_ : list of Convergence
        One for each of `n_quiet`.
    history_ : list of dict
        One entry, of the end, with ``round``, ``seconds``, ``messages``, ``bytes`` and, where rows
        leave their sites, ``rows_shared``.
    caches_ : list of ndarray of shape (n_models, n_outputs, n_features)
        With `vote`, the models that each site has kept, with the constant feature last.
    entries_ : list of Entry
        At growing intervals, and of the end.
    n_iter_ : int
    """

    algorithm: Any = None
    n_sites: int = 10
    topology: Any = "ring"
    shards: Any = "random"
    epsilon: float | None = 1e-3
    reading: str = "norm"
    n_quiet: Sequence[int] = (3,)
    runs_on: bool = False
    vote: bool = False
    max_iter: int = 2000
    random_state: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_sites(type(self).__name__, self.n_sites, self.topology, self.shards)
        check_rule(self.epsilon, self.reading)
        for n in self.n_quiet:
            check_number("n_quiet", n, 1, low_included=True, whole=True)
        check_number("max_iter", self.max_iter, 1, low_included=True, whole=True)

    def _learn(self, rows: HingeRows) -> Floats:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        simulator = self._simulator(rows, seed)
        self._run(simulator)
        programs = list(simulator.programs.values())
        self._keep(programs, simulator)
        return np.asarray(self._weights.mean(axis=0))

    def _simulator(self, rows: HingeRows, seed: int) -> Simulator:
        m, codes = int(self.n_sites), rows.signs.argmax(axis=0) if len(rows.signs) > 1 else rows.signs[0]
        graph = connected_graph(self.topology, m, seed)
        site = deal(self.shards, codes, np.random.default_rng(seed).permutation(rows.n_rows), m)
        algorithm = self.algorithm or UniformGadget(form="equation 5", projection=False)
        algorithm.validate()
        problem = Problem(float(self.alpha), m, rows.n_rows)

        def program(number: int, name: str) -> Any:
            own = np.flatnonzero(site == number)
            return algorithm.program(problem, name, HingeRows(rows.X[own], rows.signs[:, own]), (seed, number))

        makers = {name: partial(program, number, name) for number, name in enumerate(site_names(m))}
        return Simulator(makers, graph, random_state=seed)

    def _run(self, simulator: Simulator) -> None:
        """Run iteration by iteration, with only the simulator on the clock."""
        m, seconds, next_entry = int(self.n_sites), 0.0, 1.0
        rule = None if self.epsilon is None else QuietRule(float(self.epsilon), self.reading)
        self.convergence_ = [Convergence(int(n), m) for n in self.n_quiet] if rule else []
        self.entries_: list[Entry] = []
        for t in range(1, int(self.max_iter) + 1):
            began = time.perf_counter()
            ended = simulator.run(until=t + _IN_TIME)
            seconds += time.perf_counter() - began
            programs: Any = simulator.programs.values()
            weights = np.array([program.weights for program in programs])
            if rule is not None:
                counts = rule.look(weights.reshape(m, -1))
                for one in self.convergence_:
                    one.look(counts, t, seconds)
            is_over = ended == "stopped" or (
                rule is not None and not self.runs_on and all(one.first.all() for one in self.convergence_)
            )
            if is_over or t >= next_entry or t == self.max_iter:
                self.entries_.append(Entry(t, seconds, weights))
                next_entry = max(t + 1, t * _SPACING)
            if is_over:
                break

    def _keep(self, programs: Sequence[Any], simulator: Simulator) -> None:
        """Set the attributes of the end."""
        last = self.entries_[-1]
        self.n_iter_, self._weights = last.iteration, last.weights
        self.caches_ = [np.array(program.cache) for program in programs] if self.vote else []
        self.history_ = [
            {"round": last.iteration, "seconds": last.seconds, "messages": simulator.counts["messages"],
             "bytes": simulator.counts["bytes"]}
        ]  # fmt: skip
        if programs[0].shares == "rows":
            self.history_[0]["rows_shared"] = sum(program.rows_shared for program in programs)
        ended = self.convergence_[0].seconds if self.convergence_ else np.full(len(programs), np.nan)
        self.site_seconds_ = np.where(np.isnan(ended), last.seconds, ended)
        self.site_coef_, self.site_intercept_ = self.parts_of(last.weights)

    def parts_of(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return coefficients and intercepts of weights, such as those of an entry."""
        if not self.fit_intercept:
            return weights, np.zeros(weights.shape[:-1])
        return weights[..., :-1], weights[..., -1]

    def site_predictions(self, X: Any) -> NDArray[Any]:
        """Predict class labels by the machine, or the vote, of every site, of shape (n_sites, n_samples)."""
        X = query_rows(self, X)
        if not self.vote:
            return np.array([self._answers(X, weights[None]) for weights in self._weights])
        return np.array([self._answers(X, cache) for cache in self.caches_])

    def _answers(self, X: Any, models: Floats) -> NDArray[Any]:
        """Return the labels that most models predict, of shape (n_samples,), the first of those with as many votes."""
        votes = np.zeros((X.shape[0], len(self.classes_)))
        for weights in models:
            coefficients, intercepts = self.parts_of(weights)
            values = np.asarray(X @ coefficients.T) + intercepts
            codes = values.argmax(axis=1) if values.shape[1] > 1 else (values[:, 0] > 0).astype(np.int64)
            votes[np.arange(len(codes)), codes] += 1
        return np.asarray(self.classes_[votes.argmax(axis=1)])
