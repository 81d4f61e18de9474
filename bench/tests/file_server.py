"""A server of files over HTTP on this computer, which can fail in the ways in which servers do."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer(ThreadingHTTPServer):
    """Serves `files` and says in `requests` what it was asked for: path, and the Range header or None.

    `closes_after` bytes of the next answer it closes the connection, once. The header `version`, by
    default an ETag, tells one version of a file from another, if it is not None; without `lengths`,
    none says how long a file is; without `ranges`, parts are not served, and if `careless`, they
    are served of whatever version there is. `excess` is sent behind what the length says, in
    chunks, so that the client does not stop by itself.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.sent = 0  # bytes of content
        self.closes_after: int | None = None
        self.version: str | None = "ETag"
        self.lengths = self.ranges = True
        self.careless = False
        self.excess = b""
        self.shift = 0  # by how many bytes parts begin too late

    @property
    def home(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.requests.append((self.path, wanted))
        content = server.files.get(self.path.removeprefix("/"))
        if content is None:
            return self.send_error(404)
        tag = zlib.crc32(content)
        version, first = f'"{tag}"' if server.version == "ETag" else formatdate(tag, usegmt=True), 0
        if wanted and server.ranges and (server.careless or self.headers.get("If-Range") == version):
            first = int(wanted.removeprefix("bytes=").removesuffix("-")) + server.shift
            if first >= len(content):
                return self.send_error(416)
        if server.excess:
            self.protocol_version, self.close_connection = "HTTP/1.1", True
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        if server.version:
            self.send_header(server.version, version)
        if server.lengths:
            self.send_header("Content-Length", str(len(content) - first))
        if server.excess:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        rest = content[first:][: server.closes_after]
        server.closes_after = None
        server.sent += len(rest)  # before the client can know
        if server.excess:
            with suppress(ConnectionError):  # the client has seen enough
                for chunk in (rest, *[server.excess] * 1000):
                    server.sent += len(chunk)
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                self.wfile.write(b"0\r\n\r\n")
            return
        self.wfile.write(rest)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@contextmanager
def file_server() -> Iterator[FileServer]:
    """Run a server meanwhile."""
    with FileServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
