"""Accuracies on ijcnn1 beside those that the paper on DC-SVM has of the rivals, in its Tables 2 and 6.

Features are as LIBSVM's page has them, and test rows are those of its file ijcnn1.t: LIBSVM's
machine with C = 32 and gamma = 2 then classifies 98.70% as they are, for the paper's 98.69%, and
97.10% if the features are scaled to [0, 1], as the paper says they were.
"""

import pytest
from sklearn.datasets import load_svmlight_file
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from dimargin_bench.kernel_rivals import LLSVM, LTPU, BaggedSVM, FastFood, LaSVM, SpSVM, SubsampledSVM

SVM = {"C": 32.0, "gamma": 2.0, "random_state": 0}
# fewer centres, or frequencies, than the paper's 3000
RIVALS = {
    "LIBSVM on a fifth": (SubsampledSVM(**SVM), 98.24),
    "LaSVM": (LaSVM(**SVM), 98.57),
    "LLSVM": (LLSVM(n_centers=1000, loss="hinge", tol=0.1, **SVM), 98.23),
    "FastFood": (
        make_pipeline(FastFood(n_components=500, gamma=2.0, random_state=0), LinearSVC(C=32.0, fit_intercept=False)),
        95.95,
    ),
    "SpSVM": (SpSVM(**SVM), 94.92),
    "LTPU": (LTPU(n_centers=400, tol=0.01, **SVM), 96.64),
    "bagging, k=64": (BaggedSVM(n_estimators=64, **SVM), 95.44),
    "bagging, k=16": (BaggedSVM(n_estimators=16, **SVM), 98.24),
}


@pytest.fixture(scope="module")
def ijcnn1(data_folder):
    parts = [load_svmlight_file(str(data_folder / name)) for name in ("ijcnn1.bz2", "ijcnn1.t.bz2")]
    (X, y), (queries, answers) = [(rows.toarray(), labels) for rows, labels in parts]
    assert (X.shape, queries.shape) == ((49_990, 22), (91_701, 22))
    return X, y, queries, answers


@pytest.mark.slow
@pytest.mark.parametrize("name", RIVALS)
def test_accuracy_is_that_of_the_paper_less_three_tenths_of_a_point(ijcnn1, name):
    X, y, queries, answers = ijcnn1
    rival, published = RIVALS[name]
    assert 100 * rival.fit(X, y).score(queries, answers) > published - 0.3
