"""LIBSVM's programs as commands, with LIBSVM itself beside them."""

import bz2
import itertools
import re

import numpy as np
import pytest
from libsvm_counterpart import official, svm, trained
from numpy.testing import assert_allclose
from sklearn.datasets import dump_svmlight_file, load_svmlight_file, make_classification
from text_files import words_of

import dimargin as dm


def write(path, n=200, classes=(-1, 1), seed=0):
    X, y = make_classification(
        n, 6, n_informative=4, n_redundant=0, n_classes=len(classes), n_clusters_per_class=1, flip_y=0.1,
        random_state=seed,
    )  # fmt: skip
    X[np.abs(X) < 0.2] = 0
    dump_svmlight_file(X, np.array(classes)[y], str(path), zero_based=False)
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("rows")
    write("more", seed=1)
    return tmp_path


def problem(path):
    X, y = load_svmlight_file(str(path))
    return X.toarray(), y


TRAINING = {
    "nothing": ((1, -1), []),
    "rbf": ((-1, 1), ["-c", "32", "-g", "0.5"]),
    "linear": ((0, 1), ["-t", "0", "-c", "0.3"]),
    "polynomial": ((2, 1), ["-t", "1", "-d", "2", "-g", "0.2", "-r", "1.5"]),
    "weights": ((-1, 1), ["-c", "2", "-w1", "5", "-w-1", "0.5", "-w1", "2"]),
    "three classes": ((4, 0, -2), ["-g", "0.3", "-c", "10"]),
    "twelve classes": (tuple(range(12)), ["-g", "0.3", "-c", "3"]),
    "four classes, weights": ((1, 2, 3, 4), ["-g", "0.3", "-w3", "4", "-w4", "0.2"]),
}


def numbers(name, text):
    """All that were printed behind a name."""
    return np.array([float(number) for number in re.findall(rf"\b{name} = ([-+.e\d]+)", text)])


@pytest.mark.parametrize("name", TRAINING)
def test_the_same_machine_as_libsvm(dimargin, folder, name):
    classes, flags = TRAINING[name]
    X, y = problem(write("rows", classes=classes))
    status, out, err = dimargin("svm-train", *flags, "rows")
    assert (status, err) == (0, "")
    model, printed = trained(X, y, [*flags, "-e", "1e-6"])
    svm().svm_save_model("theirs", model)
    labels, values = official("rows.model", X)
    their_labels, their_values = official("theirs", X)
    assert_allclose(values, their_values, atol=2e-3)  # by default, LIBSVM's own tolerance is 1e-3
    clear = np.abs(their_values).min(axis=1) > 2e-3
    assert (labels == their_labels)[clear].all() and clear.mean() > 0.7
    ours, theirs = dm.from_libsvm("rows.model"), dm.from_libsvm("theirs")
    assert ours.labels.tolist() == theirs.labels.tolist()
    assert ours.kernel.name == theirs.kernel.name and ours.kernel.degree == theirs.kernel.degree
    assert_allclose([ours.kernel.gamma, ours.kernel.coef0], [theirs.kernel.gamma, theirs.kernel.coef0], rtol=1e-15)
    # what is printed, of every pair of classes
    assert_allclose(numbers("obj", out), numbers("obj", printed), rtol=1e-5)
    assert_allclose(numbers("rho", out), numbers("rho", printed), atol=2e-3)
    assert_allclose(numbers("nu", out), numbers("nu", printed), rtol=1e-3)
    assert_allclose(numbers("nSV", out), numbers("nSV", printed), atol=3)
    assert_allclose(numbers("nBSV", out), numbers("nBSV", printed), atol=3)
    assert numbers("nSV", out)[-1] == ours.support_vectors.shape[0]
    assert len(numbers("gap", out)) == len(ours.rho) and (numbers("gap", out) < 1e-4).all()


def test_all_pairs_of_classes_are_one_fit(dimargin, folder, monkeypatch):
    """Fitted one by one, the pairs of 200 classes took 40 s."""
    write("rows", classes=(3, 1, 2, 7))
    fits, fit = [], dm.SVMClassifier.fit
    monkeypatch.setattr(dm.SVMClassifier, "fit", lambda self, X, *rest: fits.append(X.shape) or fit(self, X, *rest))
    assert dimargin("svm-train", "-q", "rows")[0] == 0
    assert fits == [(200, 7)]


