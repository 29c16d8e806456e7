"""Small models with real safetensors files, and a loopback hub for the clients of Hugging Face and ModelScope."""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MODELSCOPE = "/api/v1/models/"
COMMIT = "c0ffee" + "0" * 34


def make_header(tensors: Mapping[str, Any], **more: Any) -> bytes:
    raw = json.dumps({**tensors, **more}).encode()
    return len(raw).to_bytes(8, "little") + raw


def write_shard(path: Path, *names: str, rows: int = 64) -> Path:
    """Write a safetensors file: each tensor `rows` x 8 of BF16."""
    size = rows * 8 * 2
    table = {
        name: {"dtype": "BF16", "shape": [rows, 8], "data_offsets": [i * size, (i + 1) * size]}
        for i, name in enumerate(names)
    }
    data = b"".join(bytes([65 + i % 26]) * size for i in range(len(names)))
    path.write_bytes(make_header(table, __metadata__={"format": "pt"}) + data)
    return path


def write_model(folder: Path, rows: int = 64) -> Path:
    """Write a complete model of two shards."""
    folder.mkdir(parents=True)
    placed: dict[str, str] = {}
    for number in (1, 2):
        name = f"model-0000{number}-of-00002.safetensors"
        tensors = [f"layers.{number}.{part}.weight" for part in ("q", "k", "v")]
        write_shard(folder / name, *tensors, rows=rows)
        placed |= dict.fromkeys(tensors, name)
    index = {"metadata": {"total_size": 6 * rows * 16}, "weight_map": placed}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text('{"model_type": "ernie4_5_moe"}')
    (folder / "tokenizer.model").write_bytes(b"\n\x0e\n\x05<unk>")
    return folder


class LocalHub(http.server.ThreadingHTTPServer):
    """Serves the folders below `root` as OWNER/NAME repositories; closes after `cut` bytes of a file.

    `sent` are the files that were downloaded, not only inspected; those that are `broken` come with another byte.
    """

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        self.root, self.cut, self.status, self.sent, self.broken = root, 0, 0, list[str](), set[str]()
        super().__init__(("127.0.0.1", 0), _HubHandler)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect."""


class _HubHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LocalHub

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path, _unused, query = self.path.partition("?")
        if path.startswith(MODELSCOPE):
            self._answer_modelscope(path.removeprefix(MODELSCOPE), dict(urllib.parse.parse_qsl(query)))
            return
        info = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/[^/]+|/tree/[^/]+)?", path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/([\w.-]+)", path)
        if self.server.status:
            self._send_response(self.server.status, b"{}", {})
        elif info and (folder := self.server.root / info[1]).is_dir():
            self._send_response(200, json.dumps(self._make_listing(folder, "/tree/" in path)).encode(), {})
        elif file and (there := self.server.root / file[1] / file[2]).is_file():
            self._send_file(there)
        else:
            self._send_response(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _answer_modelscope(self, path: str, query: Mapping[str, str]) -> None:
        name, _unused, asked = path.partition("/repo")
        folder = self.server.root / name
        file = folder / query.get("FilePath", "").rpartition("/")[2]
        if self.server.status or not folder.is_dir():
            self._send_response(self.server.status or 404, b'{"Code": 404, "Success": false, "Message": "no"}', {})
        elif asked == "/files":
            listed = [_describe_for_modelscope(each) for each in sorted(folder.iterdir())]
            answer = {"Code": 200, "Success": True, "Data": {"Files": listed}}
            self._send_response(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})
        elif asked == "" and file.is_file():
            self._send_file(file)
        else:
            self._send_response(404, b"{}", {})

    def _make_listing(self, folder: Path, tree: bool) -> Any:
        files = sorted(folder.iterdir())
        if tree:
            return [{"type": "file", "path": f.name, "size": f.stat().st_size, "oid": _make_etag(f)} for f in files]
        siblings = [{"rfilename": f.name, "size": f.stat().st_size, **_describe_blob(f)} for f in files]
        return {"id": folder.name, "modelId": folder.name, "sha": COMMIT, "siblings": siblings, "tags": []}

    def _send_file(self, path: Path) -> None:
        content, status = path.read_bytes(), 200
        wanted = self.headers.get("Range")
        known = {"ETag": f'"{_make_etag(path)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if self.command == "GET":
            self.server.sent.append(path.name)
        if wanted and (found := re.fullmatch(r"bytes=(\d+)-(\d*)", wanted)):
            known["Content-Range"] = f"bytes {found[1]}-{len(content) - 1}/{len(content)}"
            content, status = content[int(found[1]) :], 206
        if path.name in self.server.broken:
            content = content[:-1] + bytes([content[-1] ^ 1])
        self._send_response(status, content, known)

    def _send_response(self, status: int, content: bytes, more: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**more, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.server.cut and len(content) > self.server.cut:
            self.wfile.write(content[: self.server.cut])
            self.close_connection = True
            return
        self.wfile.write(content)


def _describe_blob(path: Path) -> dict[str, Any]:
    """Return what a hub tells of a large file."""
    if path.suffix != ".safetensors":
        return {}
    return {"lfs": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "size": path.stat().st_size,
                    "pointerSize": 130}}  # fmt: skip


def _describe_for_modelscope(path: Path) -> dict[str, Any]:
    sum_ = hashlib.sha256(path.read_bytes()).hexdigest()
    known = {"Path": path.name, "Name": path.name, "Type": "blob", "Size": path.stat().st_size}
    return {**known, "Sha256": sum_, "Revision": COMMIT, "IsLFS": path.suffix == ".safetensors"}


def _make_etag(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:40]


@contextmanager
def serve_hub(root: Path) -> Iterator[LocalHub]:
    hub = LocalHub(root)
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
