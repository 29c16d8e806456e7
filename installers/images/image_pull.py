"""Pulling an image by its digest through the docker SDK: progress per layer, what is cut is taken up again, what
arrived is compared with what was asked for."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envcheck.core.errors import StepError
from installers.images import image
from installers.images.image import LocalImage
from installers.images.image_progress import Broken, Progress, meaning
from installers.images.manifest import ResolvedImage
from installers.images.pull_resume import EVERY_S, Anchor, forget
from installers.state.progress import Event, Report

if TYPE_CHECKING:
    import docker

STALL_S = 600.0  # without a word from the engine; it is silent while it checks the sha256 of a layer of many GB
ATTEMPTS, PAUSE_S = 3, 2.0  # the engine itself has tried each layer five times by then
LINE_LIMIT = 1 << 20  # bytes; the engine's lines have some hundred


def pull(
    client: docker.DockerClient,
    found: ResolvedImage,
    report: Report,
    *,
    stall_s: float = STALL_S,
    every_s: float = EVERY_S,
    moves: bool = False,
) -> LocalImage:
    """The image, in the engine under its digest and its tag; `moves`: also where another one has the tag, as after
    docker pull.  StepError names the reason; finished layers stay."""
    anchor = Anchor(client, found, every_s)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _once(client, found, Progress(found, report, anchor.hold), stall_s)
            break
        except Broken as broken:
            if not broken.passing or attempt == ATTEMPTS:
                raise StepError(f"{found.reference}: {broken.message}", broken.next_step) from None
            report(Event("say", f"{broken.message}; trying again ({attempt + 1} of {ATTEMPTS})"))
            time.sleep(PAUSE_S * attempt)
    there = _verified(client, found, moves)
    forget(client, found.digest)
    return there


def _once(client: docker.DockerClient, found: ResolvedImage, progress: Progress, stall_s: float) -> None:
    import docker
    import requests

    try:
        for line in _lines(client, found, stall_s):
            progress.line(line)
    except docker.errors.APIError as err:
        raise meaning(str(err.explanation or err), found) from None
    except (requests.RequestException, OSError) as err:
        if "timed out" in str(err).lower():
            raise Broken(f"nothing arrived for {stall_s:.0f} s", "see --registry for another one", True) from None
        raise Broken("the engine broke off", "see its log: journalctl -u docker", True) from None
    progress.end()


def _lines(client: docker.DockerClient, found: ResolvedImage, stall_s: float) -> Iterator[dict[str, Any]]:
    """What the engine tells while it pulls.  Not by the SDK's own pull, which waits for ever."""
    from docker import auth

    api = client.api
    known = image.credentials(client)(found.reference.host)
    said = api.post(
        f"{api.base_url}/v{api.api_version}/images/create",
        params={"fromImage": found.pinned.name, "tag": found.digest},
        headers={"X-Registry-Auth": auth.encode_header(known)} if known else {},
        timeout=stall_s,
        stream=True,
    )
    with contextlib.closing(said):  # which makes the engine stop
        api._raise_for_status(said)  # type: ignore[attr-defined]  # as all of the SDK's own calls do
        for line in said.iter_lines():
            yield from _objects(line)


def _objects(line: bytes) -> Iterable[dict[str, Any]]:
    try:
        read = json.loads(line) if len(line) < LINE_LIMIT else None
    except (ValueError, RecursionError):
        return
    if isinstance(read, dict):
        yield read


def _verified(client: docker.DockerClient, found: ResolvedImage, moves: bool) -> LocalImage:
    """What has come is what was asked for; it gets its tag, unless another image here has that name and may keep it."""
    there = image.here(client, found)
    if not there:
        said = f"{found.reference}: the engine has pulled something else than {found.digest[:19]}..."
        raise StepError(said, "see --registry for another one")
    names = [str(found.pinned)]
    tagged = found.reference.tagged
    if tagged and (moves or not image.named(client, tagged)):
        with image.said(f"{tagged} cannot be given as a name"):
            client.api.tag(there.image_id, found.reference.name, found.reference.tag)
        names.insert(0, tagged)
    return replace(there, names=tuple(names))
