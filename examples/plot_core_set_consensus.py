"""
Sites that agree on a core-set
==============================

Forty sites of a ring hold four handwritten zeros each, and send their neighbours the rows that may belong to the
core-set of the smallest ball around all rows. Radii never fall, and in the end all sites have the same core-set, and
so the outlier detector that one computer would train on all rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from dimargin import CoreSetConsensusDisplay, CoreSetSVDD

X, y = load_digits(return_X_y=True)
zeros = X[y == 0][:160] / 16
sites = CoreSetSVDD(n_sites=40, topology="ring", kernel="linear", random_state=0).fit(zeros)
alone = CoreSetSVDD(kernel="linear", random_state=0).fit(zeros)
last = sites.history_[-1]
print(f"{len(sites.support_)} rows in the core-set, {last['bytes'] / 1e6:.1f} MB sent in {last['round']} rounds")
print(f"largest difference of scores to one computer's: {np.ptp(sites.score_samples(X) - alone.score_samples(X)):.1e}")

CoreSetConsensusDisplay.from_estimator(sites)
plt.show()
