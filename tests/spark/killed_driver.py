"""A driver that trains with checkpoints until it is killed: name of the machine, rows, checkpoints, Spark's files."""

import sys
import time

import spark_sessions
from sklearn.base import clone

import dimargin as dm
from dimargin.shards import parts
from dimargin.spark import checkpoints
from dimargin.spark.columns import Columns
from dimargin.spark.training import train
from dimargin.strategies import Progress

KERNEL = dm.ODMClassifier(lam=100.0, gamma=0.3, tol=1e-6, random_state=0)
MACHINES = {
    "diodm": clone(KERNEL).set_params(strategy="diodm", branching=2, n_levels=2),
    "exact": clone(KERNEL).set_params(strategy=dm.Exact(across_shards=True, working_set=100)),
}


class UntilTheSecondLevel(Progress):
    """The first checkpoint is there, and the next one is not."""

    first = True

    def level_end(self, entry, found):
        if not self.first:
            time.sleep(600)
        self.first = False
        return False


class BetweenTwoRounds(Progress):
    """There are checkpoints after every round, and the fourth one does not come."""

    n_checks = 0

    def check(self, entry):
        self.n_checks += 1
        if self.n_checks == 4:
            time.sleep(600)
        return False


if __name__ == "__main__":
    name, rows, folder, temporary = sys.argv[1:]
    parts._ROWS_OF_SHARD = 200
    progress = UntilTheSecondLevel()
    if name == "exact":
        checkpoints.Checkpoints.save_interval, progress = 0.0, BetweenTwoRounds()
    spark = spark_sessions.session("local", temporary, spark__sql__shuffle__partitions="2")
    train(MACHINES[name], spark.read.parquet(rows), Columns("features", "label"), progress, checkpoint_dir=folder)
