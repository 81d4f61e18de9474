"""Numbers and names, formatted for the page."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import Any


def plain(text: Any, max_length: int = 60) -> str:
    r"""Return a text without unprintable characters, cut to `max_length` characters.

    SVG does not allow control characters, and characters that reverse the direction of writing
    could disguise a name.

    Examples
    --------
    >>> plain("ham\n"), plain("x" * 100, 5)
    ('ham\ufffd', 'xxxx…')
    """
    shown = "".join(c if c.isprintable() else "\ufffd" for c in str(text)[: max_length + 1])
    return shown if len(shown) <= max_length else f"{shown[: max_length - 1]}…"


def count(number: float) -> str:
    """Format a whole number with thousands separators."""
    return f"{int(number):,}"


def number(value: float, digits: int = 4) -> str:
    """Format a number with `digits` significant digits, or as a dash if it is NaN.

    Examples
    --------
    >>> number(0.00123456), number(15663.4), number(2e12)
    ('0.001235', '15,660', '2e+12')
    """
    if 10**digits <= abs(value) < 1e9:
        return f"{float(f'{value:.{digits}g}'):,.0f}"
    return "—" if math.isnan(value) else f"{value:.{digits}g}"


def score(value: float | None) -> str:
    """Format a score between 0 and 1 with three decimals, or as a dash if it is NaN or None."""
    return "—" if value is None or math.isnan(value) else f"{value:.3f}"


def percent(share: float, n_rows: int = 0) -> str:
    """Format a share in percent, with a second decimal from 10,000 rows, or as a dash if it is NaN.

    Examples
    --------
    >>> percent(0.99954), percent(0.99954, 10**5), percent(-0.0001), percent(float("nan"))
    ('100.0%', '99.95%', '0.0%', '—')
    """
    if math.isnan(share):
        return "—"
    digits = 1 if n_rows < 10_000 else 2
    return f"{round(100 * share, digits) + 0.0:.{digits}f}%"


def bound(share: float) -> str:
    """Format an upper bound in percent, rounded up to two significant digits; at least 0.0001%.

    Examples
    --------
    >>> bound(0.000871), bound(1e-12), bound(0.5), bound(3.0)
    ('0.088%', '0.0001%', '50%', '300%')
    """
    with localcontext(prec=2, rounding=ROUND_CEILING):
        return f"{+max(100 * Decimal(share), Decimal('0.0001')):f}%"


def size(n_bytes: int) -> str:
    """Format a number of bytes in kB or MB."""
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{max(n_bytes / 1e3, 0.1):.3g} kB"


def seconds(value: float) -> str:
    """Format a duration in seconds, in a smaller unit below one second, and in a larger one from two of it on.

    Examples
    --------
    >>> seconds(3.2e-5), seconds(0.25), seconds(75), seconds(1920)
    ('32 µs', '250 ms', '75 s', '32 min')
    """
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if value >= 2 * length:
            return f"{value / length:.3g} {unit}"
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"
