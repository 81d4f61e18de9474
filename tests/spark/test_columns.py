"""Columns: what a schema may be, and what becomes of rows on their way through Arrow."""

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="dimargin[spark] is not installed")

import pandas as pd
import scipy.sparse as sp
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.mllib.linalg import VectorUDT as OldVectorUDT
from pyspark.sql import types as T
from sklearn.datasets import make_moons

import dimargin as dm
from dimargin.spark import Columns, LinearODMClassificationModel, LinearODMClassifier
from dimargin.spark.arrow import features_of, names_by, rows_of

KINDS = {
    "label": T.DoubleType(),
    "sign": T.BooleanType(),
    "name": T.StringType(),
    "weight": T.FloatType(),
    "key": T.LongType(),
    "x": T.DoubleType(),
    "y": T.IntegerType(),
    "z": T.DecimalType(9, 2),
    "w": T.FloatType(),
    "list": T.ArrayType(T.DoubleType()),
    "short": T.ArrayType(T.FloatType()),
    "whole": T.ArrayType(T.IntegerType()),
    "words": T.ArrayType(T.StringType()),
    "day": T.DateType(),
    "vector": VectorUDT(),
    "old": OldVectorUDT(),
}
SIZED = T.StructField("sized", VectorUDT(), metadata={"ml_attr": {"num_attrs": 3}})
SCHEMA = T.StructType([*(T.StructField(name, kind) for name, kind in KINDS.items()), SIZED])
VECTOR = pa.struct(
    [("type", pa.int8()), ("size", pa.int32()), ("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float64()))]
)


def vectors(*rows):
    """As Spark hands vectors to Arrow."""
    udt = VectorUDT()
    names = ("type", "size", "indices", "values")
    made = [None if row is None else dict(zip(names, udt.serialize(row), strict=True)) for row in rows]
    return pa.array(made, VECTOR)


@pytest.mark.parametrize("features", ["vector", "sized", "list", "short", "whole", ("x", "y", "z", "w", "sign")])
@pytest.mark.parametrize("label", ["label", "sign", "y", "z"])
def test_columns_that_can_be_used_pass(features, label):
    Columns(features, label, "weight", "key").check(SCHEMA)
    Columns(features, label, "z", "name").check(SCHEMA)


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (Columns("v"), ValueError, r"featuresCol names 'v', and the dataset has no such column, only \['label', "),
        (Columns(("x", "q")), ValueError, "featuresCols names 'q', and the dataset has no such column"),
        (Columns(()), ValueError, "featuresCols must name at least one column"),
        (Columns("x"), TypeError, r"'x' is of type double; plain numeric columns are .* featuresCols=\['x', \.\.\.\]"),
        (Columns("name"), TypeError, "featuresCol must name a column of vectors .* 'name' is of type string"),
        (Columns("words"), TypeError, "'words' is of type array<string>"),
        (Columns("old"), TypeError, r"vectors \(pyspark.ml.linalg\) or .* 'old' is of type"),
        (Columns(("x", "name")), TypeError, "featuresCols must name numeric columns, and 'name' is of type string"),
        (Columns("sized", n_features=4), ValueError, "featuresCol 'sized' has 3 features, .* trained with 4"),
        (Columns(("x", "y"), n_features=4), ValueError, "featuresCols has 2 features, .* trained with 4"),
        (Columns("vector", "missing"), ValueError, "labelCol names 'missing'"),
        (Columns("vector", "name"), TypeError, "'name' is of type string; .*StringIndexer.inputCol='name'"),
        (Columns("vector", "day"), TypeError, "labelCol must name a column of numbers, and 'day' is of type date"),
        (Columns("vector", "label", "missing"), ValueError, "weightCol names 'missing'"),
        (Columns("vector", "label", "sign"), TypeError, "weightCol must name a column of numbers, and 'sign'"),
        (Columns("vector", "label", None, "missing"), ValueError, "idCol names 'missing'"),
        (
            Columns("vector", "label", None, "x"),
            TypeError,
            "idCol must name a column of whole numbers or text, and 'x'",
        ),
    ],
)
def test_columns_that_cannot_be_used_are_named_before_any_work(columns, error, message):
    with pytest.raises(error, match=message):
        columns.check(SCHEMA)


class OnSpark:
    def to_spark(self):
        raise NotImplementedError


class RDD:
    def toDF(self):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("data", "name", "remedy"),
    [
        (pd.DataFrame({"x": [1.0]}), r"pandas\..*DataFrame", "spark.createDataFrame"),
        (np.eye(2), "numpy.ndarray", "spark.createDataFrame"),
        (pa.table({"x": [1.0]}), "pyarrow.lib.Table", "spark.createDataFrame"),
        ([[1.0]], "list", "spark.createDataFrame"),
        (None, "NoneType", "or use the machine of this name in dimargin"),
        (OnSpark(), "OnSpark", r"pass its to_spark\(\)"),
        (RDD(), "RDD", r"pass its toDF\(\)"),
    ],
)
def test_what_is_no_data_frame_of_spark_is_refused_with_a_remedy(data, name, remedy):
    message = rf"dataset must be a DataFrame of Spark \(pyspark.sql.DataFrame\), got .*{name}; .*{remedy}"
    machine = dm.LinearODMClassifier().fit(*make_moons(20, random_state=0))
    model = LinearODMClassificationModel.fromSklearn(machine)
    for call in (LinearODMClassifier().fit, model.transform):
        with pytest.raises(TypeError, match=message):
            call(data)
    with pytest.raises(TypeError, match=message):
        LinearODMClassifier().fit(data, [1.0])  # as scikit-learn's fit is called


