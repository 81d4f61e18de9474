"""Metrics of a site for Prometheus, from its status."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from dimargin.problems.objectives import relative
from dimargin.version import __version__

# Counters of messages between this site and another one: name, key in the status, help text.
_TRAFFIC_COUNTERS = (
    ("dimargin_received_messages", "messages_in", "Messages received from a site."),
    ("dimargin_received_bytes", "bytes_in", "Bytes of the messages received from a site."),
    ("dimargin_sent_messages", "messages_out", "Messages sent to a site."),
    ("dimargin_sent_bytes", "bytes_out", "Bytes of the messages sent to a site."),
    ("dimargin_lost_messages", "lost", "Messages of a site that did not arrive."),
    ("dimargin_dropped_messages", "dropped", "Messages to a site that were not sent."),
    ("dimargin_undecodable_messages", "undecodable", "Messages of a site that no correct site sends."),
)


class SiteMetrics(Collector):
    """Metrics of one status, as `dimargin.gossip.sites.learning_site.LearningSite` makes it."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; labels may be texts of other sites, which the exposition escapes."""
        status = self._status
        about = {"site": status["site"], "program": status["program"], "version": __version__}
        yield InfoMetricFamily("dimargin_site", "This site.", value=about)
        yield _gauge("status_timestamp_seconds", "Time of the status, in seconds since 1970.", status["time"])
        yield _counter("rounds", "Rounds of this site.", status["round"])
        yield _counter("shared_rows", "Rows of this site that have left it.", status["rows_shared"])
        yield _gauge("sites", "Sites that this site knows, itself included.", len(status["sites"]))
        yield _gauge("neighbours", "Sites with which this site exchanges messages.", len(status["neighbours"]))
        yield _gauge("refused_sites", "Sites whose messages this site refuses.", len(status["refused"]))
        yield _gauge("rows", "Rows of all known sites.", status["rows"])
        yield _labelled(
            GaugeMetricFamily("dimargin_site_rows", "Rows of a site.", labels=["site"]), status["sites"].items()
        )
        yield _gauge("converged", "1 if the stopping rule has held, else 0.", status["converged"])
        yield _gauge("trouble", "1 if the status reports trouble, else 0.", bool(status["trouble"]))
        yield from self._objectives()
        for name, key, text in _TRAFFIC_COUNTERS:
            counts = [(site, counts[key]) for site, counts in status["network"].get("traffic", {}).items()]
            yield _labelled(CounterMetricFamily(name, text, labels=["site"]), counts)

    def _objectives(self) -> Iterator[Metric]:
        status = self._status
        # The status has None for infinite bounds.
        upper, lower = (
            [infinite if value is None else value for value in status.get(name, ())]
            for name, infinite in (("objective", math.inf), ("dual_objective", -math.inf))
        )
        for name, text, values in (
            ("dimargin_objective", "Objective of an output, or an upper bound.", upper),
            ("dimargin_lower_bound", "Lower bound of the optimal objective of an output.", lower),
        ):
            outputs = ((str(k), value) for k, value in enumerate(values))
            yield _labelled(GaugeMetricFamily(name, text, labels=["output"]), outputs)
        if "certified" in status:
            yield _gauge("certified_rows", "Rows that the certificate counts.", status["certified"]["rows"])
            yield _gauge("certified_sites", "Sites that the certificate counts.", status["certified"]["sites"])
        if upper:
            primal, dual = np.array(upper), np.array(lower)
            is_finite = np.isfinite([primal, dual]).all()
            gap = relative(primal - dual, primal).max() if is_finite else math.inf
            yield _gauge("gap_ratio", "Largest relative duality gap of an output.", gap)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"dimargin_{name}", text, value=float(value))


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"dimargin_{name}", text, value=value)


def _labelled(family: Any, values: Iterable[tuple[str, float]]) -> Metric:
    for label, value in values:
        family.add_metric([label], value)
    found: Metric = family
    return found
