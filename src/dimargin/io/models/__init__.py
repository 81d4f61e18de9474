"""Model files, which store estimators without pickle."""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin.io.models.conversion import load as load
    from dimargin.io.models.conversion import load_with_header as load_with_header
    from dimargin.io.models.conversion import save as save
    from dimargin.io.models.model_format import ModelFileError as ModelFileError
else:
    _MODULES = ("model_values", "soundness")
    __all__, __getattr__, __dir__ = lazily(__name__, _MODULES)
