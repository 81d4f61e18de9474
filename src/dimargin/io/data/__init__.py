"""Data files: rows and labels in LIBSVM text, CSV and Parquet, read whole or as they grow."""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin.io.data.chunks import DataFileError as DataFileError
    from dimargin.io.data.chunks import DataSet as DataSet
    from dimargin.io.data.growing_file import GrowingFile as GrowingFile
    from dimargin.io.data.whole_file import DataFileWarning as DataFileWarning
    from dimargin.io.data.whole_file import read_data as read_data
else:
    _MODULES = ("csv_text", "libsvm", "mixed", "parquet", "named_columns")
    __all__, __getattr__, __dir__ = lazily(__name__, _MODULES)
