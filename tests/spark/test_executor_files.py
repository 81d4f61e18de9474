"""Data files read by executors: the rows, labels and scalers of the same files on one computer."""

import bz2
import gzip
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import spark_sessions
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.cli.shared import Scale, fitted_scalers
from dimargin.io.data import DataFileError, read_data
from dimargin.io.data.csv_text import CsvLayout
from dimargin.io.data.named_columns import WantedColumns
from dimargin.io.data.opening import DataFile, FileOptions
from dimargin.io.data.whole_file import read_file
from dimargin.spark import passes
from dimargin.spark.executor_files import FileRows, _Opened, read_rows
from dimargin.spark.formats import CsvText, LibsvmText, Parsed
from dimargin.spark.passes import BatchParser, FileSummary

N = 120


@pytest.fixture(scope="module", autouse=True)
def small_pieces(spark):
    """Several partitions of a file, and several batches of a partition."""
    settings = {
        "spark.sql.files.maxPartitionBytes": "3000",
        "spark.sql.files.openCostInBytes": "1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "16",
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def table(n=N):
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=n), rng.integers(-5, 5, n).astype(np.int16)
    labels = rng.choice(["ham", "spam", "eggs"], n)
    return pd.DataFrame({"left": left, "right": right, "flag": rng.random(n) < 0.3, "class": labels})


def csv_lines(columns, header=True):
    return columns.astype({"flag": int}).to_csv(index=False, header=header, lineterminator="\n").encode()


def libsvm_lines(first, density, n=N):
    rng = np.random.default_rng(1)
    X = np.where(rng.random((n, 9)) < density, rng.normal(size=(n, 9)), 0.0)
    X[0, 0], X[:, 5] = 1.0, 0.0
    rows = (" ".join(f"{j + first}:{v!r}" for j, v in enumerate(row) if v) for row in X.tolist())
    return "".join(f"{(-1, 2)[k % 2]}.0 {row}\n" for k, row in enumerate(rows)).encode()


def rows_in(frame):
    """Features and codes, in the order of the features."""
    rows = [(*np.asarray(getattr(row.features, "toArray", lambda row=row: row.features)()), row.label)
            for row in frame.collect()]  # fmt: skip
    return np.array(sorted(rows))


def assert_same(spark, path, scale, label=None, local=None):
    found, expected = read_rows(spark, str(path), label, scale), read_data(local or path, label)
    scalers = fitted_scalers(Scale(scale), expected.X)
    X = scalers[0][1].transform(expected.X) if scalers else expected.X
    classes, codes = np.unique(expected.y, return_inverse=True)
    assert found.sparse == (not isinstance(X, np.ndarray)) and (found.n_rows, found.n_features) == X.shape
    rows = np.array(sorted(map(tuple, np.column_stack([X.toarray() if found.sparse else X, codes]).tolist())))
    assert_allclose(rows_in(found.frame), rows, rtol=1e-12, atol=1e-12 if scale == "standard" else 0)
    assert found.classes.dtype.kind == classes.dtype.kind
    assert_array_equal(found.classes, classes)
    assert found.feature_names == expected.feature_names and found.label == expected.label
    assert found.zero_based == expected.zero_based
    assert (found.scaler is None) == (not scalers)
    for (_, scaler), name in ((one, name) for one in scalers for name in vars(one[1])):
        assert type(found.scaler) is type(scaler)
        assert_allclose(getattr(found.scaler, name), getattr(scaler, name), rtol=1e-12, atol=1e-14, err_msg=name)
    return found


def test_csv_with_labels_that_are_text_by_jobs_that_are_described(spark, tmp_path):
    path, last = tmp_path / "t.csv", spark_sessions.last_job()
    path.write_bytes(b"\xef\xbb\xbf" + csv_lines(table()))
    found = assert_same(spark, path, "minmax")
    assert found.classes.tolist() == ["eggs", "ham", "spam"] and found.label == "class"
    names = spark_sessions.job_names(last)[::-1]
    assert "dimargin: open" in names[0] and any("dimargin: look at" in name for name in names)
    assert all("dimargin: " in name for name in names[:-1])  # the last is the test's own


def test_compressed_csv_without_a_header(spark, tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(csv_lines(table().drop(columns="class"), header=False)))
    found = assert_same(spark, tmp_path / "t.csv.gz", "standard", label="1")
    assert found.classes.dtype.kind == "i" and found.label == 1


