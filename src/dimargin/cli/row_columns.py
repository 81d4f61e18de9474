"""Columns of row weights, groups and numbers to predict, which are not used as features, and their flags."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow.compute as pc
import typer
from numpy.typing import NDArray

from dimargin.estimators.margin_regressor import MAX_TARGET
from dimargin.io.data import DataFileError, DataSet
from dimargin.io.data.chunks import WEIGHT_EXPECTED, short
from dimargin.io.data.labels import missing_label
from dimargin.io.data.libsvm import check_weight
from dimargin.io.data.mixed import MixedData, place_among, read_mixed, remark_on_unlabelled
from dimargin.io.data.named_columns import WantedColumns, column_index, label_index
from dimargin.io.data.opening import DataFile
from dimargin.io.data.whole_file import column_names

WeightOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Name or position of the column of row weights, which is not used as a feature; 'label' for LIBSVM text "
        "whose lines begin with label:weight.",
        show_default="weight 1",
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
    """Columns of row weights, groups and targets in a file."""

    weight: str | None = None  # Name of the column; "label" for weights behind labels of LIBSVM text.
    group: str | None = None
    index: int | None = None  # Position of the weights' column.
    weighted: bool = False  # Whether labels of LIBSVM text have weights behind them.
    target: str | None = None  # Name of the column of labels, if these are numbers to predict and in a table.
    target_index: int | None = None
    targets: MixedData | None = None  # The content of that column.

    @classmethod
    def find(
        cls,
        file: DataFile,
        wanted: WantedColumns,
        weight: str | int | None,
        group: str | int | None = None,
        has_targets: bool = False,
    ) -> RowColumns:
        """Find the columns by the given names or positions; raises DataFileError for a missing column.

        `has_targets` says whether the labels are numbers to predict.
        """
        path = file.path
        if has_targets and file.kind != "libsvm":
            names = column_names(file, wanted)
            at: Any = label_index(path, names, wanted.label)
            found = cls.find(file, replace(wanted, label=names[at]), weight, group)
            return replace(found, target=names[at], target_index=at)
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

    def of_features(self, wanted: WantedColumns) -> WantedColumns:
        """Return the wanted columns, whose labels are not read if they are targets."""
        return wanted if self.target is None else replace(wanted, label=self.target, needs_label=False)

    def with_targets(
        self, file: DataFile, skips: bool, na: Collection[str] = (), decimal_comma: bool = False,
        thousands: str | None = None,
    ) -> RowColumns:  # fmt: skip
        """Read the targets, if there are some.

        Raises OddCellError for a target that is not a number, and DataFileError for one that is missing, unless rows
        without a target are to be left out.
        """
        if self.target is None:
            return self
        read = read_mixed(
            file, WantedColumns(columns=[self.target], needs_label=False), numbers=[self.target], na=na,
            decimal_comma=decimal_comma, thousands=thousands,
        )  # fmt: skip
        path, y = file.path, read.X.column(0).to_numpy()
        labelled, outside = ~np.isnan(y), np.flatnonzero(np.abs(y) > MAX_TARGET)
        if len(outside):
            what = f"column {short(self.target)!r} is {y[outside[0]]:g}; expected at most {MAX_TARGET:g}"
            raise DataFileError(f"{path}, {read.place(int(outside[0]))}: {what}")
        if not labelled.any():
            raise DataFileError(f"{path}: no row has a label in column {short(self.target)!r}")
        if not labelled.all():
            missing = partial(missing_label, self.target, None)
            remark = remark_on_unlabelled(path, labelled, skips, lambda k, said: f"{read.place(k)}: {missing(said)}")
            read = replace(read, labelled=labelled, remarks=(remark,))
        return replace(self, targets=replace(read, y=y[labelled]))

    @property
    def kept(self) -> NDArray[np.bool_] | None:
        """Mask of the rows of the file that have a target, if others are left out."""
        return None if self.targets is None else self.targets.labelled

    def added(
        self, rows: DataSet, file: DataFile, decimal_comma: bool = False, thousands: str | None = None
    ) -> DataSet:
        """Return rows with their weights, groups and targets; raises DataFileError for invalid ones."""
        path = file.path
        if self.targets is not None:
            label = self.target if rows.feature_names is not None else self.target_index
            rows = replace(rows, y=self.targets.y, label=label, remarks=(*rows.remarks, *self.targets.remarks))
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
