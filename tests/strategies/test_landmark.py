"""Landmarks: with all rows the exact machine, with few the machine of their span; rank, certificate, history."""

from contextlib import nullcontext
from functools import partial
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import ODM, SQUARED_HINGE, blobs, certificate, counted, dual_of, fit, gram, make_problem, name
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from trainings import RBF, Recorder, training

from dimargin import Landmark, ODMClassifier, SVMClassifier
from dimargin.kernels.functions import Kernel
from dimargin.solvers.landmark_features import independent_landmarks
from dimargin.strategies import TreeShape, landmark

every_loss = pytest.mark.parametrize("loss", [ODM, SQUARED_HINGE], ids=name)


def train(problem, n_landmarks, tol=1e-9, choice="uniform", **options):
    return Landmark(choice).train(training(problem, TreeShape(n_landmarks=n_landmarks), tol=tol, **options))


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(("loss", "intercept"), list(product([ODM, SQUARED_HINGE], [False, True])))
def test_with_all_rows_as_landmarks_it_is_exact(loss, intercept):
    X, labels = blobs(700, n_outputs=2)
    problem = make_problem(X, labels, loss, RBF, np.random.default_rng(0).uniform(0.5, 2, 700), intercept=intercept)
    outcome, exact = train(problem, 700, tol=1e-7), fit(problem, tol=1e-9)  # rounding is 1e-8
    assert outcome.scope == "landmark" and outcome.status == "converged"
    assert_allclose(outcome.objectives.primal, exact.objectives.primal, rtol=1e-7)
    signed = problem.labels * dual_of(problem, outcome.model)
    scores = signed @ gram(problem) + outcome.model.intercept[:, None]
    expected = labels * exact.margins + exact.objectives.intercept[:, None]
    assert_allclose(scores, expected, atol=1e-3)


@pytest.mark.parametrize("choice", ["uniform", "greedy", "random"])
def test_equal_rows_are_one_landmark_and_others_take_their_place(choice):
    X, y = blobs(90)
    machine = ODMClassifier(strategy=Landmark(choice), n_landmarks=40, gamma=50.0, random_state=0)
    machine.fit(np.repeat(X, 6, axis=0), np.repeat(y[0], 6))
    assert len(np.unique(machine.support_vectors_, axis=0)) == len(machine.support_) == 40


@every_loss
@pytest.mark.parametrize("choice", ["uniform", "greedy", "random"])
def test_with_few_it_is_the_best_of_their_span(loss, choice):
    X, labels = blobs(300)
    problem = make_problem(X, labels, loss, RBF)
    outcome = train(problem, 12, choice=choice)
    landmarks = outcome.model.indices
    assert len(landmarks) == 12
    K = gram(problem)
    to, among = K[:, landmarks], K[np.ix_(landmarks, landmarks)]

    def primal(beta):
        margins = labels[0] * (to @ beta)
        return 0.5 * beta @ among @ beta + loss.value(margins, problem.weights, problem.mass, problem.total).sum()

    (beta,) = outcome.model.coefficients
    assert outcome.objectives.primal[0] == pytest.approx(primal(beta), rel=1e-9)
    found = minimize(primal, np.zeros(12), method="BFGS", options={"gtol": 1e-8, "maxiter": 5000})
    assert outcome.objectives.primal[0] <= found.fun * (1 + 1e-7)
    assert outcome.objectives.worst_gap <= 1e-9


