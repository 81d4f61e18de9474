"""LIBSVM's text models of all types, in both directions, with LIBSVM itself at the other end."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from libsvm_counterpart import predicted, svm
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification, make_friedman1
from sklearn.metrics import r2_score

import dimargin as dm
import dimargin.svm
from dimargin.io.libsvm.pairwise_coupling import coupled_probabilities
from dimargin.io.libsvm.text_model import write_libsvm_model
from dimargin.io.models import ModelFileError

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
TYPES = ["c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr"]
KERNELS = {
    "linear": (["-t", "0"], {"kernel": "linear"}),
    "poly": (["-t", "1", "-d", "2", "-g", "0.5", "-r", "1.5"],
             {"kernel": "poly", "degree": 2, "gamma": 0.5, "coef0": 1.5}),
    "rbf": (["-t", "2", "-g", "0.7"], {"kernel": "rbf", "gamma": 0.7}),
    "precomputed": (["-t", "4"], {"kernel": "precomputed"}),
}  # fmt: skip


def rows(svm_type, n=120):
    if svm_type.endswith("svc"):
        X, codes = make_classification(
            n, 5, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=1, flip_y=0.1, random_state=0
        )
        return X, np.array([4, -1, 2])[codes]
    X, y = make_friedman1(n, 5, noise=1.0, random_state=0)
    return X, y - y.mean()


def as_official(X, kernel):
    """Rows as LIBSVM takes them: with a precomputed kernel, feature 0 is the row's number."""
    return np.column_stack([np.arange(1, len(X) + 1), X @ X.T]) if kernel == "precomputed" else X


def saved(path, svm_type, kernel, more=()):
    X, y = rows(svm_type)
    given = as_official(X, kernel)
    flags = ["-s", str(TYPES.index(svm_type)), "-n", "0.3", *KERNELS[kernel][0], *more, "-q"]
    model = svm().svm_train(svm().svm_problem(y, given, kernel == "precomputed"), flags)
    svm().svm_save_model(str(path), model)
    return given, y


