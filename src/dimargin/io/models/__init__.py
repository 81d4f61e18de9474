"""Model files, which store estimators without pickle."""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin.io.models.conversion import load as load
    from dimargin.io.models.conversion import load_with_header as load_with_header
    from dimargin.io.models.conversion import save as save
    from dimargin.io.models.declared_values import Array as Array
    from dimargin.io.models.model_format import ModelFileError as ModelFileError
    from dimargin.io.models.named_values import register_function as register_function
    from dimargin.io.models.registration import register_step as register_step
    from dimargin.io.models.text_steps import register_pattern as register_pattern
else:
    _MODULES = ("model_values", "soundness")
    __all__, __getattr__, __dir__ = lazily(__name__, _MODULES)
