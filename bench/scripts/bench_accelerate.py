"""Published programs with sklearn.svm, unchanged: under `python` and under `python -m dimargin.accelerate`.

The folder accelerated has ten short scripts of the kinds that people publish. With the folder `examples` of
scikit-learn's source distribution as an argument, its gallery's examples of SVMs follow. Each program runs in a process
of its own; seconds are those of the process, imports included. Scores are the numbers that a program prints, and
pictures are compared pixel by pixel.

    python bench/scripts/bench_accelerate.py [--times 3] [.../scikit_learn-1.9.1/examples]
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from common import heading, table, timed
from matplotlib.image import imread

HERE = Path(__file__).parent
TOO_LONG = 120  # seconds
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")
SECONDS = re.compile(r"[-+]?\d[\d.e+-]*\s*(?:seconds|sec|ms|s)\b")
DIGITS = 3


class Run:
    """One run of a program: its seconds, what it printed and drew, and whether it ended well."""

    def __init__(self, path, accelerated):
        start = ["-m", "dimargin.accelerate"] if accelerated else []
        with tempfile.TemporaryDirectory() as folder:
            python_path = os.pathsep.join([str(HERE / "accelerated" / "backend"), os.environ.get("PYTHONPATH", "")])
            env = os.environ | {
                "MPLBACKEND": "module://saving_backend", "FIGURES": folder, "PYTHONPATH": python_path,
                "DIMARGIN_ACCELERATE": "1",
            }  # fmt: skip
            self.seconds, done = timed(
                subprocess.run, [sys.executable, "-W", "ignore", *start, path.name], cwd=path.parent, env=env,
                capture_output=True, text=True, timeout=TOO_LONG, check=False,
            )  # fmt: skip
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


def compared(path, times):
    """A row of the table, and whether the scores are equal to three digits."""
    runs = {accelerated: [Run(path, accelerated) for _ in range(times)] for accelerated in (False, True)}
    theirs, ours = runs[False][0], runs[True][0]
    seconds = [statistics.median(run.seconds for run in runs[accelerated]) for accelerated in (False, True)]
    failed = [run.error for run in (theirs, ours) if not run.is_done]
    difference, pixels = greatest_difference(theirs, ours), pixels_that_differ(theirs, ours)
    is_equal = not failed and difference is not None and difference < 0.5 * 10**-DIGITS
    row = [
        path.stem, f"{seconds[0]:.1f}", f"{seconds[1]:.1f}", f"{seconds[0] / seconds[1]:.2f}",
        shown(theirs.scores), "the same" if ours.scores == theirs.scores else shown(ours.scores),
        failed[0] if failed else "other lines" if difference is None else f"{difference:.2g}",
        "" if not theirs.pictures else "other sizes" if pixels is None else f"{100 * pixels:.2f}",
    ]  # fmt: skip
    return row, is_equal


def examples_in(folder):
    """Programs of scikit-learn's gallery that import its SVMs and download nothing."""
    programs = []
    for path in sorted(Path(folder).rglob("plot_*.py")):
        text = path.read_text(encoding="utf-8")
        if re.search(r"from sklearn\.svm|from sklearn import .*\bsvm\b", text) and "fetch_" not in text:
            programs.append(path)
    return programs


def main():
    heading(__doc__)
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("examples", nargs="?")
    options = parser.parse_args()
    for programs in (sorted((HERE / "accelerated").glob("*.py")), examples_in(options.examples or HERE / "none")):
        rows, unequal = [], []
        for path in programs:
            try:
                row, is_equal = compared(path, options.times)
            except subprocess.TimeoutExpired:
                print(f"{path.stem}: more than {TOO_LONG} s, left out", flush=True)
                continue
            print(*row, sep=" | ", flush=True)
            rows.append(row)
            unequal.extend([] if is_equal else [path.stem])
        headings = ["program", "scikit-learn, s", "accelerated, s", "times as fast"]
        headings += ["scores", "scores, accelerated", "greatest difference", "pixels that differ, %"]
        if rows:
            print("", table(headings, rows), "", sep="\n")
            print(f"Not equal to {DIGITS} digits: {', '.join(unequal) or 'none'}\n", flush=True)


if __name__ == "__main__":
    main()
