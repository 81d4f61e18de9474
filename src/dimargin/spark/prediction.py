"""Predictions as columns of a DataFrame."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.ml.functions import array_to_vector
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dimargin.problems.one_vs_rest import codes_of
from dimargin.spark.arrow import features_of, in_batch, lists_of, names_by
from dimargin.spark.columns import FEATURES, ID, Columns, quoted
from dimargin.spark.engine.jobs import check_local_python
from dimargin.spark.shipping import Parcel, arrived
from dimargin.system.arrays import Floats

_ROWS, _ANSWERS = "dimargin_rows", "dimargin_answers"  # Names of temporary columns.


def with_predictions(
    dataset: DataFrame, columns: Columns, parcel: Parcel, classes: Floats, raw: str, prediction: str
) -> DataFrame:
    """Add predictions of the model in a parcel to a dataset, streaming or not.

    The caller has checked the columns. Errors name a row by its key, if it has one. `raw` and
    `prediction` are the names of the new columns; one with an empty name is left out.

    Raises
    ------
    ValueError
        If the dataset already has a column of one of these names.
    RuntimeError
        If Spark would run its tasks by a Python of this computer that has not this environment.
    """
    for param, name in (("rawPredictionCol", raw), ("predictionCol", prediction)):
        if name in dataset.columns:
            raise ValueError(f"{param} is {name!r}, already a column of the dataset; drop it, or choose another name")
    if not raw and not prediction:
        warnings.warn("rawPredictionCol and predictionCol are empty: transform adds nothing", stacklevel=4)
        return dataset
    answers, chosen = quoted(_ANSWERS), []
    if raw:
        size = {"ml_attr": {"num_attrs": len(classes)}}
        chosen.append(array_to_vector(answers.getField("raw")).alias(raw, metadata=size))
    if prediction:
        nominal = np.array_equal(classes, np.arange(len(classes)))
        kind = {"ml_attr": {"type": "nominal", "num_vals": len(classes)}} if nominal else {}
        chosen.append(answers.getField("prediction").alias(prediction, metadata=kind))
    # A struct that is used twice (and sent once) stays a separate projection. Otherwise Arrow
    # functions may read the columnar batches of a file directly, as in Spark 4.3, and then they
    # refuse vectors in any column.
    check_local_python(dataset.sparkSession)
    rows = F.struct(columns.features_in(dataset.schema).alias(FEATURES), *columns.id_in(dataset.schema))
    asked = dataset.select("*", rows.alias(_ROWS))
    answered = asked.select("*", _predictor(parcel, columns)(_ROWS, _ROWS).alias(_ANSWERS))
    return answered.select("*", *chosen).drop(_ROWS, _ANSWERS)


def raw_predictions(values: Floats) -> Floats:
    """Return decision values of shape (n, n_classes); those of two classes are opposite."""
    return np.column_stack([-values, values]) if values.ndim == 1 else values


def _predictor(parcel: Parcel, columns: Columns) -> Any:
    def answer(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        machine = arrived(parcel)
        for batch, _ in batches:
            name = in_batch if columns.id is None else names_by(batch.field(ID))
            yield _answers(machine, features_of(batch.field(FEATURES), columns, name=name))

    return F.arrow_udf(answer, "struct<raw: array<double>, prediction: double>")


def _answers(machine: Any, X: Any) -> pa.Array:
    values = machine.decision_function(X) if X.shape[0] else np.zeros(0)
    raw, predicted = raw_predictions(values), machine.classes_[codes_of(values)].astype(np.float64)
    lists = lists_of(np.arange(0, raw.size + 1, raw.shape[1]), raw.ravel())
    return pa.StructArray.from_arrays([lists, pa.array(predicted)], ["raw", "prediction"])
