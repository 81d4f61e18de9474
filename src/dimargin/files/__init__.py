"""Data files in, model files out."""

from dimargin.files.data import read_data
from dimargin.files.model import ModelFileError, load, read_header, save
from dimargin.files.pieces import DataFileError, DataSet

__all__ = ["DataFileError", "DataSet", "ModelFileError", "load", "read_data", "read_header", "save"]
