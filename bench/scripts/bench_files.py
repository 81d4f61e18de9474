"""Reading two million rows of 18 columns: seconds and memory for each format of a data file.

Each file is read in a process of its own. The arrays are X (dense, float64) and y; the peak is the
largest resident memory less what was resident before, with all libraries in place. Files are in a
temporary folder, most likely in the page cache. Memory is Linux's /proc.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from common import describe, heading, resident, table, timed

from dimargin.io.data import read_data

ROWS, COLUMNS, REPEATS = 2_000_000, 18, 3
FORMATS = {"LIBSVM text": "svm", "CSV": "csv", "Parquet": "parquet"}


def write(folder, name, n_rows):
    """The same rows, six digits each, in every format."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_rows, COLUMNS)).round(6), rng.integers(0, 2, n_rows)
    rows = pa.table({"label": y, **{f"x{k}": X[:, k] for k in range(COLUMNS)}})
    pyarrow.csv.write_csv(rows, folder / f"{name}.csv")
    pyarrow.parquet.write_table(rows, folder / f"{name}.parquet")
    line = "%d " + " ".join(f"{k}:%.6f" for k in range(1, COLUMNS + 1)) + "\n"
    with open(folder / f"{name}.svm", "w") as file:
        file.writelines(line % (label, *row) for row, label in zip(X, y, strict=True))


def measure(warm, path):
    """In a process of its own: seconds, bytes at most, bytes that stay, bytes of the arrays."""
    read_data(warm)  # libraries that a first call loads
    before = resident()
    seconds, data = timed(read_data, path)
    assert data.X.shape == (ROWS, COLUMNS)
    print(seconds, 1024 * (resident(peak=True) - before), 1024 * (resident() - before), data.X.nbytes + data.y.nbytes)


def main():
    if len(sys.argv) > 1:
        return measure(*sys.argv[1:])
    heading(__doc__)
    rows = []
    with TemporaryDirectory() as folder:
        folder = Path(folder)
        write(folder, "small", 1000)
        write(folder, "large", ROWS)
        for name, suffix in FORMATS.items():
            path = folder / f"large.{suffix}"
            command = [sys.executable, __file__, str(folder / f"small.{suffix}"), str(path)]
            runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(REPEATS)]
            seconds, peak, stays, size = np.array([run.stdout.split() for run in runs], dtype=float).T
            megabytes = f"{path.stat().st_size / 1e6:.0f}", f"{size[0] / 1e6:.0f}", f"{np.median(peak) / 1e6:.0f}"
            rows.append([name, *megabytes, describe(peak / size), describe(stays / size), describe(seconds)])
            print(*rows[-1], flush=True)
    headings = ["format", "file, MB", "arrays, MB", "peak, MB", "peak / arrays", "afterwards / arrays", "seconds"]
    print("\n" + table(headings, rows))


if __name__ == "__main__":
    main()
