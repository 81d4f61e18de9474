"""Data files: LIBSVM text, CSV and Parquet, read chunk by chunk.

Each format has an iterator over chunks of about a megabyte, from a library's reader; `Chunks` joins
them and frees each chunk as soon as it is copied, so that a file is never in memory twice.
"""

from __future__ import annotations

import errno
import gzip
import lzma
import os
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from dimargin.io.data.chunks import DataFileError, DataSet
from dimargin.io.data.csv_text import CsvLayout, read_csv
from dimargin.io.data.libsvm import read_libsvm
from dimargin.io.data.lines import blocks_of_lines
from dimargin.io.data.named_columns import arrow_explained
from dimargin.io.data.opening import PARQUET, FileOptions, open_data, regular
from dimargin.io.data.row_numbers import remarks_on_row_numbers
from dimargin.io.data.sniffing import SAMPLE_BYTES, beginning, name_format, text_format
from dimargin.system.memory import out_of_memory

KINDS = {"csv": "CSV", "libsvm": "LIBSVM text", "parquet": "Parquet"}
IF_CSV = "; if it is CSV, add --format csv, in Python format='csv'"


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
) -> DataSet:
    r"""Read a data file.

    The content determines the format. Columns of CSV are separated by commas, semicolons, tabs,
    bars or blanks. LIBSVM text and CSV may be compressed (gzip, bzip2, xz), and a pipe can be read
    as well as a file.

    Parameters
    ----------
    path : path-like
    label : str or int, optional
        Name or position of the label column of CSV and Parquet, counted from 0, or from the end if negative. By default
        the column named "label", "target", "class" or "y". LIBSVM text has its labels first.
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
    options = FileOptions(format, header, encoding, quotes)
    data = read_file(path, label, columns, n_features, zero_based, needs_label, drop, options, weighted)
    for remark in data.remarks:
        warnings.warn(remark, DataFileWarning, stacklevel=2)
    return data


class DataFileWarning(UserWarning):
    """Warning about a suspicious part of a data file that can be read."""


def read_file(
    path: str | os.PathLike[str],
    label: str | int | None = None,
    columns: Sequence[str] | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    needs_label: bool = True,
    drop: Sequence[str] = (),
    options: FileOptions | None = None,
    weighted: bool = False,
) -> DataSet:
    """Read a data file like `read_data`, but return warnings in the result."""
    options = options or FileOptions()
    with regular(path) as path, explained(path):
        kind = format_taking(path, options, label, drop)
        if weighted and kind != "libsvm":
            raise DataFileError(f"{path} is {KINDS[kind]}; expected LIBSVM text, whose labels may have weights")
        with open_data(path, options) as stream:
            if kind == "libsvm":
                data = read_libsvm(path, stream, n_features, zero_based, needs_label, weighted)
            else:
                with arrow_explained(path):
                    if kind == "csv":
                        data = read_csv(path, stream, label, columns, needs_label, drop, options)
                    else:
                        from dimargin.io.data.parquet import read_parquet  # This import loads pyarrow.

                        data = read_parquet(path, label, columns, needs_label, drop)
        check_width(path, data.X.shape[1], n_features)
        if columns is None and n_features is None:
            data = replace(data, remarks=(*data.remarks, *remarks_on_row_numbers(path, data)))
        return data


def format_taking(
    path: Path,
    options: FileOptions,
    label: str | int | None,
    drop: Sequence[str] = (),
    start: bytes | None = None,
) -> str:
    """Return the format of a file; raises DataFileError for parameters that do not apply to it.

    `start` is the beginning of its text, which is read if it is None.
    """
    kind = data_format(path, options, start)
    if kind == "libsvm" and label is not None:
        raise DataFileError(
            f"{path}: label={label!r} was given, but LIBSVM text has its labels first in every line{IF_CSV}"
        )
    if kind == "libsvm" and drop:
        raise DataFileError(
            f"{path}: column {drop[0]!r} cannot be left out: columns of LIBSVM text have no names{IF_CSV}"
        )
    if kind != "csv" and options.header is not None:
        raise DataFileError(
            f"{path} is {KINDS[kind]}, but header={options.header} was given, which is for CSV only"
            + (IF_CSV if kind == "libsvm" else "")
        )
    if kind != "csv" and options.quotes is not None:
        raise DataFileError(f"{path} is {KINDS[kind]}, but quotes={options.quotes} was given, which is for CSV only")
    return kind


def column_names(
    path: Path, options: FileOptions, label: str | int | None = None, named: Sequence[str] = ()
) -> list[str]:
    """Return the column names of CSV or Parquet; `label` and `named` help to recognise names."""
    with explained(path), arrow_explained(path):
        if data_format(path, options) == "csv":
            return CsvLayout.of(path, options, label, None, named).names
        from dimargin.io.data.parquet import names_in

        return names_in(path)


def check_width(path: Path, width: int, n_features: int | None) -> None:
    """Raise DataFileError for rows without features, or with another number than expected."""
    if not width:
        raise DataFileError(f"{path} has no features")
    if n_features is not None and width != n_features:
        raise DataFileError(f"{path}: {width} feature columns, expected {n_features}")


def data_format(path: Path, options: FileOptions, start: bytes | None = None) -> str:
    """Return "libsvm", "csv" or "parquet", from the options or else from the content of a file.

    A file with a suffix of Parquet is read as Parquet, so that the error says what is wrong with
    it. `start` is the beginning of its text, which is read if it is None.
    """
    has_columns = options.header is not None
    if start is not None:
        return options.format or text_format(path, start, has_columns)
    if options.format is not None or name_format(path) == "parquet":
        return options.format or "parquet"
    with explained(path):
        with open(path, "rb") as raw:
            if raw.read(len(PARQUET)) == PARQUET:
                return "parquet"
        with open_data(path, options) as stream:
            start, _ = beginning(blocks_of_lines(stream, path, SAMPLE_BYTES, b"\r\n"))
    return text_format(path, start, has_columns)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of readers and decompressors into DataFileError."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise DataFileError(f"{path} is damaged or truncated: {error}") from error
    except UnicodeError as error:
        raise DataFileError(f"{path}: {error}; --encoding, in Python encoding=, names the encoding") from error
    except (MemoryError, OSError) as error:
        if isinstance(error, MemoryError) or error.errno == errno.ENOMEM:  # Mapping pages fails with ENOMEM.
            raise DataFileError(f"{path}: {out_of_memory('its content')}") from error
        if error.errno is None:  # The error is from bz2 or Parquet's reader, not from the system.
            raise DataFileError(f"{path} is damaged: {error}") from error
        raise
