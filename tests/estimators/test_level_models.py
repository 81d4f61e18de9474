"""Models of a level of clusters, as users meet them."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_digits, load_svmlight_file, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from stopping import Stop

from dimargin import DivideAndConquer, LevelScores, MarginDistributionDisplay, ODMClassifier, SVMClassifier, load, save

X_ALL, Y_ALL = make_moons(2400, noise=0.25, random_state=0)
X, Y, X_TEST, Y_TEST = X_ALL[:1600], Y_ALL[:1600], X_ALL[1600:], Y_ALL[1600:]
EARLY = {"strategy": "dc", "n_levels": 2, "stop_level": 2, "random_state": 0, "gamma": 5.0}
machines = pytest.mark.parametrize("machine", [SVMClassifier(**EARLY), ODMClassifier(**EARLY)], ids=["svm", "odm"])


@machines
def test_a_level_model_is_as_accurate_as_the_whole(machine):
    machine = clone(machine).fit(X, Y)
    assert (machine.certificate_, machine.history_[-1]["partitions"]) == ("partitioned", 16)
    whole = clone(machine).set_params(stop_level=0).fit(X, Y)
    assert whole.certificate_ == "global"
    assert machine.score(X_TEST, Y_TEST) > whole.score(X_TEST, Y_TEST) - 0.02 > 0.9
    # a cluster knows nothing of its neighbours
    assert not np.allclose(machine.decision_function(X_TEST), whole.decision_function(X_TEST), atol=1e-2)


@machines
def test_early_and_naive_share_their_coefficients_but_not_their_answers(machine):
    early = clone(machine).fit(X, Y)
    naive = clone(machine).set_params(strategy=DivideAndConquer(prediction="naive")).fit(X, Y)
    assert_array_equal(early.dual_coef_, naive.dual_coef_)
    values = rbf_kernel(X_TEST, naive.support_vectors_, gamma=5.0) @ naive.dual_coef_[0]
    assert_allclose(naive.decision_function(X_TEST), values, rtol=0, atol=2e-4 * np.abs(naive.dual_coef_).sum())
    assert not np.allclose(early.decision_function(X_TEST), values, atol=1e-2)


@pytest.mark.slow
def test_the_committee_of_all_clusters():
    strategy = DivideAndConquer(prediction="bcm")
    machine = SVMClassifier(**EARLY | {"strategy": strategy}).fit(X, Y)
    assert machine.score(X_TEST, Y_TEST) > 0.9
    odds = machine.decision_function(X_TEST)
    bins = np.digitize(expit(odds), [0.2, 0.8])
    assert Y_TEST[bins == 0].mean() < 0.2 and Y_TEST[bins == 2].mean() > 0.8
    digits, y = load_digits(return_X_y=True)
    options = {"n_levels": 1, "stop_level": 1, "C": 10.0, "random_state": 0}
    accuracy = [
        SVMClassifier(strategy=DivideAndConquer(prediction=rule), **options)
        .fit(digits[:900], y[:900])
        .score(digits[900:], y[900:])
        for rule in ("naive", "bcm", "early")
    ]
    assert 0.75 < accuracy[0] < accuracy[1] < accuracy[2]  # as in the paper's table 1 for webspam


@pytest.mark.slow_after(1)
@machines
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_prediction_does_not_depend_on_batches_or_threads(machine, convert):
    fresh = convert(X_TEST)
    machine = clone(machine).fit(convert(X), Y)
    whole = machine.decision_function(fresh)
    assert_array_equal(
        np.concatenate([machine.decision_function(fresh[i : i + 9]) for i in range(0, 90, 9)]), whole[:90]
    )
    order = np.random.default_rng(0).permutation(len(Y_TEST))
    assert_array_equal(machine.decision_function(fresh[order]), whole[order])
    for jobs in (1, 2):
        again = clone(machine).set_params(n_jobs=jobs).fit(convert(X), Y)
        assert_array_equal(again.dual_coef_, machine.dual_coef_)
        assert_array_equal(again.decision_function(fresh), whole)


def test_sparse_and_dense_queries_get_the_same_answers():
    for known in (X, sp.csr_array(X)):
        machine = SVMClassifier(**EARLY).fit(known, Y)
        assert_allclose(machine.decision_function(X_TEST), machine.decision_function(sp.csr_array(X_TEST)), atol=1e-12)


def test_pickle_grid_search_and_display():
    grid = {"strategy__prediction": ["early", "naive"], "strategy__sample_size": [50, 500]}
    machine = SVMClassifier(**EARLY | {"strategy": DivideAndConquer()})
    search = GridSearchCV(machine, grid, cv=2).fit(X, Y)
    assert search.best_score_ > 0.9
    copy = pickle.loads(pickle.dumps(search.best_estimator_))
    assert_array_equal(copy.decision_function(X_TEST), search.decision_function(X_TEST))
    MarginDistributionDisplay.from_estimator(search, X, Y)


@pytest.mark.slow
def test_a_fit_to_the_end_forgets_the_router():
    machine = SVMClassifier(**EARLY).fit(X, Y)
    machine.set_params(stop_level=0).fit(X, Y)
    fresh = SVMClassifier(**EARLY | {"stop_level": 0}).fit(X, Y)
    assert_array_equal(machine.decision_function(X_TEST), fresh.decision_function(X_TEST))


def test_certify_is_of_all_coefficients_together():
    machine = SVMClassifier(**EARLY).fit(X, Y)
    before, values = machine.objective_, machine.decision_function(X_TEST)
    machine.certify(X, Y)
    assert machine.certificate_ == "global" and machine.duality_gap_ > machine.tol
    assert machine.objective_ > machine.dual_objective_ and machine.objective_ != before
    assert_array_equal(machine.decision_function(X_TEST), values)


@pytest.mark.slow
@pytest.mark.parametrize("prediction", ["early", "naive", "bcm"])
def test_scores_of_levels_are_those_of_models_that_stopped_there(prediction):
    strategy = DivideAndConquer(prediction=prediction, level_tol=1e-3)
    scores = LevelScores(X_TEST, Y_TEST, scoring="roc_auc")
    machine = SVMClassifier(**EARLY | {"strategy": strategy, "stop_level": 0}).set_callbacks(scores).fit(X, Y)
    assert [entry["level"] for entry in scores.scores_] == [2, 1, 0]
    for entry in scores.scores_:
        alone = LevelScores(X_TEST, Y_TEST, scoring="roc_auc")
        clone(machine).set_params(stop_level=entry["level"]).set_callbacks(alone).fit(X, Y)
        assert alone.scores_[-1] == entry
    assert len({entry["score"] for entry in scores.scores_}) == 3


def test_a_callback_stops_at_a_level_with_its_router():
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since version 1.9")
    machine = SVMClassifier(**EARLY | {"stop_level": 0, "strategy": DivideAndConquer(level_tol=1e-3)})
    machine.set_callbacks(Stop("level 2")).fit(X, Y)
    assert (machine.status_, machine.certificate_) == ("stopped", "partitioned")
    asked = SVMClassifier(**EARLY).fit(X, Y)
    assert_array_equal(machine.decision_function(X_TEST), asked.decision_function(X_TEST))


def test_verbose_logs_a_line_a_level(caplog):
    SVMClassifier(**EARLY | {"stop_level": 0}, verbose=1).fit(X, Y)
    lines = caplog.messages
    assert [line.split(":")[0] for line in lines] == [f"level {level}" for level in (2, 1, 0)]
    assert ["worst partition" in line for line in lines] == [True, True, False]


def test_many_classes_share_their_clusters():
    X, y = load_digits(return_X_y=True)
    options = EARLY | {"gamma": "scale", "n_levels": 1, "stop_level": 1, "C": 10.0}
    machine = SVMClassifier(**options).fit(X[:900], y[:900])
    assert machine.score(X[900:], y[900:]) > 0.93
    for k in (0, 7):
        single = SVMClassifier(**options, tol=1e-7).fit(X[:900], y[:900] == k)
        assert_allclose(machine.decision_function(X[900:])[:, k], single.decision_function(X[900:]), atol=0.1)


def test_clusters_of_one_class_predict_it(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(30, 2)) + centre for centre in ([0, 0], [9, 0], [0, 9], [9, 9])])
    y = np.repeat(["a", "b", "a", "b"], 30)
    machine = SVMClassifier(strategy="dc", branching=2, n_levels=2, stop_level=2, random_state=0).fit(rows, y)
    assert machine.score(rows, y) == 1
    save(machine, tmp_path / "m")
    assert_array_equal(load(tmp_path / "m").decision_function(rows), machine.decision_function(rows))


@pytest.mark.parametrize("stop_level", [0, 1])
def test_a_kernel_of_the_user(stop_level):
    def kernel(A, B):
        return rbf_kernel(A, B, gamma=5.0)

    options = {"n_levels": 1, "stop_level": stop_level, "random_state": 0}
    machine = SVMClassifier(kernel=kernel, strategy="dc", **options).fit(X[:400], Y[:400])
    assert machine.score(X_TEST, Y_TEST) > 0.9
    whole = machine.decision_function(X_TEST)
    assert_allclose(np.concatenate([machine.decision_function(X_TEST[i : i + 50]) for i in range(0, 800, 50)]), whole)
    ours = SVMClassifier(gamma=5.0, strategy=DivideAndConquer(clustering_kernel="same"), tol=1e-6, **options).fit(
        X[:400], Y[:400]
    )
    assert_allclose(ours.decision_function(X_TEST), whole, atol=1e-3)


def test_the_memory_of_the_sample_is_asked_for():
    machine = SVMClassifier(strategy=DivideAndConquer(sample_size=1600), n_levels=1, memory_limit=60 * 2**20)
    with pytest.raises(MemoryError, match="memory_limit"):
        machine.fit(X, Y)
    machine.set_params(strategy__sample_size=500).fit(X, Y)


def test_more_levels_than_rows_can_fill():
    machine = SVMClassifier(strategy="dc", n_levels=9, stop_level=8, random_state=0).fit(X[:40], Y[:40])
    assert [entry["partitions"] for entry in machine.history_] == [40, 40]
    assert machine.score(X[:40], Y[:40]) == 1


def test_a_time_limit_gives_a_level_model():
    with pytest.warns(UserWarning, match="time limit"):
        machine = SVMClassifier(strategy="dc", n_levels=2, max_time=1e-6, random_state=0).fit(X, Y)
    assert machine.certificate_ == "partitioned"
    assert machine.decision_function(X_TEST).shape == (800,)


@pytest.mark.slow
def test_usps(data_folder):
    A, a = load_svmlight_file(str(data_folder / "usps.bz2"), n_features=256)
    B, b = load_svmlight_file(str(data_folder / "usps.t.bz2"), n_features=256)
    options = {"strategy": "dc", "C": 10.0, "gamma": 0.02, "n_levels": 2, "random_state": 0}
    scores = LevelScores(B.toarray(), b)
    machine = SVMClassifier(**options).set_callbacks(scores).fit(A.toarray()[:3000], a[:3000])
    early, _, whole = (entry["score"] for entry in scores.scores_)
    assert machine.certificate_ == "global" and machine.dual_coef_.shape[0] == 10
    assert early > 0.89 and whole > 0.93


@pytest.mark.slow
@pytest.mark.parametrize("stop_level", [0, 2])
def test_reuters_is_never_densified(data_folder, stop_level, monkeypatch):
    (A, a), (B, b) = (load_svmlight_file(str(data_folder / name)) for name in ("reuters.bz2", "reuters.t.bz2"))
    width = max(A.shape[1], B.shape[1])
    for rows in (A, B):
        rows.resize(rows.shape[0], width)

    def refuse(*arguments, **options):
        raise AssertionError("densified")

    for kind in (sp.csr_array, sp.csr_matrix):
        monkeypatch.setattr(kind, "toarray", refuse)
    options = {"kernel": "rbf", "gamma": 1.0, "C": 10.0, "n_levels": 2, "stop_level": stop_level, "random_state": 0}
    machine = SVMClassifier(strategy="dc", **options).fit(A, a)
    assert machine.score(B, b) > 0.9
