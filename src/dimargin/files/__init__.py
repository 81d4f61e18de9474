"""Data files in."""

from dimargin.files.data import read_data
from dimargin.files.pieces import DataFileError, DataSet

__all__ = ["DataFileError", "DataSet", "read_data"]
