"""Which rows go together."""

from dimargin.partition.landmarks import nearest_landmark, pivoted_cholesky
from dimargin.partition.stratified import Partition, RandomPartition, StratifiedPartition

__all__ = ["Partition", "RandomPartition", "StratifiedPartition", "nearest_landmark", "pivoted_cholesky"]
