"""CSV and Parquet, against readers that share no code with the package."""

import gzip
import io
import lzma
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_files import (
    COMPRESS,
    DENSE,
    LABELS,
    assert_same,
    csv_text,
    fault,
    fault_of_all,
    finite,
    grown,
    parquet,
    same_file,
    small_chunks,
)
from hypothesis import given
from hypothesis import strategies as st

from dimargin.io.data import read_data

both_formats = pytest.mark.parametrize("format", ["csv", "parquet"])


def written_as(format, frame, folder):
    path = folder / f"rows.{format}"
    frame.to_csv(path, index=False) if format == "csv" else frame.to_parquet(path)
    return path


# CSV


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("sep", [",", ";", "\t"], ids=["comma", "semicolon", "tab"])
@pytest.mark.parametrize("header", [True, False])
def test_csv_is_read_as_by_polars(header, sep, suffix, written, chunk):
    text = csv_text(DENSE, LABELS, sep, header)
    path = written("rows.csv" + suffix, COMPRESS[suffix](text.encode()))
    frame = pl.read_csv(io.BytesIO(text.encode()), separator=sep, has_header=header)
    data = read_data(path, None if header else 2)
    label = frame.columns[2]
    np.testing.assert_array_equal(data.X, frame.drop(label).to_numpy())
    np.testing.assert_array_equal(data.y, frame[label].to_numpy())
    assert data.feature_names == (list("abcde") if header else None)
    assert data.y.dtype == np.int64 and data.zero_based is None
    assert_same(grown(path, None if header else 2), data)


@pytest.mark.parametrize(
    "text",
    [
        "a,label,b\n1,x,2\n3,y,4\n",
        "a,label,b\n1,x,2\n3,y,4",
        "a,label,b\r\n1,x,2\r\n3,y,4\r\n",
        "a,label,b\r1,x,2\r3,y,4\r",
        "\ufeffa,label,b\n1,x,2\n3,y,4\n",
        "a,label,b\n\n1,x,2\n\n3,y,4\n\n",
        '"a","label","b"\n"1","x","2"\n"3","y","4"\n',
        "a,label,b\n 1 , x,+2.0\n3e0,y ,4.\n",
    ],
)
def test_csv_lines(text, written):
    path = written("rows.csv", text)
    data = read_data(path)
    assert data.X.tolist() == [[1, 2], [3, 4]] and data.y.tolist() == ["x", "y"] and data.feature_names == ["a", "b"]
    assert_same(grown(path), data)


def test_quoted_delimiters_are_text(written):
    data = read_data(written("rows.csv", '"a, b, c";label\n1;"x;y"\n2;"say ""no"""\n'))
    assert data.feature_names == ["a, b, c"] and data.y.tolist() == ["x;y", 'say "no"']


def test_a_header_of_many_kilobytes(written):
    """What one call reads of a compressed stream may be less than a line."""
    names = [f"f{k}" for k in range(20_000)]
    text = ",".join([*names, "y"]) + "\n" + ("1.25," * 20_000 + "3\n") * 2
    data = read_data(written("rows.csv.gz", gzip.compress(text.encode(), 1)))
    assert data.feature_names == names and (data.X == 1.25).all() and data.y.tolist() == [3, 3]


@pytest.mark.parametrize(
    ("labels", "expected", "kind"),
    [
        (["1", "0", "1"], [1, 0, 1], "i"),
        (["1.0", "-1.0", "1"], [1, -1, 1], "i"),
        (["+1", "-1", "-1"], [1, -1, -1], "i"),
        (["0.5", "1", "0.50"], [0.5, 1, 0.5], "f"),
        (["0.0", "1.0", "0.0"], [0, 1, 0], "f"),
        (["0e0", "1.000000e+00", "1"], ["0e0", "1.000000e+00", "1"], "U"),
        (["12345678901234567", "12345678901234568", "-7"], [12345678901234567, 12345678901234568, -7], "i"),
        (["007", "07", "7"], ["007", "07", "7"], "U"),
        (["1_000", "1", "2"], ["1_000", "1", "2"], "U"),
        (["\u0661", "1", "2"], ["\u0661", "1", "2"], "U"),
        (["inf", "1", "2"], ["inf", "1", "2"], "U"),
        (["True", "False", "True"], ["True", "False", "True"], "U"),
        (["spam", "1", " spam "], ["spam", "1", "spam"], "U"),
        (["ä", "日本", "ä"], ["ä", "日本", "ä"], "U"),
    ],
)
def test_csv_labels(labels, expected, kind, written):
    data = read_data(written("rows.csv", "a,y\n" + "".join(f"{k},{label}\n" for k, label in enumerate(labels))))
    assert data.y.tolist() == expected and data.y.dtype.kind == kind


