"""SVMClassifierCV, the support vector machine with parameters chosen by cross-validation."""

from __future__ import annotations

from dimargin.estimators import MarginClassifier, SVMClassifier
from dimargin.estimators.docstrings import documented
from dimargin.estimators.search.machine_search import MachineSearch


@documented
class SVMClassifierCV(MachineSearch):
    """Support vector machine with parameters chosen by cross-validation and successive halving.

    The search is that of `ODMClassifierCV`: all candidates are scored on few rows, the best third
    of them on three times as many, and so on; the best one is trained on all rows.

    Parameters
    ----------
    estimator : SVMClassifier, ODMClassifier, LinearODMClassifier or LinearSVMClassifier, default=None
        Classifier to tune, which defines all parameters that are not in the grid. None is
        ``SVMClassifier(loss="squared_hinge")``. More than two classes are separated as its
        `multi_class` says.
    param_grid : dict or list of dict, default=None
        Values to try, in all combinations of a dict as in scikit-learn's GridSearchCV, for
        parameters of the estimator among ``C``, ``gamma`` (numbers, "scale" or "auto"), ``loss``,
        ``fit_intercept``, ``class_weight``, ``kernel``, ``degree`` and ``coef0``. None is C from
        0.1 to 1000, and gamma from a quarter of "scale" to 64 times "scale".
    %(cv, factor, finalists, min_rows, search_tol, scoring, max_time, max_widenings, n_jobs)s
    random_state : int, RandomState or None, default=None
    %(verbose)s

    Attributes
    ----------
    %(best_estimator_)s
    best_params_ : dict
    %(best_score_, best_index_, edges_, cv_results_, rounds_)s
    search_seconds_, refit_seconds_ : float
    n_splits_ : int
    classes_, n_features_in_, feature_names_in_, coef_, history_, duality_gap_, ...
        Attributes of `best_estimator_`.

    See Also
    --------
    TuningDisplay : Plot of the candidates.

    Examples
    --------
    >>> from dimargin import SVMClassifierCV
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> tuned = SVMClassifierCV(random_state=0).fit(X[:800], y[:800])
    >>> sorted(tuned.best_params_), tuned.best_score_ > 0.95, tuned.score(X[800:], y[800:]) > 0.95
    (['C', 'gamma'], True, True)
    """

    def _default_machine(self) -> MarginClassifier:
        return SVMClassifier(loss="squared_hinge")
