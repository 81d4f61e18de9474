"""Flags for the columns of row weights and groups, which are not used as features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pyarrow.compute as pc
import typer

from dimargin.io.data import DataFileError, DataSet
from dimargin.io.data.chunks import WEIGHT_EXPECTED, short
from dimargin.io.data.libsvm import check_weight
from dimargin.io.data.mixed import MixedData, place_among, read_mixed
from dimargin.io.data.named_columns import WantedColumns, column_index
from dimargin.io.data.opening import DataFile
from dimargin.io.data.whole_file import column_names

WeightOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Name or position of the column of row weights, which is not used as a feature; 'label' for LIBSVM text "
        "whose lines begin with label:weight.",
        show_default="every row has weight 1",
    ),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Name or position of the column of groups, such as patients, which is not used as a feature; all rows of "
        "a group are in the same fold.",
        show_default="every row is its own group",
    ),
]


@dataclass(frozen=True)
class RowColumns:
    """Columns of row weights and groups in a file."""

    weight: str | None = None  # Name of the column; "label" for weights behind labels of LIBSVM text.
    group: str | None = None
    index: int | None = None  # Position of the weights' column.
    weighted: bool = False  # Whether labels of LIBSVM text have weights behind them.

    @classmethod
    def find(
        cls, file: DataFile, wanted: WantedColumns, weight: str | int | None, group: str | int | None = None
    ) -> RowColumns:
        """Find the columns by the given names or positions; raises DataFileError for a missing column."""
        path = file.path
        if weight is None and group is None:
            return cls()
        if file.kind == "libsvm":
            if group is not None:
                raise DataFileError(f"{path}: --group {group}: LIBSVM text has no group columns; use CSV or Parquet")
            check_weight(path, weight)
            return cls("label", weighted=True)
        named = [*wanted.drop, *(name for name in (weight, group) if isinstance(name, str))]
        names = column_names(file, WantedColumns(wanted.label, drop=named))
        index = None if weight is None else column_index(path, names, weight, "weight")
        place = None if group is None else column_index(path, names, group, "group")
        if index is not None and index == place:
            raise DataFileError(f"{path}: column {short(names[index])!r} is named as weight and as group")
        return cls(None if index is None else names[index], None if place is None else names[place], index)

    @property
    def names(self) -> list[str]:
        """Names of the columns of a table."""
        return [] if self.weighted else [name for name in (self.weight, self.group) if name is not None]

    def added(
        self, rows: DataSet, file: DataFile, decimal_comma: bool = False, thousands: str | None = None
    ) -> DataSet:
        """Return rows with their weights and groups; raises DataFileError for invalid ones."""
        path = file.path
        weight: str | int | None = self.weight if rows.feature_names is not None else self.index
        if self.weighted:
            rows = replace(rows, weight="label")
        elif self.names:
            read = read_mixed(
                file, WantedColumns(columns=self.names, needs_label=False), numbers=[self.weight or ""],
                exact=[self.group or ""], decimal_comma=decimal_comma, thousands=thousands,
            )  # fmt: skip
            if (labelled := rows.labelled) is not None:
                read = replace(read, X=read.X.filter(labelled), place=place_among(labelled, read.place))
            groups = None if self.group is None else present(path, read, self.group, "group").to_numpy()
            weights = None
            if self.weight is not None:
                weights = present(path, read, self.weight, "weight").to_numpy()
                if (weights < 0).any():
                    row = int((weights < 0).argmax())
                    raise DataFileError(
                        f"{path}, {read.place(row)}: the weight in column {short(self.weight)!r} is {weights[row]:g}; "
                        f"{WEIGHT_EXPECTED}"
                    )
            rows = replace(rows, weights=weights, weight=weight, groups=groups)
        if rows.weights is not None and not rows.weights.any():
            raise DataFileError(f"{path}: every weight is 0; expected at least one above 0")
        return rows


def heavy(X: Any, weights: Any) -> Any:
    """Return the rows of positive weight of an array or an Arrow table; all without weights."""
    if weights is None or weights.all():
        return X
    return X.filter(weights > 0) if hasattr(X, "column_names") else X[weights > 0]


def present(path: Path, read: MixedData, name: str, what: str) -> Any:
    """Return a column; raises DataFileError if it has missing values."""
    column = read.X.column(name)
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise DataFileError(f"{path}, {read.place(row)}: the {what} in column {short(name)!r} is missing")
    return column
