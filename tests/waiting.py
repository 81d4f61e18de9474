"""What tests of running processes and threads share."""

import socket
import time


def wait_for(condition, what="a condition", seconds=60.0):
    """Wait until a condition holds; fail where it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def free_port():
    """Return a TCP port of this machine that nobody listens at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
