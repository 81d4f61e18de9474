"""Whether what a model file holds fits together; nothing is computed with it before."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dimargin.kernels import RowTransform
from dimargin.strategies import Committee, Router
from dimargin.user_kernels import UserKernel


def check_machine(machine: Any) -> None:
    """Raise ValueError for arrays that the compiled core would read beyond their ends."""
    n_vectors, n_features = machine.support_vectors_.shape
    n_outputs = 1 if len(machine.classes_) == 2 else len(machine.classes_)
    sound = (
        machine.dual_coef_.shape == (n_outputs, n_vectors)
        and machine.intercept_.shape == (n_outputs,)
        and machine.support_.shape == (n_vectors,)
        and n_features == (0 if machine.kernel == "precomputed" else machine.n_features_in_)
        and len(machine.classes_) >= 2
        and _fits_transform(machine.support_vectors_, machine._transform)
        and all(a.dtype.kind == "f" for a in (machine.dual_coef_, machine.intercept_, machine.support_vectors_))
        and np.isfinite(machine.dual_coef_).all()
        and (machine._router is None or _fits(machine._router, machine.support_vectors_))
        and (machine._router is None or _fits_outputs(machine._router, n_outputs))
    )
    if not sound:
        raise ValueError("its arrays do not fit together")


def check_linear_machine(machine: Any) -> None:
    """Raise ValueError for arrays that do not fit together."""
    n_outputs = 1 if len(machine.classes_) == 2 else len(machine.classes_)
    partial = vars(machine).get("_partial", (np.zeros((n_outputs, machine.n_features_in_ + 1)), 0.0))
    sound = (
        len(machine.classes_) >= 2
        and machine.coef_.shape == (n_outputs, machine.n_features_in_)
        and machine.intercept_.shape == (n_outputs,)
        and all(a.dtype.kind == "f" and np.isfinite(a).all() for a in (machine.coef_, machine.intercept_))
        and len(partial) == 2
        and partial[0].shape == (n_outputs, machine.n_features_in_ + 1)
    )
    if not sound:
        raise ValueError("its arrays do not fit together")


def _fits_transform(X: Any, transform: Any) -> bool:
    if isinstance(transform, UserKernel):
        return bool(X.shape[1] == 0)
    center = transform.center
    return isinstance(transform, RowTransform) and (
        center is None or (center.shape == X.shape[1:] and not sp.issparse(X))
    )


def _fits(router: Router, vectors: Any) -> bool:
    """Whether the rule can be asked about rows like these vectors, and answers with a cluster that there is."""
    rule = router.rule
    n_splits, n_centres = len(rule.splits), sum(len(split.norms) for split in rule.splits)
    if not (n_splits and 0 < rule.n_clusters <= n_centres and _whole(router.clusters, 0, rule.n_clusters)):
        return False
    return len(router.clusters) == vectors.shape[0] and all(
        sp.issparse(split.vectors) == sp.issparse(vectors)
        and split.vectors.ndim == 2
        and split.vectors.shape[1] == vectors.shape[1]
        and split.vectors.dtype.kind == split.shares.dtype.kind == split.norms.dtype.kind == "f"
        and _fits_transform(split.vectors, rule.transform)
        and split.shares.shape == split.vectors.shape[:1]
        and split.norms.shape == split.targets.shape == (len(split.bounds) - 1,)
        and np.isfinite(split.shares).all()
        and np.isfinite(split.norms).all()
        and _whole(split.bounds, 0, len(split.shares) + 1)
        and (split.bounds[0], split.bounds[-1]) == (0, len(split.shares))
        and (np.diff(split.bounds) > 0).all()
        and _whole(split.targets, -n_splits, rule.n_clusters)  # on to a later split, or to a cluster
        and ((split.targets >= 0) | (split.targets < -1 - place)).all()
        for place, split in enumerate(rule.splits)
    )


def _fits_outputs(router: Router, n_outputs: int) -> bool:
    own = router.intercepts
    if own is not None and not (
        own.dtype.kind == "f" and own.shape == (router.rule.n_clusters, n_outputs) and np.isfinite(own).all()
    ):
        return False
    return not isinstance(router, Committee) or _fits_committee(router, n_outputs)


def _fits_committee(committee: Committee, n_outputs: int) -> bool:
    slopes, prior = committee.slopes, committee.prior
    return (
        slopes.dtype.kind == prior.dtype.kind == "f"
        and (slopes.shape, prior.shape) == ((committee.rule.n_clusters, n_outputs), (n_outputs,))
        and bool(np.isfinite(slopes).all() and np.isfinite(prior).all())
    )


def _whole(values: Any, low: int, high: int) -> bool:
    """Whether these are whole numbers from `low` to below `high`."""
    return values.dtype == np.int64 and values.ndim == 1 and bool(((low <= values) & (values < high)).all())


def check_scaler(scaler: Any, attributes: tuple[str, ...]) -> None:
    """Raise ValueError for attributes of another number of columns."""
    for name in attributes:
        values = getattr(scaler, name, None)
        if isinstance(values, np.ndarray) and values.ndim and values.shape != (scaler.n_features_in_,):
            raise ValueError(f"{name} of the {type(scaler).__name__} does not fit its {scaler.n_features_in_} columns")
