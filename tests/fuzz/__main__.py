"""``python -m tests.fuzz --seconds 60 [name ...]``: exit status 1 if an input failed; those are kept in the corpus.

``--inputs 1000000`` takes as long as so many inputs of each target need, unless ``--seconds`` says
less.
"""

import argparse
import math
import sys

from . import driver

parser = argparse.ArgumentParser(
    prog="python -m tests.fuzz", description="Feed readers with inputs that are not sound."
)
parser.add_argument("names", nargs="*", metavar="name", help=f"targets; by default all of {', '.join(driver.NAMES)}")
parser.add_argument("--seconds", type=float, default=None, help="for all targets together; 60 without --inputs")
parser.add_argument("--inputs", type=int, default=None, help="for each target; no more than the time allows")
parser.add_argument("--first", type=int, default=0, help="number of the first input, to go on where a run ended")
parser.add_argument("--seed", type=int, default=0)
given = parser.parse_args()
if unknown := set(given.names) - set(driver.NAMES):
    parser.error(f"no targets: {', '.join(sorted(unknown))}; there are {', '.join(driver.NAMES)}")
names = given.names or driver.NAMES
seconds = given.seconds if given.seconds is not None else 60.0 if given.inputs is None else math.inf
share = seconds / len(names)
failed = [name for name in names if driver.run(name, given.seed, share, given.inputs, given.first)]
sys.exit(1 if failed else 0)
