"""The machine and the versions that results come from: what they depend on beside parameters and data."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dimargin import _core
from dimargin.system.memory import memory_of_process
from dimargin.system.threads import effective_n_threads
from dimargin.version import __version__
from dimargin_bench.experiments.outcome import NOT_INSTALLED

_LIBRARIES = ("numpy", "scipy", "scikit-learn")


def environment(libraries: Iterable[str] = (), jobs: int = 1) -> dict[str, str]:
    """Return names and values of all that results depend on, in the words of the page.

    Examples
    --------
    >>> list(environment())[:3]
    ['processor', 'cores', 'memory']
    """
    return {
        "processor": f"{_processor()}, kernel values by {_core.instruction_set()}",
        "cores": str(os.cpu_count()),
        "memory": f"{memory_of_process() / 2**30:.0f} GiB",
        "system": f"{platform.system()}, {platform.machine()}",
        "threads of dimargin": str(effective_n_threads(None)),
        "cells at a time": str(jobs),
        "Python": platform.python_version(),
        "dimargin": __version__,
        **{name: installed(name) or NOT_INSTALLED for name in (*_LIBRARIES, *libraries)},
    }


def installed(distribution: str) -> str:
    """Return the version of a distribution, or nothing where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")  # Linux; platform.processor() is empty there
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
