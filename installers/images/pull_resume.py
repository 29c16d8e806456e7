"""Keeping what a pull has finished when it is cut.

An engine with the classic store drops the finished layers of a pull that fails or whose client goes (tried with 20.10):
the next one would begin anew.  Six layers of 64 MiB, cut in the last one: without this the engine fetches six again,
with it three (EVERY_S 2; what finished after the last time is lost).

It keeps layers of which an image is made.  So while a pull goes on, the layers that are ready are made into an image of
their own from time to time, by loading an archive that names them without holding them: the engine looks for layers
among its own before it opens the archive's.  Engines with containerd's store keep finished layers by themselves, and
refuse the archive.
"""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
import time
from typing import TYPE_CHECKING, Any

from installers.images import image
from installers.images.manifest import ResolvedImage

if TYPE_CHECKING:
    import docker

EVERY_S = 15.0  # so much work is lost at most, besides the layer on its way; each time costs a tenth of a second
REPOSITORY = "envcheck/unfinished"
GO = {"x86_64": "amd64", "aarch64": "arm64"}


class Anchor:
    """The image that holds the finished layers of one pull."""

    def __init__(self, client: docker.DockerClient, found: ResolvedImage, every_s: float = EVERY_S) -> None:
        self._client, self._found, self._every_s = client, found, every_s
        self._count, self._last, self._works = kept(client, found), time.monotonic(), True

    def hold(self, count: int) -> None:
        """The first `count` layers are finished."""
        now = time.monotonic()
        if not self._works or count <= self._count or now - self._last < self._every_s:
            return
        before = image.named(self._client, name(self._found.digest))
        try:
            self._client.images.load(archive(self._found, count))
        except Exception:  # whatever an engine has against it: only the comfort of a cut pull is lost
            self._works = False
            return
        if before:
            _remove(self._client, str(before["Id"]))
        self._count, self._last = count, time.monotonic()


def name(digest: str) -> str:
    """Of the image that holds what there is of the image with this digest."""
    return f"{REPOSITORY}:{digest[7:19]}"


def kept(client: docker.DockerClient, found: ResolvedImage) -> int:
    """How many of the image's layers an earlier pull that was cut has left here."""
    there = image.named(client, name(found.digest))
    root = there.get("RootFS") if there else None
    layers = root.get("Layers") if isinstance(root, dict) else None
    count = len(layers) if isinstance(layers, list) else 0
    return count if layers and tuple(layers) == found.diff_ids[:count] else 0


def forget(client: docker.DockerClient, digest: str) -> None:
    """Nothing of it is unfinished any more, or shall be finished; an undo calls it as well."""
    if image.named(client, name(digest)):
        _remove(client, name(digest))


def archive(found: ResolvedImage, count: int) -> bytes:
    """What `docker load` takes: an image of the first layers, which are named and not there."""
    config: dict[str, Any] = {
        "architecture": GO.get(found.architecture, found.architecture),
        "os": "linux",
        "config": {"Labels": {"envcheck.unfinished": str(found.reference)}},
        "rootfs": {"type": "layers", "diff_ids": list(found.diff_ids[:count])},
    }
    layers = [f"{part.digest[7:]}/layer.tar" for part in found.layers[:count]]
    manifest = [{"Config": "config.json", "RepoTags": [name(found.digest)], "Layers": layers}]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for file, content in (("config.json", config), ("manifest.json", manifest)):
            data = json.dumps(content).encode()
            member = tarfile.TarInfo(file)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def _remove(client: docker.DockerClient, which: str) -> None:
    """It holds nothing that matters when it cannot be removed."""
    import docker
    import requests

    with contextlib.suppress(docker.errors.DockerException, requests.RequestException, OSError):
        client.api.remove_image(which)
