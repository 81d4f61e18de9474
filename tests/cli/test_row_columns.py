"""Weights and groups of rows in columns of a file, on the command line."""

import json

import numpy as np
import pandas as pd
import pytest

import dimargin as dm
from dimargin.io.models import load_with_header

N = 60


def table(seed=0):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(rng.normal(size=(N, 2)).round(3), columns=["a", "b"])
    rows.insert(1, "w", (rng.integers(0, 5, N) / 2).tolist())
    rows["label"] = np.where(rows["a"] + rows["b"] + rng.normal(size=N) > 0, "yes", "no")
    return rows


def written(rows, path):
    """Write rows in the format of the path's suffix, whose weight, if any, is in the column w."""
    if path.suffix == ".csv":
        rows.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        rows.to_parquet(path)
    elif path.suffix == ".bare":
        rows.to_csv(path, index=False, header=False)
    else:
        heads = (
            np.where(rows["label"] == "yes", "1", "-1") + (":" + rows["w"].astype(str) if "w" in rows else "")
        ).tolist()
        path.write_text("".join(f"{h} 1:{a!r} 2:{b!r}\n" for h, a, b in zip(heads, rows["a"], rows["b"], strict=True)))
    return path


FLAGS = {
    "csv": ["--weight", "w"],
    "parquet": ["--weight", " w"],
    "bare": ["--format", "csv", "--no-header", "--label", 3, "--weight", 1],
    "libsvm": ["--weight", "label"],
}


def trained(dimargin, data, model, *flags):
    status, _, error = dimargin("train", data, "--loss", "hinge", "-m", model, "-q", "--tol", 1e-8, *flags)
    assert status == 0, error
    return model


def machine_of(path):
    model = dm.load(path)
    return model[-1] if hasattr(model, "steps") else model


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("suffix", FLAGS)
def test_weights_are_those_of_a_fit(suffix, dimargin, tmp_path):
    """And the column is no feature, neither in training nor in any command that reads such a file again."""
    rows, flags = table(), FLAGS[suffix]
    data = written(rows, tmp_path / f"rows.{suffix}")
    model = trained(dimargin, data, tmp_path / "m", "--scale", "none", *flags)
    X, y = rows[["a", "b"]].to_numpy(), rows["label"] == "yes"
    expected = dm.SVMClassifier(tol=1e-8).fit(X, y, sample_weight=rows["w"])
    found = machine_of(model)
    np.testing.assert_allclose(found.decision_function(X), expected.decision_function(X), atol=1e-5)
    assert load_with_header(model)[1]["notes"]["weight"] == {"bare": 1, "libsvm": "label"}.get(suffix, "w")
    file_flags = flags[:3] if suffix == "bare" else []
    status, out, error = dimargin("predict", model, data, "-q", *file_flags, *(flags if suffix == "libsvm" else []))
    assert status == 0 and len(out.split()) == N, error
    assert dimargin("info", model, "--certify", data, *file_flags)[0] == 0
    assert machine_of(model).certificate_ == "global" and machine_of(model).duality_gap_ < 1e-6
    assert dimargin("train", data, "-m", model, "--resume", model, "-q", *file_flags)[0] == 0
    np.testing.assert_allclose(machine_of(model).objective_, expected.objective_, rtol=1e-6)


def accuracy(dimargin, model, data, *flags):
    status, out, error = dimargin("evaluate", model, data, "--json", *flags)
    assert status == 0, error
    return json.loads(out)["accuracy"]


@pytest.mark.parametrize("suffix", ["csv", "libsvm"])
def test_scores_are_weighted_where_weights_are_given(suffix, dimargin, tmp_path):
    rows, flags = table(), FLAGS[suffix]
    data = written(rows, tmp_path / f"rows.{suffix}")
    other = written(rows.drop(columns="w"), tmp_path / f"other.{suffix}")
    model = trained(dimargin, data, tmp_path / "m", *flags)
    right = np.array(dimargin("predict", model, other, "-q")[1].split()) == np.where(
        suffix == "csv", rows["label"], np.where(rows["label"] == "yes", "1", "-1")
    )
    assert accuracy(dimargin, model, other) == right.mean()
    assert accuracy(dimargin, model, data, *flags) == pytest.approx(np.average(right, weights=rows["w"]))
    assert suffix == "libsvm" or accuracy(dimargin, model, data) == right.mean()


