"""Partitions of rows: at random, by strata of landmarks or clusters, and by clusters in the kernel's space."""

from dimargin.shards.partition.clusters import Clustered as Clustered
from dimargin.shards.partition.clusters import cluster_rows as cluster_rows
from dimargin.shards.partition.clusters import largest_sample as largest_sample
from dimargin.shards.partition.dealing import Dealt as Dealt
from dimargin.shards.partition.dealing import Partition as Partition
from dimargin.shards.partition.dealing import Strata as Strata
from dimargin.shards.partition.kernel_clusters import KernelClusters as KernelClusters
from dimargin.shards.partition.kernel_clusters import Split as Split
from dimargin.shards.partition.kmeans import kernel_kmeans as kernel_kmeans
from dimargin.shards.partition.landmarks import nearest_landmark as nearest_landmark
from dimargin.shards.partition.landmarks import pivoted_cholesky as pivoted_cholesky
from dimargin.shards.partition.stratified import InputClusterPartition as InputClusterPartition
from dimargin.shards.partition.stratified import RandomPartition as RandomPartition
from dimargin.shards.partition.stratified import StratifiedPartition as StratifiedPartition
