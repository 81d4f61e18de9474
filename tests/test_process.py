"""What importing and fitting do to the process: memory, subnormal numbers, children."""

import os
import subprocess
import sys

import pytest

FIT = """
import numpy as np

def fit(strategy="exact", n_jobs=2):
    from dimargin import ODMClassifier
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 64))  # enough work for two threads to pay
    y = np.sign(X[:, 0] + X[:, 1] ** 2 - 1)
    model = ODMClassifier(lam=100, strategy=strategy, n_jobs=n_jobs, random_state=0).fit(X, y)
    return model.dual_coef_.tobytes() + model.decision_function(X).tobytes()
"""


def run(tmp_path, script, timeout=600):
    """Run a script of its own; one that hangs is killed, and fails the test."""
    path = tmp_path / "script.py"
    path.write_text(FIT + script)
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=timeout, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_subnormal_numbers_survive(tmp_path):
    script = """
import threading
one = [1.0]

def check(when, seen=[]):
    assert 5e-324 * one[0] != 0 and np.float32(1e-45) * np.float32(one[0]) != 0, when
    assert (np.full(64, 1e-310) * one[0] > 0).all(), when
    assert (np.full(64, 1e-40, np.float32) * np.float32(one[0]) > 0).all(), when
    seen.append(when)
    return seen

check("before the import")
import dimargin
check("after the import")
fit()
check("after a fit")
thread = threading.Thread(target=check, args=["in another thread"])
thread.start()
thread.join()
print(*check("at the end"), sep=", ")
"""
    assert run(tmp_path, script).strip().endswith("after a fit, in another thread, at the end")


CHILD = """
import multiprocessing, sys, threading

def child(to, strategy, n_jobs):
    to.send(fit(strategy, n_jobs))

def nested(to, strategy, n_jobs):
    results = [fit(strategy, n_jobs)]
    thread = threading.Thread(target=lambda: results.append(fit(strategy, n_jobs)))
    thread.start()
    thread.join()
    results.append(in_child("fork", child, strategy, n_jobs))
    to.send(results[0] if results[0] == results[1] == results[2] else b"")

def in_child(method, target, *arguments):
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *arguments))
    process.start()
    answer = ours.recv() if ours.poll(120) else b"hangs"  # a busy machine takes half a minute to import what it needs
    process.kill()
    return answer
"""


@pytest.mark.slow
@pytest.mark.parametrize("method, n_jobs", [("fork", [2, 1, None]), ("spawn", [2])])
def test_children_of_a_parent_that_used_threads_fit_the_same(tmp_path, method, n_jobs):
    script = f"""
if __name__ == "__main__":
    for strategy in ("exact", "diodm"):
        parent = fit(strategy)
        for n_jobs in {n_jobs}:
            assert in_child("{method}", child, strategy, n_jobs) == parent, (strategy, n_jobs)
        assert fit(strategy) == parent
    print("same")
"""
    assert run(tmp_path, CHILD + script) == "same\n"


@pytest.mark.slow
def test_threads_and_children_of_a_forked_child(tmp_path):
    script = """
if __name__ == "__main__":
    import os, dimargin
    threads = "/proc/self/task"
    before = len(os.listdir(threads)) if os.path.exists(threads) else 0
    parent = fit()
    # the kernel's threads live on, or the children would prove nothing
    assert before == 0 or len(os.listdir(threads)) > before
    assert in_child("fork", nested, "exact", 2) == parent
    print("same")
"""
    assert run(tmp_path, CHILD + script) == "same\n"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "multiprocessing", "threading"])
def test_children_of_joblib_fit_the_same(tmp_path, backend):
    script = f"""
if __name__ == "__main__":
    from joblib import Parallel, delayed
    parent = fit()
    children = Parallel(n_jobs=2, backend="{backend}", timeout=120)(delayed(fit)() for _ in range(3))
    assert children == [parent] * 3
    print("same")
"""
    assert run(tmp_path, script) == "same\n"


@pytest.mark.slow
@pytest.mark.parametrize("tol", [1e-3, 1e-5])
def test_an_exact_fit_never_stores_the_kernel(tmp_path, tol):
    script = f"""
import resource, sys
import dimargin

rng = np.random.default_rng(0)
X = rng.random((20_000, 8))
y = np.sign(X[:, 0] - X[:, 1] ** 2 + 0.1 * rng.normal(size=len(X)))
megabytes = 2**20 if sys.platform == "darwin" else 2**10
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = dimargin.ODMClassifier(lam=1e3, tol={tol}, strategy="exact").fit(X, y)
assert model.status_ == "converged" and len(model.support_) > 10_000
model.predict(X)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / megabytes)
"""
    assert float(run(tmp_path, script, timeout=120)) < 200  # the kernel would take 1,500
