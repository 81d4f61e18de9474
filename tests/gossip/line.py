"""A line between a site and another's address that can be cut, as by a firewall that says nothing."""

import contextlib
import socket
import threading


class Line:
    """Carries bytes from a free port of this machine, `port`, to another; while it is cut they go nowhere."""

    def __init__(self, to):
        self._to, self._is_cut, self._sockets, self._threads = to, False, [], []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._start(self._accept)

    def _start(self, work, *given):
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self._server.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._to))
                except OSError:
                    near.close()
                    continue
                self._sockets += [near, far]
                self._start(self._carry, near, far)
                self._start(self._carry, far, near)

    def _carry(self, one, other):
        with one, contextlib.suppress(OSError):
            while data := one.recv(65_536):
                if not self._is_cut:
                    other.sendall(data)
        self._end(other)

    @staticmethod
    def _end(end):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        """Nothing arrives from now on, and nobody is told."""
        self._is_cut = True

    def mend(self):
        """Carry again what is sent over new connections."""
        self._is_cut = False
        for end in self._sockets:
            self._end(end)

    def close(self):
        """Carry nothing any more."""
        self._end(self._server)
        self._server.close()
        self._threads[0].join()
        self.mend()
        for thread in self._threads:
            thread.join()
