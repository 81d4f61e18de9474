"""Old names of moved modules; importing one returns the module, with a DeprecationWarning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

_NEW_NAMES = {
    "dimargin.balls": "dimargin.solvers.balls",
    "dimargin.callbacks": "dimargin.estimators.callbacks",
    "dimargin.data_files": "dimargin.io.data",
    "dimargin.data_files.data": "dimargin.io.data.whole_file",
    "dimargin.data_files.growing": "dimargin.io.data.growing_file",
    "dimargin.data_files.tables": "dimargin.io.data.named_columns",
    "dimargin.displays": "dimargin.display",
    "dimargin.engines": "dimargin.shards.local_engine",
    "dimargin.engines.spark": "dimargin.spark.engine.spark",
    "dimargin.kernels.columns": "dimargin.kernels.column_statistics",
    "dimargin.kernels.rows": "dimargin.kernels.row_transform",
    "dimargin.lazy": "dimargin.system.lazy",
    "dimargin.libsvm": "dimargin.io.libsvm",
    "dimargin.libsvm.model": "dimargin.io.libsvm.libsvm_model",
    "dimargin.model_files": "dimargin.io.models",
    "dimargin.model_files.model": "dimargin.io.models.conversion",
    "dimargin.network": "dimargin.gossip",
    "dimargin.network.rivals": "dimargin.gossip.rounds",
    "dimargin.partition": "dimargin.shards.partition",
    "dimargin.preprocessing": "dimargin.estimators.preprocessing",
    "dimargin.report": "dimargin.display.report",
    "dimargin.search": "dimargin.estimators.search",
    "dimargin.sharding": "dimargin.shards",
    "dimargin.simulation": "dimargin.gossip.simulation",
    "dimargin.sites": "dimargin.gossip.sites",
    "dimargin.trusted_types": "dimargin.io.skops_types",
}


def moved_to(name: str) -> str | None:
    """Return the new name of a module, None if it has not moved.

    Examples
    --------
    >>> moved_to("dimargin.data_files.csv_text")
    'dimargin.io.data.csv_text'
    """
    if name in _NEW_NAMES:
        return _NEW_NAMES[name]
    parent, _, last = name.rpartition(".")
    folder = moved_to(parent) if parent else None
    return folder and f"{folder}.{last}"


class _MovedFinder:  # It has no base class: importlib.abc takes as long to import as the rest.
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not (fullname.startswith("dimargin.") and moved_to(fullname)):
            return None
        return ModuleSpec(fullname, self)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to the import system to make a module, which `exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        new = moved_to(module.__name__)
        assert new is not None  # Otherwise find_spec would not have found the module.
        warnings.warn(f"{module.__name__} is {new} now", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = import_module(new)


def find_moved_modules() -> None:
    """Resolve old names of modules ahead of the path finder, which would load a module twice."""
    sys.meta_path.insert(0, _MovedFinder())
