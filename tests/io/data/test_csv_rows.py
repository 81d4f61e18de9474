"""Rows of CSV by Python's own reader: which quotes are closed, and what is a number."""

import csv
import io
import shlex
import subprocess
import threading

import numpy as np
import pytest
from data_files import fault, fault_of_all, grown, read_file, read_mixed, small_chunks

from dimargin.io.data import DataFileError, csv_rows, csv_text, named_columns, read_data
from dimargin.io.data.csv_text import CsvLayout
from dimargin.io.data.named_columns import TextLabels, WantedColumns
from dimargin.io.data.opening import FileOptions


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
    monkeypatch.setattr(csv_text, "_WIDE_COLUMNS", wide)
    if size:
        small_chunks(monkeypatch, size)
    path = written("rows.csv", "a,b,label\n" + '1,2,"x"\n' * n_before + row)
    assert fault_of_all(path).startswith(f"FILE, line {n_before + 2}: ")


@pytest.mark.parametrize("size", [8, 20, 64, None])
@pytest.mark.parametrize("wide", [1, 1000])
def test_text_of_several_lines_in_a_column_that_is_left_alone(size, wide, written, monkeypatch):
    """Wherever chunks end."""
    monkeypatch.setattr(csv_text, "_WIDE_COLUMNS", wide)
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
    monkeypatch.setattr(csv_text, "_WIDE_COLUMNS", 1)
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
    taken = layout.choose(WantedColumns())
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
    assert "line 1: 4 columns; CSV may have at most 3," in fault(written("rows.csv", "a,b,c,y\n1,2,3,4\n"))


def test_there_are_not_too_many_labels(written, monkeypatch):
    monkeypatch.setattr(named_columns, "_MAX_LABELS", 3)
    path = written("rows.csv", "a,y\n1,u\n2,v\n3,w\n4,u\n")
    assert read_data(path).y.tolist() == ["u", "v", "w", "u"]
    path.write_text("a,y\n1,u\n2,v\n3,w\n4,x\n")
    assert "more than 3 different labels" in fault_of_all(path)


def test_one_long_label_does_not_make_the_others_long(written):
    """5,000 labels of its length would take 2 GB."""
    path = written("rows.csv", "a,y\n1," + "z" * 100_000 + "\n" + "1,x\n" * 5_000)
    for data in (read_data(path), grown(path)):
        assert data.y.dtype == object and data.y.tolist() == ["z" * 100_000, *["x"] * 5_000]
    assert read_data(written("rows.csv", "a,y\n1,ham\n2,spam\n")).y.dtype == np.dtype("<U4")


# ---- quotes that are letters -----------------------------------------------------------------------------------------


def titles(a, b, sep="\t"):
    """A table of a database, which quotes nothing: a title of row 20 opens a quote, and one of row 50 closes it."""
    rows = [[f"{k}.5", f"{k * 7 % 13}.25", "title", f"{k % 3 // 2}"] for k in range(1, 101)]
    rows[19][2], rows[49][2] = a, b
    return "".join(sep.join(row) + "\n" for row in [["a", "b", "title", "label"], *rows])


READERS = {
    "whole": lambda path, **given: read_data(path, columns=["a", "b"], **given),
    "mixed": lambda path, quotes=None: read_mixed(path, options=FileOptions(quotes=quotes)),
}


@pytest.mark.parametrize(("a", "b"), [('"Weird Al', 'the "Best"'), ('"Weird Al', '12"'), ('"', '"')])
@pytest.mark.parametrize("sep", ["\t", ","])
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("wide", [1, 1000])
@pytest.mark.parametrize("size", [20, None])
def test_quotes_that_hold_rows_are_refused(a, b, sep, reader, wide, size, written, monkeypatch):
    monkeypatch.setattr(csv_text, "_WIDE_COLUMNS", wide)
    monkeypatch.setattr(csv_text, "CHUNK", size or csv_text.CHUNK)
    path, read = written("rows.csv", titles(a, b, sep)), READERS[reader]
    with pytest.raises(DataFileError) as caught:
        read(path)
    message = f"{path}, line 21: a quote opens in this row and closes 30 lines below, after what looks like rows"
    assert str(caught.value).startswith(message) and "--no-quotes" in str(caught.value)
    assert read(path, quotes=False).X.shape[0] == 100
    assert read(path, quotes=True).X.shape[0] == 70


@pytest.mark.parametrize("closed", ["45.5", '"', "1.25,0,1,"])
def test_an_open_quote_among_numbers_is_named(closed, written):
    lines = [f"{k}.5,{k * 7 % 13}.25,{k % 2}\n" for k in range(1, 61)]
    lines[19], lines[44] = '"' + lines[19], lines[44].replace("45.5", closed + '"')
    path = written("rows.csv", "a,b,label\n" + "".join(lines))
    found = fault_of_all(path)
    assert found.startswith("FILE, line 21: ") and "quote" in found and "not closed" in found


