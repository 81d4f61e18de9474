"""Training on executors: the machine of the same rows on one computer, however they come."""

import random
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import spark_sessions
from numpy.testing import assert_allclose, assert_array_equal
from pyspark.ml.linalg import SparseVector
from pyspark.sql import functions as F
from sklearn.base import clone
from sklearn.datasets import make_classification

from dimargin import (
    Cascade,
    DivideAndConquer,
    Exact,
    LinearDSVRG,
    LinearNewton,
    LinearODMClassifier,
    LinearSVMClassifier,
    LinearSVMRegressor,
    ODMClassifier,
    OneClassCoreSetSVM,
    SVMClassifier,
    SVMRegressor,
)
from dimargin.shards import parts
from dimargin.spark import training
from dimargin.spark.columns import Columns
from dimargin.spark.engine.jobs import Jobs
from dimargin.spark.engine.stored import Stored
from dimargin.spark.training import train
from dimargin.strategies import across
from dimargin.strategies import strategy as strategy_module

COLUMNS = Columns("features", "label", "weight")
ODM = ODMClassifier(lam=100.0, gamma=0.3, tol=1e-6, random_state=0)
SVM = SVMClassifier(C=2.0, gamma=0.3, tol=1e-6, random_state=0)
LINEAR_SVM = LinearSVMClassifier(C=2.0, tol=1e-6, random_state=0)
LINEAR = LinearODMClassifier(lam=100.0, tol=1e-6, random_state=0)
SVR = SVMRegressor(C=2.0, epsilon=0.5, gamma=0.3, tol=1e-6, random_state=0)
LINEAR_SVR = LinearSVMRegressor(C=2.0, loss="squared_epsilon_insensitive", tol=1e-6, random_state=0)
TREE = {"branching": 2, "n_levels": 2}
ACROSS = Exact(across_shards=True, working_set=150)
N = 900


def data(n=N, n_classes=2, seed=0):
    X, y = make_classification(
        n, 5, n_informative=4, n_redundant=0, n_classes=n_classes, flip_y=0.05, random_state=seed
    )
    return X, y.astype(float), np.random.default_rng(seed).integers(0, 4, n).astype(float)


def frame_of(spark, X, y, weights, n_partitions=3):
    table = pd.DataFrame({"features": list(X), "label": y, "weight": weights, "id": np.arange(len(y))})
    return spark.createDataFrame(table).repartition(n_partitions)


@pytest.fixture(autouse=True)
def several_shards(monkeypatch):
    monkeypatch.setattr(parts, "_ROWS_OF_SHARD", 200)
    monkeypatch.setattr(training, "MAX_VALUES_OF_TASK", 0)


@pytest.fixture(scope="module")
def rows():
    return data()


@pytest.fixture(scope="module")
def frame(spark, rows):
    return frame_of(spark, *rows).cache()


@pytest.fixture(scope="module")
def numbers(rows):
    """Rows with targets around 1,000."""
    X, _, weights = rows
    return X, 1000 + 30 * np.sin(X[:, 0]) + 5 * X[:, 1] + np.random.default_rng(1).normal(size=N), weights


@pytest.fixture(scope="module")
def frame_of_numbers(spark, numbers):
    return frame_of(spark, *numbers).cache()


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    "machine",
    [
        clone(SVR).set_params(strategy="dc", stop_level=1, **TREE),
        clone(SVR).set_params(strategy="dc", **TREE),
        clone(SVR).set_params(strategy="exact"),
        clone(SVR).set_params(strategy=ACROSS, tol=1e-9),
        clone(SVR).set_params(strategy="exact", loss="squared_epsilon_insensitive", fit_intercept=False),
        clone(SVR).set_params(strategy="diodm", stop_level=1, **TREE),
        clone(SVR).set_params(strategy="cascade", **TREE),
        clone(SVR).set_params(
            strategy="landmark", loss="squared_epsilon_insensitive", fit_intercept=False, n_landmarks=60
        ),
        LINEAR_SVR,
        clone(LINEAR_SVR).set_params(intercept_scaling=0.5),
        pytest.param(  # Many rounds.
            clone(LINEAR_SVR).set_params(loss="epsilon_insensitive", tol=1e-2), marks=pytest.mark.nightly
        ),
        clone(LINEAR_SVR).set_params(solver=LinearDSVRG(n_partitions=2), tol=1e-2),
    ],
    ids=lambda machine: f"{type(machine).__name__}-{getattr(machine, 'strategy', getattr(machine, 'solver', ''))}",
)
def test_a_regressor_is_the_one_of_the_same_rows_here(frame_of_numbers, numbers, machine):
    X, y, weights = numbers
    there, here = train(machine, frame_of_numbers, COLUMNS), clone(machine).fit(X, y, weights)
    # Rounds of CoCoA+ are not the steps of one computer.
    unequal = 1e-2 if machine.tol == 1e-2 and machine.loss == "epsilon_insensitive" else 1e-6
    assert_allclose(there.objective_, here.objective_, rtol=unequal)
    assert (there.status_, there.certificate_) == (here.status_, here.certificate_)
    assert there.duality_gap_ <= max(machine.tol, here.duality_gap_ * 1.1)
    assert_allclose(there.predict(X), here.predict(X), atol=100 * unequal * np.ptp(y))
    assert there.history_[-1]["objective"] == pytest.approx(there.objective_, rel=1e-3)


