"""LIBSVM's models, ranges and way to more than two classes."""

from typing import TYPE_CHECKING

from dimargin.lazy import lazily

if TYPE_CHECKING:
    from dimargin.libsvm.export import to_libsvm as to_libsvm
    from dimargin.libsvm.model import LibsvmModel as LibsvmModel
    from dimargin.libsvm.text_model import from_libsvm as from_libsvm
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