def test_texts_of_several_lines_are_no_rows(written):
    """Although some lines of theirs have as many separators as rows."""
    cell = '"Hello, dear\nreader, {0}\n""so"", it {0}\nends, 3"'
    text = "".join(f'{k},{cell.format(k)},{k % 2},"{k}\n{k}"\n' for k in range(40))
    for note in ("Hello, dear\nreader", "Sum, 3\nof, ours\n5"):
        path = written("rows.csv", "note,label\n" + f'"{note}",x\n' * 5)
        assert read_mixed(path, texts=["note"]).X["note"].to_pylist() == [note] * 5
    for quotes in (None, True):
        data = read_data(written("rows.csv", "a,note,label,phones\n" + text), columns=["a"], quotes=quotes)
        assert data.X.ravel().tolist() == list(range(40))


def test_a_flag_says_that_quotes_are_letters_whatever_the_separator(written):
    for sep in (",", ";", "\t", "|", " "):
        text = sep.join(["a", '"b', "label"]) + "\n" + "".join(f'{k}.5{sep}2{sep}"{"xy"[k % 2]}\n' for k in range(20))
        for data in (read_data(written("rows.csv", text), quotes=False, format="csv"),
                     grown(written("rows.csv", text), quotes=False, format="csv")):  # fmt: skip
            assert data.X.shape == (20, 2) and data.feature_names == ["a", '"b'] and set(data.y) == {'"x', '"y'}
    assert "but quotes=False was given, which is for CSV only" in fault(written("rows", "1 1:2\n"), quotes=False)


@pytest.mark.parametrize("label", ['the "A"', '"A" the', '"', '"A"', 'a", b', 'one "A"\nline'])
@pytest.mark.parametrize("sep", [" ", ",", "\t"])
@pytest.mark.parametrize("n_before", [0, 200])
@pytest.mark.parametrize("wide", [1, 1000])
def test_quotes_as_r_writes_them_are_refused(label, sep, n_before, wide, written, monkeypatch):
    monkeypatch.setattr(csv_text, "_WIDE_COLUMNS", wide)
    cells = ['"a"', '"b"', '"label"']
    label = label.replace(",", sep)
    escaped = label.replace('"', '\\"')
    lines = [f'{k}.5{sep}"{k}"{sep}"x"\n' for k in range(n_before)] + [f'1.5{sep}"2"{sep}"{escaped}"\n'] * 3
    lines.append(f'1.5{sep}"2"{sep}"x"\n')
    path = written("rows.txt", sep.join(cells) + "\n" + "".join(lines))
    found = fault_of_all(path, label="label")
    assert found.startswith(f'FILE, line {n_before + 2}: a quote within quotes is written \\"; expected')
    command = found[found.index("sed") : found.index(" FILE")]
    done = subprocess.run(shlex.split(command), input=path.read_bytes(), capture_output=True, check=True)
    mended = written("mended.txt", done.stdout)
    if "\n" not in label:
        assert set(read_data(mended, label="label").y) == {"x", label}


@pytest.mark.parametrize("cell", ["C:\\", "\\", 'C:\\"x"', '{"k": "a\\"b"}', "a\\b"])
def test_backslashes_before_the_end_of_a_cell_stay(cell, written):
    quoted = '"' + cell.replace('"', '""') + '"'
    for sep in (",", "\t"):
        rows = "".join(f"{k}{sep}{quoted}{sep}{quoted}\n" for k in range(20))
        assert set(read_data(written("rows.csv", f"a{sep}label{sep}c\n" + rows), columns=["a"]).y) == {cell}


# ---- names of several lines ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", ['"Q1\n(years)",Q2,label', 'Q2,"Q1\n(years)",label', 'Q2,"Q1\n\n, (a, b)\n",label',
                                  '"Q2",label,"Q1\r\n(years)"', '# by hand\n\nQ2,"Q1\n(a)",label'])  # fmt: skip
@pytest.mark.parametrize("header", [None, True])
@pytest.mark.parametrize("sep", [",", "\t", ";"])
def test_names_of_several_lines(head, header, sep, written):
    head = head.replace(",", sep)
    (names,) = csv.reader(io.StringIO(head.removeprefix("# by hand\n\n"), newline=""), delimiter=sep)
    names, at = [name.strip() for name in names], names.index("label")
    rows = [[f"{k}.5", f"{k * 7 % 13}.25"] for k in range(30)]
    lines = [sep.join([*row[:at], "yn"[k % 2], *row[at:]]) for k, row in enumerate(rows)]
    path = written("rows.csv", "\n".join([head, *lines]) + "\n")
    for data in (read_data(path, header=header), grown(path, header=header)):
        assert data.feature_names == [name for name in names if name != "label"] and data.X.shape == (30, 2)
    lines[4] += f"{sep}7"
    path = written("rows.csv", "\n".join([head, *lines]) + "\n")
    n_lines = head.count("\n") + 1
    assert fault(path, header=header) == f"FILE, line {n_lines + 5}: 4 fields, expected 3"
    path = written("rows.csv", "\n".join([head, *lines[5:], head.removeprefix("# by hand\n\n")]) + "\n")
    assert "the column names are repeated" in fault(path, header=header)


def test_names_of_several_lines_behind_names_of_rows(written):
    """As R writes them, with one name less than fields; the rows below begin behind all lines of names."""
    path = written("rows.txt", '"Q1\n"\tlabel\n' + "".join(f"r{k}\t{k}.5\t{'xy'[k % 2]}\n" for k in range(20)))
    for data in (read_file(path), grown(path)):
        assert data.feature_names == ["Q1"] and data.X.shape == (20, 1)
