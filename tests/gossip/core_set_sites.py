"""Sites that agree on a core-set, for tests."""

from dataclasses import replace

import numpy as np
from fuzz.listening import heard

from dimargin.gossip.programs.candidates import Candidates, points_of
from dimargin.gossip.programs.core_set_consensus import CoreSetConsensus
from dimargin.gossip.programs.core_set_settings import CoreSetSettings
from dimargin.gossip.simulation.simulator import Simulator

EXACT = CoreSetSettings(epsilon=0.0)


def names_of(n_sites):
    return [f"site{i:03}" for i in range(n_sites)]


def dealt(X, n_sites, signs=None, settings=EXACT):
    """Sites that hold every n_sites-th point."""
    signs = np.ones(X.shape[0]) if signs is None else signs
    return {
        name: lambda name=name, i=i: CoreSetConsensus(name, X[i::n_sites], signs[i::n_sites], settings)
        for i, name in enumerate(names_of(n_sites))
    }


def run(sites, graph, conditions=None, seed=0, until=400.0, after=0.0, forgetful=()):
    """Until all agree; radii are watched on the way, but those of sites that lose their memory."""
    simulator, ranks = Simulator(sites, graph, conditions, seed), {}

    def agreed(_):
        for name, program in simulator.programs.items():
            rank = program.chosen.rank if program.chosen else (-np.inf, ())
            assert name in forgetful or rank >= ranks.get(name, rank), "a radius fell"
            ranks[name] = rank
        return (
            simulator.now > after
            and len({*ranks.values()}) == 1
            and len(ranks) == len(sites)
            and all(r[1] for r in ranks.values())
        )

    end = simulator.run(until=until, watch=agreed)
    assert end in ("watch", "stopped")
    return simulator, next(iter(simulator.programs.values())).chosen


def indices_in(chosen, n_sites):
    """Of the core-set in the array that was dealt."""
    index = {name: i for i, name in enumerate(names_of(n_sites))}
    return np.sort([index[site] + n_sites * row for site, row, _ in chosen.points.names])


def told(**changes):
    """What a site says of a point far away."""
    message = {
        "sites": ["other"], "rows": np.array([0]), "X": np.array([[9.0, 9.0]]), "labels": np.ones(1),
        "masses": np.ones(1), "quiet": 0,
    }  # fmt: skip
    message |= changes
    try:
        digest = points_of(message, 2).digest
    except (ValueError, IndexError, TypeError):
        digest = ""
    return Candidates(**{"digest": digest, **message})


def met(program, sender="other", **changes):
    """What a site does with a message."""
    return heard(program, 0.0, sender, told(**changes))


def one_site():
    """A site with two points, which has begun."""
    program = CoreSetConsensus("here", np.array([[0.0, 0.0], [1.0, 0.0]]), np.ones(2), replace(EXACT, norm_bound=50.0))
    list(program.start(0.0, ["other", "third"]))
    list(program.wake(1.0, "round"))
    return program
