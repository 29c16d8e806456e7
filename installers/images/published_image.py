"""The digest and the architectures of an image in its registry, without an engine and without the image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.core.errors import StepError
from envcheck.core.messages import _
from installers.images import local_image, manifest, registry
from installers.images.docker_engine import MACHINES, DockerEngine
from installers.images.manifest import InvalidManifest
from installers.images.reference import ImageReference
from installers.images.registry_connection import RegistryConnection, RegistryRefusal


@dataclass(frozen=True)
class PublishedImage:
    """`digest` is that of the list for an image with several architectures, which uname's names are."""

    digest: str
    architectures: tuple[str, ...]


def find_published_image(reference: ImageReference, engine: DockerEngine | None = None) -> PublishedImage:
    """Return what the registry has under this name; StepError if it does not answer or has no such image."""
    refusal = _("no registry answered")
    try:
        for link in registry.open_connections(
            reference, engine or DockerEngine(""), local_image.registry_credentials()
        ):
            return _read_image(link, reference)
    except (RegistryRefusal, InvalidManifest) as err:
        refusal = err.message if isinstance(err, RegistryRefusal) else err.why
    raise StepError(
        _("{reference}: {message}", reference=reference, message=refusal),
        _("check the name, or use the image without --pin-images"),
    )


def _read_image(link: RegistryConnection, reference: ImageReference) -> PublishedImage:
    kinds = ", ".join((*manifest.SINGLE, *manifest.LISTS))
    body, kind = link.get_body(f"manifests/{reference.digest or reference.tag}", manifest.SIZE_LIMIT, kinds)
    document = manifest.parse_document(body)
    if manifest.is_list(document, kind):
        return PublishedImage(manifest.compute_digest(body), tuple(sorted(set(_list_architectures(document)))))
    one = manifest.parse_manifest(body)
    config, _unused = link.get_body(f"blobs/{one.config.digest}", manifest.SIZE_LIMIT)
    machine = str(manifest.parse_document(config).get("architecture") or "")
    return PublishedImage(one.digest, (MACHINES.get(machine, machine),) if machine else ())


def _list_architectures(document: Mapping[str, Any]) -> Iterator[str]:
    entries = document.get("manifests")
    for entry in entries if isinstance(entries, list) else ():
        platform = entry.get("platform") if isinstance(entry, dict) else None
        if isinstance(platform, dict) and platform.get("os") == "linux":
            machine = str(platform.get("architecture"))[:40]
            yield MACHINES.get(machine, machine)
