"""Several machines at one site, each with its core-set."""

import msgspec
import numpy as np
import pytest

from dimargin import CoreSetSVMClassifier
from dimargin.gossip.messages import pack, unpack
from dimargin.gossip.program import Report, Send, Stop, Wake
from dimargin.gossip.programs.core_set_machines import CodedRows, CoreSetMachines
from dimargin.gossip.programs.core_set_settings import CoreSetSettings
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.topology import make_graph
from dimargin.kernels.functions import Kernel

WANTED = CoreSetSettings(
    "margin", 1e-6, C=2.0, kernel=Kernel("rbf", gamma=0.5), intercept=True, codes=(0, 1, 2), quiet_rounds=12, lease=8.0
)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=90)
    return rng.normal(size=(90, 2)) + 1.5 * np.eye(3)[codes, :2], codes.astype(float)


def test_one_against_the_rest_is_what_each_finds(rows):
    """As the classifier of all rows does, though a site has one class; a machine of two codes is a single one."""
    X, codes = rows
    simulator = Simulator(
        {f"s{k}": lambda k=k: CoreSetMachines(f"s{k}", CodedRows(X[codes == k], codes[codes == k]), WANTED)
         for k in range(3)},
        make_graph("ring", 3), Conditions(LinkFaults(loss=0.2)),
    )  # fmt: skip
    assert simulator.run(until=200) == "stopped"
    whole = CoreSetSVMClassifier(2.0, gamma=0.5, tol=1e-6).fit(X, codes)
    for site in simulator.programs.values():
        assert [machine.settings.positive for machine in site.machines] == [0, 1, 2] and site.has_finished
        np.testing.assert_allclose(site.status()["dual_objective"], whole.dual_objective_, rtol=1e-5)
        assert site.steps == sum(machine.changes for machine in site.machines) > 3
        assert (np.array(site.status()["objective"]) >= whole.dual_objective_ * (1 - 1e-9)).all()
    two = CoreSetMachines("a", CodedRows(X, codes), CoreSetSettings("margin", codes=(0, 1)))
    assert [machine.settings.positive for machine in two.machines] == [1]


@pytest.fixture
def site(rows):
    program = CoreSetMachines("here", CodedRows(*rows), WANTED)
    actions = [*program.start(0.0, ["other"]), *program.wake(1.0, "round")]
    assert sum(isinstance(action, Wake) for action in actions) == 2  # one timer for all machines
    return program


def heard(rows, now=1.0):
    other = CoreSetMachines("other", CodedRows(*rows), WANTED)
    list(other.start(0.0, ["here"]))
    return [action.message for action in other.wake(now, "round") if isinstance(action, Send)]


def test_who_tells_of_no_machine_is_refused(site, rows):
    X, codes = rows
    for message in heard((X + 5, codes)):
        assert not list(site.receive(1.0, "other", message))
    (report,) = site.receive(1.0, "other", msgspec.structs.replace(message, output=3))
    assert report.facts == {"site": "other", "reason": "its message is for machine 3, expected one of 3"}
    assert not any(machine._received for machine in site.machines) and "other" in site.status()["refused"]
    assert not any(isinstance(action, Send) for action in site.wake(2.0, "round"))


def test_codes_that_there_are_not_are_refused(site, rows):
    X, codes = rows
    message = heard((X, codes + 1))[0]
    (report,) = site.receive(1.0, "other", message)
    assert "labels other than 0, 1, 2" in report.facts["reason"]


def test_nobody_is_done_while_a_neighbour_is_busy(site, rows):
    """It may have found a better core-set, and says nothing before it is through."""
    quiet = [machine.quiet for machine in site.machines]
    for now in range(2, 30):
        list(site.wake(float(now), "round"))
    assert [machine.quiet for machine in site.machines] == quiet and not site.has_finished
    for now in range(30, 50):
        for machine in site.machines:
            still = machine.message(machine.chosen.points.take([]))
            list(site.receive(float(now), "other", msgspec.structs.replace(still, quiet=99)))
        list(site.wake(float(now), "round"))
    assert site.has_finished
    list(site.neighbours_changed(50.0, []))  # the line is cut
    site.append(CodedRows(np.array([[9.0, 9.0]]), np.array([0.0])))
    for now in range(50, 90):
        list(site.wake(float(now), "round"))
    assert not site.has_finished and site.status()["neighbours"] == []


def test_a_site_that_is_alone_is_done_by_itself(rows):
    site = CoreSetMachines("here", CodedRows(*rows), WANTED)
    said = [*site.start(0.0, []), *(action for now in range(1, 30) for action in site.wake(float(now), "round"))]
    assert sum(isinstance(action, Stop) for action in said) == 1 and site.has_finished
    converged = [action for action in said if isinstance(action, Report) and action.what == "converged"]
    assert len(converged) == 1 and converged[0].facts["core_set"] == site.status()["core_set"]
    site.append(CodedRows(np.array([[50.0, 50.0]]), np.array([0.0])))
    assert not site.has_finished


def test_state_and_what_is_inherited(site, rows):
    state = unpack(pack(site.checkpoint()))
    again = CoreSetMachines("here", CodedRows(*rows), WANTED)
    again.restore(state)
    assert again.status() == {**site.status(), "neighbours": [], "round": 0} and again.status()["rows_shared"] > 0
    list(site.wake(2.0, "round"))
    assert pack(site.checkpoint()) == pack(again.checkpoint())  # no round changes it
    anew = CoreSetMachines("here", CodedRows(*rows), CoreSetSettings("margin", codes=(0, 1)))
    anew.inherit(state, None, None)
    assert anew.machines[0].chosen is None
    assert anew.status()["rows_shared"] == site.status()["rows_shared"]
