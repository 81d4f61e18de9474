"""Flags for the conditions that a simulated network imposes on messages and sites."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
import typer

from dimargin.simulation.conditions import Conditions, Outage

_PANEL = "Conditions of the network"
_TIME_DOWN = 0.2  # share of the rounds for which a site that crashes is down

LossOption = Annotated[float, typer.Option(help="Probability that a message vanishes.", rich_help_panel=_PANEL)]
DuplicationOption = Annotated[
    float, typer.Option(help="Probability that a message arrives twice.", rich_help_panel=_PANEL)
]
DelayOption = Annotated[
    tuple[float, float] | None,
    typer.Option(
        metavar="LOW HIGH",
        help="Least and most rounds that a message takes, evenly distributed.",
        show_default="0.5 0.5, with --asynchronous 0 1",
        rich_help_panel=_PANEL,
    ),
]
AsynchronousOption = Annotated[
    bool,
    typer.Option(
        "--asynchronous",
        help="Messages overtake one another, and no two sites keep step: each of their rounds takes up to half as long "
        "again.",
        rich_help_panel=_PANEL,
    ),
]
CrashOption = Annotated[
    float | None,
    typer.Option(
        metavar="N",
        help="N sites, or below 1 that share of them, drawn by --random-state, crash once each and return from their "
        "last checkpoint. Each is down for a fifth of --max-iter rounds; the k-th of N goes down when a share of "
        "(k - 1/2) / N of the first four fifths of --max-iter rounds is over.",
        show_default="none",
        rich_help_panel=_PANEL,
    ),
]


def conditions_of(
    loss: float,
    duplication: float,
    delay: tuple[float, float] | None,
    asynchronous: bool,
    outages: tuple[Outage, ...],
) -> Conditions:
    """Return the conditions that flags describe; raises ValueError for a value out of range."""
    plain = Conditions.asynchronous() if asynchronous else Conditions()
    link = replace(plain.link, loss=loss, duplication=duplication, delay=delay or plain.link.delay)
    return replace(plain, link=link, outages=outages)


def outages_of(crash: float | None, n_sites: int, n_rounds: int, random_state: int | None) -> tuple[Outage, ...]:
    """Return one outage of each site that crashes, spread over the rounds.

    Parameters
    ----------
    crash : float or None
        Number or share of the sites.
    n_sites, n_rounds : int
    random_state : int or None
        Seed of the choice of sites.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> [(outage.at, outage.until) for outage in outages_of(0.2, n_sites=10, n_rounds=100, random_state=0)]
    [(20.0, 40.0), (60.0, 80.0)]
    """
    from dimargin.simulation.run import site_names  # needs an extra

    if crash is None:
        return ()
    if not (0 < crash < 1 or crash in range(1, n_sites + 1)):
        raise ValueError(
            f"crash must be a share of the sites in (0, 1) or a whole number in [1, n_sites={n_sites}], got {crash:g}"
        )
    n = int(crash) if crash >= 1 else max(1, round(crash * n_sites))
    chosen = np.random.default_rng(random_state).permutation(n_sites)[:n]
    down, names = _TIME_DOWN * n_rounds, site_names(n_sites)
    begin = [(k + 0.5) / n * (n_rounds - down) for k in range(n)]
    return tuple(Outage(names[site], at, at + down) for site, at in zip(chosen, begin, strict=True))