def test_labels_that_come_first_in_later_pieces(written, monkeypatch):
    labels = [f"class {k // 7}" for k in range(60)][::-1]
    path = written("rows.csv", csv_text(DENSE, labels))
    small_chunks(monkeypatch, 64)
    assert read_data(path).y.tolist() == labels
    frame = pd.DataFrame(DENSE, columns=list("abcde")).assign(label=labels)
    frame.to_parquet(path.with_name("rows.parquet"))
    assert read_data(path.with_name("rows.parquet")).y.tolist() == labels


@both_formats
@pytest.mark.parametrize(
    ("label", "columns", "taken", "features"),
    [
        (None, None, "target", ["u", "v", "w"]),
        ("target", None, "target", ["u", "v", "w"]),
        ("u", None, "u", ["v", "target", "w"]),
        (0, None, "u", ["v", "target", "w"]),
        ("3", None, "w", ["u", "v", "target"]),
        (-1, None, "w", ["u", "v", "target"]),
        ("-2", None, "target", ["u", "v", "w"]),
        (None, ["w", "u"], "target", ["w", "u"]),
        ("v", ["target"], "v", ["target"]),
        (-4, ["v"], "u", ["v"]),
    ],
)
def test_label_and_columns_are_chosen(format, label, columns, taken, features, tmp_path):
    frame = pd.DataFrame({"u": [1, 2], "v": [3, 4], "target": [5, 6], "w": [7, 8]})
    path = written_as(format, frame, tmp_path)
    data = read_data(path, label, columns)
    assert data.feature_names == features and data.y.tolist() == frame[taken].tolist()
    np.testing.assert_array_equal(data.X, frame[features])


@both_formats
@pytest.mark.parametrize("name", ["label", "Target", "CLASS", " y"])
def test_names_of_labels(format, name, tmp_path):
    frame = pd.DataFrame({"a": [1, 2], name: [5, 6]})
    path = written_as(format, frame, tmp_path)
    assert read_data(path).y.tolist() == [5, 6]


@both_formats
@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ("abc", {}, "no column has such a name. Give its name or position; the columns are 'a', 'b', 'c'"),
        (["y", "a", "Class"], {}, "2 columns have such a name"),
        ("aby", {"label": "z"}, "has no label column 'z'; the columns are 'a', 'b', 'y'"),
        ("aby", {"label": 3}, "has no label column 3"),
        ("aby", {"label": "-4"}, "has no label column '-4'"),
        ([*map(chr, range(97, 110))], {"label": "z"}, "'j' and 3 more"),
        (
            "aby",
            {"columns": ["a", "q", "z"]},
            "lacks the columns 'q', 'z'; it has 'a', 'b', 'y'; a model that imputes missing values takes a column",
        ),
        ("aby", {"label": "a", "columns": ["a", "b"]}, "column 'a' is the label and cannot be a feature"),
        ("aby", {"n_features": 3}, "2 feature columns, expected 3"),
        ("y", {}, "has no features"),
        ("aby", {"columns": []}, "has no features"),
        ("aay", {}, "the columns 0 and 1, counted from 0, are all called 'a'; give them different names in the file"),
    ],
)
def test_columns_that_are_not_there(format, names, options, message, tmp_path):
    path = tmp_path / f"rows.{format}"
    if format == "csv":
        path.write_text(",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
    else:
        pq.write_table(pa.Table.from_arrays([pa.array([1])] * len(names), list(names)), path)
    assert message in fault(path, **options)


@both_formats
@pytest.mark.parametrize(
    ("names", "columns", "features"),
    [
        ("ab", None, "ab"),
        ("aby", None, "ab"),
        ("aby", ["y", "b"], "yb"),
        (["y", "a", "class"], ["a"], "a"),
        (["y", "a", "class"], ["y", "a"], "ya"),
    ],
)
def test_labels_that_are_not_needed_are_not_read(format, names, columns, features, tmp_path):
    """What predictions are made for; a column among the features is not the label by its name."""
    frame = pd.DataFrame([range(1, len(names) + 1)], columns=list(names))
    data = read_data(written_as(format, frame, tmp_path), columns=columns, needs_label=False)
    assert data.feature_names == list(features) and data.y is data.label is None


@both_formats
@pytest.mark.parametrize("labels", [[None, None], ["", "?"], ["x", None], [[1], [2]], [np.nan, np.inf]])
def test_label_columns_that_hold_nothing_useful_do_not_matter_for_predictions(format, labels, tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "y": labels, "b": [3, 4]})
    path = written_as(format, frame, tmp_path)
    for columns in (None, ["a", "b"]):
        assert read_data(path, columns=columns, needs_label=False).X.tolist() == [[1, 3], [2, 4]]


