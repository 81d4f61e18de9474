"""The text of LIBSVM's models, as it is written by hand, and damaged."""

import itertools
import os
import sys

import bounded
import numpy as np
import pytest
from libsvm_counterpart import official
from numpy.testing import assert_allclose

import dimargin as dm
from dimargin.io.data import lines
from dimargin.io.models import ModelFileError

TEXT = """svm_type c_svc
kernel_type polynomial
degree 2
gamma 0.5
coef0 1
nr_class 3
total_sv 4
rho 0.5 -0.25 1e-3
label 1 2 -3
nr_sv 2 1 1
SV
0.5 0.25 1:0.5 3:-1\x20
1 0.5 2:0.5\x20
-1.5 2 1:1\x20
-0.75 -2\x20
"""


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "some.model"
    path.write_text(TEXT)
    return path


def test_a_model_by_hand(model_file):
    """Every decision value of one row, by pencil: kernel values (0.5 x.z + 1)^2 with x = (2, 0, 0)."""
    k = [(0.5 * 1 + 1) ** 2, 1.0, (0.5 * 2 + 1) ** 2, 1.0]
    expected = [
        0.5 * k[0] + 1 * k[1] - 1.5 * k[2] - 0.5,
        0.25 * k[0] + 0.5 * k[1] - 0.75 * k[3] + 0.25,
        2 * k[2] - 2 * k[3] - 1e-3,
    ]
    model = dm.from_libsvm(model_file)
    assert_allclose(model.decision_values([[2.0, 0, 0]])[0], expected, rtol=1e-13)
    assert_allclose(official(model_file, [[2.0, 0, 0]])[1][0], expected, rtol=1e-13)


LIES = {
    "no such keyword": ("degree 2", "grade 2", "line 3: 'grade 2' does not belong"),
    "twice": ("degree 2", "gamma 0.5", "line 4: 'gamma 0.5' does not belong"),
    "no gamma": ("gamma 0.5\n", "", "no line 'gamma'"),
    "no rho": ("rho 0.5 -0.25 1e-3\n", "", "no line 'rho'"),
    "a blank line": ("degree 2\n", "\n", "line 3: '' does not belong"),
    "regression": ("c_svc", "epsilon_svr", "line 6: 'nr_class 3': expected 2, which LIBSVM writes for epsilon_svr"),
    "one class": ("c_svc", "one_class", "line 6: 'nr_class 3': expected 2"),
    "unknown type": ("c_svc", "d_svc", "expected one of c_svc, nu_svc, one_class, epsilon_svr, nu_svr"),
    "sigmoid": ("polynomial", "sigmoid", "line 2: .*not positive semi-definite"),
    "precomputed": ("polynomial", "precomputed", "line 2: .*only feature 0, its index in the kernel matrix"),
    "unknown kernel": ("polynomial", "spline", "expected one of linear, polynomial, rbf, precomputed"),
    "degree 0": ("degree 2", "degree 0", "line 3: 'degree 0': expected 1 or more"),
    "degree 1025": ("degree 2", "degree 1025", "line 3: 'degree 1025': expected 1024 or less"),
    "half a degree": ("degree 2", "degree 2.5", "expected integers"),
    "two degrees": ("degree 2", "degree 2 3", "expected 1 value, got 2"),
    "gamma 0": ("gamma 0.5", "gamma 0", "line 4: .* above 0"),
    "gamma nan": ("gamma 0.5", "gamma nan", "expected finite numbers"),
    "underscore": ("gamma 0.5", "gamma 0_5", "expected finite numbers"),
    "coef0 below 0": ("coef0 1", "coef0 -0.01", "line 5: 'coef0 -0.01': .* not positive semi-definite"),
    "coef0 text": ("coef0 1", "coef0 one", "expected finite numbers"),
    "fewer classes": ("nr_class 3", "nr_class 2", "line 9: .*expected 2 values, got 3"),
    "no classes": ("nr_class 3", "nr_class 0", "expected 1 or more"),
    "many classes": ("nr_class 3", "nr_class 2147483647", "expected 2147483647 values"),
    "label of text": ("label 1 2 -3", "label 1 2 x", "expected finite numbers"),
    "half a label": ("label 1 2 -3", "label 1 2 0.5", "expected integers"),
    "large label": ("label 1 2 -3", "label 1 2 2147483648", "expected integers of 32 bits"),
    "label twice": ("label 1 2 -3", "label 1 2 1", "a label occurs twice"),
    "rho inf": ("-0.25 1e-3", "inf 1e-3", "line 8: .*finite"),
    "rho missing": ("-0.25 1e-3", "1e-3", "expected 3 values, got 2"),
    "counts": ("nr_sv 2 1 1", "nr_sv 2 1 2", "line 10: .*total_sv, 4"),
    "negative counts": ("nr_sv 2 1 1", "nr_sv 4 1 -1", "line 10: "),
    "fewer vectors": ("total_sv 4\n", "total_sv 5\n", "line 10: "),
    "a vector missing": ("1 0.5 2:0.5 \n", "", "3 support vectors, expected total_sv, 4"),
    "a vector more": ("-0.75 -2 \n", "-0.75 -2 \n1 1 \n", "5 support vectors, expected total_sv, 4"),
    "a blank vector": ("1 0.5 2:0.5 \n", "\n", "3 support vectors, expected total_sv, 4"),
    "no end": ("-0.75 -2 \n", "-0.75 -2", "the last line is truncated"),
    "a coefficient missing": ("1 0.5 2:0.5", "1 2:0.5", "line 13: .*label is a support vector's coefficient"),
    "coefficients only": (
        "-0.75 -2 ",
        "-0.75 ",
        "line 15: '-0.75' is not a support vector: expected 2 finite coefficients",
    ),
    "a coefficient more": ("1 0.5 2:0.5", "1 0.5 3 2:0.5", "line 13: "),
    "coefficient nan": ("1 0.5 2:0.5", "nan 0.5 2:0.5", "line 13: 'nan 0.5 2:0.5' is not a support vector"),
    "coefficient inf": ("1 0.5 2:0.5", "1 1e999 2:0.5", "line 13: a value is NaN or infinite"),
    "other coefficient inf": ("1 0.5 2:0.5", "1e999 1 2:0.5", "line 13: '1e999 1 2:0.5' is not a support vector"),
    "value inf": ("2:0.5", "2:1e999", "line 13: a value is NaN or infinite"),
    "value text": ("2:0.5", "2:x", "line 13: "),
    "a comment": ("2:0.5", "2:0.5 # 3:1", "line 13: "),
    "a query": ("2:0.5", "qid:3 2:0.5", "line 13: "),
    "features out of order": ("1:0.5 3:-1", "3:-1 1:0.5", "line 12: "),
    "a feature twice": ("1:0.5 3:-1", "3:-1 3:0.5", "line 12: "),
    "negative feature": ("2:0.5", "-2:0.5", "line 13: "),
    "huge feature": ("2:0.5", "99999999999999999999:0.5", "line 13: "),
}


