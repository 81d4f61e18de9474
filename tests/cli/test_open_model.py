"""Files that are read for an existing model: other decimal marks, unseen categories, and rows without labels."""

import json

import numpy as np
import pandas as pd
import pytest

import dimargin as dm

SEED = ("--loss", "hinge", "--C", 1)


def table(n=60):
    rng = np.random.default_rng(3)
    label = np.arange(n) % 2
    return pd.DataFrame({
        "size": (rng.normal(size=n) + 2 * label).round(3), "age": (30.5 + 5 * label + rng.integers(0, 9, n)),
        "city": np.resize(["Bern", "Graz", "Lodz"], n), "w": rng.integers(1, 4, n),
        "reads": np.where(label, "yes", "no"),
    })  # fmt: skip


@pytest.mark.parametrize("categories", [("--categories",), ("--drop", "city")])
def test_a_file_with_the_other_decimal_mark_is_explained_and_read(dimargin, tmp_path, categories):
    points, commas, model = tmp_path / "points.csv", tmp_path / "commas.csv", tmp_path / "m"
    table().to_csv(points, index=False)
    table().to_csv(commas, index=False, sep=";", decimal=",")
    labels = ("--label", "reads")
    for trained, other, flag in ((points, commas, "--decimal-comma"), (commas, points, "--decimal-point")):
        given = ("--decimal-comma",) if trained == commas else ()
        status, _, err = dimargin("train", trained, "--model", model, *labels, *SEED, *categories, *given)
        assert status == 0, err
        mark = flag.removeprefix("--decimal-")
        for command in ("predict", "evaluate"):
            status, _, err = dimargin(command, model, other)
            assert (
                status == 1 and f"; this file has decimal {mark}s, unlike the training file; {flag} reads them" in err
            )
            assert "--na" not in err
            here, there = dimargin(command, model, trained, "--quiet"), dimargin(command, model, other, flag, "--quiet")
            assert here == there and here[0] == 0


def test_marks_that_may_separate_thousands_are_no_decimal_commas(dimargin, tmp_path):
    data, model = tmp_path / "t.csv", tmp_path / "m"
    table().drop(columns="city").to_csv(data, index=False)
    assert dimargin("train", data, "--model", model, "--label", "reads", *SEED)[0] == 0
    table().drop(columns="city").assign(size="1,257").to_csv(data, index=False)
    status, _, err = dimargin("predict", model, data)
    assert status == 1 and "column 'size' is '1,257'" in err and "decimal" not in err


def test_categories_that_training_has_not_seen_are_counted(dimargin, tmp_path):
    train, test, model = tmp_path / "train.csv", tmp_path / "test.csv", tmp_path / "m"
    table().to_csv(train, index=False)
    assert dimargin("train", train, "--model", model, "--label", "reads", "--categories", *SEED)[0] == 0
    new = table()
    new.loc[[3, 4, 9], "city"] = ["Wien", "Wien", "Oslo"]
    new.to_csv(test, index=False)
    said = f"warning: {test}: in 3 of 60 rows, column 'city' has a category that the training data did not have"
    for command in ("predict", "evaluate"):
        err = dimargin(command, model, test)[2]
        assert said in err and err.count("warning") == 1 and "ignores: 'Wien', 'Oslo'" in err
        assert "warning" not in dimargin(command, model, train)[2]
    with pytest.warns(UserWarning, match="in 3 of 60 rows, column 'city' .* ignores: 'Wien', 'Oslo'") as caught:
        dm.load(model).predict(new)
    assert len(caught) == 1


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_without_labels_are_counted_and_left_out(dimargin, tmp_path, kind):
    """The model and its scores are those of the file without these rows, whatever they hold."""
    whole, cut, model = tmp_path / f"whole.{kind}", tmp_path / f"cut.{kind}", tmp_path / "m"
    frame = table()
    frame.loc[[2, 30, 59], "reads"] = None
    frame.loc[30, "w"] = -1
    for rows, path in ((frame, whole), (frame.dropna(), cut)):
        rows.to_csv(path, index=False) if kind == "csv" else rows.to_parquet(path)
    train = ("--model", model, "--label", "reads", "--weight", "w", "--categories", *SEED)
    place = "line 4" if kind == "csv" else "row 2"
    status, _, err = dimargin("train", whole, *train)
    assert status == 1 and f"{whole}, {place}: the label in column 'reads' is missing (3 of 60 rows have no" in err
    assert "leave them out by --skip-unlabelled" in err
    status, _, err = dimargin("train", whole, "--model", model, "--label", "reads")
    assert status == 1 and "; --skip-unlabelled for 3 of 60 rows without a label" in err and "--categories for" in err
    facts = []
    for path, flags in ((cut, ()), (whole, ("--skip-unlabelled",))):
        status, out, err = dimargin("train", path, *train, *flags, "--json", "--validate", path)
        facts.append(json.loads(out))
        assert (f"{whole}: 3 of 60 rows have no label and are left out" in err) == (path == whole)
        status, out, err = dimargin("evaluate", model, path, "--weight", "w", "--json", *flags)
        facts[-1] |= {"scores": json.loads(out)}
        assert (f"{whole}: 3 of 60 rows have no label and are left out" in err) == (path == whole)
        assert dimargin("train", path, *train[:2], "--resume", model, *flags)[0] == 0
    ours, theirs = facts
    assert ours["rows"] == theirs["rows"] == theirs["validation"]["rows"] == 57
    assert theirs["objective"] == pytest.approx(ours["objective"]) and theirs["classes"] == ["no", "yes"]
    assert ours["scores"]["confusion"] == theirs["scores"]["confusion"]
    assert dimargin("evaluate", model, whole)[0] == 1


@pytest.mark.parametrize("command", ["predict", "evaluate", "report"])
def test_a_model_that_was_given_as_the_data_is_named(dimargin, tmp_path, command):
    data, model = tmp_path / "my rows.csv", tmp_path / "m"
    table().drop(columns="city").to_csv(data, index=False)
    assert dimargin("train", data, "--model", model, "--label", "reads", *SEED)[0] == 0
    more = ("-o", tmp_path / "page.html") if command == "report" else ()
    status, _, err = dimargin(command, data, model, *more)
    said = f"{data} is not a model, but {model} is; the model comes first: {model} '{data}'"
    assert (status, err) == (1, f"dimargin: {said}\n")
    assert dimargin(command, model, data, *more)[0] == 0
    assert f"{data} is not a dimargin model file" in dimargin(command, data, data, *more)[2]


def test_rows_of_libsvm_text_always_have_a_label(dimargin, tmp_path):
    rows, model = tmp_path / "rows.txt", tmp_path / "m"
    rows.write_text("".join(f"{k % 2} 1:{k} 2:{k % 7}\n" for k in range(40)))
    train = ("train", rows, "--model", model, *SEED)
    assert dimargin(*train)[0] == 0
    for command in (train, ("evaluate", model, rows)):
        status, _, err = dimargin(*command, "--skip-unlabelled")
        said = "LIBSVM text has no rows without a label, which --skip-unlabelled leaves out; if it is CSV, add --format"
        assert status == 1 and f"{rows}: {said} csv" in err
