"""Params: derived from the scikit-learn classes, checked when set, kept as what JSON holds."""

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="dimargin[spark] is not installed")

from pyspark.ml.param.shared import HasWeightCol
from pyspark.ml.tuning import ParamGridBuilder

import dimargin as dm
from dimargin.spark import (
    LinearODMClassifier,
    LinearSVMClassifier,
    LinearSVMRegressor,
    ODMClassifier,
    OneClassCoreSetSVM,
    SVMClassifier,
    SVMRegressor,
)

ESTIMATORS = [
    ODMClassifier, SVMClassifier, LinearODMClassifier, LinearSVMClassifier, SVMRegressor, LinearSVMRegressor,
    OneClassCoreSetSVM,
]  # fmt: skip
EXCLUDED = ("n_jobs", "verbose", "warm_start", "multi_class", "pair_scores", "n_sites", "topology", "shards")
COLUMNS = {
    "featuresCol",
    "featuresCols",
    "labelCol",
    "predictionCol",
    "rawPredictionCol",
    "weightCol",
    "idCol",
    "probabilityCol",
}
DOCS = Path(__file__).parents[2] / "docs" / "spark.md"


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_parameter_of_the_scikit_learn_class_is_a_param_with_its_default(estimator):
    own = inspect.signature(estimator.machine).parameters
    expected = {name: parameter.default for name, parameter in own.items()}
    for name in EXCLUDED:
        expected.pop(name, None)
    made = estimator()
    assert len({param.name for param in made.params} - COLUMNS - {"checkpointDir", "calibration"}) == len(expected)
    for name, default in expected.items():
        first, *others = name.split("_")
        param = "seed" if name == "random_state" else first + "".join(map(str.title, others))
        assert made.getOrDefault(param) == default and not made.isSet(param)
        assert getattr(made, f"get{param[0].upper()}{param[1:]}")() == default
        assert made.getParam(param).doc


def test_texts_of_params_speak_of_params():
    text = ODMClassifier().explainParams()
    assert "if nLevels or stopLevel is given" in text and "n_levels" not in text
    assert "precomputed" not in text


def test_setters_and_keywords_set_the_same():
    by_keyword = ODMClassifier(lam=7, maxIter=3, seed=5, weightCol="w", idCol="key", labelCol="y")
    by_setter = ODMClassifier().setLam(7).setMaxIter(3).setSeed(5).setWeightCol("w").setIdCol("key").setLabelCol("y")
    for made in (by_keyword, by_setter):
        assert (made.getLam(), made.getMaxIter(), made.getSeed(), made.getIdCol()) == (7.0, 3, 5, "key")
        assert (made.getWeightCol(), made.getLabelCol()) == ("w", "y")
    assert isinstance(by_keyword, HasWeightCol)  # what OneVsRest asks


def test_the_prototype_has_the_values_of_the_params():
    made = SVMClassifier(
        C=2, loss="squared_hinge", fitIntercept=True, kernel="poly", gamma=0.5, degree=2, nLevels=3, stopLevel=1,
        strategy="diodm", maxTime=9, classWeight={0: 2, 1: 1}, memoryLimit=10**9, seed=4,
    )  # fmt: skip
    machine = made._prototype()
    expected = dm.SVMClassifier(
        C=2.0, loss="squared_hinge", fit_intercept=True, kernel="poly", gamma=0.5, degree=2, n_levels=3, stop_level=1,
        strategy="diodm", max_time=9.0, class_weight={0.0: 2.0, 1.0: 1.0}, memory_limit=10**9, random_state=4,
    )  # fmt: skip
    assert type(machine) is dm.SVMClassifier and machine.get_params() == expected.get_params()


def test_one_vs_one_is_not_among_them():
    for made in (ODMClassifier(), SVMClassifier()):
        assert not made.hasParam("multiClass") and not made.hasParam("pairScores")


