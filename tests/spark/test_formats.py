"""Batches of data files, parsed as the files are on one computer; without a session."""

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from dimargin.io.data import DataFileError
from dimargin.io.data.csv_text import CsvLayout
from dimargin.io.data.labels import label_values
from dimargin.io.data.named_columns import TableColumns, WantedColumns
from dimargin.io.data.opening import DataFile, FileOptions
from dimargin.io.data.whole_file import read_file
from dimargin.spark.formats import CsvText, LibsvmText, TableRows

UTF8 = FileOptions()


def lines_of(text, encoding="utf-8"):
    return pa.record_batch({"value": pa.array(text.encode(encoding).split(b"\n")[:-1], pa.binary())})


def csv_of(text, label=None, options=UTF8):
    start = text.encode(options.encoding or "utf-8")
    layout = CsvLayout.of_start("t.csv", options.utf8(start), options)
    taken = layout.choose(WantedColumns(label))
    return CsvText("t.csv", layout, start.split(b"\n")[: layout.n_skipped_lines], taken, options)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("a,class,b\n1,ham,2\n-1e3, spam ,.5\n\n7,ham,8\n", None),
        ("a;b;z\n1;2;1\n3;4;1.0\n5;6;-2\n", "z"),
        ("1,2,0.5\n3,4,1.5\n", "-1"),
        ('a\ty\n1\t"x, ""y"""\n2\tz\n', None),
        ("# by hand\n\n a,  class \n1.5,x\n\n2.5,y\n", None),
        ("\ufeff1.5,2,x\n3.5,4,y\n", "2"),
        ("\ufeffa,b,y\n1.5,2,x\n3.5,4,y\n", None),
        ("18.0   8   307.0\t1\n  15.0 4  350.0\t2 \n", "-1"),
        (",2019,2020,class,\n7,0.5,1.5,x,\n8,2.5,3.5,y,\n9,2.5,3.5,x,\n", None),
    ],
    ids=["text", "semicolons", "no header", "quotes", "comments", "mark", "mark and names", "blanks", "index"],
)
def test_lines_of_csv_are_those_of_the_file(tmp_path, text, label):
    (tmp_path / "t.csv").write_text(text)
    expected = read_file(DataFile(tmp_path / "t.csv"), WantedColumns(label))
    parsed = csv_of(text, label).parse(lines_of(text))
    assert_array_equal(parsed.X, expected.X)
    assert_array_equal(label_values(parsed.labels)[parsed.indices], expected.y)


def test_quotes_and_names_of_several_lines(tmp_path):
    """Lines of names of every file are left out, quotes that hold rows are refused, or letters."""
    form = csv_of('"Q1\n(years)",label\n1,x\n')
    assert form.layout.names == ["Q1\n(years)", "label"]
    parsed = form.parse(lines_of('"Q1\n(years)",label\n1,x\n"Q1\n(years)",label\n2,y\n'))
    assert parsed.X.tolist() == [[1.0], [2.0]]
    rows = "".join(f'{k},{2 * k},"x\n' if k in (20, 50) else f"{k},{2 * k},x\n" for k in range(100))
    with pytest.raises(DataFileError, match=r"a quote is not closed|a quote opens in this row"):
        csv_of("a,b,label\n" + rows).parse(lines_of(rows))
    parsed = csv_of("a,b,label\n" + rows, None, FileOptions(quotes=False)).parse(lines_of(rows))
    assert parsed.X[:, 0].tolist() == list(range(100)) and set(parsed.labels) == {"x", '"x'}


def test_the_header_of_every_file_and_empty_lines_are_no_rows():
    form = csv_of("a,class\n")
    parsed = form.parse(lines_of("1,x\na,class\n2,y\n"))  # where the second file of a folder begins
    assert parsed.X.tolist() == [[1.0], [2.0]]
    assert form.parse(lines_of("a,class\n\n\n")) is None and form.parse(lines_of("")) is None


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("1,x,ham", "t.csv, line '1,x,ham': column 'b' is 'x'; a finite number expected"),
        ("1,,ham", "column 'b' is missing"),
        ("nan,1,ham", "column 'a' is 'nan'"),
        ("1,inf,ham", "column 'b' is 'inf'"),
        ("1,2", "2 fields, expected 3"),
        ("1,2,", "the label in column 'class' is missing"),
    ],
)
def test_a_wrong_line_of_csv_is_quoted_and_its_column_named(line, fault):
    with pytest.raises(DataFileError) as error:
        csv_of("a,b,class\n").parse(lines_of(f"3,4,spam\n{line}\n5,6,ham\n"))
    assert fault in str(error.value)


