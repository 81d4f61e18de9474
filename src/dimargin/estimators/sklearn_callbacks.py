"""Scikit-learn's callbacks, which it has had since version 1.9; with an earlier one fits report to none.

Estimators take `CallbackSupportMixin` and `with_callbacks` from here, whatever version is installed.
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
        """Stand-in for scikit-learn's mixin: an estimator without callbacks."""

        def set_callbacks(self, *callbacks: Any) -> Self:
            """Warn that callbacks are not called."""
            if callbacks:
                warnings.warn(
                    f"callbacks are not called: scikit-learn has had them since version 1.9, and "
                    f"{sklearn.__version__} is installed",
                    UserWarning,
                    stacklevel=2,
                )
            return self

        def _init_callback_context(self, **given: Any) -> _NoContext:
            return _NoContext()

    def with_callbacks(fit: Fit) -> Fit:
        """Return the method that trains as it is."""
        return fit

    class _NoContext:
        """Stand-in for the context of a task, to which nobody listens."""

        def subcontext(self, **given: Any) -> _NoContext:
            return self

        def call_on_fit_task_begin(self, **given: Any) -> None:
            pass

        def call_on_fit_task_end(self, **given: Any) -> bool:
            return False


__all__ = ["CallbackSupportMixin", "with_callbacks"]
