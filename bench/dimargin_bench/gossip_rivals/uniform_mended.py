r"""Site of GADGET's mended form, whose messages carry running sums and are acknowledged; see uniform_gossip.py.

Site i has n_i rows, the mass ``(s_i, r_i)``, at first ``(0, n_i)``, and the weights ``w_i = s_i / r_i``. Iteration t,
with ``eta = 1/(alpha t)``, is

    draw a batch;  L_i = mean over it of y x where y w_i.x < 1
    s_i <- (1 - alpha eta) s_i + eta p_i L_i,    p_i = min(owed_i, 2 n_i r_i / mean of r_i so far)
    s_i <- s_i min(1, r_i / (sqrt(alpha) |s_i|)), if asked to project
    B times: give a random neighbour half of (s_i, r_i), and add what has come.

The mass is kept from one iteration to the next. Every iteration adds n_i to ``owed_i`` and takes p_i off it. With
``p_i = n_i`` a site that happens to have little mass would jump by ``n_i / r_i`` steps, and on many graphs the second
moment of ``1 / r_i`` is infinite; with ``p_i = r_i`` sites would not count by their rows. In the end all is paid:
without projection ``sum_i s_i / N`` is, but for what is owed, the iterate of Pegasos on all rows, each of which is
judged by the weights of its own site. So, with a_j the share of what was due in which row j had a margin below one,

    sum_i s_i / N = 1/(alpha N) sum_j a_j y_j x_j,

and a_j are dual coefficients. Messages carry running sums (push_sum.py), so that a lost one loses
nothing, and are acknowledged: a neighbour that answers none for a lease is taken for gone, and what
went over its edge is undone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.gossip.messages import Count, Message
from dimargin.gossip.neighbourhood import lower_median
from dimargin.gossip.program import Action, Report, Send
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.push_sum import Life, Mass, PushSum
from dimargin.gossip.rounds.synchronous import LONGEST_RUN
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats
from dimargin_bench.gossip_rivals.uniform_site import LARGEST_SUM, MIN_WEIGHT, UniformParameters, UniformSite

_UNANSWERED = 4  # messages on their way to a neighbour, beyond which it gets no more shares until it answers
_PATIENCE = 2.5  # rounds after which an unanswered message is repeated
# rounds before the first step, in which a site is answered unless messages are lost: without faults
# all begin together
_LISTENING = 2.5


class Half(Message, frozen=True, tag="half"):
    """Message with half of the sender's mass, as a running sum."""

    mass: Mass
    steps: Count  # that the sender has taken


class Heard(Message, frozen=True, tag="heard"):
    """Message that acknowledges a `Half`, by the life of its edge's end and its number."""

    life: Life
    sequence: Count
    steps: Count


