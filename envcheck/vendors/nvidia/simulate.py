"""Simulated NVIDIA hosts: nvidia-smi, the fabric manager, files of the kernel module, and their faults."""

from __future__ import annotations

from collections.abc import Sequence

from envcheck.core.messages import _
from envcheck.core.simulate.fault import Fault, set_amiss
from envcheck.core.simulate.machine import SimulatedDriver, SimulatedSystem
from envcheck.core.simulate.reply import ProgramReply, SimulatedProgram
from envcheck.core.simulate.vendor_simulation import VendorSimulation
from envcheck.vendors.nvidia import simulate_fabric_manager, simulate_nvidia_smi

_NO_MODULE = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n\n"
)


def _make_programs(machine: SimulatedSystem, now: float) -> Sequence[SimulatedProgram]:
    return (simulate_nvidia_smi.make_nvidia_smi(machine, now), *simulate_fabric_manager.make_fabric_programs(machine))


def _make_driver_files(machine: SimulatedSystem, driver: SimulatedDriver) -> dict[str, str]:
    if machine.has_fault("module-gone"):
        return {}
    kind = "Open Kernel Module for x86_64" if driver.open_module else "x86_64 Kernel Module"
    module = f"NVRM version: NVIDIA UNIX {kind}  {driver.version}  Wed Feb 26 02:10:37 UTC 2025\n"
    compiler = "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
    links = {f"/dev/char/195:{chip.index}": "" for chip in machine.chips}
    return {**links, "/proc/driver/nvidia/version": module + compiler}


SIMULATION = VendorSimulation(
    programs=_make_programs,
    files=_make_driver_files,
    kernel_modules=("nvidia", "nvidia_uvm"),
    lost_library="libnvidia-ml.so.1",
    old_driver="470.103.01",  # from public outputs of nvidia-smi
    cuda_of_driver={470: "11.4"},
    no_module=ProgramReply(_NO_MODULE, status=9),
    mismatch=simulate_nvidia_smi.mismatch_reply,
    faults={
        "fabric-down": Fault(
            _("the fabric manager of the NVSwitches has failed"),
            set_amiss("fabric-down"),
            only=simulate_fabric_manager.has_switches,
            after="rdma-hidden",
        ),
    },
    shared_faults=frozenset({"ecc", "rdma-down", "rdma-hidden"}),
)
