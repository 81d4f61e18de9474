"""Our classes in the place of scikit-learn's, for programs that cannot be changed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import sklearn.svm

from dimargin import svm
from dimargin.svm.certified import ALLOW
from dimargin.system.progress_lines import LOGGER

SWITCH = "DIMARGIN_ACCELERATE"
"""Environment variable that leaves scikit-learn's classes in their place if it is 0."""

NAMES = ("LinearSVC", "LinearSVR", "NuSVC", "NuSVR", "OneClassSVM", "SVC", "SVR")
"""The classes, which have the same names in `sklearn.svm`."""

_originals: dict[str, Any] = {}


def patch_sklearn(names: str | Iterable[str] | None = None) -> list[str]:
    """Put the classes of `dimargin.svm` in the place of those of `sklearn.svm`.

    Call it before ``from sklearn.svm import SVC``: what was imported before keeps scikit-learn's class. Problems that
    can have no certificate, such as ``kernel="sigmoid"``, are still solved by scikit-learn's own classes, unless
    ``allow_uncertified=False`` is given. The logger "dimargin" receives a line of what was replaced.

    Parameters
    ----------
    names : str, iterable of str or None, default=None
        Names of the classes; None is all seven.

    Returns
    -------
    list of str
        The names that were replaced: none if the environment variable ``DIMARGIN_ACCELERATE`` is 0.

    Raises
    ------
    ValueError
        If a name is not one of them.

    See Also
    --------
    unpatch_sklearn : Undo it.

    Examples
    --------
    >>> import dimargin
    >>> dimargin.patch_sklearn("SVC")
    ['SVC']
    >>> import sklearn.svm
    >>> sklearn.svm.SVC.__module__
    'dimargin.svm.libsvm'
    >>> dimargin.unpatch_sklearn()
    >>> sklearn.svm.SVC.__module__
    'sklearn.svm._classes'
    """
    chosen = list(NAMES) if names is None else [names] if isinstance(names, str) else list(names)
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        raise ValueError(f"names must be among {', '.join(NAMES)}, got {', '.join(map(repr, unknown))}")
    if os.environ.get(SWITCH) == "0":
        LOGGER.info("%s=0: scikit-learn's classes stay in their place", SWITCH)
        return []
    # Our classes are subclasses of scikit-learn's, which they find when they are imported.
    ours = {name: getattr(svm, name) for name in chosen}
    for name, own in ours.items():
        _originals.setdefault(name, getattr(sklearn.svm, name))
        setattr(sklearn.svm, name, own)
    os.environ[ALLOW] = "1"
    LOGGER.info("dimargin.svm is in the place of sklearn.svm for %s", ", ".join(chosen))
    return chosen


def unpatch_sklearn() -> None:
    """Put scikit-learn's classes back in their place."""
    for name, original in _originals.items():
        setattr(sklearn.svm, name, original)
    _originals.clear()
    os.environ.pop(ALLOW, None)
