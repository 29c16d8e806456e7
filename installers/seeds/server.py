"""The registry that passes an image on: read-only, for who says the run's token before anything else."""

from __future__ import annotations

import contextlib
import hmac
import re
import socket
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from installers.seeds.blob import Blob, LostError
from installers.seeds.seed import WHY, refusal
from installers.seeds.store import Store

TOKEN_S, IDLE_S = 10.0, 600.0
BYTES = "application/octet-stream"
STRANGERS = 256  # connections that have not said the token yet
_PATH = re.compile(r"/v2/[a-z0-9._/-]{1,400}/(manifests|blobs)/(sha256:[0-9a-f]{64})")
_RANGE = re.compile(r"bytes=(\d{1,15})-")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: str, port: int, token: str, store: Store) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.token, self.store, self.used = token, store, time.monotonic()
        self.strangers = threading.BoundedSemaphore(STRANGERS)
        super().__init__((address, port), _Talk)

    def server_bind(self) -> None:
        """Without the question for its name, which can take long."""
        socketserver.TCPServer.server_bind(self)

    def verify_request(self, request: object, client_address: object) -> bool:
        return self.strangers.acquire(blocking=False)

    def handle_error(self, request: object, client_address: object) -> None:
        """Who went away is no news."""


class _Talk(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = TOKEN_S
    server: Server

    def handle(self) -> None:
        try:
            said = self.rfile.readline(80).strip()
        finally:
            self.server.strangers.release()
        if hmac.compare_digest(said, self.server.token.encode()):
            self.connection.settimeout(IDLE_S)
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.used = time.monotonic()
        if self.path in ("/v2/", "/v2"):
            return self._whole(200, "application/json", b"{}")
        if self.path == WHY:
            return self._whole(200, "text/plain", self.server.store.why.encode())
        found = _PATH.fullmatch(self.path)
        kind, digest = found.groups() if found else ("", "")
        if kind == "manifests" and digest in self.server.store.manifests:
            media, body = self.server.store.manifests[digest]
            return self._whole(200, media, body, digest)
        if kind == "blobs" and digest in self.server.store.blobs:
            return self._blob(self.server.store.blobs[digest])
        names = ", ".join(self.server.store.names)
        return self._no(404, f"{'MANIFEST' if kind == 'manifests' else 'BLOB'}_UNKNOWN", f"only {names} is passed on")

    def _blob(self, blob: Blob) -> None:
        asked = _RANGE.fullmatch(self.headers.get("Range") or "")
        size, start = blob.part.size, int(asked[1]) if asked else 0
        if self.command == "HEAD":
            return self._head(200, BYTES, size, blob.part.digest)
        if start > size:
            return self._no(416, "RANGE_INVALID", f"it has {size} bytes")
        try:
            blob.begin(start)
        except LostError as err:
            return self._no(403, "DENIED", str(err))
        headers = {"Content-Range": f"bytes {start}-{size - 1}/{size}"} if asked else {}
        self._head(206 if asked else 200, BYTES, size - start, blob.part.digest, **headers)
        return self._body(blob, start)

    def _body(self, blob: Blob, start: int) -> None:
        """What breaks off here is cut: the status has been said."""
        self.close_connection = True
        with contextlib.suppress(LostError):
            for piece in blob.pieces(start):
                self.server.used = time.monotonic()
                self.wfile.write(piece)
            self.close_connection = False

    def _no(self, status: int, code: str, message: str) -> None:
        """The engine tries 403 no second time."""
        self._whole(status, "application/json", refusal(code, message))

    def _whole(self, status: int, kind: str, body: bytes, digest: str = "") -> None:
        self._head(status, kind, len(body), digest)
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: int, kind: str, size: int, digest: str = "", **more: Any) -> None:
        self.send_response(status)
        told = {"Content-Type": kind, "Content-Length": str(size), "Docker-Distribution-Api-Version": "registry/2.0"}
        told |= {"Docker-Content-Digest": digest, "Accept-Ranges": "bytes"} if digest else {}
        for name, value in (told | more).items():
            self.send_header(name, value)
        self.end_headers()
