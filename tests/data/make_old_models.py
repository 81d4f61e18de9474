"""Writes the models in tests/data/old_models, one or more of every class, and what they predict.

They were written before the codecs of files were put together, and are read by
tests/io/models/test_old_models.py. Do not write them again: they stand for the files that users
have.
"""

import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_iris, make_moons
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import dimargin as dm
from dimargin.estimators.preprocessing import FourierFeatures
from dimargin.kernels.functions import Kernel
from dimargin.kernels.row_transform import RowTransform
from dimargin.spark.engine.packing import Packing

HERE = Path(__file__).parent / "old_models"
TWO, SIDES = make_moons(60, noise=0.2, random_state=0)
THREE, KINDS = load_iris(return_X_y=True)
THREE, KINDS = THREE[::3], KINDS[::3]
SPARSE = np.where(np.abs(THREE - 3) < 1, 0.0, THREE)
VALUES = TWO @ TWO.T + 1.0
TEXTS = np.array(["ham", "spam"])[SIDES]
FLOWERS = np.array(["setosa", "versicolor", "virginica"], dtype=object)[KINDS]
INPUTS = {"two": TWO, "three": THREE, "sparse": SPARSE, "values": VALUES, "single": TWO.astype(np.float32)}


def machines():
    """Yield the names of models, unfitted, and of what they are fitted on, with the labels."""
    fixed = {"random_state": 0, "lam": 100.0}
    for kernel in ("linear", "poly", "rbf", "laplacian"):
        yield f"odm_{kernel}", dm.ODMClassifier(kernel, **fixed), "two", SIDES
    yield "odm_three", dm.ODMClassifier(class_weight="balanced", **fixed), "three", FLOWERS
    yield "odm_sparse", dm.ODMClassifier(**fixed), "sparse", KINDS
    yield "odm_single", dm.ODMClassifier(**fixed), "single", TEXTS
    yield "odm_values", dm.ODMClassifier("precomputed", **fixed), "values", SIDES
    ways = {
        "diodm": dm.DiODM(early_stop=False, sample_size=30),
        "routed": dm.DivideAndConquer(sample_size=20, max_cluster_size=12),
        "committee": dm.DivideAndConquer(prediction="bcm"),
        "naive": dm.DivideAndConquer(prediction="naive"),
        "cascade": dm.Cascade(rounds=1),
        "dip": dm.DiP(),
    }
    for name, way in ways.items():
        level = dm.ODMClassifier(strategy=way, stop_level=1, n_levels=1, **fixed)
        yield f"level_{name}", level, "two", SIDES
    yield "level_sparse", dm.ODMClassifier(strategy=ways["routed"], stop_level=1, n_levels=1, **fixed), "sparse", KINDS
    yield "odm_landmark", dm.ODMClassifier(strategy="landmark", **fixed), "two", SIDES
    yield "svm_two", dm.SVMClassifier(C=10.0, fit_intercept=True, class_weight={"spam": 2.0}), "two", TEXTS
    yield "svm_three", dm.SVMClassifier(kernel="poly", degree=2, coef0=1.0), "three", KINDS
    for solver in (dm.LinearNewton(), dm.LinearSVRG(), dm.LinearDSVRG(), dm.LinearCoreSetSVRG()):
        yield f"linear_{type(solver).__name__}", dm.LinearODMClassifier(solver=solver, random_state=0), "two", TEXTS
    yield "linear_three", dm.LinearODMClassifier(random_state=0), "sparse", FLOWERS
    yield "core_set_two", dm.CoreSetSVMClassifier(random_state=0), "two", SIDES
    yield "core_set_three", dm.CoreSetSVMClassifier(random_state=0), "sparse", KINDS
    yield "gossip_two", dm.GossipSVMClassifier(n_sites=4, max_iter=50, random_state=0), "two", SIDES
    yield "gossip_three", dm.GossipSVMClassifier(n_sites=4, max_iter=50, random_state=0), "three", FLOWERS
    yield "ball_linear", dm.CoreSetSVDD(kernel="linear", random_state=0), "two", None
    yield "ball_rbf", dm.CoreSetSVDD(C=0.1, random_state=0), "sparse", None
    yield "one_class_rbf", dm.OneClassCoreSetSVM(C=0.1, random_state=0), "three", None
    yield "one_class_values", dm.OneClassCoreSetSVM(kernel="precomputed", random_state=0), "values", None
    scaled = dm.ODMClassifier(**fixed)
    yield "scaled_standard", make_pipeline(StandardScaler(), scaled), "two", SIDES
    yield "scaled_minmax", make_pipeline(MinMaxScaler(), scaled), "two", TEXTS
    fourier = FourierFeatures(gamma=0.5, n_components=20)
    yield "features_fourier", make_pipeline(fourier, dm.LinearODMClassifier(random_state=0)), "two", SIDES
    yield "scaled_maxabs", make_pipeline(MaxAbsScaler(), dm.LinearODMClassifier(random_state=0)), "sparse", KINDS


def rows(name):
    """Return the rows of a name."""
    return sp.csr_array(INPUTS[name]) if name == "sparse" else INPUTS[name]


def main():
    """Write all files."""
    expected = {}
    for name, model, data, y in machines():
        X = rows(data)
        model.fit(X) if y is None else model.fit(X, y)
        dm.save(model, HERE / f"{name}.dimargin", notes={"label": "class"})
        expected[name] = {"rows": data, "labels": model.predict(X), "values": model.decision_function(X)}
    svm = dm.SVMClassifier(gamma=0.5, random_state=0)
    libsvm = {
        "libsvm_two": (svm.fit(TWO, SIDES), TWO),
        "libsvm_three": (OneVsOneClassifier(dm.SVMClassifier(gamma=0.5)).fit(THREE, KINDS), THREE),
    }
    for name, (model, X) in libsvm.items():
        dm.to_libsvm(model, HERE / f"{name}.model")
        read, data = dm.from_libsvm(HERE / f"{name}.model"), "two" if X is TWO else "three"
        expected[name] = {"rows": data, "labels": read.predict(X), "values": read.decision_values(X)}
    flat = {f"{name} {part}": np.asarray(value) for name, parts in expected.items() for part, value in parts.items()}
    flat = {key: value.astype(str) if value.dtype == object else value for key, value in flat.items()}
    inputs = {name: X for name, X in INPUTS.items() if name != "values"}
    np.savez_compressed(HERE / "expected.npz", **flat, **inputs)
    (HERE / "packed.npz").write_bytes(PACKING.pack(packed_values()))


PACKING = Packing((Kernel, RowTransform))


def packed_values():
    """Return a value of every kind that checkpoints hold."""
    return {
        "plain": [None, True, 3, 0.5, "text", (1, [2])],
        7: {"nested": (np.arange(3.0), np.array(["a", "bc"]))},
        "scalars": (np.float32(0.1), np.int64(5), np.float64(2.5)),
        "rows": sp.csr_array([[0.0, 2.0], [1.0, 0.0]]),
        "transform": RowTransform(Kernel("rbf", 0.5), np.array([1.0, 2.0]), np.float32, True, 3.0),
    }


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
