"""A proxy with a login, for tests: whatever host is asked for, the answer comes from one server of the test."""

from __future__ import annotations

import base64
import http.server
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

LOGIN = "me:geheim"


class LoginProxy(http.server.ThreadingHTTPServer):
    """A proxy for http that requires `login`, and finds every host at `origin`; `asked` are the URLs."""

    def __init__(self, origin: str, login: str = LOGIN) -> None:
        self.origin, self.login, self.asked, self.refused = origin, login, list[str](), 0
        super().__init__(("127.0.0.1", 0), _ProxyHandler)

    @property
    def base_url(self) -> str:
        return f"http://{self.login}{'@' if self.login else ''}127.0.0.1:{self.server_port}"


class _ProxyHandler(http.server.BaseHTTPRequestHandler):
    server: LoginProxy

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        known = base64.b64encode(self.server.login.encode()).decode()
        if self.server.login and self.headers.get("Proxy-Authorization") != f"Basic {known}":
            self.server.refused += 1
            self.send_response(407)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.server.asked.append(self.path)
        path = "/" + self.path.partition("://")[2].partition("/")[2]
        kept = {name: ", ".join(self.headers.get_all(name) or ()) for name in ("Accept", "Range") if self.headers[name]}
        request = urllib.request.Request(self.server.origin + path, headers=kept, method=self.command)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
                self._send_answer(answer.status, dict(answer.headers.items()), answer.read())
        except urllib.error.HTTPError as err:
            self._send_answer(err.code, dict(err.headers.items()), err.read())

    def _send_answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "date", "server"):
                self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@contextmanager
def serve_proxy(origin: str, login: str = LOGIN) -> Iterator[LoginProxy]:
    """Run the proxy in a thread."""
    made = LoginProxy(origin, login)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    try:
        yield made
    finally:
        made.shutdown()
        made.server_close()
