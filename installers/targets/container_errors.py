"""What the engine says about containers → one sentence and a next step."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from envcheck.core.errors import StepError
from envcheck.core.secrets import redact

T = TypeVar("T")

WELL = "docker info shows whether it is well"
AGAIN = "docker logs {0} may say why; then repeat the same command: it is started, or made anew"

# What the engine says → (what is said, what to do).  Texts of engines 20.10 to 28; groups fill the braces.
SAYINGS = (
    (r'container name "/?([^"]+)" is already in use', "another container has the name {0}", "docker inspect {0}"),
    (
        r"(?:listen \S+|Bind for|exposing port \S+ on) (\S*:\d+):? .*(?:in use|allocated)",
        "the port {0} of this host is taken",
        "ss -ltnp shows by whom; stop that, or choose another port in the recipe's container.ports",
    ),
    (
        r'device information while adding custom device "([^"]+)"',
        "the device node {0} is not on this host",
        "envcheck doctor says what the driver lacks",
    ),
    (
        r"bind source path does not exist: (\S+)",
        "{0} is not on the host of the engine, and a container wants to mount it",
        "make it, or install what brings it; an engine on another machine has that machine's files",
    ),
    (r"No such container: (\S+)", "the container {0} is gone", "repeat the same command: it is made anew"),
    (r"[Cc]ontainer (\S+) is (?:not running|restarting)", "the container {0} does not run any more", AGAIN),
    (r"[Cc]ontainer (\S+) is paused", "the container {0} is paused", "docker unpause {0}, then repeat"),
    (r"No such image: (\S+)", "the engine has no image {0}", "repeat: the image is pulled first"),
    (
        r"[Uu]nknown (?:or invalid )?runtime (?:name:|specified) (\S+)",
        "the engine has no runtime {0}",
        "docker info shows which it has",
    ),
    (
        r'could not select device driver "([^"]*)"',
        "the engine cannot give cards to a container ({0})",
        "install the vendor's container toolkit, or give --as-published",
    ),
    (
        r"unresolvable CDI devices (.+)",
        "the engine does not know the CDI names {0}",
        "make the vendor's CDI file anew, then restart the engine",
    ),
    (
        r'exec: "([^"]+)": .*(?:not found|no such file)',
        "the image has no program {0}",
        "the image is not the recipe's, or it is damaged: docker image inspect",
    ),
    (
        r"apply caps: (operation not permitted)",
        "this machine does not grant all capabilities",
        "leave out --as-published",
    ),
)


def asked(deed: Callable[[], T]) -> T:
    """The engine's refusal as one sentence."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        return deed()
    except DockerException as err:  # first: the engine's answers are of both families
        message, next_step = sentence(str(getattr(err, "explanation", None) or err))
        raise StepError(redact(message), next_step) from err
    except RequestException as err:
        raise StepError(redact(f"the engine does not answer: {' '.join(str(err).split())[:300]}"), WELL) from err


def sentence(said: str) -> tuple[str, str]:
    """(what is wrong, what to do); unknown words are quoted, the first line of them."""
    for pattern, message, next_step in SAYINGS:
        if found := re.search(pattern, said):
            group = next((text for text in found.groups() if text), "")
            return message.format(group), next_step.format(group)
    first = next((line.strip() for line in said.splitlines() if line.strip()), "nothing")
    return f"the engine refused: {first[:300]}", WELL
