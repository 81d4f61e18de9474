"""GossipSVMClassifier with smooth losses: every site within a hundredth of a percent of what one computer finds."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from dimargin import GossipSVMClassifier, LinearODMClassifier, load, save
from dimargin.gossip.programs.learner_parameters import GossipParameters
from dimargin.gossip.simulation.conditions import Conditions
from dimargin.gossip.sites.gossip_options import GossipOptions

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # rounds are few
ALPHA = 1e-2
ONE_COMPUTER = {
    "squared_hinge": lambda n: LinearSVC(
        loss="squared_hinge", C=1 / (ALPHA * n), fit_intercept=False, tol=1e-10, dual=False, max_iter=10**5
    ),
    "odm": lambda n: LinearODMClassifier(lam=1 / ALPHA, theta=0.8, upsilon=0.5, fit_intercept=False, tol=1e-9),
}


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(600, 8, n_informative=5, n_clusters_per_class=1, class_sep=0.7, random_state=1)
    return np.column_stack([StandardScaler().fit_transform(X) + 0.3, np.ones(600)]), y


def objective(X, y, name, w):
    m = (2 * y - 1) * (X @ w)
    short = np.maximum(0, 1 - m) ** 2
    if name == "odm":
        short = (np.maximum(0, 0.2 - m) ** 2 + 0.5 * np.maximum(0, m - 1.8) ** 2) / (2 * 0.2**2)
    return ALPHA / 2 * w @ w + short.mean()


def machine(name, **parameters):
    given = {"n_sites": 5, "topology": "ring", "alpha": ALPHA, "tol": 1e-7, "random_state": 0, "loss_function": name}
    return GossipSVMClassifier(**given | parameters)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("name", ONE_COMPUTER)
@pytest.mark.parametrize("shards", ["random", "sorted"])
@pytest.mark.parametrize("network", ["in rounds", "asynchronous, a third lost"])
def test_every_site_is_within_a_ten_thousandth_of_the_optimum(rows, name, shards, network):
    X, y = rows
    conditions = None if network == "in rounds" else Conditions.asynchronous(loss=0.3, duplication=0.2)
    found = machine(name, shards=shards, conditions=conditions, max_iter=500).fit(X, y)
    optimum = objective(X, y, name, ONE_COMPUTER[name](len(y)).fit(X, y).coef_.ravel())
    for w in found.site_coef_:
        assert optimum * (1 - 1e-9) <= objective(X, y, name, w) <= optimum * (1 + 1e-4)
    assert found.dual_objective_ <= optimum <= found.objective_ * (1 + 1e-9)
    assert found.duality_gap_ < 1e-4 and found.history_[-1]["relative_gap"] < 1e-3


def test_the_rate_is_linear(rows):
    """Half as many rounds more bring as many digits more: no rule of 1 / t steps does."""
    X, y = rows
    optimum = objective(X, y, "squared_hinge", ONE_COMPUTER["squared_hinge"](len(y)).fit(X, y).coef_.ravel())
    errors = [
        max(objective(X, y, "squared_hinge", w) for w in found.site_coef_) / optimum - 1
        for found in (machine("squared_hinge", shards="sorted", max_iter=k, tol=1e-15).fit(X, y) for k in (150, 300))
    ]
    assert errors[1] < 1e-3 * errors[0] < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_COMPUTER)
def test_batches_and_the_paper_s_form_take_them_too(rows, name):
    X, y = rows
    optimum = objective(X, y, name, ONE_COMPUTER[name](len(y)).fit(X, y).coef_.ravel())
    for parameters in ({"batch_size": 20}, {"gradient": "local"}):
        found = machine(name, average=True, max_iter=400, topology="complete", **parameters).fit(X, y)
        assert optimum <= found.objective_ < 1.05 * optimum
        assert found.dual_objective_ <= optimum


def test_models_know_their_loss(rows, tmp_path):
    found = machine("odm", theta=0.3, upsilon=0.9, max_iter=30, tol=0.1).fit(*rows)
    save(found, tmp_path / "m")
    again = load(tmp_path / "m")
    assert (again.loss_function, again.theta, again.upsilon) == ("odm", 0.3, 0.9)
    assert again.certify(*rows).objective_ == pytest.approx(found.objective_)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"loss_function": "logistic"}, "loss_function must be 'hinge' or 'squared_hinge' or 'odm', got 'logistic'"),
        ({"theta": 1.0}, "theta must be"),
        ({"upsilon": 0.0}, "upsilon must be"),
        ({"step_size": "pegasos"}, "step_size must be 'auto' or a number for 'squared_hinge', got 'pegasos'"),
    ],
)
def test_parameters_out_of_range_are_named(rows, parameters, message):
    with pytest.raises(ValueError, match=message):
        machine("squared_hinge").set_params(**parameters).fit(*rows)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"loss_function": "logistic"}, "loss_function must be one of hinge, squared_hinge, odm, got 'logistic'"),
        ({"theta": -0.1}, r"theta must be in \[0, 1\), got -0.1"),
        ({"upsilon": 1.1}, r"upsilon must be in \(0, 1\], got 1.1"),
        ({"loss_function": "odm", "step_size": "pegasos"}, "step_size must be 'auto' or a number for odm"),
    ],
)
def test_options_of_sites_out_of_range_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        GossipOptions(**parameters)


def test_sites_agree_on_the_loss():
    terms = [GossipOptions(**p).own_terms() for p in ({}, {"theta": 0.5}, {"loss_function": "odm"},
                                                       {"loss_function": "odm", "theta": 0.5})]  # fmt: skip
    assert terms[0] == terms[1] != terms[2] != terms[3]
    defaults = GossipSVMClassifier().get_params()
    for name in ("loss_function", "theta", "upsilon"):
        assert getattr(GossipParameters(), name) == defaults[name]
