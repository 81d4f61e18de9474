"""Conversion of a DataFrame to shards of rows in the order of their keys, on the executors.

    1  survey     counts by label, for which a columnar source is not asked for the features
    2  scatter    every row is sent to the shard of its key, in one shuffle; raises ValueError for a wrong row
    3  measure    sums over the shards: numbers of rows, means, variance, bounds of the extent

The number of shards depends only on the number of rows, and the content of a shard only on keys.
Neither the partitions of the source, nor the order in which it is read, nor the number of workers
matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dimargin.estimators.margin_regressor import MAX_TARGET, bits_of
from dimargin.estimators.training_data import beyond_rounding, canonical
from dimargin.kernels.column_statistics import column_means, column_reach, column_sums, row_chunks, stacked
from dimargin.kernels.functions import Kernel
from dimargin.kernels.row_transform import Extent
from dimargin.shards.keys import Keys, keys_of_ids, row_keys
from dimargin.shards.parts import n_shards_for
from dimargin.shards.shards import Shards
from dimargin.spark.arrow import rows_of
from dimargin.spark.columns import FEATURES, LABEL, MAX_CLASSES, WEIGHT, Columns
from dimargin.spark.engine.spark import SparkEngine
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class Survey:
    """Counts of a source, taken before its rows are sent to shards."""

    counts: dict[float, int]  # Numbers of rows with positive weight, by label; all under zero if not by label.
    weights: dict[float, float]  # Sums of their weights, by label.
    n_given: int  # Number of all rows, including those of zero weight.
    n_features: int  # Number of features of the first row.
    n_values: int  # Number of values stored in vectors, or of all values.
    targets: tuple[float, float] | None = None  # Centre and unit of those of a regressor.
    bits: int | None = None  # Sum of the bits of these.

    @property
    def n_rows(self) -> int:
        """Number of rows with positive weight."""
        return sum(self.counts.values())

    @property
    def classes(self) -> Floats:
        """Labels, ascending; none if rows were not counted by label."""
        return np.array(sorted(self.counts) if len(self.counts) > 1 else [])


@dataclass(frozen=True)
class KeyedRows:
    """Rows of a shard, in the order of their keys.

    `first` is the index of the first row in the order of all keys; None if it follows from the keys
    and `Measures.sizes`.
    """

    X: Any  # Ndarray or CSR array of shape (n, n_features).
    # Indices of the labels among the classes, bits of targets (see `bits_of`), or zeros for a detector.
    codes: Indices  # Codes, weights and keys have shape (n,).
    weights: Floats  # Positive weights.
    keys: Keys
    first: int | None = None

    def take(self, index: NDArray[Any] | slice, first: int | None = None) -> KeyedRows:
        """Return some of the rows."""
        return KeyedRows(self.X[index], self.codes[index], self.weights[index], self.keys[index], first)

    def first_index(self, sizes: Indices) -> int:
        """Return the index of the first row, given the numbers of rows in the shards."""
        if self.first is not None:
            return self.first
        number = int(shard_numbers(self.keys[:1], len(sizes))[0]) if len(self.keys) else 0
        return int(sizes[:number].sum())


@dataclass(frozen=True)
class Source:
    """DataFrame with the rows to train on."""

    engine: SparkEngine
    frame: DataFrame  # Result of `Columns.select`.
    columns: Columns

    def survey(self, by_label: bool = True) -> Survey:
        """Count the rows, by label; raises ValueError, naming the column, for labels unfit for training."""
        vectors = isinstance(self.frame.schema[FEATURES].dataType, StructType)
        values = F.col(f"{FEATURES}.values" if vectors else FEATURES)
        width = F.coalesce(F.col(f"{FEATURES}.size"), F.size(values)) if vectors else F.size(values)
        heavy = F.lit(True) if self.columns.weight is None else F.col(WEIGHT) > 0
        weight = F.lit(1.0) if self.columns.weight is None else F.col(WEIGHT)
        counts = self.frame.groupBy(F.col(LABEL) if by_label else F.lit(0.0).alias(LABEL)).agg(
            F.count_if(heavy).alias("n_rows"),
            F.count(F.lit(1)).alias("n_given"),
            F.sum(F.when(heavy, weight)).alias("weight"),
            F.sum(F.size(values) if vectors else F.lit(0)).alias("n_values"),
        )
        n_features = self.columns.n_features
        first = self.frame.where(values.isNotNull()).select(width).limit(1)
        questions = [(counts.coalesce(1).limit(MAX_CLASSES + 1), "count labels")]
        with self.engine.describe("look at the rows"):
            found, *firsts = self.engine.query(*questions, *([(first, "the first")] if n_features is None else []))
        if n_features is None:
            n_features = firsts[0][0][0] if firsts[0] else 0
        if len(found) > MAX_CLASSES:
            raise ValueError(
                f"labelCol {self.columns.label!r} has more than {MAX_CLASSES} different values, too many for classes"
            )
        n_given, n_values = (sum(row[name] for row in found) for name in ("n_given", "n_values"))
        # Rows without a label are refused when they are scattered.
        known = [row for row in found if row["n_rows"] and row[LABEL] is not None]
        labels = {row[LABEL]: row["n_rows"] for row in known}
        if not labels:
            raise ValueError(f"none of the dataset's {n_given} rows has a positive weight")
        if by_label and len(labels) < 2:
            raise ValueError(
                f"labelCol {self.columns.label!r} has one class only, {next(iter(labels))!r}; at least two are needed"
            )
        weights = {row[LABEL]: row["weight"] for row in known}
        return Survey(labels, weights, n_given, n_features, n_values if vectors else n_given * n_features)

    def targets(self) -> tuple[Floats, Floats]:
        """Return the targets of a regressor with their weights, in one job, without those that scattering refuses."""
        weight = F.lit(1.0) if self.columns.weight is None else F.col(WEIGHT)
        known = self.frame.where((F.abs(LABEL) < np.inf) & (weight > 0) & (weight < np.inf))
        parts = self.engine.summarise(known.select(weight.alias(WEIGHT), LABEL), _numbers)
        found = np.concatenate([np.empty((0, 2)), *parts])
        found = found[np.lexsort(found.T)] if len(found) else np.array([[1.0, 0.0]])  # Their order must be one.
        if np.abs(found[:, 1]).max() > MAX_TARGET:
            raise ValueError(f"labelCol {self.columns.label!r} has targets above {MAX_TARGET:g} in absolute value")
        return found[:, 1], found[:, 0]

    def scattered(
        self, survey: Survey, random_state: int, kernel: Kernel | None, n_shards: int | None = None
    ) -> tuple[Shards[KeyedRows], Measures]:
        """Return the rows as consecutive shards in the order of their keys, and sums over them.

        There are `n_shards`, by default as many as the number of rows asks for. Every shard has at
        least half of the mean number of rows. Only for a kernel machine, distances of rows are
        measured, by its kernel with any gamma.
        """
        n_shards = n_shards or n_shards_for(survey.n_rows)
        sparse = survey.n_values * 1.5 < survey.n_rows * survey.n_features
        columns = replace(self.columns, n_features=survey.n_features)
        scatter = _Scatter(columns, sparse, survey.classes, random_state, n_shards, survey.targets)
        nothing = KeyedRows(
            (sp.csr_array if sparse else np.empty)((0, survey.n_features)), np.empty(0, dtype=np.int64), np.empty(0),
            np.empty(0, dtype=np.uint64),
        )  # fmt: skip
        rows = self.engine.gather(self.frame, _keyed, _sorted, n_shards, scatter, nothing)
        measures = Measures.of(rows, len(survey.counts), kernel)
        if not measures.agree_with(survey):
            raise ValueError(
                f"the dataset changes from read to read: it had {survey.n_rows} rows with positive weight when it was "
                f"first read, and {measures.n_rows} later, not all the same; write or cache it before training"
            )
        if measures.sizes.min() >= 0.5 * survey.n_rows / n_shards:
            return rows, measures
        # Sizes are this uneven if many rows are equal, since these have equal keys.
        return rows.shuffle(_dealt_evenly, _joined, n_shards, measures.sizes), measures


@dataclass(frozen=True)
class Deviations:
    """Deviations of the rows of a shard from the shard's own means, which are near those of all rows."""

    mean: float  # Mean of all values.
    weights: Floats  # Sums of the weights of the rows of every class; these three have shape (n_classes,).
    sums: Floats  # Weighted sums of the values minus `mean`.
    squares: Floats  # Weighted sums of the squares of the values minus `mean`.
    means: Floats | None  # Means of the columns, of shape (n_features,); None for sparse rows.
    extent: Extent  # Extent about these means.

    @classmethod
    def of(cls, rows: KeyedRows, n_classes: int, kernel: Kernel) -> Deviations:
        """Measure the rows of a shard with at least one row."""
        X, mean, means = rows.X, 0.0, None
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(X):
                wide = X.astype(np.float64, copy=False)
                values = wide.sum(axis=1), wide.multiply(wide).sum(axis=1)
            else:
                means = column_means(X)
                mean = float(means.mean())
                values = _sums_of_rows(X, mean)
            sums, squares = (
                np.bincount(rows.codes, rows.weights * value, n_classes).astype(np.float64) for value in values
            )
        weights: Floats = np.bincount(rows.codes, rows.weights, n_classes).astype(np.float64)
        return cls(mean, weights, sums, squares, means, Extent.of(X, kernel, means))

    def squares_about(self, mean: float, factors: Floats, n_features: int) -> float:
        """Return the weighted sum of squared differences of all values from a number.

        With the shard's own mean c: sum w (x - m)^2 = sum w (x - c)^2 + 2 (c - m) sum w (x - c) +
        (c - m)^2 sum w. `factors` multiply the weights of the classes.
        """
        apart = np.float64(self.mean - mean)  # The square overflows to infinity; that of a float would raise.
        return float(factors @ (self.squares + 2 * apart * self.sums + apart**2 * n_features * self.weights))

    def extents_about(self, means: Floats | None, kernel: Kernel) -> tuple[Extent, Extent]:
        """Return bounds of the extent about other means, by the triangle inequality."""
        if self.means is None or means is None:  # The extent of sparse rows is about zero.
            return self.extent, self.extent
        apart = float(np.linalg.norm(means - self.means, ord=kernel.order))
        moved = apart if kernel.stationary else 0.0  # The size for other kernels is about zero.
        size, spread = self.extent.size, self.extent.spread
        least = replace(self.extent, size=max(size - moved, 0.0), spread=max(spread - apart, 0.0))
        return least, replace(self.extent, size=size + moved, spread=spread + apart)


