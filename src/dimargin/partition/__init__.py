"""Partitions of rows: at random, by strata of landmarks or clusters, and by clusters in the kernel's space."""

from dimargin.partition.clusters import Clustered as Clustered
from dimargin.partition.clusters import cluster_rows as cluster_rows
from dimargin.partition.clusters import largest_sample as largest_sample
from dimargin.partition.dealing import Dealt as Dealt
from dimargin.partition.dealing import Partition as Partition
from dimargin.partition.dealing import Strata as Strata
from dimargin.partition.kernel_clusters import KernelClusters as KernelClusters
from dimargin.partition.kernel_clusters import Split as Split
from dimargin.partition.kmeans import kernel_kmeans as kernel_kmeans
from dimargin.partition.landmarks import nearest_landmark as nearest_landmark
from dimargin.partition.landmarks import pivoted_cholesky as pivoted_cholesky
from dimargin.partition.stratified import InputClusterPartition as InputClusterPartition
from dimargin.partition.stratified import RandomPartition as RandomPartition
from dimargin.partition.stratified import StratifiedPartition as StratifiedPartition
