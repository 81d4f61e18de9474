"""Plans tell what a fit does, and few calls lie between `fit` and the compiled core."""

import sys
from pathlib import Path

import numpy as np
import pytest

import dimargin as dm
from dimargin import _core
from dimargin.estimators.fit_progress import Monitor, observed
from dimargin.problems.losses import SquaredHingeLoss

ROWS = np.random.default_rng(0).normal(size=(1200, 5))
LABELS = (ROWS[:, 0] * ROWS[:, 1] > 0).astype(int)


MACHINES = [
    dm.SVMClassifier(),
    dm.ODMClassifier(strategy="diodm", n_levels=2, stop_level=1),
    dm.SVMClassifier(strategy="dc", n_levels=2),
    dm.ODMClassifier(strategy="landmark", n_landmarks=40),
    dm.CoreSetSVMClassifier(),
    dm.LinearODMClassifier(solver="dsvrg"),
    dm.GossipSVMClassifier(n_sites=3, alpha=0.1),
]


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_a_fit_reports_the_planned_levels(machine):
    plan = machine.fit_plan(*ROWS.shape)
    reported, monitor = [], Monitor()
    monitor.level_begin = lambda level, n_tasks: reported.append(level)
    with observed(machine, monitor):
        machine.fit(ROWS, LABELS)
    assert len(reported) == plan.n_levels


@pytest.mark.parametrize("options", [{}, {"strategy": "landmark"}, {"strategy": "dc", "n_levels": 1}], ids=str)
def test_a_fit_needs_the_planned_memory(options):
    memory = dm.ODMClassifier(**options).fit_plan(*ROWS.shape).memory
    dm.ODMClassifier(**options, memory_limit=memory).fit(ROWS, LABELS)
    with pytest.raises(MemoryError):
        dm.ODMClassifier(**options, memory_limit=memory - 1).fit(ROWS, LABELS)


def test_pairs_of_classes_are_planned_if_they_are_few_rows():
    machine, counts = dm.SVMClassifier(), [60_000, 30_000, 60_000]
    pairs = machine.fit_plan(90_000, 5, class_counts=[30_000] * 3)
    assert pairs.one_vs_one and pairs.name == "exact" and pairs.n_levels == 1
    rest = machine.fit_plan(sum(counts), 5, class_counts=counts)
    assert not rest.one_vs_one and rest.name == "dc"
    forced = dm.SVMClassifier(multi_class="one_vs_one").fit_plan(sum(counts), 5, class_counts=counts)
    assert forced.one_vs_one and forced.name == "exact" and forced.memory > pairs.memory
    with pytest.raises(MemoryError):
        codes = np.arange(1200) % 3
        memory = machine.fit_plan(*ROWS.shape, class_counts=[400] * 3).memory
        dm.SVMClassifier(memory_limit=memory - 1).fit(ROWS, codes)


def test_a_plan_has_the_loss_and_checks_the_parameters():
    plan = dm.SVMClassifier(C=2.0, loss="squared_hinge", fit_intercept=True).fit_plan()
    assert plan.loss == SquaredHingeLoss(2.0) and plan.fit_intercept
    assert dm.LinearODMClassifier().fit_plan().name == "newton"
    assert dm.SVMClassifier(strategy=dm.Exact()).fit_plan().name == "exact"
    assert dm.CoreSetSVMClassifier().fit_plan().name == "CoreSet"
    with pytest.raises(ValueError, match="C must be"):
        dm.SVMClassifier(C=-1.0).fit_plan()
    with pytest.raises(ValueError, match="differentiable"):
        dm.SVMClassifier(strategy="landmark").fit_plan()


@pytest.mark.parametrize("machine", [dm.SVMClassifier(), dm.ODMClassifier()], ids=str)
@pytest.mark.parametrize("n_rows", [300, 1200])
def test_at_most_ten_calls_lie_between_fit_and_the_core(machine, n_rows, monkeypatch):
    depths, package = [], str(Path(dm.__file__).parent)

    def counted(solve):
        def call(*arguments):
            frame, depth = sys._getframe(1), 0
            while frame is not None:
                depth += frame.f_code.co_filename.startswith(package)
                frame = frame.f_back
            depths.append(depth)
            return solve(*arguments)

        return call

    for name in ("solve_block", "solve_pairs"):
        monkeypatch.setattr(_core, name, counted(getattr(_core, name)))
    machine.fit(ROWS[:n_rows], LABELS[:n_rows])
    assert max(depths) <= 10
