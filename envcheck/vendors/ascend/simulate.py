"""Simulated Ascend hosts: npu-smi, hccn_tool, driver and CANN, and their faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from envcheck.core.messages import _
from envcheck.core.simulate.fault import (
    DEVICE_INDEX,
    NUMBER,
    Change,
    Fault,
    fail_tool,
    find_chip,
    has_several_chips,
    replace_chip,
    set_amiss,
)
from envcheck.core.simulate.machine import SimulatedSystem
from envcheck.core.simulate.reply import SimulatedProgram
from envcheck.core.simulate.vendor_simulation import VendorSimulation
from envcheck.vendors.ascend import simulate_driver_files, simulate_hccn_tool, simulate_npu_smi

# Both codes are for on-chip memory (MindCluster's fault list); the tool's word for each is not documented.
_WARNING, _ALARM = ("Warning", "80E18402"), ("Alarm", "80E01801")
_DRIVER_USER = 1000  # HwHiAiUser owns the nodes (uid and gid 1000, mode 660: Ascend's container guides)


def _make_programs(machine: SimulatedSystem, now: float) -> Sequence[SimulatedProgram]:
    return (simulate_npu_smi.make_npu_smi(machine), simulate_hccn_tool.make_hccn_tool(machine))


def _set_health(health: str, error_code: str, default: int) -> Change:
    def apply(machine: SimulatedSystem, index: int | str | None) -> SimulatedSystem:
        chip = find_chip(machine, index, default)
        return replace_chip(machine, replace(chip, health=health, error_code=error_code))

    return apply


def _take_link_down(machine: SimulatedSystem, index: int | str | None) -> SimulatedSystem:
    return replace_chip(machine, replace(find_chip(machine, index, 0), link_up=False))


_FAULTS: Mapping[str, Fault] = {
    "health-warning": Fault(_("health is Warning"), _set_health(*_WARNING, 0), NUMBER, DEVICE_INDEX, after="card-lost"),
    "health-alarm": Fault(_("health is Alarm"), _set_health(*_ALARM, -1), NUMBER, DEVICE_INDEX, after="health-warning"),
    "link-down": Fault(_("the network port of one device is down"), _take_link_down, NUMBER, DEVICE_INDEX, after="ecc"),
    "dcmi-8005": Fault(
        _("npu-smi cannot initialise DCMI"), fail_tool(simulate_npu_smi.DCMI_8005), after="library-mismatch"
    ),
    "dcmi-8020": Fault(
        _("npu-smi reports that the device is in use"), fail_tool(simulate_npu_smi.DCMI_8020), after="dcmi-8005"
    ),
    "dcmi-writable": Fault(_("everyone can write libdcmi.so"), set_amiss("dcmi-writable"), after="runc-open"),
    "mount-folder": Fault(
        _("the driver's install record is a folder"), set_amiss("mount-folder"), after="dcmi-writable"
    ),
    "opp-other": Fault(
        _("the operator package is from another CANN release"), set_amiss("opp-other"), after="path-dead"
    ),
    "kernels-missing": Fault(
        _("the operator kernels are not installed"), set_amiss("kernels-missing"), after="opp-other"
    ),
    "nnal-other": Fault(_("NNAL/ATB is from another CANN release"), set_amiss("nnal-other"), after="kernels-missing"),
    "ports-open": Fault(
        _("the ports of HCCL are not reserved"),
        set_amiss("ports-open"),
        only=has_several_chips,
        after="standard-old",
    ),
    "tls-uneven": Fault(
        _("TLS is on only at the port of the first NPU"),
        set_amiss("tls-uneven"),
        only=has_several_chips,
        after="ports-open",
    ),
}
SIMULATION = VendorSimulation(
    programs=_make_programs,
    files=simulate_driver_files.make_driver_files,
    paths=simulate_driver_files.list_path_modes,
    node_owner=_DRIVER_USER,
    node_mode=0o660,
    kernel_modules=("drv_davinci_intf_host", "drv_devmng_host", "drv_pcie_host"),
    lost_library="libascend_hal.so",
    old_driver="22.0.4",  # from public outputs of npu-smi
    no_module=simulate_npu_smi.DCMI_8005,
    faults=_FAULTS,
    shared_faults=frozenset({"ecc", "runc-open", "path-dead", "cpu-manager", "library-twice"}),
)
