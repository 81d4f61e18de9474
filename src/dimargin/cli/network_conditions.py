"""Flags for the conditions that a simulated network imposes on messages and sites."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

import numpy as np
import typer

from dimargin.cli.shared import Output
from dimargin.gossip.simulation.conditions import Conditions, Outage

_option = partial(typer.Option, rich_help_panel="Conditions of the network")


def conditions_of(
    n_sites: int,
    n_rounds: int,
    random_state: int | None,
    *,
    loss: Annotated[float, _option(help="Probability that a message is lost.")] = 0.0,
    duplication: Annotated[float, _option(help="Probability that a message arrives twice.")] = 0.0,
    delay: Annotated[
        tuple[float, float] | None,
        _option(
            metavar="LOW HIGH",
            help="Shortest and longest delay of a message, in rounds; delays are uniformly distributed.",
            show_default="0.5 0.5, with --asynchronous 0 1",
        ),
    ] = None,
    asynchronous: Annotated[
        bool,
        _option(
            "--asynchronous",
            help="Messages may overtake one another, and sites are not synchronised: a site's round takes up to 1.5 "
            "times as long.",
        ),
    ] = False,
    crash: Annotated[
        float | None,
        _option(
            metavar="N",
            help="N sites, or a share N < 1 of them, drawn by --random-state, crash once each and restart from their "
            "last checkpoint. Each is down for a fifth of --max-iter rounds; the k-th of N crashes after a share of "
            "(k - 1/2) / N of the first four fifths of --max-iter rounds.",
            show_default="none",
        ),
    ] = None,
) -> Conditions:
    """Return the conditions for the values of the flags; raises ValueError for one out of range."""
    outages = outages_of(crash, n_sites, n_rounds, random_state)
    plain = Conditions.asynchronous() if asynchronous else Conditions()
    link = replace(plain.link, loss=loss, duplication=duplication, delay=delay or plain.link.delay)
    return replace(plain, link=link, outages=outages)


def outages_of(crash: float | None, n_sites: int, n_rounds: int, random_state: int | None) -> tuple[Outage, ...]:
    """Return outages of crashing sites, spread over the rounds; `crash` is their number or share.

    Examples
    --------
    >>> [(outage.at, outage.until) for outage in outages_of(0.2, n_sites=10, n_rounds=100, random_state=0)]
    [(20.0, 40.0), (60.0, 80.0)]
    """
    from dimargin.gossip.simulation.observed_run import site_names  # This module needs an extra.

    if crash is None:
        return ()
    if not (0 < crash < 1 or crash in range(1, n_sites + 1)):
        raise ValueError(
            f"crash must be a share of the sites in (0, 1) or a whole number in [1, n_sites={n_sites}], got {crash:g}"
        )
    n = int(crash) if crash >= 1 else max(1, round(crash * n_sites))
    chosen = np.random.default_rng(random_state).permutation(n_sites)[:n]
    down, names = 0.2 * n_rounds, site_names(n_sites)  # A site is down for a fifth of the rounds.
    begin = [(k + 0.5) / n * (n_rounds - down) for k in range(n)]
    return tuple(Outage(names[site], at, at + down) for site, at in zip(chosen, begin, strict=True))


def say_what_did_not_happen(out: Output, conditions: Conditions, last_round: int, why: str = "") -> None:
    """Warn about crashes that were due after the end of the run."""
    late = sum(outage.at >= last_round for outage in conditions.outages)
    if late:
        out.say(
            f"warning: {late} of {len(conditions.outages)} crashes did not happen{why}; a smaller --max-iter makes "
            "them earlier"
        )
