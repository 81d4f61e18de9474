"""Columns that are no numbers: dates as features, and transformers of tables."""

from typing import TYPE_CHECKING

from dimargin.lazy import lazily

if TYPE_CHECKING:
    from dimargin.preprocessing.calendar_features import CalendarFeatures as CalendarFeatures
else:
    __all__, __getattr__, __dir__ = lazily(__name__, ("tables",))
