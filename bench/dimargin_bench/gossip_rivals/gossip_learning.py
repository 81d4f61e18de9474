r"""Gossip learning: linear models that walk from site to site at random, and learn where they come by.

Every site keeps the last model that it made. In every round it sends it to one neighbour, drawn at random (Ormandi,
Hegedus, Jelasity, "Gossip learning with linear models on fully distributed data", Concurrency and Computation: Practice
and Experience 25(4), 2013, algorithms 1 to 3). On the receipt of a model m the site makes its next one,

    "rw"   update(m)                             models that walk alone
    "mu"   update(merge(m, m'))                  m' the model that was received before, at first the zero model
    "um"   merge(update(m), update(m'))

    update:  t <- t + 1,  eta = 1 / (alpha t),
             w <- (1 - eta alpha) w + eta y x if y w.x < 1,  else (1 - eta alpha) w     (Pegasos)
    merge:   (w, t), (w', t') -> ((w + w') / 2, max(t, t'))

so that a message is a model and its age t, and a lost or repeated one does no harm beyond fewer, or
more, steps.

In the paper every site has one row, so that a walk that comes to all sites alike learns the mean
over rows. Where sites have n_i rows of N the same walk learns the mean over *sites* of their mean
losses. With ``weighting="rows"`` the pull of a site's rows is taken ``n_i m / N`` times, m the
number of sites, which makes it the mean over rows again; ``weighting="sites"`` is the paper's
update. Either holds where walks come to all sites alike: a neighbour drawn at random is that on
regular topologies, while on others sites are visited as often as they have neighbours. The paper
draws its peers from all sites.

Every model that a site makes goes into its cache, where it replaces the oldest one once there are
`cache_size`. The machine of a site is its last model; the vote of the models in its cache is the
paper's other way to predict (`dimargin_bench.experiments.observed_sites`, with ``vote=True``).

The paper has no rule for stopping; a run ends after its rounds. A site takes the age of a model on
trust, so that a liar can slow down all that merge with its models.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import Array, Count, Message, Numbers
from dimargin.gossip.neighbourhood import Neighbourhood
from dimargin.gossip.program import Action, Report, Send, SiteProgram, Wake
from dimargin.gossip.programs.algorithm import Problem, SiteAlgorithm
from dimargin.gossip.rounds.parameter_checks import check_whole
from dimargin.problems.hinge import HingeRows
from dimargin.problems.losses import MAX_PARAMETER
from dimargin.system.arrays import Floats

Variant = Literal["mu", "um", "rw"]
VARIANTS: tuple[Variant, ...] = ("mu", "um", "rw")
_OLDEST = LIMITS.count // 2  # updates of a model, which take longer than any run


class WalkingModel(Message, frozen=True, tag="walking model"):
    """Message with a model that walks on."""

    weights: Annotated[Array, Numbers((2,), -MAX_PARAMETER, MAX_PARAMETER)]  # of shape (n_outputs, n_features)
    age: Count  # updates that it has had


class AgedModel(NamedTuple):
    """Weights of shape (n_outputs, n_features), and how many updates they have had."""

    weights: Floats
    age: int

    def merged(self, other: AgedModel) -> AgedModel:
        """Return the mean of two models, as old as the older one."""
        return AgedModel((self.weights + other.weights) / 2, max(self.age, other.age))


@dataclass(frozen=True)
class GossipLearning(SiteAlgorithm):
    """Gossip learning by random walks of models.

    Parameters
    ----------
    variant : {"mu", "um", "rw"}, default="mu"
        Whether a site merges the last two models that it has received and updates the result,
        updates both and merges them, or updates the last alone.
    batch_size : int, default=1
        Rows of the site in an update, drawn with replacement; the paper's sites have one each.
    weighting : {"rows", "sites"}, default="rows"
        Whether every row counts the same, or every site, as in the paper's update.
    cache_size : int, default=10
        Models that a site keeps for its vote.

    See Also
    --------
    dimargin.GossipSVMClassifier : It runs this as its `algorithm`.

    Examples
    --------
    >>> import warnings
    >>> from dimargin import GossipSVMClassifier
    >>> from dimargin_bench.gossip_rivals import GossipLearning
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, 10, class_sep=2.0, random_state=0)
    >>> machine = GossipSVMClassifier(algorithm=GossipLearning(), alpha=1e-2, max_iter=300, random_state=0)
    >>> with warnings.catch_warnings():  # it has no rule for stopping
    ...     warnings.simplefilter("ignore")
    ...     machine = machine.fit(X[:1000], y[:1000])
    >>> machine.score(X[1000:], y[1000:]) > 0.9
    True
    """

    variant: Variant = "mu"
    batch_size: int = 1
    weighting: Literal["rows", "sites"] = "rows"
    cache_size: int = 10

    needs_answers: ClassVar[bool] = False

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range; the message names it."""
        for name, known in (("variant", VARIANTS), ("weighting", ("rows", "sites"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be {' or '.join(map(repr, known))}, got {getattr(self, name)!r}")
        check_whole("batch_size", self.batch_size, 1)
        check_whole("cache_size", self.cache_size, 1)

    def program(self, problem: Problem, name: str, rows: HingeRows, seed: tuple[int, ...]) -> GossipLearningSite:
        """Return the program of the site `name`, whose draws follow from the seed."""
        return GossipLearningSite(rows, problem, self, seed)


class GossipLearningSite(SiteProgram):
    """Program of one site, which may have no rows: it then passes models on.

    Attributes
    ----------
    model : AgedModel
        The last that this site has made.
    cache : deque of ndarray
        Weights of the last models that it has made.
    rounds : int
    """

    shares = "parameters"
    messages = (WalkingModel,)

    def __init__(
        self, rows: HingeRows, problem: Problem, settings: GossipLearning, seed: tuple[int, ...] = (0,)
    ) -> None:
        self.rows, self._problem, self._settings = rows, problem, settings
        self._shape = len(rows.signs), rows.X.shape[1]
        self.model = self._received = AgedModel(np.zeros(self._shape), 0)
        self.cache: deque[Floats] = deque(maxlen=settings.cache_size)
        self._average, self._made = np.zeros(self._shape), 0
        self.rounds = 0
        self.neighbourhood = Neighbourhood(problem.lease)
        self._began = 0.0
        self._rng = np.random.default_rng(seed)

    # ---- events --------------------------------------------------------------------------------------------------

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Make a first model of the zero model, and set the timer of the first round."""
        self.neighbourhood.change(neighbours)
        self._began = now
        if not self.model.age:
            self._keep(self._updated(self.model))
        yield Wake(self._problem.interval)

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """Send the last model to a neighbour."""
        self.rounds += 1
        near = self.neighbourhood
        if len(near.spoken_to):
            to = near.spoken_to[int(self._rng.integers(len(near.spoken_to)))]
            yield Send(to, WalkingModel(self.model.weights, self.model.age))
        if (not near.heard and now - self._began > self._problem.lease) or not near.names:
            self._keep(self._updated(self.model))  # the model learns where it is, since none comes
        yield Wake(self._problem.interval)

    def receive(self, now: float, sender: str, message: Message) -> Iterator[Action]:
        """Make the next model of one that has come, and of the one before."""
        assert isinstance(message, WalkingModel)
        if sender in self.neighbourhood.refused:
            return
        if (fault := self.neighbourhood.hear(now, sender) or self._fault(message)) is not None:
            yield from self.refuse(now, sender, fault)
            return
        # not older than others believe: a model that is told as that old would be refused after one
        # more update
        came, before = AgedModel(message.weights, min(message.age, _OLDEST - 1)), self._received
        if self._settings.variant == "rw":
            self._keep(self._updated(came))
        elif self._settings.variant == "mu":
            self._keep(self._updated(came.merged(before)))
        else:
            self._keep(self._updated(came).merged(self._updated(before)))
        self._received = came

    def refuse(self, now: float, sender: str, reason: str) -> Iterator[Action]:
        """Ignore a sender from now on; later updates shrink what it has contributed."""
        self.neighbourhood.refuse(sender, reason)
        yield Report("refused", {"site": sender, "reason": reason})

    def _fault(self, message: WalkingModel) -> str | None:
        """Return why a message cannot come from a correct site; None if it can."""
        if message.weights.shape != self._shape:
            return f"its model has shape {message.weights.shape}, expected {self._shape}"
        if message.age > _OLDEST:
            return f"its model has had {message.age} updates, which take longer than any run"
        return None

    # ---- learning ------------------------------------------------------------------------------------------------

    @property
    def weights(self) -> Floats:
        """Weights of the last model, of shape (n_outputs, n_features)."""
        return self.model.weights

    @property
    def average(self) -> Floats:
        """Average of all models that this site has made, of which the k-th has weight k."""
        return self._average

    @property
    def dual(self) -> None:
        """None: a model has learnt at many sites."""
        return None

    def _updated(self, model: AgedModel) -> AgedModel:
        """Take a step of Pegasos on rows of this site; without any, the model stays as it is."""
        n, size = self.rows.n_rows, self._settings.batch_size
        if not n:
            return model
        problem, age = self._problem, model.age + 1
        chosen = self._rng.integers(n, size=size)
        often = n * problem.n_sites / problem.n_rows if self._settings.weighting == "rows" else 1.0
        pull = self.rows.evaluate(model.weights, chosen).pull * (often / size)
        return AgedModel((1 - 1 / age) * model.weights + pull / (problem.alpha * age), age)

    def _keep(self, model: AgedModel) -> None:
        self.model = model
        self.cache.append(model.weights)
        self._made += 1
        self._average = self._average + (model.weights - self._average) * (2 / (self._made + 1))

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def checkpoint(self) -> dict[str, Any]:
        """Return the models, their average and the state of the random generator."""
        return {
            "rounds": self.rounds, "made": self._made, "average": self._average, "cache": list(self.cache),
            "weights": self.model.weights, "age": self.model.age,
            "received": self._received.weights, "received_age": self._received.age,
            "draws": json.dumps(self._rng.bit_generator.state),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        self.rounds, self._made, self._average = state["rounds"], state["made"], state["average"]
        self.model = AgedModel(state["weights"], state["age"])
        self.cache = deque(state["cache"], maxlen=self._settings.cache_size)
        self._received = AgedModel(state["received"], state["received_age"])
        self._rng.bit_generator.state = json.loads(state["draws"])
