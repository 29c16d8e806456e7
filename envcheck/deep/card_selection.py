"""Selects the cards to test (those not in use), and one pair of cards for each link type."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from envcheck.core.derived.device_processes import describe_process, find_processes
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import device_label
from envcheck.core.messages import NOTHING, Message, _
from envcheck.core.model import Topology
from envcheck.settings.thresholds import threshold_value

MEMORY_VARIABLE = "ENVCHECK_DEEP_MIB"  # the most memory of each card to fill, in MiB
CPU_MIB = 256
KINDS_LIMIT = 8
PROCESSES_SHOWN = 4


@dataclass(frozen=True)
class CandidateCard:
    """`index` is the framework's number, `label` the vendor tool's; `users` are processes on it; `memory_mib` would be
    filled."""

    index: int
    label: str
    name: str = ""
    users: tuple[str, ...] = ()
    memory_mib: int = CPU_MIB


@dataclass(frozen=True)
class CardPair:
    """Two cards by framework index; `link` as in the topology, "" if unknown."""

    one: int
    other: int
    link: str = ""


@dataclass(frozen=True)
class CardSelection:
    """The cards of one vendor that the framework finds, in its order; `obstacle` is the reason why none can be
    tested."""

    vendor: str
    cards: tuple[CandidateCard, ...] = ()
    pairs: tuple[CardPair, ...] = ()
    obstacle: Message = NOTHING

    @property
    def free_cards(self) -> tuple[CandidateCard, ...]:
        """The cards that no process uses."""
        return tuple(card for card in self.cards if not card.users)

    @property
    def link_kinds(self) -> frozenset[str]:
        """The link types of the selected pairs."""
        return frozenset(pair.link for pair in self.pairs)


def select_cards(facts: Facts, v: VendorFacts | None) -> CardSelection:
    """Return the cards of a vendor; without a vendor, the CPU is the only card."""
    if v is None:
        return CardSelection("cpu", (CandidateCard(0, "cpu", memory_mib=_cap_memory(CPU_MIB)),))
    if not v.devices:
        return CardSelection(
            v.name, obstacle=_("{tool} lists no devices; cannot determine which are in use", tool=v.vendor.tool)
        )
    if v.processes is None:
        return CardSelection(
            v.name, obstacle=_("{tool} does not report the processes on the devices", tool=v.vendor.tool)
        )
    seen = _list_visible(facts, v)
    if seen is None:
        return CardSelection(
            v.name, obstacle=_("{variable} is not a list of device numbers", variable=v.vendor.visible_env)
        )
    cards = tuple(_describe_card(facts, v, n, place) for n, place in enumerate(seen))
    return CardSelection(
        v.name, cards, select_pairs(v.topology, seen, [card.index for card in cards if not card.users])
    )


def select_pairs(topology: Topology | None, places: Sequence[int], free: Sequence[int]) -> tuple[CardPair, ...]:
    """Return the first pair of free cards for each link type; without a topology, the first and the last free card."""
    if len(free) < 2:
        return ()
    names = topology.names if topology else ()
    if topology is None or max(places) >= len(names):
        return (CardPair(free[0], free[-1]),)
    found: dict[str, CardPair] = {}
    for one in free:
        for other in free:
            row = topology.matrix.get(names[places[one]]) or {}
            link = str(row.get(names[places[other]]) or "")
            if one < other and link not in found:
                found[link] = CardPair(one, other, link)
    return tuple(found.values())[:KINDS_LIMIT]


def _list_visible(facts: Facts, v: VendorFacts) -> list[int] | None:
    """Return the visible devices as positions in the tool's list, in the framework's order; None if the variable is
    invalid."""
    visible = (facts.environment or {}).get(v.vendor.visible_env)
    if visible is None:
        return list(range(len(v.devices)))
    words = visible.split(",")
    numbers = [int(word) for word in words if word.strip().isdecimal() and int(word) < len(v.devices)]
    return numbers if len(numbers) == len(words) == len(set(numbers)) else None


def _describe_card(facts: Facts, v: VendorFacts, index: int, place: int) -> CandidateCard:
    device = v.devices[place]
    users = [describe_process(process) for process in find_processes(v, [device])]
    used, total = device.memory_used_mib, device.memory_total_mib
    if not users and used is not None and used > v.vendor.idle_memory_mib:
        users = [_("{used} MiB used by a process that {tool} does not list", tool=v.vendor.tool, used=used)]
    free = max(0, total - (used or 0)) if total else CPU_MIB
    fill = int(free * threshold_value(facts, "deep.memory.fill_percent") / 100)
    return CandidateCard(
        index, device_label(device), device.name or "", tuple(users[:PROCESSES_SHOWN]), _cap_memory(fill)
    )


def read_setting(name: str, most: float) -> float | None:
    """Return a number from an environment variable, None if it is not set.  UsageError if it is not above 0 and up to
    `most`."""
    text = os.environ.get(name)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= most:
        raise UsageError(
            _(
                "{name}={text!r}: expected a number above 0 and up to {most}",
                name=name,
                text=text[:80],
                most=f"{most:.9g}",
            ),
            _("unset {name}, or set another value", name=name),
        )
    return value


def _cap_memory(mib: int) -> int:
    return int(min(mib, read_setting(MEMORY_VARIABLE, 1 << 20) or mib))
