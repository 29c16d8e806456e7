"""The facts about a host, as frozen data.

None means that the value is unknown; 0 and "" are values.  Units are in the field names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envcheck.core.messages import NOTHING, Message
from envcheck.core.model import Answer, Device, Document, Process, Remedy, Topology
from envcheck.core.vendor import Vendor


@dataclass(frozen=True)
class CardFit:
    """Whether the job's memory fits on one device: now, and if no other process used the device.  None: unknown.

    `place` is the device's position in the vendor tool's list, from 0.
    """

    place: int
    fits: bool | None
    fits_idle: bool | None


@dataclass(frozen=True)
class JobFit:
    """The planner's verdict on a job's memory or its parallel degrees on this host's devices; `fits` is None if
    unknown."""

    fits: bool | None
    reason: Message
    remedy: Remedy | None = None
    predicted_bytes: int | None = None
    cards: tuple[CardFit, ...] = ()


@dataclass(frozen=True)
class ScriptVerdict:
    """What the linter found in the file or the command of a user's own job, and the programs that PATH does not have.

    `unsure` are absent programs that the script may put into PATH itself; `unread` is why the script cannot be parsed,
    `no_training` why no training was found in it.
    `is_linted` is false for a recipe's job in the user's own environment, of which only the programs are known.
    """

    name: str
    is_file: bool
    mistakes: tuple[Message, ...] = ()
    warnings: tuple[Message, ...] = ()
    unread: Message = NOTHING
    unread_remedy: Message = NOTHING
    absent: tuple[Message, ...] = ()
    unsure: tuple[Message, ...] = ()
    is_linted: bool = True
    no_training: Message = NOTHING


@dataclass(frozen=True)
class MachineRequirements:
    """What a recipe's job requires of one host, so that checks do not depend on recipes or on the planner.

    `cards` counts devices as the vendor tool lists them (chips on Iluvatar, dies on Ascend A3); `processes` is per
    node.  `devices` are the positions of the selected devices in the tool's list; None means any.  `memory_gib` is the
    required size of a device, and `free_gib` what the job itself uses of it, if the recipe states that.  `disk_reason`
    explains how the disk space was calculated.  `packages` are (name, specifier).  `script` is that of a user's own
    job, None for a recipe's, and on another machine than the one that has the script.
    """

    recipe: str
    method: str
    device: str
    nodes: int = 1
    processes: int = 1
    cards: int | None = None
    devices: tuple[int, ...] | None = None
    memory_gib: float | None = None
    free_gib: float | None = None
    architectures: tuple[str, ...] = ()
    driver_minimum: str | None = None
    toolkit_minimum: str | None = None
    firmware_minimum: str | None = None
    host_memory_gib: float | None = None
    shm_gib: float | None = None
    disk_gib: float | None = None
    disk_reason: str = ""
    image: str | None = None
    packages: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    fit: JobFit | None = None
    degrees: JobFit | None = None
    script: ScriptVerdict | None = None


@dataclass(frozen=True)
class SystemFacts:
    """The operating system and the host; `in_container` is derived from the usual marker files and cgroups."""

    hostname: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    os: str | None = None
    cpu_count: int | None = None
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_used_bytes: int | None = None
    hugepages_total: int | None = None
    hugepages_free: int | None = None
    hugepage_bytes: int | None = None
    numa_nodes: int | None = None
    euid: int | None = None
    in_container: bool | None = None


@dataclass(frozen=True)
class Disk:
    """Size and free space of the file system at one path."""

    total_bytes: int | None = None
    free_bytes: int | None = None


@dataclass(frozen=True)
class Limits:
    """Resource limits of this process (ulimit); -1 is unlimited."""

    open_files_soft: int | None = None
    open_files_hard: int | None = None
    memlock_soft_bytes: int | None = None
    memlock_hard_bytes: int | None = None


@dataclass(frozen=True)
class Interface:
    """One network interface; `mtu` is in bytes."""

    addresses: tuple[str, ...] = ()
    mtu: int | None = None
    up: bool | None = None


@dataclass(frozen=True)
class Network:
    """Name resolution and interfaces; `resolves_to` are the addresses of the host's own name, None if it does not
    resolve."""

    resolves_to: tuple[str, ...] | None = None
    interfaces: Mapping[str, Interface] = field(default_factory=dict)


@dataclass(frozen=True)
class Packages:
    """A Python interpreter and its installed packages by normalised name; `unmet` are the packages with missing
    dependencies."""

    python: str | None = None
    executable: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    unmet: tuple[str, ...] | None = None


@dataclass(frozen=True)
class EngineFacts:
    """The output of `docker info`; `cdi` are the device names (iluvatar.com/gpu=0) in the CDI files of the engine.

    `error` is the engine's own message if it is unreachable; `default_runtime` runs containers that name no runtime.
    """

    version: str | None = None
    runtimes: tuple[str, ...] = ()
    default_runtime: str | None = None
    root_dir: str | None = None
    error: str | None = None
    cdi: tuple[str, ...] = ()


@dataclass(frozen=True)
class VendorFacts:
    """The facts about one vendor's accelerators; `vendor` is the vendor's record.

    `tool` is the answer that `document` was parsed from: the first of Vendor.devices that lists devices, else the first
    with any output.  `processes`, `pci` and `nodes` are None if unknown.  `documents` are the parsed detail answers by
    question key.  `per_device[id][kind]` are the parsed follow-up answers: board, usages, health and ecc by NPU id;
    link, ip and net_health by the physical id of the die.
    """

    vendor: Vendor
    tool: Answer | None = None
    document: Document | None = None
    devices: tuple[Device, ...] = ()
    processes: tuple[Process, ...] | None = None
    topology: Topology | None = None
    pci: tuple[str, ...] | None = None
    nodes: tuple[str, ...] | None = None
    documents: Mapping[str, Document] = field(default_factory=dict)
    per_device: Mapping[int, Mapping[str, Document]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The vendor's name, as in --device."""
        return self.vendor.name


@dataclass(frozen=True)
class Facts:
    """Everything that a check can read.  None: the question was not answered; `answers` has the outcome and the
    evidence.

    `device` is the requested vendor; `vendors` are those found (none: checked as a CPU-only machine). `environments`
    are the virtual environments that `provision` created, by recipe; `proofs` the digests of the recipes that it
    verified on this host; `published_containers` the recipes whose container uses the published document's own options;
    `container_cards` the device node numbers in the recipes' containers; `thresholds` the limits set in envcheck.toml.
    """

    device: str = "auto"
    vendors: tuple[VendorFacts, ...] = ()
    host: SystemFacts | None = None
    disks: Mapping[str, Disk] | None = None
    limits: Limits | None = None
    environment: Mapping[str, str] | None = None
    network: Network | None = None
    clock_synchronised: bool | None = None
    packages: Packages | None = None
    environments: Mapping[str, Packages] = field(default_factory=dict)
    proofs: Mapping[str, str] = field(default_factory=dict)
    engine: EngineFacts | None = None
    answers: Mapping[str, Answer] = field(default_factory=dict)
    wanted: MachineRequirements | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    published_containers: tuple[str, ...] = ()
    container_cards: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
