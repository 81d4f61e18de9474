"""The accountant against published figures, numeric integration and another library; noise and clipping."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import norm

from dimargin.gossip.rounds.privacy import Privacy, delta_of, epsilon_of, mu_of
from dimargin.problems.hinge import HingeRows

# Figures in the tests of Google's dp-accounting 0.4 (pld/privacy_loss_mechanism_test.py): standard
# deviation, sensitivity, epsilon and delta of a Gaussian mechanism.
PUBLISHED = [
    (1.0, 1.0, 0.0, 0.38292492),
    (1.0, 1.0, 1.0, 0.12693674),
    (1.0, 3.0, 1.0, 0.78760074),
    (5.0, 5.0, 2.0, 0.02092364),
    (0.344, 1.0, 16.0, 1e-5),
]


@pytest.mark.parametrize(("deviation", "sensitivity", "epsilon", "delta"), PUBLISHED)
def test_published_figures(deviation, sensitivity, epsilon, delta):
    # Its tests compare seven digits behind the point, of the last deviation three.
    if epsilon == 16:
        assert 1 / mu_of(epsilon, delta) == pytest.approx(deviation, abs=5e-4)
    else:
        assert delta_of(epsilon, sensitivity / deviation) == pytest.approx(delta, abs=1e-8)


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0])
def test_delta_is_the_integral_of_the_densities(mu, epsilon):
    """The largest difference of P(S) and e^epsilon Q(S) over all sets S."""
    above = epsilon / mu + mu / 2
    integral, _ = quad(lambda x: norm.pdf(x - mu) - math.exp(epsilon) * norm.pdf(x), above, above + 12, epsabs=1e-15)
    assert delta_of(epsilon, mu) == pytest.approx(integral, rel=1e-6, abs=1e-13)


@given(st.floats(0.01, 50), st.floats(1e-10, 1e-2))
def test_epsilon_and_mu_are_inverse_and_never_too_small(epsilon, delta):
    mu = mu_of(epsilon, delta)
    assert delta_of(epsilon, mu) <= delta
    assert delta_of(epsilon, mu * (1 + 1e-6)) > delta
    assert epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-5)


def renyi(releases, multiplier, delta):
    """Epsilon by Renyi divergences (Mironov 2017, proposition 3 and corollary 3), an upper bound."""
    order = np.linspace(1.01, 500, 100_000)
    return (releases * order / (2 * multiplier**2) + np.log(1 / delta) / (order - 1)).min()


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 10.0])
def test_releases_add_up(epsilon):
    privacy = Privacy(epsilon, rounds=30)
    assert privacy.spent(30) == pytest.approx(epsilon) and privacy.spent(0) == 0
    assert all(privacy.spent(k) < privacy.spent(k + 1) for k in range(30))
    assert 0.7 * renyi(30, privacy.noise_multiplier, 1e-5) < epsilon < renyi(30, privacy.noise_multiplier, 1e-5)


def test_dp_accounting_has_the_same_epsilon():
    accounting = pytest.importorskip("dp_accounting")
    privacy = Privacy(3.0, rounds=40)
    accountant = accounting.pld.PLDAccountant()
    accountant.compose(accounting.GaussianDpEvent(privacy.noise_multiplier), 40)
    assert accountant.get_epsilon(1e-5) == pytest.approx(3.0, rel=1e-3)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_rows_are_shortened(kind):
    X = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    found = Privacy(1.0, clip=2.0).clipped(HingeRows(kind(X), np.ones((1, 3)))).X
    assert_allclose(found.toarray() if sp.issparse(found) else found, [[1.2, 1.6], [0.3, 0.4], [0.0, 0.0]])


@pytest.mark.parametrize("secret", [False, True])
def test_noise_has_the_promised_deviation_and_the_budget_ends(secret):
    privacy, rng = Privacy(1.0, rounds=5, secret=secret), np.random.default_rng(0)
    noise = privacy.release(np.full((2, 50_000), 7.0), 0.25, 4, rng) - 7.0
    assert noise.std() == pytest.approx(0.25 * privacy.noise_multiplier, rel=0.02)
    assert abs(noise.mean()) < 0.02 * noise.std()
    # A third of the numbers is within 0.43 deviations, and one in 370 beyond three.
    assert (np.abs(noise) < 0.4307 * noise.std()).mean() == pytest.approx(1 / 3, abs=0.01)
    assert (np.abs(noise) > 3 * noise.std()).mean() == pytest.approx(0.0027, abs=6e-4)
    with pytest.raises(RuntimeError, match="all 5 releases of the privacy budget are made"):
        privacy.release(np.zeros(1), 0.25, 5, rng)


def test_secret_noise_does_not_follow_from_the_seed():
    first, again = (Privacy(1.0, secret=True).release(np.zeros(4), 1.0, 0, np.random.default_rng(0)) for _ in "ab")
    assert not np.isclose(first, again).any()
    seeded, same = (Privacy(1.0).release(np.zeros(4), 1.0, 0, np.random.default_rng(0)) for _ in "ab")
    assert_array_equal(seeded, same)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"epsilon": 0.0}, "epsilon must be a number in"),
        ({"epsilon": math.inf}, "epsilon must be a number in"),
        ({"delta": 0.0}, "delta must be a number in"),
        ({"rounds": 0}, "rounds must be a whole number not below 1"),
        ({"clip": 0.0}, "clip must be a number above 0"),
    ],
)
def test_values_out_of_range_are_refused(wrong, reason):
    with pytest.raises(ValueError, match=reason):
        Privacy(**{"epsilon": 1.0, **wrong}).validate()
