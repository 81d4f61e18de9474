"""The linear Optimal margin Distribution Machine as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from dimargin.estimators.docstrings import documented
from dimargin.estimators.fit_plan import DataSize
from dimargin.estimators.input_checks import seed_of
from dimargin.estimators.linear_loss_machine import LinearLossClassifier
from dimargin.estimators.margin_machine import history_attribute, unchanged_on_failure
from dimargin.estimators.odm import odm_loss
from dimargin.estimators.training_data import on_stored_columns, training_data
from dimargin.estimators.wide_attributes import in_float32, nonzero_columns, set_attributes
from dimargin.problems.losses import ODMLoss
from dimargin.solvers import Limits, PrimalSolution
from dimargin.strategies import LinearSolver, LinearSVRG
from dimargin.system.arrays import Floats, Indices
from dimargin.system.threads import single_threaded_blas


def _has_partial_fit(estimator: Any) -> bool:
    if estimator.solver in ("auto", "svrg") or type(estimator.solver) is LinearSVRG:
        return True
    raise AttributeError(f"partial_fit needs solver='svrg' or 'auto', got {estimator.solver!r}")


@documented
@dataclass(eq=False, repr=False)
class LinearODMClassifier(LinearLossClassifier):
    r"""Linear Optimal margin Distribution Machine for dense or sparse rows.

    Minimises

    .. math::

        \tfrac12 |w|^2 + \frac{\lambda}{2 W (1 - \theta)^2} \sum_i s_i
        \bigl[ (1 - \theta - m_i)_+^2 + \upsilon (m_i - 1 - \theta)_+^2 \bigr]

    over margins :math:`m_i = y_i (w \cdot x_i + b)`, where :math:`\lambda` is `lam`, :math:`s_i` the
    weight of row i, and :math:`W` the sum of the weights (DiODM paper, section 2). The certificate
    is that half the squared gradient is the duality gap. The intercept :math:`b` is not
    regularised, unless `intercept_scaling` is given. Besides the data, the fit needs about ten
    numbers per row and output.

    For K classes, there is ``n_outputs = 1`` binary problem if K = 2, else there are K, one against
    the rest.

    Parameters
    ----------
    lam : float, default=1e4
        Weight of the loss; larger is less regularised. This is lambda in the ``lambda/2M``
        convention of the paper, twice that of libodm. With the defaults of `lam`, `upsilon` and
        `theta`, the accuracy equals that of LinearSVC with its defaults (docs/defaults.md).
    upsilon : float, default=0.5
        Weight of margins beyond ``1 + theta``, in (0, 1].
    theta : float, default=0.8
        Half width of the band of margins around one without loss, in [0, 1).
    solver : {"auto", "newton", "cd", "svrg", "csvrg", "dsvrg"} or solver object, default="auto"
        Algorithm. "newton" takes a few passes over the rows for any parameters. "cd" (dual coordinate
        descent) is faster for sparse rows with many columns, on one machine. "svrg" (stochastic
        variance reduced gradient) takes a few more for small `lam`. "dsvrg" is svrg on stratified
        partitions without moving rows (acc-DiODM). "csvrg" is svrg with a core-set, a baseline.
        "auto" is "newton". In Python, an object has further options, as in
        ``LinearSVRG(step_size="barzilai_borwein")``.
    %(fit_intercept, intercept_scaling, tol)s
    max_iter : int, default=1000
        Maximum number of Newton steps, or of stages of "svrg", "csvrg" and "dsvrg".
    %(max_time, class_weight, warm_start)s
    %(n_jobs, random_state)s
    verbose : int, default=0
        1 logs one line at the end of a solve, 2 also one line per step, as `SVMClassifier` does.

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_)s
    %(coef_, intercept_, objective_, duality_gap_)s
    certificate_ : {"global", "partitioned", "before_rounding"}
        Problem of the gap: the whole one or, after `partial_fit`, that of the last rows.
        "before_rounding": the gap is that of the machine before `to_float32`.
    %(status_)s
    n_iter_ : int
        Number of steps and evaluations of starting points.
    history_ : list of dict
        One entry per step with ``level`` (1 for an initial solve on some of the rows),
        ``partitions``, ``rows``, ``scope``, ``seconds``, ``epochs`` (passes over all rows so far),
        ``objective``, ``gradient_norm``, ``relative_gap`` and ``kernel_evaluations`` (0).

    See Also
    --------
    ODMClassifier : Machine with any kernel, also ``kernel="linear"``, and without intercept.

    Notes
    -----
    With an intercept, the machine is invariant to shifts of the features, but not to their scale.

    References
    ----------
    T. Zhang, Z.-H. Zhou, "Optimal margin distribution machine", IEEE TKDE 32, 2019; "Distributed
    optimal margin distribution machine" (the DiODM paper), under review at ICLR 2022.

    Examples
    --------
    >>> from dimargin import LinearODMClassifier
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(20_000, 10, random_state=0)
    >>> machine = LinearODMClassifier(random_state=0).fit(X[:15_000], y[:15_000])
    >>> round(machine.score(X[15_000:], y[15_000:]), 2), machine.duality_gap_ <= 1e-3, machine.certificate_
    (0.84, True, 'global')
    """

    lam: float = 1e4
    upsilon: float = 0.5
    theta: float = 0.8
    solver: str | LinearSolver = "auto"
    fit_intercept: bool = True
    intercept_scaling: float | None = None
    tol: float = 1e-3
    max_iter: int = 1000
    max_time: float | None = None
    class_weight: dict[Any, float] | str | None = None
    warm_start: bool = False
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    solvers: ClassVar[tuple[str, ...]] = ("newton", "cd", "svrg", "csvrg", "dsvrg")

    # State of partial_fit: the last iterate, and the total weight of the rows seen.
    _partial: tuple[Floats, float] = field(init=False)

    @available_if(_has_partial_fit)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Continue training, also after `fit`, with one stage of "svrg" on further rows.

        The model is a weighted mean of the iterates of all calls; the weight of an iterate is
        proportional to the number of rows seen until then. A single pass over a stream of samples
        comes near the optimum of all of them, and repeated calls with the same rows approach theirs
        (similar to streaming SVRG: Frostig et al., COLT 2015).

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels; required in the first call.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
            Objectives and gap, with scope "partitioned", belong to the rows of this call; `certify`
            computes them for other rows.

        Raises
        ------
        ValueError, TypeError
            As in `fit`; if `classes` is missing in the first call or has changed; for
            ``class_weight="balanced"``, which needs all rows.
        AttributeError
            If the solver is not "svrg" or "auto".
        """
        with unchanged_on_failure(self), single_threaded_blas():
            self._check_parameters()
            solver = self.solver if isinstance(self.solver, LinearSVRG) else LinearSVRG()
            if self.class_weight == "balanced":
                raise ValueError("class_weight='balanced' needs all rows; use partial_fit with a dict of class weights")
            first = not hasattr(self, "classes_")
            data = training_data(self, X, y, sample_weight, classes=self._known_classes(classes, first), linear=True)
            data, columns = on_stored_columns(data, None if first else self._kept_columns)
            nothing = np.zeros((len(data.labels), data.X.shape[1] + 1)), 0.0
            iterate, seen = nothing if first else (self._on(self._partial[0], columns).astype(float), self._partial[1])
            calls = 0 if first else self.n_iter_
            seed = seed_of(self.random_state) + calls
            stage = self._training(data, iterate, Limits(tol=0.0, max_iter=1), seed)
            solution = solver.train(stage)
            iterate = self._with_intercept(solution.parameters)
            weight = float(data.weights.sum())
            mean = iterate if first else self._parameters_on(columns)
            mean = mean + 2 * weight / (seen + 2 * weight) * (iterate - mean)
            looked = solver.train(self._training(data, mean, Limits(tol=self.tol, max_iter=0)))
            entry = {**looked.history[-1], "scope": "partitioned"}
            attributes = {
                **self._model_attributes(data.classes, mean, columns),
                **self._certificate_attributes(
                    looked.objectives, "partitioned", "converged" if looked.status == "converged" else "stopped"
                ),
                "n_iter_": calls + 1,
                "history_": ([] if first else self.history_) + history_attribute([entry]),
                "_partial": (self._kept(iterate, columns), seen + weight),
            }
            set_attributes(self, attributes)
        return self

    def _known_classes(self, classes: Any, first: bool) -> NDArray[Any]:
        if classes is not None:
            classes = np.unique(classes)
        if first:
            if classes is None:
                raise ValueError("classes must be given in the first call of partial_fit")
            return np.asarray(classes)
        if classes is not None and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"classes must be those of the first call, {self.classes_.tolist()}, got {classes.tolist()}"
            )
        return np.asarray(self.classes_)

    def _loss(self) -> ODMLoss:
        return odm_loss(self)

    def _auto_solver(self, size: DataSize) -> str:
        return "newton"

    def fitted_attributes(
        self, solution: PrimalSolution, classes: NDArray[Any], total: float, columns: Indices | None = None
    ) -> dict[str, Any]:
        """Return the fitted attributes for these columns (None: all) and rows of weight `total`."""
        partial = self._kept(self._with_intercept(solution.parameters), columns), total
        return super().fitted_attributes(solution, classes, total, columns) | {"_partial": partial}

    def to_float32(self) -> Self:  # noqa: D102
        super().to_float32()
        if self._iterate is not None:
            self._partial = in_float32(self._iterate), self._partial[1]
        return self

    @property
    def _iterate(self) -> Any:
        """Parameters from which `partial_fit` continues; None in models of other writers."""
        return vars(self).get("_partial", (None,))[0]

    def _nonzero_columns(self) -> Indices:
        columns = super()._nonzero_columns()
        if self._iterate is None:
            return columns
        columns = np.union1d(columns, nonzero_columns(self._iterate))
        return np.asarray(columns[columns < self.n_features_in_])

    def _keep_on(self, columns: Indices | None) -> None:
        super()._keep_on(columns)
        if self._iterate is not None:
            self._partial = self._kept(self._on(self._iterate, columns), columns), self._partial[1]
