"""Columns that are no numbers, as features; transformers of tables; features of a kernel."""

from typing import TYPE_CHECKING

from dimargin.lazy import lazily

if TYPE_CHECKING:
    from dimargin.preprocessing.calendar_features import CalendarFeatures as CalendarFeatures
    from dimargin.preprocessing.fourier_features import FourierFeatures as FourierFeatures
else:
    __all__, __getattr__, __dir__ = lazily(__name__, ("tables",))
