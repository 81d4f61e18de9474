"""Data as people have it: missing values, categories, dates and decimal commas, on the command line."""

import json
import re
import shlex
import subprocess

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, QuantileTransformer
from text_files import words_of

import dimargin as dm
from dimargin.estimators.preprocessing import CalendarFeatures

ALL = ("--missing", "median", "--categories", "--dates", "iso", "--drop", "id")


def people(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "id": [f"p{k}" for k in range(n)],
            "age": rng.integers(18, 90, n).astype(float),
            "size": rng.normal(1.7, 0.1, n).round(2),
            "job": rng.choice(["nurse", "smith", "clerk"], n),
            "since": pd.date_range("2015-01-01", periods=n).strftime("%Y-%m-%d"),
        }
    )
    frame["class"] = np.where(frame.age + 20 * (frame.job == "nurse") > 60, "ill", "well")
    frame.loc[::9, "age"] = np.nan
    return frame


@pytest.fixture
def files(tmp_path):
    train, test = people(120, 0), people(60, 1)
    test.loc[3, "job"] = "pilot"  # whom training has not seen
    train.to_csv(tmp_path / "train.csv", index=False, na_rep="NA")
    test.to_csv(tmp_path / "test.csv", index=False)
    return tmp_path, train, test


@pytest.fixture
def refusal(dimargin, tmp_path):
    """Train on a table, written as CSV, which is refused; returns the message."""

    def train(frame, *flags, **csv):
        frame.to_csv(tmp_path / "t.csv", index=False, **csv)
        status, out, err = dimargin("train", tmp_path / "t.csv", "--model", tmp_path / "refused", *flags)
        assert (status, out) == (1, "") and not (tmp_path / "refused").exists()
        return err

    return train


@pytest.mark.parametrize("scale", ["minmax", "quantile"])
def test_the_model_is_the_pipeline_of_scikit_learn(dimargin, files, scale):
    folder, train, test = files
    status, _, err = dimargin("train", folder / "train.csv", "--model", folder / "m", "--scale", scale, *ALL)
    assert status == 0, err
    assert "2 numbers, the median where one is missing; 1 dates (iso), as 5 columns; 1 categories, as 3 columns" in err
    steps = ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="median"), ["age", "size"]),
            ("dates", CalendarFeatures(), ["since"]),
            ("categories", OneHotEncoder(handle_unknown="ignore"), ["job"]),
        ]
    )
    quantiles = QuantileTransformer(n_quantiles=120, output_distribution="normal", random_state=0)
    scaler = MinMaxScaler() if scale == "minmax" else quantiles
    ours, theirs = dm.load(folder / "m"), make_pipeline(steps, scaler, dm.ODMClassifier())
    theirs.fit(train.drop(columns=["id", "class"]), train["class"])
    assert np.allclose(ours.decision_function(test), theirs.decision_function(test), atol=1e-9)
    assert dimargin("predict", folder / "m", folder / "test.csv", "-o", folder / "labels")[0] == 0
    assert (folder / "labels").read_text().split() == theirs.predict(test).tolist()
    status, out, _ = dimargin("evaluate", folder / "m", folder / "test.csv", "--json")
    assert json.loads(out)["accuracy"] == np.mean(theirs.predict(test) == test["class"])
    assert dimargin("info", folder / "m", "--certify", folder / "train.csv")[0] == 0
    assert "as 3 columns of 0 and 1" in dimargin("info", folder / "m")[1]


def test_tune_takes_them_too(dimargin, files):
    folder, _, test = files
    grid = '{"gamma": [0.5], "lam": [1e3, 1e5]}'
    done = dimargin("tune", folder / "train.csv", "--model", folder / "m", "--grid", grid, "--cv", 2, *ALL)
    assert done[0] == 0, done
    assert dm.load(folder / "m").score(test, test["class"]) > 0.8


