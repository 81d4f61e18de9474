"""Interface of the sources of a site's rows, such as `dimargin.io.data.GrowingFile`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray


class Rows(Protocol):
    """Rows with the attributes of `dimargin.io.data.DataSet`."""

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
    """Growing source of rows."""

    @property
    def path(self) -> Path:
        """Path of the source, for messages."""
        ...

    def read(self) -> Rows:
        """Return the rows that have come since the last call, or raise ValueError or OSError."""
        ...
