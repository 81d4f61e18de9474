"""Hostile messages into programs in common rounds, as a live site takes them in."""

import functools
import random
from copy import deepcopy

import msgspec
import numpy as np

from dimargin.gossip import rounds
from dimargin.gossip.programs.algorithm import Problem
from dimargin.problems.hinge import HingeRows

try:
    from .damaged_messages import ANY, FLAT, INTEGERS, NUMBERS, array, is_array, packed, plain
    from .fuzz_messages import Renewable
    from .listening import Listening, together
except ImportError:  # as a module of a test
    from fuzz.damaged_messages import ANY, FLAT, INTEGERS, NUMBERS, array, is_array, packed, plain
    from fuzz.fuzz_messages import Renewable
    from fuzz.listening import Listening, together

NAMES = ("north", "south")
_STEP, _LEASE = 0.05, 0.4
_ALGORITHMS = (
    rounds.ConsensusADMM(),
    rounds.ConsensusADMM(compression=rounds.Logarithmic(3)),
    rounds.ConsensusADMM(compression=rounds.TopK(0.5)),
    rounds.ConsensusADMM(compression=rounds.RandomK(0.5)),
    rounds.ConsensusADMM(compression=rounds.Quantised(16)),
    rounds.RobustGossip(rounds.NearestMixing(1)),
    rounds.RobustGossip(rounds.ClippedMean(0)),
    rounds.RobustGossip(rounds.TrimmedMean(0), gradient="tracked", flow=np.inf),
)


class World(Renewable):
    """Two honest sites that learn together, and a third whose genuine messages hostile ones are made of."""

    def __init__(self, algorithm):
        rng = np.random.default_rng(0)
        X, signs = rng.normal(size=(36, 3)), 2.0 * (np.arange(36) % 2) - 1
        X[:, 0] += signs
        problem = Problem(0.01, 3, 36, lease=_LEASE, interval=_STEP)

        def site(name, k):
            rows = HingeRows(X[12 * k : 12 * k + 12], signs[None, 12 * k : 12 * k + 12])
            others = [other for other in (*NAMES, "eve") if other != name]
            return Listening(name, algorithm.program(problem, name, rows, (k,)), others)

        sites = [site(name, k) for k, name in enumerate((*NAMES, "eve"))]
        said = _spoken(sites[2])
        self.genuine = list(said.values())  # of the first round
        together(sites, 10 * _STEP, _STEP)
        self.sites, eve = sites[:2], sites[2]
        said.clear()
        while not said.keys() - {"waiting"}:  # the others hear no more of eve, and wait for what she says now
            eve.wake(eve.now + _STEP)
            said |= _spoken(eve)
            for site in self.sites:
                for data in [data for to, data in site.taken() if to == "eve"]:
                    eve.hear(site.name, data)
        self.genuine += said.values()
        self.keep()


def _spoken(site):
    """Messages that a site has sent, by kind."""
    return {plain(data)["kind"]: data for _, data in site.taken()}


@functools.cache
def _world(k):
    return World(_ALGORITHMS[k])


# ---- what eve says ---------------------------------------------------------------------------------------------------


def _places(part):
    """All places of values in nested dictionaries and lists, each as a container and a key."""
    keys = list(part) if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
    for key in keys:
        yield part, key
        if not is_array(part[key]):
            yield from _places(part[key])


_ARRAYS = [name for name in ANY if name not in FLAT and name not in ("huge-integers", "bad-text")]
_OTHERS = (None, True, -1, 7, -1.5, "x", "y" * 300, b"\x00", [], {}, [[[]]], {"a": {"b": 1}})


def _other_array(value, rng):
    try:
        if rng.random() < 0.4:  # as many dimensions, and sound numbers
            return array(np.ones([rng.choice([0, 1, 2, 3, 4, 100]) for _ in value[1]]), value[0])
        return ANY[rng.choice(_ARRAYS)]({"array": value}, rng)["array"]
    except (RuntimeError, TypeError, ValueError):  # it is no array any more, or none that numpy can index
        return value


def _instead(value, rng):
    """A value that a correct site may never send in this place, mostly of the same type."""
    if rng.random() < 0.1:
        return deepcopy(rng.choice(_OTHERS))
    if is_array(value):
        return _other_array(value, rng)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = [number for number in (value - 1, value + 1) if -(2**63) <= number < 2**64]
        return rng.choice([*INTEGERS, 0, 1, 2, *near, 10**6])
    if isinstance(value, float):
        return rng.choice([*NUMBERS, -1.0, 0.0, 1e12])
    if isinstance(value, list) and value:
        return rng.choice([[], value[:-1], value + value[-1:], value * 20])
    return deepcopy(rng.choice(_OTHERS))


def _hostile(data, rng):
    fields = plain(data)
    if rng.random() < 0.25:
        said = ANY[rng.choice(FLAT)](fields, rng)
    else:
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            places = list(_places(fields))
            arrays = [(part, key) for part, key in places if is_array(part[key])]
            part, key = rng.choice(arrays if arrays and rng.random() < 0.5 else places)
            part[key] = _instead(part[key], rng)
        said = fields
    return said if isinstance(said, bytes) else packed(said)


def generate(rng: random.Random) -> bytes:
    """The number of a world, and messages with the numbers of who hears them; one in five is a genuine one."""
    k = rng.randrange(len(_ALGORITHMS))
    messages = []
    for _ in range(rng.choice([1, 1, 2, 4, 8])):
        genuine = rng.choice(_world(k).genuine)
        messages.append((rng.randrange(1, 4), genuine if rng.random() < 0.2 else _hostile(genuine, rng)))
    return bytes([k]) + msgspec.msgpack.encode(messages)


def check(data: bytes) -> None:
    """Raise where a site ends, stands still, is poisoned, fails by a fault of its own, or has two honest sites part."""
    world = _world(data[0] % len(_ALGORITHMS) if data else 0)
    try:
        messages = msgspec.msgpack.decode(data[1:], type=list[tuple[int, bytes]])
    except (msgspec.DecodeError, ValueError):
        messages = [(3, data[1:])]
    world.begin_anew()
    for hearers, message in messages:
        for k, site in enumerate(world.sites):
            if hearers >> k & 1:
                site.hear("eve", message)
    rounds = [site.program.rounds for site in world.sites]
    together(world.sites, 5 * _LEASE, 2 * _STEP)  # in which whoever keeps others waiting is left out
    for site, other, before in zip(world.sites, NAMES[::-1], rounds, strict=True):
        assert not [facts for what, facts in site.said if what in ("broken", "withheld")], list(site.said)
        assert other not in site.program.neighbourhood.refused, site.program.neighbourhood.refused
        assert other in site.program.neighbourhood.heard
        assert site.program.rounds > before
        assert np.isfinite(site.program.weights).all() and np.isfinite(site.program.average).all()