def test_the_search_chooses_the_scaler(dimargin, tmp_path):
    rng = np.random.default_rng(0)
    income = np.exp(rng.normal(0, 4, 200))  # the class is by the middle, and nearly all are at the low end of the range
    frame = pd.DataFrame({"income": income, "class": np.where((income > 0.3) & (income < 3), "middle", "other")})
    frame.to_csv(tmp_path / "train.csv", index=False)
    flags = ("--grid", '{"gamma": [1.0], "lam": [1e4]}', "--cv", 2, "--random-state", 0)
    found = {}
    for ways in (["minmax"], ["quantile"], ["minmax", "quantile"], ["quantile", "none"]):
        scales = [part for way in ways for part in ("--scale", way)]
        done = dimargin("tune", tmp_path / "train.csv", "--model", tmp_path / "m", "--json", *flags, *scales)
        assert done[0] == 0, done
        found[*ways] = json.loads(done[1])["cross_validated_score"]
        assert len(ways) == 1 or "QuantileTransformer: cross-validated score" in done[2]
    assert found["quantile",] > found["minmax",] + 0.1
    assert found["minmax", "quantile"] == found["quantile", "none"] == found["quantile",]
    assert type(dm.load(tmp_path / "m")[0]) is QuantileTransformer


def test_decimal_commas(dimargin, refusal, tmp_path):
    frame = people(80, 0)[["age", "size", "class"]].fillna(40.0)
    frame.to_csv(tmp_path / "points.csv", index=False)
    frame.to_csv(tmp_path / "commas.csv", index=False, sep=";", decimal=",")
    said = refusal(frame, sep=";", decimal=",")
    assert "--decimal-comma for columns with commas in numbers: 'age' ('" in said
    for name, flags in (("points", ()), ("commas", ("--decimal-comma",))):
        assert dimargin("train", tmp_path / f"{name}.csv", "--model", tmp_path / name, *flags)[0] == 0
    models = [dm.load(tmp_path / name) for name in ("points", "commas")]
    assert len({str(model.decision_function(frame[["age", "size"]]).tolist()) for model in models}) == 1
    # the note of the model says how its files are read
    assert dimargin("evaluate", tmp_path / "commas", tmp_path / "commas.csv")[0] == 0
    status, _, err = dimargin("evaluate", tmp_path / "commas", tmp_path / "points.csv")
    assert status == 1 and "points.csv, line 2: column 'age' is" in err and "with a decimal comma expected" in err


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


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (("--category", "age", "--category", "nobody"), 1, "no feature 'nobody' to encode"),
        (("--drop", "nobody"), 1, "lacks the columns 'nobody'"),
        (("--drop", "class", "--label", "class"), 1, "is the label and cannot be left out"),
        (("--dates", "%q"), 2, "format must be 'iso'"),
        (("--engine", "spark", "--categories"), 2, "--categories cannot be used with --engine spark"),
        (("--engine", "spark", "--scale", "quantile"), 2, "--scale quantile cannot be used with --engine spark"),
    ],
)
def test_flags_that_cannot_be(dimargin, files, flags, status, message):
    folder, *_ = files
    done = dimargin("train", folder / "train.csv", "--model", folder / "m", *flags)
    assert done[0] == status and message in words_of(done[2])


def test_numbers_as_categories(dimargin, tmp_path):
    rng = np.random.default_rng(0)
    zips = rng.choice([1067, 80331, 20095], 90)
    frame = pd.DataFrame({"zip": zips, "class": np.where(zips == 20095, "a", "b"), "noise": rng.normal(size=90)})
    frame.to_csv(tmp_path / "train.csv", index=False)
    assert dimargin("train", tmp_path / "train.csv", "--model", tmp_path / "m", "--category", "zip")[0] == 0
    model = dm.load(tmp_path / "m")
    assert model[0].named_transformers_["categories"].categories_[0].tolist() == ["1067", "20095", "80331"]
    assert json.loads(dimargin("evaluate", tmp_path / "m", tmp_path / "train.csv", "--json")[1])["accuracy"] == 1


def test_files_of_every_spelling_are_read_alike(dimargin, tmp_path):
    """The same values as pandas writes them to CSV, as whole numbers or not, and to Parquet."""
    rng = np.random.default_rng(0)
    flag, code = rng.random(80) < 0.5, rng.integers(0, 3, 80)
    frame = pd.DataFrame({"flag": flag, "code": code, "class": np.where(flag & (code == 1), "a", "b")})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    other = frame.assign(code=frame.code.astype(float), flag=frame.flag.astype(str).str.upper())
    other.to_csv(tmp_path / "b.csv", index=False)
    frame.assign(code=frame.code.map("{:02}".format)).to_csv(tmp_path / "c.csv", index=False)
    for training in ("a.csv", "a.parquet", "b.csv"):
        flags = ("--model", tmp_path / "m", "--categories", "--category", "code")
        done = dimargin("train", tmp_path / training, *flags)
        assert done[0] == 0, done
        for name in ("a.csv", "a.parquet", "b.csv", "c.csv"):
            status, out, err = dimargin("evaluate", tmp_path / "m", tmp_path / name, "--json")
            assert status == 0 and json.loads(out)["accuracy"] == 1, (training, name, err)


