"""Code in a process of its own that may take so much memory and no more, by a limit of the operating system."""

import os
import subprocess
import sys

_LIMITED = """
import resource, sys
{imports}
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + {megabytes} * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    {code}
except {errors} as error:
    print(type(error).__name__, str(error)[:500])
else:
    print("done")
"""


def run(imports: str, code: str, megabytes: int, errors: str = "ValueError") -> str:
    """What a line of code said: "done", or the error of these types; anything else fails."""
    script = _LIMITED.format(imports=imports, code=code, megabytes=megabytes, errors=errors)
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # threads take addresses, and machines have few or many
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, env=alone)
    assert done.returncode == 0, done.stderr
    return done.stdout
