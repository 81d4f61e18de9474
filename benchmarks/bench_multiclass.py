"""usps, ten classes sharing kernel work: the whole fit beside its costliest class alone."""

import time

from common import describe, heading, load, scaled, table

import dimargin as dm

REPEATS = 5


def main():
    heading(__doc__)
    X, y = load("usps")
    X = scaled(X)
    rows = []
    for options in ({"lam": 1e3}, {"lam": 1e5}, {"lam": 1e5, "strategy": dm.DiODM(early_stop=False), "n_levels": 1}):
        ratios, together, alone = [], [], []
        for _ in range(REPEATS):
            began = time.perf_counter()
            dm.ODMClassifier(**options, random_state=0).fit(X, y)
            together.append(time.perf_counter() - began)
            single = []
            for k in range(10):
                began = time.perf_counter()
                dm.ODMClassifier(**options, random_state=0).fit(X, y == k)
                single.append(time.perf_counter() - began)
            alone.append(max(single))
            ratios.append(together[-1] / alone[-1])
        rows.append([str(options), describe(together), describe(alone), describe(ratios)])
    print(table(["options", "ten classes (s)", "costliest class alone (s)", "ratio"], rows))


if __name__ == "__main__":
    main()
