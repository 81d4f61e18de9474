"""The page: what is on it, and how it is written."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import scipy.sparse as sp
from sklearn.utils import check_consistent_length

from dimargin.display.report import words
from dimargin.display.report.content import content_of
from dimargin.display.report.data_frames import is_table, names_of_columns
from dimargin.display.report.rendering import rendered
from dimargin.system.writing import write_file
from dimargin.version import __version__

NO_PICTURE = 'The picture is left out: it needs the extra "report": pip install "dimargin[report]"'


@dataclass(frozen=True)
class Source:
    """Where a model and rows came from, as far as there are files.

    Parameters
    ----------
    model, data : str, optional
        Names of the files.
    model_size : int, optional
        Bytes of the model file.
    written_by : str, optional
        Version that wrote the model file.
    """

    model: str | None = None
    data: str | None = None
    model_size: int | None = None
    written_by: str | None = None


def write_report(
    path: str | os.PathLike[str],
    model: Any,
    X: Any,
    y: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    source: Source | None = None,
    random_state: int = 0,
) -> None:
    """Write a page of HTML about a model and how it does on rows.

    Pictures need matplotlib (extra "report"); without it a sentence stands in the place of each.

    The page is one file, which asks nothing of any other place, and is the same for the same model, rows and seed but
    for the time that predictions took. The rows of largest interest are on it with their values.

    Parameters
    ----------
    path : path-like
        An existing file is replaced. It is written whole or not at all.
    model : fitted classifier or outlier detector
        Of this package, or a pipeline or search around one. With a ``predict_proba``, such as that of scikit-learn's
        `CalibratedClassifierCV`, the page compares probabilities with frequencies.
    X : ndarray, sparse matrix, data frame of pandas or table of Arrow of shape (n_samples, n_features)
        Rows, best ones that the model was not trained on.
    y : array-like of shape (n_samples,), optional
        Labels, which a classifier's page needs; an outlier detector's page does without.
    feature_names : sequence of str of length n_features, optional
        By default those of a data frame, or "feature 1" and so on.
    source : Source, optional
        Names of the files that all this came from.
    random_state : int, default=0
        Seed of the rows that permutation importances are computed on, and of the permutations.

    Raises
    ------
    ValueError
        If a classifier has no labels to be compared with, or these are not of its classes; for no rows at all.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from sklearn.datasets import make_moons
    >>> from dimargin import ODMClassifier
    >>> from dimargin.display.report import write_report
    >>> X, y = make_moons(600, noise=0.2, random_state=0)
    >>> machine = ODMClassifier(random_state=0).fit(X[:300], y[:300])
    >>> path = Path(mkdtemp()) / "report.html"
    >>> write_report(path, machine, X[300:], y[300:])
    >>> path.read_text().count("<svg")
    5
    """
    check_consistent_length(X, y)
    if not X.shape[0]:
        raise ValueError("X has no rows, of which a report could say anything")
    X = sp.csr_array(X) if sp.issparse(X) else X
    names = _names(X, feature_names)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        content = content_of(model, X, y, names, random_state)
    page = rendered(
        "dimargin.display.report",
        source=asdict(source or Source()),
        version=__version__,
        no_picture=NO_PICTURE,
        **content,
    )
    write_file(path, page.encode("utf-8", "backslashreplace"))


@dataclass(frozen=True)
class FeatureNumbers(Sequence[str]):
    """Names of features by their numbers, made one by one: sparse rows may have billions of them."""

    width: int
    first: int = 1  # number of the first

    def __len__(self) -> int:
        return self.width

    def __getitem__(self, column: Any) -> Any:
        return f"feature {column + self.first}"


def _names(X: Any, given: Sequence[str] | None) -> Callable[[int], str]:
    """Return the function from columns to their names as the page shows them."""
    default = names_of_columns(X) if is_table(X) else FeatureNumbers(X.shape[1])
    known = default if given is None else given
    if len(known) != X.shape[1]:
        raise ValueError(f"feature_names must be {X.shape[1]} names, got {len(known)}")
    return lambda column: words.plain(known[column])
