"""Messages between sites of GADGET: faulty ones are refused by name and move nobody, and honest sites send none."""

import linear_sites
import msgspec
import numpy as np
import pytest
from fuzz.listening import heard
from linear_sites import ALPHA, objective
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.gossip.messages import pack, unpack
from dimargin.gossip.program import Report, Send
from dimargin.gossip.programs.gadget import Exchange, Gadget
from dimargin.gossip.programs.gadget_settings import GadgetSettings
from dimargin.gossip.programs.local_gadget import gadget_of
from dimargin.gossip.simulation.gossip_run import deal
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.topology import make_graph
from dimargin.problems.hinge import HingeRows

ODD_AND_EVEN = slice(0, None, 2), slice(1, None, 2)


def gadget(rows, n=50, features=7):
    X, y = rows
    return Gadget(HingeRows(X[:n, :features], y[None, :n]), GadgetSettings(alpha=ALPHA))


def exchange(program, neighbour="b", rounds=3):
    actions = list(program.start(0.0, [neighbour]))
    for k in range(rounds):
        actions = list(program.wake(k + 1.0, "round"))
    return next(action.message for action in actions if isinstance(action, Send))


def test_a_site_with_other_features_is_refused_by_name(rows):
    honest, message = gadget(rows), exchange(gadget(rows, features=6), "a")
    list(honest.start(0.0, ["b"]))
    before = honest.push_sum.mass.copy()
    (report,) = heard(honest, 1.0, "b", message)
    assert isinstance(report, Report) and report.facts["site"] == "b"
    assert "expected (1, 7) for 7 features" in report.facts["reason"]
    assert_array_equal(honest.push_sum.mass, before)
    assert not [action for action in honest.wake(2.0, "round") if isinstance(action, Send)]
    assert not list(honest.receive(2.0, "b", exchange(gadget(rows), "a"))) and "b" in honest.status()["refused"]


def test_a_message_that_was_on_its_way_when_the_edge_was_undone_is_no_fault(rows):
    """Its sums are those of thousands of rounds, of which the receiver knows nothing any more."""
    X, y = rows
    settings = GadgetSettings(alpha=ALPHA, mass_bound=2e4, lease=5.0)
    sites = {name: Gadget(HingeRows(X[k::2], y[None, k::2]), settings) for k, name in enumerate("ab")}
    for name, program in sites.items():
        list(program.start(0.0, "ba"[name == "b"]))

    def rounds(first, last, deaf=()):
        for now in range(first, last):
            sent = [(name, action) for name in sites for action in sites[name].wake(float(now), "round")]
            for name, action in sent:
                if isinstance(action, Send) and action.to not in deaf:
                    yield from sites[action.to].receive(float(now), name, action.message)

    assert not list(rounds(1, 500))
    late = next(action.message for action in sites["b"].wake(500.0, "round") if isinstance(action, Send))
    assert np.abs(late.mass.sent).max() > 2e4
    assert not list(rounds(501, 510, deaf="a"))
    assert "b" not in sites["a"].status()["neighbours"]
    assert not list(sites["a"].receive(510.0, "b", late))
    assert not list(rounds(511, 900))
    assert not any(program.status()["refused"] for program in sites.values())
    assert_allclose(sites["a"].weights, sites["b"].weights, rtol=1e-3)


class Liar(Gadget):
    """Honest for fifty rounds."""

    def __init__(self, way, *arguments):
        super().__init__(*arguments)
        self.way, self.kept = way, {}

    def wake(self, now, name):
        for action in super().wake(now, name):
            if not isinstance(action, Send) or self.rounds < 50:
                if isinstance(action, Send):
                    self.kept[action.to] = action
                yield action
            elif self.way == "replay":
                yield self.kept[action.to]
            elif self.way == "flood":
                yield from [action] * 120
            else:
                yield Send(action.to, self.twisted(action.message))

    def twisted(self, message):
        mass, iterate = message.mass, message.iterate
        wrong = {"NaN": np.nan, "infinite": np.inf, "mass": 1e12, "weights": 1e7}[self.way]
        if self.way == "weights":
            iterate = np.full_like(iterate, wrong)
        else:
            mass = msgspec.structs.replace(mass, sent=mass.sent + wrong)
        return Exchange(mass, message.steps, iterate)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("way", ["NaN", "infinite", "mass", "weights", "replay", "flood"])
