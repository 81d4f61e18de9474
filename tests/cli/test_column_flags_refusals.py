"""Tables that a command refuses: which cells, lines or columns the message names, and what it says helps."""

import re
import shlex
import subprocess

import numpy as np
import pandas as pd
import pytest
from text_files import measured, people, words_of

import dimargin as dm


def test_the_refusal_names_what_helps(refusal):
    frame = people(120, 0)
    said = refusal(frame)
    for part in (
        "--drop COLUMN for columns of names of rows: 'id' (120 different, 'p0')",
        "--missing median for columns with missing values: 'age' (14 of 120)",
        "--categories for columns of text: 'job' ('",
        "--dates iso for columns of dates: 'since' ('2015-01-01')",
        "In Python: a pipeline",
    ):
        assert part in said
    for format in ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y"):
        since = pd.to_datetime(frame["since"]).dt.strftime(format)
        assert f"--dates {format} for columns of dates: 'since'" in refusal(frame.assign(since=since))
    assert "--categories" in refusal(frame, "--missing", "median", "--dates", "iso", "--drop", "id")


def test_dates_that_are_none_are_named(refusal):
    train = people(120, 0)
    since = train["since"]
    wrong = since.replace("2015-01-03", "30.2.")
    counted = "not all dates of --dates iso: 'since' (1 of 120 cells is not a date: line 4, '30.2.')"
    for dates, format, said in (
        (since, "%d.%m.%Y", "--dates iso for columns of dates: 'since' ('2015-01-01')"),
        (wrong, "iso", f"--na 30.2. for columns that are {counted}"),
        (
            wrong.replace("2015-01-05", "x").replace("2015-01-02", "y").replace("2015-01-04", "z"),
            "iso",
            "--drop COLUMN for columns that are not all",
        ),
        (since.str.replace("-", ""), "%Y%m%d", "--dates %Y%m%d: no column holds such dates"),
    ):
        flags = ("--missing", "mean", "--categories", "--drop", "id", "--dates", format)
        assert said in refusal(train.assign(since=dates), *flags)


ODD = ["#DIV/0!", "<NA>", "\\N", "NaT", "1.#QNAN", "unknown", ".", "n.d."]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_one_cell_that_is_no_number_is_named(dimargin, tmp_path, odd, kind):
    frame, path = measured(), tmp_path / f"t.{kind}"
    frame.loc[9, "a"] = odd
    frame = frame.astype({"a": str, "b": float})
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
    train = ("train", path, "--model", tmp_path / "m", "--loss", "hinge")
    place = "line 11" if kind == "csv" else "row 9"
    for flags, more in ((), "--missing median "), (("--missing", "mean"), ""), (("--categories",), "--missing median "):
        status, _, err = dimargin(*train, *flags)
        said = f"'a' (1 of 80 cells is not a number: {place}, {odd!r})"
        assert status == 1 and said in err and f"{more}--na {shlex.quote(odd)} for columns of numbers" in err
        assert "--categories for" not in err and "names of rows" not in err and "OneHotEncoder" not in err
    assert dimargin(*train, "--na", odd, "--missing", "median")[0] == 0
    model = dm.load(tmp_path / "m")
    assert dm.load(tmp_path / "m")[0].named_transformers_["numbers"][0].statistics_[0] == np.median(
        [float(cell) for cell in frame.a if cell != odd]
    )
    assert dimargin("predict", tmp_path / "m", path, "-o", tmp_path / "labels")[0] == 0  # the model knows the text
    assert len((tmp_path / "labels").read_text().split()) == 80 and model is not None


def test_an_odd_cell_of_a_file_to_predict(dimargin, tmp_path):
    frame = measured()
    frame.loc[3, "a"] = None
    frame.to_csv(tmp_path / "train.csv", index=False)
    assert dimargin("train", tmp_path / "train.csv", "--model", tmp_path / "m", "--missing", "median")[0] == 0
    frame.loc[9, "a"] = "off scale"
    frame.to_csv(tmp_path / "new.csv", index=False)
    model, new = tmp_path / "m", tmp_path / "new.csv"
    page = ("-o", tmp_path / "page.html")
    for command in (("predict", model, new), ("evaluate", model, new), ("info", model, "--certify", new),
                    ("report", model, new, *page)):  # fmt: skip
        status, _, err = dimargin(*command)
        assert status == 1 and "new.csv, line 11: column 'a' is 'off scale'; a finite number expected" in err
        assert "(1 of 80 cells is not a number); --na 'off scale' reads it as a missing value" in err
        if command[0] != "info":
            assert dimargin(*command, "--na", "OFF SCALE")[0] == 0


