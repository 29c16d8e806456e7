"""Resolve an image through the engine, with its proxies, mirrors and certificates: GET /distribution/NAME/json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from installers.images import local_image, manifest
from installers.images.docker_engine import MACHINES, DockerEngine
from installers.images.manifest import ResolvedImage
from installers.images.reference import ImageReference

if TYPE_CHECKING:
    import docker

    from installers.images.registry import AskEngine


def make_lookup(client: docker.DockerClient, engine: DockerEngine) -> AskEngine:
    """Return the function that asks this engine; it returns None if the engine does not know the image either."""

    def ask_engine(reference: ImageReference) -> ResolvedImage | None:
        import docker
        import requests

        credentials = local_image.registry_credentials(client)(reference.host)
        try:
            answer = client.api.inspect_distribution(str(reference), credentials or None)  # type: ignore[no-untyped-call]
        except (docker.errors.DockerException, requests.RequestException, OSError, ValueError):
            return None
        return parse_answer(answer, reference, engine.architecture)

    return ask_engine


def parse_answer(answer: Any, reference: ImageReference, architecture: str) -> ResolvedImage | None:
    """Return the image of the engine's answer, None if it is for other architectures.

    Layers and image id are unknown: the engine pulls by digest, and checks the content against it.
    """
    table = answer if isinstance(answer, dict) else {}
    descriptor = table.get("Descriptor") if isinstance(table.get("Descriptor"), dict) else {}
    digest = descriptor.get("digest") if isinstance(descriptor, dict) else None
    listed = table.get("Platforms")
    platforms = [p for p in listed if isinstance(p, dict)] if isinstance(listed, list) else []
    machines = {MACHINES.get(str(p.get("architecture")), "") for p in platforms}
    if not isinstance(digest, str) or not manifest.is_digest(digest) or (machines and architecture not in machines):
        return None
    return ResolvedImage(reference, digest, architecture, "", (), ())
