"""LIBSVM's and LIBLINEAR's models, LIBSVM's ranges, and their ways of training."""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin.io.libsvm.export import to_libsvm as to_libsvm
    from dimargin.io.libsvm.liblinear_model import LiblinearModel as LiblinearModel
    from dimargin.io.libsvm.liblinear_model import from_liblinear as from_liblinear
    from dimargin.io.libsvm.liblinear_model import to_liblinear as to_liblinear
    from dimargin.io.libsvm.libsvm_model import LibsvmModel as LibsvmModel
    from dimargin.io.libsvm.text_model import from_libsvm as from_libsvm
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
