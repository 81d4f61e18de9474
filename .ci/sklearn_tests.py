"""Run scikit-learn's own tests of `sklearn.svm`, as installed, with the classes of `dimargin.svm` in their place.

Usage: python .ci/sklearn_tests.py [arguments of pytest]. Tests that do not hold are entries of `KNOWN`; the run fails
if one of them passes, or if no test has that name. pytest loads this module as a plugin, in every process of xdist.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from fnmatch import fnmatchcase
from inspect import getmodule
from pathlib import Path

import pytest
import sklearn
import sklearn.svm
from sklearn.utils.fixes import parse_version

import dimargin
import dimargin.svm

MODULES = ("test_bounds", "test_sparse", "test_svm")
THEIRS = {name: getattr(sklearn.svm, name) for name in dimargin.svm.__all__}
SMALL = (
    "one or two iterations are to be too few for a handful of rows, and a warning is expected; problems of at most 512 "
    "rows are solved up to rounding, whatever max_iter is"
)


@dataclass(frozen=True)
class Known:
    """Tests that do not hold, by a pattern of their names."""

    pattern: str
    reason: str
    before: str = "1000"  # The first version of scikit-learn to which the entry does not apply.
    is_strict: bool = True  # Whether the run fails if one of the tests passes.


KNOWN = (
    Known("test_sparse.py::test_timeout[[]*", SMALL),
    Known("test_svm.py::test_libsvm_convergence_warnings*", SMALL),
    Known(
        "test_svm.py::test_linear_svm_convergence_warnings*",
        "max_iter=2 is to be too few for six rows in the plane, which LinearSVC solves by steps of Newton's method",
    ),
    Known(
        "test_svm.py::test_svr_errors*",
        "a kernel that returns one value for two rows is refused by fit; scikit-learn's SVR.fit reads beyond it, and "
        "predict refuses it",
    ),
    Known(
        "test_sparse.py::test_sparse_oneclasssvm[[]*-linear-X_train2-*",
        "the mean of the rows is so near the origin that the optimum is w=0 and rho=0: all values are rounding",
    ),
    Known(
        "test_sparse.py::test_sparse_oneclasssvm[[]*-rbf-X_train3-*",
        "iris has two equal rows, and the optimum does not determine how they share a coefficient",
    ),
    Known(
        "test_svm.py::test_negative_sample_weights_mask_all_samples[[]*-NuSVC]",
        "the error says that no weight is positive, as scikit-learn's does from 1.9 on, not that nu is infeasible",
        before="1.9",
    ),
    Known(
        "test_svm.py::test_crammer_singer_binary",
        "the accuracy is to exceed 0.9; it is 0.91 at the optimum and 0.9 after the 1,000 passes of the default",
        before="1.8",
    ),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the failures of `KNOWN`, and refuse to run tests of scikit-learn's own classes."""
    for module in {getmodule(item.obj) for item in items}:  # type: ignore[attr-defined]
        for name, value in vars(module).items():
            if any(value is own for own in THEIRS.values()):
                raise pytest.UsageError(f"{module.__name__}.{name} is scikit-learn's own")  # type: ignore[union-attr]
    expect_failures(items, KNOWN)


def expect_failures(items: list[pytest.Item], known: tuple[Known, ...]) -> None:
    """Expect the failures of these entries; UsageError for one without a test."""
    names = {item: f"{item.path.name}::{item.name}" for item in items}
    entries = [one for one in known if parse_version(sklearn.__version__) < parse_version(one.before)]
    for one in entries:
        found = [item for item, name in names.items() if fnmatchcase(name, one.pattern)]
        if not found:
            raise pytest.UsageError(f"KNOWN has an entry without a test: {one.pattern}")
        for item in found:
            item.add_marker(pytest.mark.xfail(reason=one.reason, strict=one.is_strict))


def pytest_configure(config: pytest.Config) -> None:
    """Put the classes into their place, in every process of pytest."""
    replaced = dimargin.patch_sklearn()
    if sorted(replaced) != sorted(THEIRS):
        raise pytest.UsageError(f"only {replaced} were replaced; is DIMARGIN_ACCELERATE set?")


def main(arguments: list[str], folder: Path, modules: tuple[str, ...], plugin: str) -> int:
    """Run the tests in these modules of a folder, with this module as a plugin of pytest."""
    if not folder.is_dir():
        raise SystemExit(f"installed without its tests: there is no {folder}")
    # Neither the settings of this project nor its strictness about warnings: these are tests of somebody else.
    options = ["-c", "/dev/null", "-p", "no:cacheprovider", "-p", plugin, "--disable-warnings"]
    if hasattr(pytest, "PytestRemovedIn10Warning"):
        options += ["-W", "ignore::pytest.PytestRemovedIn10Warning"]
    return pytest.main([*options, *arguments, *(str(folder / f"{name}.py") for name in modules)])


if __name__ == "__main__":
    print(f"scikit-learn {sklearn.__version__}, dimargin from {Path(dimargin.__file__).parent}", flush=True)
    sys.exit(main(sys.argv[1:], Path(sklearn.svm.__file__).parent / "tests", MODULES, Path(__file__).stem))
