"""Data files in, model files out."""

from dimargin.files.data import read_data
from dimargin.files.model import ModelFileError, load, load_with_header, save
from dimargin.files.pieces import DataFileError, DataSet

__all__ = ["DataFileError", "DataSet", "ModelFileError", "load", "load_with_header", "read_data", "save"]