def test_lines_in_another_encoding(tmp_path):
    text, options = "größe,class\n1.5,café\n2.5,thé\n", FileOptions(encoding="latin-1")
    form = csv_of(text, options=options)
    assert form.taken.wanted == ["größe"]
    assert sorted(form.parse(lines_of(text, "latin-1")).labels) == ["café", "thé"]
    with pytest.raises(DataFileError, match=r"line '1,caf.': not UTF-8 text; name its encoding"):
        csv_of("a,class\n").parse(lines_of("1,café\n", "latin-1"))


def test_lines_of_libsvm_text():
    parsed = LibsvmText("rows").parse(lines_of("2 1:0.5 7:1 # a remark\n\n-1 3:4\n2\n"))
    assert parsed.X.toarray().tolist() == [[0, 0.5, 0, 0, 0, 0, 0, 1], [0, 0, 0, 4, 0, 0, 0, 0], [0] * 8]
    assert parsed.labels[parsed.indices].tolist() == [2, -1, 2]
    assert LibsvmText("rows").parse(lines_of("\n# nothing\n")) is None
    assert LibsvmText("rows").parse(lines_of("")) is None


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("ham 1:2", "rows, line 'ham 1:2': 'ham 1:2' is not LIBSVM text"),
        ("1 2:nan", "rows, line '1 2:nan': a value is NaN or infinite"),
        ("1 3:1 2:1", "features in order"),
    ],
)
def test_a_wrong_line_of_libsvm_text_is_quoted(line, fault):
    with pytest.raises(DataFileError) as error:
        LibsvmText("rows").parse(lines_of(f"1 1:1\n\n{line}\n-1 1:1\n"))
    assert fault in str(error.value)


def table_of(features, label):
    return pa.record_batch({"features": pa.array(features, pa.list_(pa.float64())), "label": label})


TABLE = TableRows("t.parquet", TableColumns(2, "class", ["a", "b"]))


@pytest.mark.parametrize(
    ("label", "found"),
    [
        (pa.array([" x", "y", "x"]), ["x", "y", "x"]),
        (pa.array([3, 1, 3], pa.int16()), [3, 1, 3]),
        (pa.array([True, False, True]), [True, False, True]),
        (pa.array([0.5, 1.0, 0.5], pa.float32()), [0.5, 1.0, 0.5]),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_rows_of_a_table(label, found):
    parsed = TABLE.parse(table_of([[1, 2], [3, 4], [5, 6]], label))
    assert parsed.X.tolist() == [[1, 2], [3, 4], [5, 6]] and parsed.labels[parsed.indices].tolist() == found
    assert TABLE.parse(table_of([], label[:0])) is None


@pytest.mark.parametrize(
    ("features", "label", "fault"),
    [
        ([[1, 2], [3, None]], pa.array([1, 2]), "t.parquet: column 'b' is missing, NaN or infinite"),
        ([[1, 2], [np.nan, 1]], pa.array([1, 2]), "column 'a' is missing, NaN or infinite"),
        ([[1, 2], [np.inf, 1]], pa.array([1, 2]), "column 'a' is missing, NaN or infinite"),
        ([[1, 2], [3, 4]], pa.array([1, None]), "the label in column 'class' is missing"),
        ([[1, 2], [3, 4]], pa.array([1.0, np.nan]), "the label in column 'class' is 'nan', which is not a label"),
        ([[1, 2], [3, 4]], pa.array(["x", None]), "the label in column 'class' is missing"),
        ([[1, 2], [3, 4]], pa.array(["x", " "]), "the label in column 'class' is missing"),
    ],
)
def test_a_wrong_row_of_a_table_names_the_column(features, label, fault):
    with pytest.raises(DataFileError) as error:
        TABLE.parse(table_of(features, label))
    assert fault in str(error.value)
