"""Regressors, a detector and probabilities through pyspark.ml's evaluators, searches and pipelines."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark", reason="dimargin[spark] is not installed")

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import (
    BinaryClassificationEvaluator,
    MulticlassClassificationEvaluator,
    RegressionEvaluator,
)
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.linalg import Vectors
from pyspark.ml.regression import RegressionModel, Regressor
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import functions as F
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss

import dimargin as dm
from dimargin.spark import (
    LinearSVMClassifier,
    LinearSVMRegressor,
    OneClassCoreSetSVM,
    OneClassCoreSetSVMModel,
    SVMClassificationModel,
    SVMClassifier,
    SVMRegressionModel,
    SVMRegressor,
    calibration,
)

NAMES = list("abc")
# pyspark leaves its own thread pools open
leaves_pools_open = pytest.mark.filterwarnings("ignore:.*Pool.__del__:pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    target = 5 + X[:, 0] + 2 * np.sin(2 * X[:, 1])
    label = (X[:, 0] + 0.7 * rng.normal(size=300) > 0).astype(float)
    columns = {
        "target": target,
        "label": label,
        "third": label + (X[:, 1] > 0),
        "weight": rng.integers(0, 3, 300) * 1.0,
    }
    return pd.DataFrame(X, columns=NAMES).assign(**columns)


@pytest.fixture(scope="module")
def frame(spark, table):
    return VectorAssembler(inputCols=NAMES, outputCol="features").transform(spark.createDataFrame(table)).cache()


@pytest.mark.slow
def test_a_regressor_predicts_as_its_machine_and_is_scored(frame, table):
    model = SVMRegressor(C=10.0, labelCol="target", weightCol="weight", seed=0).fit(frame)
    X, y, weights = (table[names].to_numpy() for names in (NAMES, "target", "weight"))
    here = dm.SVMRegressor(C=10.0, random_state=0).fit(X, y, weights)
    answered = model.transform(frame)
    assert answered.columns == [*frame.columns, "prediction"] and isinstance(model, RegressionModel)
    found = answered.toPandas()
    np.testing.assert_allclose(found["prediction"], here.predict(X), rtol=1e-9)
    assert model.predict(Vectors.dense(X[0])) == pytest.approx(here.predict(X[:1])[0])
    r2 = RegressionEvaluator(labelCol="target", metricName="r2").evaluate(answered)
    assert r2 == pytest.approx(here.score(X, y)) and r2 > 0.95
    assert model.dualityGap <= 1e-3 and model.certificate == "global" and model.numFeatures == 3
    assert model.numSupportVectors == len(here.support_) and not hasattr(model, "numClasses")


@pytest.mark.slow
def test_a_linear_regressor_has_coefficients(frame):
    model = LinearSVMRegressor(labelCol="target", seed=0).fit(frame)
    assert dict(model.transform(frame).dtypes)["prediction"] == "double"
    machine = model.toSklearn()
    assert (
        model.coefficients.toArray().tolist() == machine.coef_[0].tolist() and model.intercept == machine.intercept_[0]
    )


@pytest.mark.slow
@leaves_pools_open
def test_a_grid_of_regressors_is_searched_in_a_pipeline(frame, table, tmp_path):
    svr = SVMRegressor(featuresCol="x", labelCol="target", seed=0)
    assert isinstance(svr, Regressor)
    pipeline = Pipeline(stages=[VectorAssembler(inputCols=NAMES, outputCol="x"), svr])
    grid = ParamGridBuilder().addGrid(svr.C, [1e-3, 10.0]).addGrid(svr.strategy, ["exact", "dc"]).build()
    evaluator = RegressionEvaluator(labelCol="target", metricName="rmse")
    found = CrossValidator(estimator=pipeline, estimatorParamMaps=grid, evaluator=evaluator, numFolds=2, seed=1).fit(
        frame
    )
    best = found.bestModel.stages[1]
    assert type(best) is SVMRegressionModel and best.getC() == 10.0
    assert min(found.avgMetrics[2:]) < 0.5 * min(found.avgMetrics[:2])
    found.bestModel.write().overwrite().save(str(tmp_path / "model"))
    again = PipelineModel.load(str(tmp_path / "model"))
    one, other = (model.transform(frame).select("prediction").collect() for model in (again, found.bestModel))
    assert one == other


@pytest.mark.slow
def test_a_detector_predicts_as_its_machine_and_is_loaded(frame, table, tmp_path):
    model = OneClassCoreSetSVM(contamination=0.1, featuresCol=NAMES, seed=0).fit(frame)
    here = dm.OneClassCoreSetSVM(contamination=0.1, random_state=0).fit(table[NAMES].to_numpy())
    answered = model.transform(frame)
    assert answered.columns == [*frame.columns, "rawPrediction", "prediction"]
    found = answered.toPandas()
    values = here.decision_function(table[NAMES].to_numpy())
    np.testing.assert_allclose(found["rawPrediction"], values, atol=1e-12)
    assert (found["prediction"] == here.predict(table[NAMES].to_numpy())).all() and (
        found["prediction"] < 0
    ).sum() == 30
    assert model.dualityGap <= 1e-3 and model.certificate == "global" and model.numSupportVectors > 1
    assert model.predict(Vectors.dense([9.0, 9.0, 9.0])) == -1
    model.save(str(tmp_path / "model"))
    again = OneClassCoreSetSVMModel.load(str(tmp_path / "model")).setRawPredictionCol("score").setPredictionCol("")
    assert [row.score for row in again.transform(frame).select("score").collect()] == found["rawPrediction"].tolist()


@pytest.mark.slow
def test_scores_of_a_detector_are_evaluated(spark, frame):
    far = spark.createDataFrame([(Vectors.dense(row), 0.0) for row in 6 * np.eye(3)], ["features", "label"])
    both = frame.select("features", F.lit(1.0).alias("label")).union(far)
    model = Pipeline(stages=[OneClassCoreSetSVM(seed=0)]).fit(frame)
    assert BinaryClassificationEvaluator().evaluate(model.transform(both)) > 0.99


def local(table, label, method, **weights):
    machine = dm.SVMClassifier(random_state=0, multi_class="one_vs_rest")
    return CalibratedClassifierCV(machine, method=method, ensemble=False).fit(table[NAMES], table[label], **weights)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("label", ["label", "third"])
def test_probabilities_are_as_good_as_those_of_scikit_learn(frame, table, label, method):
    model = SVMClassifier(labelCol=label, calibration=method, seed=0).fit(frame)
    answered = model.transform(frame)
    assert answered.columns == [*frame.columns, "rawPrediction", "probability", "prediction"]
    found = answered.toPandas()
    probabilities = np.array([row.toArray() for row in found["probability"]])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (found["prediction"] == probabilities.argmax(axis=1)).all()
    whole = model.toSklearn()
    np.testing.assert_allclose(whole.predict_proba(table[NAMES].to_numpy()), probabilities, atol=1e-12)
    loss = MulticlassClassificationEvaluator(labelCol=label, metricName="logLoss").evaluate(answered)
    assert loss == pytest.approx(log_loss(table[label], probabilities))
    assert loss == pytest.approx(
        log_loss(table[label], local(table, label, method).predict_proba(table[NAMES])), rel=0.1
    )
    one = Vectors.dense(table[NAMES].to_numpy()[0])
    np.testing.assert_allclose(model.predictProbability(one).toArray(), probabilities[0], atol=1e-12)
    assert model.predict(one) == found["prediction"][0] and model.getCalibration() == method


@pytest.mark.slow
def test_probabilities_count_weights_and_do_not_depend_on_how_rows_come(frame):
    svm = LinearSVMClassifier(calibration="sigmoid", weightCol="weight", seed=0)
    one, other = (svm.fit(frame.repartition(n)).toSklearn().calibrated_classifiers_[0].calibrators[0] for n in (1, 3))
    assert (one.a_, one.b_) == (other.a_, other.b_)
    heavy = frame.where("weight > 0").withColumn("weight", F.when(F.col("label") > 0, 9.0).otherwise(1.0))
    even, uneven = (svm.fit(rows).predictProbability(Vectors.dense([0.0, 0.0, 0.0]))[1] for rows in (frame, heavy))
    assert uneven > even + 0.2


@pytest.mark.slow
@leaves_pools_open
def test_a_grid_is_searched_by_log_loss_and_probabilities_are_loaded(frame, tmp_path):
    svm = SVMClassifier(calibration="sigmoid", probabilityCol="p", seed=0)
    grid = ParamGridBuilder().addGrid(svm.gamma, [0.1, 1e3]).build()
    evaluator = MulticlassClassificationEvaluator(metricName="logLoss", probabilityCol="p")
    found = CrossValidator(estimator=svm, estimatorParamMaps=grid, evaluator=evaluator, numFolds=2, seed=1).fit(frame)
    assert found.bestModel.getGamma() == 0.1 and found.avgMetrics[0] < found.avgMetrics[1]
    found.bestModel.save(str(tmp_path / "model"))
    again = SVMClassificationModel.load(str(tmp_path / "model"))
    one, other = (model.transform(frame).select("p", "prediction").collect() for model in (again, found.bestModel))
    assert one == other and again.getCalibration() == "sigmoid"


def test_calibrated_machines_are_wrapped(table):
    model = SVMClassificationModel.fromSklearn(local(table, "label", "sigmoid"))
    assert model.getCalibration() == "sigmoid" and model.numClasses == 2 and model.getSeed() == 0
    whole = CalibratedClassifierCV(dm.SVMClassifier(), ensemble=True).fit(table[NAMES], table["label"])
    with pytest.raises(ValueError, match="wraps one machine, and this CalibratedClassifierCV averages 5; fit it with"):
        SVMClassificationModel.fromSklearn(whole)
    plain = SVMClassificationModel.fromSklearn(local(table, "label", "sigmoid").calibrated_classifiers_[0].estimator)
    with pytest.raises(ValueError, match="has no probabilities: set calibration="):
        plain.predictProbability(Vectors.dense([0.0, 0.0, 0.0]))


@pytest.mark.slow
def test_what_cannot_be_calibrated_is_refused_before_training(frame, monkeypatch):
    few = frame.where("label = 0").limit(50).union(frame.where("label = 1").limit(1))
    with pytest.raises(ValueError, match=r"column 'label' has 1 of class 1\.0, in one of 5: add rows"):
        SVMClassifier(calibration="sigmoid").fit(few)
    with pytest.raises(ValueError, match="calibration must be one of sigmoid, isotonic, temperature, got 'platt'"):
        SVMClassifier(calibration="platt").fit(frame)
    monkeypatch.setattr(calibration, "MAX_DECISION_VALUES", 899)
    with pytest.raises(ValueError, match="at most 899, and the dataset has 900: fit on a sample"):
        SVMClassifier(labelCol="third", calibration="sigmoid").fit(frame)
    assert SVMClassifier(calibration="sigmoid").setCalibration(None).getCalibration() is None
