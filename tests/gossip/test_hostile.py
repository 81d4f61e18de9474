"""What anybody may send, an honest site survives: it goes on, refuses the sender, and repeats nothing of it."""

import errno
import math
import os
import random
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest
from contract_transport import Counting, Number, Site
from fuzz import fuzz_messages
from fuzz.damaged_messages import array, packed, plain, values_of
from fuzz.hostile_messages import KINDS, hostile
from fuzz.listening import Listening, together
from hostile_sites import (
    CORE_SET,
    CORE_SET_TEXT,
    GOSSIP,
    NAMES,
    QUANTISED,
    QUICK,
    STEP,
    go_on,
    refused,
    rows_of,
    site,
    three,
)  # fmt: skip
from numpy.testing import assert_array_equal

from dimargin.gossip import state_file
from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import decoder, pack, unpack
from dimargin.gossip.program import Report, Send, Wake
from dimargin.gossip.programs.agreement import Agreement
from dimargin.gossip.schema import Schema
from dimargin.gossip.sites.core_set_options import CoreSetOptions
from dimargin.gossip.sites.gossip_options import GossipOptions
from dimargin.gossip.state_file import StateError, write_state

# ---- lies that are refused by their words ----------------------------------------------------------------------------


def _with_points(message, **changes):
    """A message that has one, of eve."""
    X, column = np.array([[0.5, 0.5, 0.5]]), array(np.ones(1))
    rows = array(np.array([3]), "<i8")
    points = {"sites": ["eve"], "rows": rows, "X": array(X), "labels": column, "masses": column, "digest": "other"}
    return message | points | changes


def _with_first(name, value):
    """A message with one point, of which a column begins with another value."""

    def change(message):
        message = _with_points(message)
        values = values_of(message[name])
        values.flat[0] = value
        return message | {name: array(values, message[name][0])}

    return change


def _with_pointers(message):
    """Whose differences overflow, and are not negative."""
    pointers, column = np.array([0, 2**62, -(2**63), -(2**62), 0, 2]), array(np.ones(5))
    assert (np.diff(pointers) >= 0).all()
    values = {"X": array([1.0, 1.0]), "indices": array([0, 1], "<i8"), "indptr": array(pointers, "<i8")}
    rows = array(np.arange(5), "<i8")
    return _with_points(message, sites=["eve"] * 5, rows=rows, labels=column, masses=column, **values)


def _without_rows(message):
    """In a first message, of which one output, three features and the intercept come before the number of rows."""
    sent = values_of(message["mass"]["sent"])
    sent[4] = -200.0
    return message | {"mass": message["mass"] | {"sent": array(sent), "knows": 0, "heard": 0}}


def _without_gamma(message):
    assert message["terms"]["gamma"] is None
    terms = {name: value for name, value in message["terms"].items() if name != "gamma"}
    return message | {"terms": terms, "sealed": True}


