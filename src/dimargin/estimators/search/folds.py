"""Folds with nested training samples, and the training of candidates on them.

On a sample, the loss of a row has the same weight as in the problem of all rows: its mass is that
of all rows. With the mean loss, the best `lam` for 1,000 rows was a tenth to a hundredth of that
for 9,000 (phishing and ijcnn1, gamma fixed), so samples would choose a too small `lam`.

Candidates with the same kernel are solved along `lam`, each with a warm start from the previous
solution. They share rows and, in the space of landmarks, kernel values and their factor. Rows and
landmarks of a round are a subset of those of the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Event
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from dimargin.estimators.training_data import TrainingData, merged
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import StoredRows
from dimargin.kernels.user import Transform, kernel_matrix
from dimargin.problems.class_pairs import ClassPairs
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import Loss, ODMLoss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.one_vs_one import PAIR_SCORES, pair_numbers, sums_of_pairs
from dimargin.problems.one_vs_rest import codes_of
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers import ExactSolver, Limits, LinearFeatures, Newton, Shard, solve
from dimargin.solvers.landmark_features import independent_landmarks
from dimargin.strategies import LinearCoordinateDescent, LinearTraining
from dimargin.strategies.pair_training import train_pairs
from dimargin.system.arrays import Floats, Indices

_PAIR_MEMORY = 2**27
"""Bytes for stored kernel values of the pairs of a candidate."""


def nested_order(y: Indices, rng: np.random.Generator) -> Indices:
    """Return a random order in which every prefix has the class frequencies of all rows.

    Examples
    --------
    >>> order = nested_order(np.repeat([0, 1], [80, 20]), np.random.default_rng(0))
    >>> [int((order[:n] >= 80).sum()) for n in (10, 50, 100)]
    [2, 10, 20]
    """
    shuffled = rng.permutation(len(y))
    indices = np.empty(len(y))
    for value in np.unique(y):
        members = shuffled[y[shuffled] == value]
        indices[members] = (np.arange(len(members)) + 0.5) / len(members)
    return np.lexsort((y, indices))


@dataclass(frozen=True)
class Fold:
    """Indices of the rows of a fold, in nested order."""

    train: Indices
    test: Indices


@dataclass(frozen=True)
class Sample:
    """All data, training rows in nested order, and indices of the test rows of a round."""

    data: TrainingData
    training: TrainingData
    test: Indices

    @classmethod
    def of(cls, data: TrainingData, fold: Fold, n_rows: int, may_merge: bool) -> Sample:
        """Take at most `n_rows` training rows, and as many test rows or up to 4,000.

        With `may_merge`, equal training rows are merged, see `merged`.
        """
        training = data.take(fold.train[:n_rows])
        return cls(data, merged(training) if may_merge else training, fold.test[: max(4000, n_rows)])

    @property
    def rows(self) -> Any:
        """Features of the training rows."""
        return self.training.X

    @cached_property
    def queries(self) -> Any:
        """Features of the test rows."""
        return self.data.X[self.test]

    def losses(self, loss: Loss, intercept: bool) -> MarginLosses:
        """Return the losses of the training rows, with the mass of all rows."""
        mass = float(self.data.weights.sum())
        return MarginLosses(self.training.labels, self.training.weights, loss, mass, mass, intercept)

    def score(self, values: Floats, scorer: Any, weights: Floats) -> float:
        """Compute the score of decision values of shape (n_outputs, n_queries).

        Without a scorer, it is the accuracy weighted by `weights`, which are those of all rows.
        """
        truth = self.data.classes[self.data.y[self.test]]
        machine, given = DecisionValueClassifier(self.data.classes), values[0] if len(values) == 1 else values.T
        if scorer is None:
            return float(np.average(machine.predict(given) == truth, weights=weights[self.test]))
        return float(scorer(machine, given, truth))


class DecisionValueClassifier(ClassifierMixin, BaseEstimator):
    """Classifier for scikit-learn's scorers and calibration, which takes decision values in place of rows."""

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes = classes
        self.classes_ = classes

    def fit(self, values: Floats, y: Any, sample_weight: Any = None) -> DecisionValueClassifier:
        """Do nothing, because the decision values are those of a trained machine."""
        return self

    def decision_function(self, values: Floats) -> Floats:
        """Return the given decision values."""
        return values

    def predict(self, values: Floats) -> NDArray[Any]:
        """Return the labels for decision values."""
        return np.asarray(self.classes[codes_of(values)])

    def predict_proba(self, values: Floats) -> NoReturn:
        """Raise ValueError, because candidates have no probabilities."""
        raise ValueError(
            "scoring must use labels or decision values, such as 'roc_auc', because the machines have no "
            "probabilities; or search CalibratedClassifierCV(...) with GridSearchCV"
        )


# ---- trainers of candidates ------------------------------------------------------------------------------------------


class Trainer(ABC):
    """Trainer of candidates with the same kernel on a sample, with warm starts."""

    evaluations = 0

    @abstractmethod
    def values(self, loss: Loss, limits: Limits) -> Floats:
        """Train with this loss, and return decision values of shape (n_outputs, n_queries)."""


