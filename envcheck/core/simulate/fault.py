"""A fault of a simulated host: a summary, where it applies, and a pure function on the description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from envcheck.core.errors import UsageError
from envcheck.core.messages import _, join
from envcheck.core.simulate.machine import SimulatedChip, SimulatedSystem, ToolCondition
from envcheck.core.simulate.reply import ProgramReply

NUMBER, VERSION, NOTHING = "number", "version", ""
DEVICE_INDEX = _("the index of a device")
Change = Callable[[SimulatedSystem, int | str | None], SimulatedSystem]


class FaultScope(Enum):
    """The hosts that a fault applies to."""

    ANY_MACHINE = "any machine"
    WITH_CARDS = "machines with accelerators"
    NAMED = "machines of the vendors that name it"


@dataclass(frozen=True)
class Fault:
    """`value` is the kind of value after the name: a number, a version, or nothing; `apply` gets None without one.

    `after` is the preceding fault in lists and when several are applied; empty: the last.
    """

    summary: str
    apply: Change
    value: str = NOTHING
    means: str = ""
    only: Callable[[SimulatedSystem], bool] = lambda machine: True
    scope: FaultScope = FaultScope.NAMED
    after: str = ""


def find_chip(machine: SimulatedSystem, index: int | str | None, default: int) -> SimulatedChip:
    """Return the chip with that index, or the default one; UsageError if it does not exist."""
    left = machine.listed_chips
    if index is None:
        if not left:
            raise UsageError(
                _("no device of {name} is left for this fault", name=machine.name), _("remove a card-lost fault")
            )
        return left[default]
    for chip in left:
        if chip.index == index:
            return chip
    numbers = join(", ", (str(chip.index) for chip in left))
    raise UsageError(
        _("{name} has no device {index}", name=machine.name, index=index),
        _("its devices are {numbers}", numbers=numbers) if numbers else _("all of its devices are lost"),
    )


def replace_chip(machine: SimulatedSystem, chip: SimulatedChip) -> SimulatedSystem:
    """Return the host with this chip in place of the one with its index."""
    chips = tuple(chip if chip.index == other.index else other for other in machine.chips)
    return replace(machine, chips=chips)


def replace_tool(machine: SimulatedSystem, tool: ToolCondition) -> SimulatedSystem:
    """Return the host with this condition of the vendor's tool."""
    return replace(machine, tool=tool)


def set_amiss(name: str) -> Change:
    """Return a change that sets a fault visible in files and collectors, not in a chip or tool."""
    return lambda machine, _unused: replace(machine, amiss=machine.amiss | {name})


def fail_tool(failure: ProgramReply) -> Change:
    """Return a change that makes the vendor's tool answer every query with this reply."""
    return lambda machine, _unused: replace_tool(machine, replace(machine.tool, failure=failure))


def has_several_chips(machine: SimulatedSystem) -> bool:
    """Return whether the host has more than one chip."""
    return len(machine.chips) > 1
