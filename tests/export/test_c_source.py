"""C source, compiled by the system's compiler and run, against the predictions of the estimators."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_machines import fitted, machines, new_rows, regressors, rows_and_labels, sklearn_classifiers, tied_votes
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

import dimargin as dm
from dimargin import svm
from dimargin.estimators.nested_steps import flat_steps, rows_for_machine
from dimargin.export.plain_model import plain_machine, plain_model

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler: cc, gcc or clang")

DRIVER = """
#include <stdio.h>
#include "machine.c"

int main(void)
{{
    float x[MACHINE_FEATURES];
    {value} in[MACHINE_FEATURES], out[{size}];
    int j;
    while (fread(x, sizeof x, 1, stdin) == 1) {{
        {prepare};
        machine_{function}(in, out);
        printf("{label}", {predict});
        for (j = 0; j < {size}; j++) {{
            printf("\\t%.17g", ldexp((double)out[j], -({bits})));
        }}
        printf("\\n");
    }}
    return 0;
}}
"""
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]


def run(source, rows, folder, *flags, function="decision"):
    """Compile and run the source on float32 rows; returns labels or predictions as text, and a function's values."""
    is_fixed, is_regressor, is_text = (
        part in source for part in ("machine_quantize", "A regressor", "char *const machine_l")
    )
    copied = "for (j = 0; j < MACHINE_FEATURES; j++) in[j] = x[j]"
    driver = DRIVER.format(
        value="int32_t" if is_fixed else "float",
        prepare="machine_quantize(x, in)" if is_fixed else copied,
        bits="MACHINE_DECISION_BITS" if is_fixed else "0",
        label="%s" if is_text else "%.9g" if is_regressor else "%ld",
        predict="(double)machine_predict(in)" if is_regressor else "machine_labels[machine_predict(in)]",
        function=function,
        size="MACHINE_CLASSES" if function == "probabilities" else "MACHINE_SCORES",
    )
    (folder / "machine.c").write_text(source)
    (folder / "main.c").write_text(driver)
    command = [COMPILER, *FLAGS, *flags, "-o", folder / "main", folder / "main.c", "-lm"]
    subprocess.run(command, check=True)
    done = subprocess.run([folder / "main"], input=rows.astype(np.float32).tobytes(), capture_output=True, check=True)
    assert not done.stderr, done.stderr
    lines = [line.split("\t") for line in done.stdout.decode().splitlines()]
    return [line[0] for line in lines], np.array([line[1:] for line in lines], dtype=float)


def largest_sums(model, rows):
    """Return the sums of the absolute terms of the decision values, which rounding is relative to."""
    machine = plain_machine(flat_steps(model)[-1][1])
    Z = np.abs(rows_for_machine(model, rows))
    if machine.kernel.name == "linear":
        values = Z
    elif machine.kernel.stationary:
        values = np.ones((1, len(machine.vectors)))
    else:
        products = machine.kernel.gamma * Z @ np.abs(machine.vectors).T + machine.kernel.coef0
        values = products**machine.kernel.degree
    return (values @ np.abs(machine.coefficients).T + np.abs(machine.intercepts)).max()


def assert_alike(source, model, rows, folder, tolerance, *flags):
    """Check values relative to their largest terms, and labels wherever values differ by more than rounding."""
    rows = rows.astype(np.float32).astype(float)
    labels, found = run(source, rows, folder, *flags)
    values = model.decision_function(rows).reshape(len(rows), -1)
    machine = flat_steps(model)[-1][1]
    votes = getattr(machine, "pair_scores", "") == "votes" and plain_machine(machine).pair_scores == "votes"
    if not votes:  # Votes jump where a value is near zero.
        error = tolerance * largest_sums(model, rows)
        assert np.abs(found - values).max() <= error
    else:
        error = 1e-3
        assert (np.abs(found - values).max(axis=1) <= error).mean() > 0.9
    pairs = np.column_stack([np.zeros(len(values)), values]) if values.shape[1] == 1 else values
    second, first = np.sort(pairs, axis=1)[:, -2:].T
    is_clear = first - second > 2 * error
    if votes:
        is_clear &= np.abs(found - values).max(axis=1) <= error
    expected = [str(label) for label in model.predict(rows)]
    assert [a for a, clear in zip(labels, is_clear, strict=True) if clear] == [
        b for b, clear in zip(expected, is_clear, strict=True) if clear
    ]


SLOW_TO_COMPILE = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@pytest.mark.slow
@SLOW_TO_COMPILE
@given(machines())
def test_float32_decides_alike(tmp_path, drawn):
    machine, rows = drawn
    # A sum of squares of rows far from their centre, and powers, multiply the rounding of float32.
    assert_alike(dm.to_c(machine), machine, rows, tmp_path, 1e-5)


@pytest.mark.slow
@SLOW_TO_COMPILE
@given(machines(), st.booleans())
def test_fixed_point_decides_alike_within_the_range(tmp_path, drawn, from_rows):
    machine, rows = drawn
    is_linear = plain_machine(machine).kernel.name == "linear"
    if not (from_rows or is_linear):
        rows = np.asarray(plain_machine(machine).vectors)
        if not len(rows):
            return
    source = dm.to_c(machine, numbers="fixed", rows=rows if from_rows or is_linear else None)
    assert_alike(source, machine, rows, tmp_path, 1e-5)


