"""What a site asks of the place where its rows come from; `dimargin.io.data.GrowingFile` is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray


class Rows(Protocol):
    """Rows, as `dimargin.io.data.DataSet` has them."""

    @property
    def X(self) -> Any:  # noqa: D102
        ...

    @property
    def y(self) -> NDArray[Any] | None:  # noqa: D102
        ...

    @property
    def feature_names(self) -> list[str] | None:  # noqa: D102
        ...

    @property
    def label(self) -> str | int | None:  # noqa: D102
        ...

    @property
    def zero_based(self) -> bool | None:  # noqa: D102
        ...

    @property
    def remarks(self) -> tuple[str, ...]:  # noqa: D102
        ...


class RowSource(Protocol):
    """Source of rows that may come to have more of them."""

    @property
    def path(self) -> Path:
        """Its place, for messages."""
        ...

    def read(self) -> Rows:
        """Return the rows that have come since the last call; raises ValueError or OSError where it cannot."""
        ...
