"""Callbacks in scikit-learn's callback protocol (``estimator.set_callbacks``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.metrics import check_scoring
from sklearn.utils import check_consistent_length


class LevelScores:
    """Callback that scores the model of every level, as if the fit had stopped there.

    Strategy "exact" has one level, 0; "diodm", "dc" and "cascade" have the levels
    ``n_levels, ..., 1, 0``. A level above 0 is scored as the model that ``stop_level`` returns (the
    average of local machines or, with "dc", the machine of a row's cluster), but solved to the
    looser ``level_tol``.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        Rows to score on, as the classifier receives them: for a pipeline, the transformed rows.
    y : array-like of shape (n_samples,)
        True labels.
    scoring : str, callable or None, default=None
        A single score as in scikit-learn: a name, or a callable ``scorer(estimator, X, y)``. None
        is the estimator's own ``score``, which is accuracy.

    Attributes
    ----------
    scores_ : list of dict
        ``{"level": int, "score": float}`` for each level of the most recent fit, in solution order.

    Raises
    ------
    ValueError
        If X and y have different lengths; in a fit, if `scoring` is not a single score.

    See Also
    --------
    ConvergenceDisplay : Draws the scores with objective and gap.
    sklearn.callback.ScoringMonitor : Scores on the training rows.

    Notes
    -----
    Clones made by a grid search share the callback; with ``refit=True``, the most recent fit is the
    one with the best parameters. Scores of fits in other processes are lost.

    Examples
    --------
    >>> from dimargin import LevelScores, ODMClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(800, noise=0.2, random_state=0)
    >>> scores = LevelScores(X[600:], y[600:])
    >>> machine = ODMClassifier(strategy="diodm", n_levels=1, random_state=0).set_callbacks(scores)
    >>> machine = machine.fit(X[:600], y[:600])
    >>> [entry["level"] for entry in scores.scores_]
    [1, 0]
    >>> scores.scores_[-1]["score"] == machine.score(X[600:], y[600:])
    True
    """

    scores_: list[dict[str, Any]]

    def __init__(self, X: Any, y: Any, scoring: str | Callable[..., float] | None = None) -> None:
        check_consistent_length(X, y)
        self.X = X
        self.y = y
        self.scoring = scoring
        # Keys are the contexts of fits, because clones in several threads may share this callback.
        self._running: dict[Any, tuple[Callable[..., float], list[dict[str, Any]]]] = {}

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin a fit, and discard the scores of the previous one."""
        if isinstance(self.scoring, (list, tuple, set, dict)):
            raise ValueError(
                f"scoring must be None, a name or a callable that returns one number, got {self.scoring!r}"
            )
        scorer = check_scoring(estimator, self.scoring)
        self.scores_ = []
        self._running[context] = scorer, self.scores_

    def teardown(self, estimator: Any, context: Any) -> None:
        """End a fit, and keep its scores."""
        self._running.pop(context, None)

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any = None) -> None:
        """Score the model of a level, whose task id is the level's number; ignore other tasks."""
        if context.parent in self._running and fitted_estimator is not None:
            scorer, scores = self._running[context.parent]
            scores.append({"level": context.task_id, "score": float(scorer(fitted_estimator, self.X, self.y))})
