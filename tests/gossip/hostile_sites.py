"""Live sites for tests of what hostile members say to them."""

import numpy as np
import scipy.sparse as sp
from fuzz.damaged_messages import plain
from fuzz.listening import Listening, together

from dimargin.gossip.programs.agreement import Agreement, AgreementSettings
from dimargin.gossip.programs.gadget import Gadget
from dimargin.gossip.schema import Schema
from dimargin.gossip.sites.core_set_options import CoreSetOptions
from dimargin.gossip.sites.gossip_options import GossipOptions

STEP = 0.05
NAMES = ("north", "south")
QUICK = {"interval": STEP, "lease": 2.0}
GOSSIP, CORE_SET = GossipOptions(alpha=0.01, **QUICK), CoreSetOptions(**QUICK)
QUANTISED = GossipOptions(alpha=0.01, compression="quantised", **QUICK)
CORE_SET_TEXT = CoreSetOptions(kind="svdd", **QUICK)


def rows_of(k, wide):
    rng = np.random.default_rng(k)
    X, y = rng.normal(size=(14, 3)), np.arange(14) % 2
    X[:, 0] += 2.0 * y
    return (sp.csr_array(np.pad(X, ((0, 0), (0, 1100)))) if wide else X), y


def site(name, k, options=GOSSIP, n_sites=3, neighbours=("north", "south", "eve"), state=None, **changes):
    """A live site that agrees as soon as it knows of so many."""
    wide = options is CORE_SET_TEXT
    X, y = rows_of(k, wide)
    terms = {"program": options.program, "scaling": "maxabs" if wide else "minmax"}
    terms |= {"features_counted_from": 1 if wide else None, **options.own_terms()}
    schema = Schema.of(X, y if options.uses_labels else np.zeros(0), terms, None if wide else ("a", "b", "c"))
    settings = AgreementSettings(n_sites, settle=0.2, interval=STEP, **changes)
    program = Agreement(name, X, y, schema, options, settings)
    return Listening(name, program, [other for other in neighbours if other != name], state=state)


def three(options=GOSSIP, agreed=True):
    """Three sites that know of one another, and a genuine message of each kind that the third would send next."""
    sites = [site(name, k, options, 3 if agreed else 9) for k, name in enumerate(("north", "south", "eve"))]
    together(sites, 2.0, STEP)
    assert [one.program.sealed for one in sites] == [agreed] * 3
    *honest, eve = sites
    eve.program._cards.pop("north", None)  # As if it did not know that north has the same schema.
    said = {}
    while "card" not in said or (agreed and len(said) < 2):
        eve.wake(eve.now + STEP)
        said |= {plain(data)["kind"]: plain(data) for _, data in eve.taken("north")}
    return (*honest, said)


def refused(one, name="eve"):
    return one.program.status()["refused"].get(name, "")


def go_on(*sites):
    """Honest sites go on with one another, learn, say nothing that cannot be, and find no fault in one another."""
    steps = [0 if one.program.learner is None else one.program.learner.steps for one in sites]
    together(sites, 1.0, STEP)
    for one, other in zip(sites, reversed(sites), strict=True):
        assert not refused(one, other.name) or one is other
        assert not [facts for what, facts in one.said if what in ("broken", "withheld")], one.said
    for before, one in zip(steps, sites, strict=True):
        learner = one.program.learner
        if isinstance(learner, Gadget):
            assert learner.steps >= before + 5 and np.isfinite(learner.weights).all()
            assert np.isfinite(learner.objective).all()
        elif learner is not None:
            assert all(np.isfinite(machine.chosen.value) for machine in learner.machines)
