"""Models: what they predict on a DataFrame is what scikit-learn's machine predicts, and nothing else changes."""

import warnings

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="dimargin[spark] is not installed")

import scipy.sparse as sp
from pyspark.errors import PySparkException
from pyspark.ml.classification import ClassificationModel, LogisticRegression, OneVsRestModel
from pyspark.ml.evaluation import BinaryClassificationEvaluator, MulticlassClassificationEvaluator
from pyspark.ml.linalg import DenseVector, Vectors
from pyspark.sql import functions as F
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

import dimargin as dm
from dimargin.spark import LinearODMClassificationModel, ODMClassificationModel, SVMClassificationModel

MODELS = {
    dm.ODMClassifier: ODMClassificationModel,
    dm.SVMClassifier: SVMClassificationModel,
    dm.LinearODMClassifier: LinearODMClassificationModel,
}


def rows(n_classes=2, n=150, labels=None):
    X, y = make_classification(n, 6, n_informative=4, n_classes=n_classes, random_state=0)
    X[np.abs(X) < 0.5] = 0.0  # so that some vectors are smaller as sparse ones
    return X, (y.astype(float) if labels is None else np.asarray(labels)[y])


def model_of(machine):
    return MODELS[type(machine)].fromSklearn(machine)


@pytest.fixture(scope="module")
def machine():
    return dm.ODMClassifier(random_state=0).fit(*rows())


def vector_frame(spark, X, sparse=False):
    if sparse:
        made = [Vectors.sparse(X.shape[1], np.flatnonzero(row), row[row != 0]) for row in X]
    else:
        made = list(map(Vectors.dense, X))
    return spark.createDataFrame(list(enumerate(made)), ["place", "features"]).repartition(3)


def answers(frame):
    found = sorted(frame.select("place", "rawPrediction", "prediction").collect())
    return np.array([row.rawPrediction.toArray() for row in found]), np.array([row.prediction for row in found])


