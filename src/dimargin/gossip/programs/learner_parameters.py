"""Parameters of what sites learn, from which the flags of ``dimargin site`` are derived.

A parameter that is a flag is annotated with its help, and with its default in words where the value does not say it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

COMPRESSIONS = ("none", "quantised")


@dataclass(frozen=True)
class GadgetParameters:
    """Parameters of GADGET that the owner of a site chooses."""

    alpha: Annotated[float, "Weight of the regulariser.", "1e-4"] = 1e-4  # the paper's lambda
    gradient: Annotated[Literal["tracked", "local"], "Of all rows, tracked by gossip, or the site's own."] = "tracked"
    batch_size: Annotated[int | None, "Rows per step.", "all"] = None  # drawn with replacement; None for all
    # a number below one is a tolerance: there are as many rounds as it takes for the site's own estimate to change by
    # less than this share in a round
    gossip_rounds: Annotated[int | float, "Rounds per step."] = 1
    # about the length of the first step: what the rows' curvature allows ("auto", steps.py), 1/alpha ("pegasos"), or
    # this number
    step_size: str | float = "auto"
    # whether numbers are sent as differences from those that a neighbour has, in a byte or less each (differences.py)
    compression: Annotated[Literal["none", "quantised"], "Of messages."] = "none"


@dataclass(frozen=True)
class GossipParameters(GadgetParameters):
    """Parameters of a linear machine that is learnt by GADGET, as in `dimargin.GossipSVMClassifier`."""

    loss_function: Annotated[Literal["hinge", "squared_hinge", "odm"], "Of a row's margin."] = "hinge"
    theta: Annotated[float, "Half width of the band of margins without loss, of odm.", "0.8"] = 0.8
    upsilon: Annotated[float, "Weight of margins beyond that band, of odm.", "0.5"] = 0.5
    fit_intercept: Annotated[bool, "", "fit-intercept"] = True
    # rbf: of random Fourier features, which all sites draw alike; others are of programs that share rows
    kernel: Annotated[Literal["linear", "poly", "rbf", "laplacian"], ""] = "linear"
    gamma: Annotated[float | None, "Of the kernel.", "1 / features"] = None
    components: Annotated[int, "Frequencies of the random features, two each, in place of rbf."] = 500
    feature_seed: Annotated[int, "Of the random features."] = 0


@dataclass(frozen=True)
class CoreSetParameters:
    """Parameters of core-set consensus that the owner of a site chooses.

    They are as those of `dimargin.CoreSetSVMClassifier`, `dimargin.CoreSetSVDD` and `dimargin.OneClassCoreSetSVM`, for
    the three kinds of machines.
    """

    kind: Annotated[Literal["svm", "svdd", "one-class"], "A classifier, or a detector of outliers without labels."] = (
        "svm"
    )
    # infinite for the ball that has no row outside, and the machine that has no row on the wrong side
    C: Annotated[float, "Weight of the squared loss; inf for none.", "1"] = 1.0
    kernel: Annotated[Literal["linear", "poly", "rbf", "laplacian"], ""] = "rbf"
    # None for 1 / n_features, which all sites know, while no site knows the variance of the features over all rows
    gamma: Annotated[float | None, "Of the kernel.", "1 / features"] = None
    degree: Annotated[int, "Of poly."] = 3
    coef0: Annotated[float, "Of poly.", "0"] = 0.0
    tol: Annotated[float, "Relative duality gap to reach.", "1e-3"] = 1e-3
