"""LIBLINEAR's text models: written by hand, by LIBLINEAR, from scikit-learn's machines and from ours; and damaged."""

import itertools
import os
import subprocess
import sys

import bounded
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from liblinear_counterpart import official, train
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import dimargin as dm
from dimargin.io.data import lines
from dimargin.io.libsvm import LiblinearModel
from dimargin.io.libsvm.liblinear_model import write_liblinear_model
from dimargin.io.models import ModelFileError

TEXT = """solver_type L2R_L1LOSS_SVC_DUAL
nr_class 3
label 4 -1 2
nr_feature 2
bias 2
w
0.5 -1 0.25\x20
1 0 -2e-1\x20
-0.125 3 1\x20
"""


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "some.model"
    path.write_text(TEXT)
    return path


def problem(n_classes=2, n=200, seed=0):
    X, y = make_classification(
        n, 6, n_informative=4, n_redundant=0, n_classes=n_classes, n_clusters_per_class=1, flip_y=0.1,
        random_state=seed,
    )  # fmt: skip
    return X, y


def parsed(path):
    """Return header and weights of a file, read by nothing of the library."""
    head, _, rest = path.read_text().partition("\nw\n")
    words = dict(line.split(" ", 1) for line in head.splitlines())
    return words, np.array([[float(word) for word in line.split()] for line in rest.splitlines()])


def values_by_hand(path, X):
    """Return decision values by the formula of LIBLINEAR's README."""
    words, weights = parsed(path)
    bias = float(words["bias"])
    X = np.hstack([X, np.full((len(X), 1), bias)]) if bias >= 0 else X
    return X @ weights


def test_a_model_by_hand(model_file):
    model = dm.from_liblinear(model_file)
    expected = [3 * 0.5 + 1 - 0.25, -3.0 + 6, 0.75 - 0.2 + 2]
    assert_allclose(model.decision_values([[3.0, 1.0]])[0], expected, rtol=1e-15)
    assert model.predict([[3.0, 1.0], [30, 0]]).tolist() == [-1, 4]
    assert model.score([[3.0, 1.0], [30, 0]], [-1, -1]) == 0.5
    assert repr(model) == "<LiblinearModel: L2R_L1LOSS_SVC_DUAL, labels 4, -1, 2, 2 features, bias 2>"


def test_of_two_classes_the_first_is_positive_and_zero_is_the_second(model_file):
    model_file.write_text("solver_type L2R_LR\nnr_class 2\nlabel 7 9\nnr_feature 1\nbias -1\nw\n2 \n")
    model = dm.from_liblinear(model_file)
    assert model.predict([[0.5], [0.0], [-0.5]]).tolist() == [7, 9, 9]
    assert repr(model).endswith("labels 7, 9, 1 features>")


def test_crammer_singer_has_two_weights_for_two_classes(model_file):
    model_file.write_text("solver_type MCSVM_CS\nnr_class 2\nlabel 7 9\nnr_feature 1\nbias -1\nw\n2 -1 \n")
    assert dm.from_liblinear(model_file).predict([[0.5], [0.0], [-0.5]]).tolist() == [7, 7, 9]


MACHINES = {
    "hinge": (dm.LinearSVMClassifier(), "L2R_L1LOSS_SVC_DUAL"),
    "squared hinge": (dm.LinearSVMClassifier(loss="squared_hinge"), "L2R_L2LOSS_SVC"),
    "no intercept": (dm.LinearSVMClassifier(fit_intercept=False), "L2R_L1LOSS_SVC_DUAL"),
    "odm": (dm.LinearODMClassifier(), "L2R_L2LOSS_SVC"),
}


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MACHINES)
def test_ours_is_written_without_loss(name, n_classes, storage, tmp_path):
    machine, solver = MACHINES[name]
    X, y = problem(n_classes)
    path, labels = tmp_path / "m", 10 * y - 7
    machine.fit(storage(X), labels)
    dm.to_liblinear(machine, path)
    words, weights = parsed(path)
    assert words["solver_type"] == solver and words["bias"] == "1" and words["nr_feature"] == "6"
    assert np.array_equal(weights.T, np.column_stack([machine.coef_, machine.intercept_]))
    expected = machine.decision_function(X).reshape(len(X), -1)
    model = dm.from_liblinear(path)
    for values in (model.decision_values(storage(X)), values_by_hand(path, X)):
        assert_allclose(values, expected, rtol=1e-12, atol=1e-12)
    assert np.array_equal(model.predict(X), machine.predict(X))
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MACHINES)
def test_liblinear_reads_ours(name, n_classes, tmp_path):
    machine, _ = MACHINES[name]
    X, y = problem(n_classes)
    dm.to_liblinear(machine.fit(X, y), tmp_path / "m")
    labels, values = official(tmp_path / "m", X)
    assert_allclose(values, machine.decision_function(X).reshape(values.shape), rtol=1e-12, atol=1e-12)
    assert np.array_equal(labels, machine.predict(X))


