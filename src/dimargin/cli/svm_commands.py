"""``dimargin svm-train | svm-predict | svm-scale`` with LIBSVM's flags, and ``export``."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import scipy.sparse as sp
import typer
from numpy.typing import NDArray
from typer.core import TyperCommand

from dimargin.cli.column_flags import Reading
from dimargin.cli.file_flags import data_argument, data_option
from dimargin.cli.flags import existing_file, usage_checked
from dimargin.cli.open_model import OpenModel
from dimargin.cli.shared import check_output
from dimargin.estimators import SVMClassifier
from dimargin.estimators.input_checks import check_number
from dimargin.estimators.linear_machine import LinearMachine
from dimargin.export.c_source import to_c
from dimargin.export.compression import compress
from dimargin.export.onnx_model import to_onnx
from dimargin.io.data import DataFileError
from dimargin.io.data.chunks import check_classes
from dimargin.io.data.libsvm import DENSE, read_weights
from dimargin.io.data.opening import DataFile, FileOptions
from dimargin.io.data.whole_file import read_file
from dimargin.io.libsvm import from_libsvm
from dimargin.io.libsvm.export import libsvm_model
from dimargin.io.libsvm.liblinear_model import liblinear_model, write_liblinear_model
from dimargin.io.libsvm.libsvm_model import widened
from dimargin.io.libsvm.ranges import FeatureRanges
from dimargin.io.libsvm.text_model import number_text, write_libsvm_model
from dimargin.io.libsvm.text_model_training import OfAnyType, OneVsOne, Trainer, regression_scores
from dimargin.svm import SVR, NuSVC, NuSVR, OneClassSVM
from dimargin.system.writing import write_file

_KERNELS = {0: "linear", 1: "poly", 2: "rbf", 4: "precomputed"}
_SVM_TYPES = "0: C-SVC, 1: nu-SVC, 2: one-class SVM, 3: epsilon-SVR, 4: nu-SVR."


def refused_flag(flag: str, reason: str) -> Any:
    """Make a flag of LIBSVM or LIBLINEAR that is refused; the message says what to do instead."""

    def check(value: str | None) -> None:
        if value is not None:
            raise typer.BadParameter(reason)

    return typer.Option(flag, callback=check, help=reason, rich_help_panel="Refused, and what to do instead")


def one_of(known: Collection[int], refused: dict[int, str]) -> Callable[[int], int]:
    """Return a check that a number is known; some others have a reason of their own."""

    def check(value: int) -> int:
        if value in refused:
            raise typer.BadParameter(refused[value])
        if value not in known:
            raise typer.BadParameter(f"must be one of {', '.join(map(str, known))}, got {value}")
        return value

    return check


def above_zero(value: float | None) -> float | None:
    """Raise BadParameter unless a number is finite and above zero, or not given."""
    if value is not None and not 0 < value < math.inf:
        raise typer.BadParameter(f"must be a finite number above 0, got {value:g}")
    return value


InputArgument = Annotated[
    Path, data_argument(metavar="FILE", help="LIBSVM text (also .gz, .bz2, .xz); - is standard input.")
]
QuietOption = Annotated[bool, typer.Option("-q", help="Quiet mode (no outputs).")]
ProbabilityOption = Annotated[int, typer.Option("-b", min=0, max=1, help="1: write probabilities, too.")]


class SvmTrainCommand(TyperCommand):
    """Command that reads ``-wi weight``, LIBSVM's flag with a label inside, as ``-w i=weight``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite ``-wi weight``, and parse the arguments as click's Command does."""
        rest, written = list(args), list[str]()
        while rest:
            word = rest.pop(0)
            weight = re.match(r"-w(?=[-+\d])", word)
            written += ["-w", f"{word[2:]}={rest.pop(0)}"] if weight and rest else [word]
        return super().parse_args(ctx, written)


def read_rows(path: Path, zero_based: bool = True, trains: bool = False) -> tuple[Any, NDArray[Any]]:
    """Read rows and labels.

    If `zero_based`, column j is feature j, so that column 0 is empty in most files. `trains` says
    that the labels are classes to train on, which must not be fractions.
    """
    try:
        data = read_file(DataFile(path, FileOptions(format="libsvm")), zero_based=zero_based)
    except DataFileError as error:
        if DataFile(path).kind == "libsvm":
            raise
        message = f"{path}: expected LIBSVM text; `dimargin train` reads CSV and Parquet. {error}"
        raise DataFileError(message) from error
    if trains:
        check_classes(data.fraction)
    return data.X, np.asarray(data.y)


def print_errors(predicted: Any, y: Any, form: str) -> None:
    """Print the mean squared error and the squared correlation of predicted numbers in a form with one gap."""
    names = "Mean squared error", "Squared correlation coefficient"
    for name, value in zip(names, regression_scores(predicted, y), strict=True):
        print(form.format(f"{name} = {value:g}"))


def label_weights(given: list[str]) -> dict[int, float]:
    """Return the weights of labels for values of ``-w``; raises BadParameter."""
    weights: dict[int, float] = {}
    for text in given:
        label, _, weight = text.partition("=")
        try:
            number = float(weight)
            if not 0 < number < math.inf:
                raise ValueError
            weights[int(label)] = weights.get(int(label), 1.0) * number
        except ValueError:
            raise typer.BadParameter(
                f"-w{label} {weight}: expected an integer label right after -w, then a weight above 0"
            ) from None
    return weights


def svm_train(
    data: InputArgument,
    model: Annotated[
        Path | None,
        typer.Argument(dir_okay=False, metavar="MODEL", help="File for the model.", show_default="FILE.model"),
    ] = None,
    svm_type: Annotated[int, typer.Option("-s", metavar="TYPE", help=_SVM_TYPES, callback=one_of(range(5), {}))] = 0,
    kernel: Annotated[
        int,
        typer.Option(
            "-t",
            metavar="KERNEL",
            help="0: u'v, 1: (gamma u'v + coef0)^degree, 2: exp(-gamma |u-v|^2), 4: values in the file.",
            callback=one_of(
                _KERNELS,
                {
                    3: "the sigmoid kernel is not supported: it is not positive semi-definite, so that no gap could "
                    "certify a model; scikit-learn has it: sklearn.svm.SVC(kernel='sigmoid')"
                },
            ),
        ),
    ] = 2,
    degree: Annotated[int, typer.Option("-d", metavar="DEGREE", help="Degree of the polynomial kernel.")] = 3,
    gamma: Annotated[
        float,
        typer.Option("-g", metavar="GAMMA", help="Parameter gamma of the kernel.", show_default="1/largest feature"),
    ] = 0.0,
    coef0: Annotated[float, typer.Option("-r", metavar="COEF0", help="Parameter of the polynomial kernel.")] = 0.0,
    cost: Annotated[float, typer.Option("-c", metavar="COST", help="The parameter C of -s 0, 3, 4.")] = 1.0,
    nu: Annotated[float, typer.Option("-n", metavar="NU", help="The parameter nu of -s 1, 2, 4.")] = 0.5,
    tube: Annotated[float, typer.Option("-p", metavar="P", help="Error without loss of -s 3.")] = 0.1,
    epsilon: Annotated[
        float,
        typer.Option(
            "-e",
            metavar="EPSILON",
            help="Tolerance; training ends at a relative duality gap of EPSILON/1000.",
            callback=above_zero,
        ),
    ] = 1e-3,
    cache: Annotated[
        float | None,
        typer.Option(
            "-m", metavar="MB", help="Memory for kernel rows, -s 0.", show_default="2048", callback=above_zero
        ),
    ] = None,
    folds: Annotated[
        int | None, typer.Option("-v", metavar="N", min=2, help="N-fold cross validation instead of a model.")
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option("-w", metavar="i WEIGHT", help="Multiply C by WEIGHT for label i, -s 0: -w1 2.5. Repeatable."),
    ] = None,
    row_weights: Annotated[
        Path | None,
        existing_file("-W", metavar="WEIGHTS", help="File of row weights, one per line, which multiply C."),
    ] = None,
    quiet: QuietOption = False,
    shrinking: Annotated[int, typer.Option("-h", min=0, max=1, help="No effect: the solvers always shrink.")] = 1,
    probability: ProbabilityOption = 0,
) -> None:
    """Train a machine of LIBSVM and write LIBSVM's text model.

    Example: dimargin svm-train -c 32 -g 2 train.libsvm
    """
    if weight and svm_type:
        raise typer.BadParameter("-w multiplies the C of C-SVC (-s 0); use -W for weights of rows")
    weights = label_weights(weight or [])
    if model is None:
        model = Path(f"{data.name}.model")
    # LIBSVM's -e bounds the violation of the optimality conditions, which a relative duality gap
    # does not; at a gap of 1e-3 epsilon, the violation stayed below LIBSVM's in eighteen fits
    # (docs/from-libsvm.md).
    machine = SVMClassifier(
        C=cost, fit_intercept=True, kernel=_KERNELS[kernel], gamma=gamma or 1.0, degree=degree, coef0=coef0,
        strategy="exact", tol=1e-3 * epsilon, random_state=0,
    )  # fmt: skip
    with usage_checked():
        if folds is None:
            check_output("MODEL", model, data)
        machine.fit_plan()
        if svm_type:
            machine = _of_type(svm_type, machine, nu, tube)
            machine._validate_params()
    X, y = read_rows(data, trains=svm_type in (0, 1))
    given = None if row_weights is None else read_weights(row_weights, len(y))
    machine.set_params(gamma=gamma or 1 / max(1, X.shape[1] - 1))
    has_probabilities = bool(probability) and folds is None
    if svm_type:
        trainer: Trainer = OfAnyType(machine, {}, has_probabilities, is_classifier=svm_type == 1)
    else:
        own = None if cache is None else int(min(cache * 2.0**20, 2.0**62))
        trainer = OneVsOne(machine, weights, own, has_probabilities)
    if folds is None:
        write_libsvm_model(trainer.train(X, y, quiet, given), model)
        return
    predicted = trainer.held_out(X, y, folds, given)
    if svm_type in (3, 4):
        print_errors(predicted, y, "Cross Validation {}")
    else:
        print(f"Cross Validation Accuracy = {100 * np.mean(predicted == y):g}%")


def _of_type(svm_type: int, checked: SVMClassifier, nu: float, tube: float) -> Any:
    """Return the machine of a type of LIBSVM above 0, with the parameters of a machine of type 0."""
    own: dict[str, Any] = {name: getattr(checked, name) for name in ("kernel", "gamma", "degree", "coef0", "tol")}
    if svm_type == 1:
        return NuSVC(nu=nu, **own)
    if svm_type == 2:
        return OneClassSVM(nu=nu, **own)
    return SVR(C=checked.C, epsilon=tube, **own) if svm_type == 3 else NuSVR(C=checked.C, nu=nu, **own)


def svm_predict(
    data: InputArgument,
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, metavar="MODEL", help="LIBSVM text model.")],
    output: Annotated[Path, typer.Argument(dir_okay=False, metavar="OUTPUT", help="File for the predicted labels.")],
    quiet: QuietOption = False,
    probability: ProbabilityOption = 0,
) -> None:
    """Predict with a LIBSVM text model and compare with the labels of FILE.

    Example: dimargin svm-predict test.libsvm train.libsvm.model labels.txt
    """
    with usage_checked():
        check_output("OUTPUT", output, data, model)
    machine, (X, y) = from_libsvm(model, zero_based=True), read_rows(data)
    if probability and not machine.has_probabilities:
        raise ValueError(f"{model} has no probabilities: it was trained without them (svm-train -b 1)")
    if machine.kernel is not None:
        X = widened_rows(X, machine.n_columns)
    predicted, columns, header = machine.predict(X), [], ""
    if probability and not machine.is_regression:
        columns.append(machine.predict_proba(X))
        header = "label normal outlier\n"
        if machine.is_classifier:
            header = f"labels {' '.join(map(str, machine.labels.tolist()))}\n"
            predicted = machine.labels[columns[0].argmax(axis=1)]
    rows = np.column_stack([predicted, *columns]).tolist()
    write_file(output, (header + "".join(f"{' '.join(map(number_text, row))}\n" for row in rows)).encode())
    if quiet:
        return
    if machine.has_probabilities and not probability:
        print("Model supports probability estimates, but disabled in prediction.")
    if machine.is_regression:
        if probability and machine.probA is not None:
            print("Prob. model for test data: target value = predicted value + z,")
            print(f"z: Laplace distribution e^(-|z|/sigma)/(2sigma),sigma={machine.probA[0]:g}")
        print_errors(predicted, y, "{} (regression)")
    else:
        correct = int(np.count_nonzero(predicted == y))
        share = 100 * correct / len(predicted)
        print(f"Accuracy = {share:g}% ({correct}/{len(predicted)}) (classification)")


def widened_rows(X: Any, width: int) -> Any:
    """Return rows with at least `width` columns; LIBSVM text omits zeros at the end."""
    missing = width - X.shape[1]
    if missing <= 0:
        return X
    if not sp.issparse(X) and X.shape[1] < DENSE * width:
        X = sp.csr_array(X)
    if sp.issparse(X):
        return widened(X, width)
    return np.hstack([X, np.zeros((len(X), missing))])


def svm_scale(
    data: InputArgument,
    lower: Annotated[float, typer.Option("-l", metavar="LOWER", help="Scaling lower limit.")] = -1.0,
    upper: Annotated[float, typer.Option("-u", metavar="UPPER", help="Scaling upper limit.")] = 1.0,
    labels: Annotated[
        tuple[float, float] | None,
        typer.Option("-y", metavar="LOWER UPPER", help="Scaling limits of the labels.", show_default="no scaling"),
    ] = None,
    save: Annotated[Path | None, typer.Option("-s", dir_okay=False, metavar="FILE", help="Save the ranges.")] = None,
    restore: Annotated[Path | None, existing_file("-r", metavar="FILE", help="Restore the ranges.")] = None,
) -> None:
    """Scale LIBSVM text and write it to standard output.

    Example: dimargin svm-scale -l 0 -s ranges train.libsvm > train.scaled
    """
    for low, high in [(lower, upper), *([labels] if labels else [])]:
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise typer.BadParameter(f"the lower limit must be below the upper one, got {low:g} and {high:g}")
    if save and restore:
        raise typer.BadParameter("-s and -r cannot be used together")
    ranges = FeatureRanges.read(restore) if restore else None
    X, y = read_rows(data, zero_based=False)
    if ranges is None:
        ranges = FeatureRanges.fit(X, y, lower, upper, labels)
    elif unknown := ranges.unknown(X):
        some = ", ".join(map(str, unknown[:5])) + (", ..." if len(unknown) > 5 else "")
        print(f"WARNING: {restore} has no range for the features {some} of {data}; they are dropped", file=sys.stderr)
    if save:
        ranges.write(save)
    written = 0
    for text in ranges.lines(X, y):
        sys.stdout.write(text)
        written += text.count(":")
    if written > np.count_nonzero(X.data if sp.issparse(X) else X):
        print(
            "WARNING: the scaled rows have more nonzeros; use -l 0 to keep sparse, nonnegative features sparse",
            file=sys.stderr,
        )


def export(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, metavar="MODEL", help="A dimargin model file.")],
    output: Annotated[Path | None, typer.Argument(dir_okay=False, metavar="[OUTPUT]", help="Optional file.")] = None,
    to: Annotated[Literal["text", "onnx", "c"], typer.Option(help="Format, see above.")] = "text",
    numbers: Annotated[str | None, typer.Option(help="onnx: float64, float32. c: float32, fixed.")] = None,
    data: Annotated[Path | None, data_option(help="Rows for --compress, and for the scales of fixed.")] = None,
    keep: Annotated[float | None, typer.Option("--compress", help="Number of support vectors, or share.")] = None,
) -> None:
    """Write a model for LIBSVM, LIBLINEAR or ONNX, or as C source.

    With --to text, a kernel machine becomes a model of LIBSVM, a linear one a model of LIBLINEAR.
    OUTPUT is by default the name of MODEL with the ending .model, .onnx or .c.

    With --compress, the model is written with fewer support vectors. How many are kept is printed,
    and with labelled rows as --data the accuracy (of a regressor R2) before and after.

    Example: dimargin export spam.dimargin --to onnx
    """
    output = output or model.with_suffix({"text": ".model", "onnx": ".onnx", "c": ".c"}[to])
    with usage_checked():
        check_output("OUTPUT", output, model, data)
        if (to == "text" and numbers is not None) or (to != "c" and data is not None and keep is None):
            raise ValueError("--numbers needs --to onnx or c, and --data needs --to c or --compress")
        keep = int(keep) if keep is not None and keep >= 1 and keep.is_integer() else keep
        if keep is not None:
            check_number("--compress", keep, 0, whole=keep >= 1)
    trained, options = OpenModel.load(model), {} if numbers is None else {"numbers": numbers}
    trained.refuse_detector("cannot be exported as a classifier")
    if keep is not None:
        trained = _compressed(trained, keep, data)
    if to == "onnx":
        write_file(output, to_onnx(trained.estimator, **options).SerializeToString(), private=True)
    elif to == "c":
        name = re.sub(r"^(?=[\d_])", "m", re.sub(r"\W", "_", output.stem, flags=re.ASCII))
        rows = None if data is None else trained.read(data, None, Reading.of({}), needs_label=False).X
        write_file(output, to_c(trained.estimator, name, rows=rows, **options).encode(), private=True)
    else:
        _write_text_model(trained, model, output)


def _compressed(trained: OpenModel, size: float, data: Path | None) -> OpenModel:
    """Return the model with fewer support vectors, and print what it loses on labelled data."""
    rows = None if data is None else trained.read_labelled(data, None, Reading.of({}))
    small, report = compress(trained.estimator, size, *(() if rows is None else (rows.X, rows.y)))
    print(
        f"{report['kept']} of {report['support_vectors']} support vectors are kept; decision values of a row x "
        f"change by at most {report['bound']:.4g} times the root of k(x, x)"
    )
    for score in ("accuracy", "r2"):
        if f"{score}_before" in report:
            before, after = report[f"{score}_before"], report[f"{score}_after"]
            print(f"{score} on {data}: {before:.4g} before, {after:.4g} after, a loss of {before - after:.4g}")
    return replace(trained, estimator=small)


def _write_text_model(trained: OpenModel, model: Path, output: Path) -> None:
    is_linear = isinstance(trained.machine, LinearMachine)
    program = "LIBLINEAR" if is_linear else "LIBSVM"
    if trained.has_probabilities:
        raise ValueError(
            f"{model} predicts by calibrated probabilities, which a {program} model of dimargin cannot hold: train it "
            "without --probabilities"
        )
    if trained.scalers:
        raise ValueError(
            f"{model} scales rows or encodes columns, which a {program} model cannot: train it with --scale none and "
            "without flags for columns; scale the rows by svm-scale instead"
        )
    zero_based = bool(trained.notes.get("zero_based"))
    if not is_linear:
        write_libsvm_model(replace(libsvm_model(trained.machine), zero_based=zero_based), output)
    elif zero_based:
        raise ValueError(f"{model} counts features from 0, and LIBLINEAR from 1: count those of the data from 1")
    else:
        write_liblinear_model(liblinear_model(trained.machine), output)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("svm-train", cls=SvmTrainCommand)(svm_train)
    app.command("svm-predict")(svm_predict)
    app.command("svm-scale")(svm_scale)
    app.command()(export)
