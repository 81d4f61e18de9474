"""Predictions as columns of a DataFrame."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.ml.functions import array_to_vector
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dimargin.estimators.calibration import probabilities_of
from dimargin.estimators.margin_classifier import MarginClassifier
from dimargin.estimators.margin_regressor import MarginRegressor
from dimargin.problems.one_vs_rest import codes_of
from dimargin.spark.arrow import features_of, in_batch, lists_of, names_by
from dimargin.spark.columns import FEATURES, ID, Columns, quoted
from dimargin.spark.engine.jobs import check_local_python
from dimargin.spark.shipping import Parcel, arrived, machine_in
from dimargin.system.arrays import Floats

_ROWS, _ANSWERS = "dimargin_rows", "dimargin_answers"  # Names of temporary columns.
_VECTOR_ANSWERS = ("raw", "probability")  # Answers that are vectors.


class Output(NamedTuple):
    """New column of predictions."""

    param: str  # Param that names it.
    name: str  # Its name; a column with an empty name is left out.
    answer: str  # Key of `answers_of`.
    metadata: dict[str, Any]


def with_predictions(dataset: DataFrame, columns: Columns, parcel: Parcel, outputs: Sequence[Output]) -> DataFrame:
    """Add predictions of the model in a parcel to a dataset, streaming or not.

    The caller has checked the columns. Errors name a row by its key, if it has one.

    Raises
    ------
    ValueError
        If the dataset already has a column of one of these names.
    RuntimeError
        If Spark would run its tasks by a Python of this computer that has not this environment.
    """
    for one in outputs:
        if one.name in dataset.columns:
            what = f"{one.param} is {one.name!r}"
            raise ValueError(f"{what}, already a column of the dataset; drop it, or choose another name")
    wanted = {one.answer: one for one in outputs if one.name}
    if not wanted:
        params = " and ".join(one.param for one in outputs)
        warnings.warn(f"{params} are empty: transform adds nothing", stacklevel=4)
        return dataset
    chosen = []
    for answer, one in wanted.items():
        found = quoted(_ANSWERS).getField(answer)
        chosen.append(
            (array_to_vector(found) if answer in _VECTOR_ANSWERS else found).alias(one.name, metadata=one.metadata)
        )
    # A struct that is used twice (and sent once) stays a separate projection. Otherwise Arrow
    # functions may read the columnar batches of a file directly, as in Spark 4.3, and then they
    # refuse vectors in any column.
    check_local_python(dataset.sparkSession)
    rows = F.struct(columns.features_in(dataset.schema).alias(FEATURES), *columns.id_in(dataset.schema))
    asked = dataset.select("*", rows.alias(_ROWS))
    answered = asked.select("*", _predictor(parcel, columns, list(wanted))(_ROWS, _ROWS).alias(_ANSWERS))
    return answered.select("*", *chosen).drop(_ROWS, _ANSWERS)


def raw_predictions(values: Floats) -> Floats:
    """Return decision values of shape (n, n_classes); those of two classes are opposite."""
    return np.column_stack([-values, values]) if values.ndim == 1 else values


def answers_of(model: Any, X: Any) -> dict[str, Floats]:
    """Return what a model predicts for rows: raw values and probabilities of classes, or scores; and predictions."""
    machine = machine_in(model)
    if isinstance(machine, MarginRegressor):
        return {"prediction": machine.predict(X)}
    values = machine.decision_function(X)
    if not isinstance(machine, MarginClassifier):  # A detector.
        return {"score": values, "prediction": np.where(values >= 0, 1.0, -1.0)}
    found, codes = {"raw": raw_predictions(values)}, codes_of(values)
    if model is not machine:
        found["probability"] = probabilities_of(model, values)
        codes = found["probability"].argmax(axis=1)
    return found | {"prediction": machine.classes_[codes].astype(np.float64)}


def _predictor(parcel: Parcel, columns: Columns, wanted: list[str]) -> Any:
    def answer(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        machine = arrived(parcel)
        for batch, _ in batches:
            name = in_batch if columns.id is None else names_by(batch.field(ID))
            yield _answers(machine, features_of(batch.field(FEATURES), columns, name=name), wanted)

    types = (f"{name}: {'array<double>' if name in _VECTOR_ANSWERS else 'double'}" for name in wanted)
    return F.arrow_udf(answer, f"struct<{', '.join(types)}>")


def _answers(machine: Any, X: Any, wanted: list[str]) -> pa.Array:
    none = {name: np.empty((0, 1) if name in _VECTOR_ANSWERS else 0) for name in wanted}
    answers = answers_of(machine, X) if X.shape[0] else none
    return pa.StructArray.from_arrays([_array(answers[name]) for name in wanted], wanted)


def _array(values: Floats) -> pa.Array:
    width = values.shape[-1]
    return pa.array(values) if values.ndim == 1 else lists_of(np.arange(0, values.size + 1, width), values.ravel())
