"""Compiled core: fused kernel tiles, the block solver and linear passes (cpp/).

Arrays are C-contiguous and of exactly these types. Every function releases the interpreter lock for its
arithmetic, and its results do not depend on `n_threads`.

The best instruction set of the processor is used, or the one that the environment variable DIMARGIN_INSTRUCTION_SET
names when the core is loaded: baseline, avx2 or avx512. An ImportError says so if the processor lacks it.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

_Float32: TypeAlias = NDArray[np.float32]
_Float64: TypeAlias = NDArray[np.float64]
_Int32: TypeAlias = NDArray[np.int32]
_Int64: TypeAlias = NDArray[np.int64]
_KernelName: TypeAlias = Literal["linear", "poly", "rbf", "laplacian"]

def longest_sum(n_features: int) -> int:
    """Return the length of the longest chain of additions in the sum over the features of a dense row."""

LONGEST_CHAIN: int  # numbers of a sparse row up to which its sums are one chain of additions
SPARSE_PARTS: int  # of a sum, where both rows have more

def columns_a_part(n_features: int) -> int:
    """Return how many columns a part of such a sum has."""

def longest_product(n_columns: int, n_features: int, sparse: bool) -> int:
    """Bound the longest chain of additions in a sum, over columns, of float64 kernel values times coefficients."""

def longest_single_sum(stored: bool) -> int:
    """Bound the longest chain of additions in float32 in a sum, over columns, of float32 kernel values.

    The values are those of tiles, with the instruction set in use, or stored ones.
    """

class Rows32:
    """Prepared float32 rows, dense or CSR with sorted columns; the arrays are kept, not copied."""

    @overload
    def __init__(self, dense: _Float32) -> None: ...
    @overload
    def __init__(self, data: _Float32, offsets: _Int64, columns: _Int32, n_features: int) -> None: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_features(self) -> int: ...
    @property
    def is_constant(self) -> bool: ...  # whether stored numbers are all the same
    def compute_norms(self, absolute: bool) -> None:
        """Compute ``|x|_1`` of every row (laplacian on sparse rows needs it) or ``|x|^2 / 2`` (rbf does)."""

class Rows64:
    """Prepared float64 rows, dense or CSR with sorted columns; the arrays are kept, not copied."""

    @overload
    def __init__(self, dense: _Float64) -> None: ...
    @overload
    def __init__(self, data: _Float64, offsets: _Int64, columns: _Int32, n_features: int) -> None: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_features(self) -> int: ...
    @property
    def is_constant(self) -> bool: ...  # whether stored numbers are all the same
    def compute_norms(self, absolute: bool) -> None:
        """Compute ``|x|_1`` of every row (laplacian on sparse rows needs it) or ``|x|^2 / 2`` (rbf does)."""

_Rows: TypeAlias = Rows32 | Rows64  # both arguments of a call of one type

def multiply(
    kernel: _KernelName,
    coef0: float,
    degree: int,
    difference: bool,
    lowest: float,
    x: _Rows,
    x_index: _Int64,
    z: _Rows,
    z_index: _Int64,
    coefficients: _Float64,
    out: _Float64,
    n_threads: int,
) -> int:
    """Add ``sum_j k(x_i, z_j) coefficients[q, j]`` to ``out[q, i]``, for the rows at these places.

    Values of rbf and laplacian below ``2^lowest`` count as zero, and those of rows in boxes far apart are not computed,
    unless `lowest` is minus infinity. Returns how many were computed.
    """

def block(
    kernel: _KernelName,
    coef0: float,
    degree: int,
    difference: bool,
    lowest: float,
    x: _Rows,
    x_index: _Int64,
    z: _Rows,
    z_index: _Int64,
    out: NDArray[Any],
    n_threads: int,
) -> int:
    """Set ``out[i, j] = k(x_i, z_j)`` for the rows at these places; `out` has their type.

    For `lowest` and for what is returned see `multiply`.
    """

def multiply_parts(
    kernel: _KernelName,
    coef0: float,
    degree: int,
    difference: bool,
    lowest: float,
    x: _Rows,
    x_index: _Int64,
    x_bounds: _Int64,
    z: _Rows,
    z_index: _Int64,
    z_bounds: _Int64,
    coefficients: _Float64,
    out: _Float64,
    n_threads: int,
) -> int:
    """Do as `multiply` for one output and for every part of a kernel matrix.

    Bounds say where the rows, and the columns, of every part begin in their index, and where the last ones end.
    """

def block_parts(
    kernel: _KernelName,
    coef0: float,
    degree: int,
    difference: bool,
    lowest: float,
    x: _Rows,
    x_index: _Int64,
    x_bounds: _Int64,
    z: _Rows,
    z_index: _Int64,
    z_bounds: _Int64,
    out: NDArray[Any],
    n_threads: int,
) -> int:
    """Do as `block` for every part of a kernel matrix, see `multiply_parts`; their values follow one another."""

def combine_rows(values: NDArray[Any], slots: _Int64, coefficients: _Float64, out: _Float64, n_threads: int) -> None:
    """Add ``sum_j values[slots[j], c] coefficients[q, j]`` to ``out[q, c]``, for stored kernel values."""

def look_up_rows(values: NDArray[Any], slots: _Int64, columns: _Int64, out: NDArray[Any]) -> None:
    """Set ``out[i, j]`` to ``values[slots[i], columns[j]]``, or by symmetry to ``values[slots[j], columns[i]]``.

    Entries of which neither slot is non-negative are left as they are.
    """

class BlockSolve:
    """Solve of a block that has begun: with several threads one of them does it while others compute kernel values.

    Its arrays must not change until `finish` has returned.
    """

    def finish(self) -> float:
        """Return the number of floating-point operations, about, when the block is solved: here, if nowhere else."""

def solve_block(
    gram: _Float64,
    index: _Int64,
    pieces: _Float64,
    y: _Float64,
    dual: _Float64,
    margins: _Float64,
    change: _Float64,
    sums: int,
    tolerance: float,
    absolute: float,
    max_steps: int,
    n_threads: int,
) -> BlockSolve:
    """Begin to solve the block of rows `index` for every output.

    Parameters
    ----------
    gram : array of shape (size, size)
        Kernel values of the block, without labels.
    index : array of shape (size,)
    pieces : array of shape (6, n)
        `dimargin.problems.losses.PiecewiseConjugate.stack`.
    y : array of shape (n_outputs, n)
        Labels, plus or minus one.
    dual : array of shape (n_outputs, n)
        Updated at the places of the block.
    margins : array of shape (n_outputs, n)
        Margins of `dual` as it was.
    change : array of shape (n_outputs, size)
        Receives ``y * (new dual - old dual)``.
    sums : int
        How many sums of ``y * dual`` stay: none, one, or two, of the rows of either label.
    tolerance, absolute : float
        The block is solved when no violation exceeds `tolerance` times the first one, or `absolute`.
    max_steps : int
    n_threads : int
        Outputs are solved side by side.

    Returns
    -------
    BlockSolve
        `dual` and `change` are written when its method `finish` has returned.
    """

def solve_blocks(
    grams: _Float64,
    bounds: _Int64,
    pieces: _Float64,
    y: _Float64,
    dual: _Float64,
    margins: _Float64,
    intercept: bool,
    max_steps: int,
    n_threads: int,
) -> None:
    """Solve problems of one block and one output each, to rounding. Their rows follow one another in every array.

    Parameters
    ----------
    grams : array of shape (sum of squares,)
        Kernel values of every problem, without labels.
    bounds : array of shape (n_problems + 1,)
        Where the rows of every problem begin, and the last ones end.
    pieces : array of shape (6, n)
        As in `solve_block`.
    y : array of shape (n,)
    dual : array of shape (n,)
        Coefficients to start from; updated in place.
    margins : array of shape (n,)
        Margins of `dual` as it was.
    intercept : bool
        Whether the sum of ``y * dual`` stays.
    max_steps : int
        Of every problem.
    n_threads : int
        Problems are solved side by side.
    """

def class_pair_scratch(rows: int) -> int:
    """Return how many numbers of float32 `solve_class_pairs` needs as scratch memory for a pair of so many rows."""

def solve_class_pairs(
    first: Sequence[NDArray[np.float32]],
    between: NDArray[np.float32],
    second: Sequence[NDArray[np.float32]],
    pieces: _Float64,
    dual: _Float64,
    intercept: bool,
    goal: float,
    steps_a_row: int,
    n_threads: int,
) -> None:
    """Solve the problems of pairs of classes by pair steps on stored kernel values, in single precision.

    For losses whose coefficients are never negative. The rows of a pair are in the order of its classes, of which the
    second is the positive one, and those of the pairs follow one another.

    Parameters
    ----------
    first, second
        Kernel values of the classes of every pair with themselves, of shapes (a, a) and (b, b).
    between
        Those of the first class of a pair with the second one, (a, b), pair after pair.
    pieces
        As in `solve_block`, of shape (6, n) for the rows of all pairs.
    dual
        Coefficients to start from, of shape (n,); updated in place.
    intercept
        Whether the sum of labels times coefficients stays as it is.
    goal
        Relative duality gap, by scores in single precision, at which the steps of a pair end.
    steps_a_row
        Steps for every row of a pair, after which they end in any case; also where rounding hides what is left.
    n_threads
        Pairs are solved side by side.
    """

def solve_pairs(
    gram: NDArray[Any],
    index: _Int64,
    pieces: _Float64,
    y: _Float64,
    dual: _Float64,
    margins: _Float64,
    change: _Float64,
    sums: int,
    tolerance: float,
    absolute: float,
    max_steps: int,
    n_threads: int,
) -> BlockSolve:
    """Begin to take pair steps in the block of rows `index`, for losses whose coefficients are never negative.

    Parameters, and what is returned, are those of `solve_block`; `gram` is float32 or float64, which the steps are
    computed in. What they leave undone is finished by at most `max_steps` Newton steps.
    """

tile_width: int
"""Columns of a tile of `factor_columns`."""

def factor_columns(matrix: NDArray[Any], begin: int, end: int, n_threads: int) -> bool:
    """Go on with Cholesky's method, in place: the lower triangle of `matrix` becomes the factor L of ``L L'``.

    The matrix is float32 or float64, of shape (n, n). Its columns up to `begin` have been done, those up to `end` are
    done now, each a multiple of `tile_width`, or n. Returns whether the matrix is positive definite so far; otherwise
    it is spoilt.
    """

def solve_triangle(factor: NDArray[Any], right: NDArray[Any], transposed: bool, n_threads: int) -> None:
    """Replace every row b of `right`, of shape (count, n), by the solution of ``L x = b``, or of ``L' x = b``.

    L is the lower triangle of `factor`, of shape (n, n) and the same type.
    """

def mix(numbers: NDArray[np.uint64]) -> None:
    """Mix the bits of every number, in place: the finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""

