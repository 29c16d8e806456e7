"""Simulated Ascend machines: npu-smi, hccn_tool, driver and CANN, and their faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

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
from envcheck.core.simulate.machine import Machine
from envcheck.core.simulate.reply import Program
from envcheck.core.simulate.vendor_simulation import VendorSimulation
from envcheck.vendors.ascend import simulate_driver_files, simulate_hccn_tool, simulate_npu_smi

# Both codes are of on-chip memory (MindCluster's fault list); which word the table prints for each was not found.
_WARNING, _ALARM = ("Warning", "80E18402"), ("Alarm", "80E01801")
_DRIVER_USER = 1000  # the driver gives its nodes to HwHiAiUser (uid and gid 1000, mode 660: its container guides)


def _programs(machine: Machine, now: float) -> Sequence[Program]:
    return (simulate_npu_smi.program(machine), simulate_hccn_tool.program(machine))


def _set_health(health: str, error_code: str, default: int) -> Change:
    def apply(machine: Machine, index: int | str | None) -> Machine:
        chip = find_chip(machine, index, default)
        return replace_chip(machine, replace(chip, health=health, error_code=error_code))

    return apply


def _take_link_down(machine: Machine, index: int | str | None) -> Machine:
    return replace_chip(machine, replace(find_chip(machine, index, 0), link_up=False))


_FAULTS: Mapping[str, Fault] = {
    "health-warning": Fault("Health reads Warning", _set_health(*_WARNING, 0), NUMBER, DEVICE_INDEX, after="card-lost"),
    "health-alarm": Fault("Health reads Alarm", _set_health(*_ALARM, -1), NUMBER, DEVICE_INDEX, after="health-warning"),
    "link-down": Fault("the network port of one device is down", _take_link_down, NUMBER, DEVICE_INDEX, after="ecc"),
    "dcmi-8005": Fault(
        "npu-smi cannot initialise DCMI", fail_tool(simulate_npu_smi.DCMI_8005), after="library-mismatch"
    ),
    "dcmi-8020": Fault(
        "npu-smi finds the device used by others", fail_tool(simulate_npu_smi.DCMI_8020), after="dcmi-8005"
    ),
    "dcmi-writable": Fault("libdcmi.so may be written by everybody", set_amiss("dcmi-writable"), after="runc-open"),
    "mount-folder": Fault(
        "a folder stands where the driver's install record should", set_amiss("mount-folder"), after="dcmi-writable"
    ),
    "opp-other": Fault("the operator package is of another CANN", set_amiss("opp-other"), after="path-dead"),
    "kernels-missing": Fault(
        "the operators' kernels are not installed", set_amiss("kernels-missing"), after="opp-other"
    ),
    "nnal-other": Fault("NNAL/ATB is of another CANN", set_amiss("nnal-other"), after="kernels-missing"),
    "ports-open": Fault(
        "HCCL's ports are not kept from being given to others",
        set_amiss("ports-open"),
        only=has_several_chips,
        after="standard-old",
    ),
    "tls-uneven": Fault(
        "TLS is on at the port of the first NPU alone",
        set_amiss("tls-uneven"),
        only=has_several_chips,
        after="ports-open",
    ),
}
SIMULATION = VendorSimulation(
    programs=_programs,
    files=simulate_driver_files.files,
    paths=simulate_driver_files.paths,
    node_owner=_DRIVER_USER,
    node_mode=0o660,
    kernel_modules=("drv_davinci_intf_host", "drv_devmng_host", "drv_pcie_host"),
    lost_library="libascend_hal.so",
    old_driver="22.0.4",  # seen in public outputs of npu-smi
    no_module=simulate_npu_smi.DCMI_8005,
    faults=_FAULTS,
    shared_faults=frozenset({"ecc", "runc-open", "path-dead", "cpu-manager", "library-twice"}),
)
