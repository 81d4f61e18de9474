"""Seconds of predictions by exported models: onnxruntime and compiled C compared with our own."""

import ctypes
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
from sklearn.datasets import make_classification

import dimargin as dm


def best_seconds(run, repeats=7):
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def report(name, many, one, error, n_rows):
    seconds, latency = best_seconds(many), best_seconds(one, 300)
    print(
        f"{name:24} {n_rows / seconds:12,.0f} rows/s  {1e6 * latency:8.1f} us for one row   error {error:.1e}",
        flush=True,
    )


def main():
    X, y = make_classification(20_000, 20, n_informative=10, class_sep=0.7, random_state=0)
    machine = dm.SVMClassifier(C=1.0, gamma=0.02, n_jobs=2).fit(X[:3000], y[:3000])
    rows = X[3000:13_000]
    values = machine.decision_function(rows)
    largest = np.abs(values).max()
    print(f"{len(machine.support_)} support vectors, {X.shape[1]} features, two threads")
    decide = machine.decision_function
    report("dimargin, decision", lambda: decide(rows), lambda: decide(rows[:1]), 0.0, len(rows))
    report("dimargin, predict", lambda: machine.predict(rows), lambda: machine.predict(rows[:1]), 0.0, len(rows))
    for numbers in ("float64", "float32"):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        session = onnxruntime.InferenceSession(dm.to_onnx(machine, numbers).SerializeToString(), options)
        given = rows.astype(numbers)
        found = session.run(["decision_values"], {"X": given})[0]
        many, one = (lambda part, s=session: lambda: s.run(None, {"X": part}) for _ in range(2))
        error = np.abs(found - values).max() / largest
        report(f"onnxruntime, {numbers}", many(given), one(given[:1]), error, len(rows))
    for numbers in ("float32", "fixed"):
        with tempfile.TemporaryDirectory() as folder:
            library = compiled(dm.to_c(machine, numbers=numbers, rows=rows), Path(folder))
            report(f"C, {numbers}, one thread", *calls(library, numbers, rows, values), len(rows))


def compiled(source, folder):
    loop = """
void decide(const {0} *x, {0} *out, int n)
{{
    for (int i = 0; i < n; i++) machine_decision(x + MACHINE_FEATURES * i, out + i);
}}
"""
    kind = "int32_t" if "machine_quantize" in source else "float"
    (folder / "machine.c").write_text(source + loop.format(kind))
    command = ["cc", "-std=c99", "-O2", "-shared", "-fPIC", "-o", folder / "machine.so", folder / "machine.c", "-lm"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "machine.so"))


def calls(library, numbers, rows, values):
    """Return calls for all rows and for one, and the largest error relative to the largest value."""
    given, scale = rows.astype(np.float32), 1.0
    if numbers == "fixed":
        bits = np.array((ctypes.c_byte * 20).in_dll(library, "machine_input_bits"))
        given = np.rint(rows * 2.0**bits).astype(np.int32)
    out = np.zeros(len(rows), dtype=given.dtype)

    def decide(n):
        library.decide(given.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), n)

    decide(len(rows))
    if numbers == "fixed":
        scale = 2.0 ** np.round(np.log2(np.abs(out).max() / np.abs(values).max()))
    return lambda: decide(len(rows)), lambda: decide(1), np.abs(out / scale - values).max() / np.abs(values).max()


if __name__ == "__main__":
    main()
