"""Groups of rows, such as those of a patient, which are on one side of every fold of a search."""

import numpy as np
import pytest
import sklearn
from sklearn.datasets import make_moons
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, KFold, LeaveOneGroupOut, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from dimargin import LinearODMClassifier, ODMClassifierCV
from dimargin.estimators.search import scoring

X, Y = make_moons(600, noise=0.2, random_state=0)
PATIENTS = np.random.default_rng(0).integers(0, 12, 600)
SMALL = {"param_grid": {"gamma": [0.5, 2.0, 8.0, 30.0], "lam": [1e3, 1e5]}, "min_rows": 60, "random_state": 0}


@pytest.fixture
def samples(monkeypatch):
    """Training and test rows of all candidates."""
    seen = []

    class Sample(scoring.Sample):
        @classmethod
        def of(cls, data, fold, n_rows, may_merge):
            sample = super().of(data, fold, n_rows, may_merge)
            seen.append((data.kept[fold.train[:n_rows]], data.kept[sample.test]))
            return sample

    monkeypatch.setattr(scoring, "Sample", Sample)
    return seen


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


SPLITTERS = [3, GroupKFold(4), LeaveOneGroupOut(), GroupShuffleSplit(2, random_state=0)]


@pytest.mark.parametrize("cv", SPLITTERS, ids=lambda cv: type(cv).__name__)
@pytest.mark.parametrize("routed", [False, True])
@pytest.mark.parametrize("weights", [None, np.where(np.arange(600) % 5 == 0, 0.0, 1.0)], ids=["", "weights"])
def test_no_group_is_on_both_sides_in_any_round(cv, routed, weights, samples):
    with sklearn.config_context(enable_metadata_routing=routed):
        search = ODMClassifierCV(cv=cv, **SMALL).fit(X, Y, sample_weight=weights, groups=PATIENTS)
    assert len(search.rounds_) > 1 and len({len(train) for train, _ in samples}) > 1
    for train, test in samples:
        assert len(train) and len(test) and not set(PATIENTS[train]) & set(PATIENTS[test])
    assert search.n_splits_ == {int: 3, GroupKFold: 4, LeaveOneGroupOut: 12, GroupShuffleSplit: 2}[type(cv)]


def test_without_groups_they_are_on_both_sides(samples):
    ODMClassifierCV(**SMALL).fit(X, Y)
    assert any(set(PATIENTS[train]) & set(PATIENTS[test]) for train, test in samples)


def test_folds_are_those_of_the_splitter(samples):
    ODMClassifierCV(param_grid={"lam": [1e3]}, cv=GroupKFold(4), random_state=0).fit(X, Y, groups=PATIENTS)
    found, own = ({(frozenset(train.tolist()), frozenset(test.tolist())) for train, test in splits}
                  for splits in (samples, GroupKFold(4).split(X, Y, PATIENTS)))  # fmt: skip
    assert found == own  # whatever the order in which threads take them


def test_groups_are_named_by_anything_and_folds_are_no_more_than_groups():
    names = np.array(["anna", "berta", "cesar"], dtype=object)[PATIENTS % 3]
    search = ODMClassifierCV(cv=10, **SMALL).fit(X, Y, groups=names.tolist())
    assert search.n_splits_ == 3
    linear = ODMClassifierCV(LinearODMClassifier(), cv=GroupKFold(3), random_state=0).fit(X, Y, groups=names)
    assert linear.n_splits_ == 3 and linear.score(X, Y) > 0.8


def test_folds_in_which_a_class_is_missing():
    """A group of one class each: the other class alone is trained on, or none of it is scored on."""
    groups = np.where(Y == 1, PATIENTS % 2, 2 + PATIENTS % 2)
    search = ODMClassifierCV(cv=LeaveOneGroupOut(), **SMALL).fit(X, Y, groups=groups)
    assert search.n_splits_ == 4 and search.score(X, Y) > 0.9
    alone = ODMClassifierCV(cv=GroupKFold(2), **SMALL).fit(X, Y, groups=Y)
    assert alone.n_splits_ == 2 and alone.best_score_ < 0.5


def test_in_pipelines_and_cross_validations(routing):
    search = ODMClassifierCV(cv=GroupKFold(3), **SMALL)
    pipeline = make_pipeline(MinMaxScaler(), search).fit(X, Y, groups=PATIENTS)
    assert pipeline[-1].n_splits_ == 3
    found = cross_validate(search, X, Y, cv=GroupKFold(3), params={"groups": PATIENTS})
    assert found["test_score"].mean() > 0.9
    weighed = make_pipeline(MinMaxScaler(), search.set_fit_request(sample_weight=True))
    weighed.fit(X, Y, groups=PATIENTS, sample_weight=np.ones(600))
    with pytest.raises((TypeError, UnsetMetadataPassedError), match="groups"):
        ODMClassifierCV(cv=KFold(3), **SMALL).fit(X, Y, groups=PATIENTS)


def test_in_a_pipeline_without_routing():
    pipeline = make_pipeline(MinMaxScaler(), ODMClassifierCV(cv=GroupKFold(3), **SMALL))
    assert pipeline.fit(X, Y, odmclassifiercv__groups=PATIENTS)[-1].n_splits_ == 3


MISSING = PATIENTS.astype(object)
MISSING[17] = None


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"groups": PATIENTS[:-1]}, "groups must have an entry for each of the 600 rows, got 599"),
        ({"groups": MISSING}, "groups must have a group for every row, got None for row 17"),
        (
            {"groups": np.where(np.arange(600) == 3, np.nan, 1.0)},
            "groups must have a group for every row, got .*nan.* for row 3",
        ),
        ({"groups": np.zeros(600)}, "groups must have two groups or more among rows with positive weight, got one"),
        ({"groups": PATIENTS, "sample_weight": (PATIENTS == 3) * 1.0}, "groups must have two groups or more"),
        ({"groups": np.ones((600, 2))}, "1d array"),
    ],
)
def test_what_is_wrong_is_named(given, match):
    with pytest.raises(ValueError, match=match):
        ODMClassifierCV(**SMALL).fit(X, Y, **given)
    with pytest.raises(ValueError, match="'groups' parameter should not be None"):
        ODMClassifierCV(cv=GroupKFold(3)).fit(X, Y)
    with pytest.raises(ValueError, match=r"fold \d of cv has no test rows with weight"):
        ODMClassifierCV(cv=LeaveOneGroupOut(), **SMALL).fit(X, Y, (PATIENTS != 3) * 1.0, groups=PATIENTS)
