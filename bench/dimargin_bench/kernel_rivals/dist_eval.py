r"""Dist-Eval: every site trains a machine of its own, and sites average what the machines say of each query.

No gossip takes place in training. For a query x all sites compute their decision values f_i(x), or
the signs of these, and run a consensus filter on them,
``v_i <- v_i + beta sum_j w_ij (v_j - v_i)``, after which each answers ``sign v_i`` (the GADGET
paper's rival of this name, with beta = 1; after Wang et al. 2010, whose sites train by an algorithm
of their own and filter decision values). So it is the *queries* that cost messages, of one number
each, and every site gets to see them. See `dimargin_bench.gossip_rivals.consensus_filter`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state, gen_batches, get_tags

from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_number
from dimargin.estimators.sites import check_sites
from dimargin.estimators.svm import SVMClassifier
from dimargin.system.arrays import Floats
from dimargin_bench.kernel_rivals.checked_rows import BinaryRival, query_rows

_QUERIES = 2**17  # that sites filter together: messages of a megabyte


@dataclass
class QueryCosts:
    """Costs of the queries to a machine so far, in all, and how far sites were apart at the end of the last."""

    bytes: int = 0
    messages: int = 0
    rounds: int = 0
    spread: float = 0.0  # largest difference between the values of two sites
    seconds: float = 0.0  # of the simulation


class _OneClass:
    """Machine of a site all of whose rows are of one class, or that has none, and says so of every query."""

    def __init__(self, sign: float) -> None:
        self.sign = sign

    def decision_function(self, X: Any) -> Floats:
        return np.full(X.shape[0], self.sign)


@documented
@dataclass(eq=False, repr=False)
class DistEval(BinaryRival):
    r"""Classifiers of simulated sites, each trained on its own rows alone, whose answers the sites average by gossip.

    Training sends nothing. `decision_function` and `predict` run a consensus filter over all sites
    on a simulated network; the answer is that of the first site, to which the query came.

    Parameters
    ----------
    estimator : estimator object or None, default=None
        Any classifier of two classes of scikit-learn's kind, trained on labels of minus one and
        one; of one without a `decision_function` the label is the value. None is
        ``SVMClassifier()``.
    n_sites : int, default=10
    topology : str or networkx graph, default="complete"
        As in `dimargin.GossipSVMClassifier`; undirected and connected.
    shards : {"random", "unequal", "sorted", "sorted_unequal"} or array-like of shape (n_samples,), default="random"
        As in `dimargin.GossipSVMClassifier`. A site with one class says plus or minus one of every
        query, and one without rows zero.
    exchange : {"decision", "label"}, default="decision"
        What is averaged: decision values, which a site with a large one decides for all, or their
        signs, a vote.
    beta : float, default=1.0
        Step of the filter, positive and below ``2 / lambda_max`` of ``I - W``, which is more than
        one on any network.
    rounds : int or None, default=None
        Rounds of the filter. None is as many as bring differences between sites down to `tol` of
        what they were.
    tol : float, default=1e-3
        In (0, 1), see `rounds`.
    conditions : dimargin.gossip.simulation.Conditions or None, default=None
        Of the network, when queries are answered; the sites are "site0", "site1", ... With faults
        sites agree on a weighted mean, with weights of chance. None is a network without faults.
    random_state : int, RandomState or None, default=None
        Of the deal and the network, and of the estimators that have such a parameter.

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_)s
    machines_ : list of estimators
        One for every site.
    site_of_rows_ : ndarray of shape (n_samples,)
        Site that every row was dealt to.
    n_rounds_ : int
        Rounds of the filter for a query, or for many at a time.
    query_costs_ : QueryCosts
        What all queries have cost since `fit`: ``bytes``, ``messages``, ``rounds``, ``seconds`` of
        the simulation, and ``spread``, the largest difference between the values of two sites in
        the end.
    site_seconds_ : ndarray of shape (n_sites,)
        How long the training of each machine took.

    See Also
    --------
    dimargin.GossipSVMClassifier : One machine of the rows of all sites, whose queries cost nothing.

    References
    ----------
    D. Wang, J. Zheng, Y. Zhou, J. Li, "A scalable support vector machine for distributed
    classification in ad hoc sensor networks", Neurocomputing 74, 2010; "A consensus algorithm for
    linear support vector machines" (the GADGET paper), an earlier version of which is H. Dutta, N.
    Nataraj, arXiv:1812.02261.

    Examples
    --------
    >>> from dimargin_bench.kernel_rivals import DistEval
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> machine = DistEval(n_sites=5, topology="ring", random_state=0).fit(X[:800], y[:800])
    >>> machine.score(X[800:], y[800:]) > 0.93, machine.query_costs_.messages == 10 * (machine.n_rounds_ + 1)
    (True, True)
    """

    estimator: Any = None
    n_sites: int = 10
    topology: Any = "complete"
    shards: Any = "random"
    exchange: str = "decision"
    beta: float = 1.0
    rounds: int | None = None
    tol: float = 1e-3
    conditions: Any = None
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.estimator is None or get_tags(self.estimator).input_tags.sparse
        return tags

    def _train_on_signs(self, X: Any, signs: Floats) -> None:
        from dimargin.gossip.simulation.gossip_run import deal
        from dimargin.gossip.simulation.observed_run import connected_graph

        rng = check_random_state(self.random_state)
        self._seed = int(rng.randint(2**31 - 1))
        self._graph = connected_graph(self.topology, int(self.n_sites), self._seed)
        self._check_filter()
        self.site_of_rows_ = deal(self.shards, signs, rng.permutation(X.shape[0]), int(self.n_sites))
        self.machines_, self.site_seconds_ = [], np.zeros(int(self.n_sites))
        for k in range(int(self.n_sites)):
            began = time.perf_counter()
            self.machines_.append(self._trained(X, signs, np.flatnonzero(self.site_of_rows_ == k)))
            self.site_seconds_[k] = time.perf_counter() - began
        self.query_costs_ = QueryCosts()

    def decision_function(self, X: Any) -> Floats:
        """Return what the sites agree on, of shape (n_samples,), positive for the second class.

        What it costs is added to ``query_costs_``.
        """
        X = query_rows(self, X)
        values = np.array([self._said(machine, X) for machine in self.machines_])
        parts = [self._filtered(values[:, batch]) for batch in gen_batches(X.shape[0], _QUERIES)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _trained(self, X: Any, signs: Floats, own: Any) -> Any:
        """Return the machine of a site with these rows."""
        if len(np.unique(signs[own])) < 2:
            return _OneClass(float(signs[own][0]) if len(own) else 0.0)
        machine = SVMClassifier() if self.estimator is None else clone(self.estimator)
        if "random_state" in machine.get_params():
            machine.set_params(random_state=self._seed)
        return machine.fit(X[own], signs[own])

    def _said(self, machine: Any, X: Any) -> Floats:
        """Return what a site says of queries by itself, of shape (n_samples,)."""
        value = machine.decision_function if hasattr(machine, "decision_function") else machine.predict
        said = np.asarray(value(X), dtype=np.float64)
        return np.sign(said) if self.exchange == "label" else said

    def _filtered(self, values: Floats) -> Floats:
        """Run the filter on the values of all sites, of shape (n_sites, n_queries); return those of the first site."""
        from dimargin.gossip.simulation.observed_run import site_names
        from dimargin.gossip.simulation.simulator import Simulator
        from dimargin_bench.gossip_rivals.consensus_filter import ConsensusFilter

        beta = float(self.beta)
        names = site_names(len(values))
        make = {
            name: partial(ConsensusFilter, row, self.n_rounds_, beta) for name, row in zip(names, values, strict=True)
        }
        simulator, began = Simulator(make, self._graph, self.conditions, self._seed), time.perf_counter()
        simulator.run()
        found = np.array([simulator.sites[name].last.value for name in names])  # type: ignore[union-attr]
        costs = self.query_costs_
        costs.seconds += time.perf_counter() - began
        costs.bytes += simulator.counts["bytes"]
        costs.messages += simulator.counts["messages"]
        costs.rounds += self.n_rounds_
        costs.spread = float(np.ptp(found, axis=0).max(initial=0.0))
        return np.asarray(found[0])

    def _check_parameters(self) -> None:
        check_sites(type(self).__name__, self.n_sites, self.topology, self.shards)
        if self.exchange not in ("decision", "label"):
            raise ValueError(f"exchange must be 'decision' or 'label', got {self.exchange!r}")
        check_number("beta", self.beta, 0)
        check_number("tol", self.tol, 0, 1)
        if self.rounds is not None:
            check_number("rounds", self.rounds, 1, low_included=True, whole=True)

    def _check_filter(self) -> None:
        """Raise ValueError where the filter does not lead to the mean, and set its number of rounds."""
        from dimargin_bench.gossip_rivals.consensus_filter import filter_rounds, largest_step

        if self._graph.is_directed():
            raise ValueError("topology must be undirected: the filter has the same weight in both directions")
        most = largest_step(self._graph)
        if not self.beta < most:
            raise ValueError(f"beta must be below 2 / lambda_max, {most:.6g} on this topology, got {self.beta!r}")
        beta = float(self.beta)
        self.n_rounds_ = filter_rounds(self._graph, beta, self.tol) if self.rounds is None else int(self.rounds)
