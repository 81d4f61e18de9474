"""Training through pyspark.ml's own machinery: pipelines, grids, one against the rest."""

import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import OneVsRest, OneVsRestModel
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.tuning import CrossValidator, CrossValidatorModel, ParamGridBuilder
from pyspark.sql import functions as F
from sklearn.datasets import make_classification

import dimargin as dm
from dimargin.spark import LinearODMClassifier, ODMClassificationModel, ODMClassifier, SVMClassifier
from dimargin.spark.training import train

NAMES = list("abcd")
# pyspark leaves its own thread pools open
leaves_pools_open = pytest.mark.filterwarnings("ignore:.*Pool.__del__:pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def frame(spark):
    X, y = make_classification(
        150, 4, n_informative=3, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    rows = [(*row, float(label), 1.0 + label) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
    plain = spark.createDataFrame(rows, [*NAMES, "label", "weight"])
    return VectorAssembler(inputCols=NAMES, outputCol="features").transform(plain).cache()


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [ODMClassifier, SVMClassifier, LinearODMClassifier])
def test_a_model_has_the_params_and_the_uid_of_its_estimator(frame, estimator):
    made = estimator(seed=1, predictionCol="p", weightCol="weight", maxIter=500)
    model = made.fit(frame, {made.tol: 1e-2})
    assert model.uid == made.uid and model.parent.getTol() == model.getTol() == 1e-2 and made.getTol() == 1e-3
    assert (model.getMaxIter(), model.getPredictionCol(), model.getWeightCol()) == (500, "p", "weight")
    assert model.isSet("maxIter") and not model.isSet("maxTime")
    assert model.numClasses == 3 and "p" in model.transform(frame).columns
    assert model.toSklearn().tol == 1e-2


def test_wrong_params_and_columns_are_found_before_any_work(frame):
    with pytest.raises(ValueError, match="lam must be a finite number"):
        ODMClassifier(lam=-1.0).fit(frame)
    with pytest.raises(ValueError, match="weightCol names 'w'"):
        ODMClassifier(weightCol="w").fit(frame)
    with pytest.raises(ValueError, match="multi_class='one_vs_one' is not supported on Spark"):
        train(dm.SVMClassifier(multi_class="one_vs_one"), frame, SVMClassifier()._columns())


def test_plain_columns_and_vectors_give_the_same_model(frame):
    by_vector = LinearODMClassifier(seed=0).fit(frame)
    by_column = LinearODMClassifier(seed=0, featuresCol=NAMES).fit(frame)
    assert by_vector.coefficientMatrix == by_column.coefficientMatrix and by_column.getFeaturesCols() == NAMES


@pytest.mark.slow
def test_a_pipeline_is_trained_and_saved(frame, tmp_path):
    stages = [VectorAssembler(inputCols=NAMES, outputCol="x"), ODMClassifier(featuresCol="x", seed=0)]
    model = Pipeline(stages=stages).fit(frame)
    model.write().overwrite().save(str(tmp_path / "model"))
    again = PipelineModel.load(str(tmp_path / "model"))
    assert isinstance(again.stages[1], ODMClassificationModel)
    columns = ["rawPrediction", "prediction"]
    assert again.transform(frame).select(*columns).collect() == model.transform(frame).select(*columns).collect()


@pytest.mark.slow
@leaves_pools_open
def test_a_grid_is_searched_and_saved(frame, tmp_path):
    odm = ODMClassifier(seed=0, maxIter=50)
    grid = ParamGridBuilder().addGrid(odm.lam, [1e-3, 1e4]).build()
    evaluator = MulticlassClassificationEvaluator(metricName="accuracy")
    search = CrossValidator(
        estimator=odm, estimatorParamMaps=grid, evaluator=evaluator, numFolds=2, parallelism=2, seed=1
    )
    found = search.fit(frame)
    assert found.bestModel.getLam() == grid[int(np.argmax(found.avgMetrics))][odm.lam]
    found.save(str(tmp_path / "found"))
    again = CrossValidatorModel.load(str(tmp_path / "found"))
    assert again.bestModel.getLam() == found.bestModel.getLam() and again.avgMetrics == found.avgMetrics


@pytest.mark.slow
@leaves_pools_open
def test_one_against_the_rest_is_trained_and_saved(frame, tmp_path):
    found = OneVsRest(classifier=SVMClassifier(seed=0), weightCol="weight", parallelism=2).fit(frame)
    accuracy = found.transform(frame).agg(F.avg((F.col("prediction") == F.col("label")).cast("double"))).first()[0]
    assert len(found.models) == 3 and accuracy > 0.8
    found.save(str(tmp_path / "found"))
    again = OneVsRestModel.load(str(tmp_path / "found"))
    assert (
        again.transform(frame).select("prediction").collect() == found.transform(frame).select("prediction").collect()
    )
