"""Sites agree on features, labels and limits before they learn, and when others join."""

import msgspec
import numpy as np
import pytest
import scipy.sparse as sp
from fuzz.listening import heard
from linear_sites import ALPHA, TERMS, objective, optimum, three_classes
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.gossip.messages import pack, unpack
from dimargin.gossip.programs.agreement import Agreement, AgreementSettings, Card, Check
from dimargin.gossip.programs.gadget_settings import GadgetSettings
from dimargin.gossip.schema import Schema
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, NetworkSplit, Outage
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.sites.gossip_options import GossipOptions
from dimargin.gossip.topology import make_graph


class Gossip(GossipOptions):
    """Without bounds of what may be said."""

    def settings(self, schema, n_rows):
        return GadgetSettings(alpha=ALPHA, tol=1e-12, lease=5.0, schema=schema.digest)


def site(name, X, y, terms=TERMS, names=None, **options):
    schema = Schema.of(X, y, terms, names)
    settings = AgreementSettings(**{"settle": 4.0, "interval": 1.0, **options})
    return lambda: Agreement(name, X, y, schema, Gossip(), settings)


def run(sites, until, topology="complete", conditions=None, **options):
    simulator = Simulator(sites, make_graph(topology, len(sites)), conditions, **options)
    simulator.run(until=until)
    return simulator


def reports(simulator, what):
    return [(name, report.facts) for _, name, report in simulator.reports if report.what == what]


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["ring", "star"])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_sites_of_one_class_agree_and_learn_what_one_would(topology, loss):
    X, y = three_classes()
    parts = {
        f"site-{label}-{half}": (y == label) & (np.arange(300) % 2 == half)
        for label in ("ant", "bee", "cat")
        for half in (0, 1)
    }
    sites = {name: site(name, X[part], y[part]) for name, part in parts.items()}
    simulator = run(sites, 800, topology, Conditions.asynchronous(loss=loss) if loss else None)
    programs = list(simulator.programs.values())
    schema = Schema.of(X, y, TERMS)
    assert {program.schema.digest for program in programs} == {schema.digest}
    assert {program.n_rows for program in programs} == {300} and all(program.sealed for program in programs)
    for k, label in enumerate(schema.labels):
        signs, rows = np.where(y == label, 1.0, -1.0), schema.scaled(X)
        found = [objective(rows, signs, program.learner.weights[k]) for program in programs]
        assert max(found) <= 1.02 * optimum(rows, signs)


def test_a_number_of_sites_is_waited_for():
    X, y = three_classes()
    sites = {name: site(name, X[k::3], y[k::3], n_sites=3) for k, name in enumerate("abc")}
    simulator = run(sites, 30, conditions=Conditions(joins={"c": 60.0}))
    assert not simulator.programs["a"].sealed
    simulator.run(until=80)
    assert all(program.sealed and program.learner.steps > 5 for program in simulator.programs.values())


def test_a_site_that_was_told_of_others_does_not_begin_alone():
    X, y = three_classes()
    sites = {name: site(name, X[k::2], y[k::2], min_sites=2) for k, name in enumerate("ab")}
    simulator = run(sites, 50, conditions=Conditions(joins={"b": 60.0}))
    assert not simulator.programs["a"].sealed
    assert [name for name, _ in reports(simulator, "waiting for others")] == ["a"]
    simulator.run(until=80)
    assert all(program.sealed for program in simulator.programs.values())


def test_one_class_alone_waits_for_another():
    X, y = three_classes()
    alone = {"a": site("a", X[y == "ant"], y[y == "ant"])}
    assert not run(alone, 50).programs["a"].sealed


