"""Metrics of a site: what Prometheus's own parser reads of them."""

import math

import pytest

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed: pip install 'dimargin[peers]'")

from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

import dimargin
from dimargin.gossip.sites.site_metrics import SiteMetrics

HOSTILE = ['a"} 1\ndimargin_trouble 7\n#', "back\\slash", "two\r\nlines", "\u202e", "\x00", "x" * 255, "{}", "(others)"]


def traffic(**counts):
    names = "messages_in", "bytes_in", "messages_out", "bytes_out", "lost", "dropped", "undecodable"
    return {**dict.fromkeys(names, 0), "heard": None, **counts}


def status(**changes):
    found = {
        "site": "north", "time": 1.75e9, "program": "admm", "rows_shared": 0, "round": 36, "neighbours": ["east"],
        "refused": {"west": "alpha is 1 there and 2 here"}, "certified": {"rows": 30, "sites": 2},
        "objective": [0.5, 0.4], "dual_objective": [0.4, 0.39], "sites": {"north": 10, "east": 20}, "rows": 30,
        "converged": True, "trouble": "the disk is full",
        "network": {"traffic": {"east": traffic(bytes_in=2000, bytes_out=1000, messages_in=7, undecodable=3)}},
    }  # fmt: skip
    return found | changes


def samples(facts):
    """Values by name and labels, as the parser of Prometheus's client reads them."""
    text = generate_latest(SiteMetrics(facts)).decode()
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    assert all(family.documentation and family.type in ("gauge", "counter") for family in families)
    found = [(sample.name, *sample.labels.values()) for family in families for sample in family.samples]
    assert len(set(found)) == len(found)
    return dict(zip(found, (sample.value for family in families for sample in family.samples), strict=True))


def test_metrics_are_those_of_the_status():
    found = samples(status())
    about = next(key for key in found if key[0] == "dimargin_site_info")
    assert set(about[1:]) == {"north", "admm", dimargin.__version__} and found[about] == 1
    expected = {
        ("dimargin_rounds_total",): 36, ("dimargin_sites",): 2, ("dimargin_rows",): 30,
        ("dimargin_site_rows", "east"): 20,
        ("dimargin_neighbours",): 1, ("dimargin_refused_sites",): 1, ("dimargin_trouble",): 1,
        ("dimargin_converged",): 1, ("dimargin_objective", "1"): 0.4, ("dimargin_lower_bound", "0"): 0.4,
        ("dimargin_certified_rows",): 30, ("dimargin_received_bytes_total", "east"): 2000,
        ("dimargin_sent_bytes_total", "east"): 1000, ("dimargin_received_messages_total", "east"): 7,
        ("dimargin_undecodable_messages_total", "east"): 3, ("dimargin_status_timestamp_seconds",): 1.75e9,
        ("dimargin_shared_rows_total",): 0,
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected
    assert found["dimargin_gap_ratio",] == pytest.approx(0.2)


def test_names_of_other_sites_cannot_add_metrics():
    facts = status(
        site=HOSTILE[0], program=HOSTILE[1], sites=dict.fromkeys(HOSTILE, 5),
        refused=dict.fromkeys(HOSTILE, HOSTILE[0]), trouble="",
        network={"traffic": {name: traffic(lost=4) for name in HOSTILE}},
    )  # fmt: skip
    found = samples(facts)
    assert {key[0] for key in found} == {key[0] for key in samples(status())}
    assert found["dimargin_trouble",] == 0
    assert all(found["dimargin_lost_messages_total", name] == 4 for name in HOSTILE)


@pytest.mark.parametrize(
    ("upper", "lower", "gap"),
    [([None], [0.5], math.inf), ([0.5, None], [0.5, 0.1], math.inf), ([0.0], [0.0], 0), ([0.5], [0.5], 0)],
)
def test_bounds_may_be_infinite(upper, lower, gap):
    found = samples(status(objective=upper, dual_objective=lower))
    assert found["dimargin_gap_ratio",] == gap
    assert found["dimargin_objective", "0"] == (math.inf if upper[0] is None else upper[0])


def test_a_site_without_a_model_has_no_bounds():
    facts = status(network={})
    for name in ("objective", "dual_objective", "certified"):
        del facts[name]
    assert not {"dimargin_gap_ratio", "dimargin_objective", "dimargin_certified_rows"} & {
        key[0] for key in samples(facts)
    }
