"""Hostile messages into real programs, before and after their sites have agreed, as a live site takes them in."""

import functools
import io
import pickle
import random
from dataclasses import replace

import msgspec
import numpy as np
import scipy.sparse as sp

from dimargin.gossip.identity import Identity
from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import encode, pack
from dimargin.gossip.programs.agreement import Agreement, AgreementSettings, Card
from dimargin.gossip.rounds.certification import Sums
from dimargin.gossip.rounds.consensus_admm import ConsensusSite
from dimargin.gossip.rounds.turns import Waiting
from dimargin.gossip.schema import Schema
from dimargin.gossip.sites.admm_options import ADMMOptions
from dimargin.gossip.sites.core_set_options import CoreSetOptions
from dimargin.gossip.sites.gossip_options import GossipOptions

try:
    from ..authority import identities
    from .damaged_messages import plain
    from .hostile_messages import hostile
    from .listening import Listening, together
except ImportError:  # as a module of a test
    from authority import identities

    from fuzz.damaged_messages import plain
    from fuzz.hostile_messages import hostile
    from fuzz.listening import Listening, together

NAMES = ("north", "south")
_QUICK = {"interval": 0.05, "lease": 2.0}
_STEP = 0.05


class _Kept:
    """What can be copied again and again; identities, whose keys cannot, are shared by the copies."""

    def __init__(self, what):
        out, self._identities = io.BytesIO(), []
        pickler = pickle.Pickler(out)
        pickler.persistent_id = self._number
        pickler.dump(what)
        self._bytes = out.getvalue()

    def _number(self, what):
        if not isinstance(what, Identity):
            return None
        self._identities.append(what)
        return len(self._identities) - 1

    def copy(self):
        unpickler = pickle.Unpickler(io.BytesIO(self._bytes))
        unpickler.persistent_load = self._identities.__getitem__
        return unpickler.load()


class Renewable:
    """Two honest sites, which can be brought back to what they were when they were kept."""

    def keep(self):
        """From here on."""
        self._kept = [_Kept((site.program, site.site._timers, site.now)) for site in self.sites]
        self.begin_anew()

    def begin_anew(self):
        """As if nothing had been heard."""
        for site, kept in zip(self.sites, self._kept, strict=True):
            site.program, site.site._timers, site.now = kept.copy()
            site.site._program = site.program
            site.said.clear()
            site.taken()
            for table in ("_traffic", "_heard", "_lines"):
                getattr(site.site, table).clear()


class World(Renewable):
    """Two honest sites that learn together, and a third whose genuine messages hostile ones are made of."""

    def __init__(self, options, scaling, sparse, settled, signed=False):
        known = identities(*NAMES, "eve") if signed else {}
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(36, 3)), np.arange(36) % 3 % 2
        X[:, 0] += 2.0 * y
        terms = {"program": options.program, "scaling": scaling, "features_counted_from": 1 if sparse else None}
        terms |= options.own_terms()
        X = sp.csr_array(np.pad(X, ((0, 0), (0, 1100)))) if sparse else X
        names = None if sparse else ("a", "b", "c")

        def site(name, k):
            schema = Schema.of(X[k::3], y[k::3] if options.uses_labels else np.zeros(0), terms, names)
            own = replace(options, identity=known.get(name))
            settings = AgreementSettings(3 if settled else 9, settle=0.2, interval=_STEP)
            program = Agreement(name, X[k::3], y[k::3], schema, own, settings)
            return Listening(name, program, [other for other in (*NAMES, "eve") if other != name])

        sites = [site(name, k) for k, name in enumerate((*NAMES, "eve"))]
        said = _recorded(sites[2])
        together(sites, 2.0 if settled else 3 * _STEP, _STEP)
        self.sites, eve = sites[:2], sites[2]
        assert all(site.program.sealed == settled and "eve" in site.program.rows for site in self.sites)
        eve.wake(eve.now + _STEP)
        eve.taken("north")
        program, learner = eve.program, eve.program.learner
        card = Card(**program.schema.plain(), rows=program.rows, sealed=program.sealed)
        rare = [card, *_seldom(learner)] if isinstance(learner, ConsensusSite) else [card]
        self.genuine = list({**said, **{plain(data)["kind"]: data for data in map(encode, rare)}}.values())
        self.keep()
        self.before = [_known(site) for site in self.sites]


def _seldom(learner):
    """Messages that a site would send if another one had started the certificate, or if one was late."""
    sums = Sums.of(*learner._own, learner.weights, 0.01)
    yield sums.tally(learner.settings.schema, learner.certification.key, 2)
    yield Waiting(learner.edges["north"].turn(), learner.rounds, 2, learner.settings.schema, learner.since)


def _recorded(site):
    """A dictionary into which go the newest messages of every kind that a site sends to the first of the others."""
    said, taken = {}, site.taken

    def recorded(to=None):
        found = taken(to)
        said.update({plain(data)["kind"]: data for name, data in found if name == NAMES[0]})
        return found

    site.taken = recorded
    return said


