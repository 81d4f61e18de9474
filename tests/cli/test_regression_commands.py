"""``dimargin train --task regression`` on tables as people have them, and the commands that use its models."""

import json

import numpy as np
import pandas as pd
import pytest
from report_page import Page, check_alone
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.preprocessing import MinMaxScaler
from text_files import words_of

import dimargin as dm

MESSY = ("--label", "price", "--decimal-comma", "--thousands", ".", "--categories", "--missing", "median")


def houses(n=120, seed=0):
    """Houses with missing rooms, a town, and a price in thousands."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "size": rng.uniform(30, 200, n).round(1), "rooms": rng.integers(1, 7, n).astype(float),
        "town": rng.choice(["Ulm", "Bonn"], n),
    })  # fmt: skip
    price = 2500 * frame["size"] + 20_000 * frame["rooms"] + 30_000 * (frame["town"] == "Bonn")
    frame["price"] = (price + rng.normal(0, 9_000, n)).round(2)
    frame.loc[::9, "rooms"] = np.nan
    return frame


def german(value):
    """A number with a decimal comma and points between thousands; a missing one is empty."""
    return "" if np.isnan(value) else f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def write(path, frame, **cells):
    """Write the table as German programs do, with other cells in its column of prices."""
    table = frame.assign(**{name: [*map(german, frame[name])] for name in ("size", "rooms", "price")})
    for row, cell in cells.get("price", {}).items():
        table.loc[row, "price"] = cell
    table.to_csv(path, sep=";", index=False)
    return path


def numbers_of(frame, fitted_on):
    """The features as the commands encode and scale them, computed by hand."""
    numbers = [f[["size", "rooms"]].fillna(fitted_on["rooms"].median()).to_numpy() for f in (fitted_on, frame)]
    towns = np.column_stack([frame["town"] == "Bonn", frame["town"] == "Ulm"])
    return np.hstack([MinMaxScaler().fit(numbers[0]).transform(numbers[1]), towns])


@pytest.fixture
def trained(dimargin, tmp_path):
    """A model file of a messy table."""
    status, out, err = dimargin(
        "train", write(tmp_path / "train.csv", houses()), "--task", "regression", *MESSY, "--model", tmp_path / "m"
    )
    assert status == 0, err
    return tmp_path / "m", out, err


def test_a_messy_table_is_learned_as_clean_numbers_are(dimargin, trained, tmp_path):
    path, out, err = trained
    train, test = houses(), houses(60, seed=1)
    spread = train["price"].std(ddof=0)
    chosen = {"epsilon": float(f"{0.1 * spread:.4g}"), "C": float(f"{spread:.4g}")}
    said = f"standard deviation {spread:.4g}, from which --epsilon {chosen['epsilon']:g} and --C {chosen['C']:g} follow"
    assert said in err and "training with --loss epsilon_insensitive" in err and "classes" not in out
    machine = dm.SVMRegressor(**chosen, random_state=0)
    expected = machine.fit(numbers_of(train, train), train["price"]).predict(numbers_of(test, train))
    data = write(tmp_path / "test.csv", test)
    status, lines, _ = dimargin("predict", path, data)
    assert status == 0
    np.testing.assert_allclose([*map(float, lines.split())], expected, rtol=1e-6)
    assert dimargin("predict", path, data, "--output", tmp_path / "out.csv")[0] == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")["prediction"], expected, rtol=1e-6)
    scores = json.loads(dimargin("evaluate", path, data, "--json")[1])
    assert scores["rows"] == 60 and scores["certificate"] == "global" and scores["relative_duality_gap"] <= 1e-3
    assert scores["r2"] == pytest.approx(r2_score(test["price"], expected)) and scores["r2"] > 0.9
    assert scores["mean_absolute_error"] == pytest.approx(mean_absolute_error(test["price"], expected))
    assert scores["root_mean_squared_error"] == pytest.approx(root_mean_squared_error(test["price"], expected))
    assert "R2" in dimargin("evaluate", path, data)[1]


def test_given_parameters_are_kept_and_the_squared_loss_needs_no_unit_of_c(dimargin, tmp_path):
    data = write(tmp_path / "t.csv", houses())
    flags = (*MESSY, "--model", tmp_path / "m", "--task", "regression")
    assert dimargin("train", data, *flags, "--C", "5000", "--epsilon", "70")[0] == 0
    assert (dm.load(tmp_path / "m")[-1].C, dm.load(tmp_path / "m")[-1].epsilon) == (5000, 70)
    assert dimargin("train", data, *flags, "--loss", "linear_squared_epsilon_insensitive")[0] == 0
    machine = dm.load(tmp_path / "m")[-1]
    assert type(machine) is dm.LinearSVMRegressor and machine.loss == "squared_epsilon_insensitive"
    assert machine.C == 1 and machine.epsilon == pytest.approx(0.1 * houses()["price"].std(ddof=0), rel=1e-3)


REFUSED = {
    "text": ({k: ("dear", "cheap")[k % 2] for k in range(120)}, "line 2: column 'price' is 'dear'; a finite number"),
    "few texts": ({4: "n.k."}, "line 6: column 'price' is 'n.k.'; a finite number expected (1 of 120 cells is not"),
    "what helps": ({4: "n.k."}, "What helps: --na n.k. for"),
    "classes": ({k: "dear" for k in range(120)}, "leave --task regression out to predict classes"),
    "missing": ({4: "", 7: "NA"}, "line 6: the label in column 'price' is missing (2 of 120 rows have no label)"),
    "all missing": (dict.fromkeys(range(120), ""), "no row has a label in column 'price'"),
    "infinite": ({4: "inf"}, "line 6: column 'price' is 'inf'; a finite number expected"),
    "too large": ({4: "1e200"}, "line 6: column 'price' is 1e+200; expected at most 1e+100"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_targets_that_are_not_numbers_are_named(dimargin, tmp_path, name):
    cells, message = REFUSED[name]
    data = write(tmp_path / "t.csv", houses(), price=cells)
    status, out, err = dimargin("train", data, "--task", "regression", *MESSY, "--model", tmp_path / "m")
    assert (status, out) == (1, "") and message in words_of(err) and not (tmp_path / "m").exists()


def test_commas_in_targets_have_the_advice_of_features(dimargin, tmp_path):
    data = write(tmp_path / "t.csv", houses())
    flags = ("--label", "price", "--model", tmp_path / "m", "--task", "regression")
    err = words_of(dimargin("train", data, *flags)[2])
    assert "What helps: --decimal-comma for columns with commas in numbers: 'price'" in err


@pytest.mark.parametrize("weight", [(), ("--weight", "size")])
def test_rows_without_a_target_are_left_out(dimargin, tmp_path, weight):
    """Cells of such rows may hold anything: they are not read."""
    gaps = houses()
    gaps.loc[3, "town"] = "1"
    data = write(tmp_path / "gaps.csv", gaps, price={3: "", 7: "n.k.", 119: "?"})
    flags = ("--task", "regression", *MESSY, *weight, "--quiet")
    own = ("--na", "n.k.", "--skip-unlabelled", "--model", tmp_path / "gaps")
    status, _, err = dimargin("train", data, *flags, *own)
    assert status == 0, err
    kept = houses().drop(index=[3, 7, 119])
    assert dimargin("train", write(tmp_path / "kept.csv", kept), *flags, "--model", tmp_path / "kept")[0] == 0
    test = write(tmp_path / "test.csv", houses(30, seed=1))
    assert dimargin("predict", tmp_path / "gaps", test)[1] == dimargin("predict", tmp_path / "kept", test)[1]
    status, _, err = dimargin("evaluate", tmp_path / "gaps", data)
    assert status == 1 and "line 5: the label in column 'price' is missing (3 of 120" in words_of(err)
    status, out, err = dimargin("evaluate", tmp_path / "gaps", data, "--skip-unlabelled", "--json")
    assert status == 0 and json.loads(out)["rows"] == 117 and "3 of 120 rows have no label and are left out" in err


@pytest.mark.parametrize("kind", ["csv", "headerless", "parquet", "libsvm"])
def test_every_format_gives_the_same_model(dimargin, tmp_path, kind):
    frame = houses().fillna(3.0)[["size", "rooms", "price"]]
    path, label = tmp_path / f"t.{kind}", "price"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    elif kind == "headerless":
        frame.to_csv(path, index=False, header=False)
        label = "2"
    else:
        path.write_text("".join(f"{p} 1:{a} 2:{b}\n" for a, b, p in frame.to_numpy().tolist()))
    flags = ("--task", "regression", "--model", tmp_path / "m", "--scale", "none", "--gamma", "0.01")
    status, _, err = dimargin("train", path, *flags, *(() if kind == "libsvm" else ("--label", label)))
    assert status == 0, err
    X, y = frame[["size", "rooms"]].to_numpy(), frame["price"].to_numpy()
    chosen = {"C": float(f"{y.std():.4g}"), "epsilon": float(f"{0.1 * y.std():.4g}")}
    machine = dm.SVMRegressor(**chosen, gamma=0.01, random_state=0).fit(X, y)
    numbers = np.array(dimargin("predict", tmp_path / "m", path)[1].split(), dtype=float)
    np.testing.assert_allclose(numbers, machine.predict(X), rtol=1e-6)
    scores = json.loads(dimargin("evaluate", tmp_path / "m", path, "--json")[1])
    assert scores["r2"] == pytest.approx(machine.score(X, y))


def test_a_feature_with_the_usual_name_of_a_label_stays_a_feature(dimargin, tmp_path):
    frame = houses().fillna(3.0).rename(columns={"rooms": "class"})[["size", "class", "price"]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    flags = ("--task", "regression", "--label", "price", "--model", tmp_path / "m")
    assert dimargin("train", tmp_path / "t.csv", *flags)[0] == 0
    assert dm.load(tmp_path / "m").feature_names_in_.tolist() == ["size", "class"]


def test_a_model_is_resumed_and_certified(dimargin, trained, tmp_path):
    path, _, _ = trained
    data = tmp_path / "train.csv"
    status, _, err = dimargin("train", data, "--resume", path, "--model", tmp_path / "n", "--C", "1000")
    assert status == 0, err
    assert (dm.load(tmp_path / "n")[-1].C, dm.load(tmp_path / "n")[-1].epsilon) == (1000, dm.load(path)[-1].epsilon)
    status, out, err = dimargin("info", path, "--certify", data)
    assert status == 0 and "SVMRegressor" in out and "certified now on the 120 rows" in err and "classes" not in out


def test_a_page_shows_the_scores_of_evaluate(dimargin, trained, tmp_path):
    data = write(tmp_path / "t.csv", houses(50, seed=1), price={0: "", 7: ""})
    arguments = (trained[0], data, "--skip-unlabelled")
    status, _, err = dimargin("report", *arguments, "--output", tmp_path / "page.html")
    assert status == 0, err
    page, scores = Page(tmp_path / "page.html"), json.loads(dimargin("evaluate", *arguments, "--json")[1])
    check_alone(page)
    assert page.texts["r2"] == f"{scores['r2']:.3f}" and "2 rows without a label were left out" in page.texts["n-rows"]
    lines = data.read_text().splitlines()
    for number, price, _, _, values in page.tables["largest-errors"][1:]:
        size, _, town, own = lines[int(number)].split(";")
        assert f"town {town}" in values and f"size {float(size.replace(',', '.')):.4g}" in values
        assert float(price.replace(",", "")) == pytest.approx(float(own.replace(".", "").replace(",", ".")), rel=1e-3)


FLAGS = {
    "another loss": (("--task", "regression", "--loss", "hinge"), "--loss must be one of epsilon_insensitive, "),
    "another task": (
        ("--task", "classification", "--loss", "epsilon_insensitive"),
        "with --task classification, got 'epsilon_insensitive'",
    ),
    "probabilities": (("--task", "regression", "--probabilities"), "--probabilities cannot be used for regression"),
    "spark": (("--task", "regression", "--engine", "spark"), "--engine spark cannot be used for regression"),
    "class weights": (("--task", "regression", "--class-weight", "balanced"), "is not a parameter of SVMRegressor"),
}


@pytest.mark.parametrize("name", FLAGS)
def test_flags_that_are_for_classes(dimargin, tmp_path, name):
    flags, message = FLAGS[name]
    data = write(tmp_path / "t.csv", houses())
    status, _, err = dimargin("train", data, *flags, "--label", "price", "--model", tmp_path / "m")
    assert status == 2 and message in words_of(err)


def test_what_a_regressor_is_not_for(dimargin, trained, tmp_path):
    path, data = trained[0], tmp_path / "train.csv"
    for words, message in (
        (("predict", path, data, "--decision-values"), "--decision-values is for models that predict classes"),
        (("predict", path, data, "--probabilities"), "--probabilities is for models that predict classes"),
        (("evaluate", path, data, "--plot", tmp_path / "p.png"), "dimargin report draws residuals"),
        (("train", data, "--resume", path, "--model", path, "--task", "classification"), "cannot be changed"),
        (("tune", data, "--task", "regression", "--model", path), "tune chooses parameters of classifiers"),
        (("tune", data, "--loss", "epsilon_insensitive", "--model", path), "tune chooses parameters of classifiers"),
    ):
        status, out, err = dimargin(*words)
        assert status in (1, 2) and not out and message in words_of(err)


def test_many_numbers_as_classes_have_a_hint(dimargin, tmp_path):
    """A fraction is refused, and whole numbers are classes, of which nobody wants sixty."""
    frame = houses()[["size", "price"]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    flags = ("--label", "price", "--model", tmp_path / "m", "--loss", "linear_hinge")
    status, _, err = dimargin("train", tmp_path / "t.csv", *flags)
    assert status == 1 and "dimargin train --task regression predicts numbers" in words_of(err)
    frame.assign(price=np.arange(120) // 2).to_csv(tmp_path / "t.csv", index=False)
    status, _, err = dimargin("train", tmp_path / "t.csv", *flags)
    said = "the 120 labels are 60 different numbers, each of which is a class; --task regression predicts numbers"
    assert status == 0 and said in words_of(err)
    frame.assign(price=np.arange(120) // 3).to_csv(tmp_path / "t.csv", index=False)
    assert "--task regression" not in dimargin("train", tmp_path / "t.csv", *flags)[2]
    frame.assign(price=[f"{n // 2},5" for n in range(120)]).to_csv(tmp_path / "t.csv", index=False)
    status, _, err = dimargin("train", tmp_path / "t.csv", *flags)
    assert status == 0 and "are 60 different numbers" in words_of(err)
