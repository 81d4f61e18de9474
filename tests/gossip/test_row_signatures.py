"""Rows that are passed on are those of the site that they are said to be of, or nobody's."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
import scipy.sparse as sp
from authority import identities
from fuzz.damaged_messages import plain
from fuzz.hostile_messages import SIGNED, hostile
from fuzz.listening import Listening, together

from dimargin import minimum_enclosing_ball
from dimargin.gossip.identity import Identity
from dimargin.gossip.messages import decoder, encode, pack, unpack
from dimargin.gossip.programs.candidates import Candidates, Name, Named, points_of
from dimargin.gossip.programs.core_set_machines import CodedRows, CoreSetMachines
from dimargin.gossip.programs.core_set_settings import CoreSetSettings
from dimargin.gossip.programs.row_signatures import RowSignatures

KNOWN = identities("north", "east", "south", "eve")
STEP = 1.0
SETTINGS = CoreSetSettings(epsilon=0.0, codes=(1,), schema="schema", norm_bound=100.0)
X = np.random.default_rng(0).normal(size=(40, 3))


def site(name, rows, neighbours, settings=SETTINGS):
    program = CoreSetMachines(name, CodedRows(rows, np.ones(rows.shape[0])), settings, KNOWN[name])
    return Listening(name, program, neighbours)


def in_a_row(rows=X):
    """North, east and south, each of which hears those beside it only; eve hears all."""
    return [
        site("north", rows[0::3], ["east", "eve"]), site("east", rows[1::3], ["north", "south", "eve"]),
        site("south", rows[2::3], ["east", "eve"]),
    ]  # fmt: skip


def message_of(name, points, signatures=None, **changes):
    """A message with points, signed by the site that they are of if nobody else has signed them."""
    signatures = signatures or RowSignatures(KNOWN[name], "schema")
    fields = {**points.fields(), **signatures.fields(points.by_content()), "digest": points.digest, **changes}
    return Candidates(**fields, quiet=0, schema="schema")


def chosen(one):
    return one.program.machines[0].chosen


def refused(one):
    return one.program.neighbourhood.refused


def test_all_agree_on_the_exact_ball():
    for rows in (X, sp.csr_array(np.where(np.abs(X) < 0.3, 0.0, X))):
        sites = in_a_row(rows)
        together(sites, 20.0, STEP)
        dense = rows.toarray() if sp.issparse(rows) else rows
        ball = minimum_enclosing_ball(dense, 0)
        expected = {(("north", "east", "south")[k % 3], k // 3) for k in ball.core_set_indices.tolist()}
        for one in sites:
            assert {name[:2] for name in chosen(one).points.names} == expected and not refused(one)
            assert chosen(one).value == pytest.approx(ball.radius**2, rel=1e-9)


def test_rows_under_the_name_of_another_are_refused_and_go_no_further():
    """Without signatures north would refuse east, who passes its rows on, and never agree with it."""
    sites = _, east, south = in_a_row()
    together(sites, 20.0, STEP)
    before = [chosen(one).rank for one in sites]
    lie = Named.of("north", 90, np.full((1, 3), 7.0), np.ones(1))
    east.hear("eve", message_of("eve", lie))
    assert "row 90 of site 'north' has a certificate for 'eve'" in refused(east)["eve"]
    stolen = message_of("east", Named.of("east", 0, X[1:2], np.ones(1))).certificates
    south.hear("eve", message_of("eve", Named.of("east", 0, X[1:2] * 9, np.ones(1)), certificates=stolen))
    assert "row 0 of site 'east' has an invalid signature" in refused(south)["eve"]
    together(sites, 20.0, STEP)
    assert [chosen(one).rank for one in sites] == before
    assert [set(refused(one)) for one in sites] == [set(), {"eve"}, {"eve"}]


@pytest.mark.parametrize(
    "change",
    [
        lambda points: replace(points, X=points.X * (1 + 1e-15)),
        lambda points: replace(points, masses=2 * points.masses),
        lambda points: replace(points, names=tuple(name._replace(row=7) for name in points.names)),
        lambda points: replace(points, names=tuple(name._replace(site="north") for name in points.names)),
    ],
    ids=["values", "mass", "number", "site"],
)
def test_a_row_that_is_changed_on_its_way_does_not_fit_the_signature_of_its_site(change):
    """The member that passes it on has the signature and the certificate that its site has sent."""
    sites = _, _, south = in_a_row()
    together(sites, 20.0, STEP)
    before = [chosen(one).rank for one in sites]
    row = Named.of("east", 0, X[1:2] * 0.99, np.ones(1))  # which east has had once, and has signed
    genuine = RowSignatures(KNOWN["east"], "schema").fields(row.by_content())
    changed = change(row)
    site_of = changed.names[0].site
    south.hear("eve", msgspec.structs.replace(message_of("eve", changed), **genuine))
    reason = refused(south)["eve"]
    assert f"row {changed.names[0].row} of site {site_of!r} has a" in reason
    assert ("invalid signature" in reason) == (site_of == "east")
    together(sites, 20.0, STEP)
    assert [chosen(one).rank for one in sites] == before
    assert [set(refused(one)) for one in sites] == [set(), set(), {"eve"}]


def test_a_row_that_is_passed_on_as_it_is_fits():
    sites = _, _, south = in_a_row()
    row = Named.of("east", 0, X[1:2] * 9, np.ones(1))
    signed = RowSignatures(KNOWN["east"], "schema").fields(row.by_content())
    genuine = msgspec.structs.replace(message_of("eve", row), **signed)
    south.hear("eve", genuine)
    together(sites, 20.0, STEP)
    assert not refused(south) and ("east", 0) in {name[:2] for name in chosen(south).points.names}
    here = RowSignatures(KNOWN["south"], "schema")
    assert here.check(row.by_content(), genuine) is None
    other_label = replace(row, labels=-row.labels).by_content()
    assert "row 0 of site 'east' has an invalid signature" in here.check(other_label, genuine)


def test_a_site_may_invent_rows_of_its_own():
    """Which nobody else can tell: a signature says whose a row is, not that it is true."""
    sites = in_a_row()
    sites[2].hear("eve", message_of("eve", Named.of("eve", 0, np.full((1, 3), 50.0), np.ones(1))))
    together(sites, 20.0, STEP)
    assert not any(map(refused, sites))
    assert all("eve" in {name.site for name in chosen(one).points.names} for one in sites)


def test_a_site_that_signs_two_rows_of_one_number_has_two_rows():
    """Both are told to different sites: nobody who passes them on is to blame, and all agree."""
    sites = in_a_row()
    for one, far in zip(sites, (8.0, -8.0, 0.1), strict=True):
        one.hear("eve", message_of("eve", Named.of("eve", 0, np.full((1, 3), far), np.ones(1))))
    together(sites, 20.0, STEP)
    assert not any(map(refused, sites)) and len({chosen(one).rank for one in sites}) == 1
    of_eve = [name for name in chosen(sites[0]).points.names if name.site == "eve"]
    assert [name.row for name in of_eve] == [0, 0] and len(set(of_eve)) == 2


@pytest.mark.parametrize("kind", SIGNED)
def test_hostile_signatures(kind, rng):
    (north, *_) = sites = in_a_row()
    together(sites[1:], 5.0, STEP)
    data = encode(message_of("eve", Named.of("eve", 0, np.eye(3), np.ones(3))))
    assert plain(data)["signers"] is not None
    north.hear("eve", hostile(data, rng, kind))
    assert "eve" in refused(north) and not [facts for what, facts in north.said if what == "broken"]
    together(sites, 20.0, STEP)
    assert len({chosen(one).rank for one in sites}) == 1 and not {"east", "south", "north"} & set(refused(north))


@pytest.fixture
def rng():
    import random

    return random.Random(0)


def test_signatures_are_of_one_schema():
    (north, *_) = in_a_row()
    other = RowSignatures(KNOWN["eve"], "another schema")
    north.hear("eve", message_of("eve", Named.of("eve", 0, np.eye(3), np.ones(3)), other))
    assert "row 0 of site 'eve' has an invalid signature" in refused(north)["eve"]


def test_rows_that_a_site_had_once_are_its_rows_still():
    """As after its state was deleted, and its file rewritten."""
    sites = in_a_row()
    together(sites, 10.0, STEP)
    sites[0] = site("north", X[0::3] * 0.5, ["east", "eve"])
    together(sites, 20.0, STEP)
    assert not any(map(refused, sites)) and len({chosen(one).rank for one in sites}) == 1
    own = sites[0].program.machines[0].own
    old = [name for name in chosen(sites[0]).points.names if name.site == "north" and name not in own.names]
    assert old and sites[0].program.status()["rows_shared"] == len(sites[0].program.machines[0].given)


def test_signatures_of_rows_that_no_core_set_has_are_forgotten():
    sites = in_a_row()
    together(sites, 20.0, STEP)
    before = [set(one.program._signatures._signed) for one in sites]
    sites[0].program.append(CodedRows(9 * X, np.ones(40)))
    together(sites, 20.0, STEP)
    for one, old in zip(sites, before, strict=True):
        names = set(chosen(one).points.names)
        assert len(old) > 2 and set(one.program._signatures._signed) == names and not refused(one)
        assert len(old - names) > 2


def test_every_row_is_signed_and_checked_once_for_all_machines(monkeypatch):
    rng, settings = np.random.default_rng(1), CoreSetSettings("margin", 1e-3, C=1.0, codes=(0, 1, 2), schema="schema")
    rows = [CodedRows(rng.normal(size=(9, 2)), np.arange(9.0) % 3) for _ in range(2)]
    signed, checked = [], []
    for name, kept in (("sign", signed), ("checked", checked)):
        before = getattr(Identity, name)
        monkeypatch.setattr(Identity, name, lambda self, *a, b=before, kept=kept: kept.append(a[-1]) or b(self, *a))
    sites = [Listening(name, CoreSetMachines(name, own, settings, KNOWN[name]), [other])
             for name, other, own in zip(("north", "south"), ("south", "north"), rows, strict=True)]  # fmt: skip
    together(sites, 20.0, STEP)
    assert len(set(signed)) == len(signed) and 2 < len(checked) <= len(signed) == len({*signed, *checked})


def test_state_keeps_signatures_and_takes_over_none_that_are_not_valid():
    sites = in_a_row()
    together(sites, 20.0, STEP)
    state = unpack(pack(sites[0].program.checkpoint()))
    again = site("north", X[0::3], ["east"]).program
    again.restore(state)
    assert again.machines[0].chosen.rank == chosen(sites[0]).rank
    message = again.machines[0].message(again.machines[0].chosen.points)
    assert decoder((Candidates,))(encode(message)).signatures == state["machines"][0]["signatures"]
    (before,) = state["machines"]
    before["signatures"] = [b"x"] * len(before["signatures"])
    again = site("north", X[0::3], ["east"]).program
    again.restore(state)
    assert again.machines[0].chosen is None and again.machines[0].given == set(before["given"])


def test_content_tells_points_apart():
    rows = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 2.0], [1.0, 0.0, 2.0]])
    for X in (rows, sp.csr_array(rows)):
        points = Named.of("a", 0, X, np.ones(3)).by_content()
        assert [name.content == points.names[0].content for name in points.names] == [True, False, True]
        others = [Named.of("a", 0, X, -np.ones(3)), Named.of("a", 0, X, np.ones(3), np.full(3, 2.0))]
        contents = {points.names[0].content, *(other.by_content().names[0].content for other in others)}
        assert len(contents) == 3 and {len(content) for content in contents} == {32}
    points = Named.of("a", 0, rows, np.ones(3)).by_content()
    sent = decoder((Candidates,))(encode(message_of("eve", Named.of("eve", 0, rows, np.ones(3)))))
    assert points_of(msgspec.structs.asdict(sent), 3).by_content().names[1] == Name("eve", 1, points.names[1].content)
    assert replace(points, names=tuple(name._replace(site="b") for name in points.names)).digest != points.digest
