"""Limits on the content of other sites' messages and on the tables that they fill, each with its reason.

Sites in normal operation reach none of these limits. Lengths and ranges are checked when a message
is decoded, before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SizeLimits:
    """Limits that all sites share; sites with other limits may refuse each other."""

    message: int = 64 * 2**20  # Bytes of a message: the weights of four million features fit. A link may allow less.

    # ---- numbers -----------------------------------------------------------------------------------------------------

    count: int = 2**53  # Rows, steps or messages: float64 is exact up to here, and int64 holds a thousand of them.
    lives: int = 2**40  # Restarts of an edge that a neighbour may report: a hundred per second for 348 years.
    number: float = 1e150  # Size of a value or weight: squares, and sums of a message's worth of them, are finite.
    sum: float = 1e300  # Size of a sum of values or of their squares: two such sums can be added.
    min_mass: float = 1e-100  # Smallest weight of a row: sums are divided by it.
    max_mass: float = 1e100  # Largest weight of a row: C is multiplied by it.

    # ---- texts, in characters ----------------------------------------------------------------------------------------

    name: int = 255  # Name of a site, which is also the name of its folder.
    text: int = 1024  # A label, the name of a feature, or a parameter.
    digest: int = 64
    signature: int = 1024  # Bytes of a signature by an RSA key of 8,192 bits.
    certificates: int = 2**15  # Bytes of a site's certificate and those between it and the authority's: about a dozen.

    # ---- tables ------------------------------------------------------------------------------------------------------

    sites: int = 1024  # Sites that one site knows: it sends their list on, and has one thread per neighbour.
    labels: int = 1024  # Labels of all sites together: each is a machine with its own weights.
    features: int = 2**22  # The limits of so many features fit into a message.
    terms: int = 64  # Parameters that all sites must share.
    points: int = 2**20  # Points of a core-set: rounds with far fewer already take hours.
    widenings: int = 1024  # Times that the cards of a neighbour may widen the schema: each restarts all learners.

    # ---- the log -----------------------------------------------------------------------------------------------------

    lines: int = 200  # Log lines of one kind about messages that may come in a burst.
    lines_per_second: float = 0.1  # Average rate of log lines of one kind: 8,640 per day.


LIMITS = SizeLimits()