@pytest.mark.parametrize("kernel", [2, 4])
def test_weights_of_rows_are_those_of_rows_given_many_times(dimargin, folder, kernel):
    """A weight of two is that of a row given twice, and of zero that of one left out, of kernel values too."""
    weights = np.random.default_rng(0).integers(0, 4, 200)
    (folder / "weights").write_text("\n".join(map(str, weights)))
    X, y = problem("rows")
    if kernel == 4:
        X = np.column_stack([np.arange(1, 201), X @ X.T])
    for name, chosen in (("given", np.arange(200)), ("repeated", np.repeat(np.arange(200), weights))):
        dump_svmlight_file(X[chosen], y[chosen], name, zero_based=kernel == 4)
    flags = ["-t", kernel, "-g", 0.5, "-e", 1e-5]
    status, out, _ = dimargin("svm-train", *flags, "-W", "weights", "-w1", 2, "given")
    assert status == 0
    repeated = dimargin("svm-train", *flags, "-w1", 2, "repeated")[1]
    for name in ("obj", "rho"):
        assert_allclose(numbers(name, out), numbers(name, repeated), rtol=1e-5, atol=1e-5)
    (folder / "ones").write_text("1\n" * 200)
    found = [dimargin("svm-train", "-q", "-v", 3, *flags, *more, "given")[1] for more in ([], ["-W", "ones"])]
    assert found[0] == found[1]
    single = np.where((y == 1) | (np.arange(200) == np.argmin(y)), 1, 0)  # with weight, of a class: in one fold only
    (folder / "ones").write_text("\n".join(map(str, single)))
    assert dimargin("svm-train", "-q", "-v", 3, *flags, "-W", "ones", "given")[0] == 0


def test_tolerance_and_cache(dimargin, folder):
    """The gap is a thousandth of -e; how much is remembered changes the time only."""
    write("rows", n=2000)
    objectives = []
    for flags in (["-e", 0.5], ["-e", "1e-5"], ["-e", "1e-5", "-m", "0.01"], ["-e", "1e-5", "-m", "200"]):
        status, out, err = dimargin("svm-train", "-c", 10, *flags, "rows")
        assert (status, err) == (0, "") and numbers("gap", out)[0] <= 1e-3 * float(flags[1])
        objectives.append(numbers("obj", out)[0])
    assert_allclose(objectives[0], objectives[1], rtol=5e-4)
    assert objectives[0] != objectives[1]
    assert_allclose(objectives[1:], objectives[1], rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), [("svmguide1", "-c 8 -g 0.001"), ("usps", "-c 5"), ("a9a", "-g 0.05")])
def test_real_data(dimargin, folder, data_folder, name, options):
    """Two classes and ten, dense and sparse: LIBSVM's predictions, from its own training and ours."""
    with bz2.open(data_folder / f"{name}.bz2") as lines:
        text = list(itertools.islice(lines, 3000))
    chosen = np.random.default_rng(0).permutation(len(text))
    for part, indices in (("train", chosen[:1000]), ("test", chosen[1000:])):
        (folder / part).write_bytes(b"".join(text[index] for index in indices))
    assert dimargin("svm-train", "-q", *options.split(), "train") == (0, "", "")
    y, X = svm().svm_read_problem("train")
    svm().svm_save_model("theirs", svm().svm_train(y, X, f"{options} -q"))
    assert dimargin("svm-predict", "-q", "test", "theirs", "their labels")[0] == 0
    status, out, _ = dimargin("svm-predict", "test", "train.model", "labels")
    y, X = svm().svm_read_problem("test")
    labels = svm().svm_predict(y, X, svm().svm_load_model("train.model"), "-q")[0]
    assert (folder / "labels").read_text().split() == [f"{label:.0f}" for label in labels]
    theirs = np.array((folder / "their labels").read_text().split(), dtype=float)
    assert status == 0 and np.mean(theirs == labels) >= 0.999
    assert numbers("Accuracy", out)[0] == pytest.approx(100 * np.mean(theirs == y), abs=0.1)