def raw(values):
    return np.column_stack([-values, values]) if values.ndim == 1 else values


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("form", ["dense", "sparse", "array", "float", "plain"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "make", [dm.ODMClassifier, dm.SVMClassifier, dm.LinearODMClassifier], ids=lambda make: make.__name__
)
def test_every_form_of_features_is_predicted_as_by_scikit_learn(spark, make, n_classes, form):
    X, y = rows(n_classes)
    machine = make(random_state=0).fit(sp.csr_array(X) if form == "sparse" else X, y)
    model = model_of(machine)
    asked = X
    if form in ("dense", "sparse"):
        frame = vector_frame(spark, X, form == "sparse")
    elif form == "plain":
        names = [f"column.{k}" for k in range(X.shape[1])]
        frame = spark.createDataFrame([(k, *row) for k, row in enumerate(X.tolist())], ["place", *names])
        model.setFeaturesCol(names)
    else:
        frame = spark.createDataFrame([(k, row) for k, row in enumerate(X.tolist())], ["place", "features"])
        if form == "float":
            frame = frame.withColumn("features", F.col("features").cast("array<float>"))
            asked = X.astype(np.float32)
    found_raw, found = answers(model.transform(frame))
    assert (found == machine.predict(asked)).all()
    expected = raw(machine.decision_function(asked))
    if make is dm.LinearODMClassifier:  # products of BLAS depend on which rows come together
        np.testing.assert_allclose(found_raw, expected, rtol=1e-6 if form == "float" else 1e-12, atol=1e-6)
    else:
        assert (found_raw == expected).all()


def test_a_mixture_of_dense_and_sparse_vectors_is_predicted_too(spark, machine):
    X, _ = rows()
    mixed = vector_frame(spark, X[:75]).union(
        vector_frame(spark, X[75:], True).withColumn("place", F.col("place") + 75)
    )
    found_raw, found = answers(model_of(machine).transform(mixed))
    assert (found == machine.predict(X)).all() and (found_raw == raw(machine.decision_function(X))).all()


@pytest.mark.parametrize("strategy", ["dc", "landmark"])
def test_models_that_predict_by_clusters_or_landmarks_travel_too(spark, strategy):
    X, y = rows(n=400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        levels = {"n_levels": 1, "stop_level": 1} if strategy == "dc" else {}
        machine = dm.ODMClassifier(strategy=strategy, random_state=0, **levels).fit(X, y)
    found_raw, _ = answers(model_of(machine).transform(vector_frame(spark, X)))
    assert (found_raw == raw(machine.decision_function(X))).all()


@pytest.mark.parametrize("labels", [[-1, 1], [7.0, -2.0, 3.0], [False, True]])
def test_predictions_are_the_labels_of_training_as_doubles(spark, labels):
    X, y = rows(len(labels), labels=labels)
    machine = dm.LinearODMClassifier(random_state=0).fit(X, y)
    model = model_of(machine)
    frame = model.transform(vector_frame(spark, X))
    assert dict(frame.dtypes)["prediction"] == "double"
    assert (answers(frame)[1] == machine.predict(X).astype(float)).all()
    assert model.classes == sorted(map(float, labels)) and model.numClasses == len(labels)


def test_one_row_is_predicted_without_a_session(machine):
    X, _ = rows()
    model = model_of(machine)
    values = machine.decision_function(X)
    for k in range(5):
        assert model.predict(Vectors.dense(X[k])) == machine.predict(X[k : k + 1])[0]
        assert model.predictRaw(Vectors.dense(X[k])) == DenseVector([-values[k], values[k]])
        assert model.predictRaw(Vectors.sparse(6, dict(enumerate(X[k])))) == DenseVector([-values[k], values[k]])
    with pytest.raises(ValueError, match="3 features"):
        model.predict(Vectors.dense(1, 2, 3))


def test_all_other_columns_stay_as_they_are(spark, machine):
    row = (Vectors.dense(np.arange(6.0)), Vectors.sparse(3, [1], [1.0]), {"a": [1, 2]}, (1, "x"), 5, "text")
    frame = spark.createDataFrame([row], ["features", "other", "map", "a.b", "number", "text"])
    found = model_of(machine).transform(frame)
    assert found.columns == [*frame.columns, "rawPrediction", "prediction"]
    assert found.schema.fields[:6] == frame.schema.fields
    assert found.drop("rawPrediction", "prediction").collect() == frame.collect()


@pytest.mark.slow
def test_the_new_columns_are_noted_as_those_of_sparks_own_models(spark, machine):
    X, _ = rows()
    frame = vector_frame(spark, X).withColumn("label", (F.col("place") % 2).cast("double"))
    theirs = LogisticRegression(maxIter=1).fit(frame).transform(frame).schema
    ours = model_of(machine).transform(frame).schema
    for name in ("rawPrediction", "prediction"):
        assert (ours[name].dataType, ours[name].metadata) == (theirs[name].dataType, theirs[name].metadata)


def test_vectors_that_a_file_holds_are_predicted_with_all_its_columns(spark, machine, tmp_path):
    X, _ = rows()
    frame = vector_frame(spark, X).withColumn("other", F.col("features")).withColumn("list", F.array("place"))
    frame.write.parquet(str(tmp_path / "rows"))
    stored = spark.read.parquet(str(tmp_path / "rows"))
    found = model_of(machine).transform(stored)
    assert (answers(found)[0] == raw(machine.decision_function(X))).all()
    assert sorted(found.select("place", "other", "list").collect()) == sorted(frame.drop("features").collect())
    lists = stored.withColumn("features", F.transform(F.sequence(F.lit(1), F.lit(6)), lambda k: k / F.lit(7.0)))
    assert len(set(answers(model_of(machine).transform(lists))[0][:, 1])) == 1


def test_the_machine_is_asked_once(spark, machine, capsys):
    model_of(machine).transform(vector_frame(spark, rows()[0])).explain()
    assert capsys.readouterr().out.count("ArrowEvalPython") == 1


def test_columns_with_an_empty_name_are_left_out(spark, machine):
    frame = vector_frame(spark, rows()[0])
    model = model_of(machine)
    assert model.copy().setRawPredictionCol("").transform(frame).columns == ["place", "features", "prediction"]
    only_raw = model.copy().setPredictionCol("").setRawPredictionCol("margins")
    assert only_raw.transform(frame).columns == ["place", "features", "margins"]
    with pytest.warns(UserWarning, match="transform adds nothing"):
        assert only_raw.setRawPredictionCol("").transform(frame).columns == frame.columns


def test_a_column_that_is_there_is_not_overwritten(spark, machine):
    frame = vector_frame(spark, rows()[0]).withColumn("prediction", F.lit(1.0))
    with pytest.raises(ValueError, match="predictionCol is 'prediction', already a column of the dataset"):
        model_of(machine).transform(frame)


def test_params_of_a_call_hold_for_the_call(spark, machine):
    model = model_of(machine)
    frame = vector_frame(spark, rows()[0])
    assert "p" in model.transform(frame, {model.predictionCol: "p"}).columns
    assert "prediction" in model.transform(frame).columns


@pytest.mark.slow
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_rows_that_cannot_be_predicted_are_named(spark, machine, ansi):
    model = model_of(machine)
    good = Vectors.dense(np.zeros(6))
    for bad, message in (
        (None, "column 'features' is null in row 1"),
        (Vectors.dense([0.0, 1, 2, 3, 4, np.nan]), "column 'features', feature 5, is NaN in row 1"),
        (Vectors.dense([1.0, 2.0]), "column 'features' has 2 features in row 1 of a batch, expected 6"),
        (Vectors.sparse(7, [1], [1.0]), "column 'features' has 7 features in row 1 of a batch, expected 6"),
    ):
        frame = spark.createDataFrame([(good,), (bad,)], ["features"]).coalesce(1)
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        try:
            with pytest.raises(PySparkException, match=message):
                model.transform(frame).collect()
        finally:
            spark.conf.unset("spark.sql.ansi.enabled")
    with pytest.raises(ValueError, match="featuresCol names 'features', and the dataset has no such column"):
        model.transform(frame.withColumnRenamed("features", "f"))


@pytest.mark.slow
def test_rows_that_cannot_be_predicted_are_named_by_their_keys(spark, machine):
    model = model_of(machine)
    model.set(model.idCol, "key")  # as an estimator with this Param sets it
    bad = Vectors.dense([0.0, 1, 2, 3, 4, np.nan])
    frame = spark.createDataFrame([(Vectors.dense(np.zeros(6)), 40), (bad, 41)], ["features", "key"]).coalesce(1)
    with pytest.raises(PySparkException, match="feature 5, is NaN in the row with id 41"):
        model.transform(frame).collect()
    with pytest.raises(PySparkException, match="feature 5, is NaN in row 1"):
        model.transform(frame.drop("key")).collect()
    found = model.transform(frame.where("key = 40"))
    assert found.columns == ["features", "key", "rawPrediction", "prediction"] and found.count() == 1


@pytest.mark.slow
def test_no_rows_and_empty_partitions_give_no_predictions(spark, machine):
    frame = vector_frame(spark, rows()[0])
    assert model_of(machine).transform(frame.where("place < 0")).collect() == []
    assert len(model_of(machine).transform(frame.where("place < 2").repartition(7)).collect()) == 2


@pytest.mark.slow
def test_a_stream_is_predicted(spark, machine, tmp_path):
    X, _ = rows()
    frame = vector_frame(spark, X)
    frame.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    found = model_of(machine).transform(stream)
    query = found.writeStream.format("memory").queryName("found").trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120)
        assert query.exception() is None
        found_raw, labels = answers(spark.table("found"))
    finally:
        query.stop()
    assert (labels == machine.predict(X)).all() and (found_raw == raw(machine.decision_function(X))).all()


@pytest.mark.slow
def test_evaluators_take_the_predictions(spark, machine):
    X, y = rows()
    frame = vector_frame(spark, X)
    labels = spark.createDataFrame(list(enumerate(y.tolist())), ["place", "label"])
    found = model_of(machine).transform(frame).join(labels, "place")
    accuracy = MulticlassClassificationEvaluator(metricName="accuracy").evaluate(found)
    assert accuracy == pytest.approx(machine.score(X, y))
    assert BinaryClassificationEvaluator().evaluate(found) > 0.9


@pytest.mark.slow
def test_one_vs_rest_takes_the_models(spark):
    X, y = rows(3)
    machines = [dm.LinearODMClassifier(random_state=0).fit(X, (y == k).astype(float)) for k in range(3)]
    model = OneVsRestModel([model_of(machine) for machine in machines])
    found_raw, found = answers(model.transform(vector_frame(spark, X)))
    expected = np.column_stack([machine.decision_function(X) for machine in machines])
    np.testing.assert_allclose(found_raw, expected, rtol=1e-10)
    assert (found == expected.argmax(axis=1)).all()


def test_a_machine_that_was_fitted_on_a_data_frame_predicts_in_silence(spark):
    pandas = pytest.importorskip("pandas")
    X, y = rows()
    names = list("abcdef")
    machine = dm.ODMClassifier(random_state=0, n_jobs=2).fit(pandas.DataFrame(X, columns=names), y)
    model = model_of(machine)
    assert (
        model.predict(Vectors.dense(X[0]))
        == machine.classes_[int(machine.decision_function(pandas.DataFrame(X[:1], columns=names))[0] > 0)]
    )
    assert list(model.toSklearn().feature_names_in_) == names and model.toSklearn().n_jobs == 2


# ---- models and machines ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_facts_are_those_of_the_machine(n_classes):
    X, y = rows(n_classes)
    machine = dm.LinearODMClassifier(random_state=0).fit(X, y)
    model = model_of(machine)
    assert isinstance(model, ClassificationModel)
    assert (model.numClasses, model.numFeatures) == (n_classes, 6)
    assert np.array_equal(model.objective, machine.objective_)
    assert np.array_equal(model.dualObjective, machine.dual_objective_)
    assert (model.dualityGap, model.certificate, model.status) == (
        machine.duality_gap_, machine.certificate_, machine.status_
    )  # fmt: skip
    assert len(model.history) == len(machine.history_)
    assert (model.coefficientMatrix.toArray() == machine.coef_).all()
    assert (model.interceptVector.toArray() == machine.intercept_).all()
    if n_classes == 2:
        assert (model.coefficients.toArray() == machine.coef_[0]).all() and model.intercept == machine.intercept_[0]
    else:
        with pytest.raises(ValueError, match="3 classes: see coefficientMatrix"):
            _ = model.coefficients


def test_facts_are_read_only(machine):
    model = model_of(machine)
    assert model.numSupportVectors == len(machine.support_)
    for name in ("objective", "dualityGap", "numClasses", "history"):
        with pytest.raises(AttributeError):
            setattr(model, name, 0)
    model.history.clear()
    assert model.history


def test_a_model_and_a_machine_are_made_of_each_other(machine):
    model = model_of(dm.SVMClassifier(C=3.0, kernel="poly", strategy=dm.Exact(), random_state=1).fit(*rows()))
    assert (model.getC(), model.getKernel(), model.getSeed()) == (3.0, "poly", 1)
    assert type(model.getStrategy()) is dm.Exact and not model.isSet("maxIter")
    again = model.toSklearn()
    again.fit(*rows(3))
    assert model.numClasses == 2  # a machine that is given out and trained again is another one
    X, _ = rows()
    assert (model_of(machine).toSklearn().decision_function(X) == machine.decision_function(X)).all()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: SVC().fit(*rows()), TypeError, "ODMClassificationModel wraps a dimargin.ODMClassifier, got a SVC"),
        (lambda: dm.SVMClassifier().fit(*rows()), TypeError, "got a SVMClassifier"),
        (lambda: dm.ODMClassifier().fit(*rows(labels=["a", "b"])), ValueError, r"\['a', 'b'\]; .*LabelEncoder"),
        (lambda: dm.ODMClassifier(kernel=lambda a, b: a @ b.T).fit(*rows()), TypeError, "kernel must be one of"),
        (lambda: dm.ODMClassifier(random_state=np.random.RandomState(0)).fit(*rows()), TypeError, '"seed"'),
        (lambda: dm.ODMClassifier(), ValueError, "not fitted"),
    ],
)
def test_machines_that_cannot_be_models_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        ODMClassificationModel.fromSklearn(make())
