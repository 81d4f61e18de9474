"""skops and mlflow load every fitted estimator that we have, if they trust `TRUSTED_TYPES`, and predict the same."""

import inspect
import os
import subprocess
import sys
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.base import BaseEstimator, is_regressor
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import dimargin as dm
from dimargin.estimators.preprocessing import CalendarFeatures, CategoryEncoder, FourierFeatures, SparseScaler
from dimargin.gossip import rounds
from dimargin.gossip.simulation import Conditions, LinkFaults, NetworkSplit, Outage
from dimargin.strategies import LINEAR_SOLVERS, STRATEGIES, Options

X, y = make_blobs(90, centers=2, n_features=3, cluster_std=3.0, random_state=0)
QUICK = {
    dm.GossipSVMClassifier: {"n_sites": 3, "alpha": 1e-2, "max_iter": 20},
    dm.ODMClassifierCV: {"param_grid": {"lam": [1e3, 1e5]}, "cv": 2},
    dm.SVMClassifierCV: {"param_grid": {"C": [1.0, 10.0]}, "cv": 2},
    dm.LinearSVMClassifierCV: {"Cs": [1.0, 10.0], "cv": 2},
    dm.LinearODMClassifierCV: {"lams": [1e3, 1e5], "cv": 2},
}
FAULTS = Conditions(
    LinkFaults(loss=0.1),
    outages=(Outage("site1", at=2.0, until=3.0),),
    splits=(NetworkSplit((frozenset({"site0"}),), at=3.0, until=5.0),),
)
ALGORITHMS = (
    rounds.ConsensusADMM(compression=rounds.Logarithmic(3)),
    rounds.ConsensusADMM(compression=rounds.RandomK(0.5)),
    rounds.ConsensusADMM(compression=rounds.TopK(0.5)),
    rounds.ConsensusADMM(compression=rounds.Quantised(16)),
    rounds.ConsensusADMM(),
    rounds.RobustGossip(rounds.NearestMixing(0), gradient="tracked", flow=np.inf),
    rounds.RobustGossip(rounds.ClippedMean(0)),
    rounds.RobustGossip(rounds.Mean()),
    rounds.ConsensusADMM(compression=rounds.Identity()),
    rounds.RobustGossip(rounds.TrimmedMean(0)),
    rounds.PrivateADMM(privacy=rounds.Privacy(3.0)),
)


def public_estimators():
    found = [getattr(dm, name) for name in dm.__all__]
    return [
        kind
        for kind in found
        if inspect.isclass(kind) and issubclass(kind, BaseEstimator) and not issubclass(kind, Options)
    ]


def all_estimators():
    """Every public class, with every strategy or solver as an object, and whatever else changes what a model holds."""
    for kind in public_estimators():
        parameters, quick = kind().get_params(deep=False), QUICK.get(kind, {})
        yield kind(**quick)
        for parameter, makes in (("strategy", STRATEGIES), ("solver", LINEAR_SOLVERS)):
            for make in makes.values() if parameter in parameters else ():
                loss = (
                    {"loss": f"squared_{parameters['loss']}"} if "loss" in parameters and make.needs_smooth_loss else {}
                )
                rounds = {"max_iter": 5} if parameter == "solver" else {}
                yield kind(**{parameter: make()}, **loss, **rounds)
    for prediction in ("early", "naive", "bcm"):  # models of a level, which hold its clusters
        yield dm.ODMClassifier(strategy=dm.DivideAndConquer(prediction=prediction), n_levels=1, stop_level=1)
    yield dm.SVMClassifier(kernel="precomputed")
    yield dm.GossipSVMClassifier(conditions=FAULTS, **QUICK[dm.GossipSVMClassifier])
    for algorithm in ALGORITHMS:
        yield dm.GossipSVMClassifier(algorithm, share_rows=True, **QUICK[dm.GossipSVMClassifier])
    yield dm.ODMClassifierCV(dm.LinearODMClassifier(), **QUICK[dm.ODMClassifierCV])
    if find_spec("sklearn.callback"):
        yield dm.SVMClassifier().set_callbacks(dm.LevelScores(X, y))