def test_defaults_quiet_and_names(dimargin, folder):
    """Without a name the model goes beside the user, not beside the data."""
    (folder / "data").mkdir()
    write("data/far")
    assert dimargin("svm-train", "-q", "data/far") == (0, "", "")
    assert dimargin("svm-train", "-q", "data/far", "named") == (0, "", "")
    assert (folder / "far.model").read_bytes() == (folder / "named").read_bytes()
    assert [p.name for p in (folder / "data").iterdir()] == ["far"]
    model = dm.from_libsvm("named")
    assert model.kernel.name == "rbf" and model.kernel.gamma == 1 / 6
    assert dimargin("svm-train", "-q", "-s", 0, "-t", 2, "-g", 0, "-c", 1, "-b", 0, "rows", "other")[0] == 0
    assert dm.from_libsvm("other").kernel.gamma == 1 / 6


def test_features_are_what_the_file_says(dimargin, folder):
    """Sparse, far apart, and counted from zero: the model's numbers are those of the data."""
    (folder / "odd").write_text("".join(f"{k % 2} 0:{k % 2 + 0.1 * (k % 3)} 70000:1\n" for k in range(30)))
    assert dimargin("svm-train", "-q", "-g", 1, "odd")[0] == 0
    lines = (folder / "odd.model").read_text().splitlines()
    vectors = lines[lines.index("SV") + 1 :]
    assert all(re.fullmatch(r"\S+ (0:\S+ )?70000:1 ", line) for line in vectors)
    (folder / "short").write_text("0\n1 0:1\n1 0:1.1 70000:1 80000:0.5\n")
    assert dimargin("svm-predict", "-q", "short", "odd.model", "labels")[0] == 0
    rows = [{}, {0: 1}, {0: 1.1, 70000: 1, 80000: 0.5}]
    theirs = svm().svm_predict([0, 1, 1], rows, svm().svm_load_model("odd.model"), "-q")
    assert (folder / "labels").read_text().split() == [f"{label:.0f}" for label in theirs[0]]


@pytest.mark.parametrize("classes", [(-1, 1), (3, 1, 2)])
def test_cross_validation(dimargin, folder, classes):
    X, y = problem(write("rows", n=300, classes=classes))
    status, out, _ = dimargin("svm-train", "-v", 5, "-c", 5, "-w1", 2, "rows")
    assert status == 0 and out.startswith("Cross Validation Accuracy = ") and out.endswith("%\n")
    assert dimargin("svm-train", "-v", 5, "-c", 5, "-w1", 2, "rows") == (0, out, "")
    theirs = svm().svm_train(y.tolist(), X, "-v 5 -c 5 -w1 2 -q")
    assert numbers("Accuracy", out)[0] == pytest.approx(theirs, abs=4)
    assert not (folder / "rows.model").exists()


def test_leave_one_out_and_more_folds_than_rows_of_a_class(dimargin, folder):
    (folder / "few").write_text("1 1:1\n1 1:1.1\n1 1:1.2\n-1 1:-1\n-1 1:-1.1\n")
    for folds, correct in ((2, None), (4, None), (5, "100"), (99, "100")):
        status, out, err = dimargin("svm-train", "-v", folds, "few")
        assert status == 0 and not err and (correct is None or out == f"Cross Validation Accuracy = {correct}%\n")
    (folder / "one").write_text("1 1:1\n1 1:1.1\n-1 1:-1\n")  # a fold without the only row of -1
    assert dimargin("svm-train", "-v", 3, "one")[:2] == (0, "Cross Validation Accuracy = 66.6667%\n")


@pytest.mark.parametrize("classes", [(-1, 1), (3, 1, 2)])
def test_predictions_and_accuracy_are_libsvms(dimargin, folder, classes):
    X, y = problem(write("rows", classes=classes))
    more, known = problem(write("more", classes=classes, seed=2))
    model = svm().svm_train(y.tolist(), X, "-c 3 -q -b 1")
    svm().svm_save_model("theirs", model)
    labels, _ = official("theirs", more)
    status, out, err = dimargin("svm-predict", "more", "theirs", "labels")
    correct = int((labels == known).sum())
    assert out == (
        "Model supports probability estimates, but disabled in prediction.\n"
        f"Accuracy = {correct / 2:g}% ({correct}/200) (classification)\n"
    )
    assert (status, err) == (0, "") and (folder / "labels").read_text() == "".join(f"{label}\n" for label in labels)
    assert dimargin("svm-predict", "-q", "-b", 0, "more", "theirs", "labels") == (0, "", "")
    assert dimargin("svm-predict", "-q", "more", "theirs", "/dev/stdout")[:2] == (0, "")


