"""Ctrl-C during a fit in Python: the best model so far is kept, and the program is interrupted."""

import logging
import signal
import threading
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

import dimargin as dm

X, Y = make_classification(600, 6, n_informative=4, flip_y=0.2, random_state=0)
THREE = Y + (X[:, 0] > 1)
HARD = {"tol": 1e-9, "random_state": 0, "verbose": 2}
MACHINES = {
    "exact": dm.SVMClassifier(C=100.0, **HARD),
    "tree": dm.ODMClassifier(strategy="diodm", n_levels=1, lam=1e6, **HARD),
    "one against the rest": dm.ODMClassifier(multi_class="one_vs_rest", lam=1e6, **HARD),
    "landmark": dm.ODMClassifier(strategy="landmark", n_landmarks=30, lam=1e6, **HARD),
    "linear": dm.LinearODMClassifier(solver="svrg", lam=1e6, **HARD),
    "regression": dm.SVMRegressor(C=100.0, **HARD),
    "linear regression": dm.LinearSVMRegressor(C=100.0, solver="cd", **HARD),
    "core-set": dm.CoreSetSVMClassifier(C=100.0, **HARD),
    "sites": dm.GossipSVMClassifier(n_sites=3, **HARD),
}


class Pressing(logging.Handler):
    """Handler of the lines of verbose fits that presses Ctrl-C at the first line with a text."""

    def __init__(self, times=1):
        super().__init__()
        self.times, self.handlers, self.text = times, set(), "relative gap"

    def emit(self, record):
        self.handlers.add(signal.getsignal(signal.SIGINT))
        while self.text in record.getMessage() and self.times:
            self.times -= 1
            signal.raise_signal(signal.SIGINT)


@pytest.fixture
def pressing():
    """A handler that presses once, or as often as its `times` say."""
    logger, found = logging.getLogger("dimargin"), Pressing()
    logger.addHandler(found)
    yield found
    logger.removeHandler(found)


@pytest.fixture(autouse=True)
def handler():
    """Python's own handler, in which a test may run without it: shells ignore Ctrl-C in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def unfitted(name, **parameters):
    machine = MACHINES[name]
    return type(machine)(**machine.get_params() | parameters)


@pytest.mark.parametrize("name", MACHINES)
def test_the_best_model_is_kept_with_its_gap(name, pressing, capsys):
    machine, labels = unfitted(name), THREE if name == "one against the rest" else Y
    with pytest.raises(KeyboardInterrupt, match=f"^{type(machine).__name__} keeps the best model so far, with a"):
        machine.fit(X, labels)
    assert machine.status_ == "interrupted" and machine.duality_gap_ > machine.tol
    assert_allclose(machine.duality_gap_, max(1 - np.ravel(machine.dual_objective_) / np.ravel(machine.objective_)))
    assert machine.predict(X).shape == (600,)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert capsys.readouterr().err == ("Stopping with the best model so far. Interrupt again to stop without it.\n")


def test_a_warm_start_resumes_from_it(pressing):
    machine = unfitted("exact", warm_start=True, verbose=0)
    whole = unfitted("exact", verbose=0).fit(X, Y)
    with pytest.raises(KeyboardInterrupt):
        machine.set_params(verbose=2).fit(X, Y)
    gap = machine.duality_gap_
    machine.set_params(verbose=0).fit(X, Y)
    assert machine.status_ == "converged" and machine.history_[0]["relative_gap"] == pytest.approx(gap, rel=1e-3)
    assert_allclose(machine.objective_, whole.objective_, rtol=1e-8)


def test_a_second_ctrl_c_interrupts_at_once_and_changes_nothing(pressing):
    machine, pressing.times = unfitted("exact"), 2
    before = dict(vars(machine))
    with pytest.raises(KeyboardInterrupt) as caught:
        machine.fit(X, Y)
    assert not str(caught.value) and vars(machine) == before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def search(**parameters):
    grid = {"C": [0.1, 1.0, 1e3, 1e4], "gamma": [0.01, 0.3]}
    machine = dm.SVMClassifier(**HARD | parameters)
    return dm.SVMClassifierCV(machine, grid, cv=2, min_rows=50, factor=2, verbose=1, random_state=0)


def test_a_search_keeps_its_best_candidate(pressing, capsys):
    pressing.text, tuned = "round 1: ", search(tol=1e-3)
    with (
        pytest.warns(ConvergenceWarning, match="cut short after 2 of 3 rounds; the best candidate so far is trained"),
        pytest.raises(KeyboardInterrupt, match=r"^SVMClassifierCV keeps the best model so far, with a relative"),
    ):
        tuned.fit(X, Y)
    found = tuned.cv_results_
    of_round = found["round"] == 1
    assert max(found["round"]) == 2 and np.isnan(found["mean_test_score"][found["round"] == 2]).all()
    assert tuned.best_score_ == found["mean_test_score"][of_round].max()
    assert tuned.best_params_ == found["params"][tuned.best_index_] and of_round[tuned.best_index_]
    alone = dm.SVMClassifier(**HARD | {"tol": 1e-3} | tuned.best_params_).fit(X, Y)
    assert tuned.status_ == "converged" and tuned.objective_ == alone.objective_  # The last fit was not cut short.
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert capsys.readouterr().err.count("Interrupt again to stop without it.") == 1


def test_the_last_fit_of_a_search_keeps_its_best_model(pressing):
    tuned = search()
    with pytest.raises(KeyboardInterrupt, match="SVMClassifierCV keeps the best model so far"):
        tuned.fit(X, Y)
    assert tuned.status_ == tuned.best_estimator_.status_ == "interrupted" and tuned.duality_gap_ > 1e-9
    assert tuned.best_params_ and tuned.predict(X).shape == (600,)


def test_a_second_ctrl_c_in_a_search_changes_nothing(pressing):
    pressing.text, pressing.times, tuned = "round 0: ", 2, search()
    before = dict(vars(tuned))
    with pytest.raises(KeyboardInterrupt) as caught:
        tuned.fit(X, Y)
    assert not str(caught.value) and vars(tuned) == before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_of_the_program_and_other_threads_are_left_alone(pressing):
    machine, pressing.times, pressed = unfitted("exact", max_iter=3), 0, []

    def own(number, frame):
        pressed.append(number)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thread = threading.Thread(target=machine.fit, args=(X, Y))
        thread.start()
        thread.join()
        assert pressing.handlers == {signal.default_int_handler}
        signal.signal(signal.SIGINT, own)
        pressing.handlers.clear()
        pressing.times = 1
        assert machine.fit(X, Y).status_ == "max_iter"
    assert pressing.handlers == {own} and pressed == [signal.SIGINT]


def test_detectors_keep_their_core_set():
    calls = []

    def kernel(A, B):
        calls.append(len(A))
        if len(calls) == 8:
            signal.raise_signal(signal.SIGINT)
        return rbf_kernel(A, B, gamma=0.5)

    detector = dm.OneClassCoreSetSVM(kernel=kernel, C=0.05, tol=1e-9, random_state=0)
    with pytest.raises(KeyboardInterrupt, match="keeps the best model so far"):
        detector.fit(X)
    assert detector.status_ == "interrupted" and detector.duality_gap_ > 1e-9
    assert set(detector.predict(X)) <= {-1, 1}