def test_columns_without_names_are_left_out_where_they_were_in_training(dimargin, tmp_path):
    """Where they are elsewhere the flags say so, and no feature is taken for a weight."""
    rows, bare = table().assign(label=lambda rows: (rows["label"] == "yes") * 1), ["--format", "csv", "--no-header"]
    data = written(rows, tmp_path / "rows.bare")
    model = trained(dimargin, data, tmp_path / "m", *FLAGS["bare"])
    expected = dimargin("predict", model, data, "-q", *bare)[1]
    assert expected.count("\n") == N and accuracy(dimargin, model, data, *bare) > 0.7
    features = written(rows[["a", "b"]], tmp_path / "features.bare")
    assert dimargin("predict", model, features, "-q", *bare)[1] == expected
    moved = written(rows[["label", "a", "b", "w"]], tmp_path / "moved.bare")
    assert dimargin("predict", model, moved, "-q", *bare, "--label", 0, "--weight", 3)[1] == expected
    labelled = written(rows[["a", "b", "label"]], tmp_path / "labelled.bare")
    assert dimargin("predict", model, labelled, "-q", *bare, "--label", 2)[1] == expected
    for command in ("predict", "evaluate"):
        status, _, error = dimargin(command, model, labelled, *bare)
        assert status == 1 and ("3 feature columns, expected 2" in error or "no label column 3" in error)


@pytest.mark.parametrize("more", [[], ["--categories", "--missing", "mean"]])
def test_rows_of_weight_0_are_as_if_they_were_not_there(more, dimargin, tmp_path):
    """Neither scaling nor the statistics of columns sees them."""
    rows = table()
    rows["w"] = np.where(np.arange(N) % 3, 1, 0)
    rows.loc[rows["w"] == 0, ["a", "b"]] = 1e6
    kind = pd.Series(["x", "y"] * (N // 2)).where(rows["w"] > 0, "z")
    rows = rows.assign(kind=kind) if more else rows
    rows.loc[1, "a"] = np.nan if more else 1.0
    found = []
    for name, seen in (("all", rows), ("few", rows[rows["w"] > 0])):
        data = written(seen, tmp_path / f"{name}.csv")
        for command in ("train", "tune"):
            flags = ["--weight", "w", "--random-state", 0, *more]
            flags += ["--grid", '{"gamma": [1.0], "C": [10]}'] if command == "tune" else []
            assert dimargin(command, data, "-m", tmp_path / "m", "-q", *flags)[0] == 0
            model = dm.load(tmp_path / "m")
            found.append(
                (name, command, model.decision_function(rows[["a", "b", "kind"]] if more else rows[["a", "b"]]))
            )
    for (_, command, values), (_, other, expected) in zip(found[:2], found[2:], strict=True):
        assert command == other
        np.testing.assert_allclose(values, expected, atol=1e-9)


def test_tables_of_texts_have_weights_too(dimargin, tmp_path):
    """And decimal commas in them."""
    rows = table().assign(kind=["x", "y", "z"] * 20)
    rows["w"] = rows["w"].astype(str).str.replace(".", ",")
    rows["a"] = rows["a"].astype(str).str.replace(".", ",")
    rows["b"] = rows["b"].astype(str).str.replace(".", ",")
    rows.to_csv(tmp_path / "rows.csv", index=False, sep=";")
    model = trained(dimargin, tmp_path / "rows.csv", tmp_path / "m", "--weight", "w", "--categories", "--decimal-comma")
    assert dm.load(model)[0].get_feature_names_out().tolist() == [
        "numbers__a", "numbers__b", "categories__kind_x", "categories__kind_y", "categories__kind_z"
    ]  # fmt: skip
    before = machine_of(model).objective_
    assert dimargin("info", model, "--certify", tmp_path / "rows.csv")[0] == 0
    np.testing.assert_allclose(machine_of(model).objective_, before, rtol=1e-6)


def test_tables_without_names_have_weights_too(dimargin, tmp_path):
    rows = table().assign(label=lambda rows: (rows["label"] == "yes") * 1)
    rows.to_csv(tmp_path / "rows.csv", index=False, sep=";", decimal=",", header=False)
    bare = ["--format", "csv", "--no-header"]
    flags = [*FLAGS["bare"], "--decimal-comma"]
    model = trained(dimargin, tmp_path / "rows.csv", tmp_path / "m", *flags)
    assert dm.load(model)[-1].n_features_in_ == 2
    assert dimargin("predict", model, tmp_path / "rows.csv", "-q", *bare)[1].count("\n") == N
    assert accuracy(dimargin, model, tmp_path / "rows.csv", *bare) > 0.7


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([-1.5], "the weight in column 'w' is -1.5; a finite number of 0 or more expected"),
        (["x"], "column 'w' is 'x'; a finite number expected"),
        ([None], "the weight in column 'w' is missing"),
        ([np.inf], "column 'w' is "),
        ([0.0] * N, "every weight is 0; expected at least one above 0"),
    ],
)
def test_what_is_not_a_weight_is_named(suffix, values, message, dimargin, tmp_path):
    rows = table().astype({"w": object})
    rows.loc[N - len(values) :, "w"] = values
    rows["w"] = rows["w"].astype(str) if values == ["x"] else rows["w"].astype(float)
    data = written(rows, tmp_path / f"rows.{suffix}")
    status, _, error = dimargin("train", data, "-m", tmp_path / "m", "--weight", "w")
    place = f"line {N + 1}: " if suffix == "csv" else f"row {N - 1}: "
    assert status == 1 and message in error and (place in error or len(values) == N), error
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--weight", "v"], "has no weight column 'v'; the columns are 'a', 'w', 'b', 'label'"),
        (["--weight", "7"], "has no weight column '7'"),
        (["--weight", "label", "--label", "label"], "column 'label' is the label and cannot be left out"),
        (["--weight", "w", "--group", "1"], "column 'w' is named as weight and as group"),
        (["--group", "v"], "has no group column 'v'"),
    ],
)
def test_columns_that_are_not_there(flags, message, dimargin, tmp_path):
    data = written(table(), tmp_path / "rows.csv")
    status, _, error = dimargin("tune", data, "-m", tmp_path / "m", *flags)
    assert status == 1 and message in error


