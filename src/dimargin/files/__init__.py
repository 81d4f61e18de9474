"""Data files in, model files out."""

from typing import TYPE_CHECKING

from dimargin.lazy import lazily

if TYPE_CHECKING:
    from dimargin.files.data import read_data as read_data
    from dimargin.files.growing import GrowingFile as GrowingFile
    from dimargin.files.libsvm_export import to_libsvm as to_libsvm
    from dimargin.files.libsvm_model import LibsvmModel as LibsvmModel
    from dimargin.files.libsvm_text import from_libsvm as from_libsvm
    from dimargin.files.model import load as load
    from dimargin.files.model import load_with_header as load_with_header
    from dimargin.files.model import save as save
    from dimargin.files.model_format import ModelFileError as ModelFileError
    from dimargin.files.pieces import DataFileError as DataFileError
    from dimargin.files.pieces import DataSet as DataSet
else:
    _NAMES = {
        "data": ["read_data"],
        "growing": ["GrowingFile"],
        "libsvm_export": ["to_libsvm"],
        "libsvm_model": ["LibsvmModel"],
        "libsvm_text": ["from_libsvm"],
        "model": ["load", "load_with_header", "save"],
        "model_format": ["ModelFileError"],
        "pieces": ["DataFileError", "DataSet"],
    }
    _MODULES = ("csv_text", "libsvm", "model_values", "soundness", "tables", "writing")
    __all__, __getattr__, __dir__ = lazily(__name__, _NAMES | dict.fromkeys(_MODULES, ()))
