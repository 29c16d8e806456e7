"""A small API server: it validates objects with the published schemas, and responds like the Kubernetes API."""

from __future__ import annotations

import contextlib
import copy
import json
import queue
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

from tests.launch.backends.k8s import k8s_parts
from tests.launch.backends.k8s.api_parts import USERS, ApiServer, Object


@dataclass
class _ObjectStore:
    """The state of the small server: objects by the path of their list, and the watches."""

    objects: dict[str, dict[str, Object]] = field(default_factory=dict)
    watching: list[tuple[str, queue.Queue[Object]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    number: int = 0
    cuts: int = 0  # so many watches are cut off before a word

    def put_object(self, where: str, body: Object, kind: str) -> Object:
        """Store an object with server metadata, and notify the watches."""
        with self.lock:
            self.number += 1
            old = self.objects.setdefault(where, {}).get(body["metadata"]["name"])
            body["metadata"] |= {"uid": (old or {"metadata": {"uid": str(uuid.uuid4())}})["metadata"]["uid"]}
            body["metadata"] |= {"resourceVersion": str(self.number), "namespace": "default"}
            if kind == "DELETED":
                del self.objects[where][body["metadata"]["name"]]
            else:
                self.objects[where][body["metadata"]["name"]] = body
            for watched, events in self.watching:
                if watched == where:
                    events.put({"type": kind, "object": copy.deepcopy(body)})
        return body


class _SmallHandler(BaseHTTPRequestHandler):
    """Handles requests with the paths of the Kubernetes API."""

    protocol_version = "HTTP/1.1"
    kept: _ObjectStore

    def log_message(self, *_: object) -> None:
        """Do not log requests."""

    def do_GET(self) -> None:
        self._answer_request(self._handle_get)

    def do_POST(self) -> None:
        self._answer_request(self._handle_post)

    def do_DELETE(self) -> None:
        self._answer_request(self._handle_delete)

    def do_PATCH(self) -> None:
        self._answer_request(self._handle_patch)

    def _answer_request(self, deed: Any) -> None:
        self.url, self.said = urlparse(self.path), {}
        length = int(self.headers.get("Content-Length") or 0)
        self.said = json.loads(self.rfile.read(length) or b"{}")
        user = USERS.get(self.headers.get("Authorization", ""))
        if user is None:
            return self._send_status(401, "Unauthorized")
        parts = self.url.path.strip("/").split("/")
        kind = parts[-1] if "namespaces" not in parts else (parts[parts.index("namespaces") + 2 :] or ["namespaces"])[0]
        if user == "stranger" or (user == "tenant" and kind == "nodes"):
            words = f'{kind} is forbidden: User "{user}" cannot create resource "{kind}" in the namespace "default"'
            return self._send_status(403, words)
        if parts[0] == "apis" and parts[1] != "apiextensions.k8s.io" and not self._has_kind(parts[1], kind):
            return self._send_status(404, "the server could not find the requested resource")
        deed(self.url.path.removesuffix("/status"))
        return None

    def _has_kind(self, group: str, plural: str) -> bool:
        known = self.kept.objects.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {})
        return f"{plural}.{group}" in known

    def _handle_post(self, where: str) -> None:
        if "/namespaces/" in where and "/namespaces/default/" not in where:
            return self._send_status(404, f'namespaces "{where.split("/namespaces/")[1].split("/")[0]}" not found')
        name = self.said["metadata"]["name"]
        if name in self.kept.objects.get(where, {}):
            return self._send_status(409, f'"{name}" already exists')
        if self.said["kind"] != "CustomResourceDefinition" and (found := k8s_parts.list_errors(self.said)):
            return self._send_status(422, f'{self.said["kind"]} "{name}" is invalid: {found[0]}')
        return self._send_json(201, self.kept.put_object(where, self.said, "ADDED"))

    def _handle_get(self, where: str) -> None:
        asked = {key: values[0] for key, values in parse_qs(self.url.query).items()}
        here, _, name = where.rpartition("/")
        if asked.get("watch") == "True" or asked.get("watch") == "true":
            return self._send_watch(where, asked)
        if where.endswith("/log"):
            return self._send_log(where.split("/")[-2], asked)
        if name in self.kept.objects.get(here, {}):
            return self._send_json(200, self.kept.objects[here][name])
        _, inside, behind = where.partition("/namespaces/")
        if behind.count("/") == 2 or (not inside and name not in ("customresourcedefinitions", "nodes")):
            return self._send_status(404, f'"{name}" not found')
        items = [
            body
            for body in self.kept.objects.get(where, {}).values()
            if _matches_labels(body, asked.get("labelSelector"))
        ]
        return self._send_json(
            200, {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "0"}, "items": items}
        )

    def _send_log(self, pod: str, asked: Mapping[str, str]) -> None:
        """Send a log, with timestamps if requested."""
        if pod not in self.kept.objects.get("logs", {}):
            return self._send_status(404, f'pods "{pod}" not found')
        lines = self.kept.objects["logs"][pod]["text"].splitlines()
        if asked.get("timestamps") in ("True", "true"):
            lines = [f"2026-01-01T00:00:{number:02d}.5Z {line}" for number, line in enumerate(lines)]
        return self._send_text("\n".join(lines) + "\n")

    def _send_watch(self, where: str, asked: Mapping[str, str]) -> None:
        """Send existing objects, then changes, until the client's timeout or for 2 s."""
        name = asked.get("fieldSelector", "").removeprefix("metadata.name=")
        events: queue.Queue[Object] = queue.Queue()
        with self.kept.lock:
            for body in self.kept.objects.get(where, {}).values():
                events.put({"type": "ADDED", "object": copy.deepcopy(body)})
            self.kept.watching.append((where, events))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self.kept.cuts:
            self.kept.cuts -= 1
            self.close_connection = True
            return
        until = time.monotonic() + 2.0
        with contextlib.suppress(queue.Empty, OSError):
            while (left := until - time.monotonic()) > 0:
                event = events.get(timeout=left)
                if event["object"]["metadata"]["name"] == name:
                    data = json.dumps(event).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        with contextlib.suppress(OSError):
            self.wfile.write(b"0\r\n\r\n")
        self.kept.watching.remove((where, events))
        return

    def _handle_patch(self, where: str) -> None:
        here, _, name = where.rpartition("/")
        body = {**self.kept.objects[here][name], **self.said}
        self._send_json(200, self.kept.put_object(here, body, "MODIFIED"))

    def _handle_delete(self, where: str) -> None:
        here, _, name = where.rpartition("/")
        body = self.kept.objects.get(here, {}).get(name)
        if body is None:
            return self._send_status(404, f'"{name}" not found')
        return self._send_json(200, self.kept.put_object(here, body, "DELETED"))

    def _send_status(self, code: int, message: str) -> None:
        self._send_json(
            code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
        )

    def _send_json(self, code: int, body: Object) -> None:
        self._send_data(code, "application/json", json.dumps(body).encode())

    def _send_text(self, text: str) -> None:
        self._send_data(200, "text/plain", text.encode())

    def _send_data(self, code: int, kind: str, data: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _matches_labels(body: Object, selector: str | None) -> bool:
    wanted = dict(pair.split("=") for pair in (selector or "").split(",") if pair)
    return wanted.items() <= (body["metadata"].get("labels") or {}).items()


class _SmallServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


@contextlib.contextmanager
def start_small_api(folder: Path) -> Iterator[tuple[ApiServer, _ObjectStore]]:
    kept = _ObjectStore()
    server = _SmallServer(("127.0.0.1", 0), type("Handler", (_SmallHandler,), {"kept": kept}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield ApiServer(f"http://127.0.0.1:{server.server_address[1]}", folder, False), kept
    finally:
        server.shutdown()
        server.server_close()
