"""Registration of transformers of users, which model files may then hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sklearn.base import BaseEstimator

from dimargin.io.models.declared_values import Declared, is_declaration
from dimargin.io.models.storable_classes import REGISTERED, STORABLE_CLASSES, Storable


def register_step(
    kind: type[BaseEstimator],
    parameters: Mapping[str, Declared],
    attributes: Mapping[str, Declared],
    check: Callable[[Any], None] | None = None,
) -> None:
    """Allow model files to hold a transformer of your own, as a step before the machine.

    A file holds the values of the parameters and attributes. The process that loads it must have
    registered the class, or have a distribution installed that does so by an entry point
    (docs/interoperability.md). The values may come from anybody: they are checked before the step is
    used, so declare them as narrowly as you can.

    Parameters
    ----------
    kind : type
        Transformer of scikit-learn's kind, a subclass of BaseEstimator with ``transform``, whose
        ``__init__`` only stores its parameters.
    parameters : mapping of str to declaration
        All parameters of ``__init__``. A declaration is an `Array`, int, float, bool, str, dict (of
        texts to numbers), BaseEstimator (of a class that files hold), None (which may be missing),
        object (anything that files hold, and that `check` has to check), or a tuple of these.
    attributes : mapping of str to declaration
        Fitted attributes that ``transform`` uses, besides ``n_features_in_``.
    check : callable, default=None
        Called with the step, and raises ValueError if its values do not fit together.

    Raises
    ------
    TypeError, ValueError
        For a class that is not a transformer or has the name of another one, or an invalid declaration.

    Examples
    --------
    >>> import dimargin, numpy as np
    >>> from dimargin.io.models import Array, register_step
    >>> from pathlib import Path
    >>> from sklearn.base import BaseEstimator, TransformerMixin
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.pipeline import make_pipeline
    >>> from tempfile import mkdtemp
    >>> class Clipper(TransformerMixin, BaseEstimator):
    ...     def __init__(self, share=0.01):
    ...         self.share = share
    ...     def fit(self, X, y=None):
    ...         self.n_features_in_ = X.shape[1]
    ...         self.ends_ = np.quantile(X, [self.share, 1 - self.share], axis=0)
    ...         return self
    ...     def transform(self, X):
    ...         return np.clip(X, *self.ends_)
    >>> register_step(Clipper, parameters={"share": float}, attributes={"ends_": Array((2, "n_features_in_"))})
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = make_pipeline(Clipper(), dimargin.SVMClassifier()).fit(X, y)
    >>> path = Path(mkdtemp()) / "moons.dimargin"
    >>> dimargin.save(model, path)
    >>> bool((dimargin.load(path).predict(X) == model.predict(X)).all())
    True
    """
    if not (isinstance(kind, type) and issubclass(kind, BaseEstimator) and hasattr(kind, "transform")):
        raise TypeError(f"kind must be a subclass of BaseEstimator with a method transform, got {kind!r}")
    name, known = kind.__name__, sorted(kind._get_param_names())
    if name in STORABLE_CLASSES:
        raise ValueError(f"model files hold {name} without registration; a class of your own needs another name")
    if sorted(parameters) != known:
        raise ValueError(f"parameters must declare {known}, got {sorted(parameters)}")
    for key, declared in (*parameters.items(), *attributes.items()):
        if not is_declaration(declared):
            raise ValueError(f"{key} of {name} must be declared by an Array or a type, got {declared!r}")
    REGISTERED[name] = Storable(
        kind=kind, parameters=dict(parameters), attributes=dict(attributes), check=check or (lambda step: None),
        n_features_out=lambda step: None, has_width=False, has_state=bool(attributes),
    )  # fmt: skip
