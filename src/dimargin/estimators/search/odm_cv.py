"""ODMClassifierCV, the ODM with parameters chosen by cross-validation."""

from __future__ import annotations

from dimargin.estimators import MarginClassifier, ODMClassifier
from dimargin.estimators.docstrings import documented
from dimargin.estimators.search.machine_search import MachineSearch


@documented
class ODMClassifierCV(MachineSearch):
    """Classifier with parameters chosen by cross-validation and successive halving, by default the ODM.

    All candidates are scored on few rows of a fold, the best third of them on three times as many
    rows, and so on, until the finalists are scored on `max_rows` rows of every fold. The best
    finalist is trained on all rows with the estimator's own strategy. Candidates are solved
    exactly, or in the space of landmarks if the estimator has strategy "landmark" and there are
    more than twice as many rows. Candidates with the same kernel are solved along `lam` or `C`,
    with warm starts. On a sample, the loss of a row has the same weight as in the problem of all
    rows, because the best `lam` for the mean loss grows with the number of rows.

    Parameters
    ----------
    estimator : ODMClassifier, SVMClassifier, LinearODMClassifier or LinearSVMClassifier, default=None
        Classifier to tune, which defines all parameters that are not in the grid. None is
        ``ODMClassifier(tol=0.01)``, because a smaller gap of the last fit takes up to 50% more
        time, and changed the accuracy by less than a hundredth of a percentage point on average
        (docs/defaults.md). More than two classes are separated as its `multi_class` says.
    param_grid : dict or list of dict, default=None
        Values to try, in all combinations of a dict as in scikit-learn's GridSearchCV, for
        parameters of the estimator among ``gamma`` (numbers, "scale" or "auto"), ``lam``,
        ``upsilon``, ``theta``, ``C``, ``loss``, ``fit_intercept``, ``class_weight``, ``kernel``,
        ``degree`` and ``coef0``. None is gamma from a quarter of "scale" to 64 times "scale", with
        lam from 1e4 to 1e6 and three pairs of upsilon and theta, or with C from 0.1 to 1000; for
        the linear machine, lam from 10 to 1e6 and one pair.
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
    SVMClassifierCV : The same search for the support vector machine.
    TuningDisplay : Plot of the candidates.

    Examples
    --------
    >>> from dimargin import ODMClassifierCV
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> tuned = ODMClassifierCV(random_state=0).fit(X[:800], y[:800])
    >>> sorted(tuned.best_params_), tuned.best_score_ > 0.95, tuned.score(X[800:], y[800:]) > 0.95
    (['gamma', 'lam', 'theta', 'upsilon'], True, True)
    """

    def _default_machine(self) -> MarginClassifier:
        return ODMClassifier(tol=0.01)
