"""The status of a model belongs to its certificate: "converged" says that its gap is within the tolerance."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import dimargin as dm
from dimargin.display.report.model_facts import certificate_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 2))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
THREE = Y + 2 * (X[:, 0] > 1)
LEVEL = {"n_levels": 1, "stop_level": 1, "random_state": 0}


def agrees(machine):
    return (machine.status_ == "converged") == (machine.duality_gap_ <= machine.tol)


def landmarks():
    return dm.ODMClassifier(strategy="landmark", n_landmarks=3, gamma=5.0, random_state=0).fit(X, Y)


@pytest.mark.parametrize(
    ("make", "y", "scope"),
    [
        (landmarks, Y, "landmark"),
        (lambda: dm.SVMClassifier(strategy="diodm", **LEVEL).fit(X, Y), Y, "partitioned"),
        (lambda: dm.ODMClassifier(strategy="dc", **LEVEL).fit(X, THREE), THREE, "partitioned"),
    ],
    ids=["landmark", "partitioned", "clusters"],
)
def test_what_met_the_tolerance_of_a_part_may_not_meet_it_for_all_rows(make, y, scope):
    machine = make()
    assert (machine.status_, machine.certificate_) == ("converged", scope) and agrees(machine)
    machine.certify(X, y)
    assert (machine.status_, machine.certificate_) == ("above_tol", "global") and machine.duality_gap_ > machine.tol


def test_what_the_file_the_report_and_the_diagram_say(tmp_path):
    machine = landmarks().certify(X, Y)
    dm.save(machine, tmp_path / "model")
    again = dm.load(tmp_path / "model")
    assert again.status_ == "above_tol" and "status: above_tol" in again._repr_html_()
    assert "the gap of this certificate is above the tolerance" in certificate_of(again).ending
    assert again.set_params(tol=2 * again.duality_gap_).certify(X, Y).status_ == "converged"


def test_a_search_says_what_its_machine_does():
    tuned = dm.ODMClassifierCV(
        dm.ODMClassifier(strategy="landmark", n_landmarks=3), {"gamma": [5.0], "lam": [1e3, 1e4]}, random_state=0
    ).fit(X, Y)
    assert tuned.status_ == "converged"
    tuned.best_estimator_.certify(X, Y)
    assert tuned.status_ == "above_tol" and tuned.duality_gap_ > tuned.best_estimator_.tol


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_gap_that_certify_finds_within_the_tolerance(n_classes):
    y = Y if n_classes == 2 else THREE
    with pytest.warns(ConvergenceWarning):
        machine = dm.SVMClassifier(max_iter=1, tol=1e-9, C=100.0, strategy="diodm", n_levels=1).fit(X, y)
    assert machine.status_ == "max_iter" and machine.certify(X, y).status_ == "max_iter" and agrees(machine)
    assert machine.set_params(tol=2.0).certify(X, y).status_ == "converged"
    pairs = dm.SVMClassifier(multi_class="auto").fit(X, y).certify(X, y)
    assert pairs.status_ == "converged" and agrees(pairs)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_linear_machines():
    machine = dm.LinearODMClassifier(solver="svrg", random_state=0)
    for rows in np.array_split(np.arange(600), 3):
        machine.partial_fit(X[rows], Y[rows], classes=[0, 1])
        assert agrees(machine)
    assert agrees(machine.certify(X, Y))
    del machine.status_
    assert agrees(machine.set_params(tol=1e-15).certify(X, Y))


def test_core_sets_that_are_as_near_as_epsilon_asks():
    machine = dm.CoreSetSVMClassifier(epsilon=0.1, random_state=0).fit(X, Y)
    assert machine.status_ == "above_tol" and agrees(machine) and agrees(machine.certify(X, Y))
    for make in (dm.CoreSetSVDD, dm.OneClassCoreSetSVM):
        assert agrees(make(epsilon=0.3, random_state=0).fit(X)) and agrees(make(random_state=0).fit(X))


def test_sites_that_have_stopped():
    pytest.importorskip("networkx")
    y = X[:, 0] > 0
    machine = dm.GossipSVMClassifier(n_sites=3, stop="quiet", tol=0.1, n_quiet=1, alpha=1e-3, random_state=0).fit(X, y)
    assert machine.n_iter_ < machine.max_iter and machine.status_ == "above_tol" and agrees(machine)
    assert agrees(machine.certify(X, y))
