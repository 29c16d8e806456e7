"""Digest and architectures of an image from its registry, without an engine."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from envcheck.core.errors import StepError
from installers.images.published_image import PublishedImage, find_published_image
from installers.images.reference import parse_reference
from launch.backends.k8s.image_choice import PodImage, pin_image

LIST = "application/vnd.oci.image.index.v1+json"
SINGLE = "application/vnd.oci.image.manifest.v1+json"
CONFIG = json.dumps({"architecture": "arm64", "os": "linux"}).encode()


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def describe_blob(data: bytes) -> dict[str, object]:
    return {"mediaType": "application/octet-stream", "digest": digest_of(data), "size": len(data)}


INDEX = json.dumps({"schemaVersion": 2, "mediaType": LIST, "manifests": [
    {**describe_blob(b"x"), "platform": {"os": "linux", "architecture": name}} for name in ("arm64", "amd64")
] + [{**describe_blob(b"y"), "platform": {"os": "unknown", "architecture": "unknown"}}]}).encode()  # fmt: skip
ONE = json.dumps(
    {"schemaVersion": 2, "mediaType": SINGLE, "config": describe_blob(CONFIG), "layers": [describe_blob(b"layer")]}
).encode()
ANSWERS = {
    "/v2/team/multi/manifests/1": (LIST, INDEX),
    "/v2/team/one/manifests/1": (SINGLE, ONE),
    f"/v2/team/one/blobs/{digest_of(CONFIG)}": ("application/json", CONFIG),
}


class _RegistryHandler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Do not log requests."""

    def do_GET(self) -> None:
        kind, body = ANSWERS.get(self.path, ("application/json", b"{}"))
        self.send_response(200 if self.path in ANSWERS or self.path == "/v2/" else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _RegistryHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join(60)


def test_a_list_names_its_architectures(host: str) -> None:
    """The digest is that of the list, so that each node pulls its own image."""
    found = find_published_image(parse_reference(f"{host}/team/multi:1"))

    assert found == PublishedImage(digest_of(INDEX), ("aarch64", "x86_64"))


def test_pods_get_the_digest_and_the_only_architecture(host: str) -> None:
    """A pinned image is named by digest; one with a single architecture selects nodes, one with several does not."""
    one = pin_image(PodImage(f"{host}/team/one:1"), "")
    several = pin_image(PodImage(f"{host}/team/multi:1", "x86_64"), "")

    assert one == PodImage(f"{host}/team/one@{digest_of(ONE)}", "aarch64", ("aarch64",))
    assert several == PodImage(f"{host}/team/multi@{digest_of(INDEX)}", "", ("aarch64", "x86_64"))


@pytest.mark.parametrize(("name", "architecture", "reason"), [
    ("team/one:1", "x86_64", "is for aarch64, not for x86_64"),
    ("team/none:1", "", "--pin-images"),
])  # fmt: skip
def test_what_the_registry_lacks_is_refused(host: str, name: str, architecture: str, reason: str) -> None:
    """An image that does not exist, or not for the architecture, is an error with the reason."""
    with pytest.raises(StepError) as caught:
        pin_image(PodImage(f"{host}/{name}"), architecture)

    assert reason in f"{caught.value} {caught.value.next_step}"
