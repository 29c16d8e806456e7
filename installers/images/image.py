"""The image on this host: is it there already, is there room for it; and taking away one that envcheck pulled."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envcheck.core.errors import StepError
from envcheck.core.secrets import redact
from envcheck.core.units import gib
from installers.images.engine import MACHINES, Engine
from installers.images.engine_problems import Problem
from installers.images.manifest import ResolvedImage
from installers.images.reference import Reference, parse

if TYPE_CHECKING:
    import docker

# Unpacked to compressed; the vendors' images of 15 GB are 37 to 39 GB when unpacked, a Debian with Python has 2.8.
UNPACKED = 2.5
ROOM_LEFT = 1 << 30  # bytes; the engine, and what the container writes


@dataclass(frozen=True)
class LocalImage:
    """An image that the engine has; `digest` is its manifest's as its registry says it, "" for one made here.

    `names` are those that the pull of it gave, which its undoing takes back, or the one by which it was found: that may
    be its id, where the engine has it under the name of another registry.
    """

    image_id: str
    digest: str
    architecture: str
    names: tuple[str, ...] = ()


def credentials(client: docker.DockerClient | None = None) -> Callable[[str], dict[str, Any]]:
    """Of a registry's host, as docker login left them; a helper program that fails is as good as none."""

    def of(host: str) -> dict[str, Any]:
        import docker
        from docker import auth

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a helper program that is not there, in Python's own words
                return dict(auth.resolve_authconfig(auth.load_config(), host) or {})
        except (docker.errors.DockerException, OSError, ValueError):
            return {}

    return of


def here(client: docker.DockerClient, found: ResolvedImage) -> LocalImage | None:
    """The image that was found, where the engine has it already: under whatever name."""
    digests = [digest for digest in (found.digest, found.list_digest) if digest]
    asked = [f"{found.reference.name}@{digest}" for digest in digests]
    for name in (*asked, found.image_id, *digests):
        there = named(client, name)
        if there and _is(found, there):
            return LocalImage(str(there["Id"]), found.digest, found.architecture, (name,))
    return None


def named_here(client: docker.DockerClient, references: Sequence[Reference], engine: Engine) -> LocalImage | None:
    """What the engine has under the first of these names, without asking any registry; for this architecture only."""
    for reference in references:
        there = named(client, str(reference))
        if there and MACHINES.get(str(there.get("Architecture"))) == engine.architecture:
            return LocalImage(str(there["Id"]), _own_digest(there, reference), engine.architecture, (str(reference),))
    return None


def room(found: ResolvedImage, engine: Engine, kept: int = 0) -> Problem | None:
    """Whether the pull would fill the disk; the first `kept` layers are there already."""
    if engine.free_bytes is None:
        return None
    needed = needed_bytes(found, kept)
    if engine.free_bytes >= needed:
        return None
    why = f"the image needs about {gib(needed)} at {engine.root}, and {gib(engine.free_bytes)} are free there"
    return Problem("space", why, "docker system prune, or move the engine's data-root to a larger disk")


def needed_bytes(found: ResolvedImage, kept: int = 0) -> int:
    """At the worst moment.  Layers are unpacked one by one: at the end all lie there unpacked, the last packed, too."""
    sizes = [part.size for part in found.layers[kept:]]
    return int(sum(sizes) * UNPACKED) + max(sizes, default=0) + ROOM_LEFT


def undo(client: docker.DockerClient, image_id: str, names: Sequence[str]) -> str:
    """Remove an image that a pull of envcheck's brought; what else leads to it stays.  What was done, in words.

    StepError where a container uses it.
    """
    if not named(client, image_id):
        return "it is gone already"
    with said(f"{image_id[:19]} cannot be removed"):
        for name in names:
            there = named(client, name)
            if there and there["Id"] == image_id:
                client.api.remove_image(name)
        there = named(client, image_id)
        if not there:
            return "removed"
        if others := [*(there.get("RepoTags") or ()), *(there.get("RepoDigests") or ())]:
            return f"kept, since it is {others[0]} as well"
        client.api.remove_image(image_id)
    return "removed"


def lead_back(client: docker.DockerClient, image_id: str, names: Sequence[str]) -> None:
    """Their tags to the image that had them before a pull took them; where they lead elsewhere by now they stay."""
    for reference in map(parse, names):
        if reference.tag and named(client, image_id) and not named(client, reference.tagged):
            with said(f"{reference.tagged} cannot be given back"):
                client.api.tag(image_id, reference.name, reference.tag)


@contextlib.contextmanager
def said(what: str) -> Iterator[None]:
    """The engine's refusals as sentences."""
    import docker
    import requests

    try:
        yield
    except (docker.errors.DockerException, requests.RequestException, OSError) as err:
        why = redact(str(getattr(err, "explanation", None) or err))[:300]
        used = "being used by" in why or "using its referenced image" in why
        next_step = "remove that container first" if used else "see the engine's log: journalctl -u docker"
        raise StepError(f"{what}: {why}", next_step) from None


def named(client: docker.DockerClient, name: str) -> dict[str, Any] | None:
    """What the engine says of an image; None where it has none of that name."""
    import docker

    with said(f"{name[:80]} cannot be looked up"):
        try:
            return dict(client.images.get(name).attrs)
        except docker.errors.NotFound:
            return None
    return None


def _is(found: ResolvedImage, there: dict[str, Any]) -> bool:
    """By its configuration's digest; engines with containerd's store know images by the manifest's, or the list's."""
    return there.get("Id") in (found.image_id, found.digest, found.list_digest)


def _own_digest(there: dict[str, Any], reference: Reference) -> str:
    named = [parse(name) for name in there.get("RepoDigests") or ()]
    return next((one.digest for one in named if one.name == reference.name), "")
