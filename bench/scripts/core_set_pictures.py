"""What bench_core_set.py measures, as pictures: every function takes what a part of it returns, and gives a figure."""

import math
import statistics

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

PAPER = {"nodes": 100, "d": 50, "epsilon": 0.1, "p": 0.01}
AXES = {
    "nodes": "nodes (dashed: p scaled as 1 / nodes)", "d": "dimension d", "epsilon": "epsilon (finer to the right)",
    "p": "edge probability p",
}  # fmt: skip
LINE = {"markersize": 5, "linewidth": 1.5}
RIVAL = {"color": "black", "linestyle": "--", "linewidth": 1.2}
MARK = {"color": "0.5", "linestyle": ":", "linewidth": 1.5, "zorder": 0}
DETECTORS = {  # the first two have one core-set where the kernel's diagonal is constant: one is drawn inside the other
    "CoreSetSVDD": {
        "color": "tab:orange", "marker": "o", "markersize": 10, "markerfacecolor": "none", "linewidth": 4,
        "label": "CoreSetSVDD, C=1",
    },
    "OneClassCoreSetSVM": {"color": "tab:blue", "marker": "o", "label": "OneClassCoreSetSVM, C=1"},
    "OneClassCoreSetSVM, C=1e-3": {"color": "tab:green", "marker": "s", "label": "OneClassCoreSetSVM, C=1e-3"},
}  # fmt: skip


def consensus(found):
    """Steps and megabytes: in every column one quantity varies."""
    figure = Figure(figsize=(14, 7.5), layout="constrained")
    panels = figure.subplots(2, len(PAPER), sharex="col", sharey="row")
    for column, key in zip(panels.T, PAPER, strict=True):
        alone = [one for one in found if is_the_paper_s(one, but=[key])]
        draw_runs(column, key, alone, color="tab:blue", marker="o", label="everything else as in the paper")
        if key == "nodes":  # where p stays, a node has the more neighbours, the more nodes there are
            sparse = [one for one in found if is_the_paper_s(one, but=["nodes", "p"])]
            sparse = [one for one in sparse if one["p"] == float(f"{1 / one['nodes']:.0e}")]
            style = {"color": "tab:orange", "marker": "s", "linestyle": "--"}
            draw_runs(column, key, sparse, **style, label="p = 1 / nodes, rounded to one digit; else the same")
        for axes in column:
            axes.axvline(PAPER[key], **MARK, label="the paper's value")
            axes.set(xscale="log", yscale="log")
            axes.grid(alpha=0.3)
            plain_numbers(axes.yaxis)
            plain_numbers(axes.xaxis, [one[key] for one in alone])
        column[1].set_xlabel(AXES[key])
        if key == "epsilon":
            column[1].invert_xaxis()
    panels[0, 0].set_ylabel("steps until all nodes agree")
    panels[1, 0].set_ylabel("megabytes sent by all nodes until then")
    values = ", ".join(f"{key} = {value:g}" for key, value in PAPER.items())
    counts = [len(one["runs"]) for one in found]
    runs = " to ".join(str(n) for n in sorted({min(counts), max(counts)})) + (" runs" if max(counts) > 1 else " run")
    title = f"Cost until all nodes of a simulated network have one core-set. The paper's values: {values}."
    finish(figure, panels, f"{title}\nMarkers: median of {runs}; bars: smallest to largest; hollow: a single run")
    return figure


def is_the_paper_s(one, but):
    return one["loss"] == 0 and all(one[key] == value for key, value in PAPER.items() if key not in but)


def draw_runs(column, key, line, **style):
    line = sorted(line, key=lambda one: one[key])
    for axes, measured in zip(column, ("steps", "megabytes"), strict=True):
        middle = [statistics.median(run[measured] for run in one["runs"]) for one in line]
        axes.plot([one[key] for one in line], middle, **LINE | style)
        for one in line:
            values = [run[measured] for run in one["runs"]]
            if len(values) == 1:
                axes.plot(one[key], *values, **LINE | style | {"markerfacecolor": "white", "label": None})
            else:
                axes.plot([one[key]] * 2, [min(values), max(values)], color=style["color"], marker="_", markersize=9)