def test_keys_are_taken_along_where_a_dataset_has_them():
    columns = Columns("vector", n_features=3)
    assert columns.named_by("key", SCHEMA).id == "key" and columns.named_by("name", SCHEMA).id == "name"
    for name in ("missing", "day", None):
        assert columns.named_by(name, SCHEMA) is columns


# ---- rows of batches -------------------------------------------------------------------------------------------------


def test_dense_vectors_and_lists_become_an_array_without_a_copy():
    X = np.arange(12.0).reshape(4, 3)
    found = features_of(vectors(*map(Vectors.dense, X)), Columns("v"))
    assert isinstance(found, np.ndarray) and (found == X).all()
    lists = pa.array(X.tolist())
    found = features_of(lists, Columns("v"))
    assert (found == X).all() and np.shares_memory(found, lists.flatten().to_numpy())
    assert features_of(pa.array(X.tolist(), pa.list_(pa.float32())), Columns("v")).dtype == np.float32


def test_a_part_of_a_batch_holds_its_own_rows():
    X = np.arange(12.0).reshape(4, 3)
    for array in (pa.array(X.tolist()), vectors(*map(Vectors.dense, X))):
        assert (features_of(array[1:3], Columns("v")) == X[1:3]).all()
    rows = [Vectors.sparse(9, [k], [1.0 + k]) for k in range(4)]
    assert (features_of(vectors(*rows)[2:], Columns("v")).toarray() == np.array([r.toArray() for r in rows[2:]])).all()


def test_sparse_vectors_stay_sparse():
    X = sp.random_array((40, 30), density=0.1, rng=np.random.default_rng(0), format="csr")
    rows = [Vectors.sparse(30, np.flatnonzero(row), row[row != 0]) for row in X.toarray()]
    found = features_of(vectors(*rows), Columns("v"))
    assert sp.issparse(found) and found.shape == (40, 30) and found.nnz == X.nnz and not (found != X).nnz
    dense = features_of(vectors(*rows), Columns("v"), sparse=False)
    assert isinstance(dense, np.ndarray) and (dense == X.toarray()).all()


def test_dense_and_sparse_vectors_in_one_batch_take_the_smaller_form():
    sparse = [Vectors.sparse(20, [3, 17], [1.0, 2.0]), Vectors.sparse(20, [], [])]
    dense = Vectors.dense(np.arange(1.0, 21.0))
    for rows, expected in (([dense, *sparse * 4], True), ([dense] * 5 + sparse, False)):
        X = np.array([row.toArray() for row in rows])
        found = features_of(vectors(*rows), Columns("v"))
        assert sp.issparse(found) is expected
        assert ((found.toarray() if expected else found) == X).all()
        forced = features_of(vectors(*rows), Columns("v"), sparse=not expected)
        assert sp.issparse(forced) is not expected


def test_no_rows_are_rows_too():
    assert features_of(vectors(), Columns("v", n_features=3)).shape == (0, 3)
    assert features_of(pa.array([], pa.list_(pa.float64())), Columns("v", n_features=3)).shape == (0, 3)


def test_labels_weights_and_ids_come_along():
    batch = pa.record_batch(
        {"features": [[1.0], [2.0]], "label": [1.0, 0.0], "weight": [0.0, 2.5], "id": pa.array(["a", "b"])}
    )
    rows = rows_of(batch, Columns("v", "y", "w", "key"))
    assert rows.labels.tolist() == [1, 0] and rows.weights.tolist() == [0, 2.5] and rows.ids.tolist() == ["a", "b"]
    batch = batch.set_column(3, "id", pa.array([2**62, 3]))
    ids = rows_of(batch, Columns("v", "y", "w", "key")).ids
    assert ids.dtype == np.int64 and ids.tolist() == [2**62, 3]
    assert rows_of(batch, Columns("v"))[1:] == (None, None, None)