def test_dates_that_are_none_are_named(refusal):
    train = people(120, 0)
    since = train["since"]
    for dates, format, said in (
        (since, "%d.%m.%Y", "--dates iso for columns of dates: 'since' ('2015-01-01')"),
        (since.replace("2015-01-03", "2015-02-30"), "iso", "not all dates of --dates iso: 'since' ('2015-02-30')"),
        (since.str.replace("-", ""), "%Y%m%d", "--dates %Y%m%d: no column holds such dates"),
    ):
        flags = ("--missing", "mean", "--categories", "--drop", "id", "--dates", format)
        assert said in refusal(train.assign(since=dates), *flags)


def test_a_model_asks_only_for_the_columns_that_it_uses(dimargin, files):
    folder, train, test = files
    steps = ColumnTransformer([("a", SimpleImputer(), ["age"]), ("b", OneHotEncoder(handle_unknown="ignore"), ["job"])])
    model = make_pipeline(steps, dm.ODMClassifier()).fit(train, train["class"])
    dm.save(model, folder / "m")
    test[["job", "age"]].to_csv(folder / "two.csv", index=False)
    assert dimargin("predict", folder / "m", folder / "two.csv", "-o", folder / "labels")[0] == 0
    assert (folder / "labels").read_text().split() == model.predict(test[["age", "job"]]).tolist()


def test_what_training_had_everywhere_must_be_there(dimargin, files):
    folder, train, test = files
    train.fillna({"age": 40}).to_csv(folder / "whole.csv", index=False)
    flags = ("--categories", "--dates", "iso", "--drop", "id")
    assert dimargin("train", folder / "whole.csv", "--model", folder / "m", *flags)[0] == 0
    status, _, err = dimargin("predict", folder / "m", folder / "test.csv")
    assert status == 1 and "test.csv, line 2: column 'age' is missing" in err and "without --missing" in err
    for name in ("job", "since"):
        holes = {name: ["", *test[name].tolist()[1:]]}
        test.fillna({"age": 40}).assign(**holes).to_csv(folder / "hole.csv", index=False)
        status, _, err = dimargin("predict", folder / "m", folder / "hole.csv")
        assert status == 1 and f"hole.csv, line 2: column '{name}' is missing; expected a value" in err
    test.assign(age="old").to_csv(folder / "words.csv", index=False)
    status, _, err = dimargin("predict", folder / "m", folder / "words.csv")
    assert (
        status == 1
        and "words.csv, line 2: column 'age' is 'old'; a finite number expected (60 of 60 cells are not a number)"
        in err
    )
    assert "--na old reads it as a missing value" in err


def test_a_model_of_a_table_cannot_be_resumed_with_other_columns(dimargin, files):
    folder, *_ = files
    assert dimargin("train", folder / "train.csv", "--model", folder / "m", "--tol", 0.1, *ALL)[0] == 0
    resume = ("train", folder / "train.csv", "--model", folder / "m2", "--resume", folder / "m", "--tol", 1e-3)
    assert dimargin(*resume)[0] == 0
    status, _, err = dimargin(*resume, "--categories")
    assert status == 2 and "--categories cannot be used with --resume" in " ".join(err.split())
    assert dm.load(folder / "m2")[-1].duality_gap_ <= 1e-3


def test_quantiles_of_sparse_rows_are_refused(dimargin, tmp_path):
    rows = "".join(f"{k % 2} {1 + k}:1 {50 + k}:2\n" for k in range(40))
    (tmp_path / "rows.libsvm").write_text(rows)
    status, _, err = dimargin("train", tmp_path / "rows.libsvm", "--model", tmp_path / "m", "--scale", "quantile")
    assert status == 1 and "--scale quantile cannot be used with sparse rows" in err


# ---- cells that are no numbers among numbers -------------------------------------------------------------------------


