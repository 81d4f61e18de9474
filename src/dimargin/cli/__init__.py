"""The command line ``dimargin``."""

from dimargin.cli.app import main

__all__ = ["main"]