@pytest.mark.slow
def test_few_values_of_a_regressor_are_one_solve_in_one_task(frame_of_numbers, numbers, monkeypatch):
    monkeypatch.setattr(training, "MAX_VALUES_OF_TASK", N * 5)
    X, y, weights = numbers
    machine = clone(LINEAR_SVR).set_params(loss="epsilon_insensitive")
    there, here = train(machine, frame_of_numbers, COLUMNS), clone(machine).fit(X, y, weights)
    assert_allclose(there.objective_, here.objective_, rtol=1e-9)
    assert_allclose(there.predict(X), here.predict(X), rtol=1e-6)


@pytest.mark.slow
def test_a_regressor_does_not_depend_on_how_rows_come(spark, numbers):
    machine = clone(SVR).set_params(strategy="dc", stop_level=1, **TREE)
    one, other = (train(machine, frame_of(spark, *numbers, n_partitions=n), COLUMNS) for n in (1, 4))
    assert_array_equal(one.dual_coef_, other.dual_coef_)
    assert_array_equal(one.support_vectors_, other.support_vectors_)
    by_id = Columns("features", "label", "weight", "id")
    assert train(clone(SVR).set_params(strategy="exact"), frame_of(spark, *numbers), by_id).duality_gap_ <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("value", [1000.0, 0.0])
def test_constant_targets_are_predicted(spark, numbers, value):
    X, _, weights = numbers
    frame = frame_of(spark, X, np.full(N, value), weights)
    for machine in (clone(SVR).set_params(strategy="exact"), LINEAR_SVR):
        found = train(machine, frame, COLUMNS)
        assert (found.predict(X) == value).all() and found.status_ == "converged" and found.objective_ == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: F.when(F.col("id") == 7, float("nan")).otherwise(y), "column 'label' is not finite in row"),
        (lambda y: F.when(F.col("id") != 7, y), "column 'label' is null in row"),
        (lambda y: F.lit(None).cast("double"), "column 'label' is null in row"),
        (lambda y: y * 1e100, "labelCol 'label' has targets above 1e.100 in absolute value"),
        (lambda y: y + F.udf(lambda: random.random(), "double").asNondeterministic()(), "changes from read to read"),
    ],
    ids=["nan", "null", "all null", "large", "random"],
)
def test_targets_that_cannot_be_trained_on_are_refused(frame_of_numbers, change, message):
    with pytest.raises(Exception, match=message):
        train(LINEAR_SVR, frame_of_numbers.withColumn("label", change(F.col("label"))), COLUMNS)


@pytest.mark.slow
def test_a_detector_is_the_one_of_the_same_rows_here(frame, rows, monkeypatch):
    X, _, weights = rows
    machine = OneClassCoreSetSVM(gamma=0.5, contamination=0.1, random_state=0)
    columns = Columns("features", weight="weight")
    with pytest.raises(ValueError, match="trains on the driver, on at most 0 values, and the"):
        train(machine, frame, columns)
    with pytest.raises(ValueError, match="checkpointDir must not be set"):
        train(machine, frame, columns, checkpoint_dir="somewhere")
    monkeypatch.setattr(training, "MAX_VALUES_OF_TASK", N * 5)
    there, here = train(machine, frame, columns), clone(machine).fit(X, sample_weight=weights)
    assert_allclose(there.decision_function(X), here.decision_function(X), atol=1e-12)
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-12) and there.certificate_ == "global"
    assert there.duality_gap_ <= machine.tol


