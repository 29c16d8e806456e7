"""What a target takes from a bundle instead of the network: wheels, clones, and the engine's image."""

from __future__ import annotations

import contextlib
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envcheck.core import paths
from envcheck.core.errors import StepError
from envcheck.core.messages import NOTHING, Message, _
from envcheck.core.units import format_gib
from installers.bundle import archive_reader, contents
from installers.bundle.assembly import EXPORT_S
from installers.bundle.sources import BUNDLE, Supply
from installers.images import local_image
from installers.images.engine_problems import EngineProblem
from installers.state import journal
from installers.state.journal import Entry
from installers.state.progress import Report

if TYPE_CHECKING:
    import docker

    from installers.images.docker_engine import DockerEngine
    from installers.recipes.recipe import Checkout
    from installers.targets.target import Target

UNPACKING = "bundle"  # name of the journal entry, like a step's name
AGAIN = _("run the same command again to reload it")


def unpack_parts(supply: Supply, folder: Path) -> None:
    """Unpack the bundle; the journal entry is written first, so that an undo knows of it."""
    assert supply.bundle
    journal.write_entry(folder, UNPACKING, "made", deed=f"parts {supply.bundle.folder}")
    assert supply.unpacked_bundle


def remove_parts(entry: Entry) -> Message:
    """Delete unpacked files, but only those in envcheck's own folder for bundles."""
    folder = Path(journal.split_deed(entry)[1])
    if folder.parent == paths.envcheck_home() / "bundles":
        shutil.rmtree(folder, ignore_errors=True)
    return NOTHING


def lend_wheels(supply: Supply, target: Target) -> AbstractContextManager[str]:
    """Return a folder of the target with the bundle's wheels; "" without a bundle."""
    return (
        target.lend_path(supply.unpacked_bundle.wheels_folder, BUNDLE)
        if supply.unpacked_bundle
        else contextlib.nullcontext("")
    )


def lend_tools(supply: Supply, target: Target) -> AbstractContextManager[str]:
    """Return a folder of the target with the clones' build dependencies; "" without a bundle."""
    return (
        target.lend_path(supply.unpacked_bundle.tools_folder, "tools")
        if supply.unpacked_bundle
        else contextlib.nullcontext("")
    )


def lend_clone(supply: Supply, target: Target, checkout: Checkout) -> AbstractContextManager[str]:
    """Return the path of the clone's git bundle on the target; "" without a bundle."""
    if not supply.unpacked_bundle:
        return contextlib.nullcontext("")
    return target.lend_path(supply.unpacked_bundle.checkouts_folder / contents.bundle_name(checkout), "clone")


def find_loaded_image(client: docker.DockerClient, supply: Supply) -> dict[str, Any] | None:
    """Return the engine's information on the bundle's image; containerd's image store identifies it by manifest."""
    assert supply.bundle and supply.bundle.image
    found = supply.bundle.image
    names = (found.id, f"sha256:{found.manifest.name[-64:]}")
    return next(filter(None, (local_image.inspect_image(client, name) for name in names)), None)


def check_engine_space(supply: Supply, engine: DockerEngine) -> EngineProblem | None:
    """Return a problem if the engine's disk lacks space: it stores the stream before it imports the layers."""
    assert supply.bundle and supply.bundle.image
    inside = supply.bundle.image
    size = sum(layer.size for layer in inside.layers)
    needed = size + int(size * (local_image.UNPACKED if inside.packed else 1)) + local_image.ROOM_LEFT
    if engine.free_bytes is None or engine.free_bytes >= needed:
        return None
    why = _(
        "the image needs about {needed} at {root}; {free_bytes} free",
        needed=format_gib(needed),
        root=engine.root,
        free_bytes=format_gib(engine.free_bytes),
    )
    return EngineProblem("space", why, _("run `docker system prune`, or move the engine's data-root to a larger disk"))


def load_image(client: docker.DockerClient, supply: Supply, folder: Path, report: Report) -> Message:
    """Load the image into the engine; the journal entry for an undo is written first, because the run may be
    interrupted.
    """
    assert supply.bundle and supply.bundle.image
    found = supply.bundle.image
    names = [] if "@" in found.reference else [found.reference]
    journal.write_entry(folder, "load", "made", deed=_("image {id}", id=found.id), names=names)
    _stream_image(client, supply, report)
    there = find_loaded_image(client, supply)
    if there is None:
        raise StepError(_("the engine loaded an image other than {id}", id=found.id[:19]), AGAIN)
    if there["Id"] != found.id:
        journal.write_entry(folder, "load", "made", deed=_("image {id}", id=there["Id"]), names=names)
    return _("{reference} is {id}", reference=found.reference, id=str(there["Id"])[:19])


def _stream_image(client: docker.DockerClient, supply: Supply, report: Report) -> None:
    """Send the stream; the engine answers only after it has received everything."""
    assert supply.bundle
    api = client.api
    before, api.timeout = api.timeout, int(EXPORT_S)
    try:
        with local_image.translate_errors(_("cannot load the image of the bundle")):
            stream = archive_reader.stream_image(supply.bundle, report)
            for line in api.load_image(stream, quiet=True) or ():  # type: ignore[no-untyped-call]
                if isinstance(line, dict) and line.get("error"):
                    raise StepError(
                        _("the engine cannot load the image: {error}", error=str(line["error"])[:300]), AGAIN
                    )
    finally:
        api.timeout = before
