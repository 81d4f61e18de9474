"""Limits of this process's control groups, which a container, a batch job or a service sets.

A group's limit also holds for the groups below it, so the limits of every group count, from the
process's own up to the mount point or the root of its container, beyond which nothing is visible.
Version 1 mounts one hierarchy per controller, version 2 one for all; a machine may have both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath


def memory_limits(root: Path = Path("/")) -> list[int]:
    """Return the memory limits in bytes.

    ``memory.high`` counts, because a group that exceeds it is throttled almost to a halt.

    Parameters
    ----------
    root : Path, optional
        Folder in which the file systems ``proc`` and ``sys`` are mounted.
    """
    limits = []
    for group in _groups("memory", root):
        limits += _read_numbers(group / "memory.max") + _read_numbers(group / "memory.high")
        if own := _read_numbers(group / "memory.limit_in_bytes"):
            limits += own
            # Version 1 also reports the limit of parent groups that this process cannot see.
            for line in _read_lines(group / "memory.stat"):
                name, _, number = line.partition(" ")
                limits += _positive_numbers([number]) if name == "hierarchical_memory_limit" else []
    return limits


def processor_limits(root: Path = Path("/")) -> list[float]:
    """Return the CPU quotas of the groups, in processors; `root` is that of `memory_limits`."""
    limits = []
    for group in _groups("cpu", root):
        quota, period = (_read_numbers(group / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        both = _read_numbers(group / "cpu.max"), quota + period
        limits += [numbers[0] / numbers[1] for numbers in both if len(numbers) == 2]
    return limits


def _read_numbers(file: Path) -> list[int]:
    """Return the positive numbers in a file; a group without limit has "max" or -1 instead."""
    return _positive_numbers(" ".join(_read_lines(file)).split())


def _positive_numbers(texts: list[str]) -> list[int]:
    with suppress(ValueError):
        return [number for number in map(int, texts) if number > 0]
    return []


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folders of the groups whose limits for a controller apply to this process."""
    paths = dict(_paths(controller, root / "proc/self/cgroup"))
    for kind, top, mount_point in _mounts(controller, root / "proc/self/mountinfo"):
        inside, group = PurePosixPath(paths.get(kind, "/")), root / mount_point.lstrip("/")
        yield group
        # A path outside the mounted group is the one seen from outside this container.
        for part in inside.relative_to(top).parts if inside.is_relative_to(top) else ():
            if part == "..":
                break
            group /= part
            yield group


def _paths(controller: str, file: Path) -> Iterator[tuple[str, str]]:
    """Yield version and path of this process's group in each hierarchy that has the controller."""
    for line in _read_lines(file):
        with suppress(ValueError):
            number, controllers, path = line.split(":", 2)
            if number == "0" or controller in controllers.split(","):
                yield "cgroup2" if number == "0" else "cgroup", path


def _mounts(controller: str, file: Path) -> list[tuple[str, str, str]]:
    """Return version, mounted group and mount point of each hierarchy that has the controller."""
    found = []
    for line in _read_lines(file):
        before, _, after = line.partition(" - ")
        with suppress(ValueError):
            _, _, _, top, mount_point, *_ = map(_unescaped, before.split(" "))
            kind, _, options = after.split(" ", 2)
            if kind == "cgroup2" or (kind == "cgroup" and controller in options.split(",")):
                found.append((kind, top, mount_point))
    # A sandbox may provide the files at the usual places without listing a mount.
    return [*found, ("cgroup2", "/", "/sys/fs/cgroup"), ("cgroup", "/", f"/sys/fs/cgroup/{controller}")]


def _read_lines(file: Path) -> list[str]:
    with suppress(OSError):
        return file.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    return []


def _unescaped(text: str) -> str:
    """Return a path of mountinfo with its octal escapes, such as those of blanks, decoded."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
