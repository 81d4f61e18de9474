"""``dimargin liblinear-train | liblinear-predict`` with LIBLINEAR's flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dimargin.cli.flags import existing_file, usage_checked
from dimargin.cli.shared import check_output
from dimargin.cli.svm_commands import (
    InputArgument,
    QuietOption,
    SvmTrainCommand,
    above_zero,
    label_weights,
    one_of,
    print_errors,
    read_rows,
    refused_flag,
    widened_rows,
)
from dimargin.estimators import LinearSVMClassifier, LinearSVMRegressor
from dimargin.io.data.libsvm import read_weights
from dimargin.io.libsvm import from_liblinear
from dimargin.io.libsvm.liblinear_model import write_liblinear_model
from dimargin.io.libsvm.text_model import number_text
from dimargin.io.libsvm.text_model_training import OneVsRest
from dimargin.system.writing import write_file

_SOLVERS = {
    1: "L2R_L2LOSS_SVC_DUAL", 2: "L2R_L2LOSS_SVC", 3: "L2R_L1LOSS_SVC_DUAL", 4: "MCSVM_CS", 11: "L2R_L2LOSS_SVR",
    12: "L2R_L2LOSS_SVR_DUAL", 13: "L2R_L1LOSS_SVR_DUAL",
}  # fmt: skip
_LOGISTIC = "logistic regression is not supported; scikit-learn has it: sklearn.linear_model.LogisticRegression"
_REFUSED_SOLVERS = {
    0: _LOGISTIC, 6: _LOGISTIC, 7: _LOGISTIC,
    5: "the l1 penalty is not supported; scikit-learn has it: sklearn.svm.LinearSVC(penalty='l1')",
    21: "one-class SVM is not supported; scikit-learn has it: sklearn.linear_model.SGDOneClassSVM",
}  # fmt: skip


def liblinear_train(
    data: InputArgument,
    model: Annotated[
        Path | None,
        typer.Argument(dir_okay=False, metavar="MODEL", help="File for the model.", show_default="FILE.model"),
    ] = None,
    solver: Annotated[
        int,
        typer.Option(
            "-s",
            metavar="TYPE",
            help="Loss; 1 and 2: squared hinge, 3: hinge, 4: hinge of Crammer and Singer, for all classes together. "
            "Of regressions: 11 and 12: squared, 13: absolute, both beyond P.",
            callback=one_of(_SOLVERS, _REFUSED_SOLVERS),
        ),
    ] = 1,
    cost: Annotated[float, typer.Option("-c", metavar="COST", help="The parameter C.")] = 1.0,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "-e",
            metavar="EPSILON",
            help="Tolerance; training ends at a relative duality gap of EPSILON/100, for -s 2 of EPSILON/10, for "
            "-s 11 of 10 EPSILON.",
            show_default="0.1; 0.01 for -s 2; 0.0001 for -s 11",
            callback=above_zero,
        ),
    ] = None,
    bias: Annotated[
        float, typer.Option("-B", metavar="BIAS", help="Append a feature of this value to every row, if it is >= 0.")
    ] = -1.0,
    is_free: Annotated[
        bool, typer.Option("-R", help="Do not regularize the weight of the bias; requires -B 1.")
    ] = False,
    folds: Annotated[
        int | None, typer.Option("-v", metavar="N", min=2, help="N-fold cross validation instead of a model.")
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option("-w", metavar="i WEIGHT", help="Multiply C by WEIGHT for label i: -w1 2.5. May be repeated."),
    ] = None,
    row_weights: Annotated[
        Path | None,
        existing_file("-W", metavar="WEIGHTS", help="File of row weights, one per line, which multiply C."),
    ] = None,
    quiet: QuietOption = False,
    search: Annotated[bool | None, refused_flag("-C", "use dimargin tune, which finds C by cross-validation")] = None,
    tube: Annotated[float, typer.Option("-p", metavar="P", help="Error without loss of -s 11, 12, 13.")] = 0.1,
    nu: Annotated[str | None, refused_flag("-n", "nu belongs to the one-class SVM, which is not supported")] = None,
) -> None:
    """Train LIBLINEAR's support vector classification or regression and write LIBLINEAR's text model.

    Example: dimargin liblinear-train -s 3 -c 4 -B 1 train.libsvm
    """
    weights = label_weights(weight or [])
    if not np.isfinite(bias):
        raise typer.BadParameter(f"-B must be a finite number, got {bias:g}")
    if is_free and bias != 1:
        raise typer.BadParameter(f"-R requires -B 1, got -B {bias:g}")
    if model is None:
        model = Path(f"{data.name}.model")
    tol, is_regression = epsilon * {2: 0.1, 11: 10.0}.get(solver, 0.01) if epsilon else 1e-3, solver > 10
    if weight and is_regression:
        raise typer.BadParameter("-w multiplies the C of a class; use -W for weights of rows")
    if is_free and solver == 4:
        raise typer.BadParameter("-R does not go with -s 4, whose bias is regularized")
    machine: Any = LinearSVMClassifier(multi_class="crammer_singer" if solver == 4 else "one_vs_rest")
    machine = LinearSVMRegressor(epsilon=tube) if is_regression else machine
    loss = ("" if solver in (3, 4, 13) else "squared_") + ("epsilon_insensitive" if is_regression else "hinge")
    machine.set_params(C=cost, loss=loss, fit_intercept=is_free, tol=tol, random_state=0)
    with usage_checked():
        if folds is None:
            check_output("MODEL", model, data)
        machine.fit_plan()
    X, y = read_rows(data, zero_based=False, trains=not is_regression)
    given = None if row_weights is None else read_weights(row_weights, len(y))
    own_bias = -1.0 if is_free else bias
    trainer = OneVsRest(machine, weights, _SOLVERS[solver], own_bias, is_classifier=not is_regression)
    if folds is None:
        return write_liblinear_model(trainer.train(X, y, quiet, given), model)
    predicted = trainer.held_out(X, y, folds, given)
    if is_regression:
        return print_errors(predicted, y, "Cross Validation {}")
    print(f"Cross Validation Accuracy = {100 * np.mean(predicted == y):g}%")


def liblinear_predict(
    data: InputArgument,
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, metavar="MODEL", help="LIBLINEAR text model.")],
    output: Annotated[Path, typer.Argument(dir_okay=False, metavar="OUTPUT", help="File for the predicted labels.")],
    quiet: QuietOption = False,
) -> None:
    """Predict with a LIBLINEAR text model and compare with the labels of FILE.

    Example: dimargin liblinear-predict test.libsvm train.libsvm.model labels.txt
    """
    with usage_checked():
        check_output("OUTPUT", output, data, model)
    machine, (X, y) = from_liblinear(model), read_rows(data, zero_based=False)
    n_features = machine.weights.shape[1]
    predicted = machine.predict(widened_rows(X, n_features)[:, :n_features])  # Other features have no weight.
    write_file(output, "".join(f"{number_text(label)}\n" for label in predicted.tolist()).encode())
    if machine.is_regression and not quiet:
        print_errors(predicted, y, "{} (regression)")
    elif not quiet:
        correct = int(np.count_nonzero(predicted == y))
        print(f"Accuracy = {100 * correct / len(predicted):g}% ({correct}/{len(predicted)})")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("liblinear-train", cls=SvmTrainCommand)(liblinear_train)
    app.command("liblinear-predict")(liblinear_predict)
