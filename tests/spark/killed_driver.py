"""A driver that trains with checkpoints until it is killed: rows, folder of checkpoints, folder for Spark's files."""

import sys
import time

import spark_sessions

from dimargin import ODMClassifier
from dimargin.sharding import parts
from dimargin.spark.columns import Columns
from dimargin.spark.training import train
from dimargin.strategies import Progress

rows, folder, temporary = sys.argv[1:]
parts._ROWS_OF_SHARD = 200
spark = spark_sessions.session("local", temporary, spark__sql__shuffle__partitions="2")
machine = ODMClassifier(lam=100.0, gamma=0.3, tol=1e-6, random_state=0, strategy="diodm", branching=2, n_levels=2)


class UntilTheSecondLevel(Progress):
    """The first checkpoint is there, and the next one is not."""

    first = True

    def level_end(self, entry, found):
        if not self.first:
            time.sleep(600)
        self.first = False
        return False


train(machine, spark.read.parquet(rows), Columns("features", "label"), UntilTheSecondLevel(), checkpoint_dir=folder)