def _known(site):
    """All that a site has learnt, what it knows of edges to others aside: a refused sender leaves no other trace."""
    state = site.program.checkpoint()
    if isinstance(site.program.learner, ConsensusSite):  # It goes on with those that are left.
        state["learner"] = None
    sums = (state["learner"] or {}).get("push_sum", {})
    for name in ("edges", "mass"):  # which is what it was but for rounding
        sums.pop(name, None)
    return pack(state)


_WORLDS = [
    (GossipOptions(alpha=0.01, **_QUICK), "minmax", False, False),
    (GossipOptions(alpha=0.01, **_QUICK), "minmax", False, True),
    (CoreSetOptions(**_QUICK), "minmax", False, False),
    (CoreSetOptions(**_QUICK), "minmax", False, True),
    (CoreSetOptions(kind="svdd", **_QUICK), "maxabs", True, True),
    (CoreSetOptions(**_QUICK), "minmax", False, True, True),
    (GossipOptions(alpha=0.01, gradient="local", **_QUICK), "maxabs", True, True),
    (GossipOptions(alpha=0.01, compression="quantised", **_QUICK), "minmax", False, True),
    (ADMMOptions(alpha=0.01, **_QUICK), "minmax", False, True),
    (ADMMOptions(alpha=0.01, loss_function="odm", levels=0, tol=1e-6, **_QUICK), "maxabs", True, True),
    (ADMMOptions(alpha=0.01, liars=1, scale=False, **_QUICK), "none", False, True),
    (ADMMOptions(alpha=0.01, epsilon=3.0, scale=False, **_QUICK), "none", False, True),
]
_FEW = 4  # names of senders who may speak twice; others do so once, for who is refused is not heard again
_BATCHES = (1, 1, 4, 16, 32, 64)


@functools.cache
def _world(k):
    return World(*_WORLDS[k])


def genuine_kinds() -> set[str]:
    """The kinds of messages that are sent in any world, of which hostile ones are made."""
    return {plain(data)["kind"] for k in range(len(_WORLDS)) for data in _world(k).genuine}


def generate(rng: random.Random) -> bytes:
    """The number of a world, and messages with the numbers of who says them and of who hears them."""
    k, messages = rng.randrange(len(_WORLDS)), []
    for index in range(rng.choice(_BATCHES)):
        data = hostile(rng.choice(_world(k).genuine), rng)
        times = 2 if rng.random() < 0.1 else 1
        eve = rng.randrange(_FEW) if rng.random() < 0.2 else _FEW + index
        messages += [(eve, rng.randrange(1, 4), data)] * times
    return bytes([k]) + msgspec.msgpack.encode(messages)


def check(data: bytes) -> None:
    """Raise where a site ends, is poisoned, fails by a fault of its own, or has two honest sites part."""
    world = _world(data[0] % len(_WORLDS)) if data else _world(0)
    try:
        messages = msgspec.msgpack.decode(data[1:], type=list[tuple[int, int, bytes]])
    except (msgspec.DecodeError, ValueError):
        messages = [(0, 1, data[1:])]
    try:
        believed = [False, False]  # who is refused only later may have brought something within bounds before
        for number, hearers, message in messages:
            eve = f"eve{number}" if number else "eve"
            for k, site in enumerate(world.sites):
                if hearers >> k & 1:
                    site.hear(eve, message)
                    believed[k] |= site.program.hears(eve)
        _judge(world, believed)
    finally:
        world.begin_anew()


def _judge(world, believed):
    """Where all senders were refused at once nothing has changed; in any case sites go on for three rounds."""
    for site, before, was_believed in zip(world.sites, world.before, believed, strict=True):
        assert was_believed or _known(site) == before, "who was refused has left a trace"
    together(world.sites, 3 * _STEP, _STEP)
    for site, other in zip(world.sites, NAMES[::-1], strict=True):
        assert not [facts for what, facts in site.said if what in ("broken", "withheld")], list(site.said)
        assert other not in site.program.status()["refused"], site.program.status()["refused"]
        _is_sound(site)


def _is_sound(site):
    program = site.program
    assert len(program.rows) <= LIMITS.sites and len(program.schema.labels) <= LIMITS.labels
    assert program.rows[site.name] == [1, 12], "somebody else has said how many rows there are"
    assert len(site.site._traffic) <= LIMITS.sites + 1
    learner = program.learner
    if learner is None:
        return
    if hasattr(learner, "machines"):
        for machine in learner.machines:
            assert machine.chosen is None or np.isfinite(machine.chosen.value)
            assert machine.quiet >= 0
    elif isinstance(learner, ConsensusSite):
        assert np.isfinite(learner.weights).all() and learner.rounds < 10**6 and 0 < learner.penalty < 1e6
        found = learner.certification.certificate
        assert found is None or (np.isfinite(found.weights).all() and np.isfinite(found.objective).all())
    else:
        mass = learner.push_sum.mass
        assert np.isfinite(mass).all() and np.isfinite(learner.weights).all() and np.isfinite(learner.average).all()
        assert learner.steps < 10**6
