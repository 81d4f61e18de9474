"""Data files: rows and labels in LIBSVM text, CSV and Parquet, read whole or as they grow."""

from typing import TYPE_CHECKING

from dimargin.lazy import lazily

if TYPE_CHECKING:
    from dimargin.data_files.chunks import DataFileError as DataFileError
    from dimargin.data_files.chunks import DataSet as DataSet
    from dimargin.data_files.data import DataFileWarning as DataFileWarning
    from dimargin.data_files.data import read_data as read_data
    from dimargin.data_files.growing import GrowingFile as GrowingFile
else:
    _MODULES = ("csv_text", "libsvm", "mixed", "parquet", "tables")
    __all__, __getattr__, __dir__ = lazily(__name__, _MODULES)
