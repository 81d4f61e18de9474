"""LIBSVM text, against scikit-learn's reader of whole files."""

import io
import re

import numpy as np
import pytest
import scipy.sparse as sp
from data_files import (
    COMPRESS,
    DENSE,
    LABELS,
    as_dense,
    assert_same,
    fault,
    fault_of_all,
    finite,
    grown,
    libsvm_text,
    same_file,
    small_chunks,
)
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from dimargin.io.data import DataFileError, read_data

SPARSE = sp.random_array((60, 30), density=0.1, rng=0, format="csr")


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("X", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_libsvm_is_read_as_by_scikit_learn(X, suffix, written, chunk):
    text = libsvm_text(X, LABELS)
    path = written("rows.svm" + suffix, COMPRESS[suffix](text))
    expected, labels = load_svmlight_file(io.BytesIO(text), zero_based=False)
    data = read_data(path)
    np.testing.assert_array_equal(as_dense(data.X), expected.toarray())
    np.testing.assert_array_equal(data.y, labels)
    assert data.y.dtype == np.int64 and data.X.dtype == np.float64
    assert data.zero_based is False and data.feature_names is None
    assert sp.issparse(data.X) == (X is SPARSE)
    assert_same(grown(path), data)
    options = {"n_features": 40, "zero_based": True}
    assert_same(grown(path, **options), read_data(path, **options))


@pytest.mark.parametrize(
    "text",
    [
        "1 1:2 3:4\n-1 2:5 3:1\n",
        "1 1:2 3:4\n-1 2:5 3:1",
        "1 1:2 3:4\r\n-1 2:5 3:1\r\n",
        "# a comment\n\n1 1:2 3:4 # the first\n\n  \n-1 2:5 3:1\n# end",
        "+1  1:2\t3:4 \n-1.0 2:5 3:1\n",
        "1 qid:7 1:2 3:4\n-1 qid:8 2:5 3:1\n",
    ],
)
def test_libsvm_lines(text, written, chunk):
    path = written("rows.txt", text)
    data = read_data(path)
    assert as_dense(data.X).tolist() == [[2, 0, 4], [0, 5, 1]] and data.y.tolist() == [1, -1]
    assert_same(grown(path), data)


@pytest.mark.parametrize(
    ("text", "zero_based", "expected"),
    [
        ("1 1:5\n", None, [[5]]),
        ("1 1:5\n", False, [[5]]),
        ("1 1:5\n", True, [[0, 5]]),
        ("1 1:5\n2 0:3\n", None, [[0, 5], [3, 0]]),
        ("1 1:5\n2 0:3\n", True, [[0, 5], [3, 0]]),
        ("2 0:3\n1 1:5\n", None, [[3, 0], [0, 5]]),
    ],
)
def test_features_count_from_zero_if_one_is_zero(text, zero_based, expected, written, monkeypatch):
    small_chunks(monkeypatch, 3)  # so that the 0 and the 1 are in different chunks
    data = read_data(written("rows", text), zero_based=zero_based)
    assert as_dense(data.X).tolist() == expected and data.zero_based == any(len(row) == 2 for row in expected)
    if len(expected) == 2:
        assert "feature 0" in fault(written("rows", text), zero_based=False)


def test_libsvm_is_widened_but_not_narrowed(written):
    path = written("rows", "1 1:5 3:1\n2 2:3\n")
    assert as_dense(read_data(path, n_features=4).X).tolist() == [[5, 0, 1, 0], [0, 3, 0, 0]]
    assert "FILE has a feature 3, expected 2 features counted from 1" in fault(path, n_features=2)
    assert "counted from 0" in fault(path, n_features=3, zero_based=True)


def test_rows_are_stored_by_the_width_they_get(written):
    """Dense rows of ten features, read for a model of a million, must not become a million numbers each."""
    path = written("rows", libsvm_text(DENSE, LABELS))
    assert isinstance(read_data(path, n_features=6).X, np.ndarray)
    wide = read_data(path, n_features=10**6).X
    assert sp.issparse(wide) and wide.shape == (60, 10**6)
    np.testing.assert_array_equal(wide[:, :5].toarray(), DENSE)


@pytest.mark.parametrize(("text", "dense"), [("1 1:1 2:1\n1 1:1\n", True), ("1 4:1\n1 1:1\n", False), ("1 1:7", True)])
def test_half_of_the_numbers_make_rows_dense(text, dense, written):
    assert isinstance(read_data(written("rows", text)).X, np.ndarray) == dense


@pytest.mark.parametrize("tail", ["2 9:1\n" * 3, "2 900:1\n" * 40])
def test_later_pieces_may_be_wider_and_sparser(tail, written, monkeypatch):
    text = "1 1:1 2:1 3:1\n" * 30 + tail
    whole = read_data(written("rows", text)).X
    small_chunks(monkeypatch, 30)
    chunks = read_data(written("rows", text)).X
    assert type(whole) is type(chunks)
    np.testing.assert_array_equal(as_dense(chunks), as_dense(whole))


@pytest.mark.parametrize("largest", [2**31 - 2, 2**31 - 1, 2**31, 3 * 10**9, 2**62])
def test_features_beyond_32_bits(largest, written, chunk):
    text = "# 99999999999999999999:1\n" + "".join(f"{k % 2} qid:7 1:1 {k + 2}:0.5 {largest - k}:2\n" for k in range(9))
    data = read_data(written("rows", text))
    assert data.X.shape == (9, largest) and data.zero_based is False and data.y.tolist() == [k % 2 for k in range(9)]
    found = [data.X.indices[a:b].tolist() for a, b in zip(data.X.indptr[:-1], data.X.indptr[1:], strict=True)]
    assert found == [[0, k + 1, largest - k - 1] for k in range(9)] and data.X.data.tolist() == [1, 0.5, 2] * 9
    wider = read_data(written("rows", text), n_features=largest + 5, zero_based=True).X
    assert wider.shape == (9, largest + 5) and wider.indices.max() == largest
    with pytest.raises(DataFileError, match=f"has a feature {largest}, expected {largest - 1} features"):
        read_data(written("rows", text), n_features=largest - 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 1:2 x", "'1 1:2 x' is not LIBSVM text"),
        ("ham 1:2", "'ham 1:2' is not LIBSVM text"),
        ("1:2 2:3", "'1:2 2:3' has no label, unless a weight follows its label (--weight label, "),
        ("12345678901234567890 1:2", "the label 12345678901234567890 has more digits than an integer of 64 bits"),
        ("1 2:1 1:1", "with features in order"),
        ("1 2:1 2:1", "with features in order"),
        ("1 -1:1", "Invalid index -1"),
        ("1 1:", "'1 1:' is not LIBSVM text"),
        ("1 1:ham\r", "'1 1:ham' is not LIBSVM text"),
        ("1 1:\xff", "is not LIBSVM text"),
        ("1 qid:\0 1:1 # x", "a NUL byte; expected text"),
        ("1 1:1 # \0", "a NUL byte; expected text"),
        ("1 1:1_0", "an underscore; expected numbers without underscores"),
        ("1 1:2e-_1_0", "an underscore; expected numbers without underscores"),
        ("1 1:" + "x" * 10_000, "x..."),
        ("1 1:nan", "NaN or infinite"),
        ("1 1:1 2:-inf", "NaN or infinite"),
        ("nan 1:1", "NaN or infinite"),
        ("1 1:1e999", "NaN or infinite"),
        ("1 5000000000000000000:1", "feature 5000000000000000000 is above 4611686018427387904"),
        ("1 3000000000:1 2147483648:1", "with features in order"),
        ("1 -3000000000:1", "is not LIBSVM text"),
        ("1 3000000000:x", "is not LIBSVM text"),
        ("1 99999999999999999999:1", "is not LIBSVM text"),
        ("a,b,c", "is not LIBSVM text"),
        ("1 1:2 " + "x" * 100, "xxx...'"),
    ],
)
@pytest.mark.parametrize("n_before", [0, 1, 50])
def test_malformed_libsvm_line_is_named(line, message, n_before, written, chunk):
    text = "1 1:1\n" * n_before + "# comment\n\n" + line + "\n" + "2 1:3\n" * 20
    expected = f"FILE, line {n_before + 3}: "
    found = fault_of_all(written("rows", text.encode("latin-1")), format="libsvm")
    assert found.startswith(expected) and message in found and len(found) < 500


