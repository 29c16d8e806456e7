"""Pull an image by digest through the docker SDK: progress per layer, retries, and verification of the result."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envcheck.core.errors import StepError
from envcheck.core.messages import _
from installers.images import local_image
from installers.images.local_image import LocalImage
from installers.images.manifest import ResolvedImage
from installers.images.pull_progress import PullInterrupted, PullProgress, interpret_error
from installers.images.pull_resume import EVERY_S, UnfinishedImage, remove_unfinished
from installers.state.progress import ProgressEvent, Report

if TYPE_CHECKING:
    import docker

STALL_S = 600.0  # maximum silence of the engine; it sends nothing while it hashes a layer of many GB
ATTEMPTS, PAUSE_S = 3, 2.0  # in each attempt, the engine itself tries each layer five times
LINE_LIMIT = 1 << 20  # bytes; the engine's lines have about a hundred


def pull_image(
    client: docker.DockerClient,
    found: ResolvedImage,
    report: Report,
    *,
    stall_s: float = STALL_S,
    every_s: float = EVERY_S,
    moves: bool = False,
) -> LocalImage:
    """Pull the image and return it, named by digest and by tag.

    With `moves` it gets its tag even if another image has it, as with `docker pull`.  Raises StepError with the
    reason; finished layers are kept.
    """
    anchor = UnfinishedImage(client, found, every_s)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _pull_once(client, found, PullProgress(found, report, anchor.save_layers), stall_s)
            break
        except PullInterrupted as broken:
            if not broken.passing or attempt == ATTEMPTS:
                raise StepError(
                    _("{reference}: {message}", reference=found.reference, message=broken.message), broken.next_step
                ) from None
            report(
                ProgressEvent(
                    "say",
                    _(
                        "{message}; retrying ({attempt} of {attempts})",
                        message=broken.message,
                        attempt=attempt + 1,
                        attempts=ATTEMPTS,
                    ),
                )
            )
            time.sleep(PAUSE_S * attempt)
    there = _verify_pull(client, found, moves)
    remove_unfinished(client, found.digest)
    return there


def _pull_once(client: docker.DockerClient, found: ResolvedImage, progress: PullProgress, stall_s: float) -> None:
    import docker
    import requests

    try:
        for line in _stream_lines(client, found, stall_s):
            progress.add_line(line)
    except docker.errors.APIError as err:
        raise interpret_error(str(err.explanation or err), found) from None
    except (requests.RequestException, OSError) as err:
        if "timed out" in str(err).lower():
            raise PullInterrupted(
                _("no data received for {stall_s:.0f} s", stall_s=stall_s),
                _("choose another registry with --registry"),
                True,
            ) from None
        raise PullInterrupted(
            _("the container engine aborted the pull"), _("check its log: `journalctl -u docker`"), True
        ) from None
    progress.report_end()


def _stream_lines(client: docker.DockerClient, found: ResolvedImage, stall_s: float) -> Iterator[dict[str, Any]]:
    """Yield the engine's progress messages.  The SDK's own pull() is not used: it has no timeout."""
    from docker import auth

    api = client.api
    known = local_image.registry_credentials(client)(found.reference.host)
    response = api.post(
        f"{api.base_url}/v{api.api_version}/images/create",
        params={"fromImage": found.pinned_reference.name, "tag": found.digest},
        headers={"X-Registry-Auth": auth.encode_header(known)} if known else {},
        timeout=stall_s,
        stream=True,
    )
    with contextlib.closing(response):  # closing the connection makes the engine stop the pull
        api._raise_for_status(response)  # type: ignore[attr-defined]  # as all calls of the SDK do
        for line in response.iter_lines():
            yield from _parse_objects(line)


def _parse_objects(line: bytes) -> Iterable[dict[str, Any]]:
    try:
        read = json.loads(line) if len(line) < LINE_LIMIT else None
    except (ValueError, RecursionError):
        return
    if isinstance(read, dict):
        yield read


def _verify_pull(client: docker.DockerClient, found: ResolvedImage, moves: bool) -> LocalImage:
    """Check that the engine has the requested image, and tag it unless another image keeps that name."""
    there = local_image.find_resolved(client, found)
    if not there:
        raise StepError(
            _(
                "{reference}: the engine pulled content that does not match {digest}...",
                reference=found.reference,
                digest=found.digest[:19],
            ),
            _("choose another registry with --registry"),
        )
    names = [str(found.pinned_reference)]
    tagged = found.reference.tagged_name
    if tagged and (moves or not local_image.inspect_image(client, tagged)):
        with local_image.translate_errors(_("cannot assign the tag {name}", name=tagged)):
            client.api.tag(there.image_id, found.reference.name, found.reference.tag)
        names.insert(0, tagged)
    return replace(there, names=tuple(names))
