"""The function that writes an HTML report."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length

from dimargin.display.report import words
from dimargin.display.report.content import content_of
from dimargin.display.report.data_frames import is_table, names_of_columns
from dimargin.display.report.rendering import rendered
from dimargin.system.arrays import Indices
from dimargin.system.writing import write_file
from dimargin.version import __version__

NO_PICTURE = 'The picture is left out because matplotlib is missing: pip install "dimargin[report]"'


@dataclass(frozen=True)
class Source:
    """The files that a model and its rows were read from.

    Parameters
    ----------
    model, data : str, optional
        File names.
    model_size : int, optional
        Size of the model file in bytes.
    written_by : str, optional
        Version that wrote the model file.
    labelled : ndarray of bool of shape (n_rows_of_the_file,), optional
        Which rows of the data file have a label, if the others were left out. By default, no row
        was left out.
    """

    model: str | None = None
    data: str | None = None
    model_size: int | None = None
    written_by: str | None = None
    labelled: NDArray[np.bool_] | None = None

    def row_numbers(self, n_rows: int) -> Indices:
        """Return the numbers from 1 in the file of `n_rows` rows; raises ValueError if `labelled` keeps others."""
        if self.labelled is None:
            return np.arange(1, n_rows + 1)
        numbers = np.flatnonzero(self.labelled) + 1
        if len(numbers) != n_rows:
            raise ValueError(f"source.labelled must be true for each of the {n_rows} rows of X, got {len(numbers)}")
        return numbers


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
    """Write an HTML report about a model and its predictions on rows.

    Plots need matplotlib (extra "report"); without it, a sentence replaces each of them.

    The page is one file that loads nothing from elsewhere. The same model, rows and seed give the
    same page, except for the measured prediction time. It shows the values of some rows, such as
    the least certain ones.

    Parameters
    ----------
    path : path-like
        An existing file is replaced. After an error, it is unchanged.
    model : fitted classifier, regressor or outlier detector
        An estimator of this package, or a pipeline or search around one. If it has a
        ``predict_proba``, as scikit-learn's `CalibratedClassifierCV` does, the page compares
        probabilities with observed frequencies.
    X : ndarray, sparse matrix, data frame of pandas or table of Arrow of shape (n_samples, n_features)
        Rows to predict, preferably rows that the model was not trained on.
    y : array-like of shape (n_samples,), optional
        Labels, or numbers for a regressor, which need them; an outlier detector ignores them.
    feature_names : sequence of str of length n_features, optional
        By default the column names of a data frame, else "feature 1" and so on.
    source : Source, optional
        The files that model and rows were read from, and which rows of the file these are.
    random_state : int, default=0
        Seed for permutation importances: it selects their rows and the permutations.

    Raises
    ------
    ValueError
        If `X` has no rows, `y` is missing or has unknown labels or no numbers, or
        ``source.labelled`` is not true for as many rows as `X` has.
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
        raise ValueError("X has no rows; a report needs at least one")
    X = sp.csr_array(X) if sp.issparse(X) else X
    names, source = _names(X, feature_names), source or Source()
    numbers = source.row_numbers(X.shape[0])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        warnings.filterwarnings("ignore", message=r"in \d+ of \d+ rows, column")  # The page has a line about them.
        content = content_of(model, X, y, names, random_state, numbers)
    page = rendered(
        "dimargin.display.report",
        source=source,
        n_unlabelled=0 if source.labelled is None else len(source.labelled) - len(numbers),
        version=__version__,
        no_picture=NO_PICTURE,
        **content,
    )
    write_file(path, page.encode("utf-8", "backslashreplace"))


@dataclass(frozen=True)
class FeatureNumbers(Sequence[str]):
    """Numbered feature names, created on access because there may be billions of them."""

    width: int
    first: int = 1

    def __len__(self) -> int:
        return self.width

    def __getitem__(self, column: Any) -> Any:
        return f"feature {column + self.first}"


def _names(X: Any, given: Sequence[str] | None) -> Callable[[int], str]:
    """Return a function from a column index to the name that the page shows."""
    default = names_of_columns(X) if is_table(X) else FeatureNumbers(X.shape[1])
    known = default if given is None else given
    if len(known) != X.shape[1]:
        raise ValueError(f"feature_names must be {X.shape[1]} names, got {len(known)}")
    return lambda column: words.plain(known[column])
