"""The version of the package, from its installed metadata."""

from importlib.metadata import version

__version__ = version("dimargin")