def test_who_differs_is_refused_by_name_and_the_others_go_on():
    X, y = three_classes()
    terms = {"a": TERMS, "b": TERMS, "c": TERMS | {"alpha": 0.5}}
    sites = {name: site(name, X[k::3], y[k::3], terms[name]) for k, name in enumerate("abc")}
    simulator = run(sites, 60)
    refused = reports(simulator, "refused")
    assert {(name, facts["site"]) for name, facts in refused} >= {("a", "c"), ("b", "c"), ("c", "a"), ("c", "b")}
    assert all("alpha is 0.5 there and 0.01 here" in facts["reason"] for _, facts in refused if facts["site"] == "c")
    assert simulator.programs["a"].learner.steps > 20 and simulator.programs["a"].n_rows == 200
    assert "c" in simulator.programs["a"].status()["refused"]


def permuted(X, order=(2, 0, 3, 1), names="abcd"):
    return {"X": X[:, order], "names": tuple(names[k] for k in order)}


def test_columns_in_another_order_are_mapped_by_their_names():
    """Bit for bit: the order of "a" is that of all, since it is the first by the names."""
    X, y = three_classes()

    def weights(**of_b):
        options = {"a": {"X": X[::2], "names": tuple("abcd")}, "b": {"X": X[1::2], "names": tuple("abcd")} | of_b}
        simulator = run({name: site(name, y=y[k::2], **options[name]) for k, name in enumerate("ab")}, 40)
        assert not reports(simulator, "refused") and simulator.programs["b"].learner.steps > 20
        X_of_b = np.random.default_rng(1).normal(size=(9, 4))
        list(simulator.programs["b"].append(40.0, *of_later_rows(X_of_b, of_b)))
        simulator.run(until=60)
        return [(program.schema.digest, program.learner.weights.tobytes()) for program in simulator.programs.values()]

    def of_later_rows(rows, of_b):
        order = [*map("abcd".index, of_b.get("names", "abcd"))]
        labels = np.array(["ant"] * 9)
        return rows[:, order], labels, Schema.of(rows[:, order], labels, TERMS, tuple("abcd"[k] for k in order))

    assert weights() == weights(**permuted(X[1::2]))


def test_the_order_of_columns_stays_once_sealed_and_two_that_meet_become_one():
    X, y = three_classes()
    here = {"names": tuple("badc"), "X": X[:, [1, 0, 3, 2]]}
    parts = {"a": here, "b": here, "c": {"names": tuple("abcd"), "X": X}, "d": {"names": tuple("abcd"), "X": X}}
    sites = {
        name: site(name, part["X"][k::4], y[k::4], names=part["names"]) for k, (name, part) in enumerate(parts.items())
    }
    late = run({name: sites[name] for name in "abc"}, 100, conditions=Conditions(joins={"c": 40.0}))
    assert {program.schema.feature_names for program in late.programs.values()} == {tuple("badc")}
    assert not reports(late, "schema grew") and late.programs["c"].learner.steps > 20
    apart = Conditions(splits=(NetworkSplit((frozenset("ab"),), 0.0, 50.0),))
    simulator = run(sites, 49, conditions=apart)
    assert [program.schema.feature_names[0] for program in simulator.programs.values()] == ["b", "b", "a", "a"]
    steps = simulator.programs["a"].learner.steps
    simulator.run(until=300)
    programs = list(simulator.programs.values())
    assert {program.schema.digest for program in programs} == {Schema.of(X, y, TERMS, tuple("abcd")).digest}
    assert all(program.learner.steps > steps and program.n_rows == 300 for program in programs)
    predicted = [np.array(p.schema.labels)[(p.schema.scaled(X) @ p.learner.weights.T).argmax(axis=1)] for p in programs]
    assert min((found == y).mean() for found in predicted) > 0.85


def test_a_site_whose_file_has_another_order_of_columns_goes_on_from_its_state():
    X, y = three_classes()
    simulator = run({name: site(name, X[k::2], y[k::2], names=tuple("abcd")) for k, name in enumerate("ab")}, 40)
    before = simulator.programs["b"]
    again = site("b", y=y[1::2], **permuted(X[1::2]))()
    again.restore(unpack(pack(before.checkpoint())))
    assert again.schema.digest == before.schema.digest
    assert_array_equal(again.learner.weights, before.learner.weights)
    assert_array_equal(again.learner.rows.X, before.learner.rows.X)


