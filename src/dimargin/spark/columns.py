"""Columns of a DataFrame, the requirements on them, and their conversion to Arrow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pyspark.ml.linalg import VectorUDT
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

FEATURES, LABEL, WEIGHT, ID = "features", "label", "weight", "id"  # Names of the canonical columns.
MAX_CLASSES = 10_000  # The driver collects all labels, so a column of arbitrary numbers is refused as label.
_KEY_TYPES = (T.IntegralType, T.StringType)


@dataclass(frozen=True)
class Columns:
    """Columns of a DataFrame that hold rows.

    Attributes
    ----------
    features : str or tuple of str
        A column of vectors, dense or sparse, or of arrays of numbers; or plain numeric columns, one
        per feature.
    label, weight, id : str or None
        Columns of numbers, of non-negative numbers, and of whole numbers or text; None if not used.
    n_features : int or None
        Number of features that every row must have; None for that of the first row of a batch.
    """

    features: str | tuple[str, ...]
    label: str | None = None
    weight: str | None = None
    id: str | None = None
    n_features: int | None = None

    def check(self, schema: T.StructType) -> None:
        """Raise an error, before any work, for a column that is missing or of the wrong type.

        Raises
        ------
        ValueError
            For a missing column, or if the schema declares a number of features other than
            `n_features`.
        TypeError
            For a column of an unsupported type.
        """
        if isinstance(self.features, tuple):
            if not self.features:
                raise ValueError("featuresCols must name at least one column, got []")
            self._check_number("featuresCols", len(self.features))
            for name in self.features:
                _check_type("featuresCols", name, schema, (T.NumericType, T.BooleanType), "numeric columns")
        else:
            self._check_features(self.features, schema)
        if self.label is not None:
            hint = ""
            if isinstance(_field("labelCol", self.label, schema).dataType, T.StringType):
                hint = f"; number them with pyspark.ml.feature.StringIndexer(inputCol={self.label!r}, outputCol=...)"
            _check_type("labelCol", self.label, schema, (T.NumericType, T.BooleanType), "a column of numbers", hint)
        if self.weight is not None:
            _check_type("weightCol", self.weight, schema, (T.NumericType,), "a column of numbers")
        if self.id is not None:
            _check_type("idCol", self.id, schema, _KEY_TYPES, "a column of whole numbers or text")

    def features_in(self, schema: T.StructType) -> Column:
        """Return the features in a type of Arrow: vectors as their underlying struct, others as arrays."""
        if isinstance(self.features, tuple):
            single = all(isinstance(schema[name].dataType, T.FloatType) for name in self.features)
            kind = T.FloatType() if single else T.DoubleType()
            return F.array(*(quoted(name).cast(kind) for name in self.features))
        column, kind = quoted(self.features), schema[self.features].dataType
        if isinstance(kind, VectorUDT):
            return F.unwrap_udt(column)
        return column if isinstance(kind.elementType, (T.FloatType, T.DoubleType)) else column.cast("array<double>")

    def select(self, dataset: DataFrame) -> DataFrame:
        """Select the columns under the canonical names and types that `rows_of` expects.

        Returns
        -------
        DataFrame
            ``features``, and if present ``label`` and ``weight`` (double) and ``id`` (bigint or
            string).
        """
        schema = dataset.schema
        chosen = [self.features_in(schema).alias(FEATURES)]
        chosen += [
            quoted(name).cast("double").alias(alias)
            for name, alias in ((self.label, LABEL), (self.weight, WEIGHT))
            if name is not None
        ]
        return dataset.select(*chosen, *self.id_in(schema))

    def id_in(self, schema: T.StructType) -> list[Column]:
        """Return the rows' own keys as a column of `select`, or an empty list without such a column."""
        if self.id is None:
            return []
        kind = "string" if isinstance(schema[self.id].dataType, T.StringType) else "bigint"
        return [quoted(self.id).cast(kind).alias(ID)]

    def named_by(self, name: str | None, schema: T.StructType) -> Columns:
        """Return the columns with the key column `name`, if the dataset has it, so that errors name rows by key."""
        is_there = name in schema.names and isinstance(schema[name].dataType, _KEY_TYPES)
        return replace(self, id=name) if is_there else self

    def _check_features(self, name: str, schema: T.StructType) -> None:
        field = _field("featuresCol", name, schema)
        kind: Any = field.dataType
        if isinstance(kind, (T.NumericType, T.BooleanType)):
            raise TypeError(
                f"featuresCol must name a column of vectors or of arrays, and {name!r} is of type "
                f"{kind.simpleString()}; plain numeric columns are named in a list: featuresCols=[{name!r}, ...]"
            )
        is_of_numbers = isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.NumericType)
        if not (is_of_numbers or isinstance(kind, VectorUDT)):
            raise TypeError(
                "featuresCol must name a column of vectors (pyspark.ml.linalg) or of arrays of numbers, "
                f"and {name!r} is of type {kind.simpleString()}"
            )
        n_features = field.metadata.get("ml_attr", {}).get("num_attrs")  # Some transformers declare it.
        if n_features is not None:
            self._check_number(f"featuresCol {name!r}", n_features)

    def _check_number(self, name: str, n_features: int) -> None:
        if self.n_features not in (None, n_features):
            raise ValueError(f"{name} has {n_features} features, and the model was trained with {self.n_features}")


def check_frame(dataset: Any) -> None:
    """Raise TypeError for a dataset that is not a Spark DataFrame; the message says how to convert it."""
    if isinstance(dataset, DataFrame):
        return
    kind = type(dataset)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if hasattr(dataset, "to_spark"):  # This is a table of pandas on Spark.
        remedy = "pass its to_spark()"
    elif hasattr(dataset, "toDF"):  # This is an RDD.
        remedy = "pass its toDF()"
    else:
        remedy = (
            "make one with spark.createDataFrame, which takes tables of pandas and Arrow and lists of rows, or use the "
            "machine of this name in dimargin, which takes arrays and tables as they are"
        )
    raise TypeError(f"dataset must be a DataFrame of Spark (pyspark.sql.DataFrame), got {name}; {remedy}")


def quoted(name: str) -> Column:
    """Return the column of exactly this name, which may contain dots and backticks."""
    return F.col(f"`{name.replace('`', '``')}`")


def _field(parameter: str, name: str, schema: T.StructType) -> Any:
    if name not in schema.names:
        raise ValueError(f"{parameter} names {name!r}, and the dataset has no such column, only {schema.names}")
    return schema[name]


def _check_type(
    parameter: str, name: str, schema: T.StructType, kinds: tuple[type[T.DataType], ...], expected: str, hint: str = ""
) -> None:
    kind = _field(parameter, name, schema).dataType
    if not isinstance(kind, kinds):
        raise TypeError(f"{parameter} must name {expected}, and {name!r} is of type {kind.simpleString()}{hint}")
