"""Fuzzing of everything that reads what others wrote; CONTRIBUTING.md says how to run it and how to add a target."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # pytest has done so; the helpers of tests are there
