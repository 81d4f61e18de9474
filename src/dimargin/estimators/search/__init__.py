"""Parameter search by cross-validation."""

from dimargin.estimators.search.linear_odm_cv import LinearODMClassifierCV
from dimargin.estimators.search.linear_svm_cv import LinearSVMClassifierCV
from dimargin.estimators.search.odm_cv import ODMClassifierCV
from dimargin.estimators.search.scoring import counted_entries, round_text
from dimargin.estimators.search.svm_cv import SVMClassifierCV

__all__ = [
    "LinearODMClassifierCV", "LinearSVMClassifierCV", "ODMClassifierCV", "SVMClassifierCV", "counted_entries",
    "round_text",
]  # fmt: skip