@pytest.mark.parametrize("kernel", [Kernel("linear"), RBF, Kernel("poly", gamma=1.0, degree=2, coef0=1.0)], ids=name)
def test_landmarks_that_add_nothing_are_dropped(kernel):
    """Three features, every row twice: the span has few dimensions, and landmarks would be singular."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(100, 3)), 2, axis=0)
    labels = np.where(X[:, 0] + 0.3 * rng.normal(size=200) > 0, 1.0, -1.0)
    problem = make_problem(X, labels, ODM, kernel)
    outcome = train(problem, 200)
    rank = np.linalg.matrix_rank(gram(problem), tol=1e-9 * 200)
    assert len(outcome.model.indices) <= rank <= 100
    exact = fit(problem, tol=1e-9)
    assert_allclose(outcome.objectives.primal, exact.objectives.primal, rtol=1e-6)


def test_rows_of_zeros_have_no_landmarks():
    problem = make_problem(np.zeros((40, 3)), np.where(np.arange(40) % 2, 1.0, -1.0), ODM, Kernel("linear"))
    outcome = train(problem, 10)
    assert outcome.status == "converged" and not len(outcome.model.indices)


def test_a_part_of_the_rows_begins_and_every_value_is_counted(monkeypatch):
    X, labels = blobs(4000, n_outputs=2)
    problem, recorder = make_problem(X, labels, ODM, RBF), Recorder()
    with counted(monkeypatch) as counts:
        outcome = train(problem, 20, tol=1e-6, progress=recorder)
    assert recorder.begun == [(1, None), (0, None)]
    assert [entry["rows"] for entry in outcome.history] == sorted(entry["rows"] for entry in outcome.history)
    assert {(entry["level"], entry["rows"]) for entry in outcome.history} == {(1, 500), (0, 4000)}
    assert sum(entry["kernel_evaluations"] for entry in outcome.history) == sum(counts)
    assert outcome.history[-1]["relative_gap"] == outcome.objectives.worst_gap <= 1e-6
    last = {entry["level"]: np.asarray(entry["objective"]) for entry in outcome.history}
    assert_allclose(last[1], last[0], rtol=0.2)  # a part represents the whole
    assert len(recorder.models) == 2
    assert_array_equal(recorder.models[-1].coefficients, outcome.model.coefficients)
    assert sum(entry["level"] == 0 for entry in outcome.history) <= 6  # a good start


@pytest.mark.parametrize(
    "machine",
    [
        ODMClassifier(strategy="landmark", lam=1e3, n_landmarks=25, random_state=0),
        SVMClassifier(strategy="landmark", loss="squared_hinge", n_landmarks=25, random_state=0),
        SVMClassifier(strategy="landmark", loss="squared_hinge", fit_intercept=True, n_landmarks=25, random_state=0),
    ],
)
def test_the_global_certificate_bounds_the_exact_optimum(machine):
    X, labels = blobs(600)
    y = labels[0]
    machine.fit(X, y)
    landmark = machine.objective_
    assert machine.certificate_ == "landmark" and machine.duality_gap_ <= 1e-3
    machine.certify(X, y)
    exact = type(machine)(**machine.get_params() | {"strategy": "exact", "n_landmarks": None, "tol": 1e-8}).fit(X, y)
    assert machine.certificate_ == "global"
    assert machine.objective_ == pytest.approx(landmark, rel=1e-6)
    assert machine.dual_objective_ <= exact.objective_ * (1 + 1e-7) <= machine.objective_ * (1 + 2e-7)
    again = machine.duality_gap_
    assert machine.certify(X, y).duality_gap_ == again > 1e-3


def test_the_global_certificate_of_all_rows_as_landmarks_is_small():
    X, labels = blobs(600)
    machine = ODMClassifier(strategy="landmark", lam=1e3, n_landmarks=600, tol=1e-7, random_state=0).fit(X, labels[0])
    assert machine.certify(X, labels[0]).duality_gap_ <= 1e-6
    problem = make_problem(X, labels, machine.fit_plan().loss, Kernel("rbf", machine._transform.kernel.gamma))
    assert machine.objective_ == pytest.approx(certificate(problem, fit(problem, tol=1e-9).dual)[0][0], rel=1e-6)


def test_the_hinge_is_refused():
    X, labels = blobs(100)
    with pytest.raises(ValueError, match="strategy 'landmark' needs a differentiable loss"):
        SVMClassifier(strategy="landmark").fit(X, labels[0])


def test_sparse_rows_and_functions_do_as_dense_rows_do():
    X, labels = blobs(400)
    models = [
        ODMClassifier(strategy="landmark", gamma=0.5, n_landmarks=30, random_state=0, tol=1e-8).fit(rows, labels[0])
        for rows in (X, sp.csr_array(X))
    ]
    assert_allclose(models[0].decision_function(X), models[1].decision_function(X), atol=1e-3)
    linear, own = (
        ODMClassifier(kernel, strategy="landmark", n_landmarks=30, random_state=0, tol=1e-8).fit(X, labels[0])
        for kernel in ("linear", lambda a, b: a @ b.T)
    )
    assert_allclose(linear.decision_function(X), own.decision_function(X), atol=1e-5)


def test_a_warm_start_goes_on():
    X, labels = blobs(900)
    machine = ODMClassifier(strategy="landmark", n_landmarks=40, random_state=0, warm_start=True).fit(X, labels[0])
    first = machine.n_iter_
    assert machine.fit(X, labels[0]).n_iter_ == 1 < first


def test_where_the_polish_ends_early_the_better_model_stays():
    X, labels = blobs(2000)
    y = labels[0]
    coarse = ODMClassifier(strategy="landmark", n_landmarks=60, random_state=0, lam=1e6).fit(X, y)
    scopes = []
    for passes in (2, 6):
        with pytest.warns(ConvergenceWarning, match=f"max_iter={passes}"):
            machine = ODMClassifier(
                strategy=Landmark(polish=True), n_landmarks=60, random_state=0, lam=1e6, max_iter=passes, tol=1e-9
            ).fit(X, y)
        assert machine.objective_ <= coarse.objective_ * (1 + 1e-2)
        scopes.append(machine.certificate_)
    assert scopes == ["landmark", "global"]
    before = machine.objective_
    assert machine.certify(X, y).objective_ == pytest.approx(before, rel=1e-3)


@pytest.mark.parametrize("place", ["check", "level"])
def test_stopped_in_part_it_is_certified_on_all_rows(place):
    X, labels = blobs(4000)
    problem = make_problem(X, labels, ODM, RBF)

    class Stopping(Recorder):
        def check(self, entry):
            return place == "check"

        def level_end(self, entry, found):
            return bool(super().level_end(entry, found)) or place == "level"

    shape = TreeShape(n_landmarks=20)
    outcome = Landmark(polish=True).train(training(problem, shape, tol=1e-6, progress=Stopping()))
    assert outcome.status == "stopped" and outcome.scope == "landmark"
    assert [entry["rows"] for entry in outcome.history if entry["level"] == 1] == [4000]
    dual = dual_of(problem, outcome.model)
    margins = labels * (labels * dual @ gram(problem))
    losses = problem.values(margins).sum(axis=1)
    assert_allclose(outcome.objectives.primal, 0.5 * (dual * margins).sum(axis=1) + losses, rtol=1e-6)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("rank_tolerance", [None, 1e-10])
def test_rounding_of_nearly_dependent_landmarks_does_not_stop_the_steps(monkeypatch, rank_tolerance):
    """A steep loss, and landmarks whose kernel matrix is nearly singular: the Hessian was indefinite.

    By default so many landmarks are dropped that the rounding is within the tolerance.
    """
    if rank_tolerance is not None:
        monkeypatch.setattr(landmark, "independent_landmarks", partial(independent_landmarks, tol=rank_tolerance))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=900) > 0
    options = {"lam": 1e8, "theta": 0.8, "upsilon": 0.5, "random_state": 0}
    machine = ODMClassifier(strategy="landmark", n_landmarks=300, gamma=0.5, max_iter=200, **options)
    with nullcontext() if rank_tolerance is None else pytest.warns(ConvergenceWarning, match="by rounding"):
        machine.fit(X, y)
    assert machine.status_ == ("converged" if rank_tolerance is None else "precision")
    K = rbf_kernel(X, machine.support_vectors_, gamma=0.5)
    factor = np.linalg.cholesky(rbf_kernel(machine.support_vectors_, gamma=0.5))
    features = solve_triangular(factor, K.T, lower=True).T
    exact = ODMClassifier(kernel="precomputed", tol=1e-4, **options).fit(features @ features.T, y)
    # the objective of a machine that rounding stopped is raised by this rounding
    assert_allclose(machine.objective_, exact.objective_, rtol=1e-4 if rank_tolerance is None else machine.duality_gap_)
