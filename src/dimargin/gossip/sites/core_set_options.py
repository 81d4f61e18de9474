"""Options of sites that agree on the rows that determine a machine or a detector, and share these rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin.gossip.programs.candidates import Candidates, Named
from dimargin.gossip.programs.core_set_machines import CodedRows, CoreSetMachines
from dimargin.gossip.programs.core_set_settings import Chosen, CoreSetSettings
from dimargin.gossip.programs.learner_parameters import CoreSetParameters
from dimargin.gossip.schema import Schema
from dimargin.gossip.sites.options import SiteOptions, certificate, longest_row, width_of
from dimargin.kernels.functions import MAX_DEGREE, Kernel, check_semi_definite
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform
from dimargin.problems.losses import MAX_PARAMETER, MIN_PARAMETER
from dimargin.system.value_tree import Step


@dataclass(frozen=True)
class CoreSetOptions(SiteOptions, CoreSetParameters):
    """Options of core-set consensus."""

    program, shares, messages = "coreset", "rows", (Candidates,)

    @property
    def min_labels(self) -> int:
        """Smallest number of labels: two for the classifier, zero for detectors."""
        return 2 if self.kind == "svm" else 0

    def __post_init__(self) -> None:
        if not (MIN_PARAMETER <= self.C <= MAX_PARAMETER or (self.kind != "one-class" and np.inf == self.C)):
            raise ValueError(
                f"C must be in [{MIN_PARAMETER:g}, {MAX_PARAMETER:g}], or infinite for svm and svdd; got {self.C!r}"
            )
        if not 1 <= self.degree <= MAX_DEGREE:
            raise ValueError(f"degree must be in [1, {MAX_DEGREE}], got {self.degree!r}")
        if not np.isfinite(self.coef0):
            raise ValueError(f"coef0 must be a finite number, got {self.coef0!r}")
        check_semi_definite(self.kernel, 1.0 if self.gamma is None else self.gamma, self.degree, self.coef0)

    def own_terms(self) -> dict[str, Any]:
        """Return the terms that only this program has."""
        return {field.name: getattr(self, field.name) for field in fields(CoreSetParameters)}

    def rows(self, X: Any, y: NDArray[Any], schema: Schema) -> CodedRows:
        """Return scaled rows with codes of their labels, dense or sparse as the schema decides."""
        X = schema.scaled(X)
        # Rows of LIBSVM text stay sparse if they have many features.
        if schema.terms["features_counted_from"] is not None and schema.n_features > 1000:
            X = sp.csr_array(X)
        elif sp.issparse(X):
            X = X.toarray()
        codes = np.searchsorted(np.array(schema.labels), y) if self.uses_labels else np.ones(len(y))
        return CodedRows(X, codes.astype(np.float64))

    def learner(
        self, name: str, rows: Any, schema: Schema, counts: Mapping[str, int], seed: tuple[int, ...]
    ) -> CoreSetMachines:
        """Return the learner of a site, which is deterministic."""
        return CoreSetMachines(name, rows, self.settings(schema), self.identity)

    def settings(self, schema: Schema) -> CoreSetSettings:
        """Return the settings under a schema, with bounds on the messages of correct sites."""
        agreed = CoreSetSettings.for_gap(
            "ball" if self.kind == "svdd" else "margin", self.C, self.tol, self._kernel(schema), self.kind == "svm"
        )
        codes = tuple(range(len(schema.labels))) if self.uses_labels else (1,)
        return replace(
            agreed,
            codes=codes,
            interval=self.interval,
            lease=self.lease,
            quiet_rounds=round(4.0 * self.lease / self.interval),  # Sites have agreed after four leases without news.
            norm_bound=1e3 * max(longest_row(schema), 1.0),  # Rows appended later may be longer than those agreed on.
            mass_bounds=(1.0, 1.0),
            max_messages=self.max_messages * max(1, len(codes)),
            schema=schema.digest,
        )

    def _kernel(self, schema: Schema) -> Kernel:
        gamma = 1 / schema.n_features if self.gamma is None else self.gamma
        return Kernel(self.kernel, gamma, self.degree, self.coef0)

    # ---- model ---------------------------------------------------------------------------------------------------

    def machine(self, learner: CoreSetMachines, schema: Schema, counts: Mapping[str, int]) -> Step | None:
        """Return the model's last step, or None before there is a core-set for every output."""
        chosen = [machine.chosen for machine in learner.machines]
        found = [one for one in chosen if one is not None and np.isfinite(one.value)]
        if len(found) < len(chosen) or not all(map(learner.settings.is_separated, found)):
            return None
        bounds = np.array([learner.settings.bounds(one) for one in found])
        kernel = self._kernel(schema)
        parameters = {name: value for name, value in self.own_terms().items() if name != "kind"}
        parameters["gamma"] = kernel.gamma
        vectors = Named.united([one.points for one in found])
        transform = RowTransform.fit(vectors.X, kernel).in_float64()
        attributes = {
            "support_": np.arange(len(vectors.names)),
            "support_vectors_": vectors.X,
            "_transform": transform,
            **certificate(bounds[:, 1], bounds[:, 0], "estimated"),
            "n_iter_": max(1, learner.steps),
            "_n_given": sum(counts.values()),
            **width_of(schema),
        }
        if self.kind == "svm":
            own = self._classifier(found, vectors, learner, schema)
            return Step("machine", "CoreSetSVMClassifier", parameters, attributes | own)
        name = "CoreSetSVDD" if self.kind == "svdd" else "OneClassCoreSetSVM"
        own = self._detector(found[0], transform, learner, sum(counts.values()))
        return Step("machine", name, parameters, attributes | own)

    def _classifier(
        self, found: list[Chosen], vectors: Named, learner: CoreSetMachines, schema: Schema
    ) -> dict[str, Any]:
        indices = {name: k for k, name in enumerate(vectors.names)}
        dual = np.zeros((len(found), len(indices)))
        for row, one, machine in zip(dual, found, learner.machines, strict=True):
            signed = machine.settings.signs(one.points) * one.weights / -one.value
            row[[indices[name] for name in one.points.names]] = signed
        counts = np.bincount(vectors.labels.astype(np.int64), minlength=len(schema.labels))
        classes, intercept = np.array(schema.labels), dual.sum(axis=1)
        return {
            "classes_": classes, "dual_coef_": dual, "intercept_": intercept, "n_support_": counts, "_router": None
        }  # fmt: skip

    def _detector(self, one: Chosen, transform: RowTransform, learner: CoreSetMachines, n_rows: int) -> dict[str, Any]:
        x, X = one.weights, one.points.X
        # No site knows the excess of all rows: its mean at the optimum is used, see
        # `contamination`.
        square = float(x @ KernelMatrix(transform, X).multiply(np.arange(len(x)), x[None])[0])
        own: dict[str, Any] = {"dual_coef_": x[None], "_square": square}
        if self.kind == "one-class":
            return own | {"offset_": -one.value - 2 / (self.C * n_rows)}
        slack = float((x**2).sum()) / self.C
        _, largest = learner.settings.bounds(one)
        squared_radius = largest if np.isinf(self.C) else one.value - slack
        centre = x @ X if self.kernel == "linear" else None
        offset = -squared_radius - 4 / (self.C * n_rows)
        return own | {"radius_": max(squared_radius, 0.0) ** 0.5, "center_": centre, "offset_": offset}
