r"""Differential privacy of the rows of a site: how much noise its messages need, and what they have cost.

Two data sets of a site are adjacent if they have the same number of rows and differ in one row,
labels included ("replace one"). A site makes T releases, vectors to which it adds Gaussian noise.
Everything else that it sends is computed from these, from what others have sent, and from public
facts: numbers of rows, names of columns, labels and parameters. A release whose L2 sensitivity is s
gets noise of standard deviation ``z s``, with the same noise multiplier z in all rounds. Each may
depend on all earlier ones, so that they are a T-fold adaptive composition of 1/z-GDP mechanisms,
which is mu-GDP with ``mu = T^(1/2) / z``, and this is exactly the loss of one Gaussian release of
multiplier 1/mu (Dong, Roth, Su, "Gaussian differential privacy", arXiv:1905.02383, theorem 2.7 and
corollary 3.3; J. Royal Statistical Society B 2022). It is (epsilon, delta)-DP if and only if

    delta >= Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2)

(Balle, Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, theorem 8).
So this accountant loses nothing, unlike one by Renyi divergences. No amplification by sampling or
by the network is claimed: the guarantee holds against all other sites together.

A row is multiplied by ``min(1, R / |x|)``, the constant feature of an intercept included, so that
its norm is at most the agreed R. Predictions do not change by such a factor. The subgradient of its
hinge loss is then at most R long, for each output.

The proof is about real numbers. The low bits of floating-point noise may reveal more (Mironov, "On
significance of the least significant bits for differential privacy", CCS 2012); messages that are
rounded to a few bits do not contain them. The time that a computation takes is not hidden.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy  # Its modules special and optimize, which take 27 MB, are imported where they are used.
import scipy.sparse as sp

from dimargin.gossip.programs.learner_parameters import ADMMParameters
from dimargin.gossip.rounds.parameter_checks import check_between, check_whole
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats


def delta_of(epsilon: float, mu: float) -> float:
    """Return the smallest delta for which mu-GDP is (epsilon, delta)-DP."""
    return float(
        scipy.special.ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + scipy.special.log_ndtr(-mu / 2 - epsilon / mu))
    )


def epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest epsilon for which mu-GDP is (epsilon, delta)-DP; mu may be zero.

    Examples
    --------
    >>> from dimargin.gossip.rounds.privacy import epsilon_of
    >>> round(epsilon_of(1.0, 1e-5), 3)
    4.377
    """
    if mu == 0 or delta_of(0.0, mu) <= delta:
        return 0.0
    # With a Gaussian tail of at most delta beyond x, the loss mu x + mu^2/2 is not exceeded.
    highest = mu * float(-scipy.special.ndtri(delta)) + mu**2 / 2
    return _root(lambda epsilon: delta_of(epsilon, mu) - delta, 0.0, highest)


def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-GDP is (epsilon, delta)-DP."""
    log_mu = _root(lambda log_mu: delta_of(epsilon, math.exp(log_mu)) - delta, -30.0, 5.0)
    return math.exp(log_mu - 1e-9)  # Rounding errors must not cost privacy.


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(scipy.optimize.brentq(function, low, high, xtol=1e-12))


@dataclass(frozen=True)
class Privacy:
    """Budget of every site: what its rows may lose in all rounds together, to all other sites together.

    Attributes
    ----------
    epsilon, delta : float, default of delta=1e-5
        The messages of a site are (epsilon, delta)-differentially private for the replacement of
        one of its rows. Choose a delta below one divided by the number of rows of a site.
    rounds : int, default=40
        Number T of noisy releases. More rounds need more noise in each.
    clip : float, default=1.0
        Norm R to which longer rows are shortened, with the constant feature of an intercept. It
        must not be computed from the rows.
    secret : bool, default=False
        Whether the noise comes from the operating system's source of secrets, as at real sites,
        instead of the seed of the simulation, which others may know.

    Examples
    --------
    >>> from dimargin.gossip.rounds import Privacy
    >>> privacy = Privacy(3.0)
    >>> round(privacy.noise_multiplier, 2), round(privacy.spent(40), 6), round(privacy.spent(10), 2)
    (8.79, 3.0, 1.38)
    """

    epsilon: float
    delta: float = 1e-5
    rounds: int = 40
    clip: float = 1.0
    secret: bool = False

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range; the message names it."""
        check_between("epsilon", self.epsilon, 0, 500)
        check_between("delta", self.delta, 1e-12, 0.1)  # Rounding errors would count below.
        check_whole("rounds", self.rounds, 1)
        check_between("clip", self.clip, 0)

    @cached_property
    def noise_multiplier(self) -> float:
        """Standard deviation z of the noise, divided by the sensitivity of a release."""
        return math.sqrt(self.rounds) / mu_of(self.epsilon, self.delta)

    def spent(self, releases: int) -> float:
        """Return the epsilon of a number of releases, for the same delta."""
        return epsilon_of(math.sqrt(releases) / self.noise_multiplier, self.delta)

    def clipped(self, rows: HingeRows) -> HingeRows:
        """Return rows whose norms are at most `clip`."""
        factors = np.minimum(1.0, self.clip / np.maximum(rows.lengths, 1e-300))
        X = sp.csr_array(sp.diags_array(factors) @ rows.X) if sp.issparse(rows.X) else rows.X * factors[:, None]
        return replace(rows, X=X)

    def release(self, vector: Floats, sensitivity: float, releases: int, rng: np.random.Generator) -> Floats:
        """Return a vector of this L2 sensitivity with noise; raise RuntimeError if the budget is spent.

        `releases` is the number of earlier ones; the caller adds one to it before it sends anything.
        """
        if releases >= self.rounds:
            raise RuntimeError(f"all {self.rounds} releases of the privacy budget are made")
        noise = _secret_normal(vector.shape) if self.secret else rng.normal(size=vector.shape)
        return np.asarray(vector + self.noise_multiplier * sensitivity * noise)


def budget_of(parameters: ADMMParameters, secret: bool) -> Privacy | None:
    """Return the budget of parameters, or None without an epsilon; raise ValueError if it lacks only that."""
    own = {name: getattr(parameters, name) for name in ("epsilon", "delta", "rounds", "clip")}
    if parameters.epsilon is not None:
        return Privacy(**own, secret=secret)
    for name, value in own.items():
        if value != getattr(ADMMParameters, name):
            raise ValueError(f"{name} needs epsilon, the privacy budget")
    return None


def check_privacy(value: object) -> None:
    """Raise ValueError unless a parameter is a budget with valid parameters."""
    if not isinstance(value, Privacy):
        raise ValueError(f"privacy must be a budget such as Privacy(epsilon=3.0), got {value!r}")
    value.validate()


def _secret_normal(shape: tuple[int, ...]) -> Floats:
    """Return standard normal numbers from the operating system's source of secrets, by inversion of 53 random bits."""
    bits = np.frombuffer(secrets.token_bytes(8 * math.prod(shape)), dtype="<u8") >> np.uint64(11)
    return np.asarray(scipy.special.ndtri((bits + 0.5) * 2.0**-53)).reshape(shape)
