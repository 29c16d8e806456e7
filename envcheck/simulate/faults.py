"""Known faults, generic and vendor-specific: which apply to a machine, and applying them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envcheck.core import suggestions
from envcheck.core.errors import UsageError
from envcheck.core.messages import _, fill, join, mark
from envcheck.core.simulate.fault import NOTHING, NUMBER, VERSION, Fault, FaultScope
from envcheck.core.simulate.machine import SimulatedSystem
from envcheck.core.simulate.vendor_simulation import VendorSimulation
from envcheck.simulate.generic_faults import GENERIC_FAULTS
from envcheck.simulate.machine_rules import is_version
from envcheck.simulate.vendor_simulations import load_simulations
from envcheck.vendors import VENDORS

_USAGE = {
    NUMBER: mark("use --fault {name}, or --fault {name}=NUMBER"),
    VERSION: mark("use --fault {name}, or --fault {name}=VERSION such as 4.3.0"),
    NOTHING: mark("use --fault {name}"),
}


@dataclass(frozen=True)
class FaultRequest:
    """A parsed --fault."""

    name: str
    value: int | str | None = None


def load_faults() -> dict[str, Fault]:
    """Return every fault by name, in the order of the list and of application."""
    names, own = list(GENERIC_FAULTS), {}
    for simulation in load_simulations().values():
        for name, fault in simulation.faults.items():
            names.insert(names.index(fault.after) + 1 if fault.after in names else len(names), name)
            own[name] = fault
    return {name: own[name] if name in own else GENERIC_FAULTS[name] for name in names}


def find_vendors(name: str, fault: Fault) -> tuple[str, ...]:
    """Return the vendors whose machines can have the fault."""
    return tuple(
        vendor
        for vendor, simulation in load_simulations().items()
        if _applies_to_vendor(name, fault, vendor, simulation)
    )


def _applies_to_vendor(name: str, fault: Fault, vendor: str, simulation: VendorSimulation) -> bool:
    match fault.scope:
        case FaultScope.ANY_MACHINE:
            return True
        case FaultScope.WITH_CARDS:
            return bool(VENDORS[vendor].tool)
        case FaultScope.NAMED:
            return name in simulation.faults or name in simulation.shared_faults


def list_applicable_faults(machine: SimulatedSystem) -> tuple[str, ...]:
    """Return the names of the faults that this machine can have."""
    simulation = load_simulations()[machine.vendor]
    return tuple(
        name
        for name, fault in load_faults().items()
        if _applies_to_vendor(name, fault, machine.vendor, simulation) and fault.only(machine)
    )


def parse_fault(text: str) -> FaultRequest:
    """Parse NAME or NAME=VALUE.  UsageError for an unknown fault or an invalid value."""
    name, has_value, value = text.partition("=")
    known = load_faults()
    matched = suggestions.match_name(name, known)
    if matched is None:
        raise UsageError(
            _("unknown fault {name!r:.60}", name=name),
            suggestions.suggest(name, known, more=_("choose from {known}", known=join(", ", known))),
        )
    name, fault = matched, known[matched]
    if not has_value:
        return FaultRequest(name)
    if fault.value == NUMBER and re.fullmatch(r"[0-9]{1,9}", value):
        return FaultRequest(name, int(value))
    if fault.value == VERSION and is_version(value):
        return FaultRequest(name, value)
    words = (
        _("--fault {name} expects {means}, got {value!r:.60}", name=name, means=fill(fault.means), value=value)
        if fault.value
        else _("--fault {name} takes no value, got {value!r:.60}", name=name, value=value)
    )
    raise UsageError(words, fill(_USAGE[fault.value], name=name))


def apply_faults(machine: SimulatedSystem, wishes: Sequence[FaultRequest]) -> SimulatedSystem:
    """Return the machine with all faults, applied in the order of the table."""
    possible = list_applicable_faults(machine)
    for wish in wishes:
        if wish.name not in possible:
            raise UsageError(
                _("fault {fault} does not apply to {machine}", fault=wish.name, machine=machine.name),
                _("faults that apply to it: {possible}", possible=join(", ", possible)),
            )
    known = load_faults()
    for wish in sorted(wishes, key=lambda wish: list(known).index(wish.name)):
        machine = known[wish.name].apply(machine, wish.value)
    return machine