def test_the_label_of_predictions_may_be_named(written):
    assert read_data(written("rows.csv", "1,,2\n3,?,4\n"), label=1, needs_label=False).X.tolist() == [[1, 2], [3, 4]]
    assert read_data(written("n.csv", "a,b\n1,2\n"), "gone", ["b"], needs_label=False).X.tolist() == [[2]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,x", "2 fields, expected 3"),
        ("1,x,2,3", "4 fields, expected 3"),
        ("1,x,ham", "column 'b' is 'ham'; a finite number expected"),
        (",x,1", "column 'a' is missing"),
        ("1,x,nan", "column 'b' is 'nan'"),
        ("1,x,1e999", "column 'b' is '1e999'"),
        ("-inf,x,1", "column 'a' is '-inf'"),
        ("1,x,1_0", "column 'b' is '1_0'"),
        ("1,x,\u0661", "column 'b' is '\u0661'"),
        ("1,,2", "the label in column 'label' is missing"),
        ("1, ,2", "the label in column 'label' is missing"),
        ("1,NaN,2", "the label in column 'label' is 'NaN', which is not a label; remove rows without a label from"),
        ('1,"",2', "the label in column 'label' is missing"),
        ("1,\udcff,2", "not UTF-8"),
        ("1,x," + "9x" * 50, "9...'; a finite number expected"),
    ],
)
@pytest.mark.parametrize("n_before", [0, 60])
def test_malformed_csv_line_is_named(line, message, n_before, written, chunk):
    text = "a,label,b\n" + "1,x,2\n" * n_before + "\n" + line + "\n" + "3,y,4\n" * 20
    found = fault_of_all(written("rows.csv", text.encode(errors="surrogateescape")))
    assert found.startswith(f"FILE, line {n_before + 3}: ") and message in found


def test_csv_line_is_named_without_header_and_with_crlf_and_compression(written):
    text = "1;x\r\n2;y\r\n\r\n3;z;4\r\n"
    assert fault(written("rows.csv.xz", lzma.compress(text.encode())), 1).startswith("FILE, line 4: 3 fields")


def test_csv_line_is_named_after_text_of_several_lines(written):
    path = written("rows.csv", 'a,note,y\n1,"one\ntwo\nthree",2\nham,none,1\n')
    assert fault(path, columns=["a"]).startswith("FILE, line 5: column 'a' is 'ham'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n", "line 1 is empty"),
        ("a,y\n", "has no rows"),
        ("a,y", "has no rows"),
        ('a,y\n1,2\n1,"2\n' + "2,3\n" * 50_000, "line 3: field larger"),
        ('a,y\n1,2\n1,"2\n' + "2,3\n" * 5, "line 3: the label in column 'y' has a line break"),
        ('y,a\n2,1\n2,"1\n' + "2,3\n" * 5, "line 3: column 'a' is "),
        ('"' + "a" * 200_000 + '",y\n1,2\n', "line 1: field larger"),
        ('"a\nb,y\n1,2\n', "line 1: a quote is not closed"),
        ("\x00\x01\x02,y\n\x00,1\n", "line 1: a NUL byte; expected text"),
        ("a,y\n\x00,1\n", "line 2: "),
    ],
)
def test_csv_that_is_none(text, message, written):
    assert message in fault(written("rows.csv", text))


names = st.text("abcxyz |'\"", min_size=1, max_size=6).map(lambda text: f"n{text}n")
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=5)


