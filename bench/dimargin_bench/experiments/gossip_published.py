"""Figures of the GADGET paper that are known; its tables contradict one another."""

from __future__ import annotations

WARNING = (
    "The paper's figures contradict one another: it has accuracies below the share of the larger class, and two times "
    "of the same run (for Adult 37 and 0.04 s). LIBLINEAR has 45% on covtype there, on rows that were not scaled. "
    "Nothing is to be concluded from its column."
)

_ACCURACIES = {("a9a", "liblinear"): 0.84, ("covtype.libsvm.binary", "liblinear"): 0.45}
_SECONDS = {("a9a", "gadget, printed"): 37.44, ("covtype.libsvm.binary", "gadget, printed"): 0.81}


def tables(names: dict[str, str]) -> dict[tuple[str, str, str], float]:
    """Return what is known of its Tables 2 to 4, for samples by the names of their data sets."""
    found: dict[tuple[str, str, str], float] = {}
    for sample, data in names.items():
        for metric, known in (("accuracy", _ACCURACIES), ("seconds", _SECONDS)):
            found |= {(sample, method, metric): value for (of, method), value in known.items() if of == data}
    return found
