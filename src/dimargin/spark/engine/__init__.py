"""Engines that run tasks on the threads of this process or on a Spark cluster."""

from dimargin.shards.local_engine import LocalEngine

__all__ = ["LocalEngine"]
