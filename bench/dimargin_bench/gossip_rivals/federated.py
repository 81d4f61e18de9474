r"""FedAvg and FedProx: federated averaging, by which a server and its sites learn in rounds.

With ``F_k(w) = alpha/2 |w|^2 + mean loss`` of the n_k rows of site k, whose mean with the weights
``n_k/N`` is the objective of all N rows, a round is

    w_k <- about argmin F_k(w) + mu/2 |w - w^t|^2, from w^t      at every site, which sends w_k to the server
    w^(t+1) = sum_k n_k/N w_k                                    at the server, which sends it to every site

FedAvg (McMahan, Moore, Ramage, Hampson, Aguera y Arcas, "Communication-efficient learning of deep
networks from decentralized data", AISTATS 2017, algorithm 1) has ``mu = 0``, and takes E epochs of
steps on batches. FedProx (Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated optimization in
heterogeneous networks", MLSys 2020, algorithm 2 and equation 2) has ``mu > 0``, and leaves the local
solver open: here the same epochs, or an exact solution.

Here all sites take part in every round, none is slow, and the weights at the start are known to
all. Both papers leave the step size to tuning; it shrinks with the rounds, as that of CHOCO-SGD.

Neither ends at the optimum of all rows if sites do more than one small step and their rows differ.
With exact solutions, FedProx ends at the minimum of the mean of the Moreau envelopes
``min_v F_k(v) + mu/2 |v - w|^2``, which is below the objective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_number
from dimargin.estimators.sites import check_sites
from dimargin.gossip.messages import Array, Message, decoder, encode
from dimargin.gossip.rounds.local_svm import LocalSVM
from dimargin.gossip.rounds.smooth_solver import solve_smooth
from dimargin.gossip.simulation.gossip_run import deal
from dimargin.problems.hinge import HingeRows, loss_of
from dimargin.system.arrays import Floats
from dimargin_bench.kernel_rivals.linear_rival import LinearRival

SPACING = 1.25
"""Factor by which rounds grow from one entry of the history to the next."""
_LOCAL_ACCURACY = 1e-6, 100  # Relative duality gap, and most Newton steps, of exact local solutions.
_PRECISIONS = {"single": "<f4", "double": "<f8"}
_Train = Callable[[Floats, float], Floats]


class Model(Message, frozen=True, tag="model"):
    """Message with the weights of the server or of a site."""

    weights: Array


_read = decoder((Model,))


@documented
@dataclass(eq=False, repr=False)
class FederatedAveraging(LinearRival):
    r"""Linear support vector machine of sites that a server averages: FedAvg, and FedProx with ``mu > 0``.

    Parameters
    ----------
    %(alpha, fit_intercept)s
    loss_function : {"hinge", "squared_hinge"}, default="hinge"
    n_sites : int, default=10
        Number of sites, besides the server.
    shards : str or array-like, default="random"
        As in `dimargin.GossipSVMClassifier`.
    mu : float, default=0.0
        Weight of the distance from the server's weights; zero is FedAvg.
    epochs : int or None, default=1
        Passes of a site over its rows in a round, E. None solves the problem of the site, which
        needs ``mu > 0``.
    batch_size : int or None, default=None
        Rows of a step, B. A site divides its rows at random in every epoch. None is all its rows.
    step_size : float, default=1.0
        Step of the first round.
    decay : float, default=100.0
        Number of rounds after which a step is half as long.
    precision : {"single", "double"}, default="single"
        Precision of the numbers in messages: 4 or 8 bytes each.
    max_iter : int, default=100
        Rounds.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_, coef_, intercept_, objective_)s
    site_coef_ : ndarray of shape (n_sites, n_outputs, n_features_in_)
        Equal for all sites.
    site_intercept_ : ndarray of shape (n_sites, n_outputs)
    history_ : list of dict
        Entries for rounds at growing intervals, each with ``round``, ``objective``, ``messages`` and
        ``bytes`` (cumulative, in both directions, as encoded).

    Examples
    --------
    >>> from dimargin_bench.gossip_rivals import FederatedAveraging
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, 10, class_sep=2.0, random_state=0)
    >>> machine = FederatedAveraging(epochs=5, batch_size=20, step_size=0.1, alpha=1e-2, random_state=0)
    >>> machine.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.9
    True
    >>> machine.history_[-1]["messages"]
    2000
    """

    loss_function: str = "hinge"
    n_sites: int = 10
    shards: Any = "random"
    mu: float = 0.0
    epochs: int | None = 1
    batch_size: int | None = None
    step_size: float = 1.0
    decay: float = 100.0
    precision: str = "single"
    max_iter: int = 100
    random_state: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_sites(type(self).__name__, self.n_sites, "star", self.shards)
        for name, known in (("loss_function", ("hinge", "squared_hinge")), ("precision", tuple(_PRECISIONS))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be {' or '.join(map(repr, known))}, got {getattr(self, name)!r}")
        for name in ("epochs", "batch_size"):
            check_number(name, getattr(self, name), 1, low_included=True, whole=True, or_none=True)
        check_number("mu", self.mu, 0, low_included=self.epochs is not None)
        check_number("step_size", self.step_size, 0)
        check_number("decay", self.decay, 0)
        check_number("max_iter", self.max_iter, 1, low_included=True, whole=True)

    def _objectives(self, rows: HingeRows, weights: Floats) -> Floats:
        return super()._objectives(replace(rows, loss=loss_of(self.loss_function)), weights)

    def _learn(self, rows: HingeRows) -> Floats:
        rows, m = replace(rows, loss=loss_of(self.loss_function)), int(self.n_sites)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        codes = rows.signs.argmax(axis=0) if len(rows.signs) > 1 else rows.signs[0]
        site = deal(self.shards, codes, np.random.default_rng(seed).permutation(rows.n_rows), m)
        shares, train = np.bincount(site, minlength=m) / rows.n_rows, []
        for k in range(m):
            own = np.flatnonzero(site == k)
            train.append(self._training(replace(rows, X=rows.X[own], signs=rows.signs[:, own]), (seed, k)))
        weights, n_bytes, next_entry = np.zeros((len(rows.signs), rows.X.shape[1])), 0, 1.0
        self.history_: list[dict[str, Any]] = []
        for t in range(1, int(self.max_iter) + 1):
            step = self.step_size / (1 + (t - 1) / self.decay)
            mean = np.zeros(weights.shape)
            for share, of_site in zip(shares, train, strict=True):
                sent, size = self._send(of_site(weights, step))
                mean, n_bytes = mean + share * sent, n_bytes + size
            weights, size = self._send(mean)
            n_bytes += m * size
            if t >= next_entry or t == self.max_iter:
                next_entry = t * SPACING
                objectives = self._objectives(rows, weights)
                self.history_.append(
                    {"round": t, "objective": float(objectives.sum()), "messages": 2 * m * t, "bytes": n_bytes}
                )
        each = np.repeat(weights[None], m, axis=0)
        self.site_coef_, self.site_intercept_ = each, np.zeros(each.shape[:2])
        if self.fit_intercept:
            self.site_coef_, self.site_intercept_ = each[..., :-1], each[..., -1]
        return weights

    def _send(self, weights: Floats) -> tuple[Floats, int]:
        """Return weights as the receiver gets them, and the bytes of the message."""
        data = encode(Model(weights.astype(_PRECISIONS[self.precision])))
        return _read(data).weights.astype(np.float64), len(data)  # type: ignore[attr-defined]

    def _training(self, rows: HingeRows, seed: tuple[int, ...]) -> _Train:
        """Return the training of a site, a function of the server's weights and the step size."""
        if not rows.n_rows:
            return lambda start, step: start
        return self._solving(rows) if self.epochs is None else self._descending(rows, np.random.default_rng(seed))

    def _solving(self, rows: HingeRows) -> _Train:
        c, curvature = 1 / rows.n_rows, np.full(rows.X.shape[1], self.alpha + self.mu)
        local = LocalSVM(rows, c, curvature, np.zeros(rows.signs.shape))

        def solve(start: Floats, step: float) -> Floats:
            centre = start * (self.mu / (self.alpha + self.mu))
            if rows.loss.smooth:
                return solve_smooth(rows, c, curvature, centre, start, *_LOCAL_ACCURACY)[0]
            return local.solve(centre, *_LOCAL_ACCURACY)

        return solve

    def _descending(self, rows: HingeRows, rng: np.random.Generator) -> _Train:
        n = rows.n_rows
        n_batches = 1 if self.batch_size is None else max(1, round(n / self.batch_size))

        def descend(start: Floats, step: float) -> Floats:
            weights = start
            for _ in range(int(self.epochs or 0)):
                for batch in [None] if n_batches == 1 else np.array_split(rng.permutation(n), n_batches):
                    pull = rows.evaluate(weights, batch).pull / (n if batch is None else len(batch))
                    weights = weights - step * (self.alpha * weights - pull + self.mu * (weights - start))
            return weights

        return descend