# ---- labels that differ in case only -----------------------------------------------------------------------------


def with_labels(X, y, **changes):
    """Sites of two classes each, whose labels one of them writes in another way."""
    yes = {name: np.where(y[k::3] == "ant", changes.get(name, "Yes"), "no") for k, name in enumerate("abc")}
    return {name: site(name, X[k::3], yes[name]) for k, name in enumerate("abc")}


def test_labels_that_differ_in_case_only_are_told_with_their_sites_before_they_are_learnt():
    X, y = three_classes()
    simulator = run(with_labels(X, y, b="yes", c="no"), 40)
    said = [(name, report.what, report.facts) for _, name, report in simulator.reports]
    text = (
        "the labels 'Yes' (a) and 'yes' (b) differ in case, blanks or Unicode form only; they are learnt as different"
    )
    for name in "abc":
        told = [k for k, (who, what, facts) in enumerate(said) if (who, what) == (name, "warning")]
        agreed = next(k for k, (who, what, _) in enumerate(said) if (who, what) == (name, "agreed"))
        assert text in said[told[-1]][2]["reason"] and told[-1] < agreed
        assert text in "; ".join(simulator.programs[name].similar_labels.values())
    assert simulator.programs["a"].schema.labels == ("Yes", "no", "yes")


@pytest.mark.parametrize("other", ["yes", "YES", " Yes", "Ye\u017f", "\uff39es"])
def test_ways_to_write_a_label(other):
    X, y = three_classes(30)
    program = site("a", X, np.where(y == "ant", "Yes", other))()
    [text] = refusals(program.start(0.0, []))
    assert all(f"{label!r} (a)" in text for label in ("Yes", other))
    for labels in (np.where(y == "ant", "Yes", "Yes!"), np.arange(30) / 2):
        assert not refusals(site("a", X, labels)().start(0.0, []))


def test_a_label_of_a_site_that_is_out_of_hearing():
    X, y = three_classes(30)
    program = site("a", X, np.where(y == "ant", "Yes", "no"))()
    list(program.start(0.0, ["b"]))
    other = Schema.of(X, np.where(y == "ant", "yes", "no"), TERMS)
    card = Card(**other.plain(), rows={"b": [1, 30], "c": [1, 30]}, sealed=False, own_labels=["no"])
    [text] = refusals(program.receive(1.0, "b", card))
    assert "'Yes' (a) and 'yes' (a site that is not a neighbour)" in text
    assert not refusals(program.receive(2.0, "b", card))
    program.receive(3.0, "b", msgspec.structs.replace(card, own_labels=["no", "yes"]))
    assert card.contradiction() is None
    assert "not among" in msgspec.structs.replace(card, own_labels=["maybe"]).contradiction()


def test_who_comes_back_with_the_right_terms_is_taken_in_again():
    X, y = three_classes()
    wrong = iter([True, False])

    def mended():
        return site("c", X[2::3], y[2::3], TERMS | ({"alpha": 0.5} if next(wrong) else {}), **options)()

    options = {"min_sites": 2}
    sites = {name: site(name, X[k::3], y[k::3], **options) for k, name in enumerate("ab")} | {"c": mended}
    restart = Conditions(outages=(Outage("c", 60.2, 70.2, loses_memory=True),))
    simulator = run(sites, 59, conditions=restart)
    assert "c" in simulator.programs["a"].status()["refused"] and "c" not in simulator.programs["a"].rows
    simulator.run(until=200)
    assert {name for name, _ in reports(simulator, "taken in again")} == {"a", "b"}
    for program in simulator.programs.values():
        assert not program.status()["refused"] and program.n_rows == 300 and program.learner.steps > 60
    for name, others in (("a", ["b", "c"]), ("c", ["a", "b"])):
        assert sorted(simulator.programs[name].learner.neighbourhood.heard) == others
    assert len([facts for name, facts in reports(simulator, "refused") if (name, facts["site"]) == ("a", "c")]) == 1


