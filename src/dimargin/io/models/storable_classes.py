"""Classes that a model file may hold, with their fitted attributes and checks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, QuantileTransformer, StandardScaler

from dimargin.estimators import (
    MACHINES,
    CoreSetSVDD,
    CoreSetSVMClassifier,
    GossipSVMClassifier,
    KernelMarginClassifier,
    OneClassCoreSetSVM,
)
from dimargin.estimators.preprocessing import CalendarFeatures, FourierFeatures, SparseScaler
from dimargin.io.models.soundness import (
    check_calendar,
    check_detector,
    check_fourier,
    check_linear_machine,
    check_machine,
    check_quantiles,
    check_scaler,
    check_sparse_scaler,
    check_step,
)
from dimargin.io.models.table_steps import TABLE_STEPS

Check = Callable[[Any], None]


def _storable_classes() -> dict[str, tuple[type[BaseEstimator], tuple[str, ...], Check]]:
    certificate = (
        "objective_", "dual_objective_", "duality_gap_", "certificate_", "status_", "n_iter_", "history_",
    )  # fmt: skip
    kernel = (
        "classes_", "support_", "support_vectors_", "dual_coef_", "intercept_", "n_support_", *certificate,
        "_transform", "_router", "_n_given",
    )  # fmt: skip
    linear = ("classes_", "coef_", "intercept_", *certificate, "_partial")
    gossip = (
        "classes_", "coef_", "intercept_", "site_coef_", "site_average_coef_", "site_intercept_",
        "site_average_intercept_", "site_of_rows_", *certificate,
    )  # fmt: skip
    detector = (
        "support_", "support_vectors_", "dual_coef_", "offset_", *certificate, "_transform", "_square", "_n_given",
    )  # fmt: skip
    minmax = ("scale_", "min_", "data_min_", "data_max_", "data_range_", "n_samples_seen_")
    standard, maxabs = ("scale_", "mean_", "var_", "n_samples_seen_"), ("scale_", "max_abs_", "n_samples_seen_")
    classes: dict[type[BaseEstimator], tuple[tuple[str, ...], Check]] = {
        **{
            machine: (kernel, check_machine)
            if issubclass(machine, KernelMarginClassifier)
            else (linear, check_linear_machine)
            for machine in MACHINES.values()
        },
        CoreSetSVMClassifier: (kernel, check_machine),
        GossipSVMClassifier: (gossip, check_linear_machine),
        CoreSetSVDD: ((*detector, "radius_", "center_"), check_detector),
        OneClassCoreSetSVM: (detector, check_detector),
        MinMaxScaler: (minmax, partial(check_scaler, attributes=minmax)),
        StandardScaler: (standard, partial(check_scaler, attributes=standard)),
        MaxAbsScaler: (maxabs, partial(check_scaler, attributes=maxabs)),
        QuantileTransformer: (("quantiles_", "references_", "n_quantiles_"), check_quantiles),
        CalendarFeatures: (("days_", "has_times_"), check_calendar),
        FourierFeatures: (("frequencies_",), check_fourier),
        SparseScaler: (("columns_", "scale_"), check_sparse_scaler),
        **{step: ((), check_step) for step in (*TABLE_STEPS.values(), CalibratedClassifierCV)},
    }
    return {kind.__name__: (kind, *about) for kind, about in classes.items()}


STORABLE_CLASSES = _storable_classes()
"""Class, names of fitted attributes, and check, by the name of the class."""