REGRESSORS = {
    "absolute": (dm.LinearSVMRegressor(), "L2R_L1LOSS_SVR_DUAL"),
    "squared": (dm.LinearSVMRegressor(loss="squared_epsilon_insensitive", intercept_scaling=1.0), "L2R_L2LOSS_SVR"),
    "no intercept": (dm.LinearSVMRegressor(fit_intercept=False), "L2R_L1LOSS_SVR_DUAL"),
}


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors_are_written_without_loss(name, storage, tmp_path):
    (X, y), (machine, solver) = problem(), REGRESSORS[name]
    path = tmp_path / "m"
    dm.to_liblinear(machine.fit(storage(X), 3.5 * X[:, 0] + y), path)
    words, weights = parsed(path)
    assert (words["solver_type"], words["nr_class"], words["bias"]) == (solver, "2", "1") and "label" not in words
    assert np.array_equal(weights[:, 0], [*machine.coef_.ravel(), *machine.intercept_])
    model = dm.from_liblinear(path)
    assert repr(model) == f"<LiblinearModel: {solver}, labels none, 6 features, bias 1>" and model.is_regression
    assert_allclose(model.predict(storage(X)), machine.predict(X), rtol=1e-12, atol=1e-12)
    assert model.score(X, y) == pytest.approx(machine.score(X, y))


