"""Data files in, model files out."""

from dimargin.files.data import read_data
from dimargin.files.libsvm_export import to_libsvm
from dimargin.files.libsvm_model import LibsvmModel
from dimargin.files.libsvm_text import from_libsvm
from dimargin.files.model import ModelFileError, load, load_with_header, save
from dimargin.files.pieces import DataFileError, DataSet

__all__ = [
    "DataFileError",
    "DataSet",
    "LibsvmModel",
    "ModelFileError",
    "from_libsvm",
    "load",
    "load_with_header",
    "read_data",
    "save",
    "to_libsvm",
]
