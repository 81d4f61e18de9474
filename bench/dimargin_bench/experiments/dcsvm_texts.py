"""Texts of the page on DC-SVM: what its parts show, what the paper leaves open, and where the runs here differ."""

from __future__ import annotations

from collections.abc import Sequence

from dimargin_bench.experiments.dcsvm_published import PARAMETERS, claim, claimed

MACHINE = (
    "The paper's seconds were measured on its own machine with programs of 2014. Its seconds and accuracies are for "
    "all rows. The list of methods says how many threads each has here."
)
RELATIVE_ERROR = (
    "The paper's relative error, defined for its Figure 3, takes the optimum from LIBSVM with "
    f"{claimed('accuracy of the reference solution')} accuracy."
)
NO_PICTURES = "Our copy of the paper has no pictures, and its text does not say what is on the axes."
NO_PARAMETERS = "The paper prints no C and gamma here; we use those of its Table 2."


def unreadable(data: Sequence[str]) -> str:
    """Return which of the data sets have a gamma that cannot be read in the copy of the paper."""
    *others, last = (name for name in data if PARAMETERS[name]["gamma"] == "scale")
    names = f"{', '.join(others)} and {last}" if others else last
    return f"The gamma of {names} cannot be read in our copy of the paper; here it is gamma='scale' of scikit-learn."