def with_sparse_struct(**lie):
    row = {"type": 0, "size": 3, "indices": [0, 2], "values": [1.0, 2.0]} | lie
    return pa.array([{"type": 1, "size": None, "indices": None, "values": [1.0, 2.0, 3.0]}, row], VECTOR)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (pa.array([[1.0], None]), "column 'v' is null in row 1 of a batch"),
        (vectors(Vectors.dense(1.0), None), "column 'v' is null in row 1 of a batch"),
        (pa.array([[1.0, 2.0], [1.0, None]]), "column 'v', feature 1, is null in row 1"),
        (pa.array([[1.0, 2.0], [np.nan, 1.0]]), "column 'v', feature 0, is NaN in row 1"),
        (pa.array([[1.0, np.inf], [1.0, 1.0]]), "column 'v', feature 1, is infinity in row 0"),
        (vectors(Vectors.dense(1, 2), Vectors.dense(1, np.nan)), "column 'v', feature 1, is NaN in row 1"),
        (vectors(Vectors.sparse(9, [1], [2]), Vectors.sparse(9, [4, 7], [1, -np.inf])), "feature 7, is infinity"),
        (pa.array([[1.0, 2.0], [1.0]]), "column 'v' has 1 features in row 1 of a batch, expected 2"),
        (vectors(Vectors.dense(1, 2), Vectors.sparse(5, [1], [1])), "'v' has 5 features in row 1 .*, expected 2"),
        (with_sparse_struct(indices=[0, 3]), "column 'v' has an index outside its size 3 in row 1"),
        (with_sparse_struct(indices=[-1, 2]), "column 'v' has an index outside its size 3 in row 1"),
        (with_sparse_struct(indices=[0]), "column 'v' is a sparse vector with different numbers of indices and values"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_used_are_named(features, message):
    with pytest.raises(ValueError, match=message):
        features_of(features, Columns("v"))


def test_a_wrong_number_of_features_names_both():
    with pytest.raises(ValueError, match="column 'v' has 2 features in row 0 of a batch, expected 3"):
        features_of(pa.array([[1.0, 2.0]]), Columns("v", n_features=3))


def test_a_bad_value_of_plain_columns_names_the_column():
    with pytest.raises(ValueError, match="column 'b' is null in row 1"):
        features_of(pa.array([[1.0, 2.0], [1.0, None]]), Columns(("a", "b")))


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("label", [1.0, None], "column 'y' is null in the row with id 'b'"),
        ("label", [np.nan, 1.0], "column 'y' is not finite in the row with id 'a'"),
        ("weight", [1.0, None], "column 'w' is null in the row with id 'b'"),
        ("weight", [1.0, -1.0], "column 'w' is negative in the row with id 'b'"),
        ("weight", [np.inf, 1.0], "column 'w' is not finite in the row with id 'a'"),
        ("id", ["a", None], "column 'key' is null in row 1 of a batch"),
        ("features", [[1.0], None], "column 'v' is null in the row with id 'b'"),
    ],
)
def test_bad_labels_weights_and_ids_are_named(column, values, message):
    good = {"features": [[1.0], [2.0]], "label": [1.0, 0.0], "weight": [0.0, 2.5], "id": ["a", "b"]}
    with pytest.raises(ValueError, match=message):
        rows_of(pa.record_batch(good | {column: values}), Columns("v", "y", "w", "key"))


# ---- in a session ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_selected_columns_have_canonical_names_and_types(spark, ansi):
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        frame = spark.sql(
            "select array(1, 2) as whole, array(float(1), float(2)) as short, 3 as `a.b`, 0.5BD as `c``d`, "
            "float(2) as e, true as yes, 7Y as w, 5 as key, 'k' as text"
        )
        chosen = Columns("whole", "yes", "w", "key").select(frame)
        assert chosen.schema.simpleString() == ("struct<features:array<double>,label:double,weight:double,id:bigint>")
        row = chosen.first()
        assert (row.features, row.label, row.weight, row.id) == ([1.0, 2.0], 1.0, 7.0, 5)
        chosen = Columns(("a.b", "c`d", "yes"), "key", None, "text").select(frame)
        assert chosen.first().features == [3.0, 0.5, 1.0] and chosen.first().id == "k"
        assert Columns("short").select(frame).schema.simpleString() == "struct<features:array<float>>"
        assert Columns(("e",)).select(frame).schema.simpleString() == "struct<features:array<float>>"
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_rows_travel_through_arrow_as_they_are(spark):
    rows = [
        (Vectors.sparse(50, [1, 40], [1.5, 2.5]), 2.0, 1),
        (Vectors.dense(np.arange(50.0)), 0.0, 2),
        (Vectors.sparse(50, [], []), 5.0, 3),
    ]
    frame = spark.createDataFrame(rows * 5, ["v", "y", "k"])
    columns = Columns("v", "y", None, "k")

    def sums(batches):
        for batch in batches:
            X, labels, _, ids = rows_of(batch, columns)
            total = X.sum(axis=1) + labels + 1000 * ids
            yield pa.record_batch({"total": pa.array(total), "sparse": pa.array([sp.issparse(X)] * len(ids))})

    found = columns.select(frame).coalesce(1).mapInArrow(sums, "total double, sparse boolean").collect()
    expected = [row[0].toArray().sum() + row[1] + 1000 * row[2] for row in rows * 5]
    assert sorted(row.total for row in found) == sorted(expected) and all(row.sparse for row in found)


def test_rows_are_named_by_whole_numbers_and_text_and_else_by_their_place():
    name = names_by(pa.array([7, None]))
    assert (name(0), name(1)) == ("the row with id 7", "row 1 of a batch")
    assert names_by(pa.array(["a'b"]))(0) == 'the row with id "a\'b"'