def same(machine, X, y, weights, frame):
    """The machine trained on executors, which must be the one trained here."""
    there, here = train(machine, frame, COLUMNS), clone(machine).fit(X, y, weights)
    assert_allclose(there.objective_, here.objective_, rtol=1e-6)
    assert there.status_ == here.status_ and there.certificate_ == here.certificate_
    assert there.duality_gap_ <= max(machine.tol, here.duality_gap_ * 1.1)
    values, expected = there.decision_function(X), here.decision_function(X)
    assert_allclose(values, expected, atol=1e-4 * np.abs(expected).max())
    assert_array_equal(there.predict(X), here.predict(X))
    return there


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    "machine",
    [
        clone(ODM).set_params(strategy="exact"),
        pytest.param(clone(ODM).set_params(strategy=ACROSS, tol=1e-9), marks=pytest.mark.nightly),
        clone(ODM).set_params(strategy="diodm", **TREE),
        clone(ODM).set_params(strategy="landmark", n_landmarks=60),
        clone(SVM).set_params(strategy=DivideAndConquer(sample_size=100), **TREE),
        LINEAR,
        clone(LINEAR_SVM).set_params(loss="squared_hinge"),
        clone(LINEAR).set_params(intercept_scaling=0.5),
        clone(LINEAR).set_params(solver=LinearDSVRG(n_partitions=2), lam=10.0, tol=1e-2),
    ],
    ids=lambda machine: f"{type(machine).__name__}-{getattr(machine, 'strategy', getattr(machine, 'solver', ''))}",
)
def test_the_machine_is_the_one_of_the_same_rows_here(frame, rows, machine):
    same(machine, *rows, frame)


@pytest.mark.slow
@pytest.mark.parametrize(
    "machine",
    [
        clone(SVM).set_params(strategy="exact", loss="squared_hinge"),
        clone(SVM).set_params(strategy=ACROSS, tol=1e-9),
        clone(SVM).set_params(strategy=ACROSS, fit_intercept=True, tol=1e-9),
        clone(SVM).set_params(strategy=ACROSS, loss="squared_hinge", fit_intercept=True, tol=1e-9),
        clone(SVM).set_params(strategy="diodm", **TREE),
        clone(SVM).set_params(strategy="diodm", stop_level=1, **TREE),
        clone(ODM).set_params(strategy="dc", **TREE),
        clone(ODM).set_params(strategy="dc", stop_level=1, **TREE),
        clone(ODM).set_params(strategy=DivideAndConquer(prediction="bcm"), stop_level=1, **TREE),
        clone(SVM).set_params(strategy="cascade", fit_intercept=True, **TREE),
        clone(ODM).set_params(strategy=Cascade(rounds=2), fit_intercept=True, tol=1e-2, **TREE),
        clone(SVM).set_params(strategy="dip", tol=1e-4, **TREE),
        clone(ODM).set_params(strategy="landmark", n_landmarks=60, class_weight="balanced", kernel="laplacian"),
        clone(LINEAR).set_params(solver=LinearNewton("conjugate_gradients"), class_weight={0: 1.0, 1: 3.0}),
        clone(LINEAR).set_params(solver="svrg", tol=1e-3),
    ],
    ids=lambda machine: f"{type(machine).__name__}-{getattr(machine, 'strategy', getattr(machine, 'solver', ''))}",
)
def test_every_other_machine_is_too(frame, rows, machine):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a cascade of two rounds says that it has not converged
        same(machine, *rows, frame)


@pytest.mark.parametrize(
    "machine",
    [
        LINEAR_SVM,
        clone(LINEAR_SVM).set_params(loss="squared_hinge", solver="cd", max_time=60.0),
        clone(LINEAR).set_params(solver="svrg", tol=1e-3),
    ],
    ids=lambda machine: f"{type(machine).__name__}-{machine.solver}",
)
def test_few_values_are_one_solve_in_one_task(frame, rows, machine, monkeypatch):
    monkeypatch.setattr(training, "MAX_VALUES_OF_TASK", N * 5)
    names, act = [], Jobs.act
    monkeypatch.setattr(Jobs, "act", lambda self, action, name: names.append(name) or act(self, action, name))
    found = same(machine, *rows, frame)
    assert [name for name in names if name != "check"] == ["collect 1 shards"] * 2  # sums over the rows, and the solve
    assert found.history_[-1]["objective"] == pytest.approx(found.objective_)


