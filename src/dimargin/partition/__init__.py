"""Which rows go together."""

from dimargin.partition.clusters import KernelClusters, Split, cluster_rows, largest_sample
from dimargin.partition.kmeans import kernel_kmeans
from dimargin.partition.landmark_space import LandmarkFeatures, independent_landmarks
from dimargin.partition.landmarks import nearest_landmark, pivoted_cholesky
from dimargin.partition.stratified import (
    InputClusterPartition,
    Partition,
    RandomPartition,
    StratifiedPartition,
    stratified_rows,
)

__all__ = [
    "InputClusterPartition",
    "KernelClusters",
    "LandmarkFeatures",
    "Partition",
    "RandomPartition",
    "Split",
    "StratifiedPartition",
    "cluster_rows",
    "independent_landmarks",
    "kernel_kmeans",
    "largest_sample",
    "nearest_landmark",
    "pivoted_cholesky",
    "stratified_rows",
]