@pytest.mark.parametrize("svm_type", TYPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_models_of_libsvm_predict_here_and_are_written_again(tmp_path, svm_type, kernel):
    X, _ = saved(tmp_path / "theirs", svm_type, kernel)
    labels, values = predicted(tmp_path / "theirs", X)
    model = dm.from_libsvm(tmp_path / "theirs")
    assert model.svm_type == svm_type and not model.has_probabilities
    for form in (np.asarray, sp.csr_array):
        assert_allclose(model.decision_values(form(X)), values, **CLOSE)
        assert_allclose(model.predict(form(X)), labels, **CLOSE)
    write_libsvm_model(model, tmp_path / "again")
    assert_allclose(predicted(tmp_path / "again", X)[1], values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("svm_type", ["c_svc", "nu_svc", "one_class"])
def test_probabilities_are_those_of_libsvm(tmp_path, svm_type):
    X, _ = saved(tmp_path / "theirs", svm_type, "rbf", ["-b", "1"])
    model = dm.from_libsvm(tmp_path / "theirs")
    write_libsvm_model(model, tmp_path / "again")
    assert model.has_probabilities
    for path in ("theirs", "again"):
        _, values = predicted(tmp_path / path, X, probabilities=True)
        assert_allclose(dm.from_libsvm(tmp_path / path).predict_proba(X), values, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("svm_type", ["epsilon_svr", "nu_svr"])
def test_the_scale_of_errors_is_kept(tmp_path, svm_type):
    saved(tmp_path / "theirs", svm_type, "rbf", ["-b", "1"])
    model = dm.from_libsvm(tmp_path / "theirs")
    theirs = svm().svm_load_model(str(tmp_path / "theirs"))
    assert model.probA[0] == theirs.get_svr_probability() and model.probB is None
    write_libsvm_model(model, tmp_path / "again")
    assert svm().svm_load_model(str(tmp_path / "again")).get_svr_probability() == model.probA[0]
    with pytest.raises(ValueError, match="no probabilities of classes: it is a regression"):
        model.predict_proba(np.zeros((1, 5)))


ESTIMATORS = {
    "SVC": ("c_svc", lambda module, own: module.SVC(C=3.0, **own)),
    "NuSVC": ("nu_svc", lambda module, own: module.NuSVC(nu=0.6, **own)),
    "OneClassSVM": ("one_class", lambda module, own: module.OneClassSVM(nu=0.3, **own)),
    "SVR": ("epsilon_svr", lambda module, own: module.SVR(C=3.0, **own)),
    "NuSVR": ("nu_svr", lambda module, own: module.NuSVR(C=3.0, nu=0.3, **own)),
}


@pytest.mark.parametrize("module", [dimargin.svm, sklearn.svm], ids=["dimargin", "sklearn"])
@pytest.mark.parametrize("name", [*ESTIMATORS, "SVC of two classes", "NuSVC of two classes"])
@pytest.mark.parametrize(("kernel", "form"), [*((name, np.asarray) for name in KERNELS), ("rbf", sp.csr_array)])
def test_libsvm_reads_the_classes_of_scikit_learns_names(tmp_path, module, name, kernel, form):
    svm_type, made = ESTIMATORS[name.split()[0]]
    has_two_classes = "two" in name
    X, y = rows(svm_type)
    if has_two_classes:
        X, y = X[y > 0], y[y > 0]
    given = as_official(X, kernel)
    X = form(given[:, 1:] if kernel == "precomputed" else X)
    machine = made(module, KERNELS[kernel][1]).fit(X, y)
    dm.to_libsvm(machine, tmp_path / "m")
    labels, values = predicted(tmp_path / "m", given)
    assert_allclose(labels, machine.predict(X), rtol=1e-6, atol=1e-6)
    if has_two_classes:
        assert_allclose(-values[:, 0], machine.decision_function(X), rtol=1e-6, atol=1e-6)
    model = dm.from_libsvm(tmp_path / "m")
    assert model.svm_type == svm_type
    assert_allclose(model.decision_values(given), values, **CLOSE)
    assert model.score(given, labels) == 1.0


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", ["SVC", "NuSVC"])
def test_libsvm_reads_their_probabilities(tmp_path, name):
    X, y = rows("c_svc")
    machine = ESTIMATORS[name][1](dimargin.svm, {"probability": True, "random_state": 0}).fit(X, y)
    dm.to_libsvm(machine, tmp_path / "m")
    _, values = predicted(tmp_path / "m", X, probabilities=True)
    assert_allclose(values, machine.predict_proba(X), rtol=1e-6, atol=1e-6)
    assert_allclose(dm.from_libsvm(tmp_path / "m").predict_proba(X), values, **CLOSE)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_libsvm_reads_our_regressor(tmp_path, loss, kernel):
    X, y = rows("epsilon_svr")
    given = as_official(X, kernel)
    X = given[:, 1:] if kernel == "precomputed" else X
    machine = dm.SVMRegressor(C=2.0, loss=loss, **KERNELS[kernel][1]).fit(X, y)
    dm.to_libsvm(machine, tmp_path / "m")
    assert_allclose(predicted(tmp_path / "m", given)[0], machine.predict(X), rtol=1e-6, atol=1e-6)
    model = dm.from_libsvm(tmp_path / "m")
    assert_allclose(model.predict(given), machine.predict(X), rtol=1e-6, atol=1e-6)
    assert model.score(given, y) == pytest.approx(r2_score(y, model.predict(given)))
    assert f"epsilon_svr, {len(machine.support_)} support vectors" in repr(model)


def test_coupled_probabilities_are_near_the_minimum():
    """LIBSVM's tolerance leaves a distance; the linear system of the exact minimum is the authors' equation 19."""
    rng = np.random.default_rng(0)
    first = rng.uniform(0.05, 0.95, (200, 10))
    found = coupled_probabilities(first, 5)
    assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)
    for own, p in zip(first, found, strict=True):
        r = np.zeros((5, 5))
        r[np.triu_indices(5, 1)] = own
        r.T[np.triu_indices(5, 1)] = 1 - own
        Q = np.diag((r**2).sum(axis=0)) - r * r.T
        system = np.block([[Q, np.ones((5, 1))], [np.ones((1, 5)), np.zeros((1, 1))]])
        exact = np.linalg.solve(system, [0, 0, 0, 0, 0, 1])[:5]
        assert_allclose(p, exact, atol=5e-3)


REGRESSION = """svm_type epsilon_svr
kernel_type linear
nr_class 2
total_sv 1
rho 0.5
probA 0.25
SV
2 1:3\x20
"""
MARKS = "prob_density_marks " + " ".join(map(str, range(10)))
LIES = {
    "classes": ("nr_class 2", "nr_class 3", "line 3: .*expected 2, which LIBSVM writes for epsilon_svr"),
    "labels": ("rho 0.5\n", "rho 0.5\nlabel 1 2\n", "line 6: .*a model of type epsilon_svr does not have it"),
    "counts": ("rho 0.5\n", "rho 0.5\nnr_sv 1 0\n", "line 6: .*a model of type epsilon_svr does not have it"),
    "probB": ("probA 0.25\n", "probA 0.25\nprobB 1\n", "line 7: .*a model of type epsilon_svr does not have it"),
    "two scales": ("probA 0.25", "probA 0.25 1", "line 6: .*expected 1 value, got 2"),
    "scale nan": ("probA 0.25", "probA nan", "line 6: .*finite"),
    "marks": ("probA 0.25", MARKS, "line 6: .*a model of type epsilon_svr does not have it"),
    "vectors": ("total_sv 1", "total_sv 2", "1 support vectors, expected total_sv, 2"),
    "one class": ("epsilon_svr", "one_class", "line 6: .*a model of type one_class does not have it"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_regression_that_lies_is_refused(tmp_path, lie):
    (tmp_path / "m").write_text(REGRESSION)
    assert dm.from_libsvm(tmp_path / "m").predict([[1.5]]).tolist() == [8.5]
    before, after, message = LIES[lie]
    (tmp_path / "m").write_text(REGRESSION.replace(before, after))
    with pytest.raises(ModelFileError, match=message):
        dm.from_libsvm(tmp_path / "m")


def test_probabilities_that_lie_are_refused(tmp_path):
    one_class = REGRESSION.replace("epsilon_svr", "one_class").replace("probA 0.25", MARKS)
    (tmp_path / "m").write_text(one_class)
    found = dm.from_libsvm(tmp_path / "m").predict_proba([[0.0], [1.5 / 6], [99.0]])
    assert_allclose(found[:, 0], [0.001, 0.2, 0.999])
    classes = REGRESSION.replace("epsilon_svr", "c_svc").replace("SV\n", "label 1 2\nnr_sv 1 0\nSV\n")
    for text, message in (
        (one_class.replace("8 9", "9 8"), "line 6: .*ascending"),
        (one_class.replace(" 9", ""), "expected 10 values, got 9"),
        (classes, "no line 'probB'"),
    ):
        (tmp_path / "m").write_text(text)
        with pytest.raises(ModelFileError, match=message):
            dm.from_libsvm(tmp_path / "m")
    (tmp_path / "m").write_text(classes.replace("probA 0.25\n", ""))
    with pytest.raises(ValueError, match="it was trained without them"):
        dm.from_libsvm(tmp_path / "m").predict_proba([[1.0]])


def test_kernels_that_are_not_written(tmp_path):
    X, y = rows("c_svc")
    for kernel, message in (("sigmoid", "not positive semi-definite"), (lambda A, B: A @ B.T, "is a function")):
        with pytest.raises(ValueError, match=message):
            dm.to_libsvm(sklearn.svm.SVC(kernel=kernel).fit(X, y), tmp_path / "m")
    assert not list(tmp_path.iterdir())