def test_libsvm_text_has_weights_behind_labels_only(dimargin, tmp_path):
    data = written(table(), tmp_path / "rows.libsvm")
    for command, flags, message in (
        ("train", ["--weight", "w"], "--weight w: columns of LIBSVM text have no names; --weight label reads weights"),
        ("train", [], "unless a weight follows its label (--weight label"),
        ("tune", ["--group", "qid"], "--group qid: LIBSVM text has no group columns; use CSV or Parquet"),
    ):
        status, _, error = dimargin(command, data, "-m", tmp_path / "m", *flags)
        assert status == 1 and message in error, error
    (tmp_path / "bad.libsvm").write_text("1:1 1:1\n-1:-1 1:2\n")
    status, _, error = dimargin("train", tmp_path / "bad.libsvm", "-m", tmp_path / "m", "--weight", "label")
    assert status == 1 and "bad.libsvm, line 2: '-1:-1' is not a label with its weight" in error


def test_tune_weighs_its_rows(dimargin, tmp_path):
    rows = table()
    data = written(rows, tmp_path / "rows.csv")
    flags = ["--grid", '{"gamma": [1.0], "C": [10]}', "--scale", "none", "-q", "--random-state", 0]
    assert dimargin("tune", data, "-m", tmp_path / "m", "--weight", "w", *flags)[0] == 0
    machine = machine_of(tmp_path / "m")
    X, y = rows[["a", "b"]].to_numpy(), rows["label"]
    expected = dm.SVMClassifier(**machine.get_params()).fit(X, y, sample_weight=rows["w"])
    assert machine.objective_ == pytest.approx(expected.objective_)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rows_of_a_group_are_in_one_fold(suffix, dimargin, tmp_path):
    """Whose rows are alike, and whose label is drawn for all of them: other groups say nothing of it."""
    rng = np.random.default_rng(0)
    group = np.arange(120) // 4
    rows = pd.DataFrame(rng.normal(size=(30, 2))[group], columns=["a", "b"]).assign(
        patient=[f"{k:03}" for k in group], label=rng.integers(0, 2, 30)[group], w=1.0
    )
    data, scores = written(rows, tmp_path / f"rows.{suffix}"), []
    flags = ["--grid", '{"gamma": [30.0], "C": [1000]}', "--random-state", 0, "--json", "--weight", "w"]
    for chosen in (["--drop", "patient"], ["--group", "patient"], ["--group", "2"]):
        status, out, error = dimargin("tune", data, "-m", tmp_path / "m", *flags, *chosen)
        assert status == 0, error
        scores.append(json.loads(out)["cross_validated_score"])
        assert dm.load(tmp_path / "m").feature_names_in_.tolist() == ["a", "b"]
    assert scores[0] == 1 and scores[1] == scores[2] < 0.75


def test_a_row_without_a_group_is_named(dimargin, tmp_path):
    (tmp_path / "rows.csv").write_text("a,g,y\n1,x,0\n2,,1\n")
    status, _, error = dimargin("tune", tmp_path / "rows.csv", "-m", tmp_path / "m", "--group", "g")
    assert status == 1 and "rows.csv, line 3: the group in column 'g' is missing" in error
