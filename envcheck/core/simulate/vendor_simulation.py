"""What a vendor's simulate.py exports as SIMULATION: its tools, files and faults on a simulated machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from envcheck.core.simulate.fault import Fault
from envcheck.core.simulate.machine import Driver, Machine
from envcheck.core.simulate.reply import Program, Reply

ROOT = 0


@dataclass(frozen=True)
class PathMode:
    """What root owns at a path: `kind` is "file" or "folder", `mode` its permissions."""

    kind: str
    mode: int


def _no_programs(machine: Machine, now: float) -> Sequence[Program]:
    return ()


def _no_files(machine: Machine, driver: Driver) -> Mapping[str, str]:
    return {}


def _no_paths(machine: Machine) -> Mapping[str, PathMode]:
    return {}


@dataclass(frozen=True)
class VendorSimulation:
    """`programs` are the vendor's executables at a time in seconds since 1970, the tool that lists devices first.

    `files` are path → text of driver and toolkit (empty for libraries); device nodes need no entry.  `paths` are those
    whose owners and modes a check looks at.  `kernel_modules` are loaded; `lost_library` is what `library-lost` takes.
    `old_driver` is older than every recipe's minimum; `cuda_of_driver` is the CUDA version that the tool shows, by the
    branch of the driver, where it is not the machine's.  `no_module` is every answer of the tool when its kernel module
    is gone, `mismatch` when its library of a given version is newer than the module; None: the tool goes on.
    `faults` are the vendor's own, `shared_faults` names of generic ones that not every vendor's cards can have.
    """

    programs: Callable[[Machine, float], Sequence[Program]] = _no_programs
    files: Callable[[Machine, Driver], Mapping[str, str]] = _no_files
    paths: Callable[[Machine], Mapping[str, PathMode]] = _no_paths
    node_owner: int = ROOT
    node_mode: int = 0o666
    kernel_modules: tuple[str, ...] = ()
    lost_library: str = ""
    old_driver: str = "0.1"
    cuda_of_driver: Mapping[int, str] = field(default_factory=dict)
    no_module: Reply | None = None
    mismatch: Callable[[str], Reply] | None = None
    faults: Mapping[str, Fault] = field(default_factory=dict)
    shared_faults: frozenset[str] = frozenset()
