"""Write the data files of this folder, on which the commands of README.md and docs run: python make_data.py.

All rows are made up. moons.csv and moons_test.csv are two half moons, which moons.libsvm and moons_test.libsvm hold as
LIBSVM text. people.csv is a table as people have it: names of rows, missing values, texts and dates; people_new.csv has
more such rows, which nobody has labelled yet.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import dump_svmlight_file, make_moons

HERE = Path(__file__).parent
JOBS = np.array(["nurse", "smith", "teacher", ""])
MISSING = ["", "NA", "?"]


def write_moons(name, seed):
    """Write 500 rows around two half moons, as CSV and as LIBSVM text."""
    X, y = make_moons(500, noise=0.2, random_state=seed)
    X = X.round(4)
    lines = [f"{left},{right},{('lower', 'upper')[k]}" for (left, right), k in zip(X.tolist(), y, strict=True)]
    (HERE / f"{name}.csv").write_text("\n".join(["left,right,class", *lines]) + "\n")
    dump_svmlight_file(X, y, str(HERE / f"{name}.libsvm"), zero_based=False)


def people(rng, first, n):
    """Return lines of people without their class, and the class of each: who reads the newsletter."""
    age, job = rng.integers(18, 90, n), JOBS[rng.choice(4, n, p=[0.35, 0.3, 0.25, 0.1])]
    income = (rng.lognormal(10.3, 0.5, n) + 300 * age).round(-1)
    day = np.datetime64("2019-01-01") + rng.integers(0, 2000, n)
    interest = 0.08 * (40 - np.abs(age - 45)) + 1.5 * (job == "teacher") - (income > 60_000) + rng.normal(0, 0.3, n)
    ages = [MISSING[k % 3] if k % 11 == 5 else str(years) for k, years in enumerate(age)]
    incomes = ["" if k % 17 == 3 else f"{value:.0f}" for k, value in enumerate(income)]
    columns = zip(ages, incomes, job, day, strict=True)
    lines = [f"p{first + k},{','.join(map(str, cells))}" for k, cells in enumerate(columns)]
    return lines, np.where(interest > 1.5, "yes", "no")


def main():
    """Write all files."""
    write_moons("moons", 0)
    write_moons("moons_test", 1)
    rng = np.random.default_rng(0)
    lines, reads = people(rng, 1, 400)
    head = "id,age,income,job,since"
    rows = [f"{line},{label}" for line, label in zip(lines, reads, strict=True)]
    (HERE / "people.csv").write_text("\n".join([f"{head},reads", *rows]) + "\n")
    (HERE / "people_new.csv").write_text("\n".join([head, *people(rng, 401, 100)[0]]) + "\n")


if __name__ == "__main__":
    main()
