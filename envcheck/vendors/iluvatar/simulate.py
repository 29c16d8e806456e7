"""Simulated Iluvatar hosts: ixsmi, the CoreX tree, and their faults."""

from __future__ import annotations

from collections.abc import Sequence

from envcheck.core.messages import _
from envcheck.core.simulate.fault import Fault, set_amiss
from envcheck.core.simulate.machine import SimulatedDriver, SimulatedSystem
from envcheck.core.simulate.reply import ProgramReply, SimulatedProgram
from envcheck.core.simulate.vendor_simulation import PathMode, VendorSimulation
from envcheck.vendors.iluvatar import simulate_ixsmi

_NO_MODULE = (
    "IX-SMI has failed because it couldn't communicate with the Iluvatar driver. "
    "Make sure that the latest Iluvatar driver is installed and running.\n"
)


def _make_programs(machine: SimulatedSystem, now: float) -> Sequence[SimulatedProgram]:
    return (simulate_ixsmi.make_ixsmi(machine),)


def _make_toolkit_files(machine: SimulatedSystem, driver: SimulatedDriver) -> dict[str, str]:
    """Return the CoreX tree under its version, and under the installer's link without version."""
    tree = "3.1.0" if machine.has_fault("corex-other") else driver.tool_version
    folders = (f"/usr/local/corex-{tree}", "/usr/local/corex")
    return {f"{folder}/lib64/{library}": "" for folder in folders for library in ("libcuda.so.1", "libixml.so")}


def _list_path_modes(machine: SimulatedSystem) -> dict[str, PathMode]:
    return {"/usr/local/bin/ixsmi": PathMode("file", 0o755)}


SIMULATION = VendorSimulation(
    programs=_make_programs,
    files=_make_toolkit_files,
    paths=_list_path_modes,
    kernel_modules=("iluvatar",),
    lost_library="libixml.so",
    old_driver="3.1.0",  # from public outputs of ixsmi
    no_module=ProgramReply(_NO_MODULE, status=9),
    faults={
        "corex-other": Fault(
            _("the CoreX tree and the driver have different versions"), set_amiss("corex-other"), after="iommu-on"
        ),
    },
    shared_faults=frozenset({"library-twice", "iommu-on"}),
)
