"""Published programs with sklearn.svm, unchanged: under `python` and under `python -m dimargin.accelerate`.

The folder accelerated has ten short scripts of the kinds that people publish. With `--gallery FOLDER`, those programs
of a folder that import sklearn.svm run in their place, for example the folder `examples` of scikit-learn's source
distribution (`pip download --no-deps --no-binary scikit-learn scikit-learn`). Programs that need a download, that fail
with scikit-learn's own classes, or that take longer than `--limit` seconds are left out, with the reason. Each program
runs in a process of its own; seconds are those of the process, imports included, and CPU seconds those of its first
run, which other programs disturb less. Scores are the numbers that a program prints, and pictures are compared pixel by
pixel.

    python bench/scripts/bench_accelerate.py [--times 3] [--gallery .../scikit_learn-1.9.1/examples [--only plot_svm]]
"""

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from common import heading, table, timed
from matplotlib.image import imread

HERE = Path(__file__).parent
IMPORTS = re.compile(r"from sklearn\.svm|from sklearn import .*\bsvm\b|import sklearn\.svm")
DOWNLOAD = re.compile(r"\bfetch_\w+")
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")
SECONDS = re.compile(r"[-+]?\d[\d.e+-]*\s*(?:seconds|sec|ms|s)\b")
DIGITS = 3


def cpu_seconds():
    """The processor's seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Run:
    """One run of a program: its seconds, what it printed and drew, and whether it ended well."""

    def __init__(self, path, accelerated, limit):
        start = ["-m", "dimargin.accelerate"] if accelerated else []
        with tempfile.TemporaryDirectory() as folder:
            python_path = os.pathsep.join([str(HERE / "accelerated" / "backend"), os.environ.get("PYTHONPATH", "")])
            env = os.environ | {
                "MPLBACKEND": "module://saving_backend", "FIGURES": folder, "PYTHONPATH": python_path,
                "DIMARGIN_ACCELERATE": "1",
            }  # fmt: skip
            before = cpu_seconds()
            self.seconds, done = timed(
                subprocess.run, [sys.executable, "-W", "ignore", *start, path.name], cwd=path.parent, env=env,
                capture_output=True, text=True, timeout=limit, check=False,
            )  # fmt: skip
            self.cpu = cpu_seconds() - before
            self.pictures = [imread(one) for one in sorted(Path(folder).glob("*.png"))]
        self.is_done, self.error = done.returncode == 0, done.stderr.strip().rpartition("\n")[2]
        self.printed = SECONDS.sub("", done.stdout)
        self.scores = [float(number) for number in NUMBER.findall(self.printed)]


def greatest_difference(one, other):
    """The greatest difference of two programs' printed numbers, or None if they print different lines."""
    if NUMBER.sub("", one.printed).split() != NUMBER.sub("", other.printed).split():
        return None
    return max((abs(a - b) for a, b in zip(one.scores, other.scores, strict=True)), default=0.0)


def pixels_that_differ(one, other):
    """The share of pixels of all pictures that differ by more than a twentieth in a colour, or None if sizes differ."""
    if [picture.shape for picture in one.pictures] != [picture.shape for picture in other.pictures]:
        return None
    different = [(np.abs(a - b).max(axis=2) > 0.05).ravel() for a, b in zip(one.pictures, other.pictures, strict=True)]
    return float(np.concatenate(different).mean()) if different else 0.0


def shown(scores):
    """The first four numbers that a program printed."""
    return " ".join(f"{score:.4g}" for score in scores[:4]) + (" ..." if len(scores) > 4 else "")


class LeftOutError(Exception):
    """A program cannot be compared, for the reason that the message says."""


def compared(path, times, limit):
    """A row of the table, and whether the scores are equal to three digits; LeftOutError without a comparison."""
    if needed := DOWNLOAD.search(path.read_text(encoding="utf-8")):
        raise LeftOutError(f"needs a download, {needed[0]}")
    runs = {}
    for accelerated, name in ((False, "scikit-learn"), (True, "dimargin")):
        try:
            runs[accelerated] = [Run(path, accelerated, limit) for _ in range(times)]
        except subprocess.TimeoutExpired as error:
            raise LeftOutError(f"more than {limit} s with {name}") from error
        if not (accelerated or runs[False][0].is_done):
            raise LeftOutError(f"fails with scikit-learn, too: {runs[False][0].error}")
    theirs, ours = runs[False][0], runs[True][0]
    seconds = [statistics.median(run.seconds for run in runs[accelerated]) for accelerated in (False, True)]
    difference, pixels = greatest_difference(theirs, ours), pixels_that_differ(theirs, ours)
    is_equal = ours.is_done and difference is not None and difference < 0.5 * 10**-DIGITS
    row = [
        path.stem, f"{seconds[0]:.1f}", f"{seconds[1]:.1f}", f"{seconds[0] / seconds[1]:.2f}",
        f"{theirs.cpu:.1f}", f"{ours.cpu:.1f}",
        shown(theirs.scores), "the same" if ours.scores == theirs.scores else shown(ours.scores),
        ours.error if not ours.is_done else "other lines" if difference is None else f"{difference:.2g}",
        "" if not theirs.pictures else "other sizes" if pixels is None else f"{100 * pixels:.2f}",
    ]  # fmt: skip
    return row, is_equal


def main():
    heading(__doc__)
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--gallery", type=Path, default=HERE / "accelerated")
    parser.add_argument("--only", default="", help="part of the names of the programs")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one run of a program")
    options = parser.parse_args()
    programs = sorted(one for one in options.gallery.rglob("*.py") if options.only in one.name)
    rows, unequal = [], []
    for path in programs:
        if not IMPORTS.search(path.read_text(encoding="utf-8")):
            continue
        try:
            row, is_equal = compared(path, options.times, options.limit)
        except LeftOutError as error:
            print(f"{path.stem} is left out: {error}", flush=True)
            continue
        print(*row, sep=" | ", flush=True)
        rows.append(row)
        unequal.extend([] if is_equal else [path.stem])
    headings = ["program", "scikit-learn, s", "accelerated, s", "times as fast", "CPU s", "CPU s, accelerated"]
    headings += ["scores", "scores, accelerated", "greatest difference", "pixels that differ, %"]
    if not rows:
        raise SystemExit(f"{options.gallery} has no programs that import sklearn.svm and can be compared")
    print("", table(headings, rows), "", sep="\n")
    print(f"Not equal to {DIGITS} digits: {', '.join(unequal) or 'none'}\n", flush=True)


if __name__ == "__main__":
    main()
