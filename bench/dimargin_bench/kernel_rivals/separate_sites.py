"""Machines of sites that do not talk to one another: "pseudo-distributed" in the GADGET paper."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state, get_tags

from dimargin.estimators.sites import check_sites
from dimargin.estimators.training_data import TrainingData, queries, training_data
from dimargin.problems.one_vs_rest import codes_of
from dimargin.system.arrays import Floats

_CHECKED = 16  # rows of a site on which a machine that has coefficients must be linear in them


@dataclass(eq=False, repr=False)
class PseudoDistributed(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Classifier whose copies are each trained on the rows of one site, without a message between them.

    In the GADGET paper LIBLINEAR, SVMPerf and the other machines of Tables 4 to 6 run like this, and
    "the average performance of all the sites is reported" (section 5.5.3): the mean of the sites'
    accuracies, with ``combine="none"`` and `site_predictions`. "average" and "vote" combine the
    machines, which the paper does not do: it is what sites can have that share no more than their
    models, once. Models count alike, however many rows their sites have.

    Parameters
    ----------
    estimator : classifier or None, default=None
        Any of scikit-learn's kind, cloned for every site; None is ``LinearSVC()``. Where it has
        `random_state`, also inside a pipeline, copies get different ones.
    n_sites : int, default=10
    shards : {"random", "unequal", "sorted", "sorted_unequal"} or array-like of shape (n_samples,), default="random"
        How rows are dealt to sites, as in `dimargin.GossipSVMClassifier`.
    combine : {"average", "vote", "none"}, default="average"
        "none" leaves the sites apart: the first site answers a query with its own model.
        "average" takes the mean of the coefficients and intercepts of linear machines, one against
        the rest, and that of what others say of a row: probabilities, or else decision values.
        "vote" is the majority of the predictions; the first of the classes with as many votes is
        predicted.
    random_state : int, RandomState or None, default=None
        Of the deal, and of the copies.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had column names.
    estimators_ : list
        Models of the sites that have rows, in their order. A site with rows of one class only has
        no model but this label, and says it of every row: in an average with a decision value of
        one for it and minus one for the others (as the hinge loss would have it, with an intercept
        that costs nothing), or with probability one. Classes that a site has not seen are likewise
        none for it: zero coefficients and an intercept of minus one.
    site_of_rows_ : ndarray of shape (n_samples,)
        Site that every row was dealt to.
    site_seconds_ : ndarray of shape (n_estimators,)
        How long the training of each model took.
    coef_ : ndarray of shape (n_outputs, n_features_in_)
        Mean over the sites; for averages of linear machines only.
    intercept_ : ndarray of shape (n_outputs,)
        Likewise.

    See Also
    --------
    BaggedSVM : Votes of kernel machines, each of a sample of all rows.

    References
    ----------
    "A consensus algorithm for linear support vector machines" (the GADGET paper), an earlier version
    of which is H. Dutta, N. Nataraj, arXiv:1812.02261.

    Examples
    --------
    >>> from dimargin_bench.kernel_rivals import PseudoDistributed
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> machine = PseudoDistributed(DecisionTreeClassifier(), n_sites=5, combine="vote", random_state=0)
    >>> round(machine.fit(X[:800], y[:800]).score(X[800:], y[800:]), 1)
    0.9
    """

    class_weight = None  # what the checks of the data ask for, and this machine does not have

    estimator: Any = None
    n_sites: int = 10
    shards: str | Sequence[int] = "random"
    combine: str = "average"
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        else:
            tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Deal the rows, and train a copy at every site.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Sparse where the estimator takes sparse rows.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For a parameter or data out of range, or where models of this kind have no average; the
            message says what.
        MissingExtra
            Without the packages of ``dimargin[peers]``, whose deal this is.
        """
        if self.combine not in ("average", "vote", "none"):
            raise ValueError(f"combine must be 'average', 'vote' or 'none', got {self.combine!r}")
        check_sites(type(self).__name__, self.n_sites, "complete", self.shards)
        from dimargin.gossip.simulation.gossip_run import deal

        data = training_data(self, X, y, None, linear=True)
        rng = check_random_state(self.random_state)
        site = deal(self.shards, data.y, rng.permutation(len(data.y)), int(self.n_sites))
        self.classes_, self.site_of_rows_ = data.classes, site
        self.estimators_, linear, seconds = [], [], []
        for number in np.unique(site):
            began = time.perf_counter()
            model, parts = self._trained(data, np.flatnonzero(site == number), rng)
            seconds.append(time.perf_counter() - began)
            self.estimators_.append(model)
            linear.append(parts)
        self.site_seconds_ = np.array(seconds)
        for name in ("coef_", "intercept_"):
            self.__dict__.pop(name, None)
        if self.combine == "average":
            self._average(linear)
        return self

    def _trained(
        self, data: TrainingData, rows: NDArray[np.intp], rng: np.random.RandomState
    ) -> tuple[Any, tuple[Floats, Floats] | None]:
        """Return the model of a site, and its coefficients and intercepts if it is linear."""
        X, codes = data.X[rows], data.y[rows]
        if (codes == codes[0]).all():
            return _Constant(data.classes[codes[0]]), None
        model = clone(LinearSVC() if self.estimator is None else self.estimator)
        names = [name for name in sorted(model.get_params()) if name.split("__")[-1] == "random_state"]
        model.set_params(**{name: rng.randint(2**31 - 1) for name in names})
        model.fit(X, data.classes[codes])
        return model, _linear_parts(model, X[:_CHECKED])

    def _average(self, linear: list[tuple[Floats, Floats] | None]) -> None:
        """Set the mean of the coefficients if all models are linear, or check that there is something else to average.

        Constants are linear, and have no part in the choice, unless there is nothing else.
        """
        pairs = list(zip(self.estimators_, linear, strict=True))
        trained = [(model, parts) for model, parts in pairs if not isinstance(model, _Constant)]
        if all(parts is not None for _, parts in trained):
            n_features, codes = self.n_features_in_, self._codes
            spread = [self._spread(codes(model), parts, n_features) for model, parts in pairs]
            self.coef_, self.intercept_ = (np.mean(values, axis=0) for values in zip(*spread, strict=True))
        for model, _ in trained:
            if not (hasattr(model, "predict_proba") or hasattr(model, "decision_function")):
                raise ValueError(
                    f"combine='average' needs coefficients, predict_proba or decision_function, which "
                    f"{type(model).__name__} has not; use combine='vote'"
                )

    def _codes(self, model: Any) -> NDArray[np.intp]:
        """Return the indices in `classes_` of the classes that a site has seen."""
        return np.asarray(np.searchsorted(self.classes_, model.classes_))

    def _spread(
        self, codes: NDArray[np.intp], parts: tuple[Floats, Floats] | None, n_features: int
    ) -> tuple[Floats, Floats]:
        """Return coefficients and intercepts of a site with outputs for all classes."""
        coefficients, intercepts = np.zeros((len(self.classes_), n_features)), np.full(len(self.classes_), -1.0)
        if parts is None:
            intercepts[codes] = 1.0
        elif len(codes) == 2:
            coefficients[codes] = np.concatenate([-parts[0], parts[0]])
            intercepts[codes] = np.concatenate([-parts[1], parts[1]])
        else:
            coefficients[codes], intercepts[codes] = parts
        return (coefficients[1:], intercepts[1:]) if len(self.classes_) == 2 else (coefficients, intercepts)

    def decision_function(self, X: Any) -> Floats:
        """Return what the sites say of rows together.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
            Decision values of the mean coefficients, means of probabilities or decision values, or
            shares of the votes, of all sites or, for "none", of the first; for two classes positive
            for the second, so that of probabilities and votes it is the difference.
        """
        X = queries(self, X, order=None)
        if hasattr(self, "coef_"):
            values = np.asarray((sp.csr_array(X) if sp.issparse(X) else X) @ self.coef_.T) + self.intercept_
            return np.asarray(values[:, 0] if len(self.coef_) == 1 else values)
        said = self._values if self.combine == "average" else self._votes
        models = self.estimators_[:1] if self.combine == "none" else self.estimators_
        total = np.zeros((X.shape[0], len(self.classes_)))
        for model in models:
            total += said(model, X)
        total /= len(models)
        return np.asarray(total[:, 1] - total[:, 0] if len(self.classes_) == 2 else total)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict class labels, of shape (n_samples,)."""
        values = self.decision_function(X)
        return np.asarray(self.classes_[codes_of(values)])

    def site_predictions(self, X: Any) -> NDArray[Any]:
        """Predict class labels by the model of every site, of shape (n_estimators, n_samples)."""
        X = queries(self, X, order=None)
        return np.array([model.predict(X) for model in self.estimators_])

    def _votes(self, model: Any, X: Any) -> Floats:
        return np.asarray(model.predict(X)[:, None] == self.classes_, dtype=np.float64)

    def _values(self, model: Any, X: Any) -> Floats:
        """Return probabilities, or else decision values, of all classes, of shape (n, n_classes)."""
        trained = [one for one in self.estimators_ if not isinstance(one, _Constant)]
        has_probabilities = all(hasattr(one, "predict_proba") for one in trained)
        total, codes = np.full((X.shape[0], len(self.classes_)), 0.0 if has_probabilities else -1.0), self._codes(model)
        if isinstance(model, _Constant):
            total[:, codes] = 1.0
        elif has_probabilities:
            total[:, codes] = model.predict_proba(X)
        else:
            values = np.asarray(model.decision_function(X))
            total[:, codes] = np.column_stack([-values, values]) if values.ndim == 1 else values
        return total


