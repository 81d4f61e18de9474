"""Where tasks run."""

from dimargin.engines.local import LocalEngine

__all__ = ["LocalEngine"]