def hash_rows(x: Rows32 | Rows64, columns: NDArray[np.uint64], out: NDArray[np.uint64]) -> None:
    """Set ``out[i]`` to the sum of the mixed bits of row i's numbers that are not zero, each with its column's."""

def respond(margins: _Float64, pieces: list[_Float64], dual: _Float64, curvature: _Float64, value: _Float64) -> None:
    """Set `dual` to minus the derivative of the loss at `margins`, `curvature` to its second one, `value` to the loss.

    All of them are of shape (n_outputs, n). `pieces` is `dimargin.problems.losses.PiecewiseConjugate.rows` of a smooth
    loss.
    """

def svrg_pass(
    x: _Rows,
    rows: _Int64,
    places: _Int64,
    labels: _Float64,
    pieces: list[_Float64],
    scale: float,
    steps: _Float64,
    anchor: _Float64,
    gradient: _Float64,
    change: _Float64,
    intercept: bool,
) -> None:
    """Run the inner loop of stochastic variance reduced gradient, for every output.

    Parameters
    ----------
    x : Rows32 or Rows64
    rows : array of shape (n_steps,)
        Rows of x in the order of the steps.
    places : array of shape (n_steps,)
        Places of these rows in `labels` and `pieces`.
    labels : array of shape (n_outputs, n)
    pieces : list of six arrays of shape (n,)
        `dimargin.problems.losses.PiecewiseConjugate.rows`.
    scale : float
        Rows of the whole problem.
    steps : array of shape (n_outputs,)
        Step sizes, below 1.
    anchor, gradient, change : arrays of shape (n_outputs, n_features + 1)
        Weights of the anchor with the intercept behind them, the gradient there, and how far the iterate is from the
        anchor, which is updated.
    intercept : bool
        Whether the machine has an intercept.
    """

