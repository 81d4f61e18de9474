"""The page of a regressor: its numbers beside scikit-learn's; and the share of outliers beside nu."""

import numpy as np
import pytest
from report_page import Page, check_alone
from scipy.stats import binomtest
from sklearn.inspection import permutation_importance
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dimargin as dm
from dimargin.display.report import write_report
from dimargin.display.report.residuals import Residuals
from dimargin.svm import SVR, NuSVR, OneClassSVM


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, 50_000 + 20_000 * X[:, 0] + 4_000 * X[:, 1] ** 2 + rng.normal(0, 2_000, n)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Page and model of a regressor, and the rows on the page."""
    path = tmp_path_factory.mktemp("report") / "page.html"
    model = make_pipeline(StandardScaler(), dm.SVMRegressor(C=20_000.0, epsilon=2_000.0)).fit(*rows(300, 0))
    X, y = rows(157, 1)
    write_report(path, model, X, y, feature_names=["left", "right", "none"])
    return Page(path), model, X, y


def rounded(value, digits=4):
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if abs(value) >= 10**digits else text


def test_scores_are_those_of_scikit_learn(written):
    page, model, X, y = written
    check_alone(page)
    predicted = model.predict(X)
    assert page.texts["r2"] == f"{r2_score(y, predicted):.3f}" and float(page.texts["r2"]) > 0.9
    assert page.texts["mean-error"] == rounded(mean_absolute_error(y, predicted))
    assert page.texts["rmse"] == rounded(root_mean_squared_error(y, predicted))
    assert rounded(np.abs(y - np.median(y)).mean()) in page.texts["scores"]
    assert page.source.count("<svg") == 3 and "Classes" not in page.texts["data"] and len(page.source) < 200_000
    assert "These are not the training rows" in page.texts["data"] and page.texts["gap"].startswith("≤")


def test_errors_by_decile_are_those_of_the_sorted_targets(written):
    page, model, X, y = written
    order, residuals = np.argsort(y), y - model.predict(X)
    groups = np.array_split(order, 10)
    assert len(page.tables["deciles"]) == 11
    for own, line in zip(groups, page.tables["deciles"][1:], strict=True):
        expected = [rounded(y[own].min()), rounded(y[own].max()), str(len(own))]
        assert line[:3] == expected and line[4] == rounded(np.abs(residuals[own]).mean(), 3)
        assert float(line[3].replace(",", "")) == pytest.approx(residuals[own].mean(), rel=0.01)


def test_the_share_outside_the_band_has_its_interval(written):
    page, model, X, y = written
    n_outside = int((np.abs(y - model.predict(X)) > 2_000).sum())
    found = binomtest(n_outside, 157).proportion_ci(method="wilson")
    assert f"epsilon=2000: training ignores residuals within it. {n_outside} of 157 residuals" in page.texts["outside"]
    assert f"interval {100 * found.low:.1f}% to {100 * found.high:.1f}%" in page.texts["outside"]


def test_importances_are_losses_of_r2(written):
    page, model, X, y = written
    found = permutation_importance(model, X, y, n_repeats=5, random_state=0)
    names = np.array(["left", "right", "none"])[np.argsort(-found.importances_mean)]
    table = page.tables["importance"][1:]
    assert [row[0] for row in table] == names.tolist() == ["left", "right", "none"]
    # Other permutations are drawn, of which each mean has five.
    for row, mean in zip(table, np.sort(found.importances_mean)[::-1], strict=True):
        assert float(row[2].split(" ±")[0]) == pytest.approx(mean, rel=0.2, abs=0.02)


def test_the_largest_errors_are_shown_with_their_rows(written):
    page, model, X, y = written
    residuals = y - model.predict(X)
    for row, k in zip(page.tables["largest-errors"][1:], np.argsort(-np.abs(residuals)), strict=False):
        assert row[0] == str(k + 1) and row[1] == rounded(y[k]) and f"left {X[k, 0]:.4g}" in row[4]
        assert float(row[3].replace(",", "")) == pytest.approx(residuals[k], rel=0.01)


def test_training_rows_are_recognised(tmp_path):
    X, y = rows(100, 0)
    write_report(tmp_path / "page.html", dm.SVMRegressor(C=20_000.0, epsilon=1.0).fit(X, y), X, y)
    assert "was trained on these rows" in Page(tmp_path / "page.html").texts["data"]


@pytest.mark.parametrize("machine", [SVR(C=1e4), NuSVR(C=1e4), dm.LinearSVMRegressor(epsilon=0.0)])
def test_other_regressors_have_a_page(machine, tmp_path):
    X, y = rows(60, 0)
    write_report(tmp_path / "page.html", machine.fit(X, y), X, y)
    page = Page(tmp_path / "page.html")
    assert page.texts["r2"] == f"{machine.score(X, y):.3f}"
    assert ("Without a band, epsilon=0." in page.texts["outside"]) == (not isinstance(machine, SVR))


@pytest.mark.parametrize("n_rows", [1, 4])
def test_few_or_equal_targets(n_rows, tmp_path):
    """R2 of equal targets is undefined."""
    X, y = rows(60, 0)
    machine = dm.LinearSVMRegressor().fit(X, y)
    write_report(tmp_path / "page.html", machine, X[:n_rows], np.full(n_rows, 3.0))
    page = Page(tmp_path / "page.html")
    assert page.texts["r2"] == "—" and len(page.tables["deciles"]) == 1 + n_rows


def test_what_is_no_target(tmp_path):
    X, y = rows(60, 0)
    machine = dm.LinearSVMRegressor().fit(X, y)
    with pytest.raises(ValueError, match="y must be given"):
        write_report(tmp_path / "page.html", machine, X)
    with pytest.raises(ValueError, match="y contains NaN"):
        Residuals.of(machine, X, np.full(60, np.nan))
    assert not (tmp_path / "page.html").exists()


DETECTORS = {
    "nu": (OneClassSVM(nu=0.2, gamma=0.3), "nu=0.2: at most 20.0% of its training rows"),
    "contamination": (dm.OneClassCoreSetSVM(contamination=0.1, random_state=0), "contamination=0.1: about 10.0%"),
    "auto": (dm.CoreSetSVDD(random_state=0), None),
}


@pytest.mark.parametrize("name", DETECTORS)
def test_the_share_of_outliers_stands_beside_that_of_training(name, tmp_path):
    detector, said = DETECTORS[name]
    X = 1.5 * rows(150, 1)[0]
    n_outliers = int((detector.fit(rows(200, 0)[0]).predict(X) == -1).sum())
    write_report(tmp_path / "page.html", detector, X)
    page = Page(tmp_path / "page.html")
    assert page.texts["outliers"] == f"{100 * n_outliers / 150:.1f}%" and ("share" in page.texts) == (said is not None)
    if said is not None:
        assert said in page.texts["share"] and f"{100 * n_outliers / 150:.1f}% here (95%" in page.texts["share"]
        assert "Left of the dotted line" in page.texts["values"]
