"""The fabric manager of NVSwitches, and systemctl, which starts it."""

from __future__ import annotations

from envcheck.core.simulate.machine import Machine
from envcheck.core.simulate.reply import Program, Reply


def has_switches(machine: Machine) -> bool:
    return any("NVSwitch" in line for line in machine.pci)


def programs(machine: Machine) -> tuple[Program, ...]:
    """systemctl on every machine; the manager itself where there are switches."""
    assert machine.driver is not None
    state = "failed" if machine.is_amiss("fabric-down") else "active"
    unit = ("loaded", state) if has_switches(machine) else ("not-found", "inactive")
    said = "LoadState={}\nActiveState={}\n".format(*unit)
    show = {"show nvidia-fabricmanager -p LoadState,ActiveState": Reply(said)}
    version = {"--version": Reply(f"Fabric Manager version is : {machine.driver.version}\n")}
    unknown = Reply(err="this simulated one knows the fabric manager alone\n", status=1)
    manager = Program("nv-fabricmanager", version, (("", unknown),))
    return (Program("systemctl", show, (("", unknown),)), *([manager] if has_switches(machine) else []))
