"""The command line ``dimargin``."""

from dimargin.cli.dispatch import main

__all__ = ["main"]
