import itertools
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from matplotlib.colors import same_color
from matplotlib.path import Path
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from dimargin import ODMClassifier
from dimargin.display import MarginDistributionDisplay

X_ALL, Y_ALL = make_moons(160, noise=0.4, random_state=0)
X, Y, X_TEST, Y_TEST = X_ALL[:100], Y_ALL[:100], X_ALL[100:], Y_ALL[100:]
IRIS = load_iris(return_X_y=True)

from_estimator = MarginDistributionDisplay.from_estimator
from_predictions = MarginDistributionDisplay.from_predictions

whole = st.integers(-20, 20).map(float)


def band(display):
    """Left end and width of the band, which Matplotlib before version 3.9 draws as another shape."""
    corners = display.band_.get_transform().transform_path(display.band_.get_path()).vertices
    ends = display.ax_.transData.inverted().transform(corners)[:, 0]
    return ends.min(), ends.max() - ends.min()


def drawn(display):
    return [np.array(line.get_data()) for line in display.lines_]


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


@pytest.mark.parametrize("machine", [ODMClassifier(gamma=2.0), SVC()], ids=lambda m: type(m).__name__)
def test_curves_are_sorted_margins_against_their_rank(machine):
    machine.fit(X, Y)
    display = from_estimator(machine, X, Y, X_test=X_TEST, y_test=Y_TEST)
    for i, (rows, labels) in enumerate([(X, Y), (X_TEST, Y_TEST)]):
        margins = np.sort(machine.decision_function(rows) * (2 * labels - 1))
        x, y = drawn(display)[i]
        np.testing.assert_array_equal(x, np.r_[margins[0], margins])
        np.testing.assert_allclose(y, np.arange(len(rows) + 1) / len(rows), rtol=1e-12)
        assert display.mean_[i] == pytest.approx(margins.mean(), rel=1e-12)
        assert display.variance_[i] == pytest.approx(margins.var(), rel=1e-12)
        assert display.error_[i] == pytest.approx(1 - machine.score(rows, labels), abs=1e-12)
        title = f"{type(machine).__name__} {('train', 'test')[i]}"
        described = f"mean {margins.mean():.3g}, variance {margins.var():.3g}, errors {display.error_[i]:.1%}"
        assert f"{title}: {described}" in legend(display)
    assert display.zero_.get_xdata() == [0, 0]


def test_a_curve_reads_as_errors_where_it_crosses_zero():
    display = from_estimator(ODMClassifier().fit(X, Y), X_TEST, Y_TEST)
    x, y = drawn(display)[0]
    assert 0 < display.error_[0] < 0.5
    assert y[np.searchsorted(x, 0, side="right") - 1] == pytest.approx(display.error_[0])


@pytest.mark.parametrize("machine", [ODMClassifier(), SVC()], ids=lambda m: type(m).__name__)
def test_margin_of_many_classes_is_the_lead_of_the_true_one(machine):
    rows, labels = IRIS
    names = np.array(["setosa", "versicolor", "virginica"])[labels]
    machine.fit(rows, names)
    display = from_estimator(machine, rows, names)
    scores = machine.decision_function(rows)
    lead = [s[k] - max(np.delete(s, k)) for s, k in zip(scores, labels, strict=True)]
    np.testing.assert_array_equal(drawn(display)[0][0][1:], np.sort(lead))
    assert "value of the true class minus the largest other one" in display.ax_.get_xlabel()
    assert display.band_ is None  # theta bounds the margins of one against the rest, which these are not


@pytest.mark.slow
@given(arrays(float, st.tuples(st.integers(1, 8), st.integers(3, 5)), elements=whole), st.randoms())
def test_margins_of_any_scores(scores, random):
    labels = [random.randrange(scores.shape[1]) for _ in scores]
    display = from_predictions(labels, scores, classes=range(scores.shape[1]), ax=plt.gca())
    lead = [s[k] - max(np.delete(s, k)) for s, k in zip(scores, labels, strict=True)]
    np.testing.assert_array_equal(display.margins[0], lead)
    plt.close("all")


@pytest.mark.slow
@given(st.lists(st.tuples(whole, st.booleans(), st.integers(1, 4)), min_size=1, max_size=8))
def test_a_weight_is_a_row_given_so_often(rows):
    scores, labels, weights = (np.array(column) for column in zip(*rows, strict=True))
    ax = plt.gca()
    given_once = from_predictions(labels, scores, classes=[False, True], sample_weight=weights, ax=ax)
    repeated = from_predictions(labels.repeat(weights), scores.repeat(weights), classes=[False, True], ax=ax)
    for name in "mean_", "variance_", "error_":
        np.testing.assert_allclose(getattr(given_once, name), getattr(repeated, name), rtol=1e-9, atol=1e-12)
    for at in np.unique(np.abs(scores)):
        share = [y[np.searchsorted(x, at, side="right") - 1] for (x, y) in (drawn(given_once)[0], drawn(repeated)[0])]
        assert share[0] == pytest.approx(share[1])
    plt.close("all")


