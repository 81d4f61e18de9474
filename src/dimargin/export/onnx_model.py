"""Fitted machines as ONNX models of plain operators."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from dimargin.estimators.nested_steps import flat_steps
from dimargin.estimators.preprocessing import FourierFeatures
from dimargin.export.plain_model import PlainMachine, plain_model, rendered, scaling_of
from dimargin.problems.one_vs_one import pair_numbers
from dimargin.system.extras import naming_extra
from dimargin.version import __version__


def to_onnx(estimator: Any, numbers: str = "float64") -> Any:
    """Return a fitted machine as an ONNX model of plain operators, which contains the support vectors.

    The input is ``X``, of shape (n, n_features). If the first step is a ColumnTransformer or an
    encoder, every column is an input of its own, of shape (n, 1), with its name; a missing text is
    "". Outputs are ``label``, ``decision_values`` with the shape of `decision_function`, and
    ``probabilities`` of a CalibratedClassifierCV; of a regressor, ``prediction`` of shape (n,).

    Parameters
    ----------
    estimator : classifier or regressor with a linear or a named kernel, also one of `dimargin.svm`
        Pipelines, searches, CalibratedClassifierCV and TransformedTargetRegressor may be around it;
        see docs/guide/export.md.
    numbers : {"float64", "float32"}, default="float64"
        Type of the input, of all computations and of the output. In float64, decision values are
        ours up to rounding; in float32, coefficients that cancel lose digits.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    TypeError, ValueError, ImportError, sklearn.exceptions.NotFittedError
        The message names the step, the parameter or the missing extra.

    Examples
    --------
    >>> import dimargin as dm
    >>> machine = dm.SVMClassifier().fit([[0.0], [1.0]], ["no", "yes"])
    >>> [output.name for output in dm.to_onnx(machine).graph.output]  # doctest: +SKIP
    ['label', 'decision_values']
    """
    if numbers not in ("float64", "float32"):
        raise ValueError(f"numbers must be 'float64' or 'float32', got {numbers!r}")
    with naming_extra("to_onnx"):
        from onnx import checker, helper, numpy_helper, parser
    graph, (steps, machine, labels, calibration), names = _Graph(np.dtype(numbers)), plain_model(estimator), ["X"]
    if steps and isinstance(steps[0][1], (ColumnTransformer, OneHotEncoder)):
        names = [*getattr(estimator, "feature_names_in_", [f"x{k}" for k in range(estimator.n_features_in_)])]
    inputs = [f"input_{k}" for k in range(len(names))]
    graph.lines.append(f"rows = Identity({graph.joined(graph.after_steps(steps, inputs))})")
    graph.add_machine(machine, labels)
    text = rendered(
        "model.onnx.j2", lines=graph.lines, numbers=numbers, kernel=machine.kernel, pair_scores=machine.pair_scores,
        by_votes_alone=machine.by_votes_alone, n_classes=len(labels), is_single=len(machine.intercepts) == 1,
        label_type=labels.dtype.name, version=__version__, **calibration,
    )  # fmt: skip
    outputs = {"label", "decision_values", "probabilities", "prediction"}
    # Tensors get a prefix, since columns may have any name; outputs do not.
    used = graph.constants.keys() & set(re.findall(r"\w+", text))
    inner = used.union(re.findall(r"^ *(\w+) =", text, re.MULTILINE)) - outputs
    made = parser.parse_model(re.sub(r"\w+", lambda word: "dm_" * (word[0] in inner) + word[0], text))
    for tensor, name in zip(inputs, map(str, names), strict=True):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(object) if tensor in graph.texts else graph.dtype)
        width = estimator.n_features_in_ // len(names)
        made.graph.input.append(helper.make_tensor_value_info(name, kind, ["n", width]))
        made.graph.node.insert(0, helper.make_node("Identity", [name], [tensor]))
    made.graph.initializer.extend(numpy_helper.from_array(graph.constants[name], f"dm_{name}") for name in sorted(used))
    checker.check_model(made)
    return made


@dataclass
class _Graph:
    """Lines and constants of an ONNX graph."""

    dtype: np.dtype[Any]  # Type of all floating-point numbers.
    lines: list[str] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)  # Inputs of texts.

    def add(self, operator: str, *inputs: Any, attributes: str = "") -> str:
        """Add a node and return the name of its output; inputs that are not names become constants."""
        output = f"step_{len(self.lines)}"
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        self.lines.append(f"{output} = {operator}{attributes}({', '.join(names)})")
        return output

    def constant(self, value: Any, name: str = "") -> str:
        """Add a constant, with floating-point numbers in the type of the graph, and return its name."""
        array, name = np.asarray(value), name or f"constant_{len(self.constants)}"
        self.constants[name] = array.astype(self.dtype) if array.dtype.kind == "f" else array
        return name

    def joined(self, x: list[str]) -> str:
        """Return matrices side by side."""
        return self.add("Concat", *x, attributes="<axis = 1> ")

    def after_steps(self, steps: list[tuple[str, Any]], x: list[str]) -> list[str]:
        """Add fitted transformers of the columns, or matrices, x; TypeError names one that is unknown."""
        for name, step in steps:
            x = self._after(name, step, x)
        return x

    def _after(self, name: str, step: Any, x: list[str]) -> list[str]:
        if (scaling := scaling_of(step)) is not None:
            return [self.add("Mul", self.add("Sub", self.joined(x), scaling[0]), scaling[1])]
        match step:
            case FunctionTransformer(func=None):
                return x
            case FourierFeatures():
                angles = self.add("MatMul", self.joined(x), step.frequencies_)
                waves = self.joined([self.add("Cos", angles), self.add("Sin", angles)])
                return [self.add("Mul", waves, step.frequencies_.shape[1] ** -0.5)]
            case SimpleImputer(add_indicator=False) if np.asarray(step.statistics_).dtype.kind == "f":
                whole = self.joined(x)
                return [self.add("Where", self.add("IsNaN", whole), step.statistics_, whole)]
            case OneHotEncoder(drop=None, min_frequency=None, max_categories=None) if len(x) == step.n_features_in_:
                return [self._encoded(name, *pair) for pair in zip(x, step.categories_, strict=True)]
            case ColumnTransformer() if len(x) == step.n_features_in_:
                return [tensor for part in step.transformers_ for tensor in self._part(step, x, *part)]
        raise TypeError(
            f"cannot export the step {name!r}, {step!r:.200}; expected scalers without clip, SimpleImputer of numbers, "
            "FourierFeatures, or first OneHotEncoder without rare or dropped categories, or ColumnTransformer of these"
        )

    def _encoded(self, name: str, column: str, categories: NDArray[Any]) -> str:
        known = np.array(["" if value is None else value for value in categories.tolist()])
        if len(set(known.tolist())) < len(known) or known.dtype.kind not in "biufU" or (known != known).any():
            raise ValueError(f"cannot export the step {name!r}: a column must be of texts or of numbers, got {known}")
        if known.dtype.kind == "U":
            self.texts.add(column)
        known = known.astype(object if column in self.texts else np.float64)
        return self.add("CastLike", self.add("Equal", column, known[None]), "zero")

    def _part(self, whole: ColumnTransformer, x: list[str], name: str, step: Any, columns: Any) -> list[str]:
        if step == "drop" or np.size(columns) == 0:
            return []
        if isinstance(columns, str):
            raise TypeError(f"cannot export the step {name!r}, which reads column {columns!r} as a list of texts")
        if not isinstance(columns, slice) and all(isinstance(column, str) for column in columns):
            columns = [whole.feature_names_in_.tolist().index(column) for column in columns]
        return self.after_steps(flat_steps(step, name), np.array(x)[columns].tolist())

    def add_machine(self, machine: PlainMachine, labels: NDArray[Any]) -> None:
        """Add the constants of the template; those that it does not use are dropped later."""
        kernel, vectors, numbers = machine.kernel, machine.vectors, np.arange(len(labels))
        is_first = numbers[:-1] >= numbers[:, None]  # Of the pairs of a class, whether it is the first class.
        found = {"coefficients": machine.coefficients.T, "intercepts": machine.intercepts, "classes": labels}
        found |= {
            "pair_numbers": pair_numbers(max(1, len(labels))),
            "is_first": is_first,
            "signs": 1.0 - 2.0 * is_first,
        }
        if kernel.name == "rbf":
            found["centre"] = vectors.sum(axis=0) / max(1, len(vectors))
            vectors = vectors - found["centre"]
            found["norms_of_vectors"] = (vectors**2).sum(axis=1)
        factor = {"rbf": -2.0, "poly": kernel.gamma}.get(kernel.name)
        found["vectors"] = vectors if factor is None else factor * vectors.T
        for name, value in found.items():
            self.constant(value, name)
