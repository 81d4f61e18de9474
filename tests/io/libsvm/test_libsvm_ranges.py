"""svm-scale's numbers and range files."""

import os

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dimargin.io.data import DataFileError, lines, read_data
from dimargin.io.libsvm.ranges import FeatureRanges

# what svm-scale of LIBSVM 3.37 makes of this text
GIVEN = "+1 1:0.5 3:-2 4:7\n-1 2:1e-7 3:4\n2.5 1:3 3:0.33333333333 4:7\n0 1:0.1 2:5e5 4:7\n"
RANGES = "x\n-1 1\n1 0 3\n2 0 500000\n3 -2 4\n4 0 7\n"
SCALED = """1 1:-0.666667 2:-1 3:-1 4:1\x20
-1 1:-1 2:-1 3:1 4:-1\x20
2.5 1:1 2:-1 3:-0.222222 4:1\x20
0 1:-0.933333 2:1 3:-0.333333 4:1\x20
"""
LABELS_TOO = "y\n-5 5\n-1 2.5\nx\n0 3\n1 0 3\n2 0 500000\n3 -2 4\n4 0 7\n"
SCALED_WITH_LABELS = """0.71428571428571441 1:0.5 4:3\x20
-5 2:6e-13 3:3\x20
5 1:3 3:1.16667 4:3\x20
-2.1428571428571428 1:0.1 2:3 3:1 4:3\x20
"""
OTHERS = "1 1:10 2:1 4:3 5:2\n-1 3:1\n3 5:1\n"
OTHERS_SCALED = """1 1:5.66667 2:-0.999996 3:-0.333333 4:-0.142857\x20
-1 1:-1 2:-1 4:-1\x20
3 1:-1 2:-1 3:-0.333333 4:-1\x20
"""


def read(path, text):
    path.write_text(text)
    data = read_data(path, zero_based=False)
    return data.X, data.y


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_the_same_text_as_libsvm(tmp_path, form):
    X, y = read(tmp_path / "rows", GIVEN)
    X = form(X)
    for limits, expected, scaled in (
        ((-1.0, 1.0, None), RANGES, SCALED),
        ((0.0, 3.0, (-5.0, 5.0)), LABELS_TOO, SCALED_WITH_LABELS),
    ):
        ranges = FeatureRanges.fit(X, y, *limits)
        ranges.write(tmp_path / "ranges")
        assert (tmp_path / "ranges").read_text() == expected
        assert "".join(FeatureRanges.read(tmp_path / "ranges").lines(X, y)) == scaled
        assert "".join(ranges.lines(X, y)) == scaled


def test_other_rows_by_restored_ranges(tmp_path):
    """Narrower rows, wider ones, and a feature without a range, which is left out and named."""
    (tmp_path / "ranges").write_text(RANGES)
    ranges = FeatureRanges.read(tmp_path / "ranges")
    X, y = read(tmp_path / "rows", OTHERS)
    assert "".join(ranges.lines(X, y)) == OTHERS_SCALED and ranges.unknown(X) == [5]
    X, y = read(tmp_path / "rows", "1 1:10\n")
    assert "".join(ranges.lines(X, y)) == "1 1:5.66667 2:-1 3:-0.333333 4:-1 \n" and ranges.unknown(X) == []


def by_hand(X, y, lower, upper):
    """One number after the other, as LIBSVM's README describes it."""
    least, largest = X.min(axis=0), X.max(axis=0)
    lines = []
    for row, label in zip(X, y, strict=True):
        line = f"{label:.17g} "
        for j, value in enumerate(row):
            if least[j] != largest[j]:
                share = lower + (upper - lower) * (value - least[j]) / (largest[j] - least[j])
                scaled = lower if value == least[j] else upper if value == largest[j] else share
                line += f"{j + 1}:{scaled:g} " if scaled != 0 else ""
        lines.append(f"{line}\n")
    return "".join(lines)


