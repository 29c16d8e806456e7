"""An image's layers from the host that passes it on.

Its pull by its own name follows, and finds all layers here: only the manifest, some kB, comes from outside then, and
the image has the names, the digest and the notes that it always has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from envcheck.core.errors import StepError
from installers.images import engine, image, image_pull
from installers.images.manifest import ResolvedImage
from installers.images.reference import Reference
from installers.seeds import forward
from installers.seeds.forward import Forward
from installers.seeds.seed import Seed
from installers.state.progress import Event, Report

if TYPE_CHECKING:
    import docker

ALONE = "without --seed-node each host pulls for itself"


@contextlib.contextmanager
def way(seed: Seed | None) -> Iterator[Forward | None]:
    """To the host that passes the image on; None where nobody does."""
    if seed is None:
        yield None
        return
    if not engine.address().startswith("unix://"):
        raise StepError("the engine is on another machine, which this one's loopback does not lead to", ALONE)
    try:
        forward.why(seed)
    except OSError as err:
        open_one = f"open that port between the hosts, or name one that is open: --seed-node {seed.node}:PORT"
        raise StepError(
            f"{seed.node} is not reached at {seed.at}: {forward.said(err)}", f"{open_one}; {ALONE}"
        ) from None
    with forward.opened(seed) as opened:
        yield opened


def near(found: ResolvedImage, opened: Forward) -> ResolvedImage:
    """The same image, by the name that it has at our end of the way."""
    return replace(found, reference=Reference(f"127.0.0.1:{opened.port}", found.reference.repository, "", found.digest))


def fetch(client: docker.DockerClient, found: ResolvedImage, report: Report, opened: Forward) -> None:
    """StepError in words about the host that passes it on, where it is to blame."""
    report(Event("say", f"from {opened.seed.node}, at {opened.seed.at}"))
    try:
        image_pull.pull(client, found, report)
    except StepError as err:
        raise _blamed(opened, err) from None


def forget(client: docker.DockerClient, found: ResolvedImage) -> None:
    """The name alone, once the image has its own."""
    with contextlib.suppress(StepError), image.said("the name of the way"):
        if image.named(client, str(found.pinned)):
            client.api.remove_image(str(found.pinned))


def _blamed(opened: Forward, err: StepError) -> StepError:
    node = opened.seed.node
    try:
        why = forward.why(opened.seed)
    except OSError as cut:
        return StepError(
            f"{node} passes the image on no more: {forward.said(cut)}", f"see to it, then --resume; {ALONE}"
        )
    if why:
        return StepError(f"{node} cannot pass the image on: {why}", f"see to it, then --resume; {ALONE}")
    if not opened.used:
        return StepError("the engine has a loopback of its own (a rootless one has), and does not reach ours", ALONE)
    return err
