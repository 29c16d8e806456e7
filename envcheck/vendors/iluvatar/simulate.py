"""Simulated Iluvatar machines: ixsmi, the CoreX tree, and their faults."""

from __future__ import annotations

from collections.abc import Sequence

from envcheck.core.simulate.fault import Fault, set_amiss
from envcheck.core.simulate.machine import Driver, Machine
from envcheck.core.simulate.reply import Program, Reply
from envcheck.core.simulate.vendor_simulation import PathMode, VendorSimulation
from envcheck.vendors.iluvatar import simulate_ixsmi

_NO_MODULE = (
    "IX-SMI has failed because it couldn't communicate with the Iluvatar driver. "
    "Make sure that the latest Iluvatar driver is installed and running.\n"
)


def _programs(machine: Machine, now: float) -> Sequence[Program]:
    return (simulate_ixsmi.program(machine),)


def _files(machine: Machine, driver: Driver) -> dict[str, str]:
    """The tree that the libraries came in, under its version and, as the installer links it, without."""
    tree = "3.1.0" if machine.is_amiss("corex-other") else driver.tool
    folders = (f"/usr/local/corex-{tree}", "/usr/local/corex")
    return {f"{folder}/lib64/{library}": "" for folder in folders for library in ("libcuda.so.1", "libixml.so")}


def _paths(machine: Machine) -> dict[str, PathMode]:
    return {"/usr/local/bin/ixsmi": PathMode("file", 0o755)}


SIMULATION = VendorSimulation(
    programs=_programs,
    files=_files,
    paths=_paths,
    kernel_modules=("iluvatar",),
    lost_library="libixml.so",
    old_driver="3.1.0",  # seen in public outputs of ixsmi
    no_module=Reply(_NO_MODULE, status=9),
    faults={
        "corex-other": Fault(
            "the CoreX tree is of another version than the driver", set_amiss("corex-other"), after="iommu-on"
        ),
    },
    shared_faults=frozenset({"library-twice", "iommu-on"}),
)