SIGNS = {
    "percent": lambda v: f"{100 * v:.1f}%", "dollars": lambda v: f"${100 * v:.1f}", "euros": lambda v: f"{v:.2f} €",
    "codes": lambda v: f"USD {100 * v:.0f}", "mixed": lambda v: f"{10_000 * v:,.2f}".replace(",", ",'"[v > 0]),
    "points": lambda v: f"{1e7 * v:,.0f}".replace(",", "."),
    "quotes": lambda v: f"'{v}'",
    "units": lambda v: f"{100 * v:.0f} km/h", "degrees": lambda v: f"{v:.1f} °C",
    "places": lambda v: f"{abs(v):.1f}° {'NS'[v < 0]}",
    "squares": lambda v: f"{100 * v:.0f} kg/m2", "francs": lambda v: f"Fr. {v:.2f}",
    "frames": lambda v: f"~{v:.2f} l/100km",
    "areas": lambda v: f"{v:.1f}m²", "volumes": lambda v: f"{v:.1f} m³", "stars": lambda v: f"{v:.1f}*",
    "reals": lambda v: f"R$ {100 * v:.1f}", "euros before": lambda v: f"€ {v:.1f}",
    "codes before": lambda v: f"EUR{100 * v:.1f}",
    "minus signs": lambda v: f"{v:.2f}".replace("-", "\N{MINUS SIGN}"),
    "brackets": lambda v: f"{v:.2f}" if v > 0 else f"({-v:.2f})",
}  # fmt: skip


@pytest.mark.parametrize("what", SIGNS)
@pytest.mark.parametrize("flags", [(), ("--missing", "median"), ("--categories",)])
def test_signs_units_and_separators_of_thousands_are_named(refusal, what, flags):
    frame = measured()
    err = refusal(frame.assign(a=frame.a.map(SIGNS[what])), *flags)
    assert "What helps: plain numbers in the file, such as" in err
    assert "for columns of numbers with signs, units or separators: 'a' (" in err
    assert "--categories for" not in err and "names of rows" not in err and "OneHotEncoder" not in err