def test_normalised_margins_do_not_depend_on_the_scale_of_the_machine():
    scores, test = SVC().fit(X, Y).decision_function(X), SVC().fit(X, Y).decision_function(X_TEST)
    options = {"y_true_test": Y_TEST, "theta": 0.2, "normalize": "mean"}
    one = from_predictions(Y, scores, y_score_test=test, **options)
    seven = from_predictions(Y, 7 * scores, y_score_test=7 * test, **options)
    mean = np.mean(scores * (2 * Y - 1))
    np.testing.assert_allclose(drawn(one)[1][0][1:], np.sort(test * (2 * Y_TEST - 1)) / mean, rtol=1e-12)
    np.testing.assert_allclose(drawn(one)[0], drawn(seven)[0], rtol=1e-12)
    np.testing.assert_allclose(drawn(one)[1], drawn(seven)[1], rtol=1e-12)
    assert one.mean_[0] == pytest.approx(1)
    assert band(one) == pytest.approx((0.8 / mean, 0.4 / mean))
    assert "divided by its mean" in one.ax_.get_xlabel()


@pytest.mark.slow
@given(st.lists(whole, min_size=1, max_size=10).filter(lambda values: sum(values) > 0))
def test_relative_variance_bounds_the_errors(margins):
    display = from_predictions(np.ones(len(margins)), margins, classes=[0, 1], normalize="mean", ax=plt.gca())
    assert display.error_[0] == pytest.approx(np.mean(np.array(margins) <= 0))
    bound = display.variance_[0] / (1 + display.variance_[0])
    assert display.error_[0] <= bound + 1e-12
    plt.close("all")


def test_the_band_is_one_plus_minus_theta():
    display = from_estimator(ODMClassifier(theta=0.25).fit(X, Y), X, Y)
    assert band(display) == pytest.approx((0.75, 0.5))
    assert any("within 1 ± 0.25" in text for text in legend(display))
    assert from_estimator(SVC().fit(X, Y), X, Y).band_ is None


def test_the_machine_inside_a_search_over_a_pipeline_names_curve_and_band():
    pipeline = make_pipeline(MinMaxScaler(), ODMClassifier())
    search = GridSearchCV(pipeline, {"odmclassifier__theta": [0.3]}, cv=2).fit(X, Y)
    display = from_estimator(search, X, Y)
    assert band(display)[1] == pytest.approx(0.6)
    assert legend(display)[0].startswith("ODMClassifier: mean")


def test_margins_of_a_calibrated_machine_are_its_own():
    calibrated = CalibratedClassifierCV(ODMClassifier(random_state=0), ensemble=False)
    model = make_pipeline(MinMaxScaler(), calibrated).fit(X, Y)
    machine = model[-1].calibrated_classifiers_[0].estimator
    ours, own = from_estimator(model, X, Y), from_estimator(machine, model[0].transform(X), Y)
    np.testing.assert_array_equal(ours.margins[0], own.margins[0])
    assert legend(ours) == legend(own) and band(ours) == band(own)
    folds = make_pipeline(MinMaxScaler(), calibrated.set_params(ensemble=True)).fit(X, Y)
    with pytest.raises(TypeError, match="must have a decision_function; CalibratedClassifierCV has none"):
        from_estimator(folds, X, Y)


def test_machines_share_axes():
    ours = from_estimator(ODMClassifier().fit(X, Y), X, Y, X_test=X_TEST, y_test=Y_TEST, name="ODM")
    theirs = from_estimator(SVC().fit(X, Y), X, Y, X_test=X_TEST, y_test=Y_TEST, name="SVM", ax=ours.ax_)
    assert theirs.figure_ is ours.figure_ and theirs.zero_ is ours.zero_
    assert [text.split(":")[0].split("$")[0].strip() for text in legend(ours)] == [
        "ODM train", "ODM test", "ODM", "SVM train", "SVM test", "zero"
    ]  # fmt: skip
    for display in ours, theirs:
        train, test = display.lines_
        assert same_color(train.get_color(), test.get_color())
        assert (train.get_linestyle(), test.get_linestyle()) == ("--", "-")
    assert not same_color(ours.lines_[0].get_color(), theirs.lines_[0].get_color())