@given(
    X=arrays(
        float, st.tuples(st.integers(1, 8), st.integers(1, 5)), elements=st.sampled_from([0, 0, 1, -2, 3.25, 1e-3])
    ),
    limits=st.sampled_from([(-1.0, 1.0), (0.0, 1.0), (0.5, 1.0), (-0.1, 0.0)]),
    at_once=st.sampled_from([1, 7, 10**6]),
    sparse=st.booleans(),
)
def test_any_rows(X, limits, at_once, sparse):
    y = np.arange(len(X)) - 1
    form = sp.csr_array(X) if sparse else X
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dimargin.io.libsvm.ranges._MAX_BATCH_NUMBERS", at_once)
        text = "".join(FeatureRanges.fit(form, y, *limits).lines(form, y))
    assert text == by_hand(X, y, *limits)


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(
    features=st.lists(st.integers(1, 2**31 - 1), unique=True).map(sorted),
    values=st.data(),
    labels=st.none() | st.tuples(*[finite] * 4),
)
def test_a_round_trip_changes_nothing(tmp_path_factory, features, values, labels):
    path = tmp_path_factory.mktemp("ranges") / "r"
    least, largest = (values.draw(arrays(float, len(features), elements=finite)) for _ in range(2))
    ranges = FeatureRanges(-1.0, 0.1, np.array(features, dtype=np.int64), least, largest, labels)
    ranges.write(path)
    again = FeatureRanges.read(path)
    for name in ("lower", "upper", "features", "least", "largest"):
        assert np.array_equal(getattr(again, name), getattr(ranges, name)), name
    assert again.labels == labels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected 'x', as written by svm-scale -s, in a range file, got 'the end'"),
        ("z\n0 1\n", "line 1: expected 'x'"),
        ("y\n0 1\nx\n0 1\n", "line 3: expected 2 finite numbers in a range file, got 'x'"),
        ("y\n0 1\n0 1\n0 1\n", "line 4: expected 'x'"),
        ("x\n", "line 2: expected 2 finite numbers in a range file, got 'the end'"),
        ("x\n0 1 2\n", "line 2: expected 2 finite numbers"),
        ("x\n0 inf\n", "line 2: expected 2 finite numbers"),
        ("x\n0 1\n1 0\n", "line 3: expected 3 finite numbers"),
        ("x\n0 1\n1 0 nan\n", "line 3: expected 3 finite numbers"),
        ("x\n0 1\n1 0 one\n", "line 3: expected 3 finite numbers"),
        ("x\n0 1\n1.5 0 1\n", "line 3: expected a feature above 0"),
        ("x\n0 1\n0 0 1\n", "line 3: expected a feature above 0"),
        ("x\n0 1\n3 0 1\n3 0 1\n", "line 4: expected a feature above 3"),
        ("x\n0 1\n99999999999 0 1\n", "line 3: expected a feature above 0"),
        ("\0\1\2", "line 1: expected 'x'"),
    ],
)
def test_damage_is_named(tmp_path, text, message):
    (tmp_path / "ranges").write_text(text)
    with pytest.raises(DataFileError, match=f"ranges, {message}"):
        FeatureRanges.read(tmp_path / "ranges")


@pytest.mark.parametrize("start", ["", "x\n-1 1\n1 0 1\n"])
def test_zeros_without_an_end_are_refused(start, tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 2_000_000)
    path = tmp_path / "ranges"
    if start:
        path.write_text(start)
        os.truncate(path, 2**33)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(DataFileError, match=rf"ranges, line {4 if start else 1}: longer than 2000000 bytes"):
        FeatureRanges.read(path)


def test_empty_lines_count_only_before_others(tmp_path):
    (tmp_path / "ranges").write_text("x\n-1 1\n1 0 1\n \n\n")
    assert FeatureRanges.read(tmp_path / "ranges").features.tolist() == [1]
    (tmp_path / "ranges").write_text("x\n-1 1\n1 0 1\n\n2 0 1\n")
    with pytest.raises(DataFileError, match=r"ranges, line 4: expected 3 finite numbers in a range file, got ''"):
        FeatureRanges.read(tmp_path / "ranges")


def test_labels_keep_their_digits():
    X, y = np.array([[1.0], [3.0]]), np.array([12345678901234567, 12345678901234568])
    assert [*FeatureRanges.fit(X, y, 0, 1).lines(X, y)] == ["12345678901234567 \n12345678901234568 1:1 \n"]