def classifier(found):
    """Accuracy and size of the core-set against epsilon; a column a data set."""
    sets = of_each(found, "data")
    figure = Figure(figsize=(6 * len(sets), 7.5), layout="constrained")
    panels = figure.subplots(2, len(sets), sharex=True, squeeze=False)
    for column, (name, here) in zip(panels.T, sets.items(), strict=True):
        kinds = of_each(here, "machine")
        (full,) = kinds["exact solver"]
        for axes, key, written in zip(column, ("accuracy", "support"), ("{:.2%}", "{:,d}"), strict=True):
            draw_epsilon(axes, kinds["core-set"], key, color="tab:blue", marker="o", label="core-set")
            for index, one in placed(kinds["core-set"]):
                annotate(axes, written.format(one[key]), (index, one[key]), (4, -5), va="top")
            axes.axhline(full[key], **RIVAL, label="full L2-SVM, gap 1e-3")
            annotate(axes, written.format(full[key]), (1, full[key]), (0, 3), va="bottom")
        above, below = column
        above.set_title(f"{name}, {full['rows']:,d} training rows", fontsize="medium")
        above.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}%"))
        above.margins(y=0.12)
        below.set_yscale("log")
        below.margins(y=0.12)
        plain_numbers(below.yaxis)
        below.set_xlabel("where growth ends: epsilon, or duality gap")
        below.set_xlim(right=below.get_xlim()[1] + 0.35)  # for the last numbers
    panels[0, 0].set_ylabel("accuracy on the rows left out")
    panels[1, 0].set_ylabel("rows of the core-set, or support vectors")
    finish(figure, panels, "L2-SVM with an rbf kernel (gamma = 8, C = 1), on a core-set and on all rows")
    return figure


def detectors(found):
    """Area under the curve and support against epsilon; a column a data set."""
    sets = of_each(found, "data")
    figure = Figure(figsize=(2 + 3 * len(sets), 7.5), layout="constrained")
    panels = figure.subplots(2, len(sets), sharex=True, sharey="row", squeeze=False)
    for column, (name, here) in zip(panels.T, sets.items(), strict=True):
        for label, line in of_each(here, "detector").items():
            for axes, key in zip(column, ("curve", "support"), strict=True):
                if label in DETECTORS:
                    draw_epsilon(axes, line, key, **DETECTORS[label])
                else:
                    axes.axhline(line[0][key], **RIVAL, label=f"scikit-learn's {label}")
        above, below = column
        above.axhline(0.5, **MARK, label="chance")
        above.set_title(f"{name}, {here[0]['rows']:,d} training rows", fontsize="medium")
        below.set_yscale("log")
        plain_numbers(below.yaxis)
        below.set_xlabel("where growth ends:\nepsilon, or duality gap")
    panels[0, 0].set_ylabel("area under the ROC curve")
    panels[1, 0].set_ylabel("rows of the core-set, or support vectors")
    finish(
        figure, panels, "Detectors trained on one class, tried on both. With this kernel (rbf) CoreSetSVDD and "
        "OneClassCoreSetSVM of one C have one core-set.",
    )  # fmt: skip
    return figure


def of_each(found, key):
    """Lists by what they have under `key`, in the order in which it comes."""
    return {value: [one for one in found if one[key] == value] for value in dict.fromkeys(one[key] for one in found)}


def placed(line):
    """Every one with its place: the finer epsilon, the farther to the right, and behind all what ends at a gap."""
    finest = max(-math.log10(one["epsilon"]) for one in line if one["epsilon"])
    indices = [-math.log10(one["epsilon"]) if one["epsilon"] else finest + 1 for one in line]
    return sorted(zip(indices, line, strict=True), key=lambda pair: pair[0])


def draw_epsilon(axes, line, key, **style):
    indices, line = zip(*placed(line), strict=True)
    values = [one[key] for one in line]
    axes.plot(indices[:-1], values[:-1], **LINE | style)
    axes.plot(indices[-1:], values[-1:], **LINE | style | {"label": None})  # not joined: it has no epsilon
    axes.axvline((indices[-2] + indices[-1]) / 2, color="0.7", linewidth=0.8)
    names = [f"{one['epsilon']:.0e}".replace("e-0", "e-") if one["epsilon"] else "gap\n1e-3" for one in line]
    axes.set_xticks(indices, names)
    axes.grid(alpha=0.3)


def annotate(axes, text, point, offset, **style):
    axes.annotate(text, point, offset, textcoords="offset points", fontsize="small", **style)


def plain_numbers(axis, indices=None):
    """Numbers without powers on a logarithmic axis; where `indices` are given, there and nowhere else."""
    axis.set_major_locator(LogLocator(subs=(1, 3)) if indices is None else FixedLocator(indices))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def finish(figure, panels, title):
    """Title and legend, which is that of the first panel, above all panels."""
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, title=title, loc="outside upper center", ncols=len(labels), frameon=False)
    figure.align_ylabels(panels[:, 0])
    figure.get_layout_engine().set(wspace=0.03)
