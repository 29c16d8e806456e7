"""A registry that fails on demand: a proxy in front of the real one."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

PIECE = 1 << 14


@dataclass
class RegistryFault:
    """The fault for requests whose path matches, up to `times` times.

    `status` with `headers` and `body` replaces the response; after `cut_after` bytes the connection ends, or hangs
    with `hang`; `pace_s` is a pause after every 16 KiB; `change` is applied to the registry's response.
    """

    match: str
    times: int = 10**6
    status: int = 0
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    hang: bool = False
    pace_s: float = 0.0
    change: Callable[[bytes], bytes] | None = None
    unless_header: str = ""


class FaultyProxy(ThreadingHTTPServer):
    """Forwards requests without a fault; counts the bytes of blobs sent, by path."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, behind: str, host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), _ProxyHandler)
        self.behind, self.faults, self.asked = behind, [], []  # type: ignore[var-annotated]
        self.sent: dict[str, int] = {}
        self.over = threading.Event()

    @property
    def host_port(self) -> str:
        return f"{self.server_address[0]!s}:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect."""

    def find_fault(self, path: str, headers: object) -> RegistryFault:
        for fault in self.faults:
            spared = fault.unless_header and fault.unless_header in str(headers)
            if fault.times > 0 and re.search(fault.match, path) and not spared:
                fault.times -= 1
                return fault
        return RegistryFault("")


class _ProxyHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyProxy

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.asked.append((self.command, self.path, dict(self.headers)))
        fault = self.server.find_fault(self.path, self.headers)
        if fault.status:
            return self._send_answer(fault.status, fault.headers, [fault.body], len(fault.body), fault)
        names = ("Accept", "Range", "Authorization")
        passed = {name: ", ".join(self.headers.get_all(name, ())) for name in names if self.headers.get(name)}
        with requests.request(
            self.command, self.server.behind + self.path, headers=passed, stream=True, timeout=30
        ) as said:
            kept = ("Content-Type", "Docker-Content-Digest", "Content-Range", "Accept-Ranges", "Etag")
            headers = {name: said.headers[name] for name in kept if name in said.headers}
            if fault.change:
                body = fault.change(said.content)
                return self._send_answer(said.status_code, headers, [body], len(body), fault)
            length = int(said.headers.get("Content-Length", 0))
            return self._send_answer(said.status_code, headers, said.iter_content(PIECE), length, fault)

    def _send_answer(
        self, status: int, headers: dict[str, str], body: object, length: int, fault: RegistryFault
    ) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(length)} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        gone = 0
        for piece in body:  # type: ignore[attr-defined]
            if fault.cut_after is not None and gone + len(piece) > fault.cut_after:
                self.wfile.write(piece[: fault.cut_after - gone])
                self.wfile.flush()
                if fault.hang:
                    self.server.over.wait(60)
                self.close_connection = True
                self.connection.close()
                return
            self.wfile.write(piece)
            gone += len(piece)
            self.server.sent[self.path] = self.server.sent.get(self.path, 0) + len(piece)
            if fault.pace_s:
                time.sleep(fault.pace_s)


@contextlib.contextmanager
def start_proxy(behind: str, *faults: RegistryFault, host: str = "127.0.0.1") -> Iterator[FaultyProxy]:
    """A running proxy at an address of this machine; `behind` is the URL of the registry."""
    server = FaultyProxy(behind, host)
    server.faults.extend(faults)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