class MendedSite(UniformSite):
    """Site whose messages carry running sums and are acknowledged."""

    messages = (Half, Heard)

    def __init__(self, parameters: UniformParameters, problem: Problem, rows: HingeRows, seed: tuple[int, ...]) -> None:
        super().__init__(parameters, problem, rows, seed)
        self.push_sum = PushSum(np.append(np.zeros(self._shape), float(rows.n_rows)))
        self._owed = self._usual = 0.0  # owed_i, and the mean of r_i so far
        self._paid = np.zeros(rows.signs.shape)  # part of every row's margin below one, summed over steps
        self._leads: dict[str, int] = {}  # steps of neighbours
        self._waiting_since: float | None = 0.0  # for a neighbour, before the first step
        self._unheard: dict[str, float] = {}  # since when neighbours owe an answer
        self._asked: dict[str, float] = {}  # when they were sent the last message
        self._gone: set[str] = set()

    @property
    def weights(self) -> Floats:
        """Mass over its weight; while an undone edge has left no weight, those before."""
        mass = self.push_sum.mass
        return (mass[:-1] / mass[-1]).reshape(self._shape) if mass[-1] > MIN_WEIGHT else self._last

    @property
    def dual(self) -> Floats:
        """Coefficients of this site's rows, of shape (n_outputs, n)."""
        return np.minimum(self._paid / max(self.steps, 1), 1.0)

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Listen first, since others may be far ahead; those that need not answer, for a few rounds only."""
        self._waiting_since = now
        yield from super().start(now, neighbours)

    def neighbours_changed(self, now: float, neighbours: Collection[str]) -> Iterable[Action]:
        """Give those that are out of reach a lease to return."""
        for name in set(self.neighbourhood.names) - set(neighbours):
            self._unheard.setdefault(name, now)
        return super().neighbours_changed(now, neighbours)

    # ---- learning ------------------------------------------------------------------------------------------------

    def _may_step(self, now: float) -> bool:
        if self._waiting_since is not None:
            near, waited = self.neighbourhood, now - self._waiting_since
            is_alone = not near.heard and waited <= self.problem.lease and np.isfinite(self.problem.lease)
            if near.names and (is_alone or waited <= _LISTENING * self.problem.interval):
                return False
            self._waiting_since = None
            self.steps = max(self.steps, min(lower_median(self._leads.values()), LONGEST_RUN))
        return float(self.push_sum.mass[-1]) > MIN_WEIGHT

    def _step(self, chosen: NDArray[np.intp] | None) -> None:
        n, weight, eta = self.rows.n_rows, float(self.push_sum.mass[-1]), 1 / (self.problem.alpha * self.steps)
        self._usual += (weight - self._usual) / max(1, min(self.steps, self.rounds))
        self._owed += n
        pay = min(self._owed, 2 * n * weight / self._usual)
        self._owed -= pay
        mass = self.push_sum.mass[:-1].reshape(self._shape) * (1 - 1 / self.steps)
        if n:
            found = self.rows.evaluate(self.weights, chosen)
            part = pay / found.dual.shape[1]
            mass = mass + eta * part * found.pull
            if chosen is None:
                self._paid += part * found.dual
            else:
                np.add.at(self._paid.T, chosen, part * found.dual.T)  # a row may have been drawn twice
        mass = mass * self._shrinkage(mass / weight)
        self.push_sum.mass = np.append(mass, weight)

    # ---- who is there --------------------------------------------------------------------------------------------

    def _let_go(self, now: float) -> Iterator[Action]:
        for name, since in list(self._unheard.items()):
            if now - since > self.problem.lease:
                self._forget(name)
                self._gone.add(name)
                yield Report("silent", {"site": name, "seconds": self.problem.lease})

    def _forget(self, name: str) -> None:
        """Undo what went over an edge, but for the weights, which are those of many iterations."""
        weights = self.weights
        self.push_sum.forget(name)
        self._set_weights(weights)
        self._unheard.pop(name, None)
        self._leads.pop(name, None)
        self.neighbourhood.heard.pop(name, None)

    def _set_weights(self, weights: Floats) -> None:
        self._last = weights
        self.push_sum.mass = np.append(weights * self.push_sum.mass[-1], self.push_sum.mass[-1])

    def _tell(self, now: float) -> Iterator[Action]:
        """Give half of the mass to a neighbour that takes it, and repeat what has not been answered."""
        names = self.neighbourhood.spoken_to
        if not names:
            return
        repeated = {name for name in self._unheard if now - self._asked.get(name, now) > self._patience}
        repeated = repeated.intersection(names)
        drawn = self._drawn(names)
        takers = [name for name in names if self._takes_shares(name)]
        if drawn not in takers:  # it is asked whether it is there
            repeated.add(drawn)
            drawn = self._drawn(takers) if takers else ""
        given = self.push_sum.shares([drawn] if drawn else [])
        for name in sorted(repeated - {drawn}):
            given[name] = self.push_sum.sign_of_life(name)
        for name, mass in given.items():
            self._asked[name] = now
            if name not in self._gone and np.isfinite(self.problem.lease):  # nobody answers otherwise
                self._unheard.setdefault(name, now)
            yield Send(name, Half(mass, self.steps))

    @property
    def _patience(self) -> float:
        return _PATIENCE * self.problem.interval

    def _takes_shares(self, name: str) -> bool:
        """Return whether a neighbour answers; shares that nobody takes would drain this site."""
        if self.push_sum.mass[-1] < 0:
            return False
        if np.isinf(self.problem.lease):
            return True
        return name not in self._gone and self.push_sum.unanswered(name) <= _UNANSWERED

    # ---- messages ------------------------------------------------------------------------------------------------

    def receive(self, now: float, sender: str, message: Message) -> Iterator[Action]:
        """Add what a neighbour has given and acknowledge it, or take note that it has heard this site."""
        assert isinstance(message, (Half, Heard))
        near = self.neighbourhood
        if sender in near.refused:
            return
        edge = self.push_sum.edge(sender)
        before = edge.acknowledged
        fault = near.hear(now, sender) or (self._take(sender, message) if isinstance(message, Half) else None)
        if fault is not None:
            yield from self.refuse(now, sender, fault)
            return
        self._leads[sender] = message.steps
        if isinstance(message, Heard):
            if message.life == edge.life and message.sequence <= edge.sequence:
                edge.acknowledged = max(edge.acknowledged, message.sequence)
        elif sender in near.names and np.isfinite(self.problem.lease):  # one that it cannot reach need not answer
            yield Send(sender, Heard(message.mass.life, message.mass.sequence, self.steps))
        self._note_answer(now, sender, edge.acknowledged > before)

    def _note_answer(self, now: float, sender: str, is_answered: bool) -> None:
        if sender in self._gone:
            self._gone.discard(sender)
            self._unheard[sender] = now
        elif is_answered and self.push_sum.unanswered(sender):
            self._unheard[sender] = now
        elif is_answered:
            self._unheard.pop(sender, None)

    def _take(self, sender: str, message: Half) -> str | None:
        """Add a share to the mass; return why no correct site would send it, or None."""
        mass, edge = message.mass, self.push_sum.edge(sender)
        if mass.sent.shape != self.push_sum.mass.shape:
            return f"its message has {mass.sent.shape[0]} numbers, expected {len(self.push_sum.mass)}"
        news = self.push_sum.news(sender, mass)
        if news is not None and news[-1] < 0:
            return f"its message takes {-news[-1]:.3g} rows away, which no site does"
        if news is not None and news[-1] > self.problem.n_sites * self.problem.n_rows:
            return f"its message brings {news[-1]:.3g} rows, and all sites have {self.problem.n_rows}"
        if news is not None and np.abs(news).max() > LARGEST_SUM:
            return f"its message adds {np.abs(news).max():.3g} to a sum, expected at most {LARGEST_SUM:g}"
        lives, weights, had_mass = (edge.life, edge.knows), self.weights, self.push_sum.mass[-1] > MIN_WEIGHT
        is_new = self.push_sum.take(sender, mass)
        is_undone = lives[1] > 0 and lives != (edge.life, edge.knows)
        if is_undone or not had_mass:  # sums of earlier iterations
            self._set_weights(weights)
        return self.neighbourhood.judge(sender, is_new)

    # ---- state ---------------------------------------------------------------------------------------------------

    def checkpoint(self) -> dict[str, Any]:
        """Return all that was learnt, the mass and the state of the edges."""
        own = {"push_sum": self.push_sum.checkpoint(), "paid": self._paid, "owed": self._owed, "usual": self._usual}
        return super().checkpoint() | own

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint of the same rows; neighbours that were refused get another chance."""
        super().restore(state)
        if state["paid"].shape != self._paid.shape:
            raise ValueError(f"it is of {state['paid'].shape[1]} rows, and the site has {self.rows.n_rows}")
        self.push_sum = PushSum.restore(state["push_sum"])
        self._paid, self._owed, self._usual = state["paid"], state["owed"], state["usual"]
