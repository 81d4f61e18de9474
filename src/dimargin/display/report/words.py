"""Numbers and names as the page shows them."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import Any

_LONGEST = 60  # characters of a name
_LEAST = Decimal("0.0001")  # percent of a bound


def plain(text: Any, most: int = _LONGEST) -> str:
    r"""Return a text without characters that cannot be printed, and not longer than `most`.

    Control characters are not allowed in SVG, and those that turn the direction of writing would disguise a name.

    Examples
    --------
    >>> plain("ham\n"), plain("x" * 100, 5)
    ('ham\ufffd', 'xxxx…')
    """
    shown = "".join(c if c.isprintable() else "\ufffd" for c in str(text)[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def count(number: float) -> str:
    """Return a whole number with its thousands apart."""
    return f"{int(number):,}"


def number(value: float, digits: int = 4) -> str:
    """Return a number with so many significant digits, or a dash if it is not defined."""
    return "—" if math.isnan(value) else f"{value:.{digits}g}"


def score(value: float) -> str:
    """Return a number between zero and one with three decimals, or a dash if it is not defined."""
    return "—" if math.isnan(value) else f"{value:.3f}"


def percent(share: float, n_rows: int = 0) -> str:
    """Return a share in percent, with a digit more where `n_rows` rows tell such shares apart.

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
    """Return an upper bound of a share in percent, with two digits, rounded up.

    Examples
    --------
    >>> bound(0.000871), bound(1e-12), bound(0.5), bound(3.0)
    ('0.088%', '0.0001%', '50%', '300%')
    """
    with localcontext(prec=2, rounding=ROUND_CEILING):
        return f"{+max(100 * Decimal(share), _LEAST):f}%"


def size(n_bytes: int) -> str:
    """Return a number of bytes in the unit that suits it."""
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{max(n_bytes / 1e3, 0.1):.3g} kB"


def seconds(value: float) -> str:
    """Return a duration in the unit that suits it.

    Examples
    --------
    >>> seconds(3.2e-5), seconds(0.25), seconds(75)
    ('32 µs', '250 ms', '75 s')
    """
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"
