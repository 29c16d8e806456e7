"""Simulated Kunlunxin hosts: xpu-smi, the driver's version file, XRE, and their faults."""

from __future__ import annotations

from collections.abc import Sequence

from envcheck.core.messages import _
from envcheck.core.simulate.fault import Fault, set_amiss
from envcheck.core.simulate.machine import SimulatedDriver, SimulatedSystem
from envcheck.core.simulate.reply import ProgramReply, SimulatedProgram
from envcheck.core.simulate.vendor_simulation import PathMode, VendorSimulation
from envcheck.vendors.kunlunxin import simulate_xpu_smi

# No public output of xpu-smi without its driver is known. This is nvidia-smi's message, whose formats the tool follows;
# the runtime's own ("dev -1 fail", XRE guide) also stands for a missing card, so it would not name the cause.
_NO_MODULE = (
    "XPU-SMI has failed because it couldn't communicate with the KUNLUNXIN driver. "
    "Make sure that the latest KUNLUNXIN driver is installed and running.\n\n"
)


def _make_programs(machine: SimulatedSystem, now: float) -> Sequence[SimulatedProgram]:
    return (simulate_xpu_smi.make_xpu_smi(machine, now),)


def _make_driver_files(machine: SimulatedSystem, driver: SimulatedDriver) -> dict[str, str]:
    """Return XRE and the version file.

    Its text is not published: installation scripts take the tenth word of the line with KUNLUN, and Paddle#75925 shows
    both versions.
    """
    tree = f"/usr/local/xpu-{driver.tool_version}"
    libraries = {
        f"{folder}/lib/{name}": "" for folder in (tree, "/usr/local/xpu") for name in ("libxpuml.so.1", "libxpurt.so.2")
    }
    if machine.has_fault("module-gone"):
        return libraries
    version = (
        f"KUNLUN version: KUNLUN UNIX x86_64 Kernel Module for XPU {driver.version} (release)\n"
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module {simulate_xpu_smi.INTERFACE_VERSION}\n"
    )
    return {**({} if machine.has_fault("xre-hidden") else libraries), "/proc/kunlun/version": version}


def _list_path_modes(machine: SimulatedSystem) -> dict[str, PathMode]:
    return {f"/usr/local/bin/{name}": PathMode("file", 0o755) for name in ("xpu-smi", "xpu_smi")}


SIMULATION = VendorSimulation(
    programs=_make_programs,
    files=_make_driver_files,
    paths=_list_path_modes,
    kernel_modules=("kunlun",),
    lost_library="libxpuml.so.1",
    old_driver="5.0.21.16",  # FastDeploy#2660
    no_module=ProgramReply(_NO_MODULE, status=9),
    faults={
        "xre-hidden": Fault(
            _("xpu-smi finds no XRE and shows the version of an interface"), set_amiss("xre-hidden"), after="iommu-on"
        ),
        "sbl-old": Fault(_("SBL firmware older than FastDeploy requires"), set_amiss("sbl-old"), after="xre-hidden"),
    },
    shared_faults=frozenset({"ecc", "iommu-on", "rdma-down", "rdma-hidden"}),
)
