"""A server for --webhook that keeps what it receives."""

from __future__ import annotations

import http.server
import json
from typing import Any

SECRET = "s3cr3t-of-the-hook"


class HookServer(http.server.ThreadingHTTPServer):
    """Keeps the documents that it receives."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        super().__init__(("127.0.0.1", 0), HookHandler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{SECRET}"


class HookHandler(http.server.BaseHTTPRequestHandler):
    server: HookServer

    def do_POST(self) -> None:
        self.server.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Print nothing."""
