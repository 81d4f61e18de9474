"""Limits of control groups, in made-up file systems and, where groups can be made, in real ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dimargin.system.control_groups import memory_limits, processor_limits

UNLIMITED = 9223372036854771712  # what version 1 says where nobody has set a limit
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
)
HYBRID = V1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
DOCKER = V1.replace("0:32 / ", "0:32 /docker/f00 ").replace("0:29 / ", "0:29 /docker/f00 ")
JOB = "system.slice/slurmstepd.scope/job_7"
# of what is mounted, of the path of this process, of files: the limits that hold
MEMORY = {
    "version 2, a container": (V2, "0::/", {"memory.max": "7000\n"}, 7000),
    "version 2, a job above this group": (
        V2, f"0::/{JOB}/step_0/task_0",
        {f"{JOB}/memory.max": "5000", f"{JOB}/step_0/memory.max": "max", f"{JOB}/step_0/task_0/memory.max": "max"},
        5000,
    ),
    "version 2, the least of several": (
        V2, "0::/a.slice/b.service", {"a.slice/memory.max": "9000", "a.slice/b.service/memory.max": "4000"}, 4000,
    ),
    "version 2, throttled": (V2, "0::/a", {"a/memory.max": "max", "a/memory.high": "3000"}, 3000),
    "version 2, a sister's": (V2, "0::/a", {"memory.max": "max", "a/memory.max": "max", "b/memory.max": "1"}, None),
    "version 2, seen from elsewhere": (V2, "0::/../../b", {"memory.max": "6000", "../../b/memory.max": "1"}, 6000),
    "version 2, below what is seen": (
        V2.replace("0:26 / ", "0:26 /.. "), "0::/../b", {"memory.max": "6000", "b/memory.max": "2000"}, 2000,
    ),
    "version 2, mounted elsewhere": (
        V2.replace("/sys/fs/cgroup", r"/mnt/my\040groups"), "0::/a", {"/mnt/my groups/a/memory.max": "2500"}, 2500,
    ),
    "version 1, a job above this group": (
        V1, "4:memory:/slurm/uid_0/job_7/step_0\n3:cpuset:/",
        {
            "memory/memory.limit_in_bytes": str(UNLIMITED), "memory/slurm/uid_0/job_7/memory.limit_in_bytes": "8000",
            "memory/slurm/uid_0/job_7/step_0/memory.limit_in_bytes": str(UNLIMITED),
        }, 8000,
    ),
    "version 1, a container": (DOCKER, "4:memory:/docker/f00", {"memory/memory.limit_in_bytes": "7500"}, 7500),
    "version 1, a group in a container": (
        DOCKER, "4:memory:/docker/f00/a", {"memory/a/memory.limit_in_bytes": "3500"}, 3500,
    ),
    "version 1, a path that others see": (DOCKER, "4:memory:/pods/x", {"memory/memory.limit_in_bytes": "1500"}, 1500),
    "version 1, a limit above what is seen": (
        DOCKER, "4:memory:/docker/f00",
        {
            "memory/memory.limit_in_bytes": str(UNLIMITED),
            "memory/memory.stat": "cache 0\nrss 1\nhierarchical_memory_limit 650\nhierarchical_memsw_limit 9000\n",
        }, 650,
    ),
    "both versions, limits in the first": (
        HYBRID, "4:memory:/a\n0::/", {"memory/a/memory.limit_in_bytes": "4500", "unified/cgroup.procs": "1"}, 4500,
    ),
    "no list of mounts": ("", "0::/a", {"a/memory.max": "5500"}, 5500),
    "neither list": (None, None, {"memory.max": "4400"}, 4400),
    "no groups at all": (None, None, {}, None),
    "damaged lists": ("30 23\n - \n\n", "memory\n\n0:", {"memory.max": "lots", "memory.high": "0"}, None),
    "damaged bytes": (V2, "0::/a", {"memory.max": "\xff\xfe", "a/memory.max": "1200"}, 1200),
}  # fmt: skip
PROCESSORS = {
    "version 2, a service below a slice": (
        V2, "0::/a.slice/b", {"a.slice/cpu.max": "150000 100000", "a.slice/b/cpu.max": "max 100000"}, 1.5,
    ),
    "version 1, a job": (
        V1, "3:cpu,cpuacct:/slurm/job_7/step_0",
        {
            "cpu,cpuacct/slurm/job_7/cpu.cfs_quota_us": "200000", "cpu,cpuacct/slurm/job_7/cpu.cfs_period_us": "100000",
            "cpu,cpuacct/slurm/job_7/step_0/cpu.cfs_quota_us": "-1",
            "cpu,cpuacct/slurm/job_7/step_0/cpu.cfs_period_us": "100000",
        }, 2.0,
    ),
    "no quota": (V2, "0::/a", {"a/cpu.max": "max 100000"}, None),
}  # fmt: skip


def made(root, mounts, path, files):
    """A file system with these files, whose names are below the usual folder of control groups, or whole."""
    whole = {name if name.startswith("/") else f"/sys/fs/cgroup/{name}": text for name, text in files.items()}
    lists = {"/proc/self/mountinfo": mounts, "/proc/self/cgroup": path}
    for name, text in (whole | lists).items():
        if text is not None:
            file = root / name.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="latin-1")
    return root


@pytest.mark.parametrize("case", MEMORY)
def test_every_group_above_a_process_limits_its_memory(case, tmp_path):
    *given, expected = MEMORY[case]
    assert min(memory_limits(made(tmp_path, *given)), default=None) in ((expected,) if expected else (None, UNLIMITED))


@pytest.mark.parametrize("case", PROCESSORS)
def test_every_group_above_a_process_limits_its_processors(case, tmp_path):
    *given, expected = PROCESSORS[case]
    assert min(processor_limits(made(tmp_path, *given)), default=None) == expected


def own_group():
    """The group of this process whose children can have limits of memory, and the names of the file of a limit."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return Path(f"/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes"
        group = Path(f"/sys/fs/cgroup{path}")
        if number == "0" and "memory" in (group / "cgroup.subtree_control").read_text():
            return group, "memory.max"
    raise OSError("no control group of memory")


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has control groups")
def test_a_group_of_this_machine_above_that_of_a_process_makes_it_refuse():
    look = (
        "import sys; open(sys.argv[1], 'w').write('0')\n"
        "from dimargin.system.memory import check_memory, memory_of_process\n"
        "print(memory_of_process())\n"
        "check_memory(10**9, None)"
    )
    inner = None
    try:
        group, limit = own_group()
        outer = group / f"dimargin-test-{os.getpid()}"
        outer.mkdir()
        inner = outer / "step"
        inner.mkdir()
        (outer / limit).write_text(str(900 * 2**20))
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    else:
        command = [sys.executable, "-c", look, str(inner / "cgroup.procs")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.stdout == f"{900 * 2**20}\n", done.stderr
        assert f"this process may use {900 * 2**20}" in done.stderr
    finally:
        for made_here in filter(None, (inner, inner and inner.parent)):
            if made_here.exists():
                made_here.rmdir()