FIGURE_1 = (
    "The figure shows how far the machines of clusters, put together, are from the optimum, and the bound on it, over "
    "the number of clusters: by kernel k-means on all rows, and by parts drawn at random. A full run has 10,000 rows "
    "of covtype, as many as the paper. Each random part has its share of both classes; the paper only says that rows "
    "are partitioned randomly. It does not say with which C and gamma; here they are those of its Table 2. The same "
    "numbers are drawn on a linear and on a logarithmic scale."
)
FIGURE_2 = (
    "The figure shows which of the optimum's support vectors the levels of divide and conquer have, and which of "
    "theirs are the optimum's, from about 1,024 clusters to the whole problem; more than 256 clusters are found in two "
    "steps. The cascade is compared with them over the number of clusters or parts, LIBSVM over time. LIBSVM does not "
    "tell which rows it has shrunk. Its points are therefore SVC stopped after a number of steps, whose support "
    "vectors are compared with those of the optimum with an intercept. The paper says that the cascade cannot identify "
    "support vectors accurately, that LIBSVM's shrinking is slower than DC-SVM, and that with the polynomial kernel "
    f"LIBSVM cannot identify {claimed('share of support vectors not identified')}% of them in "
    f"{claimed('seconds', setting='polynomial kernel')} seconds. That takes far more rows than are here, 10,000 in a "
    "full run. The text names neither data nor axes; its experiments with the polynomial kernel are on covtype and "
    "webspam, and here both kernels have covtype. The paper prints no C and gamma for this figure; we use those of its "
    "Table 2 for the RBF kernel, and those of its Section 5 for the polynomial kernel."
)
TABLE_1 = (
    "The table compares three rules by which the machines of k clusters of one level predict. "
    f"{NO_PARAMETERS} It does not say whether clusters were found from the level below."
)
TABLE_2 = (
    "The table has the paper's methods with the parameters that its Section 5 prints, then ours: dimargin's exact "
    "machine, forms of the paper's methods with other parameters, random Fourier features and boosted trees. C and "
    "gamma are the paper's."
)
DIFFERENCES = (
    "DC-SVM differs from the paper's Algorithm 1: 256 clusters are found on up to 2,560 rows, ten for each, and fewer "
    f"clusters on the paper's {claimed('m', 'Section 4')}; kernel k-means starts from k-means++, the best of five, in "
    "place of the paper's random initialization; a cluster of the sample that becomes empty takes the row furthest "
    "from its centre; clusters to which no row is nearest are dropped; and the refining solve is left out where more "
    "than half of all rows are support vectors. dimargin's block coordinate descent solves the clusters, the whole "
    "problem and the cascade's parts; the paper uses LIBSVM. The tolerance of 1e-3 is a relative duality gap for "
    "dimargin's machines, and for LIBSVM, as in the paper, the violation of optimality at which it stops. SVC, which "
    "is LIBSVM, its subsample and LaSVM have an intercept; the paper changed LIBSVM to have none. The paper does not "
    "say how many parts CascadeSVM has, which loss the linear machines have, or which lambda SpSVM has: the list of "
    "methods has ours."
)
TABLE_3 = (
    "The table has the rows and features of the paper's data. Where there is no file of test rows, a fifth of all rows "
    "is set apart at random, with the same shares of the classes on both sides; the paper's splits are random. Of "
    "mnist8m all but 8,000,000 rows are set apart in this way, as many as in the paper, which does not list the round "
    "digits; here they are 0, 3, 6, 8 and 9. For kddcup99 the paper contradicts itself: Section 7.5 says a "
    "random split of 80 to 20, but Table 3 has the rows of the two files, which are taken here. The paper scales all "
    "data but cifar and mnist8m to [0, 1]. ijcnn1 is not scaled here: LIBSVM's makers have scaled its two files, and "
    "LIBSVM has the accuracy of the paper's Table 2 on them as they are, and 1.6 points less if they are scaled by the "
    "ranges of the training rows."
)
FIGURE_3 = (
    "The figure shows each method with several values of what the paper varies of it: levels of DC-SVM, tolerances of "
    "LIBSVM and of the cascade, passes of LaSVM, centres of LTPU and LLSVM, features of FastFood, basis rows of SpSVM. "
    f"Only solvers of the SVM's problem have an objective. {RELATIVE_ERROR} The paper has three data sets; the text "
    "names only covtype, in panel (e). Here there are two, and ijcnn1 is our choice. The text says that DC-SVM is "
    f"{claimed('speed-up over LIBSVM at the same accuracy')} times as fast as LIBSVM at the same accuracy."
)
FIGURE_4 = (
    "The figure has the kernel (gamma x'z)^3, with the C and gamma that the paper has for webspam and covtype. LLSVM, "
    "FastFood and LTPU are left out, as there. We leave out SpSVM too: our program has only the RBF kernel for it, and "
    "the paper does not mention it here. The paper compares the objective with LIBSVM and the accuracy with LIBSVM and "
    f"LaSVM; the cascade and the exact machines are ours. {RELATIVE_ERROR} The text says that DC-SVM is "
    f"{claimed('speed-up over LIBSVM and LaSVM')} times as fast as LIBSVM and LaSVM."
)
TABLE_5 = (
    "The table shows the seconds of every level of DC-SVM on covtype. "
    f"{NO_PARAMETERS} Level 0 is the whole problem, with the refining solve before it where at most half of the rows "
    "are support vectors: it has no clusters here, while the paper has "
    f"{claim('clustering seconds', 'Table 5', setting='level 0').value} seconds of clustering for it. On the other "
    "levels the seconds of clustering contain the assignment of every row to its cluster."
)
TABLE_6 = (
    "The table compares the machines of k clusters, of which the nearest predicts, with bagging: k machines, each of "
    "n/k rows drawn uniformly from all, independently of the others, which vote. Rows are drawn without replacement; "
    "the paper does not say whether they are. It says that both take the same time to train; here dc-early with 64 "
    "clusters first trains the level of 256, with 16 those of 256 and 64, and its seconds contain them. "
    f"{NO_PARAMETERS}"
)
FIGURE_5 = (
    "The figure has the methods of Figure 3, each with the same values of what the paper varies of it, and the same "
    f"axes. {RELATIVE_ERROR}"
)
THEOREMS = (
    "Theorem 2 names rows that are no support vectors of the whole problem, from their cluster's solution, the kernel "
    "values between clusters and the smallest eigenvalue of the kernel matrix. The table counts them. Theorem 3's "
    "bound counts only rows that are support vectors. The table has it beside Theorem 1's bound and the difference "
    "that both bound."
)
CLUSTERS_OR_COLD = (
    "The tables compare the exact machine with divide and conquer, to the same gap of 1e-3, over numbers of rows and "
    "three kernels, with the C of the paper's Table 2: the narrow RBF kernel of that table, the wide one of "
    "gamma='scale', and the polynomial kernel of degree 3."
)
