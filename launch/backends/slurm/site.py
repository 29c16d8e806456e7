"""Partitions of a Slurm cluster, their nodes, and the GRES names of their devices, from sinfo."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.core.process import CommandResult, run_command
from envcheck.vendors import VENDORS
from launch.catalogue.schedulers import slurm_names

# Partition (the default one ends in *), state, time limit, number of nodes, GRES of each node.
SINFO = ("sinfo", "--noheader", "--format=%P|%a|%l|%D|%G")
TIMEOUT_S = 30.0
_CARDS = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]*)(?::([A-Za-z][\w.-]*))?:(\d+)(?:\([^)]*\))?")


@dataclass(frozen=True)
class NodeCards:
    """Devices of one kind on a node; `type` is "" if the GRES entry has no type."""

    name: str
    type: str
    count: int

    def format_gres(self, count: int) -> str:
        """Return NAME:COUNT or NAME:TYPE:COUNT, as --gres takes it."""
        return ":".join(filter(None, (self.name, self.type, str(count))))


@dataclass(frozen=True)
class PartitionRow:
    """Nodes of a partition with equal devices; `usual`: the default partition; `limit`: its time limit."""

    partition: str
    usual: bool
    up: bool
    limit: str
    nodes: int
    cards: tuple[NodeCards, ...]


def query_partitions() -> tuple[PartitionRow, ...] | None:
    """Return the partitions, or None if sinfo is not installed; UsageError if sinfo fails."""
    result = run_command(SINFO, timeout_s=TIMEOUT_S)
    if result.absent:
        return None
    if result.status:
        raise UsageError(
            _("sinfo failed: {reason}", reason=_describe_error(result)),
            _("run `sinfo` yourself and check that slurmctld is running"),
        )
    return tuple(parse_sinfo(result.out))


def _describe_error(result: CommandResult) -> str:
    lines = [line.strip() for line in result.err.splitlines() if line.strip()]
    return (
        _("no response within {timeout_s:.0f} s", timeout_s=TIMEOUT_S)
        if result.hung
        else lines[-1][:200]
        if lines
        else _("exit code {status}", status=result.status)
    )


def parse_sinfo(text: str) -> Iterable[PartitionRow]:
    """Return the partitions in the output of SINFO:

    npu*|up|infinite|4|npu:16
    mixed|up|2-00:00:00|8|gpu:h200:8(S:0-1),npu:16
    """
    for line in filter(None, text.splitlines()):
        parts = line.split("|")
        if len(parts) != 5 or not parts[3].strip().isdecimal():
            raise UsageError(
                _("unexpected output of sinfo: {line!r}", line=line[:120]), _("specify --partition and --gres")
            )
        name, up, limit, nodes, cards = (part.strip() for part in parts)
        yield PartitionRow(name.rstrip("*"), name.endswith("*"), up == "up", limit, int(nodes), parse_gres(cards))


def parse_gres(text: str) -> tuple[NodeCards, ...]:
    """Return the kinds in a GRES text: gpu:h200:8(S:0-1),npu:16 → two, (null) → none. Entries without a count (flags)
    are skipped."""
    return tuple(NodeCards(name, kind, int(count)) for name, kind, count in _CARDS.findall(text))


def select_device_cards(cards: Sequence[NodeCards], device: str) -> tuple[NodeCards, ...]:
    """Return the entries of a vendor: those with one of its words in name or type, otherwise those named gpu that match
    no other vendor."""

    def is_of_vendor(one: NodeCards, vendor: str) -> bool:
        words = f"{one.name} {one.type}".lower().replace("-", "").replace("_", "")
        return any(word in words for word in slurm_names(vendor).words)

    own = tuple(one for one in cards if is_of_vendor(one, device))
    others = [vendor for vendor in VENDORS if vendor != device]
    return own or tuple(one for one in cards if one.name == "gpu" and not any(is_of_vendor(one, v) for v in others))


def count_cards_to_request(one: NodeCards, device: str, cards: int) -> int | None:
    """Return the GRES count to request for `cards` devices of a node; None if the node has too few.

    A site may count boards instead of devices: an Iluvatar board has two chips, which ixsmi lists as two devices.
    """
    if one.count >= cards:
        return cards
    chips = VENDORS[device].chips_per_card
    return -(-cards // chips) if one.count * chips >= cards else None