@dataclass(frozen=True)
class Measures:
    """Sums over shards.

    The `factors` of its methods multiply the weights of the classes.
    """

    sizes: Indices  # Numbers of rows in the shards by key, of shape (n_shards,).
    bits: int  # Sum of the codes, as bits.
    counts: Indices  # Numbers of rows of every class, of shape (n_classes,).
    weights: Floats  # Sums of the weights of the rows of every class, of shape (n_classes,).
    sums: Floats  # Weighted sums of the rows of every class, of shape (n_classes, n_features).
    sparse: bool  # Whether the rows are stored sparse.
    fingerprint: str  # Digest of these sums and the keys of all rows.
    deviations: Sequence[Deviations]  # One for every shard with rows; empty for a linear machine.

    @property
    def n_rows(self) -> int:
        """Number of all rows."""
        return int(self.sizes.sum())

    def agree_with(self, survey: Survey) -> bool:
        """Return whether every class has the number of rows and the weight of the survey, and targets are the same."""
        counts, weights = ([given[label] for label in sorted(given)] for given in (survey.counts, survey.weights))
        if survey.bits not in (None, self.bits):
            return False
        # Sums of weights in another order may differ by rounding.
        return bool((self.counts == counts).all() and np.allclose(self.weights, weights, rtol=1e-9, atol=0.0))

    @classmethod
    def of(cls, rows: Shards[KeyedRows], n_classes: int, kernel: Kernel | None) -> Measures:
        """Compute the sums over shards, in one job."""
        keys, counts, *parts, sparse, found = zip(*rows.collect(_measured, (n_classes, kernel)), strict=True)
        weights, sums = (sum(part, np.zeros(1)) for part in parts)
        digest = sha256(repr(keys).encode() + weights.tobytes() + sums.tobytes())
        sizes, bits = np.array([size for size, _, _ in keys]), sum(bits for _, _, bits in keys) % 2**64
        deviations = [shard for shard in found if shard is not None]
        return cls(sizes, bits, np.sum(counts, axis=0), weights, sums, sparse[0], digest.hexdigest(), deviations)

    def variance(self, factors: Floats) -> float:
        """Return the weighted variance of all values, infinite if it overflows."""
        n_features, total = self.sums.shape[1], float(self.weights @ factors)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float((factors @ self.sums).sum() / total / n_features)
            squares = sum(shard.squares_about(mean, factors, n_features) for shard in self.deviations)
        variance = squares / total / n_features
        return beyond_rounding(variance, mean) if np.isfinite(variance) else np.inf

    def extents_about(self, means: Floats | None, kernel: Kernel) -> tuple[Extent, Extent]:
        """Return a lower and an upper bound of the extent of the rows about means of the columns."""
        with np.errstate(over="ignore", invalid="ignore"):
            lower, upper = zip(*(shard.extents_about(means, kernel) for shard in self.deviations), strict=True)
        return Extent.joined(lower), Extent.joined(upper)


