"""LIBSVM's text models in both directions, with LIBSVM itself at the other end."""

import os
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from libsvm_counterpart import official, svm
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC, LinearSVC

import dimargin as dm
from dimargin.io.libsvm import LibsvmModel
from dimargin.io.libsvm.text_model import write_libsvm_model
from dimargin.io.models import ModelFileError
from dimargin.kernels.functions import Kernel

KERNELS = {
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.5},
    "rbf": {"kernel": "rbf", "gamma": 0.7},
}


def rows(n_classes=2, n=150, seed=0):
    return make_classification(
        n, 5, n_informative=4, n_redundant=0, n_classes=n_classes, n_clusters_per_class=1, random_state=seed
    )


# ---- ours, read by LIBSVM --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "machine",
    [dm.SVMClassifier(C=3.0), dm.SVMClassifier(C=3.0, loss="squared_hinge"), dm.ODMClassifier(lam=100.0)],
    ids=["hinge", "squared hinge", "ODM"],
)
@pytest.mark.parametrize("form", [np.asarray, np.float32, sp.csr_array], ids=["dense", "float32", "sparse"])
def test_libsvm_reads_ours(tmp_path, kernel, machine, form):
    X, y = rows()
    X = form(np.where(np.abs(X) < 0.3, 0.0, X))
    machine.set_params(**KERNELS[kernel], tol=1e-6).fit(X, y)
    dm.to_libsvm(machine, tmp_path / "m")
    assert (tmp_path / "m").stat().st_mode & 0o077 == 0  # it holds rows
    labels, values = official(tmp_path / "m", X)
    assert_allclose(values[:, 0], machine.decision_function(X), rtol=1e-5, atol=1e-5)
    assert (labels == machine.predict(X)).all()
    ours = dm.from_libsvm(tmp_path / "m")
    assert_allclose(ours.decision_values(X), values, rtol=1e-9, atol=1e-9)
    assert (ours.predict(X) == labels).all()


@pytest.mark.parametrize("labels", [(-1, 1), (0, 1), (7, -3), (1.0, 2.0), (False, True)])
def test_a_positive_value_means_the_first_label(tmp_path, labels):
    X, y = rows()
    y = np.array(labels)[y]
    machine = dm.SVMClassifier(gamma=0.5).fit(X, y)
    dm.to_libsvm(machine, tmp_path / "m")
    model = dm.from_libsvm(tmp_path / "m")
    assert model.labels.tolist() == sorted(labels, reverse=True)
    assert (official(tmp_path / "m", X)[0] == machine.predict(X)).all()
    assert (model.predict(X) == machine.predict(X)).all()
    assert model.n_support.sum() == len(machine.support_)
    # for the hinge, support vectors stand under their own class
    assert model.n_support.tolist() == machine.n_support_[::-1].tolist()


@pytest.mark.parametrize(
    "machine",
    [
        dm.SVMClassifier(C=5.0, gamma=0.3),
        dm.ODMClassifier(gamma=0.3, lam=1000.0),
        dm.SVMClassifier(C=0.5, kernel="linear"),  # its gamma, another for every pair, is not used
    ],
)
def test_one_vs_one_of_scikit_learn_has_a_form(tmp_path, machine):
    X, y = rows(4)
    y = np.array([5, -2, 9, 0])[y]
    several = OneVsOneClassifier(machine).fit(X, y)
    dm.to_libsvm(several, tmp_path / "m")
    labels, values = official(tmp_path / "m", X)
    # a pair's machine is positive for its second class
    expected = [-pair.decision_function(X) for pair in several.estimators_]
    assert_allclose(values.T, expected, atol=1e-5)
    model = dm.from_libsvm(tmp_path / "m")
    assert_allclose(model.decision_values(sp.csr_array(X)), values, atol=1e-9)
    assert (model.predict(X) == labels).all() and model.labels.tolist() == [-2, 0, 5, 9]
    assert np.mean(labels == several.predict(X)) > 0.98  # votes; scikit-learn's break ties by decision values
    kept = model.support_vectors.toarray()
    if isinstance(machine, dm.SVMClassifier):  # of which each is stored once, under its class
        assert len(np.unique(kept, axis=0)) == len(kept)


