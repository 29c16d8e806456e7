"""Which cards are tested, which are not since somebody works on them, and which pairs stand for the kinds of links."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import label
from envcheck.core.model import Device, Process, Topology
from envcheck.settings.thresholds import limit

CAP = "ENVCHECK_DEEP_MIB"  # at most so much memory of each card is filled
CPU_MIB = 256
KINDS_LIMIT = 8
PROCESSES_SHOWN = 4


@dataclass(frozen=True)
class Card:
    """`index` is the framework's number, `label` the tool's; `users` work on it; `memory_mib` would be filled."""

    index: int
    label: str
    name: str = ""
    users: tuple[str, ...] = ()
    memory_mib: int = CPU_MIB


@dataclass(frozen=True)
class Pair:
    """`link` as the topology has it, "" where it is not told."""

    one: int
    other: int
    link: str = ""


@dataclass(frozen=True)
class Chosen:
    """The cards of one vendor that the framework will see, in its order; `obstacle`: why none may be touched."""

    vendor: str
    cards: tuple[Card, ...] = ()
    pairs: tuple[Pair, ...] = ()
    obstacle: str = ""

    @property
    def free(self) -> tuple[Card, ...]:
        return tuple(card for card in self.cards if not card.users)

    @property
    def links(self) -> frozenset[str]:
        """Every kind of link among them."""
        return frozenset(pair.link for pair in self.pairs)


def choose(facts: Facts, v: VendorFacts | None) -> Chosen:
    """Of one vendor; without one the processor is the only card."""
    if v is None:
        return Chosen("cpu", (Card(0, "cpu", memory_mib=_capped(CPU_MIB)),))
    if not v.devices:
        return Chosen(v.name, obstacle=f"{v.vendor.tool} lists no device, so nobody can tell who uses them")
    if v.processes is None:
        return Chosen(v.name, obstacle=f"{v.vendor.tool} does not tell which processes are on the devices")
    seen = _visible(facts, v)
    if seen is None:
        return Chosen(v.name, obstacle=f"{v.vendor.visible_env} is no list of the devices' numbers")
    cards = tuple(_card(facts, v, n, place) for n, place in enumerate(seen))
    return Chosen(v.name, cards, pairs(v.topology, seen, [card.index for card in cards if not card.users]))


def pairs(topology: Topology | None, places: Sequence[int], free: Sequence[int]) -> tuple[Pair, ...]:
    """The first pair of free cards for each kind of link; the ends of the list where no topology tells."""
    if len(free) < 2:
        return ()
    names = topology.names if topology else ()
    if topology is None or max(places) >= len(names):
        return (Pair(free[0], free[-1]),)
    found: dict[str, Pair] = {}
    for one in free:
        for other in free:
            row = topology.matrix.get(names[places[one]]) or {}
            link = str(row.get(names[places[other]]) or "")
            if one < other and link not in found:
                found[link] = Pair(one, other, link)
    return tuple(found.values())[:KINDS_LIMIT]


def _visible(facts: Facts, v: VendorFacts) -> list[int] | None:
    """Places in the tool's list, in the framework's order."""
    said = (facts.environment or {}).get(v.vendor.visible_env)
    if said is None:
        return list(range(len(v.devices)))
    words = said.split(",")
    numbers = [int(word) for word in words if word.strip().isdecimal() and int(word) < len(v.devices)]
    return numbers if len(numbers) == len(words) == len(set(numbers)) else None


def _card(facts: Facts, v: VendorFacts, index: int, place: int) -> Card:
    device = v.devices[place]
    users = [_words(p) for p in v.processes or () if _is_on(p, device)]
    used, total = device.memory_used_mib, device.memory_total_mib
    if not users and used is not None and used > v.vendor.idle_memory_mib:
        users = [f"somebody whom {v.vendor.tool} does not show holds {used} MiB"]
    free = max(0, total - (used or 0)) if total else CPU_MIB
    fill = int(free * limit(facts, "deep.memory.fill_percent") / 100)
    return Card(index, label(device), device.name or "", tuple(users[:PROCESSES_SHOWN]), _capped(fill))


def setting(name: str, most: float) -> float | None:
    """A person's figure from the environment; UsageError where it is none."""
    said = os.environ.get(name)
    if not said:
        return None
    try:
        value = float(said)
    except ValueError:
        value = 0.0
    if not 0 < value <= most:
        raise UsageError(f"{name}={said[:80]!r} is no number above 0, up to {most:g}", f"unset {name}, or give another")
    return value


def _capped(mib: int) -> int:
    return int(min(mib, setting(CAP, 1 << 20) or mib))


def _is_on(process: Process, device: Device) -> bool:
    number = device.index if device.npu is None else device.npu
    return process.device == number and process.chip in (None, device.chip)


def _words(process: Process) -> str:
    held = "" if process.memory_mib is None else f", {process.memory_mib} MiB"
    return f"{process.name or 'a process'} (pid {process.pid}{held})"
