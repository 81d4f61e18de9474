"""Data as people have it: missing values, categories, dates and decimal commas, on the command line."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    QuantileTransformer,
    StandardScaler,
)
from text_files import measured, people, words_of

import dimargin as dm
from dimargin.cli.column_flags import ColumnChoices, column_flags
from dimargin.estimators.preprocessing import CalendarFeatures
from dimargin.io.data.labels import NOTHING
from dimargin.io.data.mixed import read_mixed
from dimargin.io.data.opening import DataFile, FileOptions

SEED = ("--random-state", 0)
ALL = ("--missing", "median", "--categories", "--dates", "iso", "--drop", "id")


@pytest.fixture
def files(tmp_path):
    train, test = people(120, 0), people(60, 1)
    test.loc[3, "job"] = "pilot"  # whom training has not seen
    train.to_csv(tmp_path / "train.csv", index=False, na_rep="NA")
    test.to_csv(tmp_path / "test.csv", index=False)
    return tmp_path, train, test


SCALERS = {
    "none": FunctionTransformer(validate=True),
    "minmax": MinMaxScaler(),
    "standard": StandardScaler(),
    "quantile": QuantileTransformer(n_quantiles=120, output_distribution="normal", random_state=0),
}


@pytest.mark.parametrize("scale", SCALERS)
def test_the_model_is_the_pipeline_of_scikit_learn(dimargin, files, scale):
    folder, train, test = files
    train = ("train", folder / "train.csv", "--model", folder / "m", "--loss", "odm", "--scale", scale, *ALL)
    status, _, err = dimargin(*train)
    assert status == 0, err
    said = "2 columns of numbers, the median where one is missing; 1 column of dates (iso), as 5 columns"
    assert f"train.csv: 120 rows, 4 columns as 10 features\n{said}" in err
    ours, theirs = dm.load(folder / "m"), pipeline_of_people(scale, ["job"]).fit(files[1], files[1]["class"])
    assert np.allclose(ours.decision_function(test), theirs.decision_function(test), atol=1e-9)
    assert dimargin("predict", folder / "m", folder / "test.csv", "-o", folder / "labels")[0] == 0
    assert (folder / "labels").read_text().split() == theirs.predict(test).tolist()
    status, out, _ = dimargin("evaluate", folder / "m", folder / "test.csv", "--json")
    assert json.loads(out)["accuracy"] == np.mean(theirs.predict(test) == test["class"])
    assert dimargin("info", folder / "m", "--certify", folder / "train.csv")[0] == 0
    shown = words_of(dimargin("info", folder / "m")[1])
    named = "none" if scale == "none" else type(SCALERS[scale]).__name__
    assert "as 3 columns of 0 and 1" in shown and f"scaling {named} parameters" in shown


def pipeline_of_people(scale, categories):
    numbers = make_pipeline(SimpleImputer(strategy="median"), SCALERS[scale])
    dates, encoder = make_pipeline(CalendarFeatures(), SCALERS[scale]), OneHotEncoder(handle_unknown="ignore")
    steps = [("numbers", numbers, ["age", "size"]), ("dates", dates, ["since"]), ("categories", encoder, categories)]
    return make_pipeline(ColumnTransformer(steps), dm.ODMClassifier())


@pytest.mark.parametrize("scale", ["minmax", "standard", "quantile"])
def test_many_categories_do_not_change_how_numbers_and_dates_are_scaled(dimargin, files, scale):
    """The columns of 60 towns make the rows sparse, which a scaler of all columns could not centre."""
    folder, train, test = files
    for frame, name in ((train, "train.csv"), (test, "test.csv")):
        frame["town"] = [f"town {k % 60}" for k in range(len(frame))]
        frame.to_csv(folder / name, index=False)
    flags = ("--model", folder / "m", "--loss", "odm", "--scale", scale, *ALL)
    status, _, err = dimargin("train", folder / "train.csv", *flags)
    assert status == 0 and "train.csv: 120 rows, 5 columns as 70 features, sparse" in err
    model, expected = dm.load(folder / "m"), pipeline_of_people(scale, ["job", "town"]).fit(train, train["class"])
    assert np.allclose(model.decision_function(test), expected.decision_function(test), atol=1e-9)
    if scale == "minmax":
        scaled = model[:-1].transform(train).toarray()
        assert scaled[:, :7].min(axis=0).tolist() == [0] * 7 and np.allclose(scaled[:, :7].max(axis=0), 1)
    assert dimargin("predict", folder / "m", folder / "test.csv", "-o", folder / "labels")[0] == 0
    assert (folder / "labels").read_text().split() == expected.predict(test).tolist()


def test_tune_takes_them_too(dimargin, files):
    folder, _, test = files
    grid = '{"gamma": [0.5], "C": [1, 100]}'
    done = dimargin("tune", folder / "train.csv", "--model", folder / "m", "--grid", grid, "--cv", 2, *ALL)
    assert done[0] == 0, done
    assert dm.load(folder / "m").score(test, test["class"]) > 0.8


def test_the_search_chooses_the_scaler(dimargin, tmp_path):
    rng = np.random.default_rng(0)
    income = np.exp(rng.normal(0, 4, 200))  # the class is by the middle, and nearly all are at the low end of the range
    frame = pd.DataFrame({"income": income, "class": np.where((income > 0.3) & (income < 3), "middle", "other")})
    frame.to_csv(tmp_path / "train.csv", index=False)
    flags = ("--grid", '{"gamma": [1.0], "C": [10]}', "--cv", 2, "--random-state", 0)
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
    for name, flags in (("points", SEED), ("commas", (*SEED, "--decimal-comma"))):
        assert dimargin("train", tmp_path / f"{name}.csv", "--model", tmp_path / name, *flags)[0] == 0
    models = [dm.load(tmp_path / name) for name in ("points", "commas")]
    assert len({str(model.decision_function(frame[["age", "size"]]).tolist()) for model in models}) == 1
    # the note of the model says how its files are read
    assert dimargin("evaluate", tmp_path / "commas", tmp_path / "commas.csv")[0] == 0
    status, _, err = dimargin("evaluate", tmp_path / "commas", tmp_path / "points.csv")
    assert status == 1 and "points.csv, line 2: column 'age' is" in err and "with a decimal comma expected" in err


@pytest.mark.parametrize("separator", [",", ".", "'", " ", "\u00a0"])
@pytest.mark.parametrize("other", [(), ("--categories",)])
def test_separators_of_thousands(dimargin, refusal, tmp_path, separator, other):
    frame = people(80, 0)[["age", "size", "class", *(["job"] if other else [])]].fillna(40.0)
    frame["age"] = (frame["age"] * 54321.5).round(1) * np.resize([1, -1], 80)
    frame["weight"] = np.resize([1.0, 2500.5], 80)
    comma, flags = separator == ".", ("--thousands", separator.replace("\u00a0", " "))
    grouped = frame.copy()
    for name in ("age", "size", "weight"):
        texts = frame[name].map("{:_}".format)
        grouped[name] = (texts.str.replace(".", ",") if comma else texts).str.replace("_", separator)
    frame.to_csv(tmp_path / "plain.csv", index=False, sep=";", decimal="," if comma else ".")
    grouped.to_csv(tmp_path / "grouped.csv", index=False, sep=";")
    given = ("--weight", "weight", "--loss", "hinge", *SEED, *other, *(["--decimal-comma"] if comma else []))
    assert "of thousands: 'age' (line 2, " in refusal(grouped, *given, sep=";")
    for name, more in (("plain", ()), ("grouped", flags)):
        status, _, err = dimargin("train", tmp_path / f"{name}.csv", "--model", tmp_path / name, *given, *more)
        assert status == 0, err
    X = pa.Table.from_pandas(frame) if other else frame[["age", "size"]]
    models = [dm.load(tmp_path / name) for name in ("plain", "grouped")]
    assert len({str(model.decision_function(X).tolist()) for model in models}) == 1
    scores = []
    for model, file, more in (
        ("plain", "plain", ()), ("grouped", "grouped", ()), ("grouped", "plain", ()), ("plain", "grouped", flags)
    ):  # fmt: skip
        given = ("evaluate", tmp_path / model, tmp_path / f"{file}.csv", "--weight", "weight", "--json", *more)
        status, out, err = dimargin(*given)
        assert status == 0, err
        scores.append(json.loads(out)["confusion"])
    assert scores == scores[:1] * 4 and dimargin("evaluate", tmp_path / "plain", tmp_path / "grouped.csv")[0] == 1


def test_other_commas_are_no_separators_of_thousands(refusal):
    frame = measured().assign(a=np.resize(["1,234", "12,345.5", "99"], 80))
    for odd in ("1,5", "0,123", "1,2345", "12,34,567"):
        frame.loc[9, "a"] = odd
        assert f"'a' (1 of 80 cells is not a number: line 11, '{odd}')" in refusal(frame, "--thousands", ",")


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (("--category", "age", "--category", "nobody"), 1, "no feature 'nobody' to encode"),
        (("--drop", "nobody"), 1, "lacks the column 'nobody'"),
        (("--drop", "class", "--label", "class"), 1, "is the label and cannot be left out"),
        (("--dates", "%q"), 2, "format must be 'iso'"),
        (("--thousands", "."), 2, "--thousands . is the decimal mark, too; add --decimal-comma"),
        (("--thousands", ",", "--decimal-comma"), 2, "the decimal mark, too; --decimal-comma cannot be used with it"),
        (("--thousands", ";"), 2, "';' is not one of ',', '.', \"'\", ' '"),
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


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_number_that_stands_for_a_missing_value(dimargin, tmp_path, kind):
    frame, path = measured().astype({"a": float, "b": float}), tmp_path / f"t.{kind}"
    frame.loc[[3, 9], "a"] = -999.0
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
    train = ("train", path, "--model", tmp_path / "m", "--loss", "hinge", "--na", "-999")
    said = (
        "1 of 2 columns cannot be used as features as they are. What helps: --missing median for columns with missing"
    )
    assert f"{path}: {said} values: 'a' (2 of 80)" in dimargin(*train)[2]
    assert dimargin(*train, "--missing", "mean")[0] == 0
    expected = frame.a[frame.a > -999].mean()
    assert np.isclose(dm.load(tmp_path / "m")[0].named_transformers_["numbers"][0].statistics_[0], expected)


@pytest.mark.parametrize("text", ["inf", "-Infinity", "1e999"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_infinite_value_can_be_a_missing_one(dimargin, tmp_path, text, suffix):
    path, values = tmp_path / f"rows{suffix}", [f"{k}.5" for k in range(40)]
    values[7] = text
    frame = pd.DataFrame({"a": values, "y": np.arange(40) % 2})
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.astype({"a": float}).to_parquet(path)
    flag = text if suffix == ".csv" else str(float(text))
    for flags, helps in (((), f"--missing median --na {flag}\n"), (("--missing", "median"), f"--na {flag}\n")):
        status, _, err = dimargin("train", path, "--model", tmp_path / "m", *flags)
        assert status == 1 and err.endswith(f"What helps: {helps}")
    assert dimargin("train", path, "--model", tmp_path / "m", "--missing", "median", "--na", flag)[0] == 0


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


def test_a_label_that_may_be_missing_is_a_class_or_refused(dimargin, tmp_path):
    path, model = tmp_path / "rows.csv", tmp_path / "m"
    path.write_text("a,y\n" + "".join(f"{k}.5,{('NA', 'EU')[k % 2]}\n" for k in range(40)))
    status, _, err = dimargin("train", path, "--model", model)
    assert status == 0 and err.count(f"warning: {path}, line 2: the label 'NA' in column 'y' is read as a class") == 1
    status, out, _ = dimargin("predict", model, path)
    assert status == 0 and set(out.split()) == {"NA", "EU"}
    status, _, err = dimargin("train", path, "--model", model, "--na", "na")
    assert (
        status == 1
        and f"{path}, line 2: the label in column 'y' is 'NA', which is not a label (20 of 40 rows have no" in err
    )


def test_a_missing_text_is_the_same_in_every_kind_of_frame(dimargin, tmp_path):
    """Arrow and polars have None for it, pandas NaN."""
    rows = people(200, 0)
    rows.loc[::5, "job"] = None
    rows.to_csv(tmp_path / "rows.csv", index=False)
    assert dimargin("train", tmp_path / "rows.csv", *ALL, "--model", tmp_path / "m")[0] == 0
    dimargin("predict", tmp_path / "m", tmp_path / "rows.csv", "--decision-values", "-o", tmp_path / "values.csv")
    machine = dm.load(tmp_path / "m")
    expected = machine.decision_function(pl.read_csv(tmp_path / "rows.csv", null_values=[""]))
    np.testing.assert_array_equal(machine.decision_function(pd.read_csv(tmp_path / "rows.csv")), expected)
    np.testing.assert_allclose(pd.read_csv(tmp_path / "values.csv").iloc[:, -1], expected)


def test_help_lists_the_marks_of_missing_values(tmp_path):
    (text,) = (flag.annotation.__metadata__[0].help for flag in column_flags() if flag.name == "missing")
    marks = re.search(r"\((.*), in any case\)", text)[1].replace("empty", "").split(", ")
    assert marks == list(NOTHING) and len(marks) > 9
    rows = [f"{mark},{other},x\n" for mark, other in zip(marks, map(str.upper, marks), strict=True)]
    (tmp_path / "rows.csv").write_text("".join(["a,b,label\n", *rows, "1,2,y\n"]))
    assert [column.null_count for column in read_mixed(DataFile(tmp_path / "rows.csv")).X.columns] == [len(rows)] * 2


def test_the_command_that_resumes_reads_the_same_rows():
    choices = ColumnChoices(FileOptions(encoding="cp1252"), missing="median", skip_unlabelled=True)
    assert choices.resuming("my rows.csv", Path("m.dimargin"), "sigmoid") == (
        "dimargin train 'my rows.csv' --resume m.dimargin --model m.dimargin --encoding=cp1252 --skip-unlabelled "
        "--probabilities --calibration sigmoid"
    )