@pytest.mark.parametrize("classes", [(-1, 1), (3, 1, 2)])
def test_kernel_values_computed_beforehand(dimargin, folder, classes):
    X, y = problem(write("rows", n=90, classes=classes))
    chosen = np.random.default_rng(0).permutation(90)  # indices need not be in order
    values = np.column_stack([np.arange(1, 91), X @ X.T])[chosen]
    lines = [" ".join([f"{label:.0f}", *(f"{j}:{v!r}" for j, v in enumerate(row))]) for label, row in
             zip(y[chosen], values.tolist(), strict=True)]  # fmt: skip
    (folder / "values").write_text("\n".join(lines) + "\n")
    for name, flags in (("values", ["-t", 4]), ("rows", ["-t", 0])):
        assert dimargin("svm-train", "-q", *flags, "-c", 0.5, name) == (0, "", "")
        assert numbers("Accuracy", dimargin("svm-train", *flags, "-c", 0.5, "-v", 3, name)[1])[0] > 60
        dimargin("svm-predict", "-q", name, f"{name}.model", f"{name}.labels")
    by_rows = np.array((folder / "rows.labels").read_text().split(), dtype=int)
    by_values = np.array((folder / "values.labels").read_text().split(), dtype=int)
    assert np.mean(by_values == by_rows[chosen]) > 0.98
    model = svm().svm_train(svm().svm_problem(y[chosen], values, True), "-t 4 -c 0.5 -e 1e-6 -q")
    svm().svm_save_model("theirs", model)
    assert_allclose(official("values.model", values)[1], official("theirs", values)[1], atol=2e-3)
    assert (official("values.model", values)[0] == by_values).all()


def test_an_unknown_weight_is_a_warning(dimargin, folder):
    assert dimargin("svm-train", "-q", "-w7", 2, "rows") == (0, "", "WARNING: no row has the label of -w7\n")


def test_scaling(dimargin, folder):
    (folder / "g").write_text("+1 1:0.5 3:-2 4:7\n-1 2:1e-7 3:4\n2.5 1:3 3:0.33333333333 4:7\n0 1:0.1 2:5e5 4:7\n")
    # what svm-scale of LIBSVM 3.37 prints
    scaled = "1 1:0.166667 4:1 \n-1 2:2e-13 3:1 \n2.5 1:1 3:0.388889 4:1 \n0 1:0.0333333 2:1 3:0.333333 4:1 \n"
    assert dimargin("svm-scale", "-l", 0, "-s", "ranges", "g") == (0, scaled, "")
    assert (folder / "ranges").read_text() == "x\n0 1\n1 0 3\n2 0 500000\n3 -2 4\n4 0 7\n"
    assert dimargin("svm-scale", "-r", "ranges", "g") == (0, scaled, "")
    status, out, err = dimargin("svm-scale", "-y", -5, 5, "g")
    assert status == 0 and out.startswith("0.71428571428571441 1:-0.666667 2:-1 3:-1 4:1 \n-5 ")
    assert err == "WARNING: the scaled rows have more nonzeros; use -l 0 to keep sparse, nonnegative features sparse\n"
    (folder / "h").write_text("1 1:1 5:2 6:1 7:1 8:1\n2 5:1 9:1 10:1\n")
    status, out, err = dimargin("svm-scale", "-r", "ranges", "h")
    assert out == "1 1:0.333333 3:0.333333 \n2 3:0.333333 \n"
    assert err == "WARNING: ranges has no range for the features 5, 6, 7, 8, 9, ... of h; they are dropped\n"


def test_a_model_of_any_loss_is_exported(dimargin, folder):
    X, _ = problem("rows")
    for loss in ("odm", "hinge", "squared_hinge"):
        assert dimargin("train", "rows", "--loss", loss, "--scale", "none", "-m", "m", "--quiet")[0] == 0
        assert dimargin("export", "m", "m.model") == (0, "", "")
        assert_allclose(official("m.model", X)[1][:, 0], dm.load("m").decision_function(X), atol=1e-5, rtol=1e-5)
    (folder / "zero").write_text("".join(f"{k % 2} 0:{k % 2 + 0.1 * (k % 3)} 2:1\n" for k in range(30)))
    dimargin("train", "zero", "--scale", "none", "-m", "m", "--quiet")
    assert dimargin("export", "m", "m.model")[0] == 0 and " 0:1 2:1 \n" in (folder / "m.model").read_text()


