"""The choice between two support vector machines that `dimargin train` makes by cross-validation."""

import json

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_moons
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import MinMaxScaler

import dimargin as dm


def noisy():
    """Labels of which a fifth are wrong: C=10 follows them too closely."""
    return make_classification(600, 12, n_informative=4, flip_y=0.4, random_state=0)


def curved():
    """A boundary with a narrow bend, for which C=1 and gamma="scale" are too smooth."""
    X, y = make_moons(600, noise=0.1, random_state=0)
    return np.hstack([X, np.random.default_rng(0).normal(size=(600, 2))]), y


def written(path, X, y):
    rows = [",".join([*map(str, row), f"class {label}"]) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
    path.write_text("\n".join([",".join([*(f"x{k}" for k in range(X.shape[1])), "class"]), *rows]))
    return path


@pytest.mark.parametrize(("rows", "expected"), [(noisy, ("hinge", 1.0)), (curved, ("squared_hinge", 10.0))])
def test_the_machine_is_the_one_that_scikit_learn_finds_better(dimargin, tmp_path, rows, expected):
    X, y = rows()
    data = written(tmp_path / "rows.csv", X, y)
    status, out, err = dimargin("train", data, "-m", tmp_path / "m", "--random-state", 0, "--json")
    assert status == 0, err
    X = MinMaxScaler().fit_transform(X)
    machines = {(loss, C): dm.SVMClassifier(C=C, loss=loss) for loss, C in (("hinge", 1.0), ("squared_hinge", 10.0))}
    folds = StratifiedKFold(5, shuffle=True, random_state=1)
    scores = {key: cross_val_score(machine, X, y, cv=folds).mean() for key, machine in machines.items()}
    assert max(scores, key=scores.get) == expected  # by the folds of others
    machine = dm.load(tmp_path / "m")[-1]
    assert type(machine) is dm.SVMClassifier and (machine.loss, machine.C) == expected
    assert f"{expected[0]} with C={expected[1]:g} is chosen" in " ".join(err.split())
    assert machine.objective_ == pytest.approx(machines[expected].fit(X, y).objective_, rel=2e-3)
    assert json.loads(out)["rows"] == 600


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--C", 3], ("squared_hinge", 3.0)),
        (["--loss", "hinge"], ("hinge", 1.0)),
        (["--loss", "squared_hinge"], ("squared_hinge", 1.0)),
    ],
)
def test_what_is_given_is_not_chosen(dimargin, tmp_path, flags, expected):
    data = written(tmp_path / "rows.csv", *noisy())
    status, _, err = dimargin("train", data, "-m", tmp_path / "m", *flags)
    machine = dm.load(tmp_path / "m")[-1]
    assert status == 0 and "cross-validated" not in err and (machine.loss, machine.C) == expected


def test_a_row_of_each_class_is_enough(dimargin, tmp_path):
    data = written(tmp_path / "rows.csv", np.eye(3), np.arange(3))
    status, _, err = dimargin("train", data, "-m", tmp_path / "m")
    assert status == 0 and "cross-validated" not in err
    assert dm.load(tmp_path / "m")[-1].loss == "squared_hinge"


def test_other_parameters_hold_for_the_chosen_machine_and_more_classes_go_by_pairs(dimargin, tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 40)
    data = written(tmp_path / "rows.csv", rng.normal(size=(160, 3)) + 3 * np.eye(4)[y, :3], y)
    flags = ["--gamma", 0.7, "--tol", 1e-5, "--class-weight", "balanced", "--no-fit-intercept", "--random-state", 3]
    assert dimargin("train", data, "-m", tmp_path / "m", *flags)[0] == 0
    machine = dm.load(tmp_path / "m")[-1]
    given = {"gamma": 0.7, "tol": 1e-5, "class_weight": "balanced", "fit_intercept": False, "random_state": 3}
    assert {name: machine.get_params()[name] for name in given} == given
    assert machine.dual_coef_.shape[0] == 3  # one against one


def test_a_choice_that_the_time_limit_ended_names_the_folds_that_were_scored(dimargin, tmp_path):
    data = written(tmp_path / "rows.csv", *make_classification(6000, 12, n_informative=4, flip_y=0.4, random_state=0))
    status, _, err = dimargin("train", data, "-m", tmp_path / "m", "--max-time", 1e-3)
    said = " ".join(err.split())
    assert status == 0 and "was cut short, with scores of 0 of 5 and 0 of 5 folds: " in said
    assert "is chosen" not in said and "rounds" not in said


def test_mistakes_are_in_the_words_of_the_command_line(dimargin, tmp_path):
    X, y = noisy()
    data = written(tmp_path / "rows.csv", X, y)
    status, _, err = dimargin("train", data, "-m", tmp_path / "m", "--class-weight", "late=3")
    assert status == 1 and "--class-weight has ['late'], but the classes are" in err and "choosing" not in err
    status, _, err = dimargin("train", written(tmp_path / "one.csv", X, 0 * y), "-m", tmp_path / "m")
    assert status == 1 and "one.csv: all rows have the label 'class 0'; training needs two classes" in err
    assert "choosing" not in err


def test_the_objectives_of_several_classes_have_names(dimargin, tmp_path):
    y = np.arange(90) % 3
    data, model = (
        written(tmp_path / "rows.csv", np.eye(3)[y] + np.random.default_rng(0).normal(size=(90, 3)), y),
        tmp_path / "m",
    )
    for way, names in (
        ("one_vs_one", ["class 0 | class 1", "class 0 | class 2", "class 1 | class 2"]),
        ("one_vs_rest", ["class 0 | others", "class 1 | others", "class 2 | others"]),
    ):
        flags = ["--multi-class", way, "--loss", "hinge"]
        facts = json.loads(dimargin("train", data, "-m", model, *flags, "--json")[1])
        assert facts["objective"] == dict(zip(names, dm.load(model)[-1].objective_.tolist(), strict=True))
        said = " ".join(dimargin("info", model)[1].split())
        assert f"objective {names[0]} {facts['objective'][names[0]]:.4g}, {names[1]} " in said
        assert "certificate global: the gap is for the whole problem" in said