@pytest.mark.parametrize("numbers", ["float32", "fixed"])
@pytest.mark.parametrize("scalers", [
    [StandardScaler()], [MinMaxScaler((-1, 3))], [RobustScaler(), MinMaxScaler()], [MaxAbsScaler(), StandardScaler()],
], ids=str)  # fmt: skip
@pytest.mark.parametrize(
    "machine", [dm.SVMClassifier(), dm.ODMClassifier(kernel="poly"), dm.LinearSVMClassifier()], ids=str
)
def test_scalers_before_the_machine(tmp_path, machine, scalers, numbers):
    X, y = rows_and_labels(3, 3, 4)
    X = X * [1, 10, 1000, 1e-3]
    model = fitted(make_pipeline(*scalers, machine), X, y)
    assert_alike(dm.to_c(model, numbers=numbers, rows=X), model, X, tmp_path, 2e-5)


@pytest.mark.parametrize("numbers", ["float32", "fixed"])
@pytest.mark.parametrize("name", regressors())
def test_regressors_predict_alike(tmp_path, name, numbers):
    X, _ = rows_and_labels(3, 2, 4)
    X = X.astype(np.float32).astype(float)
    y = 1000.0 + 30 * np.sin(X[:, 0]) + X[:, 1]
    model = fitted(regressors()[name], X, y)
    predicted, values = run(dm.to_c(model, numbers=numbers, rows=X), X, tmp_path)
    # One scale of all coefficients keeps few digits of the intercept in fixed point.
    terms = np.abs(plain_model(model)[1].coefficients).sum() if numbers == "fixed" else 0.0
    tolerance = 1e-5 * (np.abs(model.predict(X)).max() + terms)
    assert np.abs(values[:, 0] - model.predict(X)).max() <= tolerance
    if numbers == "float32":
        np.testing.assert_allclose(np.array(predicted, dtype=float), values[:, 0])


@pytest.mark.parametrize("name", sklearn_classifiers())
@pytest.mark.parametrize(("n_classes", "numbers"), [(2, "float32"), (4, "float32"), (4, "fixed")])
def test_classes_with_the_names_of_scikit_learn_decide_alike(tmp_path, name, n_classes, numbers):
    X, y = rows_and_labels(3, n_classes, 4)
    model = fitted(sklearn_classifiers()[name], X, y)
    assert_alike(dm.to_c(model, numbers=numbers, rows=X), model, X, tmp_path, 2e-5)


@pytest.mark.parametrize("numbers", ["float32", "fixed"])
@pytest.mark.parametrize("break_ties", [False, True])
def test_tied_votes_of_svc_are_broken_as_its_parameter_says(tmp_path, break_ties, numbers):
    X, y, rows = tied_votes()
    rows = rows.astype(np.float32).astype(float)
    model = svm.SVC(kernel="poly", degree=2, break_ties=break_ties).fit(X, y)
    labels, values = run(dm.to_c(model, numbers=numbers, rows=rows), rows, tmp_path)
    is_clear = np.abs(values - model.decision_function(rows)).max(axis=1) < 1e-3
    second, first = np.sort(values, axis=1)[:, -2:].T
    is_clear &= first - second > 1e-2
    assert is_clear.mean() > 0.5
    assert (np.array(labels, dtype=int) == model.predict(rows))[is_clear].all()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
def test_calibrated_probabilities(tmp_path, method, n_classes):
    pytest.importorskip("sklearn", "1.8", reason="temperature scaling needs scikit-learn 1.8")
    X, y = rows_and_labels(5, n_classes, n=120)
    inside = make_pipeline(StandardScaler(), dm.SVMClassifier(random_state=0))
    model = make_pipeline(MinMaxScaler(), CalibratedClassifierCV(inside, method=method, cv=3, ensemble=False))
    model.fit(X, y)
    rows = new_rows(X, 6).astype(np.float32).astype(float)
    labels, found = run(dm.to_c(model), rows, tmp_path, function="probabilities")
    expected = model.predict_proba(rows)
    # Isotonic regressions are steep, so that a rounding of a decision value may be a large one of a probability.
    assert (np.abs(found - expected).max(axis=1) <= 2e-5).mean() >= (0.97 if method == "isotonic" else 1.0)
    second, first = np.sort(expected, axis=1)[:, -2:].T
    is_clear = first - second > 0.1
    assert (np.array(labels, dtype=int) == model.predict(rows))[is_clear].all() and is_clear.mean() > 0.5


def test_equal_shares_where_no_class_is_possible(tmp_path):
    X, y = rows_and_labels(5, 3, n=120)
    model = CalibratedClassifierCV(dm.SVMClassifier(), method="isotonic", cv=3, ensemble=False).fit(X, y)
    for one in model.calibrated_classifiers_[0].calibrators:
        one.y_thresholds_[:] = 0.0
    _, found = run(dm.to_c(model), X, tmp_path, function="probabilities")
    assert (found == np.float32(1 / 3)).all()