def refusals(actions):
    return [action.facts["reason"] for action in actions if hasattr(action, "facts")]


def test_what_a_site_has_brought_is_undone_when_its_terms_change():
    X, y = three_classes()
    simulator = run({name: site(name, X[k::2], y[k::2]) for k, name in enumerate("ab")}, 30.5)
    program = simulator.programs["a"]
    assert program.learner._sums.rows != pytest.approx(150, abs=1e-6)  # some of b's, or some at b
    card = Card(**Schema.of(X, y, TERMS | {"alpha": 0.5}).plain(), rows={"b": [2, 150]}, sealed=False)
    assert "alpha is 0.5 there" in refusals(program.receive(31.0, "b", card))[0]
    assert program.learner._sums.rows == pytest.approx(150, abs=1e-6)
    assert not [action for action in program.wake(31.0, "round") if hasattr(action, "message")]


def test_who_sends_too_many_cards_is_refused_for_good():
    X, y = three_classes()
    program = site("a", X[::2], y[::2], max_messages=20)()
    list(program.start(0.0, ["b"]))
    card = Card(**Schema.of(X[1::2], y[1::2], TERMS).plain(), rows={"b": [1, 150]}, sealed=False)
    for count in range(21):
        found = refusals(program.receive(0.001 * count, "b", card))
        assert found == (["it sends more than 20 messages a second"] if count == 20 else [])
    assert not list(program.receive(99.0, "b", card)) and "b" in program.status()["refused"]


def test_cards_of_whom_the_learner_has_refused_change_nothing():
    X, y = three_classes()
    two = np.flatnonzero(y != "cat")
    simulator = run({name: site(name, X[two[k::2]], y[two[k::2]]) for k, name in enumerate("ab")}, 30)
    program = simulator.programs["a"]
    lie = next(action.message for action in simulator.programs["b"].wake(30.0, "round") if hasattr(action, "message"))
    [reason] = refusals(heard(program, 30.0, "b", msgspec.structs.replace(lie, iterate=lie.iterate * np.nan)))
    assert "iterate has NaN" in reason and program.status()["refused"] == {"b": reason}
    digest = program.schema.digest
    card = Card(**Schema.of(X, y, TERMS).plain(), rows={"b": [9, 9]}, sealed=True)
    assert not list(program.receive(31.0, "b", card)) and program.schema.digest == digest


def test_a_late_site_with_a_new_label_and_more_features_widens_the_schema():
    X, y = three_classes()
    late = y == "cat"
    first = np.flatnonzero(~late)
    sites = {name: site(name, sp.csr_array(X[part, :3]), y[part], TERMS | {"scaling": "maxabs"}) for name, part in (
        ("a", first[::2]), ("b", first[1::2])
    )} | {"c": site("c", sp.csr_array(X[late]), y[late], TERMS | {"scaling": "maxabs"})}  # fmt: skip
    simulator = run(sites, 99, conditions=Conditions(joins={"c": 100.0}))
    steps, weights = simulator.programs["a"].learner.steps, simulator.programs["a"].learner.weights
    assert weights.shape == (1, 4)
    simulator.run(until=115)
    assert {program.schema.digest for program in simulator.programs.values()} and len(
        reports(simulator, "schema grew")
    ) >= 2
    moved = simulator.programs["a"].learner
    assert moved.weights.shape == (3, 5) and moved.steps >= steps
    simulator.run(until=500)
    rows, schema = sp.csr_array(X), simulator.programs["b"].schema
    wide = np.array(X)
    wide[~late, 3] = 0
    for program in simulator.programs.values():
        assert program.schema.digest == schema.digest and program.n_rows == 300
        predicted = np.array(schema.labels)[
            (schema.scaled(sp.csr_array(wide)) @ program.learner.weights.T).argmax(axis=1)
        ]
        assert (predicted == y).mean() > 0.8
    assert rows.shape[1] == schema.n_features


