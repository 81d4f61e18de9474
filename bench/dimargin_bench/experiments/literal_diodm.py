"""DiODM with the warm starts that Algorithm 1 of the paper prints."""

from __future__ import annotations

from dimargin.strategies import DiODM


class ConcatenatingDiODM(DiODM):
    """DiODM that concatenates the coefficients of merged parts instead of rescaling them.

    They are then as many times too large as parts are merged (docs/algorithms.md#merging).
    """

    rescales_starts = False
