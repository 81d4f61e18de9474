"""Throughput of the fused RBF tile against numpy doing the same, on random rows.

20,000 rows against chunks of 512 columns. `product` sums kernel values times coefficients and
stores no kernel value; `values` stores them. The numpy pipeline is matmul, distance and exp, every
step in place in a buffer allocated before, with the factor of the product and gamma taken out
beforehand; `product` then multiplies the buffer with the coefficients. It runs on the whole chunk
of 20,000 x 512 ("whole") and on 512 rows at a time, which stay in the cache ("tiles"). Repeats of
all contenders are interleaved; before each come a pause on more than one thread, since idle threads
of OpenBLAS keep a core busy for a tenth of a second and would slow down whoever comes next, and a
run that does not count, which wakes the threads.
"""

import argparse
import time

import numpy as np
from common import describe, heading, median_and_spread, table
from threadpoolctl import threadpool_limits

from dimargin import _core
from dimargin.kernels.functions import Kernel
from dimargin.kernels.row_transform import RowTransform

COLUMNS = 512
PAUSE = 0.2  # seconds


def fused(X, gamma, n_threads, difference=False):
    """Contenders of this package: one call of the core each."""
    transform = RowTransform.fit(X, Kernel("rbf", gamma))
    if difference:  # what the rounding rule takes where gamma is large
        transform = RowTransform.fit(X, Kernel("rbf", 30 * gamma))
    assert transform.dtype is np.float32 and transform.difference == difference
    rows, every, columns = transform.apply(X), np.arange(len(X)), np.arange(COLUMNS)
    coefficients = np.random.default_rng(1).normal(size=(1, COLUMNS))
    products, values = np.zeros((1, len(X))), np.zeros((len(X), COLUMNS), dtype=np.float32)
    arguments = "rbf", 0.0, 1, difference, -np.inf, rows, every, rows, columns

    def product():
        _core.multiply(*arguments, coefficients, products, n_threads)

    def block():
        _core.block(*arguments, values, n_threads)

    return product, block


def pipeline(X, gamma, dtype, rows_at_once):
    """The same with numpy: exp(2 gamma x.z - gamma x.x - gamma z.z), in place."""
    X = (X - X.mean(axis=0)).astype(dtype)
    Z = X[:COLUMNS].T
    scaled = X * dtype(2 * gamma)
    x_norms = -dtype(gamma) * np.einsum("ij,ij->i", X, X)[:, None]
    z_norms = x_norms[:COLUMNS].T.copy()
    values = np.zeros((rows_at_once, COLUMNS), dtype=dtype)
    coefficients = np.random.default_rng(1).normal(size=COLUMNS).astype(dtype)
    products = np.zeros(len(X), dtype=dtype)

    def run(with_product):
        for first in range(0, len(X), rows_at_once):
            part = slice(first, first + rows_at_once)
            K = values[: len(X[part])]
            np.matmul(scaled[part], Z, out=K)
            K += x_norms[part]
            K += z_norms
            np.minimum(K, 0, out=K)
            np.exp(K, out=K)
            if with_product:
                np.matmul(K, coefficients, out=products[part])

    return lambda: run(True), lambda: run(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--features", type=int, nargs="+", default=[8, 22, 54, 123])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=11)
    options = parser.parse_args()
    heading(__doc__)
    for task in (0, 1):
        lines = []
        for n_threads in options.threads:
            for d in options.features:
                X = np.random.default_rng(0).random((options.rows, d))
                gamma = 1 / (d * X.var())  # gamma="scale"
                contenders = {
                    "fused": fused(X, gamma, n_threads),
                    "fused, differences": fused(X, gamma, n_threads, difference=True),
                    "numpy float32, whole": pipeline(X, gamma, np.float32, len(X)),
                    "numpy float32, tiles": pipeline(X, gamma, np.float32, 512),
                    "numpy float64, whole": pipeline(X, gamma, np.float64, len(X)),
                }
                times = {name: [] for name in contenders}
                with threadpool_limits(n_threads, user_api="blas"):
                    for _ in range(options.repeats):
                        for name, contender in contenders.items():
                            time.sleep(PAUSE if n_threads > 1 else 0)
                            contender[task]()
                            began = time.perf_counter()
                            contender[task]()
                            times[name].append((time.perf_counter() - began) / (len(X) * COLUMNS) * 1e9)
                ours = median_and_spread(times["fused"])[0]
                ratios = [f"{median_and_spread(values)[0] / ours:.2f}" for values in list(times.values())[2:]]
                lines.append([str(n_threads), str(d), *map(describe, times.values()), *ratios])
        rivals = list(contenders)[2:]
        print(f"{('product', 'values')[task]}: ns per kernel value, median [smallest .. largest]\n")
        print(table(["threads", "d", *contenders, *(f"{rival} / fused" for rival in rivals)], lines), "\n", flush=True)


if __name__ == "__main__":
    main()