def fitted(estimator, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of few rounds
        return estimator.fit(rows, y)


def rows_for(estimator, make=np.asarray):
    return X @ X.T if getattr(estimator, "kernel", None) == "precomputed" else make(X)


def loaded(machine):
    return skops.io.loads(skops.io.dumps(machine), trusted=dm.TRUSTED_TYPES)


@pytest.mark.parametrize(
    "estimator", list(all_estimators()), ids=lambda estimator: " ".join(repr(estimator).split())[:80]
)
def test_skops_loads_what_it_dumps(estimator):
    rows = rows_for(estimator)
    machine = fitted(estimator.set_params(random_state=0), rows)
    again = loaded(machine)
    assert type(again) is type(machine) and repr(again.get_params()) == repr(machine.get_params())
    values = (model.predict if is_regressor(model) else model.decision_function for model in (again, machine))
    np.testing.assert_array_equal(*(value(rows) for value in values))


def test_skops_loads_pipelines_of_sparse_rows_and_several_classes():
    rows, labels = sp.csr_array(X), np.array(["ham", "spam", "eggs"])[np.arange(len(X)) % 3]
    machine = make_pipeline(MaxAbsScaler(), dm.SVMClassifier(random_state=0)).fit(rows, labels)
    again = loaded(machine)
    np.testing.assert_array_equal(again.decision_function(rows), machine.decision_function(rows))
    np.testing.assert_array_equal(again.predict(rows), machine.predict(rows))


def test_no_type_is_missing_or_superfluous():
    """Those that skops does not trust by itself are ours, of all estimators together."""
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since version 1.9")
    machines = [fitted(estimator, rows_for(estimator)) for estimator in all_estimators()]
    machines += [fitted(dm.SVMClassifier(), sp.csr_array(X)), FourierFeatures().fit(X)]
    wide = sp.csr_array(X[:, :2] @ np.eye(2, 10**6))
    machines += [
        CalendarFeatures().fit([["2026-11-25"]]),
        CategoryEncoder().fit([["nurse"]]),
        SparseScaler().fit(wide),
        fitted(dm.LinearODMClassifier(), wide),
    ]
    found = set().union(*(skops.io.get_untrusted_types(data=skops.io.dumps(machine)) for machine in machines))
    ours = [name for name in dm.TRUSTED_TYPES if not name.startswith("dimargin_bench.")]  # which it registers
    assert found == set(ours) and len(found) == len(ours)


def test_other_types_stay_untrusted():
    with pytest.raises(skops.io.exceptions.UntrustedTypesFoundException, match="OwnKernel"):
        loaded(dm.SVMClassifier(kernel=OwnKernel()).fit(X, y))


class OwnKernel:
    def __call__(self, left, right):
        return left @ right.T


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # mlflow's own
def test_mlflow_loads_what_it_saves(tmp_path):
    sklearn = pytest.importorskip("mlflow.sklearn")
    machine = dm.ODMClassifier(strategy=dm.DivideAndConquer(), n_levels=1, stop_level=1, random_state=0)
    machine = make_pipeline(MaxAbsScaler(), machine).fit(X, y)
    sklearn.save_model(machine, tmp_path / "model", skops_trusted_types=dm.TRUSTED_TYPES)
    again = sklearn.load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(X), machine.decision_function(X))


AUTOLOGGED = """
import sys
import mlflow, mlflow.sklearn, numpy
import dimargin as dm
from sklearn.pipeline import make_pipeline

X, y = numpy.random.default_rng(0).normal(size=(60, 2)), numpy.arange(60) % 2
mlflow.set_tracking_uri(sys.argv[1])
mlflow.sklearn.autolog(log_models=False)
machines = dm.SVMClassifier(), dm.ODMClassifierCV(random_state=0), make_pipeline(dm.ODMClassifier(strategy=dm.DiODM()))
for machine in machines:
    with mlflow.start_run() as run:
        machine.fit(X, y)
    data = mlflow.get_run(run.info.run_id).data
    print(sorted(set(data.metrics) & {"training_score"}), data.params.get("odmclassifier__strategy"))
with mlflow.start_run() as run:
    machine = dm.SVMClassifier().fit(X, y)
    mlflow.log_params(machine.get_params())
    mlflow.log_metrics({"duality_gap": machine.duality_gap_})
    logged = mlflow.sklearn.log_model(
        machine, name="machine", serialization_format="skops", skops_trusted_types=dm.TRUSTED_TYPES, pip_requirements=[]
    )
data = mlflow.get_run(run.info.run_id).data
again = mlflow.sklearn.load_model(logged.model_uri)
print(data.params["kernel"], sorted(data.metrics), (again.decision_function(X) == machine.decision_function(X)).all())
mlflow.sklearn.autolog(serialization_format="skops", silent=True)
with mlflow.start_run() as run:
    make_pipeline(dm.SVMClassifier()).fit(X, y)
print(mlflow.get_run(run.info.run_id).data.metrics)
"""


@pytest.mark.slow
def test_mlflow_logs_what_the_docs_say(tmp_path):
    """Autologging sees pipelines alone, and the lines of docs/interoperability.md log a machine."""
    pytest.importorskip("mlflow.sklearn")
    uri = (tmp_path / "runs").as_uri()
    done = subprocess.run(  # because autologging changes scikit-learn's classes
        [sys.executable, "-c", AUTOLOGGED, uri], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true"},
    )  # fmt: skip
    expected = ["[] None", "[] None", "['training_score'] DiODM()", "rbf ['duality_gap'] True", "{}"]
    assert done.stdout.splitlines() == expected, done.stderr
