"""A job's cards over many hosts: one machine for the planner out of theirs, and which host is unlike the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from envcheck.core.errors import EnvcheckError, UntoldError, UsageError
from envcheck.core.facts import Facts
from envcheck.core.language import label, say
from envcheck.core.language.width import columns
from launch.planner import machines
from launch.planner.cards import ALIKE_GIB
from launch.planner.resolve import Machine

Fold = Callable[[Iterable[str]], str]


@dataclass(frozen=True)
class Spread:
    """`machine` is what the planner asks: as many cards of each host as the one with fewest has, and of those the card
    with least room, which is `tightest`'s.  `silent` are the hosts that are not in it, and why."""

    machine: Machine
    hosts: Mapping[str, Machine]
    tightest: str
    silent: Mapping[str, str]

    @property
    def each(self) -> int:
        """Cards of a host."""
        return self.machine.device.cards_per_node


def read(facts: Facts, device: str) -> Machine | str:
    """One host's cards, or why they do not count."""
    try:
        found = machines.here(facts, device, None)
    except EnvcheckError as err:
        return err.message
    return found or "no card there says how much memory it has"


def spread(told: Mapping[str, Machine | str]) -> Spread:
    """Of all hosts in their order; UntoldError where none has cards, UsageError where they have two vendors'."""
    hosts = {name: found for name, found in told.items() if isinstance(found, Machine)}
    silent = {name: found for name, found in told.items() if isinstance(found, str)}
    if not hosts:
        why = next(iter(silent.values()), "there are none")
        raise UntoldError(f"none of the hosts tells of its cards: {why}", "envcheck doctor --hosts with the same hosts")
    vendors = {found.device.vendor: name for name, found in hosts.items()}
    if len(vendors) > 1:
        seen = ", ".join(f"{vendor} ({name})" for vendor, name in vendors.items())
        raise UsageError(f"a plan is for cards of one vendor, and there are {seen}", "say which: --device")
    each = min(found.cards for found in hosts.values())
    taken = {name: _taken(found, each) for name, found in hosts.items()}
    tightest = min(taken, key=lambda name: _free(taken[name]))
    least = taken[tightest]
    parted = any(found.parted for found in hosts.values())
    whole = replace(
        least, cards=each * len(hosts), device=replace(least.device, cards_per_node=each), each=(), parted=parted
    )
    return Spread(whole, taken, tightest, silent)


def _taken(machine: Machine, count: int) -> Machine:
    """With the emptiest so many of its cards; `cards` stays what the host has."""
    emptiest = sorted(machine.each, key=lambda card: -card.free_gib)[:count]
    if not emptiest:
        return machine
    return replace(machine, memory_gib=emptiest[-1].memory_gib, used_gib=emptiest[-1].used_gib)


def _free(machine: Machine) -> float:
    used = machine.device.idle_gib if machine.used_gib is None else machine.used_gib
    return machine.memory_gib - used


def lines(found: Spread, fold: Fold) -> Iterator[str]:
    """Beside the plan: what the hosts have, the odd ones apart, and which of them decides."""
    kinds: dict[str, list[str]] = {}
    for name, machine in found.hosts.items():
        kinds.setdefault(_kind(machine), []).append(name)
    ranked = sorted(kinds.items(), key=lambda pair: -len(pair[1]))
    for number, (kind, names) in enumerate(ranked):
        odd = say(", unlike the others: {} of each host are counted").format(found.each) if number else ""
        yield f"{_head('' if number else 'hosts')}{kind}{say(' on {}').format(fold(names))}{odd}"
    roomiest = max(_free(machine) for machine in found.hosts.values())
    least = found.hosts[found.tightest]
    if roomiest - _free(least) > ALIKE_GIB:
        words = say("{}: {} of {} GiB free on a card, {} GiB less than on the emptiest host")
        free, whole, less = (f"{gib:.1f}" for gib in (_free(least), least.memory_gib, roomiest - _free(least)))
        yield f"{_head('tightest')}{words.format(found.tightest, free, whole, less)}"
    for name, why in found.silent.items():
        yield f"{_head('left out')}{name}{say(': ')}{say(why)}"


def _head(word: str) -> str:
    said = label(word) if word else ""
    return f"  {said}{' ' * (10 - columns(said))}"


def _kind(machine: Machine) -> str:
    return f"{machine.cards} x {round(machine.memory_gib, 1):g} GiB {machine.device.name}"


def document(found: Spread) -> dict[str, Any]:
    """The same for programs."""
    return {
        "hosts": {
            name: {
                "cards": machine.cards,
                "device": machine.device.name,
                "memory_gib": round(machine.memory_gib, 3),
                "free_gib": round(_free(machine), 3),
                "decides": name == found.tightest,
            }
            for name, machine in found.hosts.items()
        },
        "left_out": dict(found.silent),
    }
