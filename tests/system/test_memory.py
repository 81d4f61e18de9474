"""How much memory a process may use, and the refusal of what does not fit."""

import resource

import pytest

from dimargin.system import memory
from dimargin.system.memory import check_memory, memory_of_process


@pytest.fixture(autouse=True)
def afresh():
    memory._limits_of_groups.cache_clear()
    yield
    memory._limits_of_groups.cache_clear()


def test_the_least_limit_of_groups_counts(monkeypatch):
    monkeypatch.setattr(memory, "memory_limits", lambda: [2**62, 10**6, 10**7])
    assert memory_of_process() == 10**6
    with pytest.raises(MemoryError, match=r"this fit needs about 2000000 bytes .*, and this process may use 1000000\."):
        check_memory(2 * 10**6, None)


@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_limits_of_the_process_count(monkeypatch, name):
    limits = {getattr(resource, name): (12345, resource.RLIM_INFINITY)}
    nothing = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits.get(which, nothing))
    assert memory_of_process() == 12345


def test_groups_are_not_read_at_every_call(monkeypatch):
    calls = []
    monkeypatch.setattr(memory, "memory_limits", lambda: calls.append(1) or [])
    monkeypatch.setattr(memory.time, "monotonic", lambda: 5.5)
    assert memory_of_process() == memory_of_process() and len(calls) == 1