@pytest.mark.parametrize(
    ("made", "name", "value"),
    [
        (ODMClassifier, "strategy", dm.DivideAndConquer(sample_size=50, prediction="naive")),
        (SVMClassifier, "strategy", dm.Cascade(rounds=2, level_tol=np.float64(0.5))),
        (LinearODMClassifier, "solver", dm.LinearSVRG(step_size="barzilai_borwein")),
    ],
)
def test_a_strategy_with_options_is_kept_as_what_json_holds(made, name, value):
    estimator = made(**{name: value})
    kept = json.loads(json.dumps(estimator.getOrDefault(name)))
    again = made(**{name: kept})
    found = getattr(again, f"get{name.title()}")()
    assert type(found) is type(value) and found.get_params() == value.get_params()
    assert getattr(again._prototype(), name).get_params() == value.get_params()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"lamb": 1}, TypeError, r"has no param 'lamb'; it has C?.*lam"),
        ({"theta": "much"}, TypeError, '"theta"'),
        ({"lam": None}, TypeError, "None"),
        ({"maxIter": 1.5}, TypeError, '"maxIter"'),
        ({"kernel": np.dot}, TypeError, "kernel must be one of 'linear', .* not sent to executors"),
        ({"kernel": "precomputed"}, ValueError, "kernel must be one of 'linear'"),
        ({"strategy": object()}, TypeError, "strategy must be a name or a strategy or solver of dimargin, got <object"),
        ({"strategy": {"Popen": {}}}, TypeError, "strategy must be .* one of Exact, .* got a Popen"),
        ({"strategy": {"Cascade": {"x": 1}}}, TypeError, "strategy: .*'x'"),
        ({"classWeight": [1, 2]}, TypeError, r"classWeight must be 'balanced', None or a dict .* got \[1, 2\]"),
        ({"seed": -1}, ValueError, r"seed must be a whole number in \[0, 2\*\*32\), got -1"),
        ({"featuresCols": "x"}, TypeError, '"featuresCols"'),
    ],
)  # fmt: skip
def test_values_of_the_wrong_kind_are_refused_when_set(given, error, message):
    with pytest.raises(error, match=message):
        ODMClassifier(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lam": -1.0}, r"lam must be a finite number in \(0, inf\), got -1.0"),
        ({"maxIter": 0}, "maxIter must be a whole number"),
        ({"nLevels": 1, "stopLevel": 2}, "stopLevel must be at most nLevels=1"),
        ({"strategy": "best"}, "strategy must be 'auto', 'exact'"),
        ({"strategy": dm.Cascade(), "nLandmarks": 5}, "nLandmarks=5 was set, but strategy .* does not use nLandmarks"),
        ({"gamma": "wide"}, "gamma must be 'scale'"),
    ],
)
def test_values_out_of_range_are_refused_before_any_work_by_the_names_of_the_params(given, message):
    with pytest.raises(ValueError, match=message):
        ODMClassifier(**given)._prototype()


def test_positional_arguments_are_refused():
    with pytest.raises(TypeError):
        ODMClassifier("rbf")


def test_copies_for_a_grid_search_differ_in_the_grid_only():
    made = ODMClassifier(theta=0.1)
    way = dm.DiODM(landmark_choice="random")
    grid = ParamGridBuilder().addGrid(made.lam, [1.0, 2.0]).addGrid(made.strategy, ["exact", way]).build()
    copies = [made.copy(extra) for extra in grid]
    assert [(copy.getLam(), copy.getTheta()) for copy in copies] == [(1.0, 0.1), (1.0, 0.1), (2.0, 0.1), (2.0, 0.1)]
    assert copies[1]._prototype().strategy.landmark_choice == "random" and made.getLam() == "auto"
    json.dumps([list(extra.values()) for extra in grid])  # as CrossValidator saves it


def test_the_list_of_plain_columns_and_the_one_column_take_each_others_place():
    made = ODMClassifier(featuresCol=["a", "b"])
    assert made.getFeaturesCols() == ["a", "b"] and made._columns().features == ("a", "b")
    assert made.copy()._columns().features == ("a", "b")
    made.setFeaturesCol("v")
    assert made.getFeaturesCols() == [] and made._columns().features == "v"
    assert made.setFeaturesCols(["c"])._columns().features == ("c",)


def test_names_of_columns_are_taken_back_with_none():
    made = ODMClassifier(weightCol="w", idCol=None)
    assert made._columns().weight == "w" and made.getIdCol() is None
    assert made.setWeightCol(None)._columns().weight is None
    assert made.setWeightCol("")._columns().weight is None


def test_the_documentation_lists_every_param_with_its_defaults():
    rows = {}
    for line in DOCS.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 1 + 1 + len(ESTIMATORS):
            rows[cells[0]] = cells[1:]
    expected = {}
    for column, estimator in enumerate(ESTIMATORS):
        for name, parameter in inspect.signature(estimator.machine).parameters.items():
            if name not in EXCLUDED:
                default = parameter.default
                param = "seed" if name == "random_state" else re.sub("_(.)", lambda m: m[1].upper(), name)
                expected.setdefault(param, [name, *[""] * len(ESTIMATORS)])[column + 1] = repr(default).replace(
                    "'", '"'
                )
    assert {name: [cells[0], *cells[1:]] for name, cells in rows.items()} == expected