@pytest.mark.parametrize("lie", sorted(LIES))
def test_a_file_that_lies_is_refused(model_file, lie):
    before, after, message = LIES[lie]
    assert TEXT.count(before) == 1
    model_file.write_text(TEXT.replace(before, after))
    with pytest.raises(ModelFileError, match=rf"some\.model.*{message}"):
        dm.from_libsvm(model_file)


def test_a_file_cut_anywhere_is_refused(model_file):
    for size in range(len(TEXT)):
        model_file.write_text(TEXT[:size])
        with pytest.raises(ModelFileError, match=r"some\.model"):
            dm.from_libsvm(model_file)


def test_any_byte_changed_is_refused_or_read(model_file):
    """Whatever the byte, an error that names the file, or a model that predicts."""
    rng = np.random.default_rng(0)
    for index, byte in itertools.product(range(len(TEXT)), rng.integers(0, 256, 3)):
        content = bytearray(TEXT.encode())
        content[index] = byte
        model_file.write_bytes(content)
        try:
            model = dm.from_libsvm(model_file)
        except ModelFileError as error:
            assert "some.model" in str(error)
        else:
            if model.support_vectors.shape[1] < 1000:
                assert model.predict(np.ones((1, max(1, model.support_vectors.shape[1]))))[0] in model.labels


@pytest.mark.parametrize("content", [b"", b"SV\n", b"PK\x03\x04", b"1 1:2\n", b"\xff" * 100, b"\0" * 1000])
def test_other_files_are_refused(model_file, content):
    model_file.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"some\.model"):
        dm.from_libsvm(model_file)


def test_order_of_the_header_and_line_ends_do_not_matter(model_file):
    X = np.random.default_rng(0).normal(size=(4, 3))
    expected = dm.from_libsvm(model_file).decision_values(X)
    lines = TEXT.splitlines(keepends=True)
    lines[0], lines[9] = lines[9], lines[0]
    model_file.write_text("".join(lines).replace("\n", "\r\n"))
    assert np.array_equal(dm.from_libsvm(model_file).decision_values(X), expected)


def test_a_missing_file_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        dm.from_libsvm(tmp_path / "none")


@pytest.mark.parametrize(
    ("start", "message"),
    [("", "line 1: more than 16777216 bytes before a line 'SV'"), (TEXT, "line 16: longer than 2000000 bytes")],
    ids=["nothing else", "behind a model"],
)
@pytest.mark.parametrize("has_end", [False, True])
def test_zeros_without_an_end_are_refused(start, message, has_end, tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 2_000_000)
    path = tmp_path / "some.model"
    if has_end or start:
        path.write_text(start)
        os.truncate(path, 2**33)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(ModelFileError, match=rf"some\.model, {message}"):
        dm.from_libsvm(path)


@pytest.mark.slow
@pytest.mark.nightly_after(1)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("n_classes", "row"), [(2, "1 1:1\n"), (10, "1 " * 9 + "1:1\n")])
def test_reading_takes_ten_times_the_text_at_most(n_classes, row, tmp_path):
    """Lines of six bytes took 42 times the text, as objects of Python."""
    n, path = 20 * 2**20 // len(row), tmp_path / "some.model"
    pairs, names = n_classes * (n_classes - 1) // 2, range(n_classes)
    header = f"svm_type c_svc\nkernel_type linear\nnr_class {n_classes}\ntotal_sv {n}\nrho{' 0' * pairs}\n"
    path.write_text(f"{header}label {' '.join(map(str, names))}\nnr_sv {n}{' 0' * (n_classes - 1)}\nSV\n{row * n}")
    imports = "import resource, sklearn.datasets\nfrom dimargin.io.libsvm import from_libsvm"
    peak = "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024"
    code = f"before = {peak}; from_libsvm({str(path)!r}); assert {peak} - before < 10 * 20 * 2**20, {peak} - before"
    assert bounded.run(imports, code, megabytes=4000) == "done\n"
