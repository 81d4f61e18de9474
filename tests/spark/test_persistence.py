"""Saving and loading: round trips alone and in pipelines, and damage that is found."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="dimargin[spark] is not installed")

from pyspark.errors import PySparkException
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.linalg import Vectors
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import functions as F
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_moons

import dimargin as dm
from dimargin.io.models import ModelFileError
from dimargin.spark import (
    LinearODMClassificationModel,
    LinearODMClassifier,
    LinearSVMClassificationModel,
    LinearSVMRegressionModel,
    ODMClassificationModel,
    ODMClassifier,
    OneClassCoreSetSVMModel,
    SVMClassificationModel,
    SVMClassifier,
    SVMRegressionModel,
)

X, Y = make_moons(120, noise=0.2, random_state=0)
MACHINES = [
    (ODMClassificationModel, dm.ODMClassifier(lam=100.0, strategy=dm.DivideAndConquer(), n_levels=1, stop_level=1)),
    (SVMClassificationModel, dm.SVMClassifier(C=3.0, class_weight={0: 2.0, 1: 1.0}, random_state=3)),
    (LinearODMClassificationModel, dm.LinearODMClassifier(solver=dm.LinearSVRG(), random_state=0)),
    (LinearSVMClassificationModel, dm.LinearSVMClassifier(C=3.0, random_state=0)),
    (SVMRegressionModel, dm.SVMRegressor(C=3.0, epsilon=0.2, strategy="dc", n_levels=1, stop_level=1)),
    (LinearSVMRegressionModel, dm.LinearSVMRegressor(C=3.0, random_state=0)),
    (OneClassCoreSetSVMModel, dm.OneClassCoreSetSVM(contamination=0.1, random_state=0)),
    (SVMClassificationModel, CalibratedClassifierCV(dm.SVMClassifier(C=3.0, random_state=3), ensemble=False)),
]


@pytest.fixture(scope="module")
def frame(spark):
    return spark.createDataFrame([(*row, float(y)) for row, y in zip(X.tolist(), Y, strict=True)], ["a", "b", "label"])


def values(model):
    return [(param.name, model.getOrDefault(param)) for param in model.params if model.isDefined(param)]


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(("cls", "machine"), MACHINES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_model_is_loaded_as_it_was_saved(spark, tmp_path, cls, machine):
    model = cls.fromSklearn(machine.fit(X, Y))
    model.setFeaturesCol(["a", "b"]).setPredictionCol("answer")
    path = str(tmp_path / "model")
    model.write().save(path)
    again = cls.load(path)
    assert type(again) is cls and again.uid == model.uid and values(again) == values(model)
    assert [param.name for param in again.params if again.isSet(param)] == [
        param.name for param in model.params if model.isSet(param)
    ]
    restored = again.toSklearn()
    name = next(name for name in ("decision_function", "predict_proba", "predict") if hasattr(machine, name))
    assert (getattr(restored, name)(X) == getattr(machine, name)(X)).all()
    assert again.history == model.history and repr(restored) == repr(machine)
    dm.save(restored, tmp_path / "file")
    dm.save(machine, tmp_path / "expected")
    assert (tmp_path / "file").read_bytes() == (tmp_path / "expected").read_bytes()


def test_a_model_goes_from_file_to_file(spark, tmp_path):
    dm.save(MACHINES[1][1].fit(X, Y), tmp_path / "file")
    SVMClassificationModel.fromSklearn(dm.load(tmp_path / "file")).save(str(tmp_path / "model"))
    rows = [path for path in (tmp_path / "model" / "data").iterdir() if path.suffix == ".parquet"]
    assert rows and all(path.stat().st_mode & 0o077 == 0 for path in rows), "others can read the support vectors"
    again = SVMClassificationModel.read().load(str(tmp_path / "model")).toSklearn()
    assert (again.decision_function(X) == dm.load(tmp_path / "file").decision_function(X)).all()


@pytest.mark.slow
def test_a_saved_place_is_overwritten_on_request_only(spark, tmp_path):
    path = str(tmp_path / "model")
    first, second = (
        LinearODMClassificationModel.fromSklearn(dm.LinearODMClassifier(lam=lam).fit(X, Y)) for lam in (1.0, 1e4)
    )
    first.save(path)
    with pytest.raises(PySparkException, match="PATH_ALREADY_EXISTS"):
        second.save(path)
    assert LinearODMClassificationModel.load(path).getLam() == 1.0
    second.write().overwrite().save(path)
    assert LinearODMClassificationModel.load(path).getLam() == 1e4
    LinearODMClassifier(theta=0.5).write().overwrite().save(path)
    assert LinearODMClassifier.load(path).getTheta() == 0.5 and not Path(path, "data").exists()


@pytest.mark.parametrize(
    "made",
    [
        lambda: ODMClassifier(
            strategy=dm.DivideAndConquer(sample_size=9), maxTime=None, featuresCol=["a", "b"], seed=1
        ),
        lambda: SVMClassifier(C=2, classWeight={-1: 2, 1.5: 3}, weightCol="w", idCol="key", gamma=0.5),
        lambda: LinearODMClassifier(solver="svrg", maxTime=3.5, labelCol="y", rawPredictionCol=""),
    ],
)
def test_an_estimator_is_loaded_as_it_was_saved(spark, tmp_path, made):
    estimator = made()
    estimator.save(str(tmp_path / "estimator"))
    again = type(estimator).load(str(tmp_path / "estimator"))
    assert again.uid == estimator.uid and values(again) == values(estimator)
    assert repr(again._prototype()) == repr(estimator._prototype())


@pytest.mark.slow
def test_pipelines_are_saved_with_the_machines_in_them(spark, tmp_path, frame):
    assembler = VectorAssembler(inputCols=["a", "b"], outputCol="features")
    machine = MACHINES[1][1].fit(X, Y)
    model = PipelineModel([assembler, SVMClassificationModel.fromSklearn(machine)])
    model.write().overwrite().save(str(tmp_path / "model"))
    again = PipelineModel.load(str(tmp_path / "model"))
    found = [row.prediction for row in again.transform(frame).collect()]
    assert found == machine.predict(X).tolist()
    Pipeline(stages=[assembler, SVMClassifier(C=7.0)]).save(str(tmp_path / "pipeline"))
    assert Pipeline.load(str(tmp_path / "pipeline")).getStages()[1].getC() == 7.0


def test_a_grid_search_is_saved_with_its_grid(spark, tmp_path):
    odm = ODMClassifier()
    grid = ParamGridBuilder().addGrid(odm.lam, [1.0, 2.0]).addGrid(odm.strategy, ["exact", dm.DiODM()]).build()
    search = CrossValidator(estimator=odm, estimatorParamMaps=grid, evaluator=MulticlassClassificationEvaluator())
    search.save(str(tmp_path / "search"))
    again = CrossValidator.load(str(tmp_path / "search"))
    assert again.getEstimatorParamMaps() == grid and again.getEstimator().uid == odm.uid


# ---- damage ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(spark, tmp_path_factory):
    """A model of several chunks."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 300))
    path = tmp_path_factory.mktemp("models") / "model"
    ODMClassificationModel.fromSklearn(dm.ODMClassifier().fit(rows, rows[:, 0] > 0)).save(str(path))
    return path


