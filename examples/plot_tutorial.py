"""
Tutorial: from a CSV file to a model that answers
=================================================

A laboratory measures the nuclei of cells from a lump in the breast, on a picture of a needle sample. Thirty numbers
describe the nuclei of a patient, and a later operation has shown whether the lump was malignant. The laboratory wants
to tell which of the next samples a doctor must look at again, and to miss hardly any malignant one.

This page goes the whole way: look at the table, train, tune, choose a threshold, report, save, load elsewhere, and
answer requests. Everything on it was run when the page was built, and the button at its end downloads it as a notebook.
It needs ``pip install '.[report]'`` in a clone of the repository, and takes less than a minute on two cores.
"""

# %%
# The table
# ---------
#
# The data are the breast cancer data that scikit-learn ships (W. H. Wolberg, W. N. Street, O. L. Mangasarian, 1995). To
# begin where real projects do, with files, we write them as CSV: samples with a known diagnosis, and 200 samples that
# "come later". The second file is not used for any choice, so that the scores on it are honest.

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import dimargin as dm
from dimargin.io.data import read_data

folder = Path(tempfile.mkdtemp())
data = load_breast_cancer()
header = [name.replace(" ", "_") for name in data.feature_names]
diagnoses = data.target_names[data.target]
for file, chosen in zip(
    ("cells.csv", "later.csv"),
    train_test_split(range(len(diagnoses)), test_size=200, stratify=diagnoses, random_state=0),
    strict=True,
):
    with open(folder / file, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["diagnosis", *header])
        writer.writerows([diagnoses[i], *data.data[i].tolist()] for i in chosen)

# %%
# Look at it first
# ----------------
#
# How many rows of each class are there, and how large are the numbers? Columns differ by factors of thousands, so
# scaling is not optional: a kernel measures distances, in which the areas would drown everything else. ``dimargin
# train`` scales by itself; in Python a pipeline does.

cells = read_data(folder / "cells.csv", label="diagnosis")
X, y = cells.X, cells.y
print(dict(Counter(y.tolist())))
shown = ("mean_area", "mean_texture", "worst_concavity", "mean_smoothness")

figure, axes = plt.subplots(1, 4, figsize=(10, 2.8), layout="constrained", sharey=True)
for ax, name in zip(axes, shown, strict=True):
    column = X[:, header.index(name)]
    print(f"{name}: {column.min():g} to {column.max():g}")
    ax.hist([column[y == kind] for kind in data.target_names], bins=20, stacked=True, label=data.target_names)
    ax.set(xlabel=name)
axes[0].set(ylabel="samples")
axes[0].legend(fontsize="small")
plt.show()

# %%
# A first model, in one command
# -----------------------------
#
# ``dimargin train`` reads the file, scales the features, chooses between two losses by cross-validation, trains and
# saves. (Tables with missing values, categories and dates need `flags <../data-files.html>`__.)

environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}


def shell(command):
    """Run a command in the folder of the files, and print what it prints and how long it took."""
    began = time.perf_counter()
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    print(f"$ {command}\n{done.stdout}({time.perf_counter() - began:.1f} s)\n")
    done.check_returncode()


shell("dimargin train cells.csv --label diagnosis --model first.dimargin --random-state 0")

# %%
# The line "relative duality gap" is `the certificate <../certificates.html>`__: the training problem is solved as well
# as rounding allows. So better predictions need other parameters, other columns or more rows, not more training. Now
# the later samples:

shell("dimargin evaluate first.dimargin later.csv")

# %%
# Tune
# ----
#
# ``SVMClassifierCV`` tries values of C and gamma by cross-validation on the training rows.

began = time.perf_counter()
search = make_pipeline(MinMaxScaler(), dm.SVMClassifierCV(random_state=0)).fit(X, y)
tuned = search[-1]
print(f"{tuned.best_params_}: cross-validated accuracy {tuned.best_score_:.3f}, {time.perf_counter() - began:.1f} s")

model = make_pipeline(search[0], tuned.best_estimator_)
later = read_data(folder / "later.csv", label="diagnosis")
X_later, y_later = later.X, later.y
print(f"later samples: accuracy {model.score(X_later, y_later):.3f}")
print(confusion_matrix(y_later, model.predict(X_later), labels=["benign", "malignant"]))

# %%
# Choose what an error costs
# --------------------------
#
# The last row counts malignant samples: how many were called benign, and how many malignant. For this laboratory a
# missed one is far worse than a benign sample that a doctor sees twice. The accuracy does not know that, but the
# decision value lets us choose: above zero it means "malignant", and the lower a threshold we take, the fewer are
# missed. The threshold must come from rows that the model has not seen, so we take decision values of cross-validation,
# and the value that 99% of the malignant samples exceed. (`Class weights <../guide/imbalanced-classes.html>`__ make
# such a choice during training, and `probabilities <../probabilities.html>`__ are another way to express it.)

