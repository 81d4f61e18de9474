"""The page: its numbers beside scikit-learn's, what may not be on it, and where nothing can be said."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from report_page import Page, check_alone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.inspection import permutation_importance
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    log_loss,
    precision_recall_fscore_support,
    roc_auc_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

import dimargin as dm
from dimargin.display.report import Source, write_report
from dimargin.display.report.importances import Budget, importances
from dimargin.display.report.model_facts import relation_to_training
from dimargin.estimators.preprocessing import CategoryEncoder

NAMES = np.array(["ham", "spam", "eggs"])


def moons(n, seed, n_classes=2):
    if n_classes == 2:
        X, y = make_moons(n, noise=0.35, random_state=seed)
    else:
        X, y = make_blobs(n, centers=[[0, 0], [2, 0], [0, 2]], random_state=seed)
    return X, NAMES[y]


@pytest.fixture(scope="module", params=[2, 3])
def written(request, tmp_path_factory):
    """Page, model and rows of two classes, and of three."""
    path = tmp_path_factory.mktemp("report") / "page.html"
    (X, y), (X_test, y_test) = moons(200, 0, request.param), moons(157, 1, request.param)
    model = make_pipeline(MinMaxScaler(), dm.ODMClassifier(random_state=0)).fit(X, y)
    open_before = plt.get_fignums()
    write_report(path, model, X_test, y_test, feature_names=["left", "right"])
    assert plt.get_fignums() == open_before
    return Page(path), model, X_test, y_test


def percent(share):
    return f"{100 * share:.1f}%"


def test_a_page_stands_alone(written):
    page, model, *_ = written
    check_alone(page)
    assert page.source.startswith("<!DOCTYPE html>")
    has_history = len(model[-1].history_) > 1  # Pairs of classes have a single entry.
    assert page.source.count("<svg") == 4 + has_history
    assert has_history != ("The history of the fit has a single entry, too few for a plot: " in page.source)
    pictures = "".join(re.findall(r"<svg.*?</svg>", page.source, re.DOTALL))
    assert not re.findall(r"#[0-9a-f]{3,6}\b", pictures) and "var(--series-1)" in pictures  # the page's own colours
    assert len(page.source) < 200_000


def test_scores_are_those_of_scikit_learn(written):
    page, model, X, y = written
    predicted, classes = model.predict(X), model.classes_
    n_right = int((predicted == y).sum())
    assert 0 < n_right < len(y)
    assert page.texts["accuracy"] == percent(model.score(X, y))
    assert page.texts["balanced-accuracy"] == percent(balanced_accuracy_score(y, predicted))
    # Wilson's interval, by its formula
    z, n, p = 1.959964, len(y), n_right / len(y)
    middle, half = p + z**2 / (2 * n), z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    low, high = (percent((middle + sign * half) / (1 + z**2 / n)) for sign in (-1, 1))
    assert f"95% interval {low} to {high}" in page.source
    confusion = [[cell.split()[0] for cell in row[1:]] for row in page.tables["confusion"][1:]]
    assert confusion == [[str(k) for k in row] for row in confusion_matrix(y, predicted, labels=classes)]
    values = model.decision_function(X)
    values = np.stack([-values, values], axis=1) if values.ndim == 1 else values
    measures = zip(*precision_recall_fscore_support(y, predicted, labels=classes), strict=True)
    for k, (row, (precision, recall, f1, count)) in enumerate(zip(page.tables["by-class"][1:], measures, strict=True)):
        ranked = [f(y == classes[k], values[:, k]) for f in (roc_auc_score, average_precision_score)]
        assert row == [classes[k], str(count), *map(percent, (precision, recall, f1)), *(f"{v:.3f}" for v in ranked)]


def test_importances_of_a_sample():
    X, y = moons(300, 0)
    model = dm.SVMClassifier(random_state=0).fit(X, y)
    scores = [importances(model, X, y, seed, Budget(max_rows=50)).score for seed in (0, 0, 1, 2)]
    assert scores[0] == scores[1] and len({*scores}) > 1  # of other rows, with another seed
    assert importances(model, X, y, 0, Budget(max_rows=50, max_multiplications=1.0)).n_rows == 50
    assert importances(model, X, y, 0, Budget(max_rows=200, max_multiplications=1.0)).n_rows == 100


def test_votes_of_many_pairs_are_work():
    y = np.arange(200) % 100
    X = np.random.default_rng(0).normal(size=(200, 3)) + y[:, None]
    pairs, rest = (dm.SVMClassifier(multi_class=way).fit(X, y) for way in ("one_vs_one", "one_vs_rest"))
    budget = Budget(repeats=1, min_rows=1, max_multiplications=3 * 4950 * 40 * 150)  # for 150 rows of many pairs
    n_rows = [importances(machine, X, y, 0, budget).n_rows for machine in (pairs, rest)]
    assert n_rows[0] < 150 < n_rows[1] == 200


def test_importances_are_those_of_scikit_learn(written):
    page, model, X, y = written
    found = permutation_importance(model, X, y, scoring="balanced_accuracy", n_repeats=5, random_state=0)
    order = np.argsort(-found.importances_mean)
    expected = [f"{percent(found.importances_mean[k])} ± {percent(found.importances_std[k])}" for k in order]
    rows = page.tables["importance"][1:]
    assert [row[0] for row in rows] == [("left", "right")[k] for k in order] and [row[2] for row in rows] == expected
    assert found.importances_mean.min() > 0.05


def test_rows_to_look_at(written):
    page, model, X, y = written
    values, predicted = model.decision_function(X), model.predict(X)
    two = np.sort(values, axis=1) if values.ndim == 2 else None
    certainty = np.abs(values) if two is None else two[:, -1] - two[:, -2]
    order = np.argsort(certainty)[:10]
    rows = page.tables["least-certain"][1:]
    assert [row[:3] for row in rows] == [[str(i + 1), y[i], predicted[i]] for i in order]
    assert [row[3] for row in rows] == [f"{certainty[i]:.3g}" for i in order]
    for row, i in zip(rows, order, strict=True):
        assert {f"left {X[i, 0]:.4g}", f"right {X[i, 1]:.4g}"} == set(row[4].strip().split(" · "))
    wrong = np.flatnonzero(predicted != y)
    order = wrong[np.argsort(-certainty[wrong])][:10]
    assert [row[:3] for row in page.tables["most-wrong"][1:]] == [[str(i + 1), y[i], predicted[i]] for i in order]


def test_the_model_and_its_certificate(written):
    page, model, *_ = written
    machine = model[-1]
    assert page.texts["gap"].startswith("≤ ") and page.texts["gap"].endswith("%")
    bound = float(page.texts["gap"][2:-1]) / 100
    assert machine.duality_gap_ <= bound <= max(1.11 * machine.duality_gap_, 1e-6)
    assert page.texts["size"] == str(len(machine.support_)) and "of 200 training rows" in page.source
    assert f"is at most {page.texts['gap'][2:]} below" in page.texts["certificate"]
    assert "the tolerance was reached" in page.texts["certificate"]
    unused = {"verbose", "warm_start", "branching", "n_levels", "n_landmarks", "stop_level"}
    for name, value in machine.get_params(deep=False).items():
        assert (f"<dt>{name}</dt><dd>{value}</dd>" in page.source) == (name not in unused)
    assert '<div class="changed"><dt>random_state</dt>' in page.source and "<div><dt>lam</dt>" in page.source


def test_the_same_seed_gives_the_same_page(tmp_path):
    (X, y), pages = moons(1200, 0), []  # importances are those of a sample
    model = dm.SVMClassifier(random_state=0).fit(X[:150], y[:150])
    for seed in (3, 3, 4):
        write_report(tmp_path / "page.html", model, X, y, random_state=seed)
        source = (tmp_path / "page.html").read_text()
        pages.append(re.sub(r'<span id="time">.*?</span>', "", source))
        assert pages[-1] != source
    assert pages[0] == pages[1] != pages[2]


def test_a_fit_that_hardly_began_says_so(tmp_path):
    X, y = moons(300, 0)
    with pytest.warns(ConvergenceWarning):
        model = dm.SVMClassifier(C=1e6, max_time=1e-9, random_state=0).fit(X, y)
    write_report(tmp_path / "page.html", model, X, y)
    page = Page(tmp_path / "page.html")
    assert "the time limit was reached before the tolerance" in page.texts["certificate"]
    assert '<p class="warning">The fit ended' in page.source and "far from the tolerance, 0.001" in page.source
    assert page.texts["size"] == "0" == str(len(model.support_))


@pytest.mark.parametrize("scaler", [[], [MinMaxScaler()]], ids=["bare", "scaled"])
def test_rows_that_the_model_was_trained_on_are_recognised(scaler):
    X, y = moons(200, 0)
    model = make_pipeline(*scaler, dm.SVMClassifier(random_state=0)).fit(X, y)
    assert relation_to_training(model, X)[0]
    assert not relation_to_training(model, X[::-1])[0] and not relation_to_training(model, X[:-1])[0]
    assert relation_to_training(make_pipeline(*scaler, dm.LinearODMClassifier()).fit(X, y), X)[0] is False


def test_a_page_warns_of_training_rows(written, tmp_path):
    page, _, X, y = written
    assert 'class="warning"' not in page.source
    own = dm.SVMClassifier(random_state=0).fit(X, y)
    write_report(tmp_path / "page.html", own, X, y)
    assert '<p class="warning">The model was trained on these rows' in (tmp_path / "page.html").read_text()


def test_probabilities_are_compared_with_frequencies(tmp_path):
    (X, y), (X_test, y_test) = moons(200, 0), moons(400, 1)
    machine = dm.SVMClassifier(random_state=0)
    model = CalibratedClassifierCV(machine, ensemble=False).fit(X, y)
    write_report(tmp_path / "page.html", model, X_test, y_test)
    page = Page(tmp_path / "page.html")
    brier = brier_score_loss(y_test == "spam", model.predict_proba(X_test)[:, 1])
    assert page.texts["brier"] == f"{brier:.3f}" and "probability of spam" in page.source
    assert page.texts["log-loss"] == f"{log_loss(y_test, model.predict_proba(X_test)):.3f}"
    assert 0 < float(page.texts["calibration-error"]) < 0.1 and "<svg" in page.source.partition('id="brier"')[2]
    assert page.texts["accuracy"] == percent(model.score(X_test, y_test))
    assert page.texts["size"] and "<dt>lam" not in page.source and "The model has no certificate" not in page.source


def test_a_pipeline_that_ends_with_probabilities_has_the_facts_of_its_machine(tmp_path):
    (X, y), (X_test, y_test) = moons(200, 0), moons(400, 1)
    machine = CalibratedClassifierCV(dm.SVMClassifier(random_state=0), ensemble=False)
    model = make_pipeline(MinMaxScaler(), machine).fit(X, y)
    write_report(tmp_path / "page.html", model, X_test, y_test)
    page = Page(tmp_path / "page.html")
    inside = model[-1].calibrated_classifiers_[0].estimator
    assert page.texts["size"] == str(len(inside.support_)) and "SVMClassifier, evaluated on" in page.source
    assert "at most" in page.texts["certificate"] and "MinMaxScaler" in page.source
    write_report(tmp_path / "own.html", model, X, y)
    assert "The model was trained on these rows" in (tmp_path / "own.html").read_text()


def test_the_average_of_the_machines_of_folds_has_no_certificate(tmp_path):
    (X, y), (X_test, y_test) = moons(200, 0), moons(400, 1)
    model = CalibratedClassifierCV(dm.SVMClassifier(random_state=0), cv=3, ensemble=True).fit(X, y)
    write_report(tmp_path / "page.html", model, X_test, y_test)
    page = Page(tmp_path / "page.html")
    assert "averages the probabilities of 3 machines" in page.texts["certificate"] and page.texts["brier"]


HOSTILE = "<script>alert(1)</script>&amp;\"'><img src=x onerror=alert(1)>\u202e\x01$\\frac{$"


def test_names_are_text_whatever_is_in_them(tmp_path):
    X, y = moons(200, 0)
    labels = np.where(y == "ham", HOSTILE, "$a_b$" + HOSTILE)
    model = dm.SVMClassifier(random_state=0).fit(X, labels)
    source = Source(model=HOSTILE, data=HOSTILE, written_by=HOSTILE)
    write_report(tmp_path / "page.html", model, X, labels, feature_names=[HOSTILE, "x" * 10_000], source=source)
    page = Page(tmp_path / "page.html")
    check_alone(page)
    assert page.tables["by-class"][1][0] == "$a_b$<script>alert(1)</script>&amp;\"'><img src=x onerror=al…"
    assert "<h1>&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;" in page.source
    assert "\u202e" not in page.source and "\x01" not in page.source and "x" * 100 not in page.source
    in_pictures = re.findall(r"<text[^>]*>([^<]*)</text>", page.source)
    assert any("$a_b$&lt;script&gt;alert" in text for text in in_pictures), in_pictures


def test_a_single_class_has_no_curves(tmp_path):
    X, y = moons(200, 0)
    model = dm.SVMClassifier(random_state=0).fit(X, y)
    only = y == "spam"
    write_report(tmp_path / "page.html", model, X[only], y[only])
    page = Page(tmp_path / "page.html")
    check_alone(page)
    assert "all rows are of one class" in page.texts["curves"]
    assert page.tables["by-class"][1][:4] == ["ham", "0", "0.0%", "—"]
    assert (
        page.texts["balanced-accuracy"] == page.texts["accuracy"] == percent((model.predict(X[only]) == "spam").mean())
    )


def test_the_brier_score_of_three_classes_is_a_sum(tmp_path):
    X, y = moons(200, 0, 3)
    model = CalibratedClassifierCV(dm.SVMClassifier(random_state=0), ensemble=False).fit(X, y)
    write_report(tmp_path / "page.html", model, X, y)
    page = Page(tmp_path / "page.html")
    squares = ((model.predict_proba(X) - (y[:, None] == model.classes_)) ** 2).sum(axis=1).mean()
    assert page.texts["brier"] == f"{squares:.3f}" and "summed over the classes" in page.source


def test_a_single_row(tmp_path):
    X, y = moons(200, 0)
    model = dm.SVMClassifier(random_state=0).fit(X, y)
    write_report(tmp_path / "page.html", model, X[:1], model.predict(X[:1]))
    page = Page(tmp_path / "page.html")
    check_alone(page)
    assert page.texts["accuracy"] == "100.0%" and "too few rows" in page.texts["reliability"]
    assert "All predictions are correct" in page.texts["rows"]


def test_many_classes_are_listed_by_confusion(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(600) % 15
    X = np.stack([np.cos(y), np.sin(y)], axis=1) + 0.1 * rng.normal(size=(600, 2))
    model = dm.LinearODMClassifier(random_state=0).fit(X, y)
    write_report(tmp_path / "page.html", model, X, y)
    page, wrong = Page(tmp_path / "page.html"), confusion_matrix(y, model.predict(X))
    np.fill_diagonal(wrong, 0)
    rows = [[int(cell) for cell in row] for row in page.tables["confusion"][1:]]
    assert [count for *_, count in rows] == np.sort(wrong, axis=None)[::-1][: len(rows)].tolist()
    assert all(wrong[true, other] == count for true, other, count in rows)
    assert "the 5 with the smallest area" in page.source


def test_outliers_need_no_labels(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 2))
    detector = dm.CoreSetSVDD(C=5.0, random_state=0).fit(X[:200])
    write_report(tmp_path / "page.html", detector, 2 * X[200:])
    page, values = Page(tmp_path / "page.html"), detector.decision_function(2 * X[200:])
    check_alone(page)
    assert page.texts["outliers"] == percent((detector.predict(2 * X[200:]) == -1).mean()) != "0.0%"
    assert [row[0] for row in page.tables["outlying"][1:]] == [str(i + 1) for i in np.argsort(values)[:10]]
    assert [row[0] for row in page.tables["nearest"][1:]] == [str(i + 1) for i in np.argsort(np.abs(values))[:10]]


def test_a_data_frame_with_words_in_it(tmp_path):
    X, y = moons(300, 0)
    town = np.where(y == "ham", "Bonn", "Ulm")[np.r_[1:300, 0]]
    frame = pd.DataFrame({"left": X[:, 0], "right": X[:, 1], "town": town})
    frame.loc[200:240, "left"] = np.nan
    encode = make_column_transformer(
        (OneHotEncoder(), ["town"]), remainder=make_pipeline(SimpleImputer(), MinMaxScaler())
    )
    model = make_pipeline(encode, dm.SVMClassifier(random_state=0)).fit(frame[:200], y[:200])
    rows, labels = frame[200:], y[200:]
    write_report(tmp_path / "page.html", model, rows, labels)
    page = Page(tmp_path / "page.html")
    assert page.texts["accuracy"] == percent(model.score(rows, labels))
    found = permutation_importance(model, rows, labels, scoring="balanced_accuracy", n_repeats=5, random_state=0)
    expected = {name: percent(mean) for name, mean in zip(frame.columns, found.importances_mean, strict=True)}
    assert {row[0]: row[2].split()[0] for row in page.tables["importance"][1:]} == expected
    for place, *_, values in page.tables["least-certain"][1:]:
        left, right, home = rows.iloc[int(place) - 1]
        left = "missing" if np.isnan(left) else f"{left:.4g}"
        assert {f"left {left}", f"right {right:.4g}", f"town {home}"} == set(values.strip().split(" · "))
    assert "left missing" in page.texts["rows"]


def test_unseen_categories_are_counted_by_column(tmp_path):
    X, y = moons(200, 0)
    frame = pd.DataFrame({"left": X[:, 0], "town": np.where(y == "ham", "Bonn", "Ulm"), "job": "smith"})
    encode = make_column_transformer(
        (CategoryEncoder(handle_unknown="ignore"), ["town", "job"]), remainder="passthrough"
    )
    model = make_pipeline(encode, dm.SVMClassifier(random_state=0)).fit(frame, y)
    write_report(tmp_path / "page.html", model, frame, y)
    assert "unseen" not in Page(tmp_path / "page.html").texts
    new = frame.copy()
    new.loc[[3, 5], "town"], new.loc[7, "job"], new.loc[9, "job"] = ["<Wien>", "Graz"], "cook\u202e", None
    write_report(tmp_path / "page.html", model, new, y)
    said = "has a category that the training data did not have and that the model ignores"
    first, second = Page(tmp_path / "page.html").texts["unseen"].split("; ")
    assert first == f"in 2 of 200 rows, column 'town' {said}: '<Wien>', 'Graz'"
    assert second == f"in 1 of 200 rows, column 'job' {said}: 'cook\\u202e'"


def test_sparse_rows_with_many_features(tmp_path):
    n = 90
    X = sp.random(n, 50_000, density=1e-3, random_state=0, format="csr")
    y = np.arange(n) % 2
    X = sp.csr_array(X + sp.csr_array((1.0 + y, (np.arange(n), np.full(n, 4321))), shape=X.shape))
    model = dm.LinearODMClassifier(random_state=0).fit(X, y)
    write_report(tmp_path / "page.html", model, X, y)
    page = Page(tmp_path / "page.html")
    assert page.tables["importance"][1][0] == "feature 4322" and "sparse: 0.1" in page.texts["n-features"]
    assert "Of 50,000 columns, only the 40 that vary most were tried" in page.texts["importances"]
    fullest = int(np.diff(X.indptr).argmax())
    assert f"Row {fullest + 1:,} has the most, {np.diff(X.indptr)[fullest]};" in page.texts["rows"]
    assert len(page.source) < 200_000


@pytest.mark.slow
def test_a_page_of_a_million_rows_is_small(tmp_path):
    X, y = moons(10**6, 1)
    model = dm.LinearODMClassifier(random_state=0).fit(*moons(1000, 0))
    write_report(tmp_path / "page.html", model, X, y)
    page = Page(tmp_path / "page.html")
    assert len(page.source) < 300_000 and page.texts["n-rows"] == "1,000,000"
    assert page.texts["accuracy"] == f"{100 * model.score(X, y):.2f}%"


def test_what_no_page_can_be_written_of(tmp_path):
    X, y = moons(100, 0)
    model, path = dm.SVMClassifier(random_state=0).fit(X, y), tmp_path / "page.html"
    path.write_text("before")
    for arguments, words in (
        ((X, None), "y must be given"),
        ((X, np.full(100, "bread")), r"knows the classes \['ham', 'spam'\], not \['bread'\]"),
        ((X[:0], y[:0]), "X has no rows"),
        ((X, y[:50]), "inconsistent numbers of samples"),
    ):
        with pytest.raises(ValueError, match=words):
            write_report(path, model, *arguments)
    with pytest.raises(ValueError, match="feature_names must be 2 names, got 1"):
        write_report(path, model, X, y, feature_names=["left"])
    with pytest.raises(ValueError, match="labelled must be true for each of the 100 rows of X, got 99"):
        write_report(path, model, X, y, source=Source(labelled=np.arange(101) > 1))
    with pytest.raises(TypeError, match="decision_function or predict_proba"):
        write_report(path, type("Bare", (), {"classes_": NAMES[:2], "get_params": lambda self, deep: {}})(), X, y)
    assert path.read_text() == "before" and [file.name for file in tmp_path.iterdir()] == ["page.html"]
