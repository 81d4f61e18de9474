"""A driver that trains with checkpoints until it is killed: rows, folder of checkpoints, folder for Spark's files."""

import sys
import time

import spark_sessions

from dimargin import ODMClassifier, parts
from dimargin.spark.columns import Columns
from dimargin.spark.training import train

rows, folder, temporary = sys.argv[1:]
parts._ROWS_OF_SHARD = 200
spark = spark_sessions.session("local", temporary, spark__sql__shuffle__partitions="2")
machine = ODMClassifier(lam=100.0, gamma=0.3, tol=1e-6, random_state=0, strategy="diodm", branching=2, n_levels=2)
levels = []


def report(entry):
    levels.append(entry["level"])
    if len(levels) > 1:
        time.sleep(600)  # the first checkpoint is there, the next one is not


train(machine, spark.read.parquet(rows), Columns("features", "label"), report, checkpoint_dir=folder)