def flipped(content):
    return content[:1000] + bytes([content[1000] ^ 1]) + content[1001:]


DAMAGE = {
    "a lost chunk": (lambda rows: rows[:-1], "chunks 0 to 3 of 4 must occur once each, found 3"),
    "a chunk given twice": (lambda rows: [*rows, rows[0]], r"found 5 \(4 different ones\)"),
    "a bit that changed": (lambda rows: [(k, flipped(c) if k == 2 else c) for k, c in rows], "its checksum is"),
    "chunks that changed places": (lambda rows: [(k, rows[k ^ 1][1]) for k, _ in rows], "its checksum is"),
    "a chunk cut short": (lambda rows: [(k, c[:-1]) for k, c in rows], "its checksum is"),
}


def stored(spark, saved):
    rows = sorted((row.place, bytes(row.content)) for row in spark.read.parquet(f"{saved}/data").collect())
    assert len(rows) == 4
    return rows


def store(spark, saved, path, rows):
    shutil.copytree(saved / "metadata", path / "metadata")
    spark.createDataFrame(rows, "place bigint, content binary").repartition(3).write.parquet(str(path / "data"))


@pytest.mark.slow
def test_chunks_are_put_together_wherever_they_are(spark, saved, tmp_path):
    store(spark, saved, tmp_path / "model", stored(spark, saved)[::-1])
    expected = ODMClassificationModel.load(str(saved)).toSklearn()
    again = ODMClassificationModel.load(str(tmp_path / "model")).toSklearn()
    assert (again.support_vectors_ == expected.support_vectors_).all()


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_a_damaged_model_is_refused_with_the_reason(spark, saved, tmp_path, damage):
    change, message = DAMAGE[damage]
    store(spark, saved, tmp_path / "model", change(stored(spark, saved)))
    with pytest.raises(ModelFileError, match=rf"{tmp_path}/model is damaged: .*{message}"):
        ODMClassificationModel.load(str(tmp_path / "model"))


