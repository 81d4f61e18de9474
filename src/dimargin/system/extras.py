"""Optional packages, and the extra that installs each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

EXTRA_OF = {
    "cryptography": "peers",
    "flwr": "flower",
    "matplotlib": "report",
    "msgspec": "peers",
    "networkx": "peers",
    "onnx": "onnx",
    "prometheus_client": "peers",
    "zenoh": "peers",
    "pyspark": "spark",
}
"""Extra of pyproject.toml that installs a package, by the package's import name."""


class MissingExtra(ImportError):
    """Error for a feature whose extra is not installed.

    Parameters
    ----------
    what : str
        Name of the feature, for the message.
    package : str
        The missing package, a key of `EXTRA_OF`.

    Examples
    --------
    >>> print(MissingExtra("dimargin site", "zenoh"))
    dimargin site needs the extra "peers": pip install "dimargin[peers]"
    """

    def __init__(self, what: str, package: str) -> None:
        extra = EXTRA_OF[package]
        super().__init__(f'{what} needs the extra "{extra}": pip install "dimargin[{extra}]"', name=package)


def require(what: str, *packages: str) -> None:
    """Raise MissingExtra, without imports, unless all packages (`EXTRA_OF`) are installed."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtra(what, package)


@contextmanager
def naming_extra(what: str) -> Iterator[None]:
    """Raise MissingExtra for `what` if an import in the block lacks a package of an extra."""
    try:
        yield
    except (ModuleNotFoundError, MissingExtra) as error:
        # A nested MissingExtra names something that the user has not called.
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA_OF:
            raise
        raise MissingExtra(what, package) from error
