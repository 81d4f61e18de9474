"""Parameter search by cross-validation."""

from dimargin.estimators.search.odm_cv import ODMClassifierCV

__all__ = ["ODMClassifierCV"]
