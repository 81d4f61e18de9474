"""Run a program with `dimargin.svm` in the place of `sklearn.svm`: ``python -m dimargin.accelerate script.py``.

Arguments after the name of the script are the script's. With ``-m`` in place of a file, a module is run. The
environment variable ``DIMARGIN_ACCELERATE=0`` leaves scikit-learn's classes in their place.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from dimargin.svm.patching import patch_sklearn

USAGE = "usage: python -m dimargin.accelerate script.py [arguments], or -m module [arguments]"


def main(arguments: list[str]) -> None:
    """Run the script or module that the arguments name."""
    is_module = arguments[:1] == ["-m"]
    rest = arguments[is_module:]
    if not rest or rest[0].startswith("-"):
        raise SystemExit(USAGE)
    if not is_module and not Path(rest[0]).is_file():
        raise SystemExit(f"{USAGE}\n{rest[0]} is not a file")
    replaced = patch_sklearn()
    said = (
        f"dimargin.svm is in the place of sklearn.svm for {', '.join(replaced)}" if replaced else "nothing is replaced"
    )
    print(f"dimargin: {said}", file=sys.stderr)
    sys.argv = rest
    if is_module:
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    sys.path[0] = str(Path(rest[0]).resolve().parent)
    runpy.run_path(rest[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
