"""HTTP server of a site's metrics, which no client can use to stop or slow the site."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from typing import Any, Self

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from dimargin.gossip.sites.site_metrics import SiteMetrics

MAX_SECONDS = 2.0
"""Time for a request and its answer, after which the connection is closed."""

_PAUSE_SECONDS = 0.02  # Seconds between requests: fifty requests per second take a few percent of a processor.


class MetricsServer(TCPServer):
    """Server for one client after the other, in a thread of its own between `__enter__` and `__exit__`.

    Parameters
    ----------
    address : str
        A port of 127.0.0.1, or an address with a port: ``"9464"``, ``"0.0.0.0:9464"``,
        ``"[::1]:9464"``.
    status : callable
        Returns the site's last status, a new object for every new status, or None before the first.

    Raises
    ------
    ValueError
        If the address is invalid, or this process cannot listen there.
    """

    allow_reuse_address = True  # A restarted site need not wait for the end of old connections.

    def __init__(self, address: str, status: Callable[[], Mapping[str, Any] | None]) -> None:
        host, port = _parsed(address)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._status, self._page = status, b""
        self._last: Mapping[str, Any] | None = None  # Status of the page.
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise ValueError(f"--metrics {address}: cannot listen there: {error.strerror or error}") from error

    def metrics(self) -> bytes | None:
        """Return the metrics of the last status, which are computed once per status; None if there is no status."""
        status = self._status()
        if status is not None and status is not self._last:
            self._page, self._last = generate_latest(SiteMetrics(status)), status
        return None if status is None else self._page

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, name="metrics", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def service_actions(self) -> None:
        """Pause after every request, and after a connection for which no descriptor is free."""
        time.sleep(_PAUSE_SECONDS)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error: the connection is closed, and the client may try again."""


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer

    def handle(self) -> None:
        deadline = threading.Timer(MAX_SECONDS, self._end)
        deadline.daemon = True
        deadline.start()
        try:
            super().handle()
        finally:
            deadline.cancel()

    def _end(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            return self.send_error(404, "the metrics are at /metrics")
        page = self.server.metrics()
        if page is None:
            return self.send_error(503, "the site has no status yet")
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE_LATEST)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)
        return None

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: a client could fill the disk with its requests."""


def _parsed(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise ValueError(f"--metrics must be a port or ADDRESS:PORT, such as 9464 or 0.0.0.0:9464; got {address!r}")
    return host.strip("[]") or "127.0.0.1", int(port)
