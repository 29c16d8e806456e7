"""Keep the finished layers of an interrupted pull.

An engine with the classic image store drops the finished layers when a pull fails or its client disconnects (observed
with 20.10), so the next pull starts from zero.  Test with six layers of 64 MiB, interrupted in the last one: without
this module the engine fetches all six again, with it three (EVERY_S 2; layers finished after the last save are lost).

The engine keeps layers that belong to an image.  So during a pull, the finished layers are saved periodically as an
image of their own, by loading an archive that names the layers but does not contain them: the engine looks for layers
in its store before it opens those of the archive.  Engines with the containerd store keep finished layers themselves
and reject the archive.
"""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
import time
from typing import TYPE_CHECKING, Any

from installers.images import local_image
from installers.images.manifest import ResolvedImage

if TYPE_CHECKING:
    import docker

EVERY_S = 15.0  # maximum work lost, besides the unfinished layer; each save takes 0.1 s
REPOSITORY = "envcheck/unfinished"
GO = {"x86_64": "amd64", "aarch64": "arm64"}


class UnfinishedImage:
    """The image that holds the finished layers of one pull."""

    def __init__(self, client: docker.DockerClient, found: ResolvedImage, every_s: float = EVERY_S) -> None:
        self._client, self._found, self._every_s = client, found, every_s
        self._count, self._last, self._works = count_kept_layers(client, found), time.monotonic(), True

    def save_layers(self, count: int) -> None:
        """Save the first `count` layers, which are finished, unless the last save was less than every_s ago."""
        now = time.monotonic()
        if not self._works or count <= self._count or now - self._last < self._every_s:
            return
        before = local_image.inspect_image(self._client, unfinished_name(self._found.digest))
        try:
            self._client.images.load(build_archive(self._found, count))
        except Exception:  # if an engine rejects the archive, only resuming an interrupted pull is lost
            self._works = False
            return
        if before:
            _remove_image(self._client, str(before["Id"]))
        self._count, self._last = count, time.monotonic()


def unfinished_name(digest: str) -> str:
    """Return the name of the image that holds the finished layers of the image with this digest."""
    return f"{REPOSITORY}:{digest[7:19]}"


def count_kept_layers(client: docker.DockerClient, found: ResolvedImage) -> int:
    """Return how many leading layers of the image an interrupted pull has left in the engine."""
    there = local_image.inspect_image(client, unfinished_name(found.digest))
    root = there.get("RootFS") if there else None
    layers = root.get("Layers") if isinstance(root, dict) else None
    count = len(layers) if isinstance(layers, list) else 0
    return count if layers and tuple(layers) == found.diff_ids[:count] else 0


def remove_unfinished(client: docker.DockerClient, digest: str) -> None:
    """Remove the saved layers after a complete pull or an undo."""
    if local_image.inspect_image(client, unfinished_name(digest)):
        _remove_image(client, unfinished_name(digest))


def build_archive(found: ResolvedImage, count: int) -> bytes:
    """Return an archive for `docker load`: an image of the first `count` layers, without their content."""
    config: dict[str, Any] = {
        "architecture": GO.get(found.architecture, found.architecture),
        "os": "linux",
        "config": {"Labels": {"envcheck.unfinished": str(found.reference)}},
        "rootfs": {"type": "layers", "diff_ids": list(found.diff_ids[:count])},
    }
    layers = [f"{part.digest[7:]}/layer.tar" for part in found.layers[:count]]
    manifest = [{"Config": "config.json", "RepoTags": [unfinished_name(found.digest)], "Layers": layers}]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for file, content in (("config.json", config), ("manifest.json", manifest)):
            data = json.dumps(content).encode()
            member = tarfile.TarInfo(file)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def _remove_image(client: docker.DockerClient, which: str) -> None:
    """Remove the image; errors are ignored because a left-over image is harmless."""
    import docker
    import requests

    with contextlib.suppress(docker.errors.DockerException, requests.RequestException, OSError):
        client.api.remove_image(which)
