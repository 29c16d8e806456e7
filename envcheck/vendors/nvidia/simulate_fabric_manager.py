"""The fabric manager of NVSwitches, and systemctl, which starts it."""

from __future__ import annotations

from envcheck.core.simulate.machine import SimulatedSystem
from envcheck.core.simulate.reply import ProgramReply, SimulatedProgram


def has_switches(machine: SimulatedSystem) -> bool:
    """Return whether the simulated host has NVSwitches."""
    return any("NVSwitch" in line for line in machine.pci)


def make_fabric_programs(machine: SimulatedSystem) -> tuple[SimulatedProgram, ...]:
    """Return systemctl, and the fabric manager if there are NVSwitches."""
    assert machine.driver is not None
    state = "failed" if machine.has_fault("fabric-down") else "active"
    unit = ("loaded", state) if has_switches(machine) else ("not-found", "inactive")
    text = "LoadState={}\nActiveState={}\n".format(*unit)
    show = {"show nvidia-fabricmanager -p LoadState,ActiveState": ProgramReply(text)}
    version = {"--version": ProgramReply(f"Fabric Manager version is : {machine.driver.version}\n")}
    unknown = ProgramReply(err="this simulated systemctl supports only nvidia-fabricmanager\n", status=1)
    manager = SimulatedProgram("nv-fabricmanager", version, (("", unknown),))
    return (SimulatedProgram("systemctl", show, (("", unknown),)), *([manager] if has_switches(machine) else []))