@same_file
@given(st.data(), st.integers(1, 4), st.integers(1, 10), st.integers(64, 400), st.sampled_from(",;\t"))
def test_csv_round_trip(tmp_path, data, n_columns, n_rows, size, sep):
    header = data.draw(
        st.lists(names.map(lambda name: name.replace("|", sep)), min_size=n_columns, max_size=n_columns, unique=True)
    )
    X = np.array(
        data.draw(st.lists(st.lists(finite, min_size=n_columns, max_size=n_columns), min_size=n_rows, max_size=n_rows))
    )
    y = data.draw(st.lists(texts.map(lambda text: "t" + text), min_size=n_rows, max_size=n_rows))
    frame = pd.DataFrame(X, columns=header).assign(label=y)
    frame.to_csv(tmp_path / "rows.csv", index=False, sep=sep)
    with pytest.MonkeyPatch.context() as patch:
        small_chunks(patch, size)
        read = read_data(tmp_path / "rows.csv")
    assert read.feature_names == header and read.y.tolist() == y
    np.testing.assert_array_equal(read.X, X)


# Parquet


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("row_group_size", [7, 1000])
def test_parquet_is_read_as_by_pyarrow(compression, row_group_size, tmp_path, chunk):
    columns = {
        "f64": DENSE[:, 0],
        "f32": DENSE[:, 1].astype(np.float32),
        "i8": np.arange(5, 65, dtype=np.int8),
        "u64": np.arange(60, dtype=np.uint64) << np.uint64(50),
        "bool": DENSE[:, 2] > 0,
        "y": LABELS,
    }
    path = parquet(tmp_path / "rows.pq", columns, compression=compression, row_group_size=row_group_size)
    table = pq.read_table(path).to_pandas()
    data = read_data(path)
    np.testing.assert_array_equal(data.X, table.drop(columns="y").to_numpy(dtype=float))
    assert data.y.tolist() == table["y"].tolist() and data.feature_names == list(columns)[:-1]
    assert data.X.dtype == np.float64 and data.X.flags.c_contiguous


@pytest.mark.parametrize(
    ("labels", "expected", "kind"),
    [
        (pa.array([1, 0, 1], pa.int8()), [1, 0, 1], "i"),
        (pa.array([1, 0, 1], pa.uint16()), [1, 0, 1], "u"),
        (pa.array([1.0, -1.0, 1.0]), [1, -1, 1], "f"),
        (pa.array([2**63, 2**63 + 1, 2**63], pa.uint64()), [2**63, 2**63 + 1, 2**63], "u"),
        (pa.array([2**53 + 1, 2**53, 0]).dictionary_encode(), [2**53 + 1, 2**53, 0], "i"),
        (pa.array([2**53 + 1, -1, 0]).cast(pa.decimal128(38)), [2**53 + 1, -1, 0], "i"),
        (pa.array([2**63, 1, 1], pa.uint64()).cast(pa.decimal256(50)), [str(2**63), "1", "1"], "U"),
        (pa.array([0, 2, 0]).cast(pa.decimal128(38, 18)), [0, 2, 0], "f"),
        (pa.array([0, 1, 0], pa.date32()), ["1970-01-01", "1970-01-02", "1970-01-01"], "U"),
        (pa.array(["0010", "10", "10"]), ["0010", "10", "10"], "U"),
        (pa.array([1.0, 0.5, 1.0], pa.float32()), [1, 0.5, 1], "f"),
        (pa.array([True, False, True]), [True, False, True], "b"),
        (pa.array(["a", "b", "a"]), ["a", "b", "a"], "U"),
        (pa.array(["a", "b", "a"], pa.large_string()), ["a", "b", "a"], "U"),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"], "U"),
        (pa.array([5, 7, 5]).dictionary_encode(), [5, 7, 5], "i"),
        (pa.array(["1", "2.0", "1.0"]), [1, 2, 1], "i"),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_parquet_labels(labels, expected, kind, tmp_path):
    data = read_data(parquet(tmp_path / "rows.parquet", {"a": [1, 2, 3], "y": labels}))
    assert data.y.tolist() == expected and data.y.dtype.kind == kind


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["1"] * 58 + ["b", "c"]), "column 'a' holds string; numbers expected, and row 58 is 'b'"),
        (pa.array(["1"] * 58 + [None, "1"]), "row 58: column 'a' is missing"),
        (pa.array(["1"] * 58 + ["1e999", "1"]), "row 58: column 'a' is missing, NaN or infinite"),
        (pa.array(["1"] * 58 + ["", "1"]).dictionary_encode(), "row 58 is ''"),
        (pa.array([1] * 58 + [None, 1]).cast(pa.decimal128(21, 2)), "row 58: column 'a' is missing"),
        (pa.array([b"1"] * 60), "column 'a' holds binary; numbers expected"),
        (pa.array([[1]] * 60), "column 'a' holds list"),
        (pa.nulls(60), "column 'a' holds null"),
        (pa.array([1.0] * 58 + [None, 1.0]), "row 58: column 'a' is missing"),
        (pa.array([1] * 58 + [None, 1]), "row 58: column 'a' is missing"),
        (pa.array([True] * 58 + [None, True]), "row 58: column 'a' is missing"),
        (pa.array([1.0] * 58 + [np.nan, 1.0]), "row 58: column 'a' is missing, NaN"),
        (pa.array([1.0] * 58 + [-np.inf, 1.0], pa.float32()), "row 58: column 'a' is missing, NaN or infinite"),
    ],
)
def test_parquet_column_that_is_no_feature(column, message, tmp_path, chunk):
    path = parquet(tmp_path / "rows.parquet", {"b": np.ones(60), "a": column, "y": LABELS})
    assert message in fault(path)
    assert read_data(path, columns=["b"]).X.shape == (60, 1)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (pa.array(["x"] * 58 + [None, "x"]), "row 58: the label in column 'y' is missing"),
        (pa.array(["x"] * 58 + ["", "x"]), "row 58: the label in column 'y' is missing"),
        (pa.array(["x"] * 58 + [None, "x"]).dictionary_encode(), "row 58: the label in column 'y' is missing"),
        (pa.array([1] * 58 + [None, 1]), "row 58: the label in column 'y' is missing"),
        (pa.array([True] * 58 + [None, True]), "row 58: the label in column 'y' is missing"),
        (pa.array([1.0] * 58 + [np.nan, 1.0]), "row 58: the label in column 'y' is 'nan', which is not a label"),
        (pa.array([1.0] * 58 + [np.inf, 1.0]), "row 58: the label in column 'y' is 'inf', which is not a label"),
        (pa.array(["0"] * 58 + ["NA", "1"]), "row 58: the label in column 'y' is 'NA', which is not a label"),
        (pa.nulls(60), "row 0: the label in column 'y' is missing"),
        (pa.array([[1]] * 60), "column 'y' holds list"),
        (pa.array([0] * 60, pa.timestamp("s")), "column 'y' holds timestamp"),
    ],
)
def test_parquet_column_that_is_no_label(labels, message, tmp_path, chunk):
    assert message in fault(parquet(tmp_path / "rows.parquet", {"a": np.ones(60), "y": labels}))


