"""Options of sites that learn a linear machine by consensus ADMM, without sharing rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dimargin.gossip.neighbourhood import lower_median
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.programs.learner_parameters import ADMMParameters
from dimargin.gossip.rounds.compression import Logarithmic
from dimargin.gossip.rounds.consensus_admm import ConsensusADMM, ConsensusSite
from dimargin.gossip.rounds.privacy import budget_of
from dimargin.gossip.rounds.private_admm import PrivateConsensusSite, with_privacy
from dimargin.gossip.schema import Schema
from dimargin.gossip.sites.linear_options import LinearOptions
from dimargin.gossip.sites.options import certificate
from dimargin.system.value_tree import Step


@dataclass(frozen=True)
class ADMMOptions(LinearOptions, ADMMParameters):
    """Options of consensus ADMM."""

    program, messages = "admm", ConsensusSite.messages

    def __post_init__(self) -> None:
        super().__post_init__()
        self.algorithm.validate()
        if self.liars and self.scale:
            raise ValueError(
                "liars needs data that are scaled already, and --no-scale: a site that lies about its smallest and "
                "largest values would decide how all sites scale"
            )
        if self.is_private and self.scale:
            raise ValueError("epsilon needs scale=False (--no-scale), because the range of a column shows single rows")
        if self.is_private and self.loss_function != "hinge":
            raise ValueError(f"epsilon needs loss_function='hinge', got {self.loss_function!r}")

    @property
    def is_private(self) -> bool:
        """Return whether sites add noise, and send no smallest and largest values."""
        return self.epsilon is not None

    @property
    def algorithm(self) -> ConsensusADMM:
        """The algorithm with its parameters."""
        compression = Logarithmic(self.levels) if self.levels else None
        # A site's own problem is solved far more precisely than the certificate asks for.
        own = min(1e-5, 1e-2 * self.tol)
        algorithm = ConsensusADMM(
            "auto" if self.rho is None else self.rho, self.over_relaxation, own, liars=self.liars,
            compression=compression,
        )  # fmt: skip
        return with_privacy(algorithm, budget_of(self, secret=True))

    def own_terms(self) -> dict[str, Any]:
        """Return the terms that only this program has."""
        budget = ("epsilon", "delta", "rounds", "clip") if self.is_private else ()
        own = "over_relaxation", "levels", "tol", "liars", *budget
        return {**super().own_terms(), **{name: getattr(self, name) for name in own}}

    def message_size(self, schema: Schema) -> int:
        """Return the bytes of a message with whole weights."""
        n_outputs, width = self.shape(schema)
        return 8 * n_outputs * width

    def learner(
        self, name: str, rows: Any, schema: Schema, counts: Mapping[str, int], seed: tuple[int, ...]
    ) -> ConsensusSite:
        """Return the learner of a site."""
        # Penalties are in units of the rows of a typical site. A member may report any number of rows,
        # which would move a mean; it cannot move the median far.
        typical = lower_median(count for count in counts.values() if count)
        problem = Problem(
            self.alpha, 1, max(typical, 1), lease=self.lease, interval=self.interval, tol=self.tol,
            max_messages=self.max_messages, schema=schema.digest, birth=self.birth,
            inherits_weights=not self.is_kernel,
        )  # fmt: skip
        return self.algorithm.program(problem, name, rows, seed)

    def machine(self, learner: ConsensusSite, schema: Schema, counts: Mapping[str, int]) -> Step | None:
        """Return the model's last step, or None before the first certificate.

        It is equal at all sites. Where members may lie, or with privacy, each site has its own,
        without a certificate; private ones are nearly the same at the end.
        """
        rounds, found = max(1, learner.rounds), learner.certification.certificate
        own = {"algorithm": "admm", "n_sites": len(counts)}
        if isinstance(learner, PrivateConsensusSite):
            if not learner.releases:
                return None
            attributes: dict[str, Any] = {"n_iter_": rounds, "epsilon_": self.epsilon, "delta_": self.delta}
            attributes |= {"status_": "budget_spent"} if learner.has_finished else {}
            return self.classifier(learner.weights, schema, own, attributes)
        if self.liars and learner.rounds:
            objective = learner.own_objective()
            bounds = certificate(objective, np.zeros(len(objective)), "estimated")  # Losses are not below zero.
            return self.classifier(learner.weights, schema, own, {**bounds, "n_iter_": rounds})
        if found is None:
            return None
        bounds = certificate(found.objective, found.dual_objective, "network")
        return self.classifier(found.weights, schema, {**own, "n_sites": found.sites}, {**bounds, "n_iter_": rounds})
