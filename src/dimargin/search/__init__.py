"""Choice of parameters by cross-validation."""

from dimargin.search.odm_cv import ODMClassifierCV

__all__ = ["ODMClassifierCV"]
