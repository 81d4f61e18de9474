"""Data files: LIBSVM text, CSV and Parquet, read chunk by chunk.

Each format is an iterator over chunks of a megabyte or so, made by a library's reader; `Chunks` joins them and
frees each chunk as soon as it is copied, so that a file is never in memory twice.
"""

from __future__ import annotations

import errno
import gzip
import lzma
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dimargin.data_files.chunks import DataFileError, DataSet, open_data
from dimargin.data_files.csv_text import read_csv
from dimargin.data_files.libsvm import read_libsvm
from dimargin.data_files.tables import arrow_explained
from dimargin.system.memory import out_of_memory

_DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


def read_data(
    path: str | os.PathLike[str],
    label: str | int | None = None,
    columns: Sequence[str] | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    needs_label: bool = True,
    drop: Sequence[str] = (),
    weighted: bool = False,
) -> DataSet:
    r"""Read a data file.

    The format follows from the name: ``.csv``, ``.parquet`` (``.pq``), else LIBSVM text. LIBSVM text and CSV may be
    compressed (gzip, bzip2, xz), whatever the name says.

    Parameters
    ----------
    path : path-like
    label : str or int, optional
        Name or position of the label column of CSV and Parquet, counted from 0, or from the end if negative. By default
        the column named "label", "target", "class" or "y". LIBSVM text has its labels first.
    columns : sequence of str, optional
        Names of the feature columns to take, in this order; the others are left alone. By default all but the label
        (and but the row index that pandas may have written to a Parquet file).
    n_features : int, optional
        Width that X must have. LIBSVM text, which omits zeros, is widened to it.
    zero_based : bool, optional
        Whether LIBSVM text counts features from zero. By default it does if a feature 0 occurs.
    needs_label : bool, default=True
        Whether labels are read. If not, a file need not have any, and a label column may hold anything: it is left out
        of the features.
    drop : sequence of str, optional
        Names of columns of CSV and Parquet to leave out, by default none.
    weighted : bool, default=False
        Whether the labels of LIBSVM text have weights of the rows behind them: ``1:0.5 3:2`` has the weight 0.5.

    Returns
    -------
    DataSet

    Raises
    ------
    DataFileError
        For a file that is empty, damaged or malformed, has no such label column, text among numbers, rows of different
        width, missing, infinite or NaN values, or another width than `n_features`.
    OSError
        If the file cannot be opened.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "spam.csv"
    >>> _ = path.write_text("length,links,class\n120,0,ham\n80,7,spam\n")
    >>> data = read_data(path)
    >>> data.X.tolist(), data.y.tolist(), data.feature_names
    ([[120.0, 0.0], [80.0, 7.0]], ['ham', 'spam'], ['length', 'links'])
    """
    path = Path(path)
    kind = format_taking(path, label, drop)
    with open_data(path) as stream, explained(path):
        if kind == "libsvm":
            data = read_libsvm(path, stream, n_features, zero_based, needs_label, weighted)
        else:
            with arrow_explained(path):
                if kind == "csv":
                    data = read_csv(path, stream, label, columns, needs_label, drop)
                else:
                    from dimargin.data_files.parquet import read_parquet  # which loads pyarrow

                    data = read_parquet(path, label, columns, needs_label, drop)
    check_width(path, data.X.shape[1], n_features)
    return data


def format_taking(path: Path, label: str | int | None, drop: Sequence[str] = ()) -> str:
    """Return the format of a file; raises DataFileError if it has no named columns, but one was named."""
    kind = data_format(path)
    if kind == "libsvm" and label is not None:
        raise DataFileError(f"{path}: label={label!r} was given, but LIBSVM text has its labels first in every line")
    if kind == "libsvm" and drop:
        raise DataFileError(f"{path}: column {drop[0]!r} was to be left out, but columns of LIBSVM text have no names")
    return kind


def check_width(path: Path, width: int, n_features: int | None) -> None:
    """Raise DataFileError for rows without features, or with another number than expected."""
    if not width:
        raise DataFileError(f"{path} has no features")
    if n_features is not None and width != n_features:
        raise DataFileError(f"{path}: {width} feature columns, expected {n_features}")


def data_format(path: Path) -> str:
    """Return "libsvm", "csv" or "parquet", by the name of a file."""
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1] in (".gz", ".bz2", ".xz"):
        suffixes.pop()
    last = suffixes[-1] if suffixes else ""
    return {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}.get(last, "libsvm")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of readers and decompressors into DataFileError."""
    try:
        yield
    except _DAMAGED as error:
        raise DataFileError(f"{path} is damaged or cut short: {error}") from error
    except UnicodeDecodeError as error:
        raise DataFileError(f"{path}: {error}") from error
    except (MemoryError, OSError) as error:
        if isinstance(error, MemoryError) or error.errno == errno.ENOMEM:  # the latter of a mapping of pages
            raise DataFileError(f"{path}: {out_of_memory('what is in it')}") from error
        if error.errno is None:  # not the system's, but what bz2 and Parquet's reader say
            raise DataFileError(f"{path} is damaged: {error}") from error
        raise
