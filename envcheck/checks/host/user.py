"""Who runs the training: an account that programs can look up."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, of_machine
from envcheck.core.facts import Facts
from envcheck.core.findings import figures, ok, reading, warn
from envcheck.core.model import Finding
from probes.host import schemas
from probes.host.schemas import Caller


@reading(schemas.caller, "ask caller")
def named(me: Caller, facts: Facts) -> Iterator[Finding]:
    """The user's id has an entry in passwd: getpwuid() fails without, in the middle of an import."""
    if me.user is None:
        yield warn(
            f"uid {me.uid} has no entry in passwd", *_advice(me), evidence=figures("getpwuid", uid=me.uid, name="none")
        )
    else:
        yield ok(me.user)


def _advice(me: Caller) -> tuple[str, ...]:
    """Words, then the command; for root none that writes: it would make a second account of its might."""
    if me.uid == 0:
        words = "Give root its line in /etc/passwd back: the image, or what is mounted over that file, lacks it."
        return words, "ls -l /etc/passwd"
    words = "Add an entry, or run as a user that the image knows; USER and HOME help some programs alone."
    return words, f"echo 'trainer:x:{me.uid}:{me.uid}::/tmp:/bin/sh' | sudo tee -a /etc/passwd"


CHECKS: tuple[Check, ...] = (
    of_machine(
        "host.user",
        named,
        reads="passwd",
        source="vllm-ascend#9490, HabanaAI/vllm-fork#929",
        rule="WARN when the uid has none",
        fix="Add an entry to passwd.",
    ),
)