def test_the_first_of_several_values_that_are_not_finite_is_named(written):
    for text in ("1 1:1\nnan 1:1\n1 1:inf\n", "1 1:1\n1 1:inf\nnan 1:1\n", "1\n1 1:nan\n"):
        assert fault(written("rows", text)).startswith("FILE, line 2: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "is empty"), ("\n\n", "has no rows"), ("# none\n", "has no rows"), ("1\n2\n", "features")],
)
@pytest.mark.parametrize("suffix", COMPRESS)
def test_libsvm_without_rows_or_features(text, message, suffix, written):
    found = fault(written("rows" + suffix, COMPRESS[suffix](text.encode())))
    assert message in found or (suffix and "no rows" in found)


def test_rows_without_features_are_zeros_if_the_width_is_known(written):
    assert as_dense(read_data(written("rows", "1\n2\n"), n_features=2).X).tolist() == [[0, 0], [0, 0]]


@same_file
@given(
    st.lists(st.tuples(finite, st.dictionaries(st.integers(1, 12), finite, max_size=6)), min_size=1, max_size=12),
    st.integers(1, 100),
)
def test_libsvm_round_trip(tmp_path, rows, size):
    text = "".join(f"{y!r} " + " ".join(f"{k}:{v!r}" for k, v in sorted(x.items())) + "\n" for y, x in rows)
    (tmp_path / "rows").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        small_chunks(patch, size)
        data = read_data(tmp_path / "rows", n_features=12)
    expected = np.array([[x.get(k, 0.0) for k in range(1, 13)] for _, x in rows])
    np.testing.assert_array_equal(as_dense(data.X), expected)
    np.testing.assert_array_equal(data.y, [y for y, _ in rows])