@pytest.mark.parametrize(
    "machine",
    [
        dm.SVMClassifier(C=3.0, gamma=0.7, fit_intercept=True),
        dm.ODMClassifier(gamma=0.7),
        dm.SVMClassifier(kernel="linear"),
    ],
    ids=["hinge", "ODM", "linear"],
)
def test_pairs_of_one_machine_have_a_form(tmp_path, machine):
    X, y = rows(4)
    machine.set_params(multi_class="one_vs_one", pair_scores="votes").fit(X, np.array([5, -2, 9, 0])[y])
    dm.to_libsvm(machine, tmp_path / "m")
    labels, values = official(tmp_path / "m", X)
    expected = OneVsOneClassifier(machine).fit(X, np.array([5, -2, 9, 0])[y])
    assert_allclose(values.T, [-pair.decision_function(X) for pair in expected.estimators_], atol=1e-5)
    model = dm.from_libsvm(tmp_path / "m")
    assert (model.predict(X) == labels).all() and model.labels.tolist() == [-2, 0, 5, 9]
    assert model.n_support.tolist() == machine.n_support_.tolist()
    assert np.mean(labels == machine.predict(X)) > 0.98  # LIBSVM breaks ties of votes by the order of the labels
    with pytest.raises(ValueError, match="laplacian"):
        dm.to_libsvm(machine.set_params(kernel="laplacian").fit(X, y), tmp_path / "m")