@pytest.mark.parametrize("name", REGRESSORS)
def test_liblinear_reads_our_regressors(name, tmp_path):
    (X, y), (machine, _) = problem(), REGRESSORS[name]
    dm.to_liblinear(machine.fit(X, 3.5 * X[:, 0] + y), tmp_path / "m")
    assert_allclose(official(tmp_path / "m", X)[1][:, 0], machine.predict(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bias", ["-1", "1", "2.5", "0"])
@pytest.mark.parametrize("solver", [11, 12, 13])
def test_liblinears_regressions_are_read(solver, bias, tmp_path):
    X, y = problem()
    train(tmp_path / "m", X, 3.5 * X[:, 0] + y, f"-s {solver} -B {bias}")
    assert_allclose(dm.from_liblinear(tmp_path / "m").predict(X), official(tmp_path / "m", X)[1][:, 0], rtol=1e-12)


def test_a_regression_that_lies(model_file):
    text = "solver_type L2R_L2LOSS_SVR\nnr_class 2\nnr_feature 1\nbias -1\nw\n2 \n"
    for old, new, message in (
        ("nr_class 2", "nr_class 3", "line 2: .*has no labels and nr_class 2"),
        ("nr_feature", "label 1 2\nnr_feature", "line 3: .*has no labels"),
        ("w\n2 ", "w\n2 3", "expected 1 finite number"),
    ):
        model_file.write_text(text.replace(old, new))
        with pytest.raises(ModelFileError, match=message):
            dm.from_liblinear(model_file)


@pytest.mark.parametrize("bias", ["-1", "1", "2.5", "0"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("solver", [0, 1, 2, 3, 4, 5, 6, 7])
def test_liblinears_are_read(solver, n_classes, bias, tmp_path):
    X, y = problem(n_classes)
    train(tmp_path / "m", X, 3 * y - 2, f"-s {solver} -B {bias}")
    labels, values = official(tmp_path / "m", X)
    model = dm.from_liblinear(tmp_path / "m")
    # The package returns one value for two classes, also if the model has two.
    assert_allclose(model.decision_values(X)[:, : values.shape[1]], values, rtol=1e-12, atol=1e-12)
    assert np.array_equal(model.predict(X), labels)


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_decision_values_of_linear_svc(n_classes, has_intercept, multi_class, tmp_path):
    """The numbers of scikit-learn's build of LIBLINEAR, as its `save_model` prints them: by 17 digits."""
    X, y = problem(n_classes)
    svc = LinearSVC(multi_class=multi_class, fit_intercept=has_intercept, intercept_scaling=2.0).fit(X, y)
    order = svc.classes_[::-1] if n_classes == 2 else svc.classes_
    solver, weights = ("L2R_L2LOSS_SVC", svc.coef_) if multi_class == "ovr" else ("MCSVM_CS", svc.coef_)
    intercept = np.atleast_1d(svc.intercept_)
    if multi_class != "ovr" and n_classes == 2:  # scikit-learn keeps the difference of both vectors
        weights, intercept = np.vstack([weights, 0 * weights]), np.append(intercept, 0 * intercept)
    rows = np.column_stack([weights, intercept / 2.0]) if has_intercept else weights
    text = [
        f"solver_type {solver}", f"nr_class {n_classes}", "label " + " ".join(map(str, order)), "nr_feature 6",
        f"bias {2 if has_intercept else -1}", "w", *(" ".join(f"{v:.17g}" for v in row) + " " for row in rows.T),
    ]  # fmt: skip
    (tmp_path / "m").write_text("\n".join(text) + "\n")
    model = dm.from_liblinear(tmp_path / "m")
    values = model.decision_values(X)
    values = values[:, 0] - values[:, 1] if values.shape[1] == 2 else values
    assert_allclose(values.reshape(len(X), -1), svc.decision_function(X).reshape(len(X), -1), rtol=1e-12, atol=1e-12)
    assert np.array_equal(model.predict(X), svc.predict(X))


@settings(deadline=None, max_examples=50)
@given(arrays(float, (2, 5), elements=st.floats(-1e300, 1e300)), st.floats(-5, 5))
def test_any_numbers_survive(tmp_path_factory, weights, bias):
    path = tmp_path_factory.mktemp("m") / "m"
    model = LiblinearModel("MCSVM_CS", np.array([3, 1]), weights[:, :4], bias, weights[:, 4] * (bias >= 0))
    write_liblinear_model(model, path)
    read = dm.from_liblinear(path)
    assert np.array_equal(read.weights, model.weights) and np.array_equal(read.bias_weights, model.bias_weights)
    assert (read.bias, read.labels.tolist(), read.solver_type) == (bias, [3, 1], "MCSVM_CS")


def test_a_wide_machine_has_a_line_for_every_feature(tmp_path):
    X = sp.csr_array(([1.0, -1.0], ([0, 1], [3, 900])), shape=(2, 1000))
    machine = dm.LinearSVMClassifier().fit(X, [0, 1])
    dm.to_liblinear(machine, tmp_path / "m")
    assert np.array_equal(parsed(tmp_path / "m")[1][:-1, 0], machine.coef_[0])
    wide = sp.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=(2, 2**31))
    with pytest.raises(ValueError, match=r"fewer than 2\^31 features, got 2147483648"):
        dm.to_liblinear(dm.LinearSVMClassifier().fit(wide, [0, 1]), tmp_path / "m")


def test_what_has_no_liblinear_form(tmp_path):
    X, y = problem()
    machine = dm.LinearSVMClassifier()
    with pytest.raises(NotFittedError):
        dm.to_liblinear(machine, tmp_path / "m")
    with pytest.raises(ValueError, match=r"integers of 32 bits, got \['a', 'b'\]"):
        dm.to_liblinear(machine.fit(X, np.array(["a", "b"])[y]), tmp_path / "m")
    with pytest.raises(TypeError, match=r"do not store scaling: pass only the machine, pipeline\[-1\]"):
        dm.to_liblinear(make_pipeline(StandardScaler(), machine).fit(X, y), tmp_path / "m")
    with pytest.raises(TypeError, match="got SVMClassifier; to_libsvm writes kernel machines"):
        dm.to_liblinear(dm.SVMClassifier().fit(X, y), tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_rows_to_predict_are_checked(model_file):
    model = dm.from_liblinear(model_file)
    with pytest.raises(ValueError, match="X has 3 columns, but the model has 2 features"):
        model.predict(np.ones((1, 3)))
    with pytest.raises(ValueError, match="NaN"):
        model.predict([[np.nan, 1.0]])


LIES = {
    "no such keyword": ("nr_feature 2", "features 2", "line 4: 'features 2' does not belong to a LIBLINEAR"),
    "twice": ("bias 2", "nr_feature 2", "line 5: 'nr_feature 2' does not belong"),
    "no bias": ("bias 2\n", "", "no line 'bias'"),
    "no labels": ("label 4 -1 2\n", "", "no line 'label'"),
    "labels of a regression": ("L2R_L1LOSS_SVC_DUAL", "L2R_L2LOSS_SVR", "line 2: .*L2R_L2LOSS_SVR has no labels"),
    "one class": ("L2R_L1LOSS_SVC_DUAL", "ONECLASS_SVM", "line 1: .*expected that of a classifier"),
    "fewer classes": ("nr_class 3", "nr_class 2", "line 3: .*expected 2 values, got 3"),
    "no classes": ("nr_class 3", "nr_class 0", "line 2: .*expected 1 or more"),
    "negative classes": ("nr_class 3", "nr_class -3", "line 2: .*expected 1 or more"),
    "many classes": ("nr_class 3", "nr_class 2147483647", "expected 2147483647 values"),
    "half a label": ("label 4 -1 2", "label 4 -1 0.5", "line 3: .*expected integers"),
    "large label": ("label 4 -1 2", "label 4 -1 2147483648", "expected integers of 32 bits"),
    "label twice": ("label 4 -1 2", "label 4 -1 4", "line 3: .*a label occurs twice"),
    "no features": ("nr_feature 2", "nr_feature 0", "line 4: .*expected 1 or more"),
    "negative features": ("nr_feature 2", "nr_feature -2", "line 4: .*expected 1 or more"),
    "huge features": (
        "nr_feature 2",
        "nr_feature 2147483647",
        "line 4: .*at least 12884901888 bytes, but the file has",
    ),
    "more features": ("nr_feature 2", "nr_feature 3", "expected 4 lines after the line 'w', got 3"),
    "fewer features": ("nr_feature 2", "nr_feature 1", "line 9: expected 2 lines after the line 'w', got more"),
    "no row of the bias": ("bias 2", "bias -1", "line 9: expected 2 lines after the line 'w', got more"),
    "bias too large": ("bias 2\nw\n0.5 -1 0.25 \n1 0 -2e-1 \n", "bias 1e308\nw\n1 2 3\n1 2 3\n", "line 5: .*too large"),
    "bias nan": ("bias 2", "bias nan", "line 5: .*finite"),
    "a line missing": ("1 0 -2e-1 \n", "", "expected 3 lines after the line 'w', got 2"),
    "a blank line": ("1 0 -2e-1 \n", "\n", "line 8: '' is not a line of weights: expected 3 finite numbers"),
    "a weight missing": ("1 0 -2e-1 \n", "1 0 \n", "line 8: '1 0' is not a line of weights"),
    "a weight more": ("1 0 -2e-1 \n", "1 0 2 3 \n", "line 8: "),
    "nan": ("1 0 -2e-1 \n", "1 nan 3 \n", "line 8: '1 nan 3' is not"),
    "infinite": ("1 0 -2e-1 \n", "1 0 -2e999 \n", "line 8: '1 0 -2e999' is not"),
    "text": ("1 0 -2e-1 \n", "1 x 3 \n", "line 8: "),
    "underscore": ("1 0 -2e-1 \n", "1 1_0 3 \n", "line 8: "),
    "a comment": ("1 0 -2e-1 \n", "1 0 3 # 4 \n", "line 8: "),
    "no end": ("-0.125 3 1 \n", "-0.125 3 1", "line 9: the line is truncated"),
}


@pytest.mark.parametrize("lie", sorted(LIES))
def test_a_file_that_lies_is_refused(model_file, lie):
    before, after, message = LIES[lie]
    assert TEXT.count(before) == 1
    model_file.write_text(TEXT.replace(before, after))
    with pytest.raises(ModelFileError, match=rf"some\.model.*{message}"):
        dm.from_liblinear(model_file)


def test_a_file_cut_anywhere_is_refused(model_file):
    for size in range(len(TEXT)):
        model_file.write_text(TEXT[:size])
        with pytest.raises(ModelFileError, match=r"some\.model"):
            dm.from_liblinear(model_file)


def test_any_byte_changed_is_refused_or_read(model_file):
    rng = np.random.default_rng(0)
    for index, byte in itertools.product(range(len(TEXT)), rng.integers(0, 256, 3)):
        content = bytearray(TEXT.encode())
        content[index] = byte
        model_file.write_bytes(content)
        try:
            model = dm.from_liblinear(model_file)
        except ModelFileError as error:
            assert "some.model" in str(error)
        else:
            assert model.predict(np.ones((1, 2)))[0] in model.labels


@pytest.mark.parametrize("content", [b"", b"w\n", b"PK\x03\x04", b"1 1:2\n", b"\xff" * 100, b"\0" * 1000])
def test_other_files_are_refused(model_file, content):
    model_file.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"some\.model"):
        dm.from_liblinear(model_file)


def test_our_own_model_file_is_named(tmp_path):
    dm.save(dm.LinearSVMClassifier().fit(*problem()), tmp_path / "m")
    with pytest.raises(ModelFileError, match="is not a LIBLINEAR text model, but a dimargin model file"):
        dm.from_liblinear(tmp_path / "m")


def test_a_missing_file_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        dm.from_liblinear(tmp_path / "none")


@pytest.mark.parametrize(
    ("start", "message"),
    [("", "line 1: more than 16777216 bytes before a line 'w'"), (TEXT, "line 10: longer than 2000000 bytes")],
    ids=["nothing else", "behind a model"],
)
def test_zeros_without_an_end_are_refused(start, message, tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 2_000_000)
    path = tmp_path / "some.model"
    path.write_text(start)
    os.truncate(path, 2**33)
    with pytest.raises(ModelFileError, match=rf"some\.model, {message}"):
        dm.from_liblinear(path)


def test_a_pipe_is_read_and_cannot_claim_memory(tmp_path):
    """A pipe has no size to compare with; what it claims is not allocated before it came."""
    for text, expected in ((TEXT, "(3, 2)"), (TEXT.replace("nr_feature 2", "nr_feature 2147483647"), "got 3")):
        code = (
            "import dimargin as dm\n"
            "try: print(dm.from_liblinear('/dev/stdin').weights.shape)\n"
            "except dm.io.models.ModelFileError as error: print(error)"
        )
        done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True)
        assert expected in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("n_classes", [2, 10])
def test_reading_takes_ten_times_the_text_at_most(n_classes, tmp_path):
    row = "0\n" if n_classes == 2 else "1 " * n_classes + "\n"
    n, path = 20 * 2**20 // len(row), tmp_path / "some.model"
    header = f"solver_type L2R_LR\nnr_class {n_classes}\nlabel {' '.join(map(str, range(n_classes)))}\n"
    path.write_text(f"{header}nr_feature {n}\nbias -1\nw\n{row * n}")
    imports = "import resource, sklearn.datasets\nfrom dimargin.io.libsvm import from_liblinear"
    peak = "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024"
    code = f"before = {peak}; from_liblinear({str(path)!r}); assert {peak} - before < 10 * 20 * 2**20, {peak} - before"
    assert bounded.run(imports, code, megabytes=4000) == "done\n"