def extent_of(rows: Shards[KeyedRows], means: Floats | None, kernel: Kernel) -> Extent:
    """Return the extent of rows about the means of the columns (None for sparse rows), in one job."""
    return Extent.joined(rows.collect(_extent, (means, kernel)))


def furthest_column(rows: Shards[KeyedRows], center: Floats | None) -> int:
    """Return the column that reaches furthest from the center, in one job."""
    return int(np.max(rows.collect(_reach, center), axis=0).argmax())


def shard_numbers(keys: Keys, n_shards: int) -> Indices:
    """Return the shards of keys, which divide the range of keys evenly."""
    return ((keys >> np.uint64(32)) * np.uint64(n_shards) >> np.uint64(32)).astype(np.int64)


# ---- what executors do ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scatter:
    columns: Columns
    sparse: bool
    classes: Floats
    random_state: int
    n_shards: int
    targets: tuple[float, float] | None


def _keyed(batch: pa.RecordBatch, scatter: _Scatter) -> list[tuple[int, KeyedRows]]:
    given = rows_of(batch, scatter.columns, scatter.sparse)
    weights = np.ones(batch.num_rows) if given.weights is None else given.weights
    X, labels, codes = canonical(given.X), np.asarray(given.labels), np.zeros(batch.num_rows, dtype=np.int64)
    if scatter.targets is not None:
        codes = bits_of(labels, *scatter.targets)
    elif len(scatter.classes):
        codes = np.searchsorted(scatter.classes, labels).astype(np.int64)
        known = scatter.classes[np.minimum(codes, len(scatter.classes) - 1)] == labels
        if not known[weights > 0].all():
            raise ValueError(
                f"the dataset changes from read to read: column {scatter.columns.label!r} has labels that it did not "
                "have when it was first read; write or cache it before training"
            )
    if given.ids is None:
        keys = row_keys(X, codes, weights, scatter.random_state)
    else:
        keys = keys_of_ids(given.ids, scatter.random_state)
    numbers = np.where(weights > 0, shard_numbers(keys, scatter.n_shards), -1)
    rows = KeyedRows(X, codes, weights, keys)
    return [(int(number), rows.take(np.flatnonzero(numbers == number))) for number in np.unique(numbers[numbers >= 0])]