def test_two_networks_that_sealed_apart_become_one():
    X, y = three_classes()
    order = np.argsort(y, kind="stable")
    halves = {"a": order[:80], "b": order[80:150], "c": order[150:220], "d": order[220:]}
    sites = {name: site(name, X[part], y[part]) for name, part in halves.items()}
    apart = Conditions(splits=(NetworkSplit((frozenset("ab"),), 0.0, 50.0),))
    simulator = run(sites, 49, conditions=apart)
    assert len({program.schema.digest for program in simulator.programs.values()}) == 2
    simulator.run(until=600)
    assert {program.schema.digest for program in simulator.programs.values()} == {Schema.of(X, y, TERMS).digest}
    predicted = [
        (np.array(p.schema.labels)[(p.schema.scaled(X) @ p.learner.weights.T).argmax(axis=1)] == y).mean()
        for p in simulator.programs.values()
    ]
    assert min(predicted) > 0.85


def test_limits_stay_once_sealed():
    X, y = three_classes()
    sites = {name: site(name, X[k::3] * (5 if name == "c" else 1), y[k::3]) for k, name in enumerate("abc")}
    simulator = run(sites, 100, conditions=Conditions(joins={"c": 40.0}))
    both = np.concatenate([X[0::3], X[1::3]])
    for program in simulator.programs.values():
        assert_allclose(program.schema.high, both.max(axis=0))
    assert not reports(simulator, "schema grew") and simulator.programs["c"].learner.steps > 20


def test_rows_that_are_appended_are_learnt_from():
    X, y = three_classes()
    sites = {name: site(name, X[k:200:2], y[k:200:2]) for k, name in enumerate("ab")}
    simulator = run(sites, 50)
    program = simulator.programs["a"]
    actions = list(program.append(50.0, X[200:], y[200:], Schema.of(X[200:], y[200:], TERMS)))
    assert all(isinstance(action.message, Card | Check) for action in actions)
    simulator.run(until=600)
    assert simulator.programs["b"].n_rows == 300
    rows, weights = program.schema.scaled(X), simulator.programs["b"].learner.weights
    for signs, w in zip(program.schema.signs(y), weights, strict=True):
        assert objective(rows, signs, w) <= 1.02 * optimum(rows, signs)
    with pytest.raises(ValueError, match="the new rows do not fit the earlier ones: alpha is 3 there"):
        list(program.append(51.0, X[:1], y[:1], Schema.of(X[:1], y[:1], {"alpha": 3})))


@pytest.mark.parametrize("loses_memory", [False, True])
def test_a_site_that_was_down_agrees_again(loses_memory):
    X, y = three_classes()
    sites = {name: site(name, X[k::3], y[k::3]) for k, name in enumerate("abc")}
    down = Conditions(LinkFaults(), outages=(Outage("b", 30.2, 60.2, loses_memory),))
    simulator = run(sites, 120, conditions=down)
    programs = simulator.programs
    assert {program.schema.digest for program in programs.values()} == {Schema.of(X, y, TERMS).digest}
    assert programs["b"].learner.steps > 60 and "b" not in programs["a"].status()["refused"]
    assert_allclose(
        programs["b"].learner.weights,
        programs["a"].learner.weights,
        atol=0.05 * np.abs(programs["a"].learner.weights).max(),
    )


def test_a_checkpoint_knows_whose_rows_it_is_of():
    X, y = three_classes()
    program = run({"a": site("a", X, y)}, 30).programs["a"]
    state = unpack(pack(program.checkpoint()))
    again = site("a", X, y)()
    again.restore(state)
    assert_array_equal(again.learner.weights, program.learner.weights)
    more = site("a", np.concatenate([X, X[:10]]), np.concatenate([y, y[:10]]))()
    more.restore(state)
    assert_array_equal(more.learner.weights, program.learner.weights)
    assert more.rows["a"] == [2, 310] and more.learner.rows.n_rows == 310
    with pytest.raises(ValueError, match=r"the state belongs to other rows: alpha is 0\.01 there and 0\.5 here"):
        site("a", X, y, TERMS | {"alpha": 0.5})().restore(state)
