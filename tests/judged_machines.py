"""Machines for the judge: how they are fitted to its problems, and how many problems a test draws."""

import os
import warnings

import numpy as np
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from judge import Hinge, Odm, Problem, SquaredHinge, complaints, judge, judge_weights, signed_coefficients
from judged_problems import labels_of
from sklearn.exceptions import ConvergenceWarning

from dimargin import ODMClassifier, SVMClassifier

# Problems of one test that draws all of them; the tests together draw over five times as many. To draw
# more: DIMARGIN_JUDGED=25000 pytest tests/test_certificates.py tests/test_certificates_linear.py
PROBLEMS = int(os.environ.get("DIMARGIN_JUDGED", "750"))
judged = settings(max_examples=PROBLEMS, suppress_health_check=list(HealthCheck))
fewer, rarely = (settings(judged, max_examples=PROBLEMS // part) for part in (3, 25))


def fitted(machine, X, y, weights, ignored="nothing"):
    """The machine, or None where it refuses the data in words."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", ignored)
        try:
            return machine.fit(X, y, sample_weight=weights)
        except ValueError as refusal:
            assert "column" in str(refusal) or "too " in str(refusal), refusal
            return None


def machine_for(loss, kernel, intercept, **parameters):
    """The machine of a problem, one against the rest unless told otherwise."""
    own = {k: v for k, v in kernel.items() if k != "kernel"}
    parameters = {"multi_class": "one_vs_rest"} | parameters
    if isinstance(loss, Odm):
        return ODMClassifier(
            lam=loss.lam,
            upsilon=loss.upsilon,
            theta=loss.theta,
            kernel=kernel["kernel"],
            fit_intercept=intercept,
            **own,
            **parameters,
        )
    name = "squared_hinge" if isinstance(loss, SquaredHinge) else "hinge"
    return SVMClassifier(C=loss.C, loss=name, kernel=kernel["kernel"], fit_intercept=intercept, **own, **parameters)


def reached(problem, loss, kernel, intercept, X, y, weights):
    """Objectives of another machine for the same problem, solved as well as can be."""
    machine = fitted(machine_for(loss, kernel, intercept, tol=1e-9, max_iter=300, strategy="exact"), X, y, weights)
    signed = signed_coefficients(problem, machine.support_, machine.dual_coef_)
    return judge(problem, signed, np.broadcast_to(machine.intercept_, len(signed))).upper


def problem_of_sites(X, y, alpha, loss_function):
    """The problem of sites as one of a machine, whose objective is 1 / alpha times theirs, and its loss."""
    C = 1 / (alpha * len(X))
    loss = {"hinge": Hinge(C), "squared_hinge": SquaredHinge(C), "odm": Odm(1 / alpha, 0.6, 0.3)}[loss_function]
    return Problem(X, labels_of(y), np.ones(len(X)), loss, {"kernel": "linear", "gamma": 1.0}), loss


def judge_sites(machine, data, sparse):
    """Fit sites that gossip, and judge the certificate of the machine that they agree on."""
    X, y, _ = data
    alpha, intercept = machine.alpha, machine.fit_intercept
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            machine.fit(sp.csr_array(X) if sparse else X, y)
        except ValueError as refusal:
            assert "column" in str(refusal) or "too " in str(refusal) or "site" in str(refusal), refusal
            return
    ones = np.ones((len(X), 1))
    wide = np.hstack([X, ones]) if intercept else X
    w = np.column_stack([machine.coef_, machine.intercept_]) if intercept else machine.coef_
    problem, loss = problem_of_sites(wide, y, alpha, machine.loss_function)
    exact = reached(problem, loss, {"kernel": "linear"}, False, wide, y, np.ones(len(X)))
    for name in ("objective_", "dual_objective_"):
        setattr(machine, name, np.asarray(getattr(machine, name)) / alpha)
    machine.tol = np.inf  # its own rule has stopped it
    assert not complaints(machine, judge_weights(problem, w, np.zeros(len(w))), exact)
