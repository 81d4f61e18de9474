"""Data files for models that take texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator, TransformerMixin

from dimargin.cli.row_columns import RowColumns, present
from dimargin.io.data import DataFileError, DataSet
from dimargin.io.data.chunks import short
from dimargin.io.data.mixed import read_mixed
from dimargin.io.data.named_columns import WantedColumns
from dimargin.io.data.opening import DataFile
from dimargin.io.data.parquet import is_text
from dimargin.io.data.whole_file import column_names


def read_texts(
    file: DataFile,
    notes: Mapping[str, Any],
    label: str | None,
    needs_label: bool,
    weight: str | int | None,
    skip_unlabelled: bool = False,
) -> DataSet:
    """Read the column of texts; X is an array of them, of shape (n,).

    It is the one that `notes`, of a model file, name "text", else the only one with texts besides
    labels and weights. Raises DataFileError if there is no such column, or a text is missing.
    """
    noted, former = notes.get("text"), notes.get("label")
    label_column = former if label is None and needs_label else label
    wanted = WantedColumns(label_column, needs_label=needs_label, skip_unlabelled=skip_unlabelled)
    row_columns = RowColumns.find(file, wanted, weight)
    if isinstance(noted, str):
        read = read_mixed(file, replace(wanted, columns=[noted]), texts=[noted])
    else:  # Notes of earlier versions may have had another meaning.
        others = [*row_columns.names, notes.get("weight"), *([] if needs_label else [former])]
        names = column_names(file, wanted)
        read = read_mixed(file, replace(wanted, drop=[name for name in names if name in others and name != label]))
    found = [name for name in read.X.column_names if is_text(read.X.column(name).type)]
    if len(found) != 1:
        listed = f" ({', '.join(short(repr(name)) for name in found)})" if found else ""
        raise DataFileError(
            f"{file.path} has {len(found) or 'no'} columns of texts{listed} besides the label; the model takes one: "
            "leave the others out of the file, or save the model with notes={'text': NAME_OF_COLUMN}"
        )
    present(file.path, read, found[0], "text")
    texts = np.array(read.written.column(found[0]).to_pylist(), dtype=object)
    rows = DataSet(texts, read.y, found, read.label, remarks=read.remarks, labelled=read.labelled)
    return row_columns.added(rows, file) if needs_label else rows


class TextColumn(TransformerMixin, BaseEstimator):
    """Turn a table of one column into its texts, so that a report can show the texts as a column."""

    n_features_in_ = 1

    def transform(self, X: pa.Table) -> list[str]:
        """Return the texts of a table."""
        return list(X.column(0).to_pylist())
