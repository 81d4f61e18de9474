"""
Outliers among handwritten digits
=================================

An outlier detector is trained on handwritten zeros alone, and ranks other zeros and all other digits by how usual
they are. Few rows, its core-set, determine its ball in the space of the kernel.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from dimargin import CoreSetSVDD

X, y = load_digits(return_X_y=True)
zeros, others = X[y == 0] / 16, X[y != 0] / 16
detector = CoreSetSVDD(contamination=0.02, random_state=0).fit(zeros[:100])
print(f"{len(detector.support_)} rows of 100 are the core-set, gap {detector.duality_gap_:.1e}")

# %%
# The scores of new zeros differ from those of other digits:

figure, ax = plt.subplots(layout="constrained")
new = zeros[100:]
bins = np.linspace(*np.percentile(detector.score_samples(np.vstack([new, others])), [0, 100]), 40)
for rows, name in ((new, "zeros that it has not seen"), (others, "other digits")):
    ax.hist(detector.score_samples(rows), bins=bins, density=True, alpha=0.6, label=name)
ax.axvline(detector.offset_, color="black", linestyle="--", label="outliers are on the left")
ax.set(xlabel="score: how usual a row is", ylabel="density")
ax.legend()
print(
    f"{(detector.predict(others) == -1).mean():.1%} of the other digits and {(detector.predict(new) == -1).mean():.1%} "
    "of the new zeros are called outliers"
)
plt.show()

# %%
# These are the most usual and the least usual new zeros:

order = np.argsort(detector.score_samples(new))
figure, axes = plt.subplots(2, 6, figsize=(6, 2.4), layout="constrained")
for row, chosen, title in zip(axes, (order[::-1][:6], order[:6]), ("usual", "unusual"), strict=True):
    for ax, at in zip(row, chosen, strict=True):
        ax.imshow(new[at].reshape(8, 8), cmap="gray_r")
        ax.set(xticks=[], yticks=[])
    row[0].set_ylabel(title)
plt.show()
