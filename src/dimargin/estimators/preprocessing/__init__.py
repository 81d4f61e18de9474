"""Transformers for dates, tables and sparse rows, and features that approximate a kernel."""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin.estimators.preprocessing.calendar_features import CalendarFeatures as CalendarFeatures
    from dimargin.estimators.preprocessing.category_encoder import CategoryEncoder as CategoryEncoder
    from dimargin.estimators.preprocessing.fourier_features import FourierFeatures as FourierFeatures
    from dimargin.estimators.preprocessing.sparse_scaler import SparseScaler as SparseScaler
else:
    __all__, __getattr__, __dir__ = lazily(__name__, ("tables",))