def test_labels_are_whole_numbers_of_any_number_of_digits(written, chunk):
    """Those that float64 cannot tell apart, too, whichever piece of the file they are in."""
    texts = ["1"] * 10 + ["12345678901234567", "12345678901234568", "-9223372036854775808", "+007", "1e3", "3.0"] * 5
    data = read_data(written("rows", "".join(f"{text} 1:1 # x\n\n" for text in texts)))
    assert data.y.tolist()[10:16] == [12345678901234567, 12345678901234568, -(2**63), 7, 1000, 3]
    assert data.y.dtype == np.int64


@pytest.mark.parametrize("text", ["1e20", "0.5", "12345678901234567.5"])
def test_labels_that_are_no_whole_numbers_are_floating_point_numbers(text, written):
    assert read_data(written("rows", f"{text} 1:1\n1 1:1\n")).y.tolist() == [float(text), 1.0]


@pytest.mark.parametrize("start", ["", "7 ", "+1.5e3\t", "? ", "nan ", "N/A ", "  ", "qid:3 ", "-1 qid:3 "])
def test_labels_that_are_not_needed_need_not_be_there(start, written, chunk):
    text = f"{start}1:2 3:4 # x\n" * 9 + "0 2:1\n" * 9
    data = read_data(written("rows", text), needs_label=False)
    assert as_dense(data.X).tolist() == [[2, 0, 4]] * 9 + [[0, 1, 0]] * 9 and data.y is None
    assert grown(written("grows", text), needs_label=False).X.shape == (18, 3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a,b,c", "'a,b,c' is not LIBSVM text"),
        ("1.5\t2.5", "is not LIBSVM text"),
        ("ham 1:2", "'ham 1:2' is not LIBSVM text"),
        ("2:1 1:1", "'2:1 1:1' is not LIBSVM text"),
        (":1", "is not LIBSVM text"),
        ("1:nan", "a value is NaN or infinite"),
        (" \n1:1", "an empty line among rows without labels; write '0' for a row of zeros"),
    ],
)
def test_lines_without_labels_are_read_as_strictly(line, message, written):
    found = fault(written("rows", f"1:1 2:1\n# comment\n{line}\n1:1\n"), needs_label=False)
    assert found.startswith("FILE, line 3: ") and message in found


def test_what_begins_with_a_million_digits_is_read_in_time_linear_in_them(written):
    assert "FILE, line 1: " in fault(written("rows", "9" * 10**6 + "x 1:1\n"), needs_label=False)


def test_weights_stand_behind_labels(written, chunk):
    text = "".join(f" +1:{k / 4} 1:{k} 3:4 # x\n-1:1e-3 2:1\n\n# none\n12345678901234567:0\n" for k in range(20))
    data = read_data(written("rows", text), weighted=True)
    plain = read_data(written("plain", re.sub(r"(?m)^( ?[-+]?\d+):\S+", r"\1", text)))
    np.testing.assert_array_equal(as_dense(data.X), as_dense(plain.X))
    assert data.y.tolist() == plain.y.tolist() == [1, -1, 12345678901234567] * 20 and plain.weights is None
    assert data.weights.tolist() == [x for k in range(20) for x in (k / 4, 1e-3, 0)]
    with pytest.raises(DataFileError, match="is CSV; expected LIBSVM text"):
        read_data(written("rows.csv", "a,y\n1,2\n"), weighted=True)
    unread = read_data(written("rows", text), weighted=True, needs_label=False)
    assert unread.y is None and unread.weights.tolist() == data.weights.tolist()


@pytest.mark.parametrize("head", ["1", "1:", "1:-1", "1:nan", "1:1e999", "1:x", "1:2:3", "1:1_0", "\xff:\xff"])
def test_what_is_not_a_weight_is_named_by_its_line(head, written, chunk):
    text = "1:1 1:1\n" * 50 + f"# comment\n\n{head} 2:1\n" + "2:1 1:3\n" * 20
    found = fault(written("rows", text.encode("latin-1")), weighted=True)
    assert found.startswith("FILE, line 53: ") and "is not a label with its weight, such as 1:0.5" in found
