"""svm-train and svm-predict with regressions, one-class machines, nu-SVC and probabilities, beside LIBSVM itself."""

import io
import re

import numpy as np
import pytest
from libsvm_counterpart import predicted, svm, trained
from numpy.testing import assert_allclose
from sklearn.datasets import dump_svmlight_file, make_classification, make_friedman1

import dimargin as dm

TYPES = ["c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr"]


def rows(svm_type, seed=0, n=150):
    if svm_type.endswith("svc"):
        X, codes = make_classification(
            n, 5, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=1, flip_y=0.1, random_state=seed
        )
        return X, np.array([4, -1, 2])[codes]
    X, y = make_friedman1(n, 5, noise=1.0, random_state=seed)
    return X, np.where(y > 8, 1, -1) if svm_type == "one_class" else y - y.mean()


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(svm_type, name, **options):
        X, y = rows(svm_type, **options)
        dump_svmlight_file(X, y, name, zero_based=False)
        return X, y

    return write


def numbers(name, text):
    """All that were printed behind a name."""
    return np.array([float(number) for number in re.findall(rf"\b{name} ?= ?([-+.e\d]+)", text)])


@pytest.mark.parametrize("svm_type", TYPES)
def test_predictions_and_probabilities_of_a_model_of_libsvm(dimargin, written, capsys, tmp_path, svm_type):
    X, y = written(svm_type, "rows")
    more, known = written(svm_type, "more", seed=1)
    model = svm().svm_train(svm().svm_problem(y, X), f"-s {TYPES.index(svm_type)} -n 0.4 -g 0.3 -b 1 -q")
    svm().svm_save_model("theirs", model)
    status, out, err = dimargin("svm-predict", "more", "theirs", "found")
    expected = predicted("theirs", more)[0]
    assert (status, err) == (0, "")
    assert_allclose(np.loadtxt("found"), expected, rtol=1e-9, atol=1e-9)
    assert out.startswith("Model supports probability estimates, but disabled in prediction.\n")
    if svm_type.endswith("svr"):
        assert numbers("error", out)[0] == pytest.approx(np.mean((expected - known) ** 2), rel=1e-5)
        assert numbers("coefficient", out)[0] == pytest.approx(np.corrcoef(expected, known)[0, 1] ** 2, rel=1e-5)
        assert out.count("(regression)") == 2
    else:
        correct = np.count_nonzero(expected == known)
        assert out.endswith(f"Accuracy = {correct / 1.5:g}% ({correct}/150) (classification)\n")
    status, out, err = dimargin("svm-predict", "-b", 1, "more", "theirs", "found")
    text = (tmp_path / "found").read_text()
    assert (status, err) == (0, "") and "disabled" not in out
    if svm_type.endswith("svr"):
        assert_allclose(np.loadtxt("found"), expected, rtol=1e-9, atol=1e-9)
        assert numbers("sigma", out)[0] == pytest.approx(model.get_svr_probability(), rel=1e-5)
        return
    header = "labels " + " ".join(map(str, model.get_labels())) if svm_type.endswith("svc") else "label normal outlier"
    labels, values = predicted("theirs", more, probabilities=True)
    assert text.splitlines()[0] == header
    found = np.loadtxt(io.StringIO(text), skiprows=1)
    assert (found[:, 0] == labels).all()
    assert_allclose(found[:, 1:], values, rtol=1e-8, atol=1e-9)
    correct = np.count_nonzero(labels == known)
    assert out == f"Accuracy = {correct / 1.5:g}% ({correct}/150) (classification)\n"


