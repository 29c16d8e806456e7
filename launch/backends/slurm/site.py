"""What the site's Slurm has: partitions, their nodes, and what it calls the cards.  The one question is to sinfo."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from envcheck.core.errors import UsageError
from envcheck.core.process import CommandResult, run
from envcheck.vendors import VENDORS
from launch.catalogue.schedulers import slurm_names

# Partition (* behind the default one), up or not, longest time, nodes, cards of each.
SINFO = ("sinfo", "--noheader", "--format=%P|%a|%l|%D|%G")
TIMEOUT_S = 30.0
_CARDS = re.compile(r"([A-Za-z][\w.-]*)(?::([A-Za-z][\w.-]*))?:(\d+)(?:\([^)]*\))?")


@dataclass(frozen=True)
class NodeCards:
    """What a node has of one kind; `type` is "" where the site says none."""

    name: str
    type: str
    count: int

    def asked(self, count: int) -> str:
        return ":".join(filter(None, (self.name, self.type, str(count))))


@dataclass(frozen=True)
class PartitionRow:
    """Nodes of a partition that have the same cards."""

    partition: str
    usual: bool
    up: bool
    limit: str
    nodes: int
    cards: tuple[NodeCards, ...]


def ask() -> tuple[PartitionRow, ...] | None:
    """None where there is no sinfo; UsageError where it does not answer."""
    told = run(SINFO, timeout_s=TIMEOUT_S)
    if told.absent:
        return None
    if told.status:
        raise UsageError(f"sinfo does not answer: {_last(told)}", "try it by hand: sinfo; is slurmctld up?")
    return tuple(parse(told.out))


def _last(told: CommandResult) -> str:
    lines = [line.strip() for line in told.err.splitlines() if line.strip()]
    return f"no answer in {TIMEOUT_S:.0f} s" if told.hung else lines[-1][:200] if lines else f"status {told.status}"


def parse(text: str) -> Iterable[PartitionRow]:
    """The answer to SINFO:

    npu*|up|infinite|4|npu:16
    mixed|up|2-00:00:00|8|gpu:h200:8(S:0-1),npu:16
    """
    for line in filter(None, text.splitlines()):
        parts = line.split("|")
        if len(parts) != 5 or not parts[3].strip().isdecimal():
            raise UsageError(f"sinfo said what envcheck does not know: {line[:120]!r}", "say --partition and --gres")
        name, up, limit, nodes, cards = (part.strip() for part in parts)
        yield PartitionRow(name.rstrip("*"), name.endswith("*"), up == "up", limit, int(nodes), gres(cards))


def gres(text: str) -> tuple[NodeCards, ...]:
    """gpu:h200:8(S:0-1),npu:16 → two kinds; (null) → none.  What counts nothing (a licence, a flag) is left out."""
    return tuple(NodeCards(name, kind, int(count)) for name, kind, count in _CARDS.findall(text))


def of_device(cards: Sequence[NodeCards], device: str) -> tuple[NodeCards, ...]:
    """Those that are this vendor's: by a word of its own in name or type; else what is called gpu and nobody else's."""

    def named(one: NodeCards, vendor: str) -> bool:
        words = f"{one.name} {one.type}".lower().replace("-", "").replace("_", "")
        return any(word in words for word in slurm_names(vendor).words)

    own = tuple(one for one in cards if named(one, device))
    others = [vendor for vendor in VENDORS if vendor != device]
    return own or tuple(one for one in cards if one.name == "gpu" and not any(named(one, v) for v in others))


def needed(one: NodeCards, device: str, cards: int) -> int | None:
    """How many to ask of a node for so many devices, which a site may count by the card that is bought; None: too few.

    Iluvatar's tool lists two chips a card, and a site that counts cards has half as many.
    """
    if one.count >= cards:
        return cards
    chips = VENDORS[device].chips_per_card
    return -(-cards // chips) if one.count * chips >= cards else None