def sanitized(folder):
    """Return the flag of the check for undefined behaviour, or skip the test without it."""
    flags = ["-fsanitize=undefined", "-fno-sanitize-recover=all"]
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    done = subprocess.run([COMPILER, *flags, "-o", folder / "empty", folder / "empty.c"], capture_output=True)
    if done.returncode:
        pytest.skip("the C compiler has no -fsanitize=undefined")
    return flags


@pytest.mark.parametrize("way", ["one_vs_rest", "one_vs_one"])
@pytest.mark.parametrize("pair_scores", ["smallest", "votes"])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "linear"])
def test_fixed_point_never_overflows(tmp_path, kernel, pair_scores, way):
    flags = sanitized(tmp_path)
    X, y = rows_and_labels(3, 3, 4)
    machine = dm.SVMClassifier(100, kernel=kernel, coef0=1.0, multi_class=way, pair_scores=pair_scores, max_iter=50)
    fitted(machine, X, y)
    rng = np.random.default_rng(0)
    rows = np.vstack([X, rng.choice([-1e38, -1e3, 0, 1, 1e3, 1e38, np.inf, -np.inf], (300, 4))])
    labels, values = run(dm.to_c(machine, numbers="fixed", rows=X), rows, tmp_path, *flags)
    assert len(labels) == len(rows) and np.isfinite(values).all()


def test_integers_of_any_size_are_rows_of_fixed_point(tmp_path):
    """Rows that were not made by machine_quantize, the smallest integer included."""
    flags = sanitized(tmp_path)
    X, y = rows_and_labels(3, 2, 2)
    (tmp_path / "machine.c").write_text(dm.to_c(dm.SVMClassifier().fit(X, y), numbers="fixed"))
    (tmp_path / "main.c").write_text("""
#define MACHINE_NO_FLOAT
#include "machine.c"
int main(void)
{
    const int32_t x[2] = {INT32_MIN, INT32_MAX};
    return machine_predict(x) > 1;
}
""")
    subprocess.run([COMPILER, *FLAGS, *flags, "-o", tmp_path / "main", tmp_path / "main.c"], check=True)
    subprocess.run([tmp_path / "main"], check=True)


def test_a_name_and_labels_are_those_of_the_source(tmp_path):
    X, y = rows_and_labels(0, 3)
    names = np.array(['say "hi" \\ ?', "größe", "a*/b"])
    machine = dm.SVMClassifier().fit(X, names[y])
    assert run(dm.to_c(machine), X, tmp_path)[0] == machine.predict(X).tolist()
    source = dm.to_c(machine, name="my_2nd")
    assert "int my_2nd_predict(const float *x)" in source and "machine_" not in source
    assert set(re.findall(r"#include (\S+)", source)) <= {"<math.h>", "<stdint.h>"} and "alloc" not in source


def test_what_cannot_be_exported_to_c_is_named():
    X, y = rows_and_labels(0, 2)
    machine = dm.SVMClassifier().fit(X, y)
    refused = {
        "cannot export the step 'pca' to C": make_pipeline(PCA(2), dm.SVMClassifier()),
        "cannot export the step 'minmaxscaler' to C": make_pipeline(MinMaxScaler(clip=True), dm.SVMClassifier()),
    }
    calibrated = CalibratedClassifierCV(machine, cv=2, ensemble=False).fit(X, y)
    with pytest.raises(ValueError, match="numbers='fixed' has no probabilities"):
        dm.to_c(calibrated, numbers="fixed")
    for message, model in refused.items():
        with pytest.raises((TypeError, ValueError), match=message):
            dm.to_c(fitted(model, X, y))
    for options, message in (
        ({"numbers": "float16"}, "numbers must be 'float32' or 'fixed', got 'float16'"),
        ({"name": "2nd"}, "name must be an identifier of C, got '2nd'"),
        ({"name": "a b"}, "name must be an identifier of C"),
    ):
        with pytest.raises(ValueError, match=message):
            dm.to_c(machine, **options)
    with pytest.raises(ValueError, match="numbers='fixed' needs rows for a linear machine"):
        dm.to_c(fitted(dm.LinearSVMClassifier(), X, y), numbers="fixed")
    with pytest.raises(ValueError, match="too far from the rows"):
        dm.to_c(dm.SVMClassifier(gamma=1e12).fit(X, y), numbers="fixed")


@pytest.mark.parametrize("numbers", ["float32", "fixed"])
def test_ties_of_votes_are_for_the_first_class(tmp_path, numbers):
    X, y = rows_and_labels(0, 4)
    machine = dm.SVMClassifier(multi_class="one_vs_one", pair_scores="votes").fit(X, y)
    machine.dual_coef_[:], machine.intercept_[:] = 0.0, 0.0
    _, values = run(dm.to_c(machine, numbers=numbers), X, tmp_path)
    assert (values == machine.decision_function(X)).all()
