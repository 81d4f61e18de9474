"""How many threads work, that they share the interpreter, and that they never change a result."""

import os
import shlex
import subprocess
import sys
import threading
import time

import joblib
import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from dimargin import ODMClassifier, _core
from dimargin.system import threads
from dimargin.system.threads import effective_n_threads, single_threaded_blas


@pytest.fixture
def processors(monkeypatch):
    """Lets joblib count another number of processors, which no quota of this machine reduces."""
    monkeypatch.setattr(threads, "processor_limits", list)

    def set_to(count):
        monkeypatch.setattr(joblib, "cpu_count", lambda: count)
        threads._processors.cache_clear()

    yield set_to
    threads._processors.cache_clear()


@pytest.mark.parametrize("count", [1, 2, 5, 64])
@pytest.mark.parametrize("allowed", [1, 2, 5])
def test_n_jobs_counts_processors_within_what_threadpoolctl_allows(allowed, count, processors):
    processors(count)
    with threadpool_limits(allowed, user_api="openmp"):
        got = [effective_n_threads(n_jobs) for n_jobs in (None, -1, -2, -64, 1, 2, 5, 64)]
    usable = min(allowed, count)
    assert got == [usable, usable, max(1, usable - 1), 1, 1, min(2, allowed), allowed, allowed]


@pytest.mark.parametrize("limits, expected", [([], 5), ([8.0, 2.0], 2), ([1.5], 2), ([0.25], 1)])
def test_the_least_quota_of_all_groups_counts(limits, expected, processors, monkeypatch):
    monkeypatch.setattr(threads, "processor_limits", lambda: limits)
    processors(5)
    with threadpool_limits(64, user_api="openmp"):
        assert effective_n_threads(None) == expected and effective_n_threads(5) == 5


