"""Machines that the papers compare theirs with, kept so that the comparison can be repeated.

They are written for clarity, in NumPy and with scikit-learn's parts, and carry no certificate.
Kernel machines take dense rows, linear ones sparse rows too. Random Fourier features (Rahimi, Recht
2007), which `FastFood` approximates, are scikit-learn's ``RBFSampler``; the other rivals, cascades
among them, are strategies of `dimargin.SVMClassifier` and `dimargin.ODMClassifier`, and those that
gossip are algorithms of `dimargin.GossipSVMClassifier`.
"""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin_bench.kernel_rivals.bagging import BaggedSVM as BaggedSVM
    from dimargin_bench.kernel_rivals.dist_eval import DistEval as DistEval
    from dimargin_bench.kernel_rivals.fastfood import FastFood as FastFood
    from dimargin_bench.kernel_rivals.lasvm import LaSVM as LaSVM
    from dimargin_bench.kernel_rivals.llsvm import LLSVM as LLSVM
    from dimargin_bench.kernel_rivals.local_admm import LocalADMM as LocalADMM
    from dimargin_bench.kernel_rivals.ltpu import LTPU as LTPU
    from dimargin_bench.kernel_rivals.pegasos import Pegasos as Pegasos
    from dimargin_bench.kernel_rivals.separate_sites import PseudoDistributed as PseudoDistributed
    from dimargin_bench.kernel_rivals.separate_sites import pseudo_distributed as pseudo_distributed
    from dimargin_bench.kernel_rivals.single_coordinate import SingleCoordinateODM as SingleCoordinateODM
    from dimargin_bench.kernel_rivals.spsvm import SpSVM as SpSVM
    from dimargin_bench.kernel_rivals.subsample import SubsampledSVM as SubsampledSVM
    from dimargin_bench.kernel_rivals.svm_perf import SVMPerf as SVMPerf
    from dimargin_bench.kernel_rivals.thresholded import ThresholdedRegression as ThresholdedRegression
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