WRONG_COUNTS = [2**64 - 1, 2**63, 2**53 + 1, -1]
LABELS_OF_TWO_KINDS = (lambda m: m | {"labels": ["ant", 7]}, "its labels must be all texts or all numbers")
LIES = {
    "card": (GOSSIP, [
        *((lambda m, v=v: m | {"rows": {"north": [v, 0]}}, "`$.rows[...][0]`") for v in (*WRONG_COUNTS, 1.5, True)),
        *(
            (lambda m, n=n: m | {"rows": {f"site{k}": [1, 1] for k in range(n)}}, "length <= 1024 - at `$.rows`")
            for n in (1025, 200_000)
        ),
        LABELS_OF_TWO_KINDS,
        (lambda m: m | {"low": array(np.zeros(2))}, "limits have the shapes"),
        (lambda m: m | {"low": array(np.full(3, np.nan))}, "low has NaN"),
    ]),
    "card without labels": (CORE_SET_TEXT, [LABELS_OF_TWO_KINDS]),
    "card of core-sets": (CORE_SET, [(_without_gamma, "gamma is 'missing' there and None here")]),
    "exchange": (GOSSIP, [
        (lambda m: m | {"iterate": array(1.0)}, "iterate has shape (), expected 2 dimensions"),
        *(
            (lambda m, c=c, v=v: m | {"mass": m["mass"] | {c: v}}, f"`$.mass.{c}`")
            for c in ("knows", "life", "sequence", "heard") for v in WRONG_COUNTS
        ),
        (
            lambda m: m | {"mass": m["mass"] | {"sent": array(np.ones(m["mass"]["sent"][1]), "|b1")}},
            "sent is of dtype |b1, expected <f8",
        ),
        *(
            (lambda m, v=v: m | {"mass": m["mass"] | {"sent": array(np.full(m["mass"]["sent"][1], v))}}, "sent has NaN")
            for v in (math.nan, math.inf)
        ),
        (_without_rows, "number of rows cannot fall"),
    ]),
    "candidates": (CORE_SET, [
        (_with_first("X", math.nan), "X has NaN"),
        (_with_first("X", math.inf), "X has NaN, infinite"),
        (_with_first("X", 1e300), "X has NaN, infinite or other values"),
        (_with_first("X", 1e140), "a point has a norm of"),
        (_with_first("masses", 1e-320), "masses has"),
        (_with_first("masses", 2.0), "weights that are not between 1 and 1"),
        (_with_first("masses", 0.0), "masses has"),
        (_with_first("rows", 2**62), "rows has"),
        (_with_first("rows", -1), "rows has"),
    ]),
    "candidates of text": (CORE_SET_TEXT, [
        *(
            (lambda m, j=j: _with_points(m, X=array([1.0]), indices=array([j], "<i8"), indptr=array([0, 1], "<i8")), w)
            for j, w in [*((j, "indices has") for j in (2**62, 2**63 - 1, -1)), (10**6, "feature 1000000")]
        ),
        (_with_pointers, "indptr has"),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("kind", LIES)
def test_a_lie_is_refused_and_changes_nothing(kind):
    """Each comes from another member, and ended or poisoned a site once."""
    options, lies = LIES[kind]
    kind = kind.split()[0]
    north, south, said = three(options, agreed=kind != "card")
    program = north.program
    before = program.schema.digest, program.counts, program.sealed
    core_sets = [] if kind != "candidates" else [one.chosen.points.names for one in program.learner.machines]
    for number, (lie, words) in enumerate(lies):
        north.hear(f"eve{number}", packed(lie(said[kind])))
        assert words in refused(north, f"eve{number}"), words
    go_on(north, south)
    assert (program.schema.digest, program.counts, program.sealed) == before
    assert core_sets == [] or [one.chosen.points.names for one in program.learner.machines] == core_sets


# ---- each of these ended or poisoned a site once ---------------------------------------------------------------------


def test_rows_of_a_site_are_told_by_itself_only(tmp_path):
    north, south, said = three()
    lie = {"north": [2**53, 0], "south": [2**53, 0], "eve": [1, 14], "far": [3, 5]}
    north.hear("eve", packed(said["card"] | {"rows": lie}))
    assert north.program.counts == {"north": 14, "south": 14, "eve": 14, "far": 5} and not refused(north)
    X, y = rows_of(7, wide=False)
    north.site._carry_out(
        north.program.append(north.now, X, y, Schema.of(X, y, north.program.schema.terms, ("a", "b", "c")))
    )
    go_on(north, south)
    assert south.program.counts["north"] == 28


def test_a_state_that_holds_what_others_said_of_this_site_is_healed(tmp_path):
    north, *_ = three()
    state = unpack(pack(north.program.checkpoint()))
    state["rows"] |= {"north": [2**64 - 1, 0], "south": [2**64 - 1, 5]}
    again = site("north", 0).program
    again.restore(state)
    assert again.rows["north"] == [1, 14] and "south" not in again.rows and again.learner.steps > 0


def test_a_worm_of_labels():
    north, south, said = three(agreed=False)
    worm = packed(said["card"] | {"labels": [0, 1, math.nan]})
    north.hear("eve", worm)
    assert "at `$.labels[2]`" in refused(north)
    go_on(north, south)
    for one in (north, south):
        assert one.program.schema.labels == (0, 1)
    with pytest.raises(ValueError, match="a label is NaN"):
        Schema.of(np.zeros((2, 1)), np.array([1.0, math.nan]), {})
    state = unpack(pack(north.program.checkpoint()))
    state["schema"]["labels"].append(math.nan)
    with pytest.raises(ValueError, match="a label is NaN"):
        site("north", 0).program.restore(state)


def test_a_worm_in_a_state_is_told_of_by_the_name_of_the_file(tmp_path):
    north, *_ = three()
    state = unpack(pack(north.program.checkpoint()))
    state["schema"]["labels"].append(math.nan)
    path = tmp_path / "state"
    write_state(path, pack({"site": "north", "incarnation": 0, "program": state}), sync=False)
    with pytest.raises(StateError, match=r"state is not a state from which .*a label is NaN"):
        site("north", 0, state=path)


@pytest.mark.parametrize("counter", ["knows", "life"])
def test_counters_at_their_limit_do_not_silence_a_site(counter):
    north, south, said = three()
    said["exchange"]["mass"][counter] = LIMITS.lives
    north.hear("eve", packed(said["exchange"]))
    north.program.learner.leave("eve")
    go_on(north, south)


def test_steps_at_their_limit_silence_no_site_that_begins():
    north, _, said = three()
    late = site("late", 5, neighbours=("eve",), n_sites=1)
    late.hear("eve", packed(said["card"] | {"sealed": True}))
    late.hear("eve", packed(said["exchange"] | {"steps": 2**53}))
    late.wake(1.0)
    assert late.program.learner.steps >= 2**52 and not [what for what, _ in late.said if what == "withheld"]
    assert north.program.learner.steps < 1000


def test_a_feature_that_hardly_varies_makes_no_scale_infinite():
    north, south, said = three(agreed=False)
    low, high = (values_of(said["card"][name]) for name in ("low", "high"))
    low[:], high[:] = 0.0, 1e-310
    schema = Schema(north.program.schema.terms, None, (), low, high)
    assert_array_equal(schema.factors, 1.0)
    go_on(north, south)


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_thousands_of_names_fill_no_table_and_no_log():
    north, south, said = three()
    lie = packed(said["exchange"] | {"iterate": array(1.0)})
    for k in range(20_000):
        north.hear(f"eve{k}", lie if k % 2 else b"noise")
    status = north.site.status()
    assert len(status["traffic"]) <= LIMITS.sites + 1 and status["traffic"]["(others)"]["messages_in"] > 18_000
    assert len(refused(north, "eve1")) and len(north.program.status()["refused"]) <= LIMITS.sites
    assert max(Counter(what for what, _ in north.said).values()) <= LIMITS.lines + 1
    go_on(north, south)
    lines = len(north.said)
    north.wake(north.now + 60)
    north.hear("south", b"noise")
    assert ("lines left out" in [what for what, _ in north.said[lines:]]) and len(north.said) < lines + 20


def test_sites_that_are_made_up_leave_no_room_but_take_none_either():
    north, south, said = three(agreed=False)
    for half in range(2):
        made_up = {f"site{half}-{k}": [1, 1] for k in range(1000)}
        north.hear("eve", packed(said["card"] | {"rows": made_up}))
    assert len(north.program.rows) == LIMITS.sites and not refused(north)
    go_on(north, south)
    assert len(south.program.rows) <= LIMITS.sites


def test_labels_that_are_too_many_together():
    north, south, said = three(agreed=False)
    for half in range(2):
        labels = list(range(half * 600, half * 600 + 600))
        north.hear("eve", packed(said["card"] | {"labels": labels, "own_labels": labels}))
    assert "1200 labels, expected at most 1024" in refused(north) and len(north.program.schema.labels) == 600
    go_on(north, south)


def test_who_brings_something_new_all_the_time_is_refused():
    north, south, said = three(agreed=False)
    for k in range(LIMITS.widenings + 1):
        high = values_of(said["card"]["high"]) + k
        north.hear("eve", packed(said["card"] | {"high": array(high)}))
        north.now += 0.1
        assert bool(refused(north)) == (k == LIMITS.widenings)
    assert "widened the schema 1024 times" in refused(north)
    go_on(north, south)


def test_a_core_set_that_no_message_holds_ends_nobody():
    """A member's rows, each within bounds, can be so many that those who pass them on would send too much."""
    north, south = (site(name, k, CORE_SET, n_sites=2, neighbours=("north", "south")) for k, name in enumerate(NAMES))
    together([north, south], 2.0, STEP)
    north.site._decode = decoder(north.program.messages, 300)
    X, y = rows_of(9, wide=False)
    north.site._carry_out(
        north.program.append(north.now, 3 * X, y, Schema.of(3 * X, y, north.program.schema.terms, ("a", "b", "c")))
    )
    together([north, south], 1.0, STEP)
    (facts,) = [facts for what, facts in north.said if what == "withheld"]
    assert facts["to"] == "south" and "bytes, expected at most 300" in facts["reason"]
    assert north.site.status()["withheld"] == {"south": facts["reason"]}
    north.site._decode = decoder(north.program.messages)
    together([north, south], 61.0, STEP)
    assert not north.site.status()["withheld"]
    assert north.program.learner.machines[0].chosen.rank == south.program.learner.machines[0].chosen.rank


def test_features_that_no_message_holds():
    text = CoreSetOptions(kind="svdd", **QUICK), GossipOptions(alpha=0.01, **QUICK)
    wide = Schema({"fit_intercept": True}, None, (0, 1, 2), np.zeros(10**6), np.ones(10**6))
    assert text[0].message_size(wide) < LIMITS.message < text[1].message_size(wide)
    one, X = Schema.of(np.zeros((1, 1)), np.zeros(1), {}), np.zeros((1, 1))
    program = Agreement("north", X, np.zeros(1), one, GOSSIP)
    assert "expected at most 67108864" in program._size_fault(wide) and program._size_fault(one) is None


def test_equal_labels_of_two_kinds_are_one():
    X = np.zeros((2, 1))
    ints, floats = Schema.of(X, np.array([1, 2]), {}), Schema.of(X, np.array([1.0, -0.0]), {})
    assert ints.union(floats).digest == floats.union(ints).digest
    assert list(map(repr, floats.union(ints).labels)) == ["0.0", "1", "2"]


# ---- programs that fail ----------------------------------------------------------------------------------------------


class Fragile(Counting):
    """Fails at what it hears, after it has wanted something."""

    refusals: tuple = ()

    def receive(self, now, sender, message):
        yield Wake(7.0, "wanted")
        yield Send("south", Number("north", 1))
        raise KeyError("no such thing")

    def refuse(self, now, sender, reason):
        self.refusals = (*self.refusals, (sender, reason))
        yield Report("refused", {"site": sender})


class Hopeless(Fragile):
    def refuse(self, now, sender, reason):
        raise RuntimeError("not even that")


def test_a_program_that_fails_at_a_message_goes_on_without_its_sender():
    one = Listening("north", Fragile("north", period=1.0))
    said = one.hear("eve", Number("eve", 1))
    (broken,) = [facts for what, facts in said if what == "broken"]
    assert broken["error"] == "KeyError('no such thing')" and broken["place"].startswith("test_hostile.py:")
    assert broken["place"].endswith(" in receive") and ("refused", {"site": "eve"}) in said
    assert one.program.refusals == (("eve", "the program has failed at its message: KeyError('no such thing')"),)
    assert [to for to, _ in one.link.sent] == ["south"] and one.site._timers._newest.keys() >= {"wanted"}
    assert not one.hear("eve", Number("eve", 2)) and one.hear("south", Number("south", 1))
    hopeless = Listening("north", Hopeless("north", period=1.0))
    assert [facts["error"] for what, facts in hopeless.hear("eve", Number("eve", 1)) if what == "broken"] == [
        "KeyError('no such thing')",
        "RuntimeError('not even that')",
    ]
    assert not hopeless.hear("eve", Number("eve", 2))


def test_an_error_of_this_site_itself_is_nobodys_fault(tmp_path, monkeypatch):
    class Full(Fragile):
        def receive(self, now, sender, message):
            yield Send("south", Number("north", 1))

    def refuse(path, body, sync):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    one = Listening("north", Full("north"), state=tmp_path / "state")
    monkeypatch.setattr(state_file, "write_state", refuse)
    with pytest.raises(PermissionError):
        one.hear("eve", Number("eve", 1))


class Poisoned(Site):
    """Says what nobody would listen to."""

    messages = GOSSIP.messages

    def start(self, now, neighbours):
        north, *_ = three()
        north.wake(north.now + STEP)
        genuine = next(data for _, data in north.taken("eve") if plain(data)["kind"] == "exchange")
        message = north.site._decode(genuine)
        for iterate in (message.iterate, message.iterate * math.nan):
            yield Send("south", msgspec.structs.replace(message, iterate=iterate))
        yield Send("south", msgspec.structs.replace(message, steps=2**64))
        yield Send("south", msgspec.structs.replace(message, steps=2**53 + 1))


def test_what_others_would_refuse_does_not_leave():
    one = Listening("north", Poisoned("north"))
    assert len(one.link.sent) == 1
    (withheld,) = [facts for what, facts in one.said if what == "withheld"]  # the first, and then every hundredth
    assert "iterate has NaN" in withheld["reason"] and one.site.status()["traffic"]["south"]["dropped"] == 3


# ---- all kinds -------------------------------------------------------------------------------------------------------


CORPUS = sorted((Path(__file__).parent.parent / "fuzz" / "corpus" / "messages").iterdir())


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_what_once_failed(path):
    fuzz_messages.check(path.read_bytes())


@pytest.mark.parametrize("agreed", [False, True])
@pytest.mark.parametrize(
    "options", [GOSSIP, QUANTISED, CORE_SET, CORE_SET_TEXT], ids=["gossip", "quantised", "core-set", "text"]
)
def test_no_kind_of_hostility_ends_a_site_or_has_two_part(options, agreed):
    north, south, said = three(options, agreed)
    for what, fields in said.items():
        for kind in KINDS[what]:
            for seed in range(3):
                data = hostile(packed(fields), random.Random(seed), kind)
                for one in (north, south):
                    one.hear(f"eve-{what}-{kind}-{seed}", data)
    go_on(north, south)
    assert {one.program.rows[one.name][1] for one in (north, south)} == {14}
    assert len(KINDS["card"]) > 20 < len(KINDS["exchange"])