@pytest.mark.parametrize(
    ("kernel", "shown"),
    [
        ({"kernel": "linear"}, "linear"),
        ({"gamma": 0.25}, "rbf (gamma 0.25)"),
        ({"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0}, "poly (gamma 0.5, degree 2, coef0 1)"),
    ],
)
def test_a_model_is_shown_in_a_line_and_scored(tmp_path, kernel, shown):
    X, y = rows(3)
    y = np.array([5, -2, 9])[y]
    weights = np.random.default_rng(0).uniform(size=len(y))
    machine = dm.SVMClassifier(**kernel).fit(X, y)
    dm.to_libsvm(machine, tmp_path / "m")
    model = dm.from_libsvm(tmp_path / "m")
    n = int(model.n_support.sum())
    assert repr(model) == f"<LibsvmModel: kernel {shown}, labels -2, 5, 9, {n:,} support vectors>"
    right = model.predict(X) == y
    assert model.score(X, y) == right.mean() > 0.5
    assert model.score(X, y, weights) == pytest.approx(np.average(right, weights=weights))


# ---- theirs, read by us ----------------------------------------------------------------------------------------------

MODELS = {
    "binary": ([-1, 1], "-t 2 -g 0.4 -c 10"),
    "first 0, then 1": ([0, 1], "-t 2 -g 0.4"),
    "linear": ([1, 2], "-t 0 -c 0.5"),
    "poly": ([1, 2], "-t 1 -d 3 -g 0.5 -r 2"),
    "three classes": ([3, -1, 2], "-t 2 -g 0.2 -c 5"),
    "four classes, weights": ([4, 1, 3, 2], "-t 2 -g 0.2 -w4 5 -w2 0.1"),
    "three classes, linear": ([0, 1, 2], "-t 0"),
    "three classes, poly": ([-5, -6, -7], "-t 1 -d 2 -g 1 -r 1"),
    "probabilities": ([0, 1, 2], "-t 2 -g 0.2 -b 1"),
    "nu": ([0, 1], "-s 1 -n 0.2"),
}


@pytest.mark.parametrize("name", MODELS)
def test_we_read_theirs(tmp_path, name):
    classes, options = MODELS[name]
    X, codes = rows(len(classes))
    y = np.array(classes)[codes]
    path = tmp_path / "theirs"
    svm().svm_save_model(str(path), svm().svm_train(y.tolist(), X, f"{options} -q"))
    labels, values = official(path, X)
    model = dm.from_libsvm(path)
    assert_allclose(model.decision_values(X), values, rtol=1e-9, atol=1e-9)
    assert_allclose(model.decision_values(sp.csr_array(X)), values, rtol=1e-9, atol=1e-9)
    assert (model.predict(X) == labels).all()
    assert model.has_probabilities == ("-b 1" in options)
    # and what we write of it is as good
    write_libsvm_model(model, tmp_path / "again")
    assert_allclose(official(tmp_path / "again", X)[1], values, rtol=1e-12, atol=1e-12)


PLACES = """svm_type c_svc
kernel_type precomputed
nr_class 2
total_sv 2
rho 0.5
label 1 2
nr_sv 1 1
SV
0.5 0:3\x20
-2 0:1\x20
"""


def test_kernel_values_computed_beforehand(tmp_path):
    """In both directions, for two classes and three; X of LIBSVM's model has the row's number as column 0."""
    for n_classes in (2, 3):
        X, y = rows(n_classes, 80)
        values = np.column_stack([np.arange(1, 81), rbf_kernel(X, gamma=0.5)])
        svm().svm_save_model(str(tmp_path / "theirs"), svm().svm_train(svm().svm_problem(y, values, True), "-t 4 -q"))
        machine = dm.SVMClassifier(kernel="precomputed", C=2.0)
        machine = (machine if n_classes == 2 else OneVsOneClassifier(machine)).fit(values[:, 1:], y)
        dm.to_libsvm(machine, tmp_path / "ours")
        for path in (tmp_path / "theirs", tmp_path / "ours"):
            model, (labels, decided) = dm.from_libsvm(path), official(path, values)
            assert model.kernel is None and model.zero_based
            for form in (np.asarray, sp.csr_array):
                assert_allclose(model.decision_values(form(values)), decided, atol=1e-12)
                assert (model.predict(form(values)) == labels).all()
        machines = [machine] if n_classes == 2 else machine.estimators_
        known = [values[:, 1:]] if n_classes == 2 else [values[:, 1 + own] for own in machine.pairwise_indices_]
        sign = 1 if n_classes == 2 else -1
        expected = [sign * pair.decision_function(own) for pair, own in zip(machines, known, strict=True)]
        assert_allclose(decided.T, expected, atol=1e-9)
    (tmp_path / "m").write_text(PLACES)
    model = dm.from_libsvm(tmp_path / "m")
    assert_allclose(model.decision_values([[9, 1, 2, 7.0]]), [[0.5 * 7 - 2 * 1 - 0.5]])
    with pytest.raises(ValueError, match="X has 3 columns, but a support vector uses column 4"):
        model.decision_values([[9, 1, 2]])


@pytest.mark.parametrize("wrong", ["0:1.5", "0:0", "0:-3", "1:3", "0:3 1:1", "", "0:1e300"])
def test_indices_that_are_none(tmp_path, wrong):
    (tmp_path / "m").write_text(PLACES.replace("0:3", wrong))
    with pytest.raises(ModelFileError, match=r"line 2: .*its index in the kernel matrix"):
        dm.from_libsvm(tmp_path / "m")


def test_a_single_class_is_always_predicted(tmp_path):
    model = svm().svm_train([7, 7, 7], [{1: 1.0}, {1: 2.0}, {2: 1.0}], "-q")
    svm().svm_save_model(str(tmp_path / "m"), model)
    read = dm.from_libsvm(tmp_path / "m")
    assert read.predict([[1.0, 2.0]]).tolist() == [7] and read.decision_values([[1.0, 2.0]]).shape == (1, 0)


# ---- any model -------------------------------------------------------------------------------------------------------

finite = st.floats(-1e6, 1e6, allow_subnormal=False)


@st.composite
def models(draw):
    n_classes = draw(st.integers(2, 4))
    n_support = np.array(draw(st.lists(st.integers(0, 3), min_size=n_classes, max_size=n_classes)))
    n_vectors, width = int(n_support.sum()), draw(st.integers(1, 4))
    name = draw(st.sampled_from(["linear", "poly", "rbf"]))
    gamma = draw(st.floats(1e-3, 10))
    kernel = {
        "linear": Kernel("linear"),
        "rbf": Kernel("rbf", gamma),
        "poly": Kernel("poly", gamma, draw(st.integers(1, 4)), draw(st.floats(0, 2))),
    }[name]
    labels = draw(st.lists(st.integers(-(2**31) + 1, 2**31 - 1), min_size=n_classes, max_size=n_classes, unique=True))
    n_pairs, probabilities = n_classes * (n_classes - 1) // 2, {}
    kinds = ["c_svc", "nu_svc"]
    if n_classes == 2 and not n_support[1]:
        kinds += ["one_class", "epsilon_svr", "nu_svr"]
    kind = draw(st.sampled_from(kinds))
    if draw(st.booleans()):
        names = {"one_class": ["density_marks"], "epsilon_svr": ["probA"], "nu_svr": ["probA"]}
        for name in names.get(kind, ["probA", "probB"]):
            found = draw(arrays(float, 10 if name == "density_marks" else n_pairs, elements=finite))
            probabilities[name] = np.sort(found) if name == "density_marks" else found
    values = st.one_of(st.just(0.0), st.floats(-10, 10, allow_subnormal=False))
    X = sp.csr_array(draw(arrays(float, (n_vectors, width), elements=values)))
    X.eliminate_zeros()
    if draw(st.booleans()):  # feature numbers far apart
        X = sp.csr_array((X.data, X.indices * 1000, X.indptr), shape=(n_vectors, 1000 * width))
    return LibsvmModel(
        kernel,
        np.array(labels if kind in kinds[:2] else [], dtype=np.int64),
        draw(arrays(float, n_pairs, elements=finite)),
        n_support,
        draw(arrays(float, (n_classes - 1, n_vectors), elements=finite)),
        X,
        svm_type=kind,
        **probabilities,
    )


@pytest.mark.slow
@given(model=models())
@example(
    LibsvmModel(
        Kernel("linear"), np.array([0, 1]), np.zeros(1), np.array([0, 1]), np.array([[-0.0]]), sp.csr_array((1, 1))
    )
)
def test_a_round_trip_changes_nothing(tmp_path_factory, model):
    path = tmp_path_factory.mktemp("models") / "m"
    write_libsvm_model(model, path)
    again = dm.from_libsvm(path)
    assert again.kernel == model.kernel and not again.zero_based and again.svm_type == model.svm_type
    for name in ("labels", "rho", "n_support", "coefficients", "probA", "probB", "density_marks"):
        assert np.array_equal(getattr(again, name), getattr(model, name)), name
    width = again.support_vectors.shape[1]
    assert not model.support_vectors[:, width:].nnz
    assert np.array_equal(again.support_vectors.toarray(), model.support_vectors[:, :width].toarray())
    before = path.read_bytes()
    write_libsvm_model(again, path)
    assert path.read_bytes() == before
    if model.support_vectors.shape[0]:
        X = np.random.default_rng(0).normal(size=(3, model.support_vectors.shape[1]))
        _, values = official(path, X)
        scale = 1 + np.abs(model.rho).max() + np.abs(model.coefficients).sum() * 1e6
        assert_allclose(again.decision_values(X), values, atol=1e-12 * scale, rtol=1e-8)


def test_ties_go_to_the_first_label(tmp_path):
    """Class 0 beats 1, 1 beats 2, 2 beats 0; and a decision value of zero is a vote for the second."""
    model = LibsvmModel(
        Kernel("linear"), np.array([8, 5, 6]), np.array([-1.0, 1.0, -1.0]), np.array([1, 0, 0]), np.zeros((2, 1)),
        sp.csr_array([[1.0]]),
    )  # fmt: skip
    write_libsvm_model(model, tmp_path / "m")
    assert model.predict([[0.0]]).tolist() == official(tmp_path / "m", [[0.0]])[0].tolist() == [8]
    zero = LibsvmModel(
        Kernel("linear"), np.array([8, 5]), np.zeros(1), np.array([1, 0]), np.zeros((1, 1)), sp.csr_array([[1.0]])
    )
    write_libsvm_model(zero, tmp_path / "m")
    assert zero.predict([[0.0]]).tolist() == official(tmp_path / "m", [[0.0]])[0].tolist() == [5]


def test_features_that_the_file_does_not_know(tmp_path):
    """The format stores no width: more columns count in distances, as in LIBSVM; fewer cannot be."""
    X, y = rows()
    svm().svm_save_model(str(tmp_path / "m"), svm().svm_train(y.tolist(), X[:, :3], "-q -g 0.5"))
    model = dm.from_libsvm(tmp_path / "m")
    for form in (np.asarray, sp.csr_array):
        assert_allclose(model.decision_values(form(X)), official(tmp_path / "m", X)[1], atol=1e-9)
        with pytest.raises(ValueError, match="X has 2 columns, but a support vector uses column 3"):
            model.predict(form(X[:, :2]))
    with pytest.raises(ValueError, match="row 1, column 2"):
        model.predict(np.array([[1.0, 2, 3], [1, 2, np.nan]]))


def test_features_counted_from_zero(tmp_path):
    svm().svm_save_model(
        str(tmp_path / "m"), svm().svm_train([1, 1, -1, -1], [{0: 1.0, 3: 1.0}, {0: 2.0}, {3: 4.0}, {1: 3.0}], "-q")
    )
    model = dm.from_libsvm(tmp_path / "m")
    assert model.zero_based and model.support_vectors.shape == (4, 4)
    assert model.predict([[1.0, 0, 0, 0], [0, 0, 0, 4.0]]).tolist() == [1, -1]
    write_libsvm_model(model, tmp_path / "again")
    assert " 0:" in (tmp_path / "again").read_text()
    with pytest.raises(ModelFileError, match="has a feature 0"):
        dm.from_libsvm(tmp_path / "m", zero_based=False)


@pytest.mark.slow
@given(seed=st.integers(0, 1000), n_classes=st.integers(2, 3), C=st.floats(0.1, 100), gamma=st.floats(0.01, 10))
def test_many_machines(tmp_path_factory, seed, n_classes, C, gamma):
    path = tmp_path_factory.mktemp("models") / "m"
    X, y = rows(n_classes, 60, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine = OneVsOneClassifier(dm.SVMClassifier(C=C, gamma=gamma)).fit(X, y)
    dm.to_libsvm(machine, path)
    labels, values = official(path, X)
    assert_allclose(values.T, [-pair.decision_function(X) for pair in machine.estimators_], atol=1e-5, rtol=1e-5)
    assert (dm.from_libsvm(path).predict(X) == labels).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["svmguide1", "a9a", "usps"])
def test_real_data(data_folder, tmp_path, name):
    """Their model of real rows, dense and sparse, of two classes and ten."""
    data = dm.io.data.read_data(data_folder / f"{name}.bz2")
    chosen = np.random.default_rng(0).permutation(data.X.shape[0])[:800]
    X, y, test = data.X[chosen[:500]], data.y[chosen[:500]], data.X[chosen[500:]]
    theirs = svm().svm_train(y.tolist(), sp.csr_matrix(X) if sp.issparse(X) else X, "-q -c 10")
    svm().svm_save_model(str(tmp_path / "m"), theirs)
    labels, values = official(tmp_path / "m", test)
    model = dm.from_libsvm(tmp_path / "m")
    assert_allclose(model.decision_values(test), values, atol=1e-8)
    assert (model.predict(test) == labels).all()


# ---- what has no LIBSVM form -----------------------------------------------------------------------------------------


def test_what_has_no_form_is_refused_with_the_reason(tmp_path):
    X, y = rows()
    iris, species = load_iris(return_X_y=True)
    text = np.array(["ham", "spam"])[y]
    rest, clusters = (
        dm.ODMClassifier(multi_class="one_vs_rest"),
        dm.SVMClassifier(strategy="dc", n_levels=1, stop_level=1),
    )
    cases = [
        (rest.fit(iris, species), ValueError, "one-vs-rest for 3 classes.*multi_class='one_vs_one'"),
        (dm.SVMClassifier(kernel="laplacian").fit(X, y), ValueError, "kernel=.laplacian. has no LIBSVM form"),
        (clusters.fit(X, y), ValueError, "predicts by clusters has no LIBSVM form"),
        (dm.SVMClassifier(kernel=linear_kernel).fit(X, y), ValueError, "a function has no LIBSVM form"),
        (make_pipeline(MinMaxScaler(), dm.SVMClassifier()).fit(X, y), TypeError, "pass only the machine"),
        (LinearSVC().fit(X, y), TypeError, "expected a kernel machine of dimargin or sklearn.svm, got LinearSVC"),
        (OneVsOneClassifier(SVC()).fit(iris, species), TypeError, "expected pairs of kernel machines.* got SVC"),
        (OneVsOneClassifier(dm.SVMClassifier()).fit(iris, species), ValueError, "kernels differ .*; set gamma"),
        (dm.SVMClassifier().fit(X, text), ValueError, r"integers of 32 bits, got \['spam', 'ham'\]"),
        (dm.SVMClassifier().fit(X, y * 2**40), ValueError, "32 bits"),
        (dm.SVMClassifier(), NotFittedError, "not fitted"),
        (OneVsOneClassifier(dm.SVMClassifier()), NotFittedError, "not fitted"),
    ]
    for estimator, error, message in cases:
        with pytest.raises(error, match=message):
            dm.to_libsvm(estimator, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_model(tmp_path, monkeypatch):
    X, y = make_moons(50, random_state=0)
    machine = dm.SVMClassifier().fit(X, y)
    dm.to_libsvm(machine, tmp_path / "m")
    before = (tmp_path / "m").read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        dm.to_libsvm(machine.set_params(C=9.0).fit(X, y), tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before and len(list(tmp_path.iterdir())) == 1
