"""Data files: LIBSVM text, CSV and Parquet, read chunk by chunk.

Each format has an iterator over chunks of about a megabyte, from a library's reader; `Chunks` joins
them and frees each chunk as soon as it is copied, so that a file is never in memory twice.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from dimargin.io.data.chunks import DataFileError, DataSet
from dimargin.io.data.csv_text import csv_names, read_csv
from dimargin.io.data.libsvm import read_libsvm
from dimargin.io.data.named_columns import WantedColumns, arrow_explained
from dimargin.io.data.opening import KINDS, DataFile, FileOptions, explained, regular
from dimargin.io.data.row_numbers import remarks_on_row_numbers


def read_data(
    path: str | os.PathLike[str],
    label: str | int | None = None,
    columns: Sequence[str] | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    needs_label: bool = True,
    drop: Sequence[str] = (),
    format: Literal["csv", "libsvm", "parquet"] | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    weighted: bool = False,
    quotes: bool | None = None,
    on_disk: str | os.PathLike[str] | None = None,
) -> DataSet:
    r"""Read a data file.

    The content determines the format. Columns of CSV are separated by commas, semicolons, tabs,
    bars or blanks. LIBSVM text and CSV may be compressed (gzip, bzip2, xz), and a pipe can be read
    as well as a file.

    Parameters
    ----------
    path : path-like
    label : str or int, optional
        Name or position of the label column of CSV and Parquet, counted from 0, or from the end if
        negative. By default the column named "label", "target", "class" or "y". LIBSVM text has its
        labels first.
    columns : sequence of str, optional
        Names of the feature columns to read, in this order. By default all but the label, the index
        of the rows that pandas may have written, and columns with neither a name nor values.
    n_features : int, optional
        Width that X must have. LIBSVM text, which omits zeros, is widened to it.
    zero_based : bool, optional
        Whether LIBSVM text counts features from zero. By default it does if a feature 0 occurs.
    needs_label : bool, default=True
        Whether labels are read. If not, the file need not have any, and a label column may hold
        anything; it is not a feature.
    drop : sequence of str, optional
        Names of columns of CSV and Parquet to leave out, by default none.
    format : {"csv", "libsvm", "parquet"}, optional
        Format of the file; by default determined by its content and name.
    header : bool, optional
        Whether the first line of CSV has the column names. By default it is compared with the lines
        below.
    encoding : str, optional
        Encoding of text, such as "cp1252". By default UTF-8, or UTF-16 with a byte order mark.
    weighted : bool, default=False
        Whether the labels of LIBSVM text are followed by weights of the rows: ``1:0.5 3:2`` has the
        weight 0.5.
    quotes : bool, optional
        Whether a quote at the beginning of a cell of CSV opens a text, which may contain separators
        and line breaks, or is a letter. By default it opens a text, and a text that seems to
        contain rows is refused.
    on_disk : path-like, optional
        Folder for the rows, on a disk that has room for them twice while they are read. X then has
        arrays in a file on this disk, which the system reads as they are used and removes with them,
        so that there may be more rows than memory. Labels stay in memory.

    Returns
    -------
    DataSet

    Warns
    -----
    DataFileWarning
        For columns that are left out by default, features that number the rows, and doubtful
        labels.

    Raises
    ------
    DataFileError
        For a file that is empty, damaged or malformed, lacks the label column, has text among
        numbers, rows of different widths, missing, infinite or NaN values, or another width than
        `n_features`, and for a first line that may hold names or values.
    ValueError
        For an unknown format or encoding.
    OSError
        If the file cannot be opened, or the disk has no room for its rows.

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
    options, wanted = (
        FileOptions(format, header, encoding, quotes, on_disk),
        WantedColumns(label, columns, needs_label, drop),
    )
    with regular(path) as path:
        data = read_file(DataFile(path, options), wanted, n_features, zero_based, weighted)
    for remark in data.remarks:
        warnings.warn(remark, DataFileWarning, stacklevel=2)
    return data


class DataFileWarning(UserWarning):
    """Warning about a suspicious part of a data file that can be read."""


def read_file(
    file: DataFile,
    wanted: WantedColumns = WantedColumns(),  # noqa: B008 (frozen)
    n_features: int | None = None,
    zero_based: bool | None = None,
    weighted: bool = False,
) -> DataSet:
    """Read a data file like `read_data`, but return warnings in the result."""
    path = file.path
    with explained(path):
        file.check(wanted)
        if weighted and file.kind != "libsvm":
            raise DataFileError(f"{path} is {KINDS[file.kind]}; expected LIBSVM text, whose labels may have weights")
        if file.kind == "libsvm":
            data = read_libsvm(file, wanted.needs_label, n_features, zero_based, weighted)
        elif file.kind == "csv":
            with arrow_explained(path):
                data = read_csv(file, wanted)
        else:
            from dimargin.io.data.parquet import read_parquet  # This import loads pyarrow.

            with arrow_explained(path), file.opened():  # Opening it refuses other kinds of files.
                data = read_parquet(path, wanted, file.options.on_disk)
        check_width(path, data.X.shape[1], n_features)
        if wanted.columns is None and n_features is None:
            data = replace(data, remarks=(*data.remarks, *remarks_on_row_numbers(path, data)))
        return data


def column_names(file: DataFile, wanted: WantedColumns) -> list[str]:
    """Return the column names, none of LIBSVM text; the names in `wanted` help to recognise those of CSV."""
    if file.kind == "libsvm":
        return []
    with explained(file.path), arrow_explained(file.path):
        if file.kind == "csv":
            return csv_names(file, wanted)
        from dimargin.io.data.parquet import names_in

        return names_in(file.path)


def check_width(path: Path, width: int, n_features: int | None) -> None:
    """Raise DataFileError for rows without features, or with another number than expected."""
    if not width:
        raise DataFileError(f"{path} has no features")
    if n_features is not None and width != n_features:
        raise DataFileError(f"{path}: {width} feature columns, expected {n_features}")
