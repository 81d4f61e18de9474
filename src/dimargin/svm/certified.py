"""Certificates of the classes of `dimargin.svm`, and the problems that have none."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from dimargin.estimators.input_checks import check_flag
from dimargin.system.progress_lines import LOGGER

CERTIFICATE = ("objective_", "dual_objective_", "duality_gap_", "certificate_", "status_", "history_")
"""Attributes of our machines that the classes have besides those of scikit-learn."""

MORE_PARAMETERS: dict[str, Any] = dict.fromkeys(("max_time", "n_jobs", "allow_uncertified"), "no_validation")
"""Parameters that scikit-learn's classes do not have; our machines check them."""


ALLOW = "DIMARGIN_ALLOW_UNCERTIFIED"
"""Environment variable, which workers inherit: problems without a certificate are solved if it is 1."""


def check_uncertified(estimator: Any, reason: str) -> None:
    """Raise ValueError for what would have no certificate, unless that is allowed; else log who solves it."""
    allowed, name = estimator.allow_uncertified, type(estimator).__name__
    if allowed is not None:
        check_flag("allow_uncertified", allowed)
    if not (os.environ.get(ALLOW) == "1" if allowed is None else allowed):
        raise ValueError(
            f"{reason}, so {name} could give no certificate. With allow_uncertified=True, scikit-learn's own {name} "
            "solves it without one"
        )
    for attribute in CERTIFICATE:  # of an earlier fit
        vars(estimator).pop(attribute, None)
    LOGGER.info("%s: %s; scikit-learn's own %s solves it, without a certificate", name, reason, name)


@contextmanager
def warnings_named(name: str, inner: str) -> Iterator[None]:
    """Let warnings of convergence in the block name the class that the user knows, and the line that called it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        yield
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in (
        "contextlib",
        "dimargin",
        "sklearn",
    ):
        frame, level = frame.f_back, level + 1
    for one in caught:
        warnings.warn(str(one.message).replace(inner, name, 1), one.category, stacklevel=level)
