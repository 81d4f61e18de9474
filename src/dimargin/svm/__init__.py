"""The classes of `sklearn.svm` by the same names and with the same parameters, solved by this library.

``from dimargin.svm import SVC`` in place of ``from sklearn.svm import SVC`` is the only change. What is the
same, more, or different stands in docs/sklearn.md.
"""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin.svm.libsvm import SVC as SVC
    from dimargin.svm.libsvm import SVR as SVR
    from dimargin.svm.linear import LinearSVC as LinearSVC
    from dimargin.svm.linear import LinearSVR as LinearSVR
    from dimargin.svm.nu import NuSVC as NuSVC
    from dimargin.svm.nu import NuSVR as NuSVR
    from dimargin.svm.nu import OneClassSVM as OneClassSVM
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
