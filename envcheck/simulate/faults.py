"""The faults that are known: the generic ones and the vendors' own; which apply to a machine, and applying them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envcheck.core.errors import UsageError
from envcheck.core.simulate.fault import NOTHING, NUMBER, VERSION, Fault, Scope
from envcheck.core.simulate.machine import Machine
from envcheck.core.simulate.vendor_simulation import VendorSimulation
from envcheck.simulate.generic_faults import GENERIC_FAULTS
from envcheck.simulate.machine_rules import version
from envcheck.simulate.vendor_simulations import load_simulations
from envcheck.vendors import VENDORS

_EXAMPLE = {NUMBER: " or with =NUMBER", VERSION: " or with =VERSION, as 4.3.0", NOTHING: ""}


@dataclass(frozen=True)
class FaultRequest:
    """One --fault, understood."""

    name: str
    value: int | str | None = None


def load_faults() -> dict[str, Fault]:
    """Every fault by its name, in the order of the list, in which they are also applied."""
    names, own = list(GENERIC_FAULTS), {}
    for simulation in load_simulations().values():
        for name, fault in simulation.faults.items():
            names.insert(names.index(fault.after) + 1 if fault.after in names else len(names), name)
            own[name] = fault
    return {name: own[name] if name in own else GENERIC_FAULTS[name] for name in names}


def find_vendors(name: str, fault: Fault) -> tuple[str, ...]:
    """The vendors on whose machines the fault can be."""
    return tuple(
        vendor for vendor, simulation in load_simulations().items() if _is_for(name, fault, vendor, simulation)
    )


def _is_for(name: str, fault: Fault, vendor: str, simulation: VendorSimulation) -> bool:
    match fault.scope:
        case Scope.ANY_MACHINE:
            return True
        case Scope.WITH_CARDS:
            return bool(VENDORS[vendor].tool)
        case Scope.NAMED:
            return name in simulation.faults or name in simulation.shared_faults


def applicable(machine: Machine) -> tuple[str, ...]:
    """The names of the faults that make sense on this machine."""
    simulation = load_simulations()[machine.vendor]
    return tuple(
        name
        for name, fault in load_faults().items()
        if _is_for(name, fault, machine.vendor, simulation) and fault.only(machine)
    )


def asked(text: str) -> FaultRequest:
    """NAME or NAME=VALUE; UsageError for what no fault is called or takes."""
    name, has_value, value = text.partition("=")
    known = load_faults()
    if name not in known:
        raise UsageError(f"there is no fault {name!r:.60}", f"choose from {', '.join(known)}")
    fault = known[name]
    if not has_value:
        return FaultRequest(name)
    if fault.value == NUMBER and re.fullmatch(r"[0-9]{1,9}", value):
        return FaultRequest(name, int(value))
    if fault.value == VERSION and version(value):
        return FaultRequest(name, value)
    expected = f"takes {fault.means}" if fault.value else "takes no value"
    raise UsageError(f"--fault {name} {expected}, not {value!r:.60}", f"write --fault {name}{_EXAMPLE[fault.value]}")


def apply(machine: Machine, wishes: Sequence[FaultRequest]) -> Machine:
    """The machine with all faults, in the order of the table whatever the order of asking."""
    possible = applicable(machine)
    for wish in wishes:
        if wish.name not in possible:
            raise UsageError(
                f"{wish.name} makes no sense on {machine.name}", f"faults that apply there: {', '.join(possible)}"
            )
    known = load_faults()
    for wish in sorted(wishes, key=lambda wish: list(known).index(wish.name)):
        machine = known[wish.name].apply(machine, wish.value)
    return machine