unseen = cross_val_predict(model, X, y, cv=10, method="decision_function")
threshold = np.quantile(unseen[y == "malignant"], 0.01)


def errors(values, y):
    """Return how many malignant samples are missed, and how many benign ones are reviewed for nothing."""
    reviewed = values > threshold
    return int((~reviewed & (y == "malignant")).sum()), int((reviewed & (y == "benign")).sum())


values = model.decision_function(X_later)
for name, (missed, needless) in (("cross-validation", errors(unseen, y)), ("later samples", errors(values, y_later))):
    print(f"{name}: values above {threshold:.2f} miss {missed} malignant samples, and send {needless} benign ones")

figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
bins = np.linspace(values.min(), values.max(), 40)
for kind in ("benign", "malignant"):
    ax.hist(values[y_later == kind], bins=bins, alpha=0.6, label=f"{kind}, later samples")
ax.axvline(0, color="black", linewidth=1, label="zero: what predict uses")
ax.axvline(threshold, color="black", linestyle="--", label="the threshold for the doctor")
ax.set(xlabel="decision value", ylabel="samples")
ax.legend(fontsize="small")
plt.show()

# %%
# Save it, and describe it
# ------------------------
#
# The file holds the scaler and the machine, and nothing in it is executed when it is loaded. ``dimargin report`` writes
# a page for the people who have to decide: scores with intervals, curves, the columns that matter, the least certain
# samples. It shows single samples, and so do the support vectors in the model: treat both like the data.

dm.save(model, folder / "cells.dimargin")
shell("dimargin report cells.dimargin later.csv --label diagnosis --output report.html")
shell("dimargin info cells.dimargin")

# %%
# Use it elsewhere
# ----------------
#
# Any process that has dimargin can load the file, and predicts the same. A pipe needs no Python at all: one label and
# decision value for each row.

shell("""python -c 'import dimargin; print(dimargin.load("cells.dimargin"))'""")
shell("head -n 4 later.csv | cut -d, -f2- | dimargin predict cells.dimargin - --decision-values")

# %%
# Serve it
# --------
#
# A laboratory system asks over HTTP. The server below is complete: it loads the model once, takes rows as JSON, and
# answers with decision values and whether a doctor must look. What is not a table of thirty numbers per row gets a
# clear answer, too. Behind a company's proxy, which adds encryption and log-in, that is enough for a small service.

(folder / "serve.py").write_text('''
"""Answer rows of measurements: python serve.py MODEL THRESHOLD. Prints the port that it listens on."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dimargin

MODEL, THRESHOLD = dimargin.load(sys.argv[1]), float(sys.argv[2])


class Answer(BaseHTTPRequestHandler):
    def do_POST(self):
        try:
            rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            values = MODEL.decision_function(rows)
            status, found = 200, [{"value": value, "review": value > THRESHOLD} for value in values.tolist()]
        except (TypeError, ValueError) as error:
            status, found = 400, {"error": str(error)}
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
print(server.server_port, flush=True)
server.serve_forever()
''')

server = subprocess.Popen(
    [sys.executable, "serve.py", "cells.dimargin", str(threshold)], cwd=folder, stdout=subprocess.PIPE, text=True
)
address = f"http://127.0.0.1:{int(server.stdout.readline())}"

# %%
# A client, here Python's own, sends rows and reads the answer:


def ask(rows):
    """Return what the server says about rows."""
    with urllib.request.urlopen(address, json.dumps(rows).encode()) as answer:
        return json.load(answer)


print(ask(X_later[:2].tolist()))
try:
    ask([[17.99, 10.38]])
except urllib.error.HTTPError as refused:
    print(refused.code, json.load(refused))

seconds = []
for row in X_later:
    began = time.perf_counter()
    ask([row.tolist()])
    seconds.append(time.perf_counter() - began)
print(f"a request of one row takes {1000 * np.median(seconds):.1f} ms, one of 200 rows at once", end=" ")
began = time.perf_counter()
answers = ask(X_later.tolist())
print(f"{1000 * (time.perf_counter() - began):.1f} ms; all answers are those of the model:", end=" ")
print([answer["value"] for answer in answers] == values.tolist())
server.terminate()
server.wait()

# %%
# Keep it right
# -------------
#
# When later samples have got their diagnoses, ``dimargin evaluate`` scores the deployed model on them. If the share of
# missed samples grows, the samples have changed: look for columns whose values leave the range of the training rows,
# and train again with the new rows. That took seconds here; on tables of millions of rows, `limit the time
# <../guide/time-limits.html>`__ or take `landmarks <../guide/millions.html>`__.

outside = (X_later < X.min(axis=0)) | (X_later > X.max(axis=0))
most = np.argsort(-outside.mean(axis=0))[:3]
print("outside the training range:", {header[i]: f"{outside[:, i].mean():.1%}" for i in most})
