"""Linear support vector machine learnt by gossiping sites, as a scikit-learn classifier."""

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
from dimargin.estimators.linear_margin_classifier import LinearMarginClassifier
from dimargin.estimators.margin_classifier import PreparedFit, history_attribute, per_class
from dimargin.estimators.sites import check_graph, check_sites
from dimargin.estimators.sklearn_callbacks import with_callbacks
from dimargin.estimators.validated_data import TrainingData, on_stored_columns, training_data
from dimargin.estimators.validation import check_magnitude, check_number
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

if TYPE_CHECKING:  # the network needs an extra
    from dimargin.gossip.programs.gadget_settings import GadgetSettings
    from dimargin.gossip.simulation.gossip_run import GossipRun

_ARRAYS = 19  # numbers for every column and output that a site has at a time, its messages included
_KEPT = 160  # likewise, of the last messages to and from one neighbour, where differences from them are sent
_OF_GADGET = (
    "gradient", "batch_size", "gossip_rounds", "step_size", "projection", "compression", "stop", "n_quiet"
)  # fmt: skip


@documented
@dataclass(eq=False, repr=False)
class GossipSVMClassifier(LinearMarginClassifier):
    r"""Linear support vector machine learnt by simulated sites that keep their rows and talk to neighbours only.

    Minimises ``alpha/2 |w|^2 + 1/N sum_i loss(y_i w.x_i)`` over the N rows of all sites (GADGET paper, equation 1,
    where the loss is the hinge), in rounds in each of which a site steps and tells its neighbours some numbers for each
    of its coefficients.
    `fit` runs the very program that ``dimargin site`` runs at a real site, on a simulated network. As it has the rows
    of all sites, it certifies the answer. Centralised and with one site, ``gradient="local", step_size="pegasos"`` is
    Pegasos.

    For K classes there are ``n_outputs = 1`` binary problems if K = 2, else K, one against the rest.

    Parameters
    ----------
    algorithm : "gadget" or SiteAlgorithm, default="gadget"
        GADGET, or an instance of an algorithm from ``dimargin.gossip.rounds``, which has parameters of its own.
        Rivals need ``loss_function="hinge"``, and do not use `gradient`, `batch_size`, `gossip_rounds`, `step_size`,
        `projection`, `compression`, `stop` and `n_quiet`. Except for `SetGossip`, and `UniformGadget` with a
        `tol` of its own, they have no rule for stopping: they run `max_iter` rounds.
    share_rows : bool, default=False
        Whether rows may leave their sites, for algorithms that need it.
    n_sites : int, default=10
        Sites that the rows are dealt to.
    topology : str or networkx graph, default="complete"
        Who talks to whom: "complete", "ring", "grid", "torus", "star", "random_regular", "small_world",
        "erdos_renyi", or a graph of `n_sites` nodes, directed or not.
    alpha : float, default=1e-4
        Weight of the regulariser: the paper's lambda, and ``1 / (C n_samples)`` of other support vector machines.
    loss_function : {"hinge", "squared_hinge", "odm"}, default="hinge"
        Of a margin m: ``max(0, 1 - m)``, its square, or that of the optimal margin distribution machine, ``(max(0, 1 -
        theta - m)^2 + upsilon max(0, m - 1 - theta)^2) / (2 (1 - theta)^2)``. With the last two, which are smooth, and
        tracked gradients of all rows the distance from the optimum falls at a linear rate. An
        `dimargin.LinearODMClassifier` has ``alpha = 1 / lam``.
    theta : float, default=0.8
        Half width of the band of margins without loss, of "odm", in [0, 1).
    upsilon : float, default=0.5
        Weight of margins beyond ``1 + theta``, of "odm", in (0, 1].
    n_quiet : int, default=3
        Number of successive steps for which the rule for stopping must hold; 3 is the paper's number.
    gradient : {"tracked", "local"}, default="tracked"
        What a site follows: the gradient of all rows, which it tracks by gossip, or as in the paper that of its own
        rows, so that its weights are drawn to them. Tracked gradients reach the optimum where sites hold different
        classes, too.
    batch_size : int or None, default=None
        Rows that a site looks at in a step, drawn with replacement. None is all: a step costs as much as the message
        that follows it takes, or less, and the certificate comes with it.
    gossip_rounds : int or float, default=1
        Rounds for every step. A number below one is a tolerance: rounds go on until one changes the site's estimate by
        a smaller share.
    step_size : {"auto", "pegasos"} or float, default="auto"
        Step t is ``1 / (alpha t + p)``, or with tracked gradients of a smooth loss, of all rows, ``1 / (alpha + p)``.
        "pegasos" has ``p = 0``; "auto" a p for every feature and, for tracked gradients, one for the direction of the
        rows' mean, from sums that sites gossip, too: features need not be scaled alike, nor centred. A number is
        ``1/p``.
    projection : bool, default=False
        Whether every step ends on ``|w| <= 1/sqrt(alpha)``, where the optimum is.
    compression : {"none", "quantised"}, default="none"
        What sites send: all numbers, whole, or how they differ from what the neighbour has and expects, in a byte or
        less each, and nothing of those that are as expected. What is rounded stays with the sender. That takes about a
        tenth of the bytes, and memory for a few messages of every neighbour.
    average : bool, default=False
        Whether ``coef_`` is made of the averages over all steps (step t has weight t) in place of the last iterates.
    shards : {"random", "unequal", "sorted", "sorted_unequal"} or array-like of shape (n_samples,), default="random"
        How rows are dealt to sites: evenly; the largest site gets 200 times the rows of the smallest; sorted by
        label, so that most sites hold one class; both; or the number of every row's site.
    conditions : dimargin.gossip.simulation.Conditions or None, default=None
        Loss, delay, outages and more; the sites are "site0", "site1", ... None is a network without faults.
    fit_intercept : bool, default=False
        Whether a constant feature is added, whose coefficient is regularised like the others.
    stop : {"objective", "quiet"}, default="objective"
        Each site's rule for stopping: when the objective of all rows, by its estimate, has stayed within a share of
        `tol` in the second half of the steps, which is about how far it is from the optimum, or the dual objective is
        that close; or the paper's rule, when a step is shorter than `tol`, which measures the step and not the error.
    tol : float, default=2e-3
        See `stop`. A rival that has run `max_iter` rounds has converged if its relative duality gap is at most this.
    max_iter : int, default=2000
        Rounds.
    %(max_time)s
    random_state : int, RandomState or None, default=None
        Of the deal, the network and the batches.
    verbose : int, default=0
        1 prints a line at the end, 2 also one for every entry of the history.

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_)s
    coef_ : ndarray of shape (n_outputs, n_features_in_)
        The consensus: the mean of the sites' weights.
    intercept_ : ndarray of shape (n_outputs,)
        Zero without `fit_intercept`.
    site_coef_, site_average_coef_ : ndarray of shape (n_sites, n_features_in_)
        Last and averaged weights of every site; of shape (n_sites, n_outputs, n_features_in_) for more classes.
    site_intercept_, site_average_intercept_ : ndarray of shape (n_sites,)
        Intercepts of the last and of the averaged weights; of shape (n_sites, n_outputs) for more than two classes.
    site_of_rows_ : ndarray of shape (n_samples,)
        Site that every row was dealt to.
    objective_, dual_objective_ : float, or ndarray of shape (n_classes,) for more than two classes
        Primal objective of ``coef_``, and a dual one below it: the better of that of the sites' dual coefficients and,
        unless the run was cut short, what `certify` finds.
    duality_gap_ : float
        ``(objective_ - dual_objective_) / objective_``, of the worst output, rounding included.
    certificate_ : {"global"}
    status_ : {"converged", "above_tol", "max_iter", "max_time", "stopped", "precision"}
        "converged": `duality_gap_` is within `tol`; "above_tol": the sites have stopped by their rule, and it is not;
        "precision": they have, but what rounding may have done to the objective is more than `tol` of it.
    n_iter_ : int
        Rounds.
    history_ : list of dict
        Entries of rounds that lie farther and farther apart, each with ``level`` (0), ``partitions`` (the sites),
        ``round``, ``seconds``, ``objective`` (of the consensus of the last iterates), ``average_objective``,
        ``worst_objective`` (of the worst site), ``consensus_spread`` (largest relative distance of a site from the
        consensus), ``relative_gap`` (to the dual objective of the sites' dual coefficients), ``messages``, ``bytes``
        (all that were sent so far, as encoded, of the columns that occur) and ``kernel_evaluations``, which are none;
        where rows leave their sites also ``rows_shared``, the number of those that have.

    See Also
    --------
    SVMClassifier : The same machine with kernels, on one computer.

    Notes
    -----
    There is no `sample_weight`: where sites draw batches, a weight of two cannot equal a row given twice.

    References
    ----------
    C. Dutta, H. Nguyen, "GADGET SVM: a gossip-based sub-gradient SVM solver"; S. Shalev-Shwartz et al., "Pegasos", ICML
    2007; S. Pu, W. Shi, J. Xu, A. Nedic, "Push-Pull gradient methods for distributed optimization in networks", IEEE
    TAC 2021.

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
    class_weight = None  # what the base class asks for, and this machine does not have

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
        """Deal the rows to sites, and let these learn.

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
            For a parameter or data out of range; the message names the parameter, row, column or site.
        ImportError
            Without the packages of ``dimargin[peers]``.

        Warns
        -----
        ConvergenceWarning
            When the sites had not stopped by themselves; ``status_`` says why.
        """
        return self._fit(X, y)

    def _prepare(self, X: Any, y: Any, sample_weight: Any = None) -> PreparedFit:
        data, columns = on_stored_columns(training_data(self, X, y, sample_weight, linear=True))
        run = self._run(data, self._seed(), columns)

        def train(limits: Limits, progress: Progress) -> tuple[dict[str, Any], str]:
            progress.level_begin(0, None)
            run.run(int(limits.max_iter), limits.deadline, limits.interrupted, progress.check)
            progress.level_end(run.history[-1], lambda: run)
            attributes = self._attributes(data, run, limits.deadline, columns)
            return attributes, f"{attributes['status_']} after {attributes['n_iter_']} rounds"

        return PreparedFit(1, partial(self._model_attributes, data, columns=columns), train)

    def certify(self, X: Any, y: Any, max_time: float | None = None) -> Self:
        """Compute the certificate of the fitted model on any rows.

        These may be the rows of all sites, for a model that a real site has learnt. The method sets ``objective_``,
        ``dual_objective_``, ``duality_gap_``, ``certificate_`` and ``status_``.

        Parameters
        ----------
        X, y
            As in `fit`.
        max_time : float, optional
            Seconds after which the best dual objective so far is taken.

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

    @property
    def _loss(self) -> Loss:
        return loss_of(self.loss_function, float(self.theta), float(self.upsilon))

    def _objectives(self, X: Any, signs: Floats, weights: Floats, deadline: float | None) -> Objectives:
        return hinge_objectives(HingeRows(X, signs, self._loss), weights, float(self.alpha), float(self.tol), deadline)

    def _accuracies_of_sites(self, columns: Indices | None) -> Callable[[GossipRun], Floats] | None:
        """Return the function that gives the history the sites' accuracies, or None if no front end has left one."""
        evaluate: Callable[..., Floats] | None = self.__dict__.get("_evaluate")
        return evaluate and (lambda run: evaluate(run.weights(bool(self.average)), columns))

    def _run(self, data: TrainingData, seed: int, columns: Indices | None) -> GossipRun:
        from dimargin.gossip.programs.algorithm import Problem
        from dimargin.gossip.simulation.gossip_run import GossipRun, deal
        from dimargin.gossip.simulation.observed_run import connected_graph

        n_sites = int(self.n_sites)
        graph = connected_graph(self.topology, n_sites, seed)
        arrays = _ARRAYS * n_sites + _KEPT * 2 * graph.number_of_edges() * (self.compression != "none")
        check_memory(8 * arrays * len(data.labels) * data.X.shape[1], None)
        order = order_of_keys(data.X, data.y, data.row_weights, seed)
        site = deal(self.shards, data.y, order, n_sites)
        settings: Any = self._settings(directed=graph.is_directed())
        make = None
        X, conditions = self._with_constant(data.X), self.conditions or Conditions()
        if self.algorithm != "gadget":
            check_graph(self.algorithm, graph)
            problem = Problem(settings.alpha, n_sites, len(site), settings.lease)
            settings, make = problem, partial(self.algorithm.program, problem)
        evaluate = self._accuracies_of_sites(columns)
        return GossipRun(X, data.labels, site, n_sites, settings, graph, conditions, seed, evaluate, make, self._loss)

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
        """Raise an error for any parameter out of its range, ImportError where the network's packages are missing."""
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
        for name, low in (("n_quiet", 1), ("max_iter", 1)):
            check_number(name, getattr(self, name), low, low_included=True, whole=True)
        check_number("alpha", self.alpha, 0)
        check_magnitude("alpha", self.alpha)
        check_number("tol", self.tol, 0)
        if self.batch_size is not None:
            check_number("batch_size", self.batch_size, 1, low_included=True, whole=True)
        check_number("gossip_rounds", self.gossip_rounds, 0, whole=self.gossip_rounds >= 1)
        if isinstance(self.step_size, str):
            if self.step_size not in ("auto", "pegasos"):
                raise ValueError(f"step_size must be 'auto', 'pegasos' or a number above 0, got {self.step_size!r}")
            if self.step_size == "pegasos" and self.loss_function != "hinge":  # whose first steps would go ever farther
                raise ValueError(f"step_size must be 'auto' or a number for {self.loss_function!r}, got 'pegasos'")
        else:
            check_number("step_size", self.step_size, 0)
            check_magnitude("step_size", self.step_size)
        if self.max_time is not None:
            check_number("max_time", self.max_time, 0)

    def _check_algorithm(self) -> None:
        from dimargin.gossip.programs.algorithm import SiteAlgorithm

        if not isinstance(self.algorithm, SiteAlgorithm):
            raise ValueError(
                "algorithm must be 'gadget' or an instance of a class of dimargin.gossip.rounds, such as "
                f"ConsensusADMM(), got {self.algorithm!r}"
            )
        self.algorithm.validate()
        name = type(self.algorithm).__name__
        if self.loss_function != "hinge":
            raise ValueError(
                f"loss_function must be 'hinge' with {name}, got {self.loss_function!r}: rivals have the hinge only"
            )
        for unused in _OF_GADGET:
            if getattr(self, unused) != getattr(type(self), unused):
                raise ValueError(
                    f"{unused} was set, but {name} does not use it; {name} has parameters of its own, if any"
                )
        if self.algorithm.shares == "rows" and not self.share_rows:
            raise ValueError(
                f"algorithm={self.algorithm!r} sends rows of every site to others; say share_rows=True if they may "
                "leave it"
            )

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
        if status == "max_iter" and self.algorithm != "gadget" and objectives.worst_gap <= self.tol:
            status = "converged"  # though most rivals have no rule for stopping
        if status == "converged" and (objectives.rounding > self.tol).any():
            status = "precision"
        each, intercepts = self._split(run.weights())
        averages, average_intercepts = self._split(run.weights(average=True))
        sites = np.empty(data.n_given, dtype=np.int64)
        sites[data.kept] = run.site
        single = len(data.labels) == 1
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
                [{**entry, **{name: per_class(np.asarray(entry[name])) for name in _BY_CLASS}} for entry in run.history]
            ),
        }

    def _with_constant(self, X: Any) -> Any:
        """Return the rows, with a last feature of one if there is an intercept."""
        if not self.fit_intercept:
            return X
        ones = np.ones((X.shape[0], 1))
        return sp.csr_array(sp.hstack([X, ones])) if sp.issparse(X) else np.hstack([X, ones])

    def _split(self, weights: Floats) -> tuple[Floats, Floats]:
        """Split weights into coefficients and intercepts."""
        if not self.fit_intercept:
            return weights.copy(), np.zeros(weights.shape[:-1])
        return weights[..., :-1].copy(), weights[..., -1].copy()


_BY_CLASS = ("average_objective", "worst_objective")