def test_parquet_columns_that_are_numbers_by_their_values(tmp_path, chunk):
    """Decimals, texts as in CSV, and numbers that are there once for all rows that have them."""
    text = pa.array([f" {x!r}" for x in DENSE[:, 2].tolist()])
    columns = {
        "decimal": pa.array([Decimal(f"{x:.3f}") for x in DENSE[:, 0]], pa.decimal128(38, 3)),
        "wide": pa.array([Decimal(f"{x:.3f}") for x in DENSE[:, 1]], pa.decimal256(60, 30)),
        "text": text,
        "large text": text.cast(pa.large_string()),
        "category": text.dictionary_encode(),
        "numbers": pa.array(DENSE[:, 3]).dictionary_encode(),
        "half": pa.array(DENSE[:, 4].astype(np.float16)),
        "y": LABELS,
    }
    data = read_data(parquet(tmp_path / "rows.parquet", columns, row_group_size=25))
    expected = np.column_stack([*DENSE[:, :3].T, DENSE[:, 2], DENSE[:, 2], DENSE[:, 3], DENSE[:, 4].astype(np.float16)])
    np.testing.assert_array_equal(data.X, expected)


def test_parquet_without_rows_and_no_parquet(tmp_path, written):
    assert "has no rows" in fault(parquet(tmp_path / "rows.parquet", {"a": pa.array([], pa.float64()), "y": [1][:0]}))
    assert "is empty" in fault(written("empty.parquet", b""))
    assert "FILE: " in fault(written("text.parquet", "a,y\n1,2\n"))


def test_row_index_of_pandas_is_no_feature(tmp_path):
    frame = pd.DataFrame({"a": [1, 2, 3], "y": [0, 1, 0]}).loc[[2, 0, 1]]
    frame.to_parquet(tmp_path / "rows.parquet")
    data = read_data(tmp_path / "rows.parquet", -1)
    assert data.feature_names == ["a"] and data.y.tolist() == [0, 0, 1]
