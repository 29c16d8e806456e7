"""Images in the engine of this host: look-up, disk space, and removal of images that envcheck pulled."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envcheck.core.errors import StepError
from envcheck.core.messages import Message, _
from envcheck.core.secrets import redact_text
from envcheck.core.units import format_gib
from installers.images.docker_engine import MACHINES, DockerEngine
from installers.images.engine_problems import EngineProblem
from installers.images.manifest import ResolvedImage
from installers.images.reference import ImageReference, parse_reference
from installers.state import undo_result

if TYPE_CHECKING:
    import docker

# Ratio of unpacked to compressed size: the vendors' images of 15 GB unpack to 37-39 GB; Debian with Python has 2.8.
UNPACKED = 2.5
ROOM_LEFT = 1 << 30  # bytes kept free for the engine and for files written in the container


@dataclass(frozen=True)
class LocalImage:
    """An image in the engine; `digest` is that of its manifest in the registry, "" for an image built here.

    `names` are the names that its pull added (an undo removes them), or the name by which it was found; that may be
    its id if the engine has it under the name of another registry.
    """

    image_id: str
    digest: str
    architecture: str
    names: tuple[str, ...] = ()


def registry_credentials(client: docker.DockerClient | None = None) -> Callable[[str], dict[str, Any]]:
    """Return a function from registry host to the credentials of `docker login`; {} if none, or if a helper fails."""

    def find_credentials(host: str) -> dict[str, Any]:
        import docker
        from docker import auth

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python's warning about a missing credential helper
                return dict(auth.resolve_authconfig(auth.load_config(), host) or {})
        except (docker.errors.DockerException, OSError, ValueError):
            return {}

    return find_credentials


def find_resolved(client: docker.DockerClient, found: ResolvedImage) -> LocalImage | None:
    """Return the image if the engine already has it, under any name; None if not."""
    digests = [digest for digest in (found.digest, found.list_digest) if digest]
    asked = [f"{found.reference.name}@{digest}" for digest in digests]
    for name in filter(None, (*asked, found.image_id, *digests)):
        there = inspect_image(client, name)
        if there and _is_same_image(found, there):
            return LocalImage(str(there["Id"]), found.digest, found.architecture, (name,))
    return None


def find_named(
    client: docker.DockerClient, references: Sequence[ImageReference], engine: DockerEngine
) -> LocalImage | None:
    """Return the first image that the engine has under one of these names, for its architecture; asks no registry."""
    for reference in references:
        there = inspect_image(client, str(reference))
        if there and MACHINES.get(str(there.get("Architecture"))) == engine.architecture:
            return LocalImage(str(there["Id"]), _own_digest(there, reference), engine.architecture, (str(reference),))
    return None


def check_space(found: ResolvedImage, engine: DockerEngine, kept: int = 0) -> EngineProblem | None:
    """Return a problem if the disk has too little space for the pull; the first `kept` layers are already there."""
    if engine.free_bytes is None:
        return None
    needed = needed_bytes(found, kept)
    if engine.free_bytes >= needed:
        return None
    why = _(
        "the image needs about {needed} at {root}; {free_bytes} free",
        needed=format_gib(needed),
        root=engine.root,
        free_bytes=format_gib(engine.free_bytes),
    )
    return EngineProblem("space", why, _("run `docker system prune`, or move the engine's data-root to a larger disk"))


def needed_bytes(found: ResolvedImage, kept: int = 0) -> int:
    """Return the peak disk usage of a pull: all layers unpacked, plus the largest one still compressed."""
    sizes = [part.size for part in found.layers[kept:]]
    return int(sum(sizes) * UNPACKED) + max(sizes, default=0) + ROOM_LEFT


def remove_image(client: docker.DockerClient, image_id: str, names: Sequence[str]) -> Message:
    """Remove these names of an image that envcheck pulled, and the image if no other name refers to it.

    Returns a message with the result.  Raises StepError if a container uses the image.
    """
    if not inspect_image(client, image_id):
        return _("already removed")
    with translate_errors(_("cannot remove {image_id}", image_id=image_id[:19])):
        for name in names:
            there = inspect_image(client, name)
            if there and there["Id"] == image_id:
                client.api.remove_image(name)
        there = inspect_image(client, image_id)
        if not there:
            return _("removed")
        if others := [*(there.get("RepoTags") or ()), *(there.get("RepoDigests") or ())]:
            return undo_result.keep(_("also tagged {others}", others=others[0]))
        client.api.remove_image(image_id)
    return _("removed")


def restore_tags(client: docker.DockerClient, image_id: str, names: Sequence[str]) -> None:
    """Give tags that a pull took back to the image that had them before; tags that exist again are left alone."""
    for reference in map(parse_reference, names):
        if reference.tag and inspect_image(client, image_id) and not inspect_image(client, reference.tagged_name):
            with translate_errors(_("cannot restore the tag {tagged}", tagged=reference.tagged_name)):
                client.api.tag(image_id, reference.name, reference.tag)


@contextlib.contextmanager
def translate_errors(what: Message) -> Iterator[None]:
    """Convert errors of the engine to StepError; `what` is the failed action."""
    import docker
    import requests

    try:
        yield
    except (docker.errors.DockerException, requests.RequestException, OSError) as err:
        why = redact_text(str(getattr(err, "explanation", None) or err))[:300]
        used = "being used by" in why or "using its referenced image" in why
        next_step = _("remove that container first") if used else _("check the engine's log: `journalctl -u docker`")
        raise StepError(_("{what}: {why}", what=what, why=why), next_step) from None


def inspect_image(client: docker.DockerClient, name: str) -> dict[str, Any] | None:
    """Return `docker image inspect` of an image; None if the engine has none of that name."""
    import docker

    with translate_errors(_("cannot look up {name}", name=name[:80])):
        try:
            return dict(client.images.get(name).attrs)
        except docker.errors.NotFound:
            return None
    return None


def _is_same_image(found: ResolvedImage, there: dict[str, Any]) -> bool:
    """Compare ids: the digest of the configuration, or with the containerd store that of the manifest or the list.

    An image of unknown id is the one that the engine has by this digest.
    """
    if not found.image_id and str(found.pinned_reference) in (there.get("RepoDigests") or ()):
        return True
    return there.get("Id") in (found.image_id, found.digest, found.list_digest)


def _own_digest(there: dict[str, Any], reference: ImageReference) -> str:
    named = [parse_reference(name) for name in there.get("RepoDigests") or ()]
    return next((one.digest for one in named if one.name == reference.name), "")