def _numbers(batches: Iterator[pa.RecordBatch], _: Any) -> Floats:
    return np.concatenate([np.empty((0, 2)), *(np.column_stack(batch.columns) for batch in batches)])


def _sorted(pieces: Sequence[KeyedRows], _: _Scatter) -> KeyedRows:
    rows = _joined(pieces)
    return rows.take(np.argsort(rows.keys, kind="stable"))


def _joined(pieces: Sequence[KeyedRows], _: Any = None) -> KeyedRows:
    """Concatenate rows."""
    codes, weights, keys = (
        np.concatenate([getattr(rows, name) for rows in pieces]) for name in ("codes", "weights", "keys")
    )
    return KeyedRows(stacked([rows.X for rows in pieces]), codes, weights, keys, pieces[0].first)


def _dealt_evenly(rows: KeyedRows, sizes: Indices) -> list[tuple[int, KeyedRows]]:
    """Split rows by their indices for shards whose sizes differ by at most one."""
    total, n_shards, first = int(sizes.sum()), len(sizes), rows.first_index(sizes)
    bounds = np.arange(n_shards + 1) * total // n_shards
    pieces = []
    for number in range(n_shards):
        low, high = np.clip(bounds[number : number + 2] - first, 0, len(rows.codes)).tolist()
        if low < high:
            pieces.append((number, rows.take(slice(low, high), first + low)))
    return pieces


def _measured(
    rows: KeyedRows, value: tuple[int, Kernel | None]
) -> tuple[tuple[int, int, int], Indices, Floats, Floats, bool, Deviations | None]:
    """Return the number of rows, the sums of their keys and codes, and the entries of `Measures`."""
    n_classes, kernel = value
    keys, bits = (int(own.view(np.uint64).sum(dtype=np.uint64)) for own in (rows.keys, rows.codes))
    if n_classes == 1:
        rows = replace(rows, codes=np.zeros_like(rows.codes))
    sums = [column_sums(rows.X, rows.weights * (rows.codes == code)) for code in range(n_classes)]
    weights: Floats = np.bincount(rows.codes, rows.weights, n_classes).astype(np.float64)
    counts = np.bincount(rows.codes, minlength=n_classes)
    deviations = None if kernel is None or not len(rows.codes) else Deviations.of(rows, n_classes, kernel)
    return (len(rows.codes), keys, bits), counts, weights, np.array(sums), bool(sp.issparse(rows.X)), deviations


def _sums_of_rows(X: Floats, mean: float) -> tuple[Floats, Floats]:
    """Return the sums of the values of each row minus `mean`, and of their squares."""
    sums, squares = np.empty((2, len(X)))
    for s in row_chunks(len(X)):
        values = np.subtract(X[s], mean, dtype=np.float64)
        sums[s], squares[s] = values.sum(axis=1), np.einsum("ij,ij->i", values, values)
    return sums, squares


def _extent(rows: KeyedRows, value: tuple[Floats | None, Kernel]) -> Extent:
    means, kernel = value
    return Extent.of(rows.X, kernel, means)


def _reach(rows: KeyedRows, center: Floats | None) -> Floats:
    return column_reach(rows.X, center)