class ExactTrainer(Trainer):
    """Trainer that uses the exact solver."""

    def __init__(self, sample: Sample, transform: Transform, intercept: bool) -> None:
        self._sample, self._intercept = sample, intercept
        self._kernel = kernel_matrix(transform, sample.rows)
        self._test_kernel = kernel_matrix(transform, sample.rows, queries=sample.queries)
        self._start: Floats | None = None

    def values(self, loss: Loss, limits: Limits) -> Floats:
        """See `Trainer.values`."""
        losses = self._sample.losses(loss, self._intercept)
        problem = DualProblem.of(losses, self._kernel.take(np.arange(losses.n_rows)))
        solution = solve(problem, ExactSolver(), self._start, limits)
        self._start = solution.dual
        self.evaluations += solution.kernel_evaluations
        return self._test_kernel.multiply(*problem.support(solution.dual)) + solution.objectives.intercept[:, None]


def decision_values(X: Any, parameters: Floats) -> Floats:
    """Return the decision values of a linear machine, of shape (n_outputs, n), for rows X.

    Its parameters are weights and intercepts, of shape (n_outputs, m + 1).
    """
    return np.asarray((X @ parameters[:, :-1].T).T) + parameters[:, -1:]


class LinearTrainer(Trainer):
    """Trainer of linear machines by dual coordinate descent."""

    def __init__(self, sample: Sample, intercept: bool) -> None:
        self._sample, self._intercept = sample, intercept
        self._start: Floats | None = None
        self._dual: Floats | None = None

    def values(self, loss: Loss, limits: Limits) -> Floats:
        """See `Trainer.values`."""
        losses, X = self._sample.losses(loss, self._intercept), self._sample.rows
        training = LinearTraining.of(X, losses, limits, start=self._start, dual=self._dual)
        solution = LinearCoordinateDescent().train(training)
        self._start, self._dual = solution.parameters, solution.dual
        return decision_values(self._sample.queries, solution.parameters)


class PairTrainer(Trainer):
    """Trainer of a machine for each pair of classes, without warm starts."""

    def __init__(self, sample: Sample, transform: Transform, intercept: bool, pair_scores: str = "smallest") -> None:
        self._sample, self._intercept, training = sample, intercept, sample.training
        self._scores = PAIR_SCORES[pair_scores]
        self._present, codes = np.unique(training.y, return_inverse=True)  # A class of few rows may be absent.
        self._order = np.argsort(codes, kind="stable")
        self._bounds = np.searchsorted(codes[self._order], np.arange(len(self._present) + 1))
        self._kernel = kernel_matrix(transform, sample.rows).take(self._order)
        self._test_kernel = kernel_matrix(transform, sample.rows, queries=sample.queries)

    def values(self, loss: Loss, limits: Limits) -> Floats:
        """See `Trainer.values`; the values are those of classes."""
        found = np.full((len(self._sample.data.classes), len(self._sample.test)), -1.0)
        if len(self._present) < 2:
            found[self._present] = 1.0
            return found
        weights = self._sample.training.weights[self._order]
        if isinstance(loss, ODMLoss) and loss.lam is not None:  # On a sample, a row weighs as much as among all rows.
            loss = replace(loss, lam=loss.lam * float(weights.sum() / self._sample.data.weights.sum()))
        pairs = ClassPairs(weights, self._bounds, loss, self._intercept, self._kernel)
        before = self._test_kernel.evaluations
        signed, result = train_pairs(pairs, None, limits, LocalEngine(1, Event()), 0, _PAIR_MEMORY, lambda number: None)
        values = sums_of_pairs(
            signed, pairs.indices, len(self._sample.test),
            lambda rows, factors: self._test_kernel.multiply(self._order[rows], factors),
        )  # fmt: skip
        values += result.objectives.intercept[:, None]
        found[self._present] = self._scores(values, pair_numbers(len(self._present))).T
        self.evaluations += result.kernel_evaluations + self._test_kernel.evaluations - before
        return found


class SpaceTrainer(Trainer):
    """Trainer that uses Newton's method in the space of landmarks or features."""

    def __init__(
        self, sample: Sample, train: Any, test: Any, factor: Floats | None, explicit: bool, intercept: bool
    ) -> None:
        self._sample, self._intercept = sample, intercept
        self._train, self._test = LinearFeatures(StoredRows(train)), LinearFeatures(StoredRows(test))
        self._newton = Newton(train.shape[1], intercept, factor, explicit, start_may_suffice=True)
        self._start = np.zeros((len(sample.data.labels), train.shape[1] + 1))

    @classmethod
    def of_landmarks(cls, sample: Sample, transform: Transform, n_landmarks: int, intercept: bool) -> SpaceTrainer:
        """Create a trainer in the space of landmarks, which are the first training rows."""
        kernel: KernelMatrix = kernel_matrix(transform, sample.rows).in_float64()
        landmarks, factor = independent_landmarks(kernel, np.arange(min(n_landmarks, sample.rows.shape[0])))
        train = kernel.block(np.arange(sample.rows.shape[0]), landmarks)
        test_kernel = kernel_matrix(transform.in_float64(), sample.rows[landmarks], queries=sample.queries)
        test = test_kernel.block(np.arange(len(sample.test)), np.arange(len(landmarks)))
        trainer = cls(sample, train, test, factor, explicit=True, intercept=intercept)
        trainer.evaluations = kernel.evaluations + test_kernel.evaluations
        return trainer

    def values(self, loss: Loss, limits: Limits) -> Floats:
        """See `Trainer.values`."""
        losses = self._sample.losses(loss, self._intercept)
        shards = LocalEngine(1, Event()).scatter([Shard(self._train, losses)])
        solution = solve(shards, self._newton, self._start, limits)
        intercept = solution.objectives.intercept[:, None]
        self._start = np.hstack([solution.weights, intercept])
        return self._test.scores(self._newton.coefficients(solution.weights)) + intercept