@pytest.mark.parametrize("scores", [[1.0, 2.0, 3.0], [-3e6, -2e6, -1e6], [-1e-9, 0.0, 1e-9], [-80.0, 0.1, 90.0]])
@pytest.mark.parametrize("font", [6, 10, 12])
def test_no_text_lies_on_a_curve_or_on_the_zero_line(scores, font):
    with plt.rc_context({"font.size": font}):
        display = from_predictions([1, 1, 1], scores, classes=[0, 1], theta=0.2)
    display.ax_.set_title("The margins of three rows")
    display.figure_.canvas.draw()
    legend, picture = display.ax_.get_legend(), display.figure_.bbox
    axes = display.ax_
    labels = [*legend.get_texts(), axes.xaxis.label, axes.xaxis.offsetText, axes.yaxis.label, axes.title, *axes.texts]
    boxes = [text.get_window_extent() for text in labels if text.get_text()]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    for line in [*display.ax_.lines]:
        points = line.get_transform().transform(line.get_xydata())
        path = Path(np.linspace(points[:-1], points[1:], 50).reshape(-1, 2))
        assert not any(path.intersects_bbox(box) for box in boxes)
    assert all(picture.x0 <= box.x0 and box.x1 <= picture.x1 and box.y1 <= picture.y1 for box in boxes)
    assert "misclassified" in legend.get_texts()[-1].get_text()


def test_style_may_be_abbreviated():
    display = from_estimator(ODMClassifier().fit(X, Y), X, Y, curve_kwargs={"c": "red", "lw": 5})
    assert same_color(display.lines_[0].get_color(), "red") and display.lines_[0].get_linewidth() == 5


def test_sparse_rows_and_frames_draw_the_same():
    dense = from_estimator(ODMClassifier().fit(X, Y), X, Y)
    frame = pd.DataFrame(X, columns=["a", "b"])
    for rows in sp.csr_array(X), frame:
        display = from_estimator(ODMClassifier().fit(rows, pd.Series(Y)), rows, pd.Series(Y))
        np.testing.assert_allclose(drawn(display)[0], drawn(dense)[0], rtol=1e-6, atol=1e-9)


def test_stored_margins_can_be_drawn_again():
    display = from_estimator(ODMClassifier().fit(X, Y), X, Y, X_test=X_TEST, y_test=Y_TEST)
    plain = MarginDistributionDisplay(margins=display.margins).plot()
    for ours, theirs in zip(drawn(plain), drawn(display), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert legend(plain)[0].startswith("train: mean") and plain.band_ is None
    assert display.plot(normalize="mean").mean_[0] == pytest.approx(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1, 2], [1.0, 2.0, 3.0]), r"3 classes and 3 rows must have shape \(3, 3\), got \(3,\)"),
        (([0, 1], [[1.0, 2.0], [3.0, 4.0]]), r"2 classes and 2 rows must have shape \(2,\), got \(2, 2\)"),
        (([0, 1], [1.0]), "inconsistent numbers of samples"),
        (([1, 1], [1.0, 2.0]), r"two classes or more, got \[1\]"),
    ],
)
def test_scores_that_do_not_fit_the_labels(arguments, message):
    with pytest.raises(ValueError, match=message):
        from_predictions(*arguments)


def test_clear_errors():
    machine = ODMClassifier().fit(X, Y)
    with pytest.raises(NotFittedError):
        from_estimator(ODMClassifier(), X, Y)
    with pytest.raises(TypeError, match=r"decision_function.*DecisionTreeClassifier has none"):
        from_estimator(DecisionTreeClassifier().fit(X, Y), X, Y)
    with pytest.raises(ValueError, match=r"among the classes \[0, 1\], got \[7\] too"):
        from_estimator(machine, X, np.full(len(Y), 7))
    with pytest.raises(ValueError, match="X_test and y_test must be given together"):
        from_estimator(machine, X, Y, X_test=X)
    with pytest.raises(ValueError, match="y_true_test and y_score_test must be given together"):
        from_predictions(Y, machine.decision_function(X), y_true_test=Y)
    with pytest.raises(ValueError, match="normalize must be 'mean' or None, got 'norm'"):
        from_estimator(machine, X, Y, normalize="norm")
    with pytest.raises(ValueError, match="positive mean, got -"):
        from_estimator(machine, X, 1 - Y, normalize="mean")
    ovo = make_pipeline(MinMaxScaler(), SVC(decision_function_shape="ovo")).fit(*IRIS)
    with pytest.raises(ValueError, match="decision_function_shape must be 'ovr'"):
        from_estimator(ovo, *IRIS)


@pytest.mark.slow
def test_matplotlib_is_needed_to_draw_and_for_nothing_else(monkeypatch):
    code = "import dimargin.display, sys; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    display = from_estimator(ODMClassifier().fit(X, Y), X, Y)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"MarginDistributionDisplay\.from_estimator requires matplotlib"):
        from_estimator(ODMClassifier().fit(X, Y), X, Y)
    with pytest.raises(ImportError, match=r"MarginDistributionDisplay\.plot requires matplotlib"):
        display.plot()