@pytest.mark.parametrize("fit_intercept", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_hinge_of_many_values_is_trained_by_cocoa(frame, rows, fit_intercept):
    X, y, weights = rows
    machine = clone(LINEAR_SVM).set_params(C=0.01, tol=1e-2, fit_intercept=fit_intercept)
    there, here = train(machine, frame, COLUMNS), clone(machine).set_params(tol=1e-6).fit(X, y, weights)
    assert there.status_ == "converged" and there.duality_gap_ <= 1e-2
    assert there.dual_objective_ <= here.objective_ <= there.objective_ * (1 + 1e-6)
    assert (there.predict(X) == here.predict(X)).mean() > 0.97


def test_a_solver_of_one_machine_is_refused_for_many_values(frame):
    with pytest.raises(ValueError, match="solver='cd' trains in one task, on at most 0 values, and the rows have 4500"):
        train(clone(LINEAR_SVM).set_params(solver="cd"), frame, COLUMNS)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [LINEAR, clone(ODM).set_params(strategy="landmark", n_landmarks=30, gamma="scale")])
def test_more_than_two_classes_and_sparse_rows(spark, machine):
    X, y, weights = data(300, n_classes=3)
    X[np.abs(X) < 1.2] = 0.0
    vectors = [SparseVector(5, {k: row[k] for k in np.flatnonzero(row)}) for row in X.tolist()]
    table = list(zip(vectors, y.tolist(), weights.tolist(), strict=True))
    there = spark.createDataFrame(table, ["features", "label", "weight"])
    trained = same(machine, sp.csr_array(X), y, weights, there)
    assert_array_equal(trained.classes_, [0.0, 1.0, 2.0])


@pytest.mark.slow
def test_ansi_mode_changes_nothing(request, spark, frame):
    request.addfinalizer(lambda: spark.conf.set("spark.sql.ansi.enabled", "true"))
    whole = frame.withColumn("label", F.col("label").cast("int")).withColumn("weight", F.col("weight").cast("float"))
    for machine in (LINEAR, clone(ODM).set_params(strategy="diodm", **TREE)):
        found = []
        for ansi in ("true", "false"):
            spark.conf.set("spark.sql.ansi.enabled", ansi)
            found.append(train(machine, whole, COLUMNS))
            assert spark.conf.get("spark.sql.ansi.enabled") == ansi
        assert_array_equal(*(machine.objective_ for machine in found))
        with pytest.raises(ValueError, match="column 'label' is null"):
            train(machine, whole.withColumn("label", F.when(F.col("id") != 7, F.col("label"))), COLUMNS)


@pytest.mark.slow
def test_neither_order_nor_partitions_nor_skew_change_a_bit(spark, rows, frame):
    X, y, weights = rows
    machine = clone(ODM).set_params(strategy="landmark", n_landmarks=30, tol=1e-3)
    first = train(machine, frame, COLUMNS)
    order = np.argsort(y, kind="stable")[::-1]  # a partition of one class
    most = F.when(F.col("id") < 0.9 * N, 0).otherwise(F.col("id") % 4).cast("int")
    for other in (
        frame_of(spark, X[order], y[order], weights[order], 1),
        frame.repartitionById(5, most),  # nine tenths of the rows, little, nothing
    ):
        again = train(machine, other, COLUMNS)
        assert_array_equal(again.dual_coef_, first.dual_coef_)
        assert_array_equal(again.support_vectors_, first.support_vectors_)


@pytest.mark.slow
def test_more_partitions_than_rows(spark):
    X, y, weights = data(20)
    same(LINEAR, X, y, weights, frame_of(spark, X, y, weights, 30))


@pytest.mark.slow
def test_many_equal_rows_are_dealt_evenly(spark):
    counts = [8000, 8000, 1000]
    different = [[0.0, 1.0, 2.0], [1.0, 0.0, 2.0], [1.0, 1.0, 3.0]]  # fewer than shards, so that some are empty
    X, y = np.repeat(different, counts, axis=0), np.repeat([0.0, 1.0, 0.0], counts)
    first, second, third = (F.array(*map(F.lit, row)) for row in different)
    there = spark.range(len(y)).select(
        F.when(F.col("id") < 8000, first).when(F.col("id") < 16_000, second).otherwise(third).alias("features"),
        (F.col("id").between(8000, 15_999)).cast("double").alias("label"), F.lit(1.0).alias("weight"),
    )  # fmt: skip
    same(LINEAR, X, y, np.ones(len(y)), there)