def descend_classes(
    x: _Rows,
    classes: _Int64,
    prices: _Float64,
    squares: _Float64,
    slack: float,
    blocks: _Int64,
    rows_per_block: int,
    weights: _Float64,
    dual: _Float64,
    active: NDArray[np.uint8],
) -> tuple[int, float, float]:
    """Run a pass of dual coordinate descent for the machine of Crammer and Singer, or a part of it.

    Parameters
    ----------
    x : Rows32 or Rows64
        All n rows.
    classes : array of shape (n,)
        Index of the class of every row.
    prices : array of shape (n,)
        Weights of the losses, the bounds of the coefficients.
    squares : array of shape (n,)
        Squared norms of the rows.
    slack : float
        A row whose coefficients stay by more than this, the largest violation of the last pass, becomes inactive.
    blocks, rows_per_block
        See `descend`.
    weights : array of shape (n_features, n_classes)
        Weights, which are updated.
    dual : array of shape (n, n_classes)
        Dual coefficients, which are updated. Those of a row sum to zero; that of its class is at most its price, and
        the others are at most zero.
    active : array of shape (n,)
        One for the rows to visit, which is updated.

    Returns
    -------
    visited : int
        Number of rows visited.
    largest : float
        Largest violation of the optimality conditions that was found.
    gap : float
        Sum of the gaps of the rows when they were visited.
    """

