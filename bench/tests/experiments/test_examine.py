"""The dual objective by hand, against what machines say of themselves and against sums over all pairs."""

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.svm import SVC

import dimargin as dm
from dimargin_bench.experiments.examine import dual_objective
from dimargin_bench.experiments.split_data import Split

POLYNOMIAL = {"kernel": "poly", "degree": 3, "gamma": 0.5, "coef0": 1.0}


@pytest.fixture
def split():
    X, y = make_moons(300, noise=0.3, random_state=0)
    return Split(X[:200], y[:200], X[200:], y[200:])


@pytest.mark.parametrize("kernel", [{"gamma": 2.0}, {"gamma": "scale"}, {"kernel": "linear"}, POLYNOMIAL])
def test_the_dual_objective_is_the_machines_own(split, kernel):
    machine = dm.SVMClassifier(fit_intercept=False, C=3.0, strategy="exact", random_state=0, **kernel).fit(
        split.X, split.y
    )
    assert dual_objective(machine, split)["dual_objective"] == pytest.approx(machine.dual_objective_, rel=1e-6)


def test_the_dual_objective_of_scikit_learn_is_the_sum_over_all_pairs(split):
    machine = SVC(C=3.0, **POLYNOMIAL).fit(split.X, split.y)
    signed = np.zeros(len(split.y))
    signed[machine.support_] = machine.dual_coef_[0]
    gram = polynomial_kernel(split.X, degree=3, gamma=0.5, coef0=1.0)
    expected = np.abs(signed).sum() - signed @ gram @ signed / 2
    assert dual_objective(machine, split)["dual_objective"] == pytest.approx(expected, rel=1e-9)