@pytest.mark.parametrize("n_odd", [1, 80])
@pytest.mark.parametrize("flags", [(), ("--missing", "median"), ("--categories",)])
def test_exponents_of_fortran_are_named(dimargin, tmp_path, n_odd, flags):
    frame = measured()
    frame.loc[80 - n_odd :, ["a", "b"]] = frame.loc[80 - n_odd :, ["a", "b"]].map(
        lambda v: f"{v:.3e}".replace("e", "D")
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    train = ("train", tmp_path / "t.csv", "--model", tmp_path / "m", "--loss", "hinge")
    status, _, err = dimargin(*train, *flags)
    assert status == 1 and "What helps: E for the D of exponents, as sed -E" in err
    assert f"'a' (line {82 - n_odd}, '{frame.a[80 - n_odd]}'), 'b' (" in err and "--drop" not in err
    command = re.search("sed -E '[^']*'", err)[0]
    done = subprocess.run(f"{command} t.csv > e.csv && mv e.csv t.csv", shell=True, cwd=tmp_path, check=True)
    assert done.returncode == 0 and dimargin(*train)[0] == 0


@pytest.mark.parametrize("cell", ["2.414", "1.257,30", "1.5e3", "1.0", ".5"])
@pytest.mark.parametrize("n_odd", [1, 40])
def test_a_point_is_no_decimal_sign_where_commas_are(dimargin, refusal, tmp_path, cell, n_odd):
    """2.414 may be 2414, which --thousands says: pandas leaves such a column as text, too."""
    frame = measured().map(lambda value: str(value).replace(".", ","))
    frame.to_csv(tmp_path / "train.csv", index=False, sep=";")
    frame.loc[80 - n_odd :, "a"] = cell
    frame.to_csv(tmp_path / "points.csv", index=False, sep=";")
    train = ("--model", tmp_path / "m", "--loss", "hinge", "--decimal-comma")
    for flags in ((), ("--missing", "median"), ("--categories",)):
        err = refusal(frame, "--decimal-comma", *flags, sep=";")
        is_grouped = cell in ("2.414", "1.257,30")
        helps = "--thousands . for columns of numbers with what" if is_grouped else "2414 or 2,414 for 2.414"
        assert f"'a' (line {82 - n_odd}, '{cell}')" in err and helps in err
    assert dimargin("train", tmp_path / "train.csv", *train)[0] == 0
    status, _, err = dimargin("predict", tmp_path / "m", tmp_path / "points.csv")
    assert status == 1 and f"points.csv, line {82 - n_odd}: column 'a' is '{cell}'; a" in err
    assert "--na" not in err and ("; this file has decimal points, unlike" in err) == (cell in ("1.5e3", "1.0", ".5"))
    frame.assign(a="01.02").to_csv(tmp_path / "dates.csv", index=False, sep=";")
    assert dimargin("train", tmp_path / "dates.csv", *train, "--dates", "%d.%m")[0] == 0
    assert dimargin("train", tmp_path / "points.csv", *train, "--category", "a")[0] == 0


def test_cells_are_shown_as_they_are_written(refusal):
    ids = ["00000000", *(f"{k * 2654435761 % 2**32:08x}" for k in range(1, 80))]
    assert "names of rows: 'a' (80 different, '00000000')" in refusal(measured().assign(a=ids))
    frame = measured().assign(a="6 311,75")
    assert "'a' (line 2, '6 311,75')" in refusal(frame, "--drop", "b", "--decimal-comma", sep=";")


def test_a_cell_of_several_lines_is_no_missing_value(dimargin, refusal, tmp_path):
    frame = measured()
    frame.loc[3, "a"] = None
    frame.to_csv(tmp_path / "train.csv", index=False)
    assert dimargin("train", tmp_path / "train.csv", "--model", tmp_path / "m", "--missing", "median")[0] == 0
    frame.loc[9, "a"] = "1.5\n2.5"
    frame.to_csv(tmp_path / "new.csv", index=False)
    for flags in ((), ("--missing", "median"), ("--categories",)):
        err = refusal(frame, *flags)
        assert "What helps: a quote that is closed, or --no-quotes, for columns of numbers" in err
        assert "'a' (line 11, '1.5\\n2.5')" in err and "--na" not in err
    status, _, err = dimargin("predict", tmp_path / "m", tmp_path / "new.csv")
    assert status == 1 and "line 11: column 'a' is '1.5\\n2.5'" in err and "--na" not in err


@pytest.mark.parametrize("line", ["b1,b2,c", "cm,kg,", "=SUM(A2:A80),=SUM(B2:B80),yes"])
def test_a_line_of_texts_is_named(dimargin, tmp_path, line):
    """A second line of names, units, a sum: not what stands for missing values."""
    lines = measured().to_csv(index=False).splitlines(keepends=True)
    (tmp_path / "t.csv").write_text("".join([lines[0], line + "x\n", *lines[1:]]))
    status, _, err = dimargin("train", tmp_path / "t.csv", "--model", tmp_path / "m")
    assert status == 1 and "What helps: a file without line 2, a line of texts, for columns of numbers" in err
    assert "--na" not in err


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (
            ["12,345", "1,234", "7,001"],
            "helps: --thousands , or --decimal-comma if 12,345 means 12.345, for columns",
        ),
        (["1,234.5", "1,234", "7.25"], "helps: --thousands , for columns of numbers with what looks like separators"),
        (["1.234,5", "7,5"], "'a' ('1.234,5'); --thousands . for columns of numbers with what looks like separators"),
        (["1\u00a0234,567"], "; --thousands ' ' for columns of numbers with what looks like separators"),
        (["1'234", "21'234.5"], "helps: --thousands ''\"'\"'' for columns of numbers with what looks like separators"),
        (["1.234.567", "7.234"], "helps: plain numbers in the file, such as 1257.3 for"),
        (["12,345", "0,234", "7,001"], "What helps: --decimal-comma for columns with commas in numbers"),
        (["12,5", "0,234", "7", "x"], "What helps: --decimal-comma for columns with commas in numbers"),
        (["0", "1", "2", "3+"], "--categories for columns of text"),
        (["12A", "14B", "3C", "5D"], "--categories for columns of text"),
        (["3*", "4*", "5*"], "--categories for columns of text"),
        (["ABC37", "ABC4", "ABC59"], "--categories for columns of text"),
        (["12D5", "3D4", "5D1"], "--categories for columns of text"),
        (["A11", "A12", "A14"], "--categories for columns of text"),
        (["1", "2", "oak", "elm", "ash", "fir"], "--categories for columns of text"),
    ],
)
def test_what_a_column_of_texts_holds_is_guessed_by_most(refusal, cells, said):
    assert said in refusal(measured(60).assign(a=np.resize(cells, 60)), sep=";")


