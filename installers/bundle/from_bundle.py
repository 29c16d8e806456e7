"""What a target takes out of a bundle instead of the network: wheels, clones, and the engine its image."""

from __future__ import annotations

import contextlib
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envcheck.core import paths
from envcheck.core.errors import StepError
from envcheck.core.units import gib
from installers.bundle import contents, read_bundle
from installers.bundle.make import EXPORT_S
from installers.bundle.sources import BUNDLE, Supply
from installers.images import image
from installers.images.engine_problems import Problem
from installers.state import journal
from installers.state.journal import Entry
from installers.state.progress import Report

if TYPE_CHECKING:
    import docker

    from installers.images.engine import Engine
    from installers.recipes.recipe import Checkout
    from installers.targets.target import Target

UNPACKING = "bundle"  # the journal's word, as a step's name is for what a step made
AGAIN = "repeat the same command: it is loaded anew"


def unpack(supply: Supply, folder: Path) -> None:
    """The bundle's parts, noted for an undo before they are there."""
    assert supply.bundle
    journal.write(folder, UNPACKING, "made", deed=f"parts {supply.bundle.folder}")
    assert supply.parts


def remove_parts(entry: Entry) -> str:
    """What was unpacked, of which only what lies where bundles are unpacked is ours."""
    folder = Path(journal.split_deed(entry)[1])
    if folder.parent == paths.home() / "bundles":
        shutil.rmtree(folder, ignore_errors=True)
    return ""


def links(supply: Supply, target: Target) -> AbstractContextManager[str]:
    """A folder of the target with the bundle's wheels, "" where there is no bundle."""
    return target.lend(supply.parts.wheels, BUNDLE) if supply.parts else contextlib.nullcontext("")


def tools(supply: Supply, target: Target) -> AbstractContextManager[str]:
    """The same with what builds clones."""
    return target.lend(supply.parts.tools, "tools") if supply.parts else contextlib.nullcontext("")


def clone(supply: Supply, target: Target, checkout: Checkout) -> AbstractContextManager[str]:
    """The clone's git bundle, as the target sees it; "" where there is none."""
    if not supply.parts:
        return contextlib.nullcontext("")
    return target.lend(supply.parts.checkouts / contents.bundle_name(checkout), "clone")


def here(client: docker.DockerClient, supply: Supply) -> dict[str, Any] | None:
    """What the engine says of the bundle's image.  Engines with containerd's store know it by its manifest."""
    assert supply.bundle and supply.bundle.image
    found = supply.bundle.image
    names = (found.id, f"sha256:{found.manifest.name[-64:]}")
    return next(filter(None, (image.named(client, name) for name in names)), None)


def room(supply: Supply, engine: Engine) -> Problem | None:
    """The engine unpacks the stream to its disk before it takes the layers in."""
    assert supply.bundle and supply.bundle.image
    inside = supply.bundle.image
    size = sum(layer.size for layer in inside.layers)
    needed = size + int(size * (image.UNPACKED if inside.packed else 1)) + image.ROOM_LEFT
    if engine.free_bytes is None or engine.free_bytes >= needed:
        return None
    why = f"the image needs about {gib(needed)} at {engine.root}, and {gib(engine.free_bytes)} are free there"
    return Problem("space", why, "docker system prune, or move the engine's data-root to a larger disk")


def load(client: docker.DockerClient, supply: Supply, folder: Path, report: Report) -> str:
    """The image into the engine.  What an undo takes back is noted before it is there: a cut may come right after."""
    assert supply.bundle and supply.bundle.image
    found = supply.bundle.image
    names = [] if "@" in found.reference else [found.reference]
    journal.write(folder, "load", "made", deed=f"image {found.id}", names=names)
    _stream(client, supply, report)
    there = here(client, supply)
    if there is None:
        raise StepError(f"the engine has loaded something else than {found.id[:19]}", AGAIN)
    if there["Id"] != found.id:
        journal.write(folder, "load", "made", deed=f"image {there['Id']}", names=names)
    return f"{found.reference} is {str(there['Id'])[:19]}"


def _stream(client: docker.DockerClient, supply: Supply, report: Report) -> None:
    """The engine takes the whole stream before it says a word."""
    assert supply.bundle
    api = client.api
    before, api.timeout = api.timeout, int(EXPORT_S)
    try:
        with image.said("the image of the bundle cannot be loaded"):
            stream = read_bundle.image_stream(supply.bundle, report)
            for line in api.load_image(stream, quiet=True) or ():  # type: ignore[no-untyped-call]
                if isinstance(line, dict) and line.get("error"):
                    raise StepError(f"the engine cannot load the image: {str(line['error'])[:300]}", AGAIN)
    finally:
        api.timeout = before
