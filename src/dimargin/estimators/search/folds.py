"""Folds whose training rows are nested samples, and the training of candidates on them.

On a part of the rows the loss of a row keeps its weight in the whole: the mass is that of all rows, not of the part.
For the mean loss the best `lam` of 1,000 rows was a tenth to a hundredth of that of 9,000 (phishing and ijcnn1, gamma
fixed): parts would choose too small a `lam`.

Candidates of one kernel are solved one after the other along `lam`, each from the solution before; they share rows, and
in the space of landmarks kernel values and their factor. Rows and landmarks of a round are among those of the next.
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

from dimargin.estimators.validated_data import TrainingData, merged
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import StoredRows
from dimargin.kernels.user import Transform, kernel_matrix
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import Loss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.one_vs_rest import codes_of
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers import BlockCoordinateDescent, Limits, LinearFeatures, Newton, Shard, solve
from dimargin.solvers.landmark_features import independent_landmarks
from dimargin.system.arrays import Floats, Indices

_MIN_QUERIES = 4000


def nested_order(y: Indices, rng: np.random.Generator) -> Indices:
    """Return a random order of the rows, in every beginning of which the classes are as frequent as in the whole.

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
    """Rows of a fold that a round trains on, and indices of those that it is scored on."""

    data: TrainingData  # of all rows
    training: TrainingData  # in nested order
    test: Indices

    @classmethod
    def of(cls, data: TrainingData, fold: Fold, n_rows: int, may_merge: bool) -> Sample:
        """Take `n_rows` training rows, and as many test rows but at least 4,000, as far as there are.

        Where they may be merged, one row stands for all that are equal to it, see `merged`.
        """
        few = fold.train[:n_rows]
        training = replace(
            data, X=data.X[few], y=data.y[few], weights=data.weights[few], row_weights=data.row_weights[few],
            kept=data.kept[few],
        )  # fmt: skip
        return cls(data, merged(training) if may_merge else training, fold.test[: max(_MIN_QUERIES, n_rows)])

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
        """Return the score of decision values of shape (n_outputs, n_queries).

        Without a scorer it is the accuracy with these weights of all rows.
        """
        truth = self.data.classes[self.data.y[self.test]]
        machine, given = _Known(self.data.classes), values[0] if len(values) == 1 else values.T
        if scorer is None:
            return float(np.average(machine.predict(given) == truth, weights=weights[self.test]))
        return float(scorer(machine, given, truth))


class _Known(ClassifierMixin, BaseEstimator):
    """Classifier for scikit-learn's scorers, whose rows are the decision values themselves."""

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes = classes
        self.classes_ = classes

    def decision_function(self, values: Floats) -> Floats:
        """Return the decision values that were given."""
        return values

    def predict(self, values: Floats) -> NDArray[Any]:
        """Return the labels that decision values stand for."""
        return np.asarray(self.classes[codes_of(values)])

    def predict_proba(self, values: Floats) -> NoReturn:
        """Raise ValueError: no candidate has probabilities."""
        raise ValueError(
            "this scoring needs probabilities, and the machines have decision values only: choose a scoring of labels "
            "or decision values, such as 'roc_auc', or search CalibratedClassifierCV(...) with GridSearchCV"
        )


# ---- ways to train a candidate ---------------------------------------------------------------------------------------


class Trainer(ABC):
    """Trainer of candidates with the same kernel on a sample, each of which starts from the solution before."""

    evaluations = 0

    @abstractmethod
    def values(self, loss: Loss, limits: Limits) -> Floats:
        """Return decision values of the machine with this loss, of shape (n_outputs, n_queries)."""


class ExactTrainer(Trainer):
    """Trainer that uses the exact solver."""

    def __init__(self, sample: Sample, transform: Transform, intercept: bool) -> None:
        self._sample, self._intercept = sample, intercept
        self._kernel = kernel_matrix(transform, sample.rows)
        self._asked = kernel_matrix(transform, sample.rows, queries=sample.queries)
        self._start: Floats | None = None

    def values(self, loss: Loss, limits: Limits) -> Floats:
        """See `Trainer.values`."""
        losses = self._sample.losses(loss, self._intercept)
        problem = DualProblem.of(losses, self._kernel.take(np.arange(losses.n_rows)))
        solution = solve(problem, BlockCoordinateDescent(), self._start, limits)
        self._start = solution.dual
        self.evaluations += solution.kernel_evaluations
        return self._asked.multiply(*problem.support(solution.dual)) + solution.objectives.intercept[:, None]


class SpaceTrainer(Trainer):
    """Trainer that uses Newton's method, in the space of landmarks or of the features themselves."""

    def __init__(
        self, sample: Sample, train: Any, test: Any, factor: Floats | None, explicit: bool, intercept: bool
    ) -> None:
        self._sample, self._intercept = sample, intercept
        self._train, self._test = LinearFeatures(StoredRows(train)), LinearFeatures(StoredRows(test))
        self._newton = Newton(train.shape[1], intercept, factor, explicit)
        self._index = np.zeros((len(sample.data.labels), train.shape[1] + 1))

    @classmethod
    def of_landmarks(cls, sample: Sample, transform: Transform, n_landmarks: int, intercept: bool) -> SpaceTrainer:
        """Make a trainer on kernel values with landmarks, which are the first of the training rows."""
        kernel: KernelMatrix = kernel_matrix(transform, sample.rows).in_float64()
        landmarks, factor = independent_landmarks(kernel, np.arange(min(n_landmarks, sample.rows.shape[0])))
        train = kernel.block(np.arange(sample.rows.shape[0]), landmarks)
        asked = kernel_matrix(transform.in_float64(), sample.rows[landmarks], queries=sample.queries)
        test = asked.block(np.arange(len(sample.test)), np.arange(len(landmarks)))
        trainer = cls(sample, train, test, factor, explicit=True, intercept=intercept)
        trainer.evaluations = kernel.evaluations + asked.evaluations
        return trainer

    def values(self, loss: Loss, limits: Limits) -> Floats:
        """See `Trainer.values`."""
        losses = self._sample.losses(loss, self._intercept)
        shards = LocalEngine(1, Event()).scatter([Shard(self._train, losses)])
        solution = solve(shards, self._newton, self._index, limits)
        intercept = solution.objectives.intercept[:, None]
        self._index = np.hstack([solution.weights, intercept])
        return self._test.scores(self._newton.coefficients(solution.weights)) + intercept
