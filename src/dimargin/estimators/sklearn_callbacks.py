"""scikit-learn's callback support, with stand-ins for versions before 1.9, which have no callbacks.

Estimators import `CallbackSupportMixin` and `with_callbacks` from here for any installed version.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self, TypeVar

import sklearn

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ModuleNotFoundError:
    Fit = TypeVar("Fit", bound=Callable[..., Any])

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in for scikit-learn's mixin, for estimators without callbacks."""

        def set_callbacks(self, *callbacks: Any) -> Self:
            """Warn that callbacks are not called."""
            if callbacks:
                warnings.warn(
                    f"callbacks are not called: they need scikit-learn 1.9 or newer, and {sklearn.__version__} is "
                    "installed",
                    UserWarning,
                    stacklevel=2,
                )
            return self

        def _init_callback_context(self, **given: Any) -> _NoContext:
            return _NoContext()

    def with_callbacks(fit: Fit) -> Fit:
        """Return the method unchanged."""
        return fit

    class _NoContext:
        """Stand-in for the context of a task without listeners."""

        def subcontext(self, **given: Any) -> _NoContext:
            return self

        def call_on_fit_task_begin(self, **given: Any) -> None:
            pass

        def call_on_fit_task_end(self, **given: Any) -> bool:
            return False


__all__ = ["CallbackSupportMixin", "with_callbacks"]
