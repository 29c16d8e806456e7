"""A vendor's simulation, exported by its simulate.py as SIMULATION: tools, files and faults of a simulated host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from envcheck.core.simulate.fault import Fault
from envcheck.core.simulate.machine import SimulatedDriver, SimulatedSystem
from envcheck.core.simulate.reply import ProgramReply, SimulatedProgram

ROOT = 0


@dataclass(frozen=True)
class PathMode:
    """A path owned by root: `kind` is "file" or "folder", `mode` its permissions."""

    kind: str
    mode: int


def _no_programs(machine: SimulatedSystem, now: float) -> Sequence[SimulatedProgram]:
    return ()


def _no_files(machine: SimulatedSystem, driver: SimulatedDriver) -> Mapping[str, str]:
    return {}


def _no_paths(machine: SimulatedSystem) -> Mapping[str, PathMode]:
    return {}


@dataclass(frozen=True)
class VendorSimulation:
    """`programs` are the vendor's executables at a time in seconds since 1970, first the tool that lists devices.

    `files` are path → text of driver and toolkit (empty for libraries); device nodes need no entry.  `paths` are those
    whose owner and mode a check reads.  `kernel_modules` are loaded; `lost_library` is the one that `library-lost`
    removes.  `old_driver` is older than every recipe's minimum; `cuda_of_driver` is the CUDA version that the tool
    shows, by driver branch, if it differs from the host's.  `no_module` is every answer of the tool without its kernel
    module, `mismatch` if its library is newer than the module; None: the tool still works.  `faults` are the vendor's
    own, `shared_faults` generic ones that apply only to some vendors.
    """

    programs: Callable[[SimulatedSystem, float], Sequence[SimulatedProgram]] = _no_programs
    files: Callable[[SimulatedSystem, SimulatedDriver], Mapping[str, str]] = _no_files
    paths: Callable[[SimulatedSystem], Mapping[str, PathMode]] = _no_paths
    node_owner: int = ROOT
    node_mode: int = 0o666
    kernel_modules: tuple[str, ...] = ()
    lost_library: str = ""
    old_driver: str = "0.1"
    cuda_of_driver: Mapping[int, str] = field(default_factory=dict)
    no_module: ProgramReply | None = None
    mismatch: Callable[[str], ProgramReply] | None = None
    faults: Mapping[str, Fault] = field(default_factory=dict)
    shared_faults: frozenset[str] = frozenset()