def with_content(spark, saved, path, content):
    """A saved model whose checksum is right and whose content is another."""
    metadata = json.loads(spark.read.text(f"{saved}/metadata").first()[0])
    metadata["model"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    spark.createDataFrame([(json.dumps(metadata),)], ["value"]).coalesce(1).write.text(f"{path}/metadata")
    spark.createDataFrame([(0, content)], "place bigint, content binary").write.parquet(f"{path}/data")


@pytest.mark.slow
def test_content_that_is_no_model_file_is_refused(spark, saved, tmp_path):
    with_content(spark, saved, tmp_path / "model", b"\x80\x04\x95pickle")
    with pytest.raises(ModelFileError, match=r"does not hold a valid ODMClassificationModel: .*model file"):
        ODMClassificationModel.load(str(tmp_path / "model"))


@pytest.mark.slow
def test_the_model_of_another_machine_is_refused(spark, saved, tmp_path):
    dm.save(dm.SVMClassifier().fit(X, Y), tmp_path / "svm")
    with_content(spark, saved, tmp_path / "model", (tmp_path / "svm").read_bytes())
    with pytest.raises(ModelFileError, match="got a SVMClassifier"):
        ODMClassificationModel.load(str(tmp_path / "model"))
    with pytest.raises(AssertionError, match=r"SVMClassificationModel but found class name .*ODM"):
        SVMClassificationModel.load(str(saved))


# ---- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_model_of_100_mib_predicts_and_is_saved(spark, tmp_path):
    rng = np.random.default_rng(0)
    n_vectors, n_features = 66_000, 200
    machine = dm.ODMClassifier(gamma=1e-3, tol=1e-3).fit(rng.normal(size=(600, n_features)), np.arange(600) % 2)
    machine.support_vectors_ = rng.normal(size=(n_vectors, n_features))
    machine.dual_coef_ = rng.normal(size=(1, n_vectors))
    machine.support_ = np.arange(n_vectors, dtype=np.int32)
    machine._n_given = n_vectors
    model = ODMClassificationModel.fromSklearn(machine)
    rows = rng.normal(size=(50, n_features))
    frame = spark.createDataFrame([(k, Vectors.dense(row)) for k, row in enumerate(rows)], ["place", "features"])
    expected = machine.decision_function(rows)
    for _ in range(2):
        found = sorted(model.transform(frame.repartition(4)).select("place", "rawPrediction").collect())
        assert [row.rawPrediction[1] for row in found] == expected.tolist()
        model.save(str(tmp_path / model.uid))
        size = spark.read.parquet(str(tmp_path / model.uid / "data")).agg(F.sum(F.length("content"))).first()[0]
        assert size > 100 * 2**20
        model = ODMClassificationModel.load(str(tmp_path / model.uid))._resetUid("again")
