"""Linear support vector machine trained by gossiping sites, as a scikit-learn classifier."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators.certificate import hinge_certificate, hinge_objectives
from dimargin.estimators.docstrings import documented
from dimargin.estimators.fit_plan import DataSize, FitPlan
from dimargin.estimators.input_checks import check_limits, check_magnitude, check_number, seed_of
from dimargin.estimators.linear_machine import LinearMarginClassifier
from dimargin.estimators.margin_machine import PreparedFit, history_attribute, per_class
from dimargin.estimators.sites import check_graph, check_sites, privacy_attributes, site_algorithm
from dimargin.estimators.sklearn_callbacks import with_callbacks
from dimargin.estimators.training_data import TrainingData, on_stored_columns, training_data
from dimargin.estimators.wide_attributes import WideArray, kept_of, on
from dimargin.gossip.simulation.conditions import Conditions
from dimargin.problems.hinge import LOSSES, HingeRows, loss_of
from dimargin.problems.losses import Loss
from dimargin.problems.objectives import Objectives
from dimargin.shards.keys import order_of_keys
from dimargin.solvers import Limits
from dimargin.strategies import Progress
from dimargin.system.arrays import Floats, Indices
from dimargin.system.memory import check_memory
from dimargin.system.threads import single_threaded_blas

if TYPE_CHECKING:  # The network needs the extra "peers".
    from dimargin.gossip.programs.gadget_settings import GadgetSettings
    from dimargin.gossip.simulation.gossip_run import GossipRun


@documented
@dataclass(eq=False, repr=False)
class GossipSVMClassifier(LinearMarginClassifier):
    r"""Linear support vector machine trained by simulated sites that keep their rows.

    Minimises

    .. math:: \tfrac{\alpha}{2} |w|^2 + \tfrac1N \sum_i \ell(y_i \, w \cdot x_i)

    over the N rows of all sites (GADGET paper, equation 1, for the hinge loss). In every round, a
    site takes a step and sends a few numbers per coefficient to its neighbours. `fit` runs the same
    program as ``dimargin site`` on a simulated network and certifies the result, because it has the
    rows of all sites. With one site, ``gradient="local", step_size="pegasos"`` is Pegasos.

    For K classes there are ``n_outputs = 1`` problems if K = 2, else K, one against the rest.

    Parameters
    ----------
    algorithm : {"gadget", "admm"} or SiteAlgorithm, default="gadget"
        GADGET, or consensus ADMM, which needs far fewer bytes and stops by a certificate of its sites.
        In Python, it may be an instance of a class of ``dimargin.gossip.rounds``; all but ADMM need
        the hinge loss, and run `max_iter` rounds, except for `SetGossip`. Only GADGET uses
        `gradient`, `batch_size`, `gossip_rounds`, `step_size`, `projection`, `compression`, `stop` and `n_quiet`.
    share_rows : bool, default=False
        Whether rows may leave their sites; some algorithms require it.
    n_sites : int, default=10
        Number of sites.
    topology : str or networkx graph, default="complete"
        Topology of the network: "complete", "ring", "grid", "torus", "star", "random_regular",
        "small_world", "erdos_renyi", or a graph of `n_sites` nodes, directed or not.
    alpha : float, default=1e-4
        Weight of the regulariser: the paper's lambda, or ``1 / (C n_samples)`` of an SVM.
    loss_function : {"hinge", "squared_hinge", "odm"}, default="hinge"
        Loss of a margin m: ``max(0, 1 - m)``, its square, or that of the optimal margin
        distribution machine,
        ``(max(0, 1 - theta - m)^2 + upsilon max(0, m - 1 - theta)^2) / (2 (1 - theta)^2)``. The
        last two are smooth; with tracked gradients and without batches, they converge linearly.
        `LinearODMClassifier` has ``alpha = 1 / lam``.
    theta : float, default=0.8
        Half width of the band of margins without loss, for "odm", in [0, 1).
    upsilon : float, default=0.5
        Weight of margins beyond ``1 + theta``, for "odm", in (0, 1].
    n_quiet : int, default=3
        Number of successive steps for which the stopping rule must hold; 3 as in the paper.
    gradient : {"tracked", "local"}, default="tracked"
        Direction of a step: the gradient over all rows, which sites track by gossip, or as in the
        paper the gradient over the site's own rows, which biases its weights towards these. Tracked
        gradients also reach the optimum if sites hold different classes.
    batch_size : int or None, default=None
        Rows per step of a site, drawn with replacement. None uses all rows: a step then takes no
        longer than the message after it, and yields the certificate.
    gossip_rounds : int or float, default=1
        Rounds per step. A number below one is a tolerance: rounds are repeated until the relative
        change of the site's estimate is smaller.
    step_size : {"auto", "pegasos"} or float, default="auto"
        Step t has size ``1 / (alpha t + p)``, or ``1 / (alpha + p)`` for tracked gradients of a
        smooth loss without batches. "pegasos" is ``p = 0``. "auto" finds a p for every feature and,
        for tracked gradients, one for the direction of the rows' mean, from sums that sites also
        gossip; features need neither the same scale nor centring. A number is ``1/p``.
    projection : bool, default=False
        Whether steps project onto the ball ``|w| <= 1/sqrt(alpha)``, which holds the optimum.
    compression : {"none", "quantised"}, default="none"
        "none" sends numbers in full precision. "quantised" sends differences from what the
        neighbour predicts, in at most one byte each, and omits zero differences; the sender keeps
        the rounding errors for later messages. This takes about a tenth of the bytes, and memory
        for a few messages of every neighbour.
    average : bool, default=False
        Whether ``coef_`` averages all steps (step t with weight t) instead of using the last.
    shards : {"random", "unequal", "sorted", "sorted_unequal"} or array-like of shape (n_samples,), default="random"
        Assignment of rows to sites. "random": equal sizes. "unequal": the largest site has 200
        times the rows of the smallest. "sorted": sorted by label, so that most sites hold one
        class. "sorted_unequal": both; or the number of every row's site.
    conditions : dimargin.gossip.simulation.Conditions or None, default=None
        Message loss, delay, outages and more; sites are named "site0", "site1", ... None is a
        network without faults.
    fit_intercept : bool, default=False
        Whether to add a constant feature, whose coefficient is regularised like the others.
    stop : {"objective", "quiet"}, default="objective"
        Stopping rule of each site. "objective": its estimate of the objective of all rows has
        changed by a share of at most `tol` in the second half of the steps, which is about its
        distance from the optimum, or the dual objective is that close. "quiet": a step is shorter
        than `tol`, as in the paper, which measures the step instead of the error.
    tol : float, default=2e-3
        Tolerance of `stop`. An algorithm without stopping rule has converged if its relative
        duality gap is at most `tol` after `max_iter` rounds.
    max_iter : int, default=2000
        Maximum number of rounds.
    %(max_time)s
    random_state : int, RandomState or None, default=None
        Seed of the assignment of rows, the network and the batches.
    verbose : int, default=0
        1 logs one line at the end, 2 also one line per entry of the history.

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_)s
    coef_ : ndarray of shape (n_outputs, n_features_in_)
        The consensus: the mean of the weights of all sites.
    intercept_ : ndarray of shape (n_outputs,)
        Zero without `fit_intercept`.
    site_coef_, site_average_coef_ : ndarray of shape (n_sites, n_features_in_)
        Last and averaged weights of every site; of shape (n_sites, n_outputs, n_features_in_) for
        more than two classes.
    site_intercept_, site_average_intercept_ : ndarray of shape (n_sites,)
        Intercepts of the last and of the averaged weights; of shape (n_sites, n_outputs) for more
        than two classes.
    site_of_rows_ : ndarray of shape (n_samples,)
        Number of the site of each row.
    objective_, dual_objective_ : float, or ndarray of shape (n_classes,) for more than two classes
        Primal and dual objective of ``coef_``. The dual objective is that of the sites' dual
        coefficients or, unless the run was interrupted, what `certify` finds, whichever is larger.
    duality_gap_ : float
        ``(objective_ - dual_objective_) / objective_`` of the worst output, including rounding.
    certificate_ : {"global"}
    status_ : {"converged", "above_tol", "max_iter", "max_time", "stopped", "interrupted", "precision"}
        "converged": `duality_gap_` is within `tol`. "above_tol": the sites have met their stopping
        rule, but the gap is larger. "precision": rounding errors may exceed a share of `tol`.
    n_iter_ : int
        Number of rounds.
    epsilon_, delta_ : float
        With the `privacy` of an algorithm: what the messages of a site have cost its rows.
    history_ : list of dict
        Entries for some rounds: ``level`` (0), ``partitions`` (the sites), ``round``, ``seconds``,
        ``objective`` (of the consensus of the last iterates), ``average_objective``,
        ``worst_objective`` (of the worst site), ``consensus_spread`` (largest relative distance of
        a site from it), ``relative_gap`` (to the dual objective of the sites' coefficients), all
        ``messages`` and ``bytes`` so far, ``rows_shared`` if any, and ``kernel_evaluations`` (0).

    See Also
    --------
    SVMClassifier : Support vector machine with kernels, on one computer.

    Notes
    -----
    There is no `sample_weight`: with batches, a weight of two would differ from giving the row
    twice.

    References
    ----------
    "A consensus algorithm for linear support vector machines" (the GADGET paper), an earlier version
    of which is H. Dutta, N. Nataraj, arXiv:1812.02261; S. Shalev-Shwartz, Y. Singer, N. Srebro,
    "Pegasos: primal estimated sub-gradient solver for SVM", ICML 2007; S. Pu, W. Shi, J.
    Xu, A. Nedic, "Push-Pull gradient methods for distributed optimization in networks", IEEE TAC
    2021.

    Examples
    --------
    >>> from dimargin import GossipSVMClassifier
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, 10, class_sep=2.0, random_state=0)
    >>> machine = GossipSVMClassifier(n_sites=5, topology="ring", alpha=1e-2, shards="sorted", random_state=0)
    >>> machine = machine.fit(X[:1000], y[:1000])
    >>> machine.score(X[1000:], y[1000:]) > 0.9, machine.site_coef_.shape
    (True, (5, 10))
    >>> machine.history_[-1]["consensus_spread"] < 0.01
    True
    """

    site_coef_, site_average_coef_ = WideArray(), WideArray()
    class_weight = None  # The base class requires the attribute, but there is no such parameter.

    algorithm: Any = "gadget"
    share_rows: bool = False
    n_sites: int = 10
    topology: Any = "complete"
    alpha: float = 1e-4
    loss_function: str = "hinge"
    theta: float = 0.8
    upsilon: float = 0.5
    n_quiet: int = 3
    gradient: str = "tracked"
    batch_size: int | None = None
    gossip_rounds: int | float = 1
    step_size: str | float = "auto"
    projection: bool = False
    compression: str = "none"
    average: bool = False
    shards: str | Sequence[int] = "random"
    conditions: Conditions | None = None
    fit_intercept: bool = False
    stop: str = "objective"
    tol: float = 2e-3
    max_iter: int = 2000
    max_time: float | None = None
    random_state: Any = None
    verbose: int = 0

    @with_callbacks
    def fit(self, X: Any, y: Any) -> Self:
        """Assign the rows to sites, and train these.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels of any type, two classes or more.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If a parameter or value is out of range; the message names it, or its row and column.
        ImportError
            If the packages of ``dimargin[peers]`` are missing.

        Warns
        -----
        ConvergenceWarning
            If a limit ended the run, and the tolerance was not reached; ``status_`` holds the reason.
        """
        return self._fit(X, y)

    def _prepare(self, X: Any, y: Any, sample_weight: Any = None) -> PreparedFit:
        data, columns = on_stored_columns(training_data(self, X, y, sample_weight, linear=True))
        run = self._run(data, seed_of(self.random_state), columns)

        def train(limits: Limits, progress: Progress) -> tuple[dict[str, Any], str]:
            progress.level_begin(0, None)
            run.run(int(limits.max_iter), limits.deadline, limits.interrupted, progress.check)
            progress.level_end(run.history[-1], lambda: run)
            attributes = self._attributes(data, run, limits.deadline, columns) | privacy_attributes(self, run.programs)
            return attributes, f"{attributes['status_']} after {attributes['n_iter_']} rounds"

        return PreparedFit(1, partial(self._model_attributes, data, columns=columns), train)

    def certify(self, X: Any, y: Any, max_time: float | None = None) -> Self:
        """Compute the certificate of the fitted model on given rows.

        For a model of a real site, these may be the rows of all sites. The method sets
        ``objective_``, ``dual_objective_``, ``duality_gap_``, ``certificate_`` and ``status_``.

        Parameters
        ----------
        X, y
            As in `fit`.
        max_time : float, optional
            Seconds after which the best dual objective so far is used.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        deadline = None if max_time is None else time.perf_counter() + max_time
        data, columns = training_data(self, X, y, None, classes=self.classes_, linear=True), None
        if self._kept_columns is not None:
            data, columns = on_stored_columns(data, self._kept_columns)
        weights = on(kept_of(self, "coef_"), columns)
        weights = np.column_stack([weights, self.intercept_]) if self.fit_intercept else weights
        with single_threaded_blas():
            objectives = self._objectives(self._with_constant(data.X), data.labels, weights, deadline)
        self._set_global_certificate(objectives)
        return self

    def _loss(self) -> Loss:
        return loss_of(self.loss_function, float(self.theta), float(self.upsilon))

    def _objectives(self, X: Any, signs: Floats, weights: Floats, deadline: float | None) -> Objectives:
        rows = HingeRows(X, signs, self._loss())
        return hinge_objectives(rows, weights, float(self.alpha), float(self.tol), deadline)

    def _accuracies_of_sites(self, columns: Indices | None) -> Callable[[GossipRun], Floats] | None:
        """Return the function for the sites' accuracies, if a front end has set one."""
        evaluate: Callable[..., Floats] | None = vars(self).get("_evaluate_sites")
        return evaluate and (lambda run: evaluate(run.weights(bool(self.average)), columns))

    def _run(self, data: TrainingData, seed: int, columns: Indices | None) -> GossipRun:
        from dimargin.gossip.programs.algorithm import Problem
        from dimargin.gossip.simulation.gossip_run import GossipRun, deal
        from dimargin.gossip.simulation.observed_run import connected_graph

        n_sites = int(self.n_sites)
        graph = connected_graph(self.topology, n_sites, seed)
        check_memory(self._memory(graph, len(data.labels) * data.X.shape[1]), None)
        order = order_of_keys(data.X, data.y, data.row_weights, seed)
        site = deal(self.shards, data.y, order, n_sites)
        settings: Any = self._settings(directed=graph.is_directed())
        make = None
        X, conditions = self._with_constant(data.X), self.conditions or Conditions()
        if self.algorithm != "gadget":
            algorithm = site_algorithm(self.algorithm)
            check_graph(algorithm, graph)
            problem = Problem(settings.alpha, n_sites, len(site), settings.lease, tol=settings.tol)
            settings, make = problem, partial(algorithm.program, problem)
        evaluate = self._accuracies_of_sites(columns)
        return GossipRun(X, data.labels, site, n_sites, settings, graph, conditions, seed, evaluate, make, self._loss())

    def _memory(self, graph: Any, n_coefficients: int) -> int:
        """Return the bytes that the sites of a network hold besides their rows."""
        # A site holds 19 numbers per coefficient, its messages included. With compression, it also
        # holds 160 for the last messages to and from each neighbour.
        arrays = 19 * int(self.n_sites) + 160 * 2 * graph.number_of_edges() * (self.compression != "none")
        return int(8 * arrays * n_coefficients)

    def _plan(self, size: DataSize) -> FitPlan:
        from dimargin.gossip.topology import make_graph

        name = self.algorithm if isinstance(self.algorithm, str) else type(self.algorithm).__name__
        memory = self._memory(make_graph(self.topology, int(self.n_sites)), size.n_outputs * size.n_features)
        return FitPlan(name, self.algorithm, self._loss(), False, memory, memory)

    def _settings(self, directed: bool = False) -> GadgetSettings:
        from dimargin.gossip.programs.gadget_settings import GadgetSettings

        return GadgetSettings(
            alpha=float(self.alpha), gradient=self.gradient, batch_size=self.batch_size,  # type: ignore[arg-type]
            gossip_rounds=self.gossip_rounds, step_size=self.step_size, projection=bool(self.projection),
            compression=self.compression,  # type: ignore[arg-type]
            stop=self.stop, tol=float(self.tol), n_quiet=int(self.n_quiet),  # type: ignore[arg-type]
            lease=math.inf if directed else GadgetSettings.lease,
        )  # fmt: skip

    def _check_parameters(self) -> None:
        """Raise an error if a parameter is out of range or a package is missing."""
        check_sites(type(self).__name__, self.n_sites, self.topology, self.shards)
        if self.algorithm != "gadget":
            self._check_algorithm()
        for name, known in (
            ("gradient", ("tracked", "local")),
            ("stop", ("objective", "quiet")),
            ("loss_function", LOSSES),
            ("compression", ("none", "quantised")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be {' or '.join(map(repr, known))}, got {getattr(self, name)!r}")
        if self.compression != "none" and self.gradient != "tracked":
            raise ValueError(f"compression must be 'none' for local gradients, got {self.compression!r}")
        check_number("theta", self.theta, 0, 1, low_included=True)
        check_number("upsilon", self.upsilon, 0, 1, high_included=True)
        check_number("n_quiet", self.n_quiet, 1, low_included=True, whole=True)
        check_limits(self)
        check_magnitude("alpha", self.alpha)
        check_number("batch_size", self.batch_size, 1, low_included=True, whole=True, or_none=True)
        check_number("gossip_rounds", self.gossip_rounds, 0, whole=self.gossip_rounds >= 1)
        if isinstance(self.step_size, str):
            if self.step_size not in ("auto", "pegasos"):
                raise ValueError(f"step_size must be 'auto', 'pegasos' or a number above 0, got {self.step_size!r}")
            # The first steps of Pegasos diverge for the other losses.
            if self.step_size == "pegasos" and self.loss_function != "hinge":
                raise ValueError(f"step_size must be 'auto' or a number for {self.loss_function!r}, got 'pegasos'")
        else:
            check_magnitude("step_size", self.step_size)

    def _check_algorithm(self) -> None:
        algorithm = site_algorithm(self.algorithm)
        algorithm.validate()
        name = type(algorithm).__name__
        if self.loss_function not in algorithm.losses:
            raise ValueError(f"loss_function must be 'hinge' with {name}, got {self.loss_function!r}")
        gadget_only = "gradient batch_size gossip_rounds step_size projection compression stop n_quiet"
        for unused in gadget_only.split():
            if getattr(self, unused) != getattr(type(self), unused):
                raise ValueError(f"{unused} was set, but {name} does not use it; set the parameters of {name} instead")
        if algorithm.shares == "rows" and not self.share_rows:
            raise ValueError(f"algorithm={self.algorithm!r} sends rows to other sites; set share_rows=True to allow it")

    # ---- fitted attributes ---------------------------------------------------------------------------------------

    def _model_attributes(self, data: TrainingData, run: GossipRun, columns: Indices | None) -> dict[str, Any]:
        """Return the fitted attributes that prediction needs."""
        coefficients, intercept = self._split(run.weights(bool(self.average)).mean(axis=0))
        return {"classes_": data.classes, "coef_": self._of_columns(coefficients, columns), "intercept_": intercept}

    def _attributes(
        self, data: TrainingData, run: GossipRun, deadline: float | None, columns: Indices | None
    ) -> dict[str, Any]:
        consensus = run.weights(bool(self.average)).mean(axis=0)
        rows, primal = HingeRows(run.X, run.signs, run.loss), run.objectives(consensus[None])[0]
        objectives, status = hinge_certificate(rows, consensus, primal, run.dual_objective()), run.status
        if status in ("converged", "max_iter"):
            objectives = objectives.better(self._objectives(run.X, run.signs, consensus, deadline))
        if status in ("max_iter", "max_time") and objectives.worst_gap <= self.tol:
            status = "converged"  # The sites, which do not know this gap, would have continued.
        if status == "converged" and (objectives.rounding > self.tol).any():
            status = "precision"
        each, intercepts = self._split(run.weights())
        averages, average_intercepts = self._split(run.weights(average=True))
        sites = np.empty(data.n_given, dtype=np.int64)
        sites[data.kept] = run.site
        single, by_class = len(data.labels) == 1, ("average_objective", "worst_objective")
        return {
            **self._model_attributes(data, run, columns),
            "site_coef_": self._of_columns(each[:, 0] if single else each, columns),
            "site_average_coef_": self._of_columns(averages[:, 0] if single else averages, columns),
            "site_intercept_": intercepts[:, 0] if single else intercepts,
            "site_average_intercept_": average_intercepts[:, 0] if single else average_intercepts,
            "site_of_rows_": sites,
            **self._certificate_attributes(objectives, "global", status),
            "n_iter_": max(1, run.n_rounds),
            "history_": history_attribute(
                [{**entry, **{name: per_class(np.asarray(entry[name])) for name in by_class}} for entry in run.history]
            ),
        }

    def _with_constant(self, X: Any) -> Any:
        """Return the rows, with a constant last feature if there is an intercept."""
        if not self.fit_intercept:
            return X
        ones = np.ones((X.shape[0], 1))
        return sp.csr_array(sp.hstack([X, ones])) if sp.issparse(X) else np.hstack([X, ones])

    def _split(self, weights: Floats) -> tuple[Floats, Floats]:
        """Split weights into coefficients and intercepts."""
        if not self.fit_intercept:
            return weights.copy(), np.zeros(weights.shape[:-1])
        return weights[..., :-1].copy(), weights[..., -1].copy()
