"""LIBSVM's models and ranges, and its training of more than two classes."""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin.io.libsvm.export import to_libsvm as to_libsvm
    from dimargin.io.libsvm.libsvm_model import LibsvmModel as LibsvmModel
    from dimargin.io.libsvm.text_model import from_libsvm as from_libsvm
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
