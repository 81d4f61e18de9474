"""README's table of time and accuracy, and the pictures of it, without anything of Sphinx."""

import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

README = Path(__file__).parents[2] / "README.md"
COLOURS = {"light": "#222832", "dark": "#ced6dd"}  # of the text of pages
OURS, OTHERS = "#4f7fc0", "#9a9a9a"
FIGURE_SPACE = "\u2007"  # This space is as wide as a digit, so that numbers align.


def front_page():
    """Return each data set of README's table with its rows: name of the machine, seconds and accuracy as they stand."""
    text = README.read_text(encoding="utf-8")
    match = re.search(r"^\|[^\n]*\| accuracy, % \|.*?\n\n", text, re.MULTILINE | re.DOTALL)
    if match is None:
        raise ValueError(f"{README} has no table with a column 'accuracy, %'")
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in match[0].strip().splitlines())
    return [
        (head[at].removesuffix(", s"), [(row[0].replace("`", ""), row[at], row[at + 1]) for row in rows])
        for at in range(1, len(head), 2)
    ]


def described(title, rows):
    """Return a picture of `front_page` in words, for readers who do not see it."""
    machines = "; ".join(f"{name} {seconds} s, {accuracy}%" for name, seconds, accuracy in rows)
    return f"Seconds of a fit and test accuracy on {title}: {machines}"


def decades(tables):
    """Return the powers of ten between which all seconds lie, so that pictures have one axis."""
    values = np.log10([float(seconds) for _, rows in tables for _, seconds, _ in rows])
    return 10.0 ** np.floor(values.min()), 10.0 ** np.ceil(values.max())


def picture(title, rows, limits, colour):
    """Draw a data set of `front_page`."""
    with _coloured(colour, title):
        figure, ax = plt.subplots(figsize=(5.2, 3.1), layout="constrained")
        _draw(ax, rows, limits, colour)
        figure.suptitle(f"{title}: seconds of a fit, and test accuracy", fontsize=10)
    return figure


def picture_of_readme(tables):
    """Draw the data sets of `front_page` one below the other, on white, since README.md has one picture for all."""
    with _coloured("black", "README"):
        figure, axes = plt.subplots(len(tables), figsize=(6.6, 5.6), layout="constrained", sharex=True)
        for ax, (title, rows) in zip(axes, tables, strict=True):
            _draw(ax, rows, decades(tables), "black")
            ax.set_title(title, fontsize=10)
        axes[0].set_xlabel("")
        figure.suptitle("Seconds of a fit on two cores, and test accuracy", fontsize=11)
    return figure


def _coloured(colour, title):
    """Return a context in which text and axes have this colour."""
    keys = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    return plt.rc_context({**dict.fromkeys(keys, colour), "font.size": 10, "svg.hashsalt": title})


def _draw(ax, rows, limits, colour):
    """Draw a dot for each machine on a log axis, and its numbers to the right.

    Bars would mislead: on a log axis they start at an arbitrary number above zero, which their lengths depend on.
    """
    names, seconds, accuracies = zip(*rows, strict=True)
    dots = [OURS if re.search("ODM|SVMC|landmark", name) else OTHERS for name in names]
    ax.scatter([float(number) for number in seconds], names, color=dots, s=45, zorder=3)
    low, high = limits
    ax.set(xscale="log", xlim=(low / 1.2, high * 1.2), ylim=(len(names) - 0.5, -0.5), xlabel="seconds (log scale)")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.grid(axis="y", color=colour, alpha=0.3, linestyle=":")
    ax.spines[["top", "right", "left"]].set_visible(False)
    numbers = ax.secondary_yaxis("right")
    width = max(map(len, seconds))
    numbers.set_yticks(
        range(len(names)),
        [
            f"{number.rjust(width, FIGURE_SPACE)} s   {share}%"
            for number, share in zip(seconds, accuracies, strict=True)
        ],
    )
    numbers.spines[:].set_visible(False)
    for axis in (ax, numbers):
        axis.tick_params(axis="y", length=0)


if __name__ == "__main__":  # make pictures
    found = front_page()
    words = "\n".join(described(title, rows) for title, rows in found)
    picture_of_readme(found).savefig(sys.argv[1], dpi=110, metadata={"Description": words})
