"""Packages that a plain installation lacks, and the extra that installs each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

EXTRA_OF = {
    "cryptography": "peers",
    "matplotlib": "report",
    "msgspec": "peers",
    "networkx": "peers",
    "zenoh": "peers",
    "pyspark": "spark",
}
"""The extra of pyproject.toml that installs a package, by the name that is imported."""


class MissingExtra(ImportError):
    """Error for the use of something that needs an extra which is not installed.

    Parameters
    ----------
    what : str
        Name of what needs the package, for the message.
    package : str
        The package that is missing, a key of `EXTRA_OF`.

    Examples
    --------
    >>> print(MissingExtra("dimargin site", "zenoh"))
    dimargin site needs the extra "peers": pip install "dimargin[peers]"
    """

    def __init__(self, what: str, package: str) -> None:
        extra = EXTRA_OF[package]
        super().__init__(f'{what} needs the extra "{extra}": pip install "dimargin[{extra}]"', name=package)


def require(what: str, *packages: str) -> None:
    """Raise MissingExtra unless all packages, keys of `EXTRA_OF`, are installed; none of them is imported."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtra(what, package)


@contextmanager
def naming_extra(what: str) -> Iterator[None]:
    """Raise MissingExtra for `what` where an import in the block needs a package that an extra installs."""
    try:
        yield
    except (ModuleNotFoundError, MissingExtra) as error:  # of the innermost name, which the user has not used
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA_OF:
            raise
        raise MissingExtra(what, package) from error
