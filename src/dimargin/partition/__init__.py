"""Partitions of rows: at random, by strata of landmarks or clusters, and by clusters in the kernel's space."""

from dimargin.partition.clusters import Clustered, cluster_rows, largest_sample
from dimargin.partition.dealing import Dealt, Partition, Strata
from dimargin.partition.kernel_clusters import KernelClusters, Split
from dimargin.partition.kmeans import kernel_kmeans
from dimargin.partition.landmarks import nearest_landmark, pivoted_cholesky
from dimargin.partition.stratified import (
    InputClusterPartition,
    RandomPartition,
    StratifiedPartition,
)

__all__ = [
    "Clustered",
    "Dealt",
    "InputClusterPartition",
    "KernelClusters",
    "Partition",
    "RandomPartition",
    "Split",
    "Strata",
    "StratifiedPartition",
    "cluster_rows",
    "kernel_kmeans",
    "largest_sample",
    "nearest_landmark",
    "pivoted_cholesky",
]
