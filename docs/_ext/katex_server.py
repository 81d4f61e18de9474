"""Start of the server that draws formulas, which sphinxcontrib.katex takes for ready a moment too early.

It connects as soon as the server's Unix socket has a file, before the server listens to it, and the build then fails
now and then (ConnectionRefusedError). Here it tries again until it is heard.
"""

import socket
import time
from subprocess import PIPE, Popen

from sphinxcontrib.katex import KaTeXServer

_PAUSE = 0.001  # seconds


def start(rundir, timeout):
    """Return the server's process and a socket to it, in place of `KaTeXServer.start_server_process`."""
    path, until = rundir / "katex.sock", time.monotonic() + timeout
    process = Popen(KaTeXServer.build_command(socket=path), stdin=PIPE, stdout=PIPE, cwd=rundir)
    while time.monotonic() < until:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            time.sleep(_PAUSE)
        else:
            return process, connection
    process.kill()
    raise KaTeXServer.timeout_error(timeout)


def setup(app):
    """Tell sphinxcontrib.katex."""
    KaTeXServer.start_server_process = start
    return {"parallel_read_safe": True, "parallel_write_safe": True}
