"""The steps of a model, through pipelines and searches of any nesting."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline


def flat_steps(model: Any, name: str = "machine") -> list[tuple[str, Any]]:
    """Return the steps of a prediction with their names, the last of which is the machine.

    The steps of a search are those of its best estimator; "passthrough" steps are left out.

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.pipeline import make_pipeline
    >>> from dimargin import SVMClassifier
    >>> [name for name, _ in flat_steps(make_pipeline(make_pipeline(PCA(), "passthrough"), SVMClassifier()))]
    ['pca', 'svmclassifier']
    """
    if isinstance(model, Pipeline):
        return [found for inner, step in model.steps for found in flat_steps(step, inner)]
    if hasattr(model, "best_estimator_"):
        return flat_steps(model.best_estimator_, name)
    return [] if model is None or isinstance(model, str) else [(name, model)]


def rows_for_machine(model: Any, X: Any) -> Any:
    """Return rows as the machine of a model gets them."""
    for _, step in flat_steps(model)[:-1]:
        X = step.transform(X)
    return X


def search_in(model: Any) -> Any:
    """Return the search around the machine of a model, or None without a search."""
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return model if hasattr(model, "best_estimator_") else None