@pytest.mark.parametrize(("first", "density", "scale"), [(1, 0.3, "standard"), (0, 0.9, "none")])
def test_libsvm_text_sparse_and_dense_from_zero_and_from_one(spark, tmp_path, first, density, scale):
    (tmp_path / "rows.bz2").write_bytes(bz2.compress(libsvm_lines(first, density)))
    found = assert_same(spark, tmp_path / "rows.bz2", scale)
    assert found.sparse == (density < 0.5) and found.classes.tolist() == [-1, 2] and found.zero_based == (first == 0)


def test_a_table_as_people_have_it(spark, tmp_path):
    """Of another name, separator and encoding, with blanks around names, and the index of pandas."""
    rows = table().rename(columns={"left": " größe ", "class": " class"}).astype({"flag": int})
    (tmp_path / "t.txt").write_bytes(b"# by hand\n\n" + rows.to_csv(sep="|").encode("cp1252"))
    options = FileOptions(encoding="cp1252")
    found = read_rows(spark, str(tmp_path / "t.txt"), options=options)
    expected = read_file(DataFile(tmp_path / "t.txt", options))
    assert found.feature_names == expected.feature_names == ["größe", "right", "flag"] and found.label == "class"
    assert found.n_rows == len(expected.X) == N and found.remarks == expected.remarks != ()
    assert_allclose(found.scaler.data_max_, expected.X.max(axis=0))
    rows.to_parquet(tmp_path / "t.parquet", index=False)
    assert read_rows(spark, str(tmp_path / "t.parquet")).feature_names == expected.feature_names


def test_names_that_are_numbers(spark, tmp_path):
    rows = table().drop(columns="flag")
    rows.columns = range(3)
    rows.to_csv(tmp_path / "t.csv", index=False)
    found = read_rows(spark, str(tmp_path / "t.csv"), "2")
    assert found.n_rows == N and found.feature_names == ["0", "1"]
    found = read_rows(spark, str(tmp_path / "t.csv"), "2", options=FileOptions(header=False))
    assert found.n_rows == N + 1 and found.feature_names is None


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_folder_of_files(spark, tmp_path, kind):
    """Whose name says nothing; parts of a table keep its index, which is no feature."""
    rows, folder = table(), tmp_path / "parts"
    rows.index *= 2
    rows.to_parquet(tmp_path / "t.pq")
    folder.mkdir()
    for k, part in enumerate((rows[:50], rows[50:])):
        if kind == "csv":
            (folder / f"{k}.csv").write_bytes(csv_lines(part))
        else:
            part.to_parquet(folder / f"{k}.parquet")
    found = assert_same(spark, folder, "minmax", local=tmp_path / "t.pq")
    assert found.feature_names == ["left", "right", "flag"]


LABELS = {
    "ids": [12345678901234567, 12345678901234568, -7],
    "codes": ["007", "07", "7"],
    "points": ["1.0", "2.0", "-3.0"],
    "decimals": [Decimal(2**53 + 1), Decimal(2**53), Decimal(0)],
    "zeros": [Decimal("0E-18"), Decimal("1.000000000000000000"), Decimal("2.000000000000000000")],
    "dates": [date(2024, 1, 31), date(1970, 1, 1), date(1912, 12, 31)],
}


@pytest.mark.parametrize(("suffix", "kind"), [
    ("csv", "ids"), ("csv", "codes"), ("csv", "points"), ("libsvm", "ids"), ("parquet", "ids"), ("parquet", "codes"),
    ("parquet", "decimals"), ("parquet", "zeros"), ("parquet", "dates"),
])  # fmt: skip
def test_labels_are_as_they_are_in_the_file(spark, tmp_path, suffix, kind):
    path, rows = tmp_path / f"t.{suffix}", table(60).drop(columns="class").assign(y=LABELS[kind] * 20)
    if suffix == "parquet":
        rows.assign(left=[Decimal(f"{x:.3f}") for x in rows["left"]]).to_parquet(path)
    elif suffix == "csv":
        path.write_bytes(csv_lines(rows))
    else:
        path.write_text("".join(f"{label} 1:{x!r}\n" for label, x in zip(rows["y"], rows["left"], strict=True)))
    assert_same(spark, path, "none")


