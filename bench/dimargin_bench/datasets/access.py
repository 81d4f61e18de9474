"""Use of data sets that are on this computer."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from dimargin.io.data import read_data
from dimargin_bench.datasets.catalogue import CATALOGUE, entry_of
from dimargin_bench.datasets.places import Paths, found_or_missing
from dimargin_bench.datasets.records import check


class DataRows(NamedTuple):
    """The rows of a data set.

    Attributes
    ----------
    X : ndarray or CSR array of shape (n_samples, n_features)
        Features as they are in the file, in float64; sparse where less than half of the numbers are
        not zero.
    y : ndarray of shape (n_samples,)
        Labels as they are in the file.
    X_test, y_test : as X and y, or None
        Those of the test file, if the data set has one.
    """

    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any] | None


def available() -> tuple[str, ...]:
    """Return the names of all data sets of the catalogue, whether they are on this computer or not.

    Examples
    --------
    >>> from dimargin_bench.datasets import available
    >>> available()[:3]
    ('ijcnn1', 'covtype.libsvm.binary', 'webspam')
    """
    return tuple(CATALOGUE)


def path(name: str) -> Paths:
    r"""Return the files of a data set on this computer: of the folder DIMARGIN_DATA first, and then of the cache.

    The cache is the folder that the environment variable DIMARGIN_CACHE names, by default
    ``~/.cache/dimargin`` or, on macOS, ``~/Library/Caches/dimargin``. Files in the cache are
    compared with the checksum that is known or was recorded when they were fetched; those in
    DIMARGIN_DATA are their owner's. A copy may be compressed (``.bz2``, ``.xz``, ``.gz``) or not,
    whatever the public file is.

    Parameters
    ----------
    name : str
        A name of `available`.

    Returns
    -------
    Paths
        A tuple: `train`, the file with the training rows, or with all, and `test`, the other one or
        None.

    Raises
    ------
    ValueError
        If no data set has this name.
    FileNotFoundError
        If a file is missing; the message says from where it can be fetched and where to put it.
    ChangedFileError
        If a file in the cache is not what it was.

    See Also
    --------
    fetch : Fetches what is missing.

    Examples
    --------
    >>> import os
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from unittest.mock import patch
    >>> from dimargin_bench.datasets import path
    >>> folder = mkdtemp()
    >>> _ = Path(folder, "skin_nonskin").write_text("+1 1:74 2:85 3:123\n-1 1:207 2:215 3:255\n")
    >>> with patch.dict(os.environ, DIMARGIN_DATA=folder):
    ...     path("skin_nonskin").train.name
    'skin_nonskin'
    """
    files = found_or_missing(entry_of(name))
    for file, found in files:
        check(file, found)
    paths = [found.path for _, found in files]
    return Paths(paths[0], paths[1] if len(paths) > 1 else None)


def load(name: str) -> DataRows:
    r"""Read a data set that is on this computer.

    Parameters
    ----------
    name : str
        A name of `available`.

    Returns
    -------
    DataRows
        A tuple: `X`, `y`, `X_test` and `y_test`, the latter two None where the data set has no test
        file. Training and test rows have as many features as the catalogue says, in float64, and
        are sparse where less than half of the numbers are not zero; nothing is scaled. Labels are
        those of the file.

    Raises
    ------
    ValueError, FileNotFoundError, ChangedFileError
        As `path` does.
    DataFileError
        If a file is not LIBSVM text, or has features beyond those of the catalogue.

    Examples
    --------
    >>> import os
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from unittest.mock import patch
    >>> from dimargin_bench.datasets import load
    >>> folder = mkdtemp()
    >>> _ = Path(folder, "skin_nonskin").write_text("+1 1:74 2:85 3:123\n-1 1:207 2:215 3:255\n")
    >>> with patch.dict(os.environ, DIMARGIN_DATA=folder):
    ...     X, y, X_test, y_test = load("skin_nonskin")
    >>> X.shape, y.tolist(), X_test is None
    ((2, 3), [1, -1], True)
    """
    paths, features = path(name), entry_of(name).features
    train = read_data(paths.train, n_features=features)
    assert train.y is not None  # every line of LIBSVM text has its label
    if paths.test is None:
        return DataRows(train.X, train.y, None, None)
    test = read_data(paths.test, n_features=features, zero_based=train.zero_based)
    return DataRows(train.X, train.y, test.X, test.y)
