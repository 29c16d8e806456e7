"""A fault of a simulated machine: a name's summary, where it applies, and a pure function on the description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from envcheck.core.errors import UsageError
from envcheck.core.simulate.machine import Chip, Machine, Tool
from envcheck.core.simulate.reply import Reply

NUMBER, VERSION, NOTHING = "number", "version", ""
DEVICE_INDEX = "the index of a device"
Change = Callable[[Machine, int | str | None], Machine]


class Scope(Enum):
    """Which machines a fault is for."""

    ANY_MACHINE = "any machine"
    WITH_CARDS = "machines with accelerators"
    NAMED = "machines of the vendors that name it"


@dataclass(frozen=True)
class Fault:
    """`value` is what may follow the name: a number, a version, or nothing; `apply` gets None where none was given.

    `after` is the fault that this one follows in the list and when several are applied; the last one if empty.
    """

    summary: str
    apply: Change
    value: str = NOTHING
    means: str = ""
    only: Callable[[Machine], bool] = lambda machine: True
    scope: Scope = Scope.NAMED
    after: str = ""


def find_chip(machine: Machine, index: int | str | None, default: int) -> Chip:
    """The chip of that index among those that are left, or the default's place among them."""
    left = machine.listed
    if index is None:
        if not left:
            raise UsageError(f"{machine.name} has no device left for this fault", "drop a card-lost")
        return left[default]
    for chip in left:
        if chip.index == index:
            return chip
    numbers = ", ".join(str(chip.index) for chip in left)
    raise UsageError(f"{machine.name} has no device {index}", f"its devices are {numbers or 'all lost'}")


def replace_chip(machine: Machine, chip: Chip) -> Machine:
    """The machine with this chip in the place of the one of its index."""
    chips = tuple(chip if chip.index == other.index else other for other in machine.chips)
    return replace(machine, chips=chips)


def replace_tool(machine: Machine, tool: Tool) -> Machine:
    return replace(machine, tool=tool)


def set_amiss(name: str) -> Change:
    """A fault that files and collectors' answers show, and no chip or tool."""
    return lambda machine, _: replace(machine, amiss=machine.amiss | {name})


def fail_tool(failure: Reply) -> Change:
    """The vendor's tool answers every query with this."""
    return lambda machine, _: replace_tool(machine, replace(machine.tool, failure=failure))


def has_several_chips(machine: Machine) -> bool:
    return len(machine.chips) > 1