@pytest.mark.parametrize("command", [("train",), ("tune",), ("simulate", "gossip")])
@pytest.mark.parametrize("flags", [(), ("--missing", "median")])
def test_labels_that_are_no_classes_are_refused_by_line(dimargin, tmp_path, command, flags):
    if command[0] == "simulate":
        pytest.importorskip("networkx")
        flags = ()
    path = tmp_path / "rows.csv"
    for odd, said in (
        ("0.5", "0.5; classes must be whole numbers or texts"),
        ("NA", "'NA', which is not a label"),
    ):
        path.write_text("a,y\n" + "".join(f"{k}.5,{odd if k == 5 else k % 2}\n" for k in range(40)))
        status, _, err = dimargin(*command, path, "--model", tmp_path / "m", *flags)
        assert status == 1 and f"{path}, line 7: the label in column 'y' is {said}" in err


def test_a_line_of_units_is_named_when_predicting(dimargin, tmp_path):
    model, rows = tmp_path / "m", [f"{k}.5,{k % 7}.25,{k % 2}\n" for k in range(40)]
    (tmp_path / "train.csv").write_text("a,b,y\n" + "".join(rows))
    assert dimargin("train", tmp_path / "train.csv", "--model", model, "--missing", "median")[0] == 0
    for units, helps in (
        ("m,km/h,-", "remove line 2, a line of texts, from"),
        ("m,1,-", "--na m reads it as"),
    ):
        (tmp_path / "new.csv").write_text(f"a,b,y\n{units}\n" + "".join(rows))
        status, _, err = dimargin("predict", model, tmp_path / "new.csv")
        assert status == 1 and "line 2: column 'a' is 'm'; a finite number expected" in err and helps in err


def test_rows_without_any_value_are_named_when_predicting(dimargin, tmp_path):
    model, path, rows = tmp_path / "m", tmp_path / "new.csv", [f"{k}.5,{k % 7}.25,{k % 2}\n" for k in range(40)]
    (tmp_path / "train.csv").write_text("a,b,y\n" + "".join(rows))
    assert dimargin("train", tmp_path / "train.csv", "--model", model, "--missing", "median")[0] == 0
    path.write_text("a,b,y\n" + "".join(rows) + ",,1\n" + ",1,\n" + "NA,,\n" * 11)
    status, out, err = dimargin("predict", model, path)
    assert status == 0 and len(out.splitlines()) == 53 and err.count("warning") == 1
    assert f"warning: {path}: 12 rows have no value in any column of the model, which predicts their labels " in err
    assert "anyway: line 42, line 44, line 45, " in err and "line 52, ...\n" in err
    path.write_text("a,b,y\n" + "".join(rows) + ",1,\n")
    assert "warning" not in dimargin("predict", model, path)[2]


@pytest.mark.parametrize("flags", [(), ("--missing", "median")])
def test_a_column_of_lists_is_called_as_drop_takes_it(dimargin, tmp_path, flags):
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"a": np.arange(40) + 0.5, "lst": [[1.0, 2.0]] * 40, "y": np.arange(40) % 2}).to_parquet(path)
    status, _, err = dimargin("train", path, "--model", tmp_path / "m", *flags)
    assert status == 1 and "column 'lst' holds list" in err and "--drop, in Python drop=, leaves a column out" in err
    assert dimargin("train", path, "--model", tmp_path / "m", *flags, "--drop", "lst")[0] == 0