@pytest.mark.slow
def test_a_column_of_ids_takes_the_place_of_content(spark, rows):
    X, y, weights = rows
    machine = clone(ODM).set_params(strategy="landmark", n_landmarks=10, tol=1e-3)
    columns = Columns("features", "label", "weight", "id")
    one, other = (train(machine, frame_of(spark, X, y, weights, k), columns) for k in (1, 4))
    assert_array_equal(one.support_vectors_, other.support_vectors_)
    by_content = train(machine, frame_of(spark, X, y, weights), COLUMNS)
    assert not np.array_equal(one.support_vectors_, by_content.support_vectors_)


@pytest.mark.slow
def test_what_is_wrong_with_rows_is_said_with_the_column(frame):
    def refused(frame, match, machine=LINEAR):
        with pytest.raises(ValueError, match=match):
            train(machine, frame, COLUMNS)

    frame.count()  # which caches the test's own frame
    before, here = spark_sessions.cached(), F.col("id") == 7
    unknown = F.transform("features", lambda x: F.when(here, float("nan")).otherwise(x))
    refused(frame.where("label = 1"), r"labelCol 'label' has one class only, 1\.0")
    refused(frame.where("weight = 0"), "rows has a positive weight")
    refused(frame.withColumn("label", F.when(~here, F.col("label"))), "column 'label' is null")
    refused(frame.withColumn("weight", F.when(here, -1.0).otherwise(1.0)), "column 'weight' is negative")
    refused(frame.withColumn("features", unknown), "column 'features'.* NaN")
    short = F.when(here, F.slice("features", 1, 2)).otherwise(F.col("features"))
    refused(frame.withColumn("features", short), "features")
    chance = F.udf(lambda: random.random(), "double").asNondeterministic()
    refused(frame.where(chance() < 0.5), "changes from read to read")
    refused(frame.withColumn("weight", 1 + chance()), "changes from read to read")  # as many rows of every class
    refused(frame, "4096 partitions", clone(ODM).set_params(strategy="diodm", n_levels=6))
    assert not spark_sessions.cached() - before


def test_a_column_of_numbers_is_no_label(frame, monkeypatch):
    monkeypatch.setattr("dimargin.spark.source.MAX_CLASSES", 50)
    with pytest.raises(ValueError, match="labelCol 'label' has more than 50 different values"):
        train(LINEAR, frame.withColumn("label", F.col("id") * 0.5), COLUMNS)


@pytest.mark.slow
def test_rows_that_would_not_fit_are_refused_before_the_work_begins(frame):
    machine = clone(ODM).set_params(strategy="diodm", memory_limit=10**6)
    with pytest.raises(MemoryError, match=r"level 0 solves all \d+ rows in one place, .*stopLevel=1.*'landmark'"):
        train(machine, frame, COLUMNS)


def test_a_worker_s_memory_is_the_limit_where_none_is_given(frame, monkeypatch):
    monkeypatch.setattr("dimargin.spark.engine.jobs.Jobs.check", lambda self: 10**6)
    with pytest.raises(MemoryError, match="bytes, and an executor has 1000000"):
        train(clone(ODM).set_params(strategy="diodm"), frame, COLUMNS)


@pytest.mark.slow
def test_a_time_limit_gives_a_machine(frame, rows):
    machine = clone(ODM).set_params(strategy="diodm", max_time=1e-3, **TREE)
    with pytest.warns(UserWarning, match="time limit"):
        found = train(machine, frame, COLUMNS)
    assert found.status_ == "max_time" and found.certificate_ == "partitioned"
    assert found.predict(rows[0]).shape == (N,)


@pytest.mark.slow
def test_rows_of_rounds_stay_where_they_are(frame, monkeypatch):
    zipped, stay = Stored.zipped, []

    def noted(self, others, call):
        made = zipped(self, others, call)
        stay.append(self._is_zipped)
        return made

    monkeypatch.setattr(Stored, "zipped", noted)
    train(clone(SVM).set_params(strategy=ACROSS, tol=0.1), frame, COLUMNS)
    assert len(stay) > 2 and all(stay)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["diodm", DivideAndConquer(sample_size=100), "cascade"], ids=str)
def test_many_rows_stay_in_their_shards_at_level_0(frame, rows, strategy, monkeypatch):
    for module in (across, strategy_module):
        monkeypatch.setattr(module, "ROWS_IN_ONE_PLACE", 500)
    machine = clone(ODM).set_params(strategy=strategy, **TREE)
    there, here = train(machine, frame, COLUMNS), clone(machine).fit(*rows)
    assert (there.certificate_, there.history_[-1]["level"]) == ("global", 0)
    assert_allclose(there.objective_, here.objective_, rtol=1e-5)
    assert (there.predict(rows[0]) != here.predict(rows[0])).sum() <= 2