@pytest.mark.parametrize("suffix", ["csv", "bare.csv", "libsvm", "parquet"])
def test_weights_of_rows(spark, tmp_path, suffix):
    """A column that is no feature; rows of weight 0 are left out, of their class and of the scaling, too."""
    path, rows = tmp_path / f"t.{suffix}", table(60)
    weights = np.where(rows["class"] == "eggs", 0, np.arange(60) / 8 + 0.125)
    rows.loc[weights == 0, "left"] = 1000.0
    rows.insert(1, "w", weights)
    given = {"csv": "w", "bare.csv": "1", "libsvm": "label", "parquet": " w"}[suffix]
    if suffix == "parquet":
        rows.to_parquet(path)
    elif suffix == "libsvm":
        heads = rows["class"].map({"eggs": 3, "ham": 1, "spam": 2})
        lines = zip(heads, rows["w"], rows["left"], rows["right"], rows["flag"] * 1, strict=True)
        path.write_text("".join(f"{y}:{w} 1:{a!r} 2:{b} 3:{c}\n" for y, w, a, b, c in lines))
    else:
        path.write_bytes(csv_lines(rows, header=suffix == "csv"))
    label = "4" if suffix == "bare.csv" else None
    found = read_rows(spark, str(path), label, "minmax", weight=given)
    kept = rows[weights > 0]
    assert (found.n_rows == len(kept) and suffix == "libsvm") or found.scaler.data_max_[0] == kept["left"].max()
    found = read_rows(spark, str(path), label, "none", weight=given)
    assert found.n_features == 3 and found.classes.tolist() == ([1, 2] if suffix == "libsvm" else ["ham", "spam"])
    assert found.weight == {"bare.csv": 1, "libsvm": "label"}.get(suffix, "w")
    assert found.feature_names == (["left", "right", "flag"] if suffix in ("csv", "parquet") else None)
    frame = [(row.features[0], row.weight, row.label) for row in found.frame.collect()]
    expected = zip(kept["left"], kept["w"], (kept["class"] == "spam") * 1.0, strict=True)
    assert sorted(frame) == sorted(expected)


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        (
            "t.csv",
            "a,w,y\n1,1,x\n2,-2,z\n",
            "t.csv, line '2,-2,z': the weight in column 'w' is -2; a finite number",
        ),
        ("t.csv", "a,w,y\n1,1,x\n2,q,z\n", "t.csv, line '2,q,z': column 'w' is 'q'; a finite number expected"),
        ("t.csv", "a,w,y\n1,0,x\n2,0,z\n", "t.csv has no rows of positive weight"),
        ("t.csv", "a,v,y\n1,1,x\n2,1,z\n", "t.csv has no weight column 'w'; the columns are 'a', 'v', 'y'"),
        ("t", "1:1 1:1\n2 1:2\n", "t: --weight w: columns of LIBSVM text have no names"),
        (
            "t.parquet",
            None,
            "t.parquet, in a row: the weight in column 'w' is -1; a finite",
        ),
    ],
)
def test_what_is_not_a_weight_is_named(spark, tmp_path, name, text, fault):
    if text is None:
        pd.DataFrame({"a": [1, 2], "w": [1, -1], "y": [0, 1]}).to_parquet(tmp_path / name)
    else:
        (tmp_path / name).write_text(text)
    with pytest.raises(DataFileError) as error:
        read_rows(spark, str(tmp_path / name), weight="w")
    assert fault in str(error.value)


def test_weights_of_classes_are_those_of_the_labels():
    classes = np.array(["eggs", "ham", "spam"])
    rows = FileRows(None, 3, 1, False, classes, None, None, None, None)
    assert rows._weights_of_indices({"ham": 3.0, "eggs": 0.5}) == {0: 0.5, 1: 3.0, 2: 1.0}
    assert rows._weights_of_indices("balanced") == "balanced" and rows._weights_of_indices(None) is None
    with pytest.raises(ValueError, match=r"class_weight must be positive for every class, got {'ham': -1.0}"):
        rows._weights_of_indices({"ham": -1.0})
    numbers = FileRows(None, 3, 1, False, np.array([0.0, 1.0]), None, None, None, None)
    assert numbers._weights_of_indices({1: 3.0}) == {0: 1.0, 1: 3.0}
    codes = FileRows(None, 3, 1, False, np.array(["007", "10"]), None, None, None, None)
    assert codes._weights_of_indices({10: 3.0}) == {0: 1.0, 1: 3.0}
    with pytest.raises(ValueError, match=r"class_weight has \['sausage'\], but the classes are \['eggs'"):
        rows._weights_of_indices({"sausage": 1.0})