# ---- what people do wrong --------------------------------------------------------------------------------------------

USAGE = {
    "svm-train": "Missing argument 'FILE'",
    "svm-train none": "'none' does not exist",
    "svm-train -s 5 rows": "'-s': must be one of 0, 1, 2, 3, 4, got 5",
    "svm-train -t 3 rows": "not positive semi-definite",
    "svm-train -t 5 rows": "'-t': must be one of 0, 1, 2, 4, got 5",
    "svm-train -t rbf rows": "'-t'",
    "svm-train -s 3 -t 3 rows": "not positive semi-definite",
    "svm-train -b 2 rows": "'-b': Input should be less than or equal to 1",
    "svm-train -h 2 rows": "'-h': Input should be less than or equal to 1",
    "svm-train -s 1 -n 0 rows": "'nu' parameter of NuSVC must be a float in the range (0.0, 1.0]",
    "svm-train -s 2 -n 1.1 rows": "'nu' parameter of OneClassSVM",
    "svm-train -s 4 -n nan rows": "'nu' parameter of NuSVR",
    "svm-train -s 3 -p -1 rows": "'epsilon' parameter of SVR must be a float in the range [0.0, inf)",
    "svm-train -s 4 -c -1 rows": "C must be a finite number in (0, inf), got -1.0",
    "svm-train -s 1 -w1 2 rows": "-w multiplies the C of C-SVC (-s 0)",
    "svm-train -z 3 rows": "No such option: -z",
    "svm-train -c 0 rows": "C must be a finite number in (0, inf), got 0.0",
    "svm-train -c x rows": "'-c'",
    "svm-train -g -1 rows": "gamma must be a finite number in (0, inf), got -1.0",
    "svm-train -d 0 rows": "degree must be",
    "svm-train -r nan rows": "coef0 must be",
    "svm-train -t 1 -r -1 rows": "at least 0, got -1.0: with a negative one it is not positive semi-definite",
    "svm-train -e 0 rows": "'-e': must be a finite number above 0, got 0",
    "svm-train -m 0 rows": "'-m': must be a finite number above 0, got 0",
    "svm-train -v 1 rows": "'-v'",
    "svm-train rows -w1": "-w1 : expected an integer label",
    "svm-train -w1 0 rows": "-w1 0: expected an integer label right after -w, then a weight above 0",
    "svm-train -w1 inf rows": "-w1 inf",
    "svm-train -w1.5 2 rows": "-w1.5 2",
    "svm-train -w 2 rows": "-w2",
    "svm-train rows none/m": "the folder none does not exist",
    "svm-train rows m more": "unexpected extra argument",
    "svm-predict rows": "Missing argument 'MODEL'",
    "svm-predict -b 2 rows rows out": "'-b': Input should be less than or equal to 1",
    "svm-scale -l 1 -u 1 rows": "the lower limit must be below the upper one, got 1 and 1",
    "svm-scale -y 3 2 rows": "got 3 and 2",
    "svm-scale -l nan rows": "lower limit",
    "svm-scale -s a -r rows rows": "-s and -r cannot be used together",
    "svm-scale -r none rows": "'none' does not exist",
}


@pytest.mark.parametrize("command", USAGE)
def test_bad_usage_is_status_2_and_says_why(dimargin, folder, command):
    before = sorted(folder.iterdir())
    status, out, err = dimargin(*command.split())
    unwrapped = words_of(err).replace(" ", "")
    assert status == 2 and not out and "".join(USAGE[command].split()) in unwrapped, err
    assert sorted(folder.iterdir()) == before