def test_a_faulty_site_is_dropped_by_name_and_moves_nobody(rows, way):
    X, y = rows
    site = deal("random", y, np.random.default_rng(0).permutation(len(y)), 5)
    settings = GadgetSettings(alpha=ALPHA, tol=1e-12, norm_bound=1e4, mass_bound=1e6, max_messages=50)

    def make(i):
        own = HingeRows(X[site == i], y[None, site == i])
        return Liar(way, own, settings) if i == 2 else Gadget(own, settings)

    names = [f"site{i}" for i in range(5)]
    simulator = Simulator({name: lambda i=i: make(i) for i, name in enumerate(names)}, make_graph("ring", 5))
    simulator.run(until=700)
    honest = [simulator.programs[name] for name in names if name != "site2"]
    for name in ("site1", "site3"):
        assert list(simulator.programs[name].neighbourhood.refused) == ["site2"]
    reasons = [report.facts["reason"] for _, _, report in simulator.reports if report.what == "refused"]
    expected = {"NaN": "NaN", "infinite": "infinite", "mass": "adds 1e", "weights": "a norm", "replay": "repeats old",
                "flood": "more than 50 messages a second"}  # fmt: skip
    assert len(reasons) >= 2 and all(expected[way] in reason for reason in reasons)
    kept = site != 2
    least = linear_sites.optimum(X[kept], y[kept])
    for program in honest:
        assert objective(X[kept], y[kept], program.weights[0]) <= 1.01 * least


def test_a_late_neighbour_is_not_taken_for_one_that_repeats_itself(rows):
    """What was on the way while this site undid the edge adds nothing, but is no repetition: a busy site hears much."""
    X, y = rows
    a, b = (Gadget(HingeRows(X[part], y[None, part]), GadgetSettings(alpha=ALPHA)) for part in ODD_AND_EVEN)
    for program, other in ((a, "b"), (b, "a")):
        list(program.start(0.0, [other]))
    for action in b.wake(0.5, "round"):
        list(a.receive(0.5, "b", action.message) if isinstance(action, Send) else ())
    on_the_way = [[action.message for action in a.wake(k, "round") if isinstance(action, Send)] for k in range(1, 401)]
    for k, (message,) in enumerate(on_the_way):
        list(b.receive(k, "a", message))
        if k == 50:
            b.leave("a")
    assert not b.neighbourhood.refused
    for message in (message for (message,) in on_the_way[:1] * 101):
        list(b.receive(400, "a", message))
    assert not b.neighbourhood.refused  # networks repeat messages
    for message in (message for (message,) in on_the_way * 5):
        list(b.receive(400, "a", message))
    assert "repeats old messages" in b.neighbourhood.refused["a"]


def test_who_has_less_than_nothing_left_gives_none_of_it(rows):
    """What it got of a neighbour that has gone it may have given away: its mass is negative for a moment."""
    program = gadget(rows)
    exchange(program, "b")
    list(program.receive(3.0, "b", exchange(gadget(rows), "a")))
    program.push_sum.mass[program.weights.size] = -1.0
    before = program.push_sum.edges["b"].sent.copy()
    (said,) = (action.message for action in program.wake(4.0, "round") if isinstance(action, Send))
    assert_array_equal(said.mass.sent, before)
    program.push_sum.mass[program.weights.size] = 1.0
    (said,) = (action.message for action in program.wake(5.0, "round") if isinstance(action, Send))
    assert said.mass.sent[program.weights.size] > before[program.weights.size]


def test_a_site_that_begins_is_not_led_by_one_of_two(rows):
    late, message = gadget(rows), exchange(gadget(rows), "a")
    list(late.start(0.0, ["b", "c"]))
    for name, steps in (("b", 40), ("c", 10**12)):
        list(late.receive(0.5, name, Exchange(message.mass, steps, message.iterate)))
    list(late.wake(1.0, "round"))
    assert 40 <= late.steps <= 41


@pytest.mark.parametrize("name", ["weights", "average", "pull", "activity", "price"])
def test_a_state_with_values_that_are_none_is_refused(rows, name):
    program = gadget(rows)
    exchange(program)
    state = unpack(pack(program.checkpoint()))
    state[name].flat[0] = np.nan
    with pytest.raises(ValueError, match=f"its {name} are NaN or infinite"):
        gadget(rows).restore(state)


@pytest.mark.parametrize("gradient", ["tracked", "local"])
def test_no_site_tells_weights_that_others_refuse(rows, gradient):
    """Sums that no rows have, as hostile members may bring about, throw the iterate far off."""
    X, y = rows
    settings = GadgetSettings(alpha=ALPHA, gradient=gradient, norm_bound=20 * ALPHA**-0.5)
    for wrong in (1e40, 1e100):
        program = gadget_of(HingeRows(X[:50, :7], y[None, :50]), settings)
        exchange(program)
        program.push_sum.mass[: program.weights.size] = wrong
        program.weights = np.full_like(program.weights, wrong)
        list(program._learn())
        assert np.linalg.norm(program.weights) <= settings.norm_bound / 2 * (1 + 1e-12)


def test_weights_of_members_at_the_bound_leave_room_for_rounding(rows):
    X, y = rows
    settings = GadgetSettings(alpha=ALPHA, norm_bound=20 * ALPHA**-0.5)
    program, other = (Gadget(HingeRows(X[:50, :7], y[None, :50]), settings) for _ in range(2))
    exchange(program)
    message = exchange(other, "a")
    told = np.full_like(program.weights, settings.norm_bound / program.weights.size**0.5 * (1 - 1e-9))
    list(program.receive(3.0, "b", msgspec.structs.replace(message, iterate=told)))
    assert np.linalg.norm(program._iterates["b"]) <= settings.norm_bound / 2 * (1 + 1e-12)
