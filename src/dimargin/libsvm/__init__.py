"""LIBSVM's models, ranges and way to more than two classes."""

from typing import TYPE_CHECKING

from dimargin.lazy import lazily

if TYPE_CHECKING:
    from dimargin.libsvm.export import to_libsvm as to_libsvm
    from dimargin.libsvm.model import LibsvmModel as LibsvmModel
    from dimargin.libsvm.text_model import from_libsvm as from_libsvm
else:
    _NAMES = {
        "export": ["to_libsvm"],
        "model": ["LibsvmModel"],
        "text_model": ["from_libsvm"],
    }
    __all__, __getattr__, __dir__ = lazily(__name__, _NAMES)
