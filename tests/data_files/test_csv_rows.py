"""Rows of CSV by Python's own reader: which quotes are closed, and what is a number."""

import csv
import io
import threading

import numpy as np
import pytest
from data_files import fault

from dimargin.data_files import DataFileError, GrowingFile, csv_rows, csv_text, growing, read_data, tables
from dimargin.data_files.csv_text import CsvLayout
from dimargin.data_files.tables import TableColumns, TextLabels


def rows_of(text):
    reader = csv_rows.CsvReader(io.StringIO(text, newline=""), ",")
    return [(reader.line, row) for row in reader]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\nc\n", [(1, ["a", "b"]), (2, ["c"])]),
        ("\n\na\r\n\r\nb", [(3, ["a"]), (5, ["b"])]),
        ('"a\nb",c\nd\n', [(1, ["a\nb", "c"]), (3, ["d"])]),
        ('a"\nb,"c"d"\n', [(1, ['a"']), (2, ["b", 'cd"'])]),
        ("", []),
    ],
)
def test_rows_and_their_lines(text, expected):
    assert rows_of(text) == expected


@pytest.mark.parametrize("text", ['a,b\n"c\n', 'a,b\n"c', 'a\n"', 'a\nx",y,"z\n', 'a\n"b""\n'])
def test_a_quote_that_is_not_closed(text):
    reader = csv_rows.CsvReader(io.StringIO(text, newline=""), ",")
    with pytest.raises(csv.Error, match="a quote is not closed"):
        list(reader)
    assert reader.line == 2


UNCLOSED = ['1,2,"x\n', '1,2,"x', '1,"2,x\n', '"1,2,x\n', '1,2,x",y,"z\n', '1,2,"x ""\n', '1,2,"x\n"\n']


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("row", UNCLOSED)
@pytest.mark.parametrize("n_before", [0, 1, 50])
@pytest.mark.parametrize("size", [20, None])
@pytest.mark.parametrize("wide", [1, 1000])
def test_a_row_with_an_open_quote_is_refused_by_every_reader(row, n_before, size, wide, written, monkeypatch):
    monkeypatch.setattr(csv_text, "_WIDE", wide)
    for module in (csv_text, growing) if size else ():
        monkeypatch.setattr(module, "CHUNK", size)
    path = written("rows.csv", "a,b,label\n" + '1,2,"x"\n' * n_before + row)
    found = fault(path)
    assert found.startswith(f"FILE, line {n_before + 2}: ")
    with pytest.raises(DataFileError) as caught:
        GrowingFile(path).read()
    assert str(caught.value).replace(str(path), "FILE") == found


@pytest.mark.parametrize("size", [8, 20, 64, None])
@pytest.mark.parametrize("wide", [1, 1000])
def test_text_of_several_lines_in_a_column_that_is_left_alone(size, wide, written, monkeypatch):
    """Wherever chunks end."""
    monkeypatch.setattr(csv_text, "_WIDE", wide)
    if size:
        monkeypatch.setattr(csv_text, "CHUNK", size)
    rows = "".join(f'{k},"one\n{k},""two""\r\n, three",{-k}\n' for k in range(40))
    data = read_data(written("rows.csv", "a,note,y\n" + rows), columns=["a"])
    assert data.X.ravel().tolist() == list(range(40)) and data.y.tolist() == [-k for k in range(40)]


def test_text_of_several_lines_that_never_ends(written, monkeypatch):
    monkeypatch.setattr(csv_text, "CHUNK", 64)
    monkeypatch.setattr(csv_text, "LONGEST_LINE", 1000)
    path = written("rows.csv", 'a,note,y\n1,x,2\n1,"' + "x\n" * 2000)
    assert fault(path, columns=["a"]).startswith("FILE, line 3: ")


@pytest.mark.parametrize("columns", [None, ["c", "a"]])
def test_wide_rows_are_read_alike(columns, written, monkeypatch, chunk):
    text = "a,label,b,c\n" + "".join(f'{k},"x{k % 3}", {k / 7!r},{k}e3\n' for k in range(5, 35))
    path = written("rows.csv", text)
    narrow = read_data(path, columns=columns)
    monkeypatch.setattr(csv_text, "_WIDE", 1)
    wide = read_data(path, columns=columns)
    np.testing.assert_array_equal(narrow.X, wide.X)
    assert narrow.y.tolist() == wide.y.tolist() and narrow.feature_names == wide.feature_names


def test_files_are_read_by_this_thread_alone():
    """A thread of Arrow's that reads ahead may ask for the interpreter's lock when the interpreter has ended."""
    readers = set()

    class Watched(io.BytesIO):
        def read(self, *size):
            readers.add(threading.get_ident())
            return super().read(*size)

    layout = CsvLayout.of_start("rows.csv", b"a,y\n")
    taken = TableColumns.choose("rows.csv", layout.names, None)
    rows = list(layout.chunks(Watched(b"a,y\n" + b"1,2\n" * 500_000), taken, TextLabels("rows.csv")))
    assert sum(len(chunk.X) for chunk in rows) == 500_000 and readers == {threading.get_ident()}


def test_a_mark_of_the_byte_order_amid_a_file(written, monkeypatch):
    monkeypatch.setattr(csv_text, "CHUNK", 8)
    path = written("rows.csv", "a,y\n1,2\n\ufeff3,4\n")
    assert fault(path).startswith("FILE, line 3: column 'a' is '\\ufeff3'")


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_there_are_not_too_many_columns(written, monkeypatch):
    monkeypatch.setattr(csv_text, "MAX_COLUMNS", 3)
    assert read_data(written("rows.csv", "a,b,y\n1,2,3\n")).X.shape == (1, 2)
    assert "line 1: 4 columns, of which CSV may have 3" in fault(written("rows.csv", "a,b,c,y\n1,2,3,4\n"))


def test_there_are_not_too_many_labels(written, monkeypatch):
    monkeypatch.setattr(tables, "_MOST_LABELS", 3)
    path = written("rows.csv", "a,y\n1,u\n2,v\n3,w\n4,u\n")
    assert read_data(path).y.tolist() == ["u", "v", "w", "u"]
    path.write_text("a,y\n1,u\n2,v\n3,w\n4,x\n")
    assert "more than 3 different labels" in fault(path)
    with pytest.raises(DataFileError, match="more than 3 different labels"):
        GrowingFile(path).read()


def test_one_long_label_does_not_make_the_others_long(written):
    """5,000 labels of its length would take 2 GB."""
    path = written("rows.csv", "a,y\n1," + "z" * 100_000 + "\n" + "1,x\n" * 5_000)
    for data in (read_data(path), GrowingFile(path).read()):
        assert data.y.dtype == object and data.y.tolist() == ["z" * 100_000, *["x"] * 5_000]
    assert read_data(written("rows.csv", "a,y\n1,ham\n2,spam\n")).y.dtype == np.dtype("<U4")
