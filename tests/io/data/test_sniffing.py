"""What the first lines of a text show: its format, its separator, and whether they are names."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from data_files import fault, fault_of_all, grown, read_mixed
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from dimargin.io.data import DataFileError, read_data, sniffing
from dimargin.io.data.csv_rows import BLANKS
from dimargin.io.data.csv_text import CsvLayout
from dimargin.io.data.lines import blocks_of_lines
from dimargin.io.data.named_columns import WantedColumns
from dimargin.io.data.opening import FileOptions
from dimargin.io.data.sniffing import separator, text_format

RNG = np.random.default_rng(0)
SIDES = np.resize(["left", "right"], 40)


# ---- formats ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1 1:2 3:4\n", "libsvm"),
        ("\n# a, b, c\n1\n-1\t1:2\n", "libsvm"),
        ("1,3 1:2\n", "libsvm"),  # several labels: refused, but as what it is
        ("\ufeff1 1:2\n", "libsvm"),
        ("a,b\n", "csv"),
        ("a;b\n", "csv"),
        ("a|b\n", "csv"),
        ("a b\n", "csv"),
        ("a\tb\n", "csv"),
        ("day,time\n2020-01-01 12:30,5\n", "csv"),
        ("when\tlabel\n12:30\tx\n", "csv"),
        ('"a b",1\n', "csv"),
        ("5 12:30 x\n", "csv"),
        ("1\t2024-01-02 12:31:00\t1.5\t0\n", "csv"),
        ("1 12:31:00\n", "csv"),
        ("2024-01-02 00:05:01.25+02:00 0.5\n", "csv"),
        ("2024-01-02\t00:05Z\t0.5\n", "csv"),
        ("1 12:30 5:45\n", "libsvm"),  # features 5 and 12
    ],
)
def test_the_content_decides_on_the_format(text, kind):
    for name in ("rows", "rows.csv", "rows.data", "rows.svm", "rows.txt.gz"):
        assert text_format(Path(name), text.encode()) == kind


@pytest.mark.parametrize(
    ("name", "kind"), [("rows", "libsvm"), ("a.csv", "csv"), ("a.TSV.gz", "csv"), ("b.t", "libsvm")]
)
@pytest.mark.parametrize("text", ["1\n2\n", "", "5 12:3 x\n", "1 1:2 12:61:00 x\n"])
def test_the_name_decides_where_the_content_does_not_or_who_knows_of_columns(text, name, kind):
    assert text_format(Path(name), text.encode()) == kind
    assert text_format(Path(name), text.encode(), has_columns=True) == "csv"


@pytest.mark.parametrize("options", [{"header": False}, {"label": -1}, {"drop": ["a"]}])
def test_what_only_tables_have_leads_to_the_advice_how_to_say_that_it_is_one(options, written):
    advice = "; if it is CSV, add --format csv, in Python format='csv'"
    path = written("rows.log", "1 12:30\n0 12:31\n")
    assert fault(path, **options).endswith(advice)
    with pytest.raises(DataFileError, match=advice):
        read_mixed(path)


def test_a_line_of_values_says_that_it_is_csv(written):
    path = written("rows.log", "1 a:b 2\n0 a:c 3\n")
    assert read_mixed(path, 0, options=FileOptions(header=False)).X.to_pydict() == {
        "column 1": ["a:b", "a:c"], "column 2": [2.0, 3.0]
    }  # fmt: skip


@pytest.mark.parametrize("name", ["t.parq", "t.pq", "t.data", "t"])
def test_parquet_of_any_name(name, tmp_path):
    pd.DataFrame({"a": [1.5, 2], "y": ["x", "z"]}).to_parquet(tmp_path / name)
    assert read_data(tmp_path / name).y.tolist() == ["x", "z"]
    assert read_mixed(tmp_path / name).X.to_pydict() == {"a": [1.5, 2]}


@pytest.mark.parametrize("name", ["t.tsv", "t.tab", "t.data", "t.txt", "t", "t.csv", "t.svm"])
@pytest.mark.parametrize("sep", ["\t", ",", ";", "|", " "])
def test_tables_of_any_name_and_separator(name, sep, written):
    rows = [("a", "b", "label"), ("1.5", "-2", "x"), ("3", "4", "y")]
    path = written(name, "".join(sep.join(row) + "\n" for row in rows))
    for data in (read_data(path), grown(path)):
        assert data.X.tolist() == [[1.5, -2], [3, 4]] and data.y.tolist() == ["x", "y"]
        assert data.feature_names == ["a", "b"]


def test_a_format_that_was_chosen_holds(written):
    path = written("rows.csv", "1 1:2 2:3\n-1 1:1 2:1\n")
    assert read_data(path).zero_based is False  # LIBSVM text for all its name
    assert "'1:2'" in fault(path, format="csv", label=0)
    assert "not LIBSVM text" in fault(written("rows", "a,b\n1,2\n"), format="libsvm")
    assert "Parquet" in fault(written("rows.csv", "a,b\n1,2\n"), format="parquet")
    with pytest.raises(ValueError, match="format must be one of csv, libsvm, parquet, got 'xml'"):
        read_data(path, format="xml")
    assert "header=True was given, which is for CSV only" in fault(written("rows", "1 1:2\n"), header=True)


# ---- separators ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,2\n", ","),
        ("1,5;2,5;x\n1,5;3,25;y\n", ";"),
        ("a;b\n1,5;2,5\n", ";"),
        ("1,5 2,5 x\n1,5 3,25 y\n", BLANKS),
        ("2020-01-01 10:00,5,7\n2020-01-02 11:00,6,8\n", ","),
        ("room 1,20\nroom 2,30\n", ","),
        ("id;text;label\n1;one, two, three;x\n2;four, five, six;y\n", ";"),
        ("id,tags,label\n1,x|y|z,0\n2,u|v|w,1\n", ","),
        ('"a;b;c","d"\n1,2\n', ","),
        ("full name\tage\tx\nAnn Lee\t5\ty\nBob Ray\t6\tz\n", "\t"),
        ('18.0   8   307.0  1\t"chevrolet chevelle"\n15.0   8   350.0  1\t"buick"\n', BLANKS),
        ("|1x3 Cross validator\n39, State-gov, 77516\n50, Self-emp, 83311\n", ","),
        ("# one; two; three; four\na,b\n1,2\n", ","),
        ("a\n1\n", ","),
        ("some name\n1\n2\n", ","),
        ("x,y,label\n1,2\n1,2,3\n1,2,3\n", ","),
        ("", ","),
    ],
)
def test_what_separates_columns(text, expected):
    assert separator(text) == expected


# ---- names -----------------------------------------------------------------------------------------------------------


def names_of(frame, header, **wanted):
    """The names that a table written with these names is found to have; None for none, or the message of an error."""
    try:
        start = frame.to_csv(index=False, header=header).encode()
        layout = CsvLayout.of_start("t.csv", start, wanted=WantedColumns(**wanted))
    except DataFileError as error:
        return str(error)
    return layout.names if layout.header else None


TABLES = {
    **{load.__name__: load(as_frame=True).frame for load in (load_iris, load_wine, load_digits, load_breast_cancer)},
    "decimals": pd.DataFrame(RNG.normal(size=(40, 3))).assign(label=SIDES),
    "counts": pd.DataFrame(RNG.integers(0, 3000, (40, 6))).assign(label=np.resize([0, 1], 40)),
    "commas": pd.DataFrame(RNG.normal(size=(40, 3)).round(3)).map(lambda v: f"{v}".replace(".", ",")).assign(y=SIDES),
    "dates": pd.DataFrame({"when": pd.date_range("2020-01-01", periods=40), "share": ["5%", "1.5%"] * 20, "y": SIDES}),
    "codes": pd.DataFrame({"a": ["A11", "A12"] * 20, "b": ["A30", *["A31", "A32", "A33"] * 13], "y": SIDES}),
    "games": pd.DataFrame(RNG.choice(["x", "o", "b"], (40, 9))).assign(label=SIDES),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_numbers_that_are_names_are_told_from_rows(name, order):
    frame = TABLES[name] if order == "sorted" else TABLES[name].sample(frac=1, random_state=0)
    n = frame.shape[1]
    assert names_of(frame, False) is None
    for header in ([f"{k}" for k in range(n)], [f"{1990 + k}" for k in range(n)], [*"abcdefghijklm"[: n - 1], "class"]):
        header = [*header, *(f"x{k}" for k in range(len(header), n))]  # of wide tables, there are not so many letters
        assert names_of(frame, header) == header


def test_one_number_among_names():
    frame = TABLES["decimals"]
    assert names_of(frame, ["2019", "b", "c", "label"]) == ["2019", "b", "c", "label"]
    assert names_of(frame, ["400.5", "402.5", "404.5", "species"]) == ["400.5", "402.5", "404.5", "species"]


def test_an_odd_cell_in_the_first_row_makes_no_names():
    frame = TABLES["decimals"].astype(object)
    frame.iloc[0, 1] = "#DIV/0!"
    assert names_of(frame, False) is None


def test_what_cannot_be_told_is_asked(written):
    text = "0,1,2\n0,2,5\n0,1,11\n1,0,10\n1,0,18\n2,2,10\n"  # a row, or names of pandas?
    path = written("t.csv", text)
    assert "line 1: '0, 1, 2' may be column names or values; choose --head" in fault_of_all(path, 2)
    for read in (read_data, grown):
        assert read(path, 2, header=True).feature_names == ["0", "1"]
        assert read(path, 2, header=True).X.shape == (5, 2)
        assert read(path, 2, header=False).feature_names is None and read(path, 2, header=False).X.shape == (6, 2)
    assert "may be column names" in fault(written("t.csv", "0,1,2,3\n"), 3)


def test_columns_that_are_named_elsewhere_are_names(written):
    path = written("t.csv", "0,1,2\n0,2,5\n0,1,11\n2,2,1\n")
    assert "may be column names" in fault(path, 2)
    assert read_data(path, "2", columns=["0", "1"]).X.shape == (3, 2)
    path = written("t.csv", "5,left\n5,right\n7,right\n8,left\n")
    assert read_data(path, label=1).X.shape == (4, 1)
    assert read_data(path, label="left").X.shape == (3, 1)


def test_rows_that_repeat_the_names_are_refused(written, monkeypatch):
    for names in ("a,b,label", "2019,2020,label", "0,1,label"):
        text = f"{names}\n" + "0.5,1.5,x\n" * 20 + f"{names}\n0.5,2.5,y\n"
        path = written("t.csv", text)
        expected = "line 22: the column names are repeated; expected values"
        assert expected in fault(path) and expected in fault(path, columns=names.split(",")[:2], needs_label=False)
        with pytest.raises(DataFileError, match=expected):
            read_mixed(path)
        monkeypatch.setattr("dimargin.io.data.csv_text._WIDE_COLUMNS", 1)
        assert expected in fault_of_all(path)
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("before", "n_before"),
    [("", 0), ("\n\n", 2), ("# made by a program\n", 1), ("\n# one, two\n#\n\n", 4), ("sep=,\r\n", 1)],
)
@pytest.mark.parametrize("names", ["a,b,label\n", ""])
def test_blank_lines_and_comments_may_stand_before_the_table(before, n_before, names, written, chunk):
    text = before + names + "1.5,2,x\n\n" + "3.5,4,y\n"
    label = None if names else 2
    path = written("t.csv", text)
    for data in (read_data(path, label), grown(path, label)):
        assert data.X.tolist() == [[1.5, 2], [3.5, 4]] and data.y.tolist() == ["x", "y"]
    found = fault_of_all(written("t.csv", text + "1,ham,x\n"), label)
    name = "b" if names else "column 1"
    assert found.startswith(f"FILE, line {n_before + bool(names) + 4}: column '{name}' is 'ham'")


@pytest.mark.parametrize("title", ["Report of 2020", "Report of 2020,,", ",,"])
def test_a_title_before_the_table_is_named(title, written):
    path = written("t.csv", f"{title}\na,b,label\n" + "1,2,x\n3,4,y\n" * 9)
    said = "line 1: 1 column name, but the lines below have 3 fields; lines before the table must begin with #"
    assert said in fault_of_all(path)
    with pytest.raises(DataFileError, match=said):
        read_mixed(path)


def test_a_comment_that_has_as_many_fields_is_the_line_of_names(written):
    data = read_data(written("t.csv", "# by numpy\n# a,b,y\n1.5,2,0\n2.5,3,1\n"))  # as numpy.savetxt writes them
    assert data.feature_names == ["# a", "b"] and data.X.shape == (2, 2)


def test_names_are_stripped_as_cells_are(written):
    path = written("t.csv", "age, hours, Salary\n1, 2, x\n3, 4, y\n")
    data = read_data(path, label=" Salary", drop=["age"])
    assert data.feature_names == ["hours"] and data.label == "Salary" and data.X.tolist() == [[2], [4]]
    assert read_data(path, "Salary", columns=[" hours", "age"]).feature_names == ["hours", "age"]  # of an older model
    assert grown(path, label="Salary").feature_names == ["age", "hours"]
    assert "the columns 0 and 1, counted from 0, are all called 'a'" in fault(written("t.csv", "a, a,y\n1,2,3\n"))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n\n"])
@pytest.mark.parametrize("size", [10, 30, 2**18])
def test_what_is_looked_at_does_not_depend_on_the_blocks(size, end, monkeypatch):
    monkeypatch.setattr(sniffing, "SAMPLE_BYTES", size)
    text = end.join(["a,b,label", *(f"{k},{k / 2},x" for k in range(20)), ""]).encode()
    found = set()
    for length in range(1, 120):
        start, blocks = sniffing.beginning(blocks_of_lines(io.BytesIO(text), "t.csv", length))
        assert b"".join(blocks) == text
        found.add(start.rstrip())
    assert len(found) == 1 and len(found.pop().split()) > 1


def test_only_so_much_is_looked_at(written, monkeypatch):
    monkeypatch.setattr(sniffing, "SAMPLE_BYTES", 30)
    path = written("t.csv", "0,1,y\n" + "0.5,1.5,x\n" * 500)
    assert read_data(path).X.shape == grown(path).X.shape == (500, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b,a,y\n1,2,3,x\n", "line 1: the columns 0 and 2, counted from 0, are all called 'a'; give them different"),
        ("# 1\na,a,a,y\n1,2,3,x\n", "line 2: the columns 0, 1 and 2, counted from 0, are all called 'a'"),
        (",".join("a" * 30) + "\n" + ",".join("1" * 30), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 20 more, counted from 0"),
    ],
)
def test_columns_of_one_name_are_named_by_their_places(text, said, written):
    for options in ({}, {"drop": ["a"]}, {"label": "y"}):
        found = fault(written("rows.csv", text), header=True, **options)
        assert said in found and "two levels" not in found


def test_a_header_of_two_lines_is_named(tmp_path):
    levels = pd.MultiIndex.from_tuples([("s1", "mean"), ("s1", "std"), ("y", "")])
    frame = pd.DataFrame({column: np.arange(9) for column in levels})
    for index in (False, True):
        frame.to_csv(tmp_path / "rows.csv", index=index)
        said = (
            f"the columns {0 + index} and {1 + index}, counted from 0, are all called 's1'; give them different names"
        )
        assert said in (found := fault(tmp_path / "rows.csv")) and found.endswith("two levels: merge both lines")
