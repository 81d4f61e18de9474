"""``dimargin liblinear-train | liblinear-predict`` with LIBLINEAR's flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    read_rows,
    refused_flag,
    widened_rows,
)
from dimargin.estimators import LinearSVMClassifier
from dimargin.io.data.libsvm import read_weights
from dimargin.io.libsvm import from_liblinear
from dimargin.io.libsvm.liblinear_model import write_liblinear_model
from dimargin.io.libsvm.text_model_training import OneVsRest
from dimargin.system.writing import write_file

_SOLVERS = {1: "L2R_L2LOSS_SVC_DUAL", 2: "L2R_L2LOSS_SVC", 3: "L2R_L1LOSS_SVC_DUAL", 4: "MCSVM_CS"}
_LOGISTIC = "logistic regression is not supported; scikit-learn has it: sklearn.linear_model.LogisticRegression"
_REGRESSION = "support vector regression is not supported; scikit-learn has it: sklearn.svm.LinearSVR"
_REFUSED_SOLVERS = {
    0: _LOGISTIC, 6: _LOGISTIC, 7: _LOGISTIC, 11: _REGRESSION, 12: _REGRESSION, 13: _REGRESSION,
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
            help="Loss; 1 and 2: squared hinge, 3: hinge, 4: hinge of Crammer and Singer, for all classes together.",
            callback=one_of(_SOLVERS, _REFUSED_SOLVERS),
        ),
    ] = 1,
    cost: Annotated[float, typer.Option("-c", metavar="COST", help="The parameter C.")] = 1.0,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "-e",
            metavar="EPSILON",
            help="Tolerance; training ends at a relative duality gap of EPSILON/100, for -s 2 of EPSILON/10.",
            show_default="0.1; 0.01 for -s 2",
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
    tube: Annotated[str | None, refused_flag("-p", f"this belongs to regression. {_REGRESSION.capitalize()}")] = None,
    nu: Annotated[str | None, refused_flag("-n", "nu belongs to the one-class SVM, which is not supported")] = None,
) -> None:
    """Train LIBLINEAR's support vector classification and write LIBLINEAR's text model.

    Example: dimargin liblinear-train -s 3 -c 4 -B 1 train.libsvm
    """
    weights = label_weights(weight or [])
    if not np.isfinite(bias):
        raise typer.BadParameter(f"-B must be a finite number, got {bias:g}")
    if is_free and bias != 1:
        raise typer.BadParameter(f"-R requires -B 1, got -B {bias:g}")
    if model is None:
        model = Path(f"{data.name}.model")
    tol = epsilon / (10 if solver == 2 else 100) if epsilon else 1e-3
    if is_free and solver == 4:
        raise typer.BadParameter("-R does not go with -s 4, whose bias is regularized")
    machine = LinearSVMClassifier(
        C=cost, loss="hinge" if solver in (3, 4) else "squared_hinge", fit_intercept=is_free, tol=tol, random_state=0,
        multi_class="crammer_singer" if solver == 4 else "one_vs_rest",
    )  # fmt: skip
    with usage_checked():
        if folds is None:
            check_output("MODEL", model, data)
        machine.fit_plan()
    X, y = read_rows(data, zero_based=False, trains=True)
    given = None if row_weights is None else read_weights(row_weights, len(y))
    trainer = OneVsRest(machine, weights, _SOLVERS[solver], -1.0 if is_free else bias)
    if folds is None:
        write_liblinear_model(trainer.train(X, y, quiet, given), model)
    else:
        print(f"Cross Validation Accuracy = {100 * np.mean(trainer.held_out(X, y, folds, given) == y):g}%")


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
    write_file(output, "".join(f"{label}\n" for label in predicted.tolist()).encode())
    if not quiet:
        correct = int(np.count_nonzero(predicted == y))
        print(f"Accuracy = {100 * correct / len(predicted):g}% ({correct}/{len(predicted)})")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("liblinear-train", cls=SvmTrainCommand)(liblinear_train)
    app.command("liblinear-predict")(liblinear_predict)
