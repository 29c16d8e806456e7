"""`--seed-node NODE`: who fetches the image from outside, who gets it there, and the time for which it is passed on."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace

from envcheck.core.errors import EnvcheckError, UsageError
from envcheck.core.host_names import fold_hosts
from envcheck.fleet.background import Beside
from envcheck.payload import attachments
from envcheck.report.summary import safe
from installers.hosts.parse_plan import Looked, reason
from installers.hosts.request import HostsRequest, SeedNode
from installers.seeds import seed as seeds
from installers.seeds.seed import Seed

OPTION, FILE = "--seeding", (seeds.NAME,)
_PORT = re.compile(r"[0-9]{1,5}")
NEXT = "name another --seed-node, or leave it out: each host then pulls for itself"


class NoSeedError(EnvcheckError):
    """The named host does not pass the image on."""


def node(text: str, hosts: Sequence[str]) -> SeedNode:
    """UsageError where it is none of the hosts."""
    name, _, port = text.rpartition(":")
    found = SeedNode(text) if text in hosts or not _PORT.fullmatch(port) else SeedNode(name, int(port))
    if found.name not in hosts or found.port >= 1 << 16:
        why = f"--seed-node {text[:80]!r} is none of the hosts that are asked for ({fold_hosts(hosts)[:200]})"
        raise UsageError(why, "name one of them, or NODE:PORT")
    return found


def others(node: SeedNode, seen: Sequence[Looked]) -> list[str]:
    """Hosts that lack the image, but for the one that is named."""
    lacking = [one.host for one in seen if one.able and one.pulls_image]
    return [host for host in lacking if host != node.name]


def words(node: SeedNode, seen: Sequence[Looked]) -> str:
    """For people, below the plan."""
    to = others(node, seen)
    if not to:
        return f"{node.name} passes nothing on: no other host lacks an image that comes from outside"
    return f"{node.name} fetches the image from outside, once, and passes it on: {fold_hosts(to)}"


@contextlib.contextmanager
def served(asked: HostsRequest, able: Sequence[Looked]) -> Iterator[HostsRequest]:
    """What the hosts are asked while the named one passes the image on; where nobody needs it there, as it was.

    NoSeedError.
    """
    if asked.seed is None or not others(asked.seed, able):
        yield asked
        return
    own = Seed(asked.seed.name, secrets.token_hex(32), asked.seed.port)
    beside = Beside(own.node, _given(asked, own).order([own.node], deadline_s=None))
    try:
        yield _given(asked, _listening(own, beside, asked.deadline_s))
    finally:
        beside.close()


def _given(asked: HostsRequest, seed: Seed) -> HostsRequest:
    return replace(
        asked, words=(*asked.words, OPTION, FILE), carried=attachments.added(asked.carried, seeds.NAME, seed.packed)
    )


def _listening(own: Seed, beside: Beside, deadline_s: float) -> Seed:
    """As it says where; an address is all that is believed."""
    said = beside.first(deadline_s) or {}
    with contextlib.suppress(KeyError, TypeError, ValueError):
        address, port = str(ipaddress.ip_address(said["address"])), int(said["port"])
        if 0 < port < 1 << 16:
            return replace(own, address=address, port=port)
    why = safe(str(said["why"])) if "why" in said else _silent(beside, deadline_s)
    raise NoSeedError(f"{own.node} does not pass the image on: {why}", safe(str(said.get("next_step") or NEXT)))


def _silent(beside: Beside, deadline_s: float) -> str:
    beside.close()
    gone = beside.did.said.status is not None and not beside.killed
    return reason(beside.did) if gone else f"it does not say where it listens within {deadline_s:g} s"