def descend(
    x: _Rows,
    labels: _Float64,
    pieces: list[_Float64],
    squares: _Float64,
    square_of_one: float,
    slack: _Float64,
    outputs: _Int64,
    blocks: _Int64,
    rows_per_block: int,
    weights: _Float64,
    dual: _Float64,
    active: NDArray[np.uint8],
    sums: _Float64,
    n_threads: int,
) -> None:
    """Run a pass of dual coordinate descent for linear machines, or a part of it, for some outputs.

    Parameters
    ----------
    x : Rows32 or Rows64
        All n rows.
    labels : array of shape (n_outputs, n)
    pieces : list of six arrays of shape (n,)
        `dimargin.problems.losses.PiecewiseConjugate.rows`.
    squares : array of shape (n,)
        Squared norms of the rows, with `square_of_one`.
    square_of_one : float
        Square of the constant feature that stands for the intercept; zero without intercept.
    slack : array of shape (n_outputs, 2)
        A row whose coefficient stays at a bound or a kink by more than these, the largest slopes of the last pass at
        which a coefficient could rise or fall, becomes inactive.
    outputs : array
        Indices of the outputs to work on.
    blocks : array
        Indices of blocks of consecutive rows, in the order of the pass.
    rows_per_block : int
    weights : array of shape (n_outputs, n_features + 1)
        Weights and the intercept, which are updated.
    dual : array of shape (n_outputs, n)
        Dual coefficients, which are updated.
    active : array of shape (n_outputs, n)
        One for the rows to visit, else zero; updated.
    sums : array of shape (n_outputs, 6)
        Largest slopes at which a coefficient could rise and fall, the sum of the gaps of rows when they are visited,
        the changes of the sums of phi(g) and of y g, and the number of visits; updated.
    n_threads : int
        Threads, which take whole outputs.
    """

def max_threads() -> int:
    """Return the number of threads that OpenMP (and threadpoolctl) allow."""

def instruction_sets() -> list[str]:
    """Return the instruction sets that this processor can run and DIMARGIN_INSTRUCTION_SET allows, best last."""

def instruction_set() -> str:
    """Return the instruction set in use."""

def use_instruction_set(name: str) -> None:
    """Choose an instruction set, for the whole process: for tests and benchmarks."""

def add_squares(x: _Rows, coefficients: _Float64, matrix: _Float64) -> None:
    """Add ``sum_i coefficients[i] x_i x_i'`` to the lower triangle of a matrix.

    Parameters
    ----------
    x : Rows32 or Rows64
        Sparse rows, whose columns are sorted.
    coefficients : array of shape (n,)
    matrix : array of shape (n_features, n_features), or one larger
        Sums, which are updated. A larger one is that of rows that end with a one.
    """