FAILURES = {
    "svm-train one": "expected at least two classes, but all labels are 3",
    "svm-train -s 1 -n 1 uneven": "specified nu is infeasible",
    "svm-train -s 2 -b 1 one": "-b 1 needs at least 5 rows inside and 5 outside",
    "svm-train -s 1 halves": "the label is 0.5; classes must be whole numbers",
    "svm-train -s 3 -W zeros rows": "expected at least one weight above 0",
    "svm-train halves": "halves, line 1: the label is 0.5; classes must be whole numbers",
    "svm-train table.csv": "table.csv: expected LIBSVM text; `dimargin train` reads CSV and Parquet",
    "svm-train damaged": "damaged, line 2",
    "svm-train empty": "empty is empty",
    "svm-train -W few rows": "few has 2 weights, one per line; expected 200, one per row",
    "svm-train -W below rows": "below, line 3: '-1e-3' is not a weight; a finite number of 0 or more expected",
    "svm-train -W words rows": "words, line 1: 'nan' is not a weight",
    "svm-train -W zeros rows": "expected at least one weight above 0, but all rows have weight 0",
    "svm-train -W half one.weights": "expected at least two classes, but all labels are 1",
    "svm-train -g 1e300 rows": "Scale the columns first",
    "svm-train -t 4 rows": "feature 0 of every row must be its index in the kernel matrix, counted from 1",
    "svm-train -t 4 unsound": "not positive semi-definite",
    "svm-predict one places out": "X has 2 columns, but a support vector uses column 4",
    "svm-predict damaged model out": "damaged, line 2",
    "svm-predict -b 1 rows model out": "model has no probabilities: it was trained without them",
    "svm-predict rows rows out": "rows, line 1: ",
    "svm-predict rows cut out": "cut, line 5",
    "svm-scale damaged": "damaged, line 2",
    "svm-scale table.csv": "table.csv: expected LIBSVM text",
    "svm-scale zero": "zero has a feature 0",
    "svm-scale -r rows rows": "rows, line 1: expected 'x'",
    "svm-scale -s none/r rows": "none",
    "export rows out": "rows is not a dimargin model file",
    "export scaled out": "scaled scales rows or encodes columns",
    "export three out": "was fitted one-vs-rest for 3 classes",
    "export laplacian out": "kernel='laplacian' has no LIBSVM form",
}


@pytest.fixture
def failing(dimargin, folder):
    (folder / "one").write_text("3 1:1\n3 1:2\n")
    (folder / "unsound").write_text("1 0:1 1:1 2:3\n2 0:2 1:3 2:1\n")
    (folder / "uneven").write_text("1 1:1\n1 1:2\n2 1:0\n")
    (folder / "few").write_text("1\n\n2\n")
    (folder / "below").write_text("1\n0\n-1e-3\n")
    (folder / "words").write_text("nan\n")
    (folder / "zeros").write_text("0\n" * 200)
    (folder / "one.weights").write_text("1 1:1\n2 1:2\n")
    (folder / "half").write_text("1\n0\n")
    (folder / "places").write_text(
        "svm_type c_svc\nkernel_type precomputed\nnr_class 2\ntotal_sv 1\nrho 0\nlabel 1 2\nnr_sv 1 0\nSV\n1 0:3 \n"
    )
    (folder / "halves").write_text("0.5 1:1\n1 1:2\n")
    (folder / "table.csv").write_text("a,class\n1,x\n")
    (folder / "damaged").write_text("1 1:1\n2 1:x\n")
    (folder / "empty").write_text("")
    (folder / "zero").write_text("1 0:1\n2 0:2\n")
    write("three.rows", classes=(1, 2, 3))
    dimargin("train", "rows", "-m", "scaled", "--quiet")
    dimargin("train", "three.rows", "-m", "three", "--scale", "none", "--multi-class", "one_vs_rest", "--quiet")
    dimargin("train", "rows", "-m", "laplacian", "--scale", "none", "--kernel", "laplacian", "--quiet")
    dimargin("svm-train", "-q", "rows", "model")
    (folder / "cut").write_bytes((folder / "model").read_bytes()[:70])
    return folder


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("command", FAILURES)
def test_a_failed_run_is_status_1_and_leaves_nothing(dimargin, failing, command):
    before = {path.name: path.read_bytes() for path in failing.iterdir()}
    status, out, err = dimargin(*command.split())
    assert status == 1 and not out.strip(".") and FAILURES[command] in err and len(err.splitlines()) == 1, err
    assert {path.name: path.read_bytes() for path in failing.iterdir()} == before


FLAGS = {"svm-train": "stdgrcemvwWqhbnp", "svm-predict": "qb", "svm-scale": "luysr"}


@pytest.mark.parametrize(("command", "flags"), FLAGS.items())
def test_help_has_every_flag(dimargin, command, flags):
    status, out, _ = dimargin(command, "--help")
    assert status == 0 and all(re.search(rf"^\S\s+-{flag} ", out, re.MULTILINE) for flag in flags)
