"""Model files, in which every estimator is stored without pickle, and loaded again."""

from typing import TYPE_CHECKING

from dimargin.lazy import lazily

if TYPE_CHECKING:
    from dimargin.model_files.model import load as load
    from dimargin.model_files.model import load_with_header as load_with_header
    from dimargin.model_files.model import save as save
    from dimargin.model_files.model_format import ModelFileError as ModelFileError
else:
    _MODULES = ("model_values", "soundness")
    __all__, __getattr__, __dir__ = lazily(__name__, _MODULES)
