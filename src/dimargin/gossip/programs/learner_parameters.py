"""Parameters of learners, from which the flags of ``dimargin site`` are derived.

A parameter that is a flag is annotated with its help, and with a text for an unclear default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal


@dataclass(frozen=True)
class GadgetParameters:
    """Parameters of GADGET that the owner of a site chooses."""

    alpha: Annotated[float, "Weight of the regulariser.", "1e-4"] = 1e-4  # The paper's lambda.
    gradient: Annotated[
        Literal["tracked", "local"], "Gradient of all rows, tracked by gossip, or of the site's own rows."
    ] = "tracked"
    batch_size: Annotated[int | None, "Rows per step.", "all"] = None  # Drawn with replacement; None uses all rows.
    # Below one, a step is due when the site's estimate changes by less than this share in a round.
    gossip_rounds: Annotated[int | float, "Rounds per step."] = 1
    # About the length of the first step: the one that the rows' curvature allows ("auto",
    # steps.py), 1/alpha ("pegasos"), or this number.
    step_size: str | float = "auto"
    # "quantised" sends differences from a neighbour's numbers, in at most a byte (differences.py).
    compression: Annotated[Literal["none", "quantised"], "Compression of messages."] = "none"


@dataclass(frozen=True)
class LinearParameters:
    """Parameters of the problem of a linear machine, as in `dimargin.GossipSVMClassifier`."""

    alpha: Annotated[float, "Weight of the regulariser.", "1e-4"] = 1e-4
    loss_function: Annotated[Literal["hinge", "squared_hinge", "odm"], "Loss of a row's margin."] = "hinge"
    theta: Annotated[float, "Half width of the band of margins without loss, for odm.", "0.8"] = 0.8
    upsilon: Annotated[float, "Weight of margins above that band, for odm.", "0.5"] = 0.5
    fit_intercept: Annotated[bool, "", "fit-intercept"] = True
    # The rbf kernel uses random Fourier features, which are equal at all sites. Other kernels need
    # programs that share rows.
    kernel: Annotated[Literal["linear", "poly", "rbf", "laplacian"], ""] = "linear"
    gamma: Annotated[float | None, "Coefficient of the kernel.", "1 / features"] = None
    features: Annotated[int, "Number of random features that approximate rbf, even."] = 1000
    feature_seed: Annotated[int, "Seed of the random features."] = 0


@dataclass(frozen=True)
class GossipParameters(LinearParameters, GadgetParameters):
    """Parameters of a linear machine that is learnt by GADGET."""


@dataclass(frozen=True)
class ADMMParameters(LinearParameters):
    """Parameters of a linear machine that is learnt by consensus ADMM, as in `dimargin.gossip.rounds.ConsensusADMM`."""

    rho: Annotated[float | None, "Penalty on the distance from each neighbour.", "adapted"] = None
    over_relaxation: Annotated[float, "Over-relaxation, in (0, 2).", "1.6"] = 1.6
    levels: Annotated[int, "Levels to which changes of weights are rounded; 0 sends whole weights."] = 7
    tol: Annotated[float, "Relative duality gap to reach.", "1e-3"] = 1e-3
    liars: Annotated[int, "Sites that may lie. Above 0, the pull of every other site is limited."] = 0
    # Differential privacy, as in `dimargin.gossip.rounds.Privacy`; None sends exact solutions.
    epsilon: Annotated[float | None, "Privacy budget of the rows of a site; adds noise.", "no privacy"] = None
    delta: Annotated[float, "Delta of the privacy budget.", "1e-5"] = 1e-5
    rounds: Annotated[int, "Noisy releases that spend the privacy budget."] = 40
    clip: Annotated[float, "Norm to which rows are shortened, for privacy."] = 1.0


@dataclass(frozen=True)
class CoreSetParameters:
    """Parameters of core-set consensus that the owner of a site chooses.

    They are those of `dimargin.CoreSetSVMClassifier`, `dimargin.CoreSetSVDD` and
    `dimargin.OneClassCoreSetSVM`, for the three kinds of machines.
    """

    kind: Annotated[Literal["svm", "svdd", "one-class"], "A classifier, or a detector of outliers without labels."] = (
        "svm"
    )
    # With an infinite C no row is outside of the ball, or on the wrong side of the margin.
    C: Annotated[float, "Weight of the squared loss; inf allows no loss.", "1"] = 1.0
    kernel: Annotated[Literal["linear", "poly", "rbf", "laplacian"], ""] = "rbf"
    # None is 1 / n_features, since no site knows the variance of the features over all rows.
    gamma: Annotated[float | None, "Coefficient of the kernel.", "1 / features"] = None
    degree: Annotated[int, "Degree of poly."] = 3
    coef0: Annotated[float, "Constant term of poly.", "0"] = 0.0
    tol: Annotated[float, "Relative duality gap to reach.", "1e-3"] = 1e-3