def test_the_refusal_of_a_messy_file_names_all_that_helps(refusal, dimargin, tmp_path):
    """Whichever obstacle is found first, the message has all of them, and flags with which training succeeds."""
    frame = people(120, 0)
    frame.loc[[4, 7], "class"] = None
    frame["id"] = "é" + frame["id"]
    frame["since"] = pd.to_datetime(frame["since"]).dt.strftime("%d.%m.%Y")
    frame["until"] = "2020-01-01"
    frame["größe"] = ["n.v." if k % 20 == 3 else f"{k % 7},{k % 10}" for k in range(120)]
    frame.loc[::11, "job"] = None
    csv = {"sep": ";", "encoding": "cp1252"}
    for flags in ((), ("--encoding", "cp1252"), ("--encoding", "cp1252", "--categories"), ("--missing", "mean")):
        said = refusal(frame.drop(columns=["age", "size"]), *flags, **csv)
        for part in (
            "--drop COLUMN for columns of names of rows: 'id'",
            "--dates %d.%m.%Y for columns of dates: 'since' ('01.01.2015')",
            "--drop COLUMN for columns of dates not written as %d.%m.%Y: 'until'",
            "--decimal-comma for columns with commas in numbers: 'größe'",
            "--na n.v. for columns of numbers with other cells: 'größe' (6 of 118 cells are not a number: line 5",
            "--skip-unlabelled for 2 of 120 rows without a label",
        ):
            assert part in said
        assert ("not UTF-8 text; name its encoding, such as cp1252 (" in said) == ("--encoding" not in flags)
        assert ("--categories for columns of text: 'job'" in said) == ("--categories" not in flags)
        given = shlex.split(said.partition("All flags together: ")[2])
        assert dimargin("train", tmp_path / "t.csv", "--model", tmp_path / "m", "--loss", "hinge", *given)[0] == 0
    frame = measured().assign(a=[f"{value:.3e}".replace(".", ",") for value in measured()["a"]])
    assert "--decimal-comma for columns with commas in numbers: 'a' ('" in refusal(frame, "--categories", sep=";")


def test_flags_that_help_together_leave_a_change_of_the_file_to_the_user(refusal, dimargin, tmp_path):
    frame = measured().assign(c=["5 km"] * 80, d=np.resize(["oak", "elm"], 80))
    frame.loc[7, "b"] = "inf"
    said = refusal(frame)
    assert "for columns of numbers with signs, units or separators: 'c' (line 2, '5 km')" in said
    assert "--missing median --na inf for " in said and "line 9: column 'b' is 'inf'; a finite number expected" in said
    flags = said.partition("All flags together, once the file is changed: ")[2].split()
    assert flags == ["--missing", "median", "--categories", "--na", "inf"]
    frame.assign(c=5).to_csv(tmp_path / "t.csv", index=False)
    assert dimargin("train", tmp_path / "t.csv", "--model", tmp_path / "m", *flags)[0] == 0


def test_misspelt_columns_and_models_as_data_are_named(refusal, dimargin, tmp_path):
    frame, model = measured(), tmp_path / "m"
    frame.to_csv(tmp_path / "t.csv", index=False)
    for flags, said in (
        (("--drop", "a,b"), "lacks the column 'a,b', which are several; name each by itself, as in --drop A --drop B"),
        (("--drop", "B"), "lacks the column 'B' (did you mean 'b'?)"),
        (("--label", "lable"), "no label column 'lable' (did you mean 'label'?)"),
    ):
        assert said in refusal(frame.rename(columns={frame.columns[-1]: "label"}), *flags)
    train = ("train", tmp_path / "t.csv", "--model")
    assert dimargin(*train, model)[0] == 0 and dimargin(*train, model)[0] == 0
    for command in (("train", model, "--model", tmp_path / "n"), ("evaluate", model, model)):
        status, _, err = dimargin(*command)
        assert status == 1 and f"{model} is a dimargin model, not data" in err
    notes = tmp_path / "notes.txt"
    notes.write_text("precious")
    status, _, err = dimargin(*train, notes)
    assert status == 2 and "would replace a file that is not a model" in words_of(err)
    assert notes.read_text() == "precious"
    status, _, err = dimargin("train", tmp_path / "absent.csv", "--model", model)
    assert status == 2 and "Invalid value for 'DATA': file" in err


def test_a_column_of_one_value_is_named(dimargin, tmp_path):
    measured().assign(c=3).to_csv(tmp_path / "numbers.csv", index=False)
    measured().assign(c="x", d=1).to_csv(tmp_path / "texts.csv", index=False)
    both = ("--drop", "c", "--drop", "d")
    for name, columns, drop in (
        ("numbers.csv", "column 'c' has", both[:2]),
        ("texts.csv", "columns 'c', 'd' have", both),
    ):
        train = ("train", tmp_path / name, "--model", tmp_path / "m", "--categories")
        said = f"warning: {tmp_path / name}: {columns} the same value in every row, which cannot help; --drop leaves"
        assert said in dimargin(*train)[2]
        status, _, err = dimargin(*train, *drop)
        assert status == 0 and "same value" not in err
