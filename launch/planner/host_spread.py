"""Combine the cards of many hosts into one machine for the planner, and describe the hosts that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from envcheck.core.errors import EnvcheckError, UndeterminedError, UsageError
from envcheck.core.facts import Facts
from envcheck.core.language import translate
from envcheck.core.language.width import display_width
from envcheck.core.messages import NOTHING, Message, _, fill, join
from launch.catalogue import devices
from launch.planner import machines
from launch.planner.card_verdicts import TOLERANCE_GIB
from launch.planner.resolve import PlannedMachine

Fold = Callable[[Iterable[str]], str]
LABEL_WIDTH = 10  # columns, as in the rows of the plan


@dataclass(frozen=True)
class CombinedHosts:
    """`machine` has as many cards per host as the host with the fewest, each with the free memory of the fullest one.

    `tightest` is the host of that card.  `silent` are the excluded hosts with the reason.
    """

    machine: PlannedMachine
    hosts: Mapping[str, PlannedMachine]
    tightest: str
    silent: Mapping[str, str]

    @property
    def cards_per_host(self) -> int:
        """Cards used on each host."""
        return self.machine.device.cards_per_node


def read_host_machine(facts: Facts, device: str) -> PlannedMachine | Message:
    """Return the cards of one host, or the reason to exclude it."""
    try:
        found = machines.find_local_machine(facts, device, None)
    except EnvcheckError as err:
        return err.message
    return found or _("no card reports its memory size")


def combine_hosts(answers: Mapping[str, PlannedMachine | str]) -> CombinedHosts:
    """Combine the machines of all hosts; a host with a reason instead of a machine is excluded.

    Raises UndeterminedError if no host has cards, UsageError for cards of several vendors.
    """
    hosts = {name: found for name, found in answers.items() if isinstance(found, PlannedMachine)}
    silent = {
        name: found if isinstance(found, Message) else fill(found)
        for name, found in answers.items()
        if isinstance(found, str)
    }
    if not hosts:
        why = next(iter(silent.values()), _("no hosts"))
        raise UndeterminedError(
            _("cannot determine the cards of any host: {why}", why=why),
            _("run `envcheck doctor --hosts` with the same hosts"),
        )
    vendors = {found.device.vendor: name for name, found in hosts.items()}
    if len(vendors) > 1:
        found = join(", ", (_("{vendor} ({name})", vendor=vendor, name=name) for vendor, name in vendors.items()))
        raise UsageError(
            _("a plan supports cards of one vendor only; found {seen}", seen=found), _("select one with --device")
        )
    each = min(found.cards for found in hosts.values())
    taken = {name: _take_emptiest(found, each) for name, found in hosts.items()}
    tightest = min(taken, key=lambda name: _free_gib(taken[name]))
    least = taken[tightest]
    parted = any(found.parted for found in hosts.values())
    whole = replace(
        least, cards=each * len(hosts), device=replace(least.device, cards_per_node=each), each=(), parted=parted
    )
    return CombinedHosts(whole, taken, tightest, silent)


def _take_emptiest(machine: PlannedMachine, count: int) -> PlannedMachine:
    """Return the machine with the memory of its `count` emptiest cards; `cards` stays the number it has."""
    emptiest = sorted(machine.each, key=lambda card: -card.free_gib)[:count]
    if not emptiest:
        return machine
    return replace(machine, memory_gib=emptiest[-1].memory_gib, used_gib=emptiest[-1].used_gib)


def _free_gib(machine: PlannedMachine) -> float:
    used = machine.device.idle_gib if machine.used_gib is None else machine.used_gib
    return machine.memory_gib - used


def format_host_lines(combined: CombinedHosts, fold: Fold) -> Iterator[str]:
    """Yield lines about the hosts: their cards, grouped, the one with the least free memory, and excluded ones."""
    kinds: dict[Message, list[str]] = {}
    for name, machine in combined.hosts.items():
        kinds.setdefault(_describe_machine(machine), []).append(name)
    ranked = sorted(kinds.items(), key=lambda pair: -len(pair[1]))
    rows: list[tuple[Message, Message]] = []
    for number, (kind, names) in enumerate(ranked):
        text = (
            _(
                "{cards} on {hosts}; only {count} per host are used",
                cards=kind,
                hosts=fold(names),
                count=combined.cards_per_host,
            )
            if number
            else _("{cards} on {hosts}", cards=kind, hosts=fold(names))
        )
        rows.append((NOTHING if number else _("hosts"), text))
    roomiest = max(_free_gib(machine) for machine in combined.hosts.values())
    least = combined.hosts[combined.tightest]
    if roomiest - _free_gib(least) > TOLERANCE_GIB:
        text = _(
            "{host}: {free_gib:.1f} of {memory_gib:.1f} GiB free per card, {less_gib:.1f} GiB less "
            "than on the host with the most free memory",
            host=combined.tightest,
            free_gib=_free_gib(least),
            memory_gib=least.memory_gib,
            less_gib=roomiest - _free_gib(least),
        )
        rows.append((_("fullest"), text))
    rows += [(_("excluded"), _("{name}: {why}", name=name, why=why)) for name, why in combined.silent.items()]
    labels = [translate(label) for label, _unused in rows]
    width = max(LABEL_WIDTH, *(display_width(label) + 2 for label in labels))
    for label, (_unused, text) in zip(labels, rows, strict=True):
        yield f"  {label}{' ' * (width - display_width(label))}{translate(text)}"


def _describe_machine(machine: PlannedMachine) -> Message:
    return _(
        "{cards} x {memory_gib:g} GiB {name}",
        cards=machine.cards,
        memory_gib=round(machine.memory_gib, 1),
        name=machine.device.name,
    )


def list_hardware_options(combined: CombinedHosts) -> dict[str, str]:
    """Return the options that describe such cards without the hosts: device, cards per node, memory, memory in use."""
    machine = combined.machine
    known = devices.find_device(machine.device.name)
    words = {"--device": machine.device.vendor if known.figures_of else known.name}
    words |= {"--cards-per-node": f"{combined.cards_per_host}", "--memory-gib": f"{machine.memory_gib:.4g}"}
    return words | ({} if machine.used_gib is None else {"--used-gib": f"{machine.used_gib:.4g}"})


def list_host_values(combined: CombinedHosts) -> dict[str, Any]:
    """Return the hosts for JSON."""
    return {
        "hosts": {
            name: {
                "cards": machine.cards,
                "device": machine.device.name,
                "memory_gib": round(machine.memory_gib, 3),
                "free_gib": round(_free_gib(machine), 3),
                "limiting": name == combined.tightest,
            }
            for name, machine in combined.hosts.items()
        },
        "excluded_hosts": dict(combined.silent),
    }
