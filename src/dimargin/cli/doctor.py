"""``dimargin doctor``: the facts about an installation that a bug report needs.

Nothing is imported before its fact is looked up, since a broken installation is what the command is
for.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Annotated, Any

import typer

from dimargin.cli.brief_help import Application
from dimargin.system.extras import EXTRA_OF
from dimargin.system.printing import printable

_SHOWN_VARIABLES = (
    "DIMARGIN_INSTRUCTION_SET", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "MKL_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT", "JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON",
)  # fmt: skip
"""Environment variables that change results or speed; others may hold secrets."""


def _doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Print versions, processor, threads, memory, extras and Java, for a bug report.

    Example: dimargin doctor

    This shows paths of programs and some environment variables: read it before you publish it.
    """
    facts = {name: _looked_up(look) for name, look in _LOOKS.items()}
    facts["problems"] = _problems(facts)
    if as_json:
        print(json.dumps(facts))
        return
    for name, value in facts.items():
        print(f"{name.replace('_', ' '):16} {printable(_text(value))}")


def _problems(facts: dict[str, Any]) -> list[str]:
    """Return what is broken: facts that could not be looked up, and missing packages that dimargin requires."""
    failed = [f"{name.replace('_', ' ')} {value}" for name, value in facts.items() if str(value).startswith("failed: ")]
    packages = facts["packages"] if isinstance(facts["packages"], dict) else {}
    return failed + [f"{name} is not installed" for name, version in packages.items() if version is None]


def _looked_up(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except Exception as error:  # Of whatever is broken; the other facts still count.
        return f"failed: {error!r}"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        parts = [f"{name} ({_text(part)})" if isinstance(part, dict) else f"{name} {_text(part)}"
                 for name, part in value.items()]  # fmt: skip
        return ", ".join(parts) or "none"
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "none"
    return "not installed" if value is None else str(value)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _packages(extra: str | None) -> dict[str, str | None]:
    """Return the versions of the distributions that dimargin, or one of its extras, requires."""
    pattern = re.compile(r"([\w.-]+)[^;]*(?:;.*\bextra == ['\"](\w+)['\"])?$")
    matches = filter(None, map(pattern.match, requires("dimargin") or ()))
    return {match[1]: _version(match[1]) for match in matches if match[2] == extra}


def _without_required(packages: dict[str, str | None]) -> dict[str, str | None]:
    return {name: version for name, version in packages.items() if name not in _packages(None)}


def _instruction_set() -> dict[str, Any]:
    from dimargin import _core

    return {"used": _core.instruction_set(), "available": _core.instruction_sets()}


def _threads() -> dict[str, int | None]:
    from dimargin.system.threads import effective_n_threads

    return {"used": effective_n_threads(None), "processors": os.cpu_count()}


def _memory() -> int:
    from dimargin.system.memory import memory_of_process

    return memory_of_process()


def _linear_algebra() -> list[str]:
    import numpy  # noqa: F401 (loads its BLAS)
    import scipy.linalg  # noqa: F401 (loads its BLAS)
    from threadpoolctl import threadpool_info

    blas = [one for one in threadpool_info() if one["user_api"] == "blas"]
    chosen = " as OPENBLAS_CORETYPE says" if "OPENBLAS_CORETYPE" in os.environ else ""
    return sorted(
        f"{_owner(one['filepath'])} {one['internal_api']} {one['version']} for {one.get('architecture')}{chosen}"
        for one in blas
    )


def _owner(path: str) -> str:
    """Return what installed a library: the wheel of a package, or the system."""
    return next((f"{name} has" for name in ("numpy", "scipy") if f"{name}.libs" in path), "system has")


def _java() -> str | None:
    from dimargin.system.java import find_java

    java = find_java()
    if java is None:
        return None
    done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    return f"{java}, {next(iter(done.stderr.splitlines()), 'which prints no version')}"


_LOOKS: dict[str, Callable[[], Any]] = {
    "dimargin": lambda: version("dimargin"),
    "dimargin_bench": lambda: _version("dimargin-bench"),
    "python": lambda: f"{platform.python_version()}, {sys.executable}",
    "platform": platform.platform,
    "instruction_set": _instruction_set,
    "threads": _threads,
    "memory_in_bytes": _memory,
    "linear_algebra": _linear_algebra,
    "packages": lambda: _packages(None),
    "extras": lambda: {extra: _without_required(_packages(extra)) for extra in dict.fromkeys(EXTRA_OF.values())},
    "java": _java,
    "environment": lambda: {name: os.environ[name] for name in _SHOWN_VARIABLES if name in os.environ},
}


def register(app: Application) -> None:
    """Add the command."""
    app.command("doctor")(_doctor)
