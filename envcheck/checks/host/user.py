"""The check of the user account that runs the training."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, machine_check
from envcheck.core.facts import Facts
from envcheck.core.findings import ok, quote_values, requires_fact, warn
from envcheck.core.messages import _, verbatim
from envcheck.core.model import Finding, Remedy, diagnose, fix
from probes.host import schemas
from probes.host.schemas import Caller


@requires_fact(schemas.read_caller, "ask caller")
def check_user(me: Caller, facts: Facts) -> Iterator[Finding]:
    """The user ID has an entry in passwd; otherwise imports fail in getpwuid()."""
    if me.user is None:
        yield warn(
            _("uid {uid} has no entry in passwd", uid=me.uid),
            _user_remedy(me),
            evidence=quote_values("getpwuid", uid=me.uid, name="none"),
        )
    else:
        yield ok(verbatim(me.user))


def _user_remedy(me: Caller) -> Remedy:
    """For root no command that writes: it would create a second account with root's rights."""
    if me.uid == 0:
        words = _("Restore the root entry in /etc/passwd: the image, or the file mounted over it, does not contain it.")
        return diagnose(words, "ls -l /etc/passwd")
    words = _(
        "Add an entry, or run as a user that exists in the image; setting USER and HOME helps only some programs."
    )
    return fix(words, f"echo 'trainer:x:{me.uid}:{me.uid}::/tmp:/bin/sh' | sudo tee -a /etc/passwd")


CHECKS: tuple[Check, ...] = (
    machine_check(
        "host.user",
        check_user,
        reads="passwd",
        source="vllm-ascend#9490, HabanaAI/vllm-fork#929",
        rule="WARN if the user ID has no entry",
        fix="Add an entry to passwd.",
    ),
)