def test_what_is_wrong_with_a_file_is_said(spark, tmp_path):
    pd.DataFrame({"a": ["x", "y"], "y": [0, 1]}).to_parquet(tmp_path / "text.parquet")
    pd.DataFrame({"a": [1.0, 2.0], "y": [b"x", b"z"]}).to_parquet(tmp_path / "bytes.parquet")
    texts = {"empty.csv": "", "empty": "", "blank": "\n\n", "rows": "1 1:2\n", "rows.xz": "", "wide.csv": "a,y\n1,0\n"}
    pd.DataFrame({"a": [1.0, 2.0], "y": [0, 0.5]}).to_parquet(tmp_path / "half.parquet")
    texts |= {"missing.csv": "a,y\n1,0\n2,NA\n3,1\n", "half.csv": "a,y\n1,0\n2,0.5\n"}
    for name, text in (texts | {"text.csv": "a,y\n1,0\nx,1\n"}).items():
        (tmp_path / name).write_text(text, encoding="utf-16" if name == "wide.csv" else "utf-8")
    for name, label, fault in (
        ("nowhere.csv", None, "nowhere.csv: Spark finds no such file or folder"),
        ("text.parquet", None, "text.parquet: column 'a' holds string; numbers expected"),
        ("bytes.parquet", None, "column 'y' holds binary; numbers or text expected as labels"),
        ("text.csv", "b", "text.csv has no label column 'b'"),
        ("empty.csv", None, "empty.csv is empty"),
        ("empty", None, "empty is empty"),
        ("blank", None, "blank has no rows"),
        ("rows", "y", "LIBSVM text has its labels first"),
        ("wide.csv", None, "wide.csv: text in utf-16 can be read only as a whole on one computer"),
        ("rows.xz", None, "Spark does not read .xz"),
        ("text.csv", None, "text.csv, line 'x,1': column 'a' is 'x'; a finite number expected"),
        ("missing.csv", None, "missing.csv, in a row: the label in column 'y' is 'NA', which is not a label"),
        ("half.csv", None, "half.csv, in a row: the label in column 'y' is 0.5; classes must be whole numbers"),
        ("half.parquet", None, "half.parquet, in a row: the label in column 'y' is 0.5; classes must be whole numbers"),
    ):
        with pytest.raises(DataFileError) as error:
            read_rows(spark, str(tmp_path / name), label)
        assert fault in str(error.value)


@pytest.mark.parametrize(
    ("labels", "columns", "fault"),
    [
        ([1.0, 2.0], (np.iinfo(np.int32).max, 0), "t has no features"),
        ([1.0], (1, 3), "t: at least two classes are needed, and every label is 1"),
        ([0.5, 1.0], (1, 3), "t, in a row: the label is 0.5; classes must be whole numbers or texts"),
    ],
)
def test_rows_that_cannot_be_trained_on(labels, columns, fault):
    with pytest.raises(ValueError, match=fault):
        _Opened(None, LibsvmText("t")).rows(FileSummary(2, np.array(labels), 2, *columns, None))


def test_a_label_that_may_be_missing_is_a_class_among_texts_with_a_warning():
    layout = CsvLayout.of_start("t", b"a,y\n1,EU\n")
    opened = _Opened(None, CsvText("t", layout, [], layout.choose(WantedColumns("y"))), column="y")
    assert (
        opened._labels(np.array(["EU", "NA"]))
        .remarks[0]
        .startswith("t, in a row: the label 'NA' in column 'y' is read")
    )


def test_a_column_of_numbers_does_not_come_to_the_driver(monkeypatch):
    monkeypatch.setattr(passes, "MAX_CLASSES", 10)
    some = [FileSummary(8, np.arange(k, k + 8), 8, 0, 0, None) for k in (0, 3)]
    with pytest.raises(DataFileError, match="t has more than 10 different labels; which column holds them"):
        FileSummary.joined("t", *some)


def test_labels_of_a_single_batch_are_in_order():
    found = FileSummary.of(Parsed(np.zeros((2, 1)), np.array(["spam", "ham"]), np.array([0, 1])), None)
    assert found.labels.tolist() == ["ham", "spam"]


def test_a_file_that_changes_is_refused():
    parser = BatchParser(LibsvmText("t"), np.array([-1.0, 2.0]), np.array([0, 5]), 1, 3, True, None)
    good = Parsed(sp.csr_array([[0, 5, 0, 6]]), np.array([2.0]), np.array([0, 0]))
    assert parser.features(good.X).toarray().tolist() == [[5, 0, 6]] and parser.codes(good).tolist() == [5, 5]
    for X in (sp.csr_array([[0, 0, 0, 0, 1]]), sp.csr_array([[1, 0]])):
        with pytest.raises(DataFileError, match="t changed while it was read: it has new features"):
            parser.features(X)
    for label in (-2.0, 0.0, 7.0):
        with pytest.raises(DataFileError, match="t changed while it was read: it has new labels"):
            parser.codes(good._replace(labels=np.array([label])))
