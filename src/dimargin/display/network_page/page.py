"""Page of a network, as one of its sites knows it, from the status that the site has written."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dimargin.display.network_page.chart import gap_chart, line_chart
from dimargin.display.report.rendering import rendered
from dimargin.system.writing import write_file
from dimargin.version import __version__

MAX_DRAWN = 24
"""Sites in the picture around the site itself; the table has all."""


@dataclass(frozen=True)
class KnownSite:
    """Site as the page shows it."""

    name: str
    kind: Literal["self", "neighbour", "refused", "known"]
    rows: int | None = None
    reason: str = ""  # Reason why it is refused.
    # Counters of messages to and from this site; empty if there were none in this run.
    traffic: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        """Bytes that went both ways."""
        return int(self.traffic.get("bytes_in", 0) + self.traffic.get("bytes_out", 0))


def write_network_page(path: str | os.PathLike[str], status: Mapping[str, Any]) -> None:
    """Write an HTML page about a network, which is a single file without external resources.

    Parameters
    ----------
    path : path
        File to write.
    status : mapping
        Status of a site, as `dimargin.gossip.sites.site_folder.SiteFolder.read_status` returns it.
        All texts in it may come from other sites; the page shows them as texts.

    Raises
    ------
    ValueError
        If the status is damaged.
    OSError
        If the file cannot be written.
    """
    from jinja2 import UndefinedError

    try:
        page = rendered("dimargin.display.network_page", version=__version__, **_content(status))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, UndefinedError) as error:
        raise ValueError(f"the status is damaged: {error!r}") from error
    write_file(path, page.encode("utf-8", "backslashreplace"))


def _content(status: Mapping[str, Any]) -> dict[str, Any]:
    sites, history = known_sites(status), status.get("certificates", [])
    seconds, gaps, *bounds = (
        [float(entry[name]) for entry in history] for name in ("seconds", "gap", "objective", "dual_objective")
    )
    return {
        "status": status,
        "written": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time.time() - status["age"])),
        "sites": sites,
        "n_neighbours": sum(site.kind == "neighbour" for site in sites),
        "refused": [site for site in sites if site.kind == "refused"],
        "drawn": drawn_sites(sites),
        "max_drawn": MAX_DRAWN,
        "history": history,
        "gaps": gap_chart(seconds, gaps) if history else None,
        "objectives": line_chart(seconds, *bounds) if history else None,
    }


def known_sites(status: Mapping[str, Any]) -> list[KnownSite]:
    """Return all sites in the status: the site itself, its neighbours, refused ones, and others, by name."""
    rows, refused, traffic = status["sites"], status["refused"], status["network"].get("traffic", {})
    neighbours, own = set(status["neighbours"]), status["site"]

    def kind(name: str) -> Literal["self", "neighbour", "refused", "known"]:
        if name == own:
            return "self"
        return "refused" if name in refused else "neighbour" if name in neighbours else "known"

    names = {own, *rows, *refused, *traffic, *neighbours}
    sites = [
        KnownSite(name, kind(name), rows.get(name), refused.get(name, ""), traffic.get(name, {})) for name in names
    ]
    order = "self", "neighbour", "refused", "known"
    return sorted(sites, key=lambda site: (order.index(site.kind), site.name))


def drawn_sites(sites: list[KnownSite]) -> list[tuple[KnownSite, float, float, float]]:
    """Return the sites around this one in the picture, each with its place on the unit circle.

    The last number is the width of the edge, from 1 to 5, by the bytes on it.
    """
    others = [site for site in sites if site.kind != "self"][:MAX_DRAWN]
    most = max((site.n_bytes for site in others), default=0) or 1
    angles = [2 * math.pi * (k / len(others) + 0.25) for k in range(len(others))]
    return [
        (site, math.sin(angle), -math.cos(angle), 1 + 4 * site.n_bytes / most)
        for site, angle in zip(others, angles, strict=True)
    ]
