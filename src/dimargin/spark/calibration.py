"""Probabilities of classifiers on executors, by cross-validation: see `dimargin.estimators.calibration`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pyspark.ml.functions import vector_to_array
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dimargin.estimators.calibration import calibrated
from dimargin.spark.columns import Columns, quoted
from dimargin.spark.prediction import Output, with_predictions
from dimargin.spark.shipping import ship

N_FOLDS = 5
MAX_DECISION_VALUES = 2**24
"""The driver receives at most this many decision values, 128 MiB."""
_RAW_COLUMN = "dimargin_raw"  # Name of a temporary column.


def with_probabilities(
    fit: Callable[[Any, DataFrame, Columns], Any], prototype: Any, dataset: DataFrame, columns: Columns, method: str
) -> Any:
    """Train a machine by `fit`, and calibrate it on decision values of machines trained without each of five folds.

    Rows are in folds by a hash of their key, or else of their content.

    Raises
    ------
    ValueError
        Before any training if all rows of a class are in the same fold, or there are too many rows.
    """
    from dimargin.spark.training import train

    label = quoted(str(columns.label)).cast("double").alias("label")
    weight = (F.lit(1.0) if columns.weight is None else quoted(columns.weight).cast("double")).alias("weight")
    key = columns.id_in(dataset.schema) or [columns.features_in(dataset.schema), label, weight]
    fold = F.pmod(F.xxhash64(F.lit(prototype.random_state or 0), *key), F.lit(N_FOLDS)).alias("fold")
    heavy = dataset.where(weight > 0)
    counts = heavy.groupBy(label, fold).agg(F.count(F.lit(1)).alias("rows")).collect()
    classes = [row["label"] for row in counts]
    for row in counts:
        if classes.count(row["label"]) == 1:
            raise ValueError(
                f"calibration needs rows of every class in two folds or more, and column {columns.label!r} has "
                f"{row['rows']} of class {row['label']!r}, in one of {N_FOLDS}: add rows, or choose another seed"
            )
    n_values = sum(row["rows"] for row in counts) * (1 if len(set(classes)) == 2 else len(set(classes)))
    if n_values > MAX_DECISION_VALUES:
        raise ValueError(
            f"calibration collects a decision value of every row and class, at most {MAX_DECISION_VALUES}, and the "
            f"dataset has {n_values}: fit on a sample of the rows, or without calibration"
        )
    machine, parts = fit(prototype, dataset, columns), []
    for number in sorted({row["fold"] for row in counts}):
        parcel = ship(train(prototype, heavy.where(fold != number), columns), dataset.sparkSession)
        answered = with_predictions(heavy.where(fold == number), columns, parcel, [Output("", _RAW_COLUMN, "raw", {})])
        found = answered.select(vector_to_array(_RAW_COLUMN).alias("raw"), label, weight).toArrow()
        raw, labels, weights = (found[name].combine_chunks() for name in ("raw", "label", "weight"))
        own = raw.flatten().to_numpy().reshape(len(labels), -1)
        parts.append(np.column_stack([own[:, 1:] if own.shape[1] == 2 else own, labels.to_numpy(), weights.to_numpy()]))
    rows = np.concatenate(parts)
    rows = rows[np.lexsort(rows.T)]  # Sums must not depend on the order in which rows arrive.
    values, codes = rows[:, :-2], np.searchsorted(machine.classes_, rows[:, -2])
    values = values[:, 0] if values.shape[1] == 1 else values
    return calibrated(machine, values, codes, rows[:, -1], method, N_FOLDS)
