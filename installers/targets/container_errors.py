"""Convert the engine's errors about containers to a message and a next step."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from envcheck.core.errors import StepError
from envcheck.core.messages import Message, _, fill, mark
from envcheck.core.secrets import redact_text

T = TypeVar("T")

WELL = _("run `docker info` to check the container engine")
AGAIN = mark("check `docker logs {what}`, then run the same command again: the container is started or recreated")

# (pattern of the engine's error, message, next step), for engines 20.10 to 28; the matched group fills {what}.
KNOWN_ERRORS = (
    (
        r'container name "/?([^"]+)" is already in use',
        mark("another container is named {what}"),
        mark("docker inspect {what}"),
    ),
    (
        r"(?:listen \S+|Bind for|exposing port \S+ on) (\S*:\d+):? .*(?:in use|allocated)",
        mark("port {what} on this host is in use"),
        mark("find the process with `ss -ltnp` and stop it, or choose another port in container.ports of the recipe"),
    ),
    (
        r'device information while adding custom device "([^"]+)"',
        mark("device node {what} is missing on this host"),
        mark("run `envcheck doctor` to check the driver"),
    ),
    (
        r"bind source path does not exist: (\S+)",
        mark("{what} does not exist on the engine's host, but the container mounts it"),
        mark("create it, or install the package that provides it; a remote engine mounts files of its own host"),
    ),
    (
        r"No such container: (\S+)",
        mark("container {what} no longer exists"),
        mark("run the same command again: the container is recreated"),
    ),
    (r"[Cc]ontainer (\S+) is (?:not running|restarting)", mark("container {what} is no longer running"), AGAIN),
    (
        r"[Cc]ontainer (\S+) is paused",
        mark("container {what} is paused"),
        mark("run `docker unpause {what}`, then run the command again"),
    ),
    (
        r"No such image: (\S+)",
        mark("the engine has no image {what}"),
        mark("run the command again: the image is pulled first"),
    ),
    (
        r"[Uu]nknown (?:or invalid )?runtime (?:name:|specified) (\S+)",
        mark("the engine has no runtime {what}"),
        mark("run `docker info` to list the available runtimes"),
    ),
    (
        r'could not select device driver "([^"]*)"',
        mark("the container engine cannot pass devices to containers ({what})"),
        mark("install the vendor's container toolkit, or use --as-published"),
    ),
    (
        r"unresolvable CDI devices (.+)",
        mark("the container engine does not know the CDI devices {what}"),
        mark("regenerate the vendor's CDI specification, then restart the engine"),
    ),
    (
        r'exec: "([^"]+)": .*(?:not found|no such file)',
        mark("the image does not contain the program {what}"),
        mark("the image differs from the recipe or is damaged; check it with `docker image inspect`"),
    ),
    (
        r"apply caps: (operation not permitted)",
        mark("this host does not grant all capabilities"),
        mark("omit --as-published"),
    ),
)


def call_engine(call: Callable[[], T]) -> T:
    """Return the result of `call`; raise StepError with a message and next step if the engine reports an error."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        return call()
    except DockerException as err:  # first, because docker's APIError is also a RequestException
        message, next_step = explain_error(str(getattr(err, "explanation", None) or err))
        raise StepError(message, next_step) from err
    except RequestException as err:
        reason = redact_text(" ".join(str(err).split())[:300])
        raise StepError(_("the container engine does not respond: {reason}", reason=reason), WELL) from err


def explain_error(text: str) -> tuple[Message, Message]:
    """Return (message, next step) for an error of the engine; of an unknown error the first line is quoted."""
    for pattern, message, next_step in KNOWN_ERRORS:
        if found := re.search(pattern, text):
            group = redact_text(next((text for text in found.groups() if text), ""))
            return fill(message, what=group), fill(next_step, what=group)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    reason = redact_text(first[:300]) if first else _("no reason given")
    return _("the container engine reported an error: {reason}", reason=reason), WELL