def threads_of_another_process(*lines, through=()):
    """Run lines of Python in another process and return its number of threads for ``n_jobs=None`` after them."""
    code = "\n".join(["import os", "from dimargin.system.threads import effective_n_threads", *lines])
    command = [*through, sys.executable, "-c", f"{code}\nprint(effective_n_threads(None))"]
    environment = {**os.environ, "OMP_NUM_THREADS": "64"}
    return int(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity of processes")
def test_threads_are_as_many_as_affinity_allows():
    given = os.sched_getaffinity(0)
    assert threads_of_another_process() <= len(given)
    assert threads_of_another_process(f"os.sched_setaffinity(0, {{{min(given)}}})") == 1


QUOTAS = {
    "version 2": {"cpu.max": "50000 100000"},
    "version 1": {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"},
}


@pytest.mark.slow
@pytest.mark.parametrize("version", QUOTAS)
def test_threads_are_as_many_as_the_quota_of_a_container_allows(version, tmp_path):
    if os.cpu_count() == 1:
        pytest.skip("one processor is less than any quota")
    for name, text in QUOTAS[version].items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    # a container sees its own control group in this place
    container = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    container += [f'mount --bind {shlex.quote(str(tmp_path))} /sys/fs/cgroup && exec "$@"', "sh"]
    try:
        subprocess.run([*container, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this process may not mount a folder over /sys/fs/cgroup: {error}")
    assert threads_of_another_process() > 1
    assert threads_of_another_process(through=container) == 1


def test_no_jobs_is_an_error():
    with pytest.raises(ValueError, match="n_jobs must be None or a nonzero integer, got 0"):
        effective_n_threads(0)


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_blas_keeps_to_one_thread_while_any_fit_lasts():
    began, end = threading.Event(), threading.Event()

    def overlap():
        with single_threaded_blas():
            began.set()
            end.wait(30)

    before, other = blas_threads(), threading.Thread(target=overlap)
    # the limit of this thread is not in the way of another one's, and is restored
    with threadpool_limits(3, user_api="blas"):
        with single_threaded_blas():
            other.start()
            assert began.wait(30)
            assert blas_threads() == {1}
        assert blas_threads() == {1}
        end.set()
        other.join()
        assert blas_threads() == {3}
        with threadpool_limits(2, user_api="blas"):
            assert blas_threads() == {2}
        assert blas_threads() == {3}
    assert blas_threads() == before


def test_a_fit_in_another_thread_is_the_same(rows):
    models = []

    def fit():
        models.append(ODMClassifier(lam=100, random_state=0).fit(*rows))

    with threadpool_limits(2, user_api="blas"):
        fit()
        threads = [threading.Thread(target=fit) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for model in models[1:]:
        np.testing.assert_array_equal(model.dual_coef_, models[0].dual_coef_)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 64))  # enough work for two threads to pay
    return X, np.sign(X[:, 0] + X[:, 1] ** 2 - 1)


@pytest.mark.parametrize("limit, n_jobs, expected", [(1, 4, 1), (3, None, 3), (3, 2, 2), (2, -1, 2)])
def test_fit_and_predict_use_no_more_threads_than_asked_for(monkeypatch, processors, rows, limit, n_jobs, expected):
    X, y = rows
    processors(64)
    used = set()
    block, multiply = _core.block, _core.multiply
    monkeypatch.setattr(_core, "block", lambda *a: used.add(a[-1]) or block(*a))
    monkeypatch.setattr(_core, "multiply", lambda *a: used.add(a[-1]) or multiply(*a))
    with threadpool_limits(limit, user_api="openmp"):
        model = ODMClassifier(lam=100, n_jobs=n_jobs).fit(X, y)
        assert used == {expected}
        used.clear()
        model.predict(X)
        assert used == {expected}


@pytest.mark.parametrize("strategy", ["exact", "diodm"])
def test_a_fit_is_the_same_for_any_number_of_threads(rows, strategy):
    X, y = rows
    y = np.where(X[:, 2] > 1, 2, y)  # three classes: outputs are solved side by side as well
    models = []
    for n_jobs in (1, 2, 3, 5):
        with threadpool_limits(5, user_api="openmp"):
            models.append(ODMClassifier(lam=100, strategy=strategy, n_jobs=n_jobs, random_state=0).fit(X, y))
    for model in models[1:]:
        np.testing.assert_array_equal(model.dual_coef_, models[0].dual_coef_)
        np.testing.assert_array_equal(model.objective_, models[0].objective_)
        assert model.duality_gap_ == models[0].duality_gap_
        np.testing.assert_array_equal(model.decision_function(X), models[0].decision_function(X))


HELPERS = """
import os, threading, time
import numpy as np
from dimargin import _core

def multiply(n_threads):
    x, every = _core.Rows32(np.ones((4096, 64), dtype=np.float32)), np.arange(4096)
    out = np.zeros((1, 4096))
    _core.multiply("linear", 0.0, 1, False, -np.inf, x, every, x, every, np.ones((1, 4096)), out, n_threads)
    assert (out == 64 * 4096).all()

def count():
    return len(os.listdir("/proc/self/task"))

def from_a_thread():
    thread = threading.Thread(target=multiply, args=[4])
    thread.start()
    thread.join()

before = count()
multiply(1)
print(count() - before)
for _ in range(5):
    multiply(4)
    from_a_thread()
for _ in range(1000):  # a thread of Python's is there for a moment after it was joined
    if count() - before <= 3:
        break
    time.sleep(0.01)
print(count() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_of_the_core_serve_whoever_calls():
    done = subprocess.run([sys.executable, "-c", HELPERS], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["0", "3"]


@pytest.mark.parametrize("call", ["multiply", "block"])
def test_other_python_threads_go_on_during_a_call(call):
    """Another thread sees the result half written: impossible for a call that keeps the interpreter lock."""
    x = _core.Rows32(np.ones((512, 16), dtype=np.float32))
    index, columns = np.zeros(1_000_000, dtype=np.int64), np.arange(512 if call == "multiply" else 16)
    half_written = []
    for _ in range(50):  # on a busy machine the watcher may miss a call
        out = np.zeros((1, len(index))) if call == "multiply" else np.zeros((len(index), 16), dtype=np.float32)

        def watch(out=out):
            while out.flat[0] == 0:
                time.sleep(0)
            half_written.append(out.flat[-1] == 0)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        if call == "multiply":
            _core.multiply("linear", 0.0, 1, False, -np.inf, x, index, x, columns, np.ones((1, 512)), out, 1)
        else:
            _core.block("linear", 0.0, 1, False, -np.inf, x, index, x, columns, out, 1)
        watcher.join()
        assert (out == (16 * 512 if call == "multiply" else 16)).all()
        if any(half_written):
            break
    assert any(half_written)


def test_libraries_are_looked_for_again_after_imports_only(monkeypatch):
    """It takes longer than a small fit, and only imports bring new ones."""
    looked = []

    class Counted(ThreadpoolController):
        def __init__(self):
            looked.append(len(sys.modules))
            super().__init__()

    monkeypatch.setattr(threads, "ThreadpoolController", Counted)
    threads._libraries.cache_clear()
    for count in (1, 1, 2, 2):
        if count == 2:
            monkeypatch.setitem(sys.modules, "dimargin.another", threads)
        with single_threaded_blas():
            assert blas_threads() == {1}
        assert len(looked) == count