class _Constant:
    """Model of a site whose rows are all of one class."""

    def __init__(self, label: Any) -> None:
        self.classes_ = np.array([label])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the one label for every row."""
        return np.repeat(self.classes_, X.shape[0])


def _linear_parts(model: Any, X: Any) -> tuple[Floats, Floats] | None:
    """Return coefficients and intercepts if the model's decision values are linear in them, one against the rest."""
    coefficients = getattr(model, "coef_", None)
    if coefficients is None or not hasattr(model, "decision_function"):
        return None
    dense = np.asarray(coefficients.toarray() if sp.issparse(coefficients) else coefficients, dtype=np.float64)
    intercepts = np.ravel(getattr(model, "intercept_", 0.0)) * np.ones(len(np.atleast_2d(dense)))
    n_outputs = 1 if len(model.classes_) == 2 else len(model.classes_)
    if dense.shape != (n_outputs, X.shape[1]):
        return None
    expected = np.asarray(X @ dense.T) + intercepts
    found = np.asarray(model.decision_function(X)).reshape(X.shape[0], -1)
    is_linear = found.shape == expected.shape and np.allclose(found, expected, rtol=1e-5, atol=1e-6)
    return (dense, intercepts) if is_linear else None


def pseudo_distributed(
    estimator: Any,
    n_sites: int = 10,
    shards: str | Sequence[int] = "random",
    combine: str = "average",
    random_state: Any = None,
) -> PseudoDistributed:
    """Return a classifier that trains copies of another at sites that do not talk, and combines them.

    The parameters are those of `PseudoDistributed`.

    Examples
    --------
    >>> from dimargin_bench.kernel_rivals import SVMPerf, pseudo_distributed
    >>> pseudo_distributed(SVMPerf(), n_sites=4)
    PseudoDistributed(estimator=SVMPerf(), n_sites=4)
    """
    return PseudoDistributed(estimator, n_sites, shards, combine, random_state)
