"""Values that model files store by name: functions, types of arrays, splitters, and distributions of parameters.

A name in a file is looked up in a fixed list and in what `register_function` has added; nothing is
imported by a name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from inspect import signature
from typing import Any

import numpy as np
import scipy.special
import scipy.stats
from sklearn import feature_selection, model_selection
from sklearn.base import BaseEstimator

SCORE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"sklearn.feature_selection.{name}": getattr(feature_selection, name)
    for name in ("chi2", "f_classif", "f_regression", "mutual_info_classif", "mutual_info_regression", "r_regression")
}
"""Functions that SelectKBest and SelectPercentile rank columns by, by name."""


def _elementwise() -> dict[str, Callable[..., Any]]:
    """Return the ufuncs of numpy and scipy.special that map a float to a float."""
    return {
        f"{module.__name__}.{ufunc.__name__}": ufunc
        for module in (np, scipy.special)
        for ufunc in vars(module).values()
        if isinstance(ufunc, np.ufunc) and "d->d" in ufunc.types
    }


ELEMENTWISE = _elementwise()
"""Functions of a float, by name."""
_registered: dict[str, Callable[..., Any]] = {}
_ARRAY_TYPES = {np.dtype(kind).name: kind for kind in (np.float32, np.float64, np.int32, np.int64)}
_SPLITTER_CLASSES = {
    name: getattr(model_selection, name)
    for name in (
        "KFold", "StratifiedKFold", "GroupKFold", "StratifiedGroupKFold", "RepeatedKFold", "RepeatedStratifiedKFold",
        "ShuffleSplit", "StratifiedShuffleSplit", "GroupShuffleSplit", "LeaveOneOut", "LeaveOneGroupOut",
        "TimeSeriesSplit", "PredefinedSplit",
    )
}  # fmt: skip
_DISTRIBUTIONS = {
    name: getattr(scipy.stats, name)
    for name in ("uniform", "loguniform", "reciprocal", "randint", "norm", "lognorm", "expon", "gamma", "beta")
}


def register_function(function: Callable[..., Any], name: str | None = None) -> None:
    """Allow model files to name a function of your own, for scikit-learn's FunctionTransformer and feature selection.

    A file holds only the name. The process that loads the file must have registered a function with
    this name, or have a distribution installed that does so by an entry point
    (docs/interoperability.md). Predictions call it with rows from anybody.

    Parameters
    ----------
    function : callable
    name : str, default=None
        Name in files. None is the function's module and qualified name.

    Raises
    ------
    ValueError
        For the name of a function that files may name anyway, or a lambda without a name.

    Examples
    --------
    >>> import dimargin, numpy as np
    >>> from dimargin.io.models import register_function
    >>> from pathlib import Path
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from tempfile import mkdtemp
    >>> def with_squares(X):
    ...     return np.hstack([X, X**2])
    >>> register_function(with_squares, "shop.with_squares")
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = make_pipeline(FunctionTransformer(with_squares), dimargin.SVMClassifier()).fit(X, y)
    >>> path = Path(mkdtemp()) / "moons.dimargin"
    >>> dimargin.save(model, path)
    >>> bool((dimargin.load(path).predict(X) == model.predict(X)).all())
    True
    """
    if not callable(function):
        raise ValueError(f"function must be callable, got {function!r}")
    name = name or f"{function.__module__}.{function.__qualname__}"
    if "<" in name:
        raise ValueError(f"{name} has no name of its own; pass one")
    if name in ELEMENTWISE | SCORE_FUNCTIONS:
        raise ValueError(f"{name} needs no registration; a function of your own needs another name")
    _registered[name] = function


def _functions() -> dict[str, Callable[..., Any]]:
    return ELEMENTWISE | SCORE_FUNCTIONS | _registered


@cache
def load_registrations() -> None:
    """Run what installed distributions registered: functions of the entry points "dimargin.registrations"."""
    for entry in entry_points(group="dimargin.registrations"):
        entry.load()()


def encode_named(value: Any, where: str) -> dict[str, Any] | None:
    """Return JSON for a value that is stored by name, or None for another kind of value.

    Raises TypeError for a function or type that model files cannot name.
    """
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, (np.generic, int, float))):
        name = np.dtype(value).name
        if name not in _ARRAY_TYPES:
            raise TypeError(
                f"{where} cannot be stored in a model file: {value!r} is not one of {', '.join(_ARRAY_TYPES)}"
            )
        return {"dtype": name}
    if _SPLITTER_CLASSES.get(type(value).__name__) is type(value):
        own, repeated = vars(value), vars(value).get("cvargs", {})
        parameters = {name: own.get(name, repeated.get(name)) for name in signature(type(value)).parameters}
        return {"splitter": type(value).__name__, "parameters": parameters}
    dist: Any = getattr(value, "dist", None)
    name = getattr(dist, "name", "")
    if name in _DISTRIBUTIONS and type(_DISTRIBUTIONS[name]) is type(dist):
        return {"distribution": name, "parameters": {"args": value.args, "kwds": value.kwds}}
    if not callable(value) or isinstance(value, BaseEstimator):
        return None
    for name, function in _functions().items():
        if function is value:
            return {"function": name}
    raise TypeError(
        f"{where} cannot be stored in a model file: {value!r} is not one of the functions that files name: ufuncs of "
        "numpy and scipy.special of one number, scikit-learn's score functions for the selection of features, and "
        "those that you registered by dimargin.io.models.register_function"
    )


def function_named(name: str) -> Callable[..., Any]:
    """Return the function with a name in a file; raises ValueError for an unknown name."""
    if name not in _functions():
        load_registrations()
    if name not in _functions():
        raise ValueError(
            f"{name!r} is not a function that model files may name; register it by dimargin.io.models.register_function"
        )
    return _functions()[name]


def dtype_named(name: str) -> type[Any]:
    """Return the type of arrays with a name in a file; raises KeyError for an unknown name."""
    return _ARRAY_TYPES[name]


def distribution_named(name: str, args: tuple[Any, ...], kwds: dict[str, Any]) -> Any:
    """Return a distribution of scipy.stats; raises KeyError, TypeError or ValueError for an invalid one."""
    if not all(isinstance(value, (int, float)) for value in (*args, *kwds.values())):
        raise ValueError(f"a distribution {name!r} has parameters that are not numbers")
    return _DISTRIBUTIONS[name](*args, **kwds)


def splitter_named(name: str, parameters: dict[str, Any]) -> Any:
    """Return a splitter; raises KeyError, TypeError or ValueError for an unknown name or invalid parameters."""
    return _SPLITTER_CLASSES[name](**parameters)
