"""Byzantine sites: members that send false vectors which pass every check, by the attacks of the literature.

A liar follows the protocol. It runs the program of an honest site, and replaces the vectors in its
messages by those of an attack (attacks.py), shortened to the norm ``1/sqrt(alpha)``, which no
optimum exceeds (estimates of gradients, too, though no such bound holds for them); no check of
single messages can detect it. It knows what its honest neighbours have sent it so far, and which
other sites lie. The liars of the papers also know what honest sites are about to send in the same
round.

`lying` wraps an algorithm. `RobustGossip`, and `ConsensusADMM` without compression, can be attacked
by every attack, other algorithms by `LabelFlip` only.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec
import numpy as np

from dimargin.gossip.neighbourhood import Neighbourhood
from dimargin.gossip.program import Action, Send, SiteProgram
from dimargin.gossip.programs.algorithm import LinearSite, Problem, SiteAlgorithm
from dimargin.gossip.rounds.consensus_admm import ConsensusADMM
from dimargin.gossip.rounds.robust import RobustGossip
from dimargin.gossip.simulation.observed_run import site_names
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats
from dimargin_bench.gossip_rivals.attacks import Attack, LabelFlip


class Liar(SiteProgram):
    """Program of a site that runs an honest one and lies about what that has learnt.

    Parameters
    ----------
    honest : SiteProgram and LinearSite
    attack : Attack
    vectors : tuple of str
        Fields of its messages that are lied about.
    longest : float
        Norm to which vectors are shortened.
    accomplices : collection of str
        Names of the other liars, whose messages teach nothing.
    seed : sequence of int
    """

    def __init__(
        self, honest: Any, attack: Attack, vectors: tuple[str, ...], longest: float, accomplices: Collection[str],
        seed: tuple[int, ...],
    ) -> None:  # fmt: skip
        self.honest, self.attack, self.vectors, self.longest = honest, attack, vectors, longest
        self.shares, self.messages = honest.shares, honest.messages
        self._accomplices, self._rng = frozenset(accomplices), np.random.default_rng((*seed, 1))
        self._heard: dict[str, dict[str, Floats]] = {name: {} for name in vectors}  # by field and sender

    # ---- what a run asks of a site -------------------------------------------------------------------------------

    @property
    def rows(self) -> HingeRows:
        """Rows from which the liar learns."""
        rows: HingeRows = self.honest.rows
        return rows

    @property
    def rounds(self) -> int:
        """Rounds that the site has run."""
        return int(self.honest.rounds)

    @property
    def weights(self) -> Floats:
        """Weights that it has learnt itself."""
        return np.asarray(self.honest.weights)

    @property
    def average(self) -> Floats:
        """Average of what it has learnt itself."""
        return np.asarray(self.honest.average)

    @property
    def rows_shared(self) -> int:
        """Number of its rows that have left it, of programs that share rows."""
        return int(self.honest.rows_shared)

    @property
    def dual(self) -> None:
        """None, since a certificate must not count on a liar."""
        return

    # ---- events --------------------------------------------------------------------------------------------------

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Begin as the honest program."""
        return self._lie(self.honest.start(now, neighbours))

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """Do as the honest program, but for what is sent."""
        return self._lie(self.honest.wake(now, name))

    def receive(self, now: float, sender: str, message: Any) -> Iterator[Action]:
        """Listen, and do as the honest program, but for what is sent."""
        if sender not in self._accomplices:
            for name, heard in self._heard.items():
                vector = getattr(message, name, None)
                if isinstance(vector, np.ndarray) and vector.size:
                    heard[sender] = vector
        return self._lie(self.honest.receive(now, sender, message))

    def refuse(self, now: float, sender: str, reason: str) -> Iterable[Action]:
        """Do as the honest program, but for what is sent."""
        return self._lie(self.honest.refuse(now, sender, reason))

    def neighbours_changed(self, now: float, neighbours: Collection[str]) -> Iterable[Action]:
        """Do as the honest program, but for what is sent."""
        return self._lie(self.honest.neighbours_changed(now, neighbours))

    @property
    def neighbourhood(self) -> Neighbourhood:
        """Neighbours of the honest program."""
        near: Neighbourhood = self.honest.neighbourhood
        return near

    def _lie(self, actions: Iterable[Action]) -> Iterator[Action]:
        for action in actions:
            if type(action) is not Send:
                yield action
                continue
            lies = {name: self._vector(name, own, action.to) for name, own in self._sent(action.message)}
            yield Send(action.to, msgspec.structs.replace(action.message, **lies) if lies else action.message)

    def _sent(self, message: Any) -> list[tuple[str, Floats]]:
        """Return the vectors in a message that are lied about."""
        found = [(name, getattr(message, name, None)) for name in self.vectors]
        return [(name, vector) for name, vector in found if isinstance(vector, np.ndarray) and vector.size]

    def _vector(self, name: str, own: Floats, to: str) -> Floats:
        """Return what is sent in place of a vector."""
        heard = [vector for _, vector in sorted(self._heard[name].items()) if vector.shape == own.shape]
        lie = self.attack.facing(to)(own, heard, self._rng)
        return np.asarray(lie * min(1.0, self.longest / max(float(np.linalg.norm(lie)), 1e-300)))

    # ---- state ---------------------------------------------------------------------------------------------------

    def checkpoint(self) -> dict[str, Any]:
        """Return the state of the honest program, and of the random generator."""
        return {"honest": self.honest.checkpoint(), "draws": json.dumps(self._rng.bit_generator.state)}

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint; what was heard is forgotten."""
        self.honest.restore(state["honest"])
        self._rng.bit_generator.state = json.loads(state["draws"])


@dataclass(frozen=True)
class Lying(SiteAlgorithm):
    """Algorithm of sites of which some lie; made by `lying`."""

    algorithm: SiteAlgorithm
    sites: Mapping[str, Attack]

    @property
    def shares(self) -> Literal["parameters", "rows"]:  # type: ignore[override]
        """Kind of content that leaves a site, as with the algorithm that the sites seem to run."""
        return self.algorithm.shares

    @property
    def needs_answers(self) -> bool:  # type: ignore[override]
        """True if edges must be undirected, as with that algorithm."""
        return self.algorithm.needs_answers

    @property
    def vectors(self) -> tuple[str, ...]:
        """Fields of messages with learnt arrays; codes in place of arrays are not lied about."""
        if isinstance(self.algorithm, ConsensusADMM) and self.algorithm.compression is None:
            return ("whole",)
        return ("weights", "tracked") if isinstance(self.algorithm, RobustGossip) else ()

    @property
    def min_neighbours(self) -> int:
        """Number of neighbours that every site must have."""
        return self.algorithm.min_neighbours

    def validate(self) -> None:
        """Raise ValueError for an attack or a parameter that is none."""
        self.algorithm.validate()
        for name, attack in self.sites.items():
            if not isinstance(attack, Attack):
                raise ValueError(f"sites must map names to attacks, got {attack!r} for {name!r}")
            attack.validate()
            if not (self.vectors or isinstance(attack, LabelFlip)):
                raise ValueError(
                    f"{type(attack).__name__} is an attack on RobustGossip, and on ConsensusADMM without compression: "
                    f"sites that run {self.algorithm} can lie by LabelFlip"
                )

    def program(self, problem: Problem, name: str, rows: HingeRows, seed: tuple[int, ...]) -> LinearSite:
        """Return the program of a site, honest or not.

        Raises ValueError where a liar is none of the sites.
        """
        unknown = sorted(self.sites.keys() - set(site_names(problem.n_sites)))
        if unknown:
            raise ValueError(
                f"sites must be some of site0 to site{problem.n_sites - 1}, there are {problem.n_sites}; got {unknown}"
            )
        attack = self.sites.get(name)
        if attack is None:
            return self.algorithm.program(problem, name, rows, seed)
        honest = self.algorithm.program(problem, name, attack.rows(rows), seed)
        accomplices = self.sites.keys() - {name}
        return cast(LinearSite, Liar(honest, attack, self.vectors, problem.alpha**-0.5, accomplices, seed))


def lying(algorithm: SiteAlgorithm, sites: Mapping[str, Attack]) -> Lying:
    """Return an algorithm in which some sites lie; for simulations only.

    Parameters
    ----------
    algorithm : SiteAlgorithm
        Algorithm that honest sites run, and that liars seem to run: `RobustGossip`, or
        `ConsensusADMM` without compression, unless every attack is `LabelFlip`.
    sites : mapping from name to Attack
        The liars, of "site0", "site1", ...

    Returns
    -------
    SiteAlgorithm

    Raises
    ------
    ValueError
        An attack or a parameter is out of its range, or the algorithm's messages have no vectors to
        lie about. For the name of a site that does not exist, it is raised as the run begins.

    Notes
    -----
    The weights of a liar are those of its honest program, and ``coef_``, ``score`` and the
    certificate include them and its rows. The honest sites have their own rows of ``site_coef_``.

    Examples
    --------
    >>> import warnings
    >>> from sklearn.datasets import make_classification
    >>> from dimargin import GossipSVMClassifier
    >>> from dimargin_bench.gossip_rivals import lying
    >>> from dimargin.gossip.rounds.merging import Mean, TrimmedMean
    >>> from dimargin.gossip.rounds.robust import RobustGossip
    >>> from dimargin_bench.gossip_rivals.attacks import SignFlip
    >>> X, y = make_classification(1000, 8, class_sep=2.0, random_state=0)
    >>> def honest_accuracy(merge):
    ...     algorithm = lying(RobustGossip(merge), {"site1": SignFlip(), "site4": SignFlip()})
    ...     machine = GossipSVMClassifier(algorithm, n_sites=10, alpha=1e-2, max_iter=60, random_state=0)
    ...     with warnings.catch_warnings(action="ignore"):
    ...         machine.fit(X, y)
    ...     accuracies = ((X @ machine.site_coef_.T > 0) == y[:, None]).mean(axis=0)
    ...     return min(float(accuracy) for site, accuracy in enumerate(accuracies) if site not in (1, 4))
    >>> honest_accuracy(Mean()) < 0.6, honest_accuracy(TrimmedMean(2)) > 0.9
    (True, True)
    """
    if not isinstance(algorithm, SiteAlgorithm):
        raise ValueError(f"algorithm must be a SiteAlgorithm such as RobustGossip(), got {algorithm!r}")
    if not isinstance(sites, Mapping):
        raise ValueError(f"sites must be a mapping from the names of sites to attacks, got {sites!r}")
    found = Lying(algorithm, dict(sites))
    found.validate()
    return found