def measured(n=80):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 2)).round(4), columns=["a", "b"])
    return frame.astype(object).assign(label=np.where(frame.a + frame.b > 0, "yes", "no"))


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
    for flags, more in ((), " --missing median"), (("--missing", "mean"), ""), (("--categories",), " --missing median"):
        status, _, err = dimargin(*train, *flags)
        said = f"'a' (1 of 80 cells is not a number: {place}, {odd!r})"
        assert status == 1 and said in err and f"--na {shlex.quote(odd)}{more} for columns of numbers" in err
        assert "--categories for" not in err and "names of rows" not in err and "OneHotEncoder" not in err
    assert dimargin(*train, "--na", odd, "--missing", "median")[0] == 0
    model = dm.load(tmp_path / "m")
    assert dm.load(tmp_path / "m")[0].named_transformers_["numbers"].statistics_[0] == np.median(
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


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_number_that_stands_for_a_missing_value(dimargin, tmp_path, kind):
    frame, path = measured().astype({"a": float, "b": float}), tmp_path / f"t.{kind}"
    frame.loc[[3, 9], "a"] = -999.0
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
    train = ("train", path, "--model", tmp_path / "m", "--loss", "hinge", "--na", "-999")
    assert "--missing median for columns with missing values: 'a' (2 of 80)" in dimargin(*train)[2]
    assert dimargin(*train, "--missing", "mean")[0] == 0
    expected = frame.a[frame.a > -999].mean()
    assert np.isclose(dm.load(tmp_path / "m")[0].named_transformers_["numbers"].statistics_[0], expected)


SIGNS = {
    "percent": lambda v: f"{100 * v:.1f}%", "dollars": lambda v: f"${100 * v:.1f}", "euros": lambda v: f"{v:.2f} €",
    "codes": lambda v: f"USD {100 * v:.0f}", "thousands": lambda v: f"{10_000 * v:,.2f}",
    "apostrophes": lambda v: f"{100_000 * v:,.0f}".replace(",", "'"),
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
    """2.414 may be 2414: pandas leaves such a column as text, too."""
    frame = measured().map(lambda value: str(value).replace(".", ","))
    frame.to_csv(tmp_path / "train.csv", index=False, sep=";")
    frame.loc[80 - n_odd :, "a"] = cell
    frame.to_csv(tmp_path / "points.csv", index=False, sep=";")
    train = ("--model", tmp_path / "m", "--loss", "hinge", "--decimal-comma")
    for flags in ((), ("--missing", "median"), ("--categories",)):
        err = refusal(frame, "--decimal-comma", *flags, sep=";")
        assert f"'a' (line {82 - n_odd}, '{cell}')" in err and "2414 or 2,414 for 2.414" in err
    assert dimargin("train", tmp_path / "train.csv", *train)[0] == 0
    status, _, err = dimargin("predict", tmp_path / "m", tmp_path / "points.csv")
    assert status == 1 and f"points.csv, line {82 - n_odd}: column 'a' is '{cell}'; a" in err
    assert ("--na" in err) == (cell == "1.257,30")
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
        (["12,345", "1,234", "7,001"], "or --decimal-comma if 12,345 means 12.345, for columns with commas in numbers"),
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


def test_a_table_without_names(dimargin, tmp_path):
    """As those of the UCI: by blanks, codes among numbers, the label last."""
    frame = measured().assign(code=np.resize(["A11", "A12", "A13"], 80))[["code", "a", "b", "label"]]
    frame.to_csv(tmp_path / "german.data", index=False, header=False, sep=" ")
    train = ("train", tmp_path / "german.data", "--model", tmp_path / "m", "--label", "-1", "--loss", "hinge")
    status, _, err = dimargin(*train)
    assert status == 1 and "--categories for columns of text: 'column 0' ('A11')" in err
    assert dimargin(*train, "--categories")[0] == 0
    status, out, _ = dimargin("evaluate", tmp_path / "m", tmp_path / "german.data", "--json")
    assert status == 0 and json.loads(out)["accuracy"] > 0.9
    frame.map(lambda cell: str(cell).replace(".", ",")).to_csv(tmp_path / "c.csv", index=False, header=False, sep=";")
    train = ("train", tmp_path / "c.csv", "--model", tmp_path / "m", "--label", "-1", "--loss", "hinge")
    assert dimargin(*train, "--decimal-comma", "--drop", "column 0")[0] == 0
    assert dm.load(tmp_path / "m").n_features_in_ == 2
    frame[["label", "a", "b"]].to_csv(tmp_path / "rows.csv", index=False, header=False)
    assert (
        dimargin("train", tmp_path / "rows.csv", "--model", tmp_path / "m", "--label", "0", "--loss", "hinge")[0] == 0
    )
    frame[["a", "b"]].to_csv(tmp_path / "new.csv", index=False, header=False)
    for name in ("rows.csv", "new.csv"):  # to be predicted, with the labels and without them
        assert dimargin("predict", tmp_path / "m", tmp_path / name, "-o", tmp_path / name.replace("csv", "txt"))[0] == 0
    assert (tmp_path / "rows.txt").read_text() == (tmp_path / "new.txt").read_text()


def test_names_with_blanks(dimargin, tmp_path):
    """Of files, and of models that were trained when blanks belonged to names."""
    frame = measured().assign(job=np.resize(["smith", "clerk"], 80))
    frame.loc[3, "a"] = None
    spaced = frame.rename(columns={"a": " a", "job": " job "})
    steps = ColumnTransformer(
        [("n", SimpleImputer(), [" a"]), ("c", OneHotEncoder(handle_unknown="ignore"), [" job "])]
    )
    old = make_pipeline(steps, dm.ODMClassifier()).fit(spaced.drop(columns="label"), spaced.label)
    dm.save(old, tmp_path / "old")
    for name, table in (("tidy.csv", frame), ("spaced.csv", spaced), ("spaced.parquet", spaced)):
        table = table.astype({table.columns[0]: float, "b": float})
        table.to_parquet(tmp_path / name) if "parquet" in name else table.to_csv(tmp_path / name, index=False)
        assert dimargin("predict", tmp_path / "old", tmp_path / name, "-o", tmp_path / "labels")[0] == 0
        assert (tmp_path / "labels").read_text().split() == old.predict(spaced).tolist()
        flags = ("--label", " label", "--category", " job", "--missing", "mean", "--drop", "b ")
        assert dimargin("train", tmp_path / name, "--model", tmp_path / "m", *flags)[0] == 0
        assert dm.load(tmp_path / "m").feature_names_in_.tolist() == ["a", "job"]
        assert dimargin("evaluate", tmp_path / "m", tmp_path / "tidy.csv")[0] == 0


@pytest.mark.parametrize("command", [("train",), ("tune",), ("simulate", "gossip")])
@pytest.mark.parametrize("flags", [(), ("--missing", "median")])
def test_labels_that_are_no_classes_are_refused_by_line(dimargin, tmp_path, command, flags):
    if command[0] == "simulate":
        pytest.importorskip("networkx")
        flags = ()
    path = tmp_path / "rows.csv"
    for odd, said in (
        ("0.5", "0.5; classes must be whole numbers or texts"),
        ("NA", "'NA', which is not a label; remove"),
    ):
        path.write_text("a,y\n" + "".join(f"{k}.5,{odd if k == 5 else k % 2}\n" for k in range(40)))
        status, _, err = dimargin(*command, path, "--model", tmp_path / "m", *flags)
        assert status == 1 and f"{path}, line 7: the label in column 'y' is {said}" in err


def test_a_label_that_may_be_missing_is_a_class_or_refused(dimargin, tmp_path):
    path, model = tmp_path / "rows.csv", tmp_path / "m"
    path.write_text("a,y\n" + "".join(f"{k}.5,{('NA', 'EU')[k % 2]}\n" for k in range(40)))
    status, _, err = dimargin("train", path, "--model", model)
    assert status == 0 and err.count(f"warning: {path}, line 2: the label 'NA' in column 'y' is read as a class") == 1
    status, out, _ = dimargin("predict", model, path)
    assert status == 0 and set(out.split()) == {"NA", "EU"}
    status, _, err = dimargin("train", path, "--model", model, "--na", "na")
    assert status == 1 and f"{path}, line 2: the label in column 'y' is 'NA', which is not a label; remove rows" in err


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


@pytest.mark.parametrize("text", ["inf", "-Infinity", "1e999"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_infinite_value_can_be_a_missing_one(dimargin, tmp_path, text, suffix):
    path, values = tmp_path / f"rows{suffix}", [f"{k}.5" for k in range(40)]
    values[7] = text
    frame = pd.DataFrame({"a": values, "y": np.arange(40) % 2})
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.astype({"a": float}).to_parquet(path)
    flag = text if suffix == ".csv" else str(float(text))
    for flags, helps in (((), f"--na {flag} --missing median\n"), (("--missing", "median"), f"--na {flag}\n")):
        status, _, err = dimargin("train", path, "--model", tmp_path / "m", *flags)
        assert status == 1 and err.endswith(f"What helps: {helps}")
    assert dimargin("train", path, "--model", tmp_path / "m", "--missing", "median", "--na", flag)[0] == 0


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