def test_a_constant_prediction_has_no_correlation(dimargin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    header = "svm_type nu_svr\nkernel_type linear\nnr_class 2\ntotal_sv 0\nrho -1.5\nSV\n"
    (tmp_path / "model").write_text(header)
    (tmp_path / "rows").write_text("1 1:1\n2.5 1:2\n")
    status, out, _ = dimargin("svm-predict", "rows", "model", "found")
    assert status == 0 and (tmp_path / "found").read_text() == "1.5\n1.5\n"
    assert out == "Mean squared error = 0.625 (regression)\nSquared correlation coefficient = nan (regression)\n"


FLAGS = {
    "nu-SVC": ("nu_svc", ["-n", 0.6, "-g", 0.3]),
    "nu-SVC, polynomial": ("nu_svc", ["-n", 0.6, "-t", 1, "-d", 2, "-g", 0.3, "-r", 1]),
    "one-class": ("one_class", ["-n", 0.3, "-g", 0.3]),
    "one-class, defaults": ("one_class", []),
    "epsilon-SVR": ("epsilon_svr", ["-c", 10, "-p", 0.5, "-g", 0.3]),
    "epsilon-SVR, linear, unscaled": ("epsilon_svr", ["-t", 0, "-h", 0]),
    "epsilon-SVR, defaults": ("epsilon_svr", []),
    "nu-SVR": ("nu_svr", ["-c", 10, "-n", 0.3, "-g", 0.3]),
    "nu-SVR, defaults": ("nu_svr", []),
}


@pytest.mark.parametrize("name", FLAGS)
def test_the_same_machine_as_libsvm(dimargin, written, name):
    """LIBSVM reads the model that we train, whose values are near those of its own."""
    svm_type, flags = FLAGS[name]
    X, y = written(svm_type, "rows")
    flags = ["-s", TYPES.index(svm_type), *flags]
    status, out, err = dimargin("svm-train", *flags, "rows")
    assert (status, err) == (0, "")
    model, printed = trained(X, y, [*map(str, flags), "-e", "1e-6"])
    svm().svm_save_model("theirs", model)
    labels, values = predicted("rows.model", X)
    expected = predicted("theirs", X)[1]
    assert_allclose(values, expected, atol=2e-3)
    assert dimargin("svm-predict", "-q", "rows", "rows.model", "found") == (0, "", "")
    assert_allclose(np.loadtxt("found"), labels, rtol=1e-6, atol=1e-6)
    assert (
        numbers("gap", out)[0] <= 1e-6 and numbers("Total nSV", out)[0] == dm.from_libsvm("rows.model").n_support.sum()
    )
    if svm_type != "nu_svc":
        assert_allclose(numbers("obj", out), numbers("obj", printed), rtol=1e-5)
        assert_allclose(numbers("rho", out), numbers("rho", printed), atol=2e-3)


@pytest.mark.parametrize("svm_type", TYPES)
def test_kernel_values_computed_beforehand(dimargin, written, svm_type):
    """Values of the linear kernel, with indices in any order, are as good as its rows."""
    X, y = written(svm_type, "rows")
    chosen = np.random.default_rng(0).permutation(len(X))
    values = np.column_stack([np.arange(1, len(X) + 1), X @ X.T])[chosen]
    dump_svmlight_file(values, y[chosen], "values", zero_based=True)
    dump_svmlight_file(X[chosen], y[chosen], "rows", zero_based=False)
    for name, kernel in (("rows", 0), ("values", 4)):
        flags = ["-q", "-s", TYPES.index(svm_type), "-n", 0.6, "-t", kernel]
        assert dimargin("svm-train", *flags, name) == (0, "", "")
        assert numbers(r"(?:Accuracy|error)", dimargin("svm-train", *flags, "-v", 3, name)[1])[0] > 0
    ours, theirs = (predicted(f"{name}.model", given)[1] for name, given in (("values", values), ("rows", X[chosen])))
    assert_allclose(ours, theirs, atol=2e-3)


@pytest.mark.parametrize("svm_type", TYPES)
def test_cross_validation(dimargin, written, tmp_path, svm_type):
    X, y = written(svm_type, "rows", n=300)
    flags = ["-s", TYPES.index(svm_type), "-n", 0.5, "-c", 5, "-g", 0.3, "-v", 5]
    status, out, err = dimargin("svm-train", *flags, "rows")
    assert (status, err) == (0, "") and not (tmp_path / "rows.model").exists()
    theirs = svm().svm_train(svm().svm_problem(y, X), " ".join(map(str, flags)) + " -q")
    if svm_type.endswith("svr"):
        assert re.fullmatch(
            r"Cross Validation Mean squared error = \S+\nCross Validation Squared correlation coefficient = \S+\n", out
        )
        assert numbers("error", out)[0] == pytest.approx(theirs, rel=0.1)
    else:
        assert numbers("Accuracy", out)[0] == pytest.approx(theirs, abs=4)


@pytest.mark.parametrize("svm_type", ["one_class", "epsilon_svr", "nu_svr"])
@pytest.mark.parametrize("kernel", [2, 4])
def test_weights_of_rows_are_those_of_rows_given_many_times(dimargin, written, tmp_path, svm_type, kernel):
    X, y = written(svm_type, "rows")
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    (tmp_path / "weights").write_text("\n".join(map(str, weights)))
    if kernel == 4:
        X = np.column_stack([np.arange(1, len(X) + 1), X @ X.T])
    repeated = np.repeat(np.arange(len(y)), weights)
    dump_svmlight_file(X, y, "given", zero_based=kernel == 4)
    dump_svmlight_file(X[repeated], y[repeated], "repeated", zero_based=kernel == 4)
    flags = ["-s", TYPES.index(svm_type), "-t", kernel, "-e", 1e-5]
    found = [dimargin("svm-train", *flags, *own) for own in (["-W", "weights", "given"], ["repeated"])]
    assert [status for status, _, _ in found] == [0, 0]
    assert_allclose(numbers("obj", found[0][1]), numbers("obj", found[1][1]), rtol=1e-5)
    assert_allclose(predicted("given.model", X)[1], predicted("repeated.model", X)[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("svm_type", TYPES)
def test_probabilities_are_like_those_of_libsvm(dimargin, written, svm_type):
    """LIBSVM draws folds by another generator, so that parameters differ more than models."""
    X, y = written(svm_type, "rows", n=400)
    more, _ = rows(svm_type, seed=0, n=500)
    flags = ["-s", TYPES.index(svm_type), "-n", 0.5, "-c", 2, "-g", 0.3, "-b", 1]
    assert dimargin("svm-train", "-q", *flags, "rows") == (0, "", "")
    svm().svm_save_model("theirs", svm().svm_train(svm().svm_problem(y, X), " ".join(map(str, flags)) + " -e 1e-6 -q"))
    ours, theirs = dm.from_libsvm("rows.model"), dm.from_libsvm("theirs")
    if svm_type.endswith("svr"):
        assert ours.probA[0] == pytest.approx(theirs.probA[0], rel=0.1)
        return
    if svm_type == "one_class":
        assert_allclose(ours.density_marks, theirs.density_marks, atol=0.1)  # rows on the boundary differ in sign
    found, expected = predicted("rows.model", more, probabilities=True)[1], theirs.predict_proba(more)
    if ours.is_classifier:
        order = [ours.labels.tolist().index(label) for label in theirs.labels.tolist()]
        found = found[:, order]
    assert np.abs(found - expected).mean() < 0.04
    assert dimargin("svm-predict", "-b", 1, "rows", "rows.model", "found")[0] == 0


def test_wide_sparse_rows(dimargin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wide").write_text("".join(f"{k % 7 / 2} 0:{k % 2 + 0.1 * (k % 3)} 70000:1\n" for k in range(30)))
    for svm_type in (2, 3, 4):
        assert dimargin("svm-train", "-q", "-s", svm_type, "-g", 1, "wide") == (0, "", "")
        lines = (tmp_path / "wide.model").read_text().splitlines()
        assert all(re.fullmatch(r"\S+ (0:\S+ )?70000:1 ", line) for line in lines[lines.index("SV") + 1 :])
