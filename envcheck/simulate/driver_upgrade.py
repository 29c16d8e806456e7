"""The driver of a simulated machine on which recipes are provisioned: each has the version that it requires."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from envcheck.core import versions
from envcheck.core.simulate.machine import SimulatedSystem
from envcheck.simulate.vendor_simulations import load_simulations


def upgrade_driver(machine: SimulatedSystem, minimums: Iterable[str]) -> SimulatedSystem:
    """Return the machine with a driver that is at least as new as all the minimums of its vendor's recipes."""
    for minimum in minimums:
        if machine.driver is not None and versions.is_at_least(machine.driver.version, minimum) is False:
            machine = change_driver(machine, minimum.lower())
    return machine


def change_driver(machine: SimulatedSystem, version: str) -> SimulatedSystem:
    """Return the machine with this driver, and the CUDA version of it; the toolkit stays."""
    assert machine.driver is not None
    known = load_simulations()[machine.vendor].cuda_of_driver
    cuda = known.get(int(re.split(r"\D", version)[0]), machine.driver.cuda)
    return replace(machine, driver=replace(machine.driver, version=version, library="", cuda=cuda))
